"""Live checks tell what speaks against a run in the update where it shows; strict training stops there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.runs import RunFolder, load_block
from surefoot.sessions import TrainOptions, resume, train
from surefoot.training import LIVE_CHECKS, iteration, make_plan
from surefoot.training.live import REPEATS, LiveChecks
from tiny import surefoot

ROW = {"reward_per_step": 0.1, "reward.slip": -0.2, "first_ratio_error": 4e-6, "reset.timeout": 0, "kl": 0.01}


def checks(strict: bool = False) -> LiveChecks:
    return LiveChecks(make_plan("tiny:walk"), episode_steps=1000, strict=strict)


def told(live: LiveChecks, update: int = 1, **changes: Any) -> list[str]:
    row = {"update": update} | ROW | changes
    found = live.look(row)
    assert {k for k in row if k.startswith("live.")} == {f"live.{f.name}" for f in found}
    return [f.name for f in found]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("first-ratio", {"first_ratio_error": 0.002}),
        ("lockstep", {"reset.timeout": 9}),
        ("lockstep", {"honesty.reset_fano": 12.0}),
        ("lockstep", {"honesty.lockstep": 0.9}),
        ("non-finite", {"value_loss": math.nan}),
        ("non-finite", {"skipped_steps": 1}),
        ("non-finite", {"reset.nonfinite": 2}),
    ],
)
def test_each_is_told_once_and_a_clean_row_tells_nothing(name: str, changes: dict[str, Any]) -> None:
    live = checks()
    assert told(live) == []
    assert told(live, 2, **changes) == [name]
    assert told(live, 3, **changes) == []
    assert live.stop == "", "nobody asked to be strict"
    assert name in LIVE_CHECKS


def test_a_single_state_that_is_not_finite_is_an_event_and_no_finding() -> None:
    assert told(checks(), **{"reset.nonfinite": 1}) == []


def test_a_term_that_never_changes_is_told_and_one_that_pays_nothing_is_not() -> None:
    live = checks()
    names = [told(live, u, **{"reward.slip": -0.2, "reward.limits": 0.0}) for u in range(1, REPEATS + 1)]
    assert names[-1] == ["constant-term"]
    assert not any(names[:-1])
    live = checks()
    assert not any(told(live, u, **{"reward.slip": -0.2 + 1e-9 * u}) for u in range(1, 2 * REPEATS))


def test_what_stays_still_between_checkpoints_is_told() -> None:
    live = checks()
    saved = {
        "learner.obs_normalizer.mean": torch.zeros(3),
        "learner.networks.actor.0.weight": torch.zeros(2, 3),
    }
    live.saved(saved, 0)
    live.saved({k: v + 1 for k, v in saved.items()}, 2)
    assert told(live, 3) == []
    live.saved({"learner.obs_normalizer.mean": torch.ones(3)} | {
        "learner.networks.actor.0.weight": torch.full((2, 3), 2.0)
    }, 4)  # fmt: skip
    assert told(live, 5) == ["still-normaliser"]
    live.saved({k: 3.0 + torch.zeros_like(v) for k, v in saved.items()}, 6)
    live.saved({"learner.obs_normalizer.mean": torch.zeros(3)} | {
        "learner.networks.actor.0.weight": torch.full((2, 3), 3.0)
    }, 8)  # fmt: skip
    assert told(live, 9) == ["still-weights"]


def test_strict_says_what_it_stops_for() -> None:
    live = checks(strict=True)
    told(live, 4, first_ratio_error=44.0)
    assert live.stop.startswith("Update 4, first-ratio: the first ratio is off 1 by 44")


def other_samples(right: Callable[..., float], *given: Any) -> float:
    """Collects, and says of every action that it was half as likely."""
    seconds = right(*given)
    given[2].log_prob.sub_(0.7)
    return seconds


def test_strict_training_stops_saves_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = iteration.collect
    with monkeypatch.context() as planted:
        planted.setattr(iteration, "collect", lambda *given: other_samples(right, *given))
        short = ("--perturb", "none", "--tracker", "none", "--quiet")
        assert (
            surefoot("train", "tiny:walk", "--updates", "4", "--strict", "--out", tmp_path / "r", *short) == 1
        )
    said = " ".join(capsys.readouterr().out.split())
    assert "Update 1, first-ratio: the first ratio is off 1" in said
    assert "as --strict asks" in said
    assert "--resume" in said
    run = RunFolder.open(tmp_path / "r")
    assert (run.record.status, run.record.confirmation) == ("interrupted", None)
    assert "first-ratio" in (run.record.error or "")
    rows = run.ledger.rows()
    assert len(rows) == 1
    assert "off 1" in rows[0]["live.first-ratio"]
    done = resume(tmp_path / "r", updates=2, strict=True)
    assert done.exit_status == 0
    assert done.summary is not None
    assert done.run.record.error is None
    assert "Told while it trained" in (tmp_path / "r" / "report.html").read_text()


def test_what_is_not_strict_goes_on_and_is_unproven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = iteration.collect
    monkeypatch.setattr(iteration, "collect", lambda *given: other_samples(right, *given))
    short = ("--perturb", "none", "--tracker", "none", "--json")
    assert surefoot("train", "tiny:walk", "--updates", "2", "--out", tmp_path / "run", *short) == 0
    out, err = capsys.readouterr()
    assert err.count("first-ratio: the first ratio") == 1, "once, though it shows in every update"
    judged = json.loads(out)["judgement"]
    assert judged["verdict"] == "Unproven"
    assert "learning" in [f["cause"] for f in judged["audit"]["findings"]]


def test_a_clean_run_is_told_nothing(tiny_run: Path) -> None:
    rows = RunFolder.open(tiny_run).ledger.rows()
    assert [k for row in rows for k in row if k.startswith("live.")] == []


def test_a_run_that_goes_on_is_judged_as_it_was_asked_for(tmp_path: Path) -> None:
    options = TrainOptions("tiny:walk", updates=2, perturb=("friction_0.3",), baselines=False)
    first = train(TrainOptions(**vars(options) | {"out": str(tmp_path / "run")}))
    assert first.run.record.closing is not None
    again = resume(tmp_path / "run", updates=3)
    columns = [s.columns for s in (first.summary, again.summary) if s is not None]
    assert [{c.column for c in of} for of in columns] == [{"nominal", "friction_0.3"}] * 2
    bare = resume(tmp_path / "run", updates=4, perturb=("none",))
    assert bare.summary is not None
    assert {c.column for c in bare.summary.columns} == {"nominal"}
    closing = RunFolder.open(tmp_path / "run").record.closing
    assert closing is not None
    assert (closing.perturb, closing.baselines) == (("none",), False), "what was asked last holds"


def test_a_run_of_before_is_read_and_judged_in_full(tiny_run: Path) -> None:
    record = json.loads((tiny_run / "run.json").read_text())
    del record["closing"]
    assert type(RunFolder.open(tiny_run).record).model_validate(record).closing is None


def test_a_block_is_kept_with_the_keys_of_its_draws(tmp_path: Path) -> None:
    done = train(
        TrainOptions("tiny:walk", updates=2, perturb=("none",), keep_block=True, out=str(tmp_path / "run"))
    )
    arrays, about = load_block(tmp_path / "run")
    r = done.run.record
    assert about["source"] == "training"
    assert about["contract_digest"] == r.contract_digest
    assert arrays["update"] == 2
    assert arrays["root"] == r.seeds.root
    assert arrays["block.obs"].shape[:2] == r.accounting.rollout_shape
    assert np.allclose(arrays["block.returns"], arrays["block.advantage"] + arrays["block.value"], atol=1e-6)
    last = done.run.ledger.rows()[-1]
    assert float(arrays["block.reward"].mean()) == pytest.approx(last["reward_per_step"], rel=1e-5)
    assert np.array_equal(arrays["family"], r.seeds.family_of(arrays["env"]))
