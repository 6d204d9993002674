"""A candidate is promoted when it is better under disturbances and on a second simulator and works by itself,
and only then."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from remeasured import under_another_contract
from surefoot.contract import SurefootError
from surefoot.evidence.promote import promote
from surefoot.printing.promotion import sentence
from surefoot.runs import RunFolder
from surefoot.runs.results import Result, load_result
from tiny import surefoot

FAMILIES, MEMBERS = 32, 8


def made(
    like: Result, disturbed: float, second: float, error: float = 0.2, fast: float = 0.9, shift: float = 0.0
) -> Result:
    """A result with these success rates: under two disturbances, on mujoco, and on stride (trained on)."""
    rng = np.random.default_rng(3)
    n = FAMILIES * MEMBERS
    luck = rng.random((4, n))
    parts = [
        ("friction_0.3", "stride", disturbed, luck[0]),
        ("payload_+3kg", "stride", disturbed, luck[1]),
        ("nominal", "mujoco", second, luck[2]),
        ("nominal", "stride", fast, luck[3]),
    ]
    table = {
        "column": np.repeat([p[0] for p in parts], n),
        "engine": np.repeat([p[1] for p in parts], n),
        "policy": np.repeat(["trained"], 4 * n),
        "scenario": np.tile(np.arange(n), 4),
        "family": np.tile(np.arange(n) // MEMBERS, 4),
        "success": np.concatenate([x < rate for _, _, rate, x in parts]),
        "velocity_error_mps": error + shift + 0.05 * rng.random(4 * n),
    }
    run = like.run.model_copy(update={"engine": "stride"})
    summary = like.summary.model_copy(update={"safety_held": True, "beats_baselines": True})
    return dataclasses.replace(like, run=run, table=table, summary=summary)


@pytest.fixture
def like(tiny_run: Path) -> Result:
    return load_result(RunFolder.open(tiny_run))


def test_better_on_both_is_promoted(like: Result) -> None:
    found = promote(made(like, 0.9, 0.95), made(like, 0.6, 0.7))
    assert found.promoted
    assert found.disturbances is not None
    assert found.disturbances.columns == ("friction_0.3", "payload_+3kg")
    assert found.disturbances.metrics["success"].value == pytest.approx(0.3, abs=0.06)
    assert found.transfer is not None
    assert "mujoco, sim-to-sim" in found.transfer.name, "stride is what both were trained on"


def test_a_cautious_interval_of_few_families_does_not_excuse_a_worse_error(
    like: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 families: the interval of an error allows for differences unseen and holds 0; sign flips do not."""
    monkeypatch.setattr("test_promote.FAMILIES", 16)
    found = promote(made(like, 0.9, 0.95, shift=0.1), made(like, 0.6, 0.7))
    assert found.disturbances is not None
    error = found.disturbances.metrics["velocity_error_mps"]
    assert error.low < 0 < error.high
    assert (error.few, error.p) == (True, pytest.approx(1e-4, abs=1e-3))
    assert found.disturbances.outcome == "worse"
    assert not found.promoted


@pytest.mark.parametrize(
    ("disturbed", "second", "outcomes"),
    [
        (0.9, 0.7, ("better", "no difference shown")),  # tuned to the simulator that it was trained on
        (0.6, 0.95, ("no difference shown", "better")),
        (0.9, 0.4, ("better", "worse")),
        (0.6, 0.7, ("no difference shown", "no difference shown")),
    ],
)
def test_better_on_one_alone_is_not(
    like: Result, disturbed: float, second: float, outcomes: tuple[str, str]
) -> None:
    found = promote(made(like, disturbed, second, fast=1.0), made(like, 0.6, 0.7))
    assert not found.promoted
    assert found.disturbances is not None
    assert found.transfer is not None
    assert (found.disturbances.outcome, found.transfer.outcome) == outcomes


@pytest.mark.parametrize(
    ("disturbed", "second", "missed"),
    [
        (0.4, 0.5, ["success on mujoco", "success under disturbances"]),  # twice as good as the baseline
        (0.4, 0.95, ["success under disturbances"]),
        (0.95, 0.8, ["success on mujoco"]),  # 80% is not shown to be 80%
    ],
)
def test_better_than_what_fails_may_still_be_failing(
    like: Result, disturbed: float, second: float, missed: list[str]
) -> None:
    found = promote(made(like, disturbed, second), made(like, 0.2, 0.25))
    assert found.disturbances is not None
    assert found.transfer is not None
    assert found.disturbances.outcome == found.transfer.outcome == "better"
    assert not found.promoted
    assert [b.name for b in found.bars if not b.met] == missed
    said = sentence(found, [found.disturbances, found.transfer])
    assert "Not promoted" in said
    assert "both must be better" not in said
    for bar in found.bars:
        assert (f"asked {bar.asked}, measured {bar.measured}" in said) == (not bar.met)


@pytest.mark.parametrize(
    ("summary", "says"),
    [({"safety_held": False}, "safety limit is broken"), ({"beats_baselines": False}, "beat every baseline")],
)
def test_what_its_report_calls_failing_is_not_promoted(
    like: Result, summary: dict[str, bool], says: str
) -> None:
    one, two = made(like, 0.9, 0.95), made(like, 0.6, 0.7)
    one = dataclasses.replace(one, summary=one.summary.model_copy(update=summary))
    found = promote(one, two)
    assert not found.promoted
    assert [says in b.measured for b in found.bars if not b.met] == [True]
    assert promote(made(like, 0.9, 0.95), dataclasses.replace(two, summary=one.summary)).promoted


def test_two_that_never_fail_are_told_apart_by_their_error(like: Result) -> None:
    assert promote(made(like, 1.0, 1.0, shift=-0.02), made(like, 1.0, 1.0)).promoted
    assert not promote(made(like, 1.0, 1.0), made(like, 1.0, 1.0)).promoted


def test_more_success_with_larger_errors_is_worse(like: Result) -> None:
    found = promote(made(like, 0.9, 0.95, shift=0.1), made(like, 0.6, 0.7))
    assert found.disturbances is not None
    assert found.disturbances.outcome == "worse"


def test_chance_does_not_promote(like: Result) -> None:
    """Policies that are the same but for luck: neither side may look better more often than it should."""
    rng = np.random.default_rng(4)
    base = made(like, 0.8, 0.8)
    better = 0
    for _ in range(100):
        order = rng.permutation(FAMILIES * MEMBERS)
        table = {
            k: np.concatenate([part[order] for part in np.split(v, 4)])
            if k in ("success", "velocity_error_mps")
            else v
            for k, v in base.table.items()
        }
        found = promote(dataclasses.replace(base, table=table), base)
        assert found.disturbances is not None
        better += found.disturbances.outcome == "better"
        assert not found.promoted or found.disturbances.outcome == "better"
    assert better <= 10


def test_what_was_not_measured_cannot_promote(like: Result) -> None:
    one, two = made(like, 0.9, 0.95), made(like, 0.6, 0.7)
    bare = {k: v[: len(v) // 2] for k, v in one.table.items()}
    with pytest.raises(SurefootError, match="nominal column was not measured"):
        promote(dataclasses.replace(one, table=bare), two)
    bare = {k: v[len(v) // 2 :] for k, v in one.table.items()}
    with pytest.raises(SurefootError, match="No perturbed column"):
        promote(dataclasses.replace(one, table=bare), two)


# ---- the command line


def test_the_command_says_what_it_decided(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("promote", tiny_run, tiny_run) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Not promoted: both must be better." in said
    assert "The candidate does not work by itself. success on mujoco: " in said
    assert surefoot("promote", tiny_run, tiny_run, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["promoted"] is False
    assert found["bars"][0]["name"] == "success on mujoco"
    assert found["bars"][0]["met"] is False
    other = tmp_path / "other"
    shutil.copytree(tiny_run, other)
    success = RunFolder.open(other).record.contract.success
    under_another_contract(other, success=success.model_copy(update={"velocity_error_mps": 0.9}))
    assert surefoot("promote", other, tiny_run) == 3
    assert "What differs" in capsys.readouterr().out
