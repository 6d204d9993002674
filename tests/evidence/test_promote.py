"""A candidate is promoted when it is better under disturbances and on a second simulator, worse in no
stratum, and works by itself, and only then; every decision is counted and kept."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from remeasured import under_another_contract
from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.contract import SurefootError, fresh_panel, fresh_root, make_panel
from surefoot.evidence import Registry, decide, open_registry, promote_run
from surefoot.evidence.promote import promote
from surefoot.printing.promotion import sentence
from surefoot.runs import LOOKS, Look, RunFolder
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.runs.results import Result, load_result
from surefoot.statistics import recount
from tiny import surefoot, tiny_panel

N = 248
PARTS = (
    ("friction_0.3", "friction", "stride", "trained"),
    ("payload_+3kg", "payload", "stride", "trained"),
    ("nominal", "", "mujoco", "trained"),
    ("nominal", "", "stride", "trained"),
    ("baseline:hold-pose", "", "stride", "hold-pose"),
)


def made(
    like: Result, disturbed: float, second: float, shift: float = 0.0, fast: float = 0.95, seed: int = 3
) -> Result:
    """A result of 248 scenarios with these success rates: under two disturbances, on mujoco, on stride (which
    it was trained on). Scenarios are as lucky for one policy as for another."""
    rng = np.random.default_rng(seed)
    rates = (disturbed, disturbed, second, fast, 0.01)
    parts = []
    for (column, perturbation, engine, policy), rate in zip(PARTS, rates, strict=True):
        luck, noise = rng.random(N), 0.05 * rng.random(N)
        rows = {k: np.resize(v, N) for k, v in like.rows.items()}
        names = {"column": column, "perturbation": perturbation, "engine": engine, "policy": policy}
        rows |= {k: np.full(N, v, object) for k, v in {**names, "terrain": "flat"}.items()}
        rows |= {
            "scenario": np.arange(N),
            "family": np.arange(N),
            "member": np.zeros(N, np.int64),
            "key": np.arange(N).astype(like.rows["key"].dtype),
            "success": luck < rate,
            "velocity_error_mps": 0.2 + shift + noise,
            "torque_saturation": np.zeros(N),
        }
        parts.append(rows)
    return told(like, {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}, f"{seed}{rates}{shift}")


def told(like: Result, table: dict[str, np.ndarray], checkpoint: str) -> Result:
    """A result with this table, whose summary says what its rows do."""
    index = np.flatnonzero((table["column"] == "nominal") & (table["engine"] == "mujoco"))
    run = like.run.model_copy(update={"engine": "stride"})
    summary = like.summary.model_copy(update={"checkpoint": checkpoint})
    rows = {k: v[index] for k, v in table.items()}
    found = dataclasses.replace(
        like, run=run, table=table, rows=rows, index=index, engine="mujoco", summary=summary
    )
    return dataclasses.replace(found, summary=recount(table, found.run.contract, summary))


def edited(result: Result, where: np.ndarray, **values: object) -> Result:
    table = dict(result.table)
    for name, value in values.items():
        table[name] = table[name].copy()
        table[name][where] = value
    return told(result, table, result.summary.checkpoint)


@pytest.fixture(scope="module")
def like(tiny_run: Path) -> Result:
    return load_result(RunFolder.open(tiny_run))


# ---- the four outcomes


def test_better_on_both_is_promoted(like: Result) -> None:
    found = promote(made(like, 0.9, 0.95), made(like, 0.6, 0.7))
    assert (found.outcome, found.promoted, found.exit_status) == ("PROMOTE", True, 0), found.reasons
    assert found.disturbances is not None
    assert found.disturbances.columns == ("friction_0.3", "payload_+3kg")
    assert found.disturbances.metrics["success"].value == pytest.approx(0.3, abs=0.06)
    assert {"fall", "yaw_error_radps"} <= set(found.disturbances.beside)
    assert found.transfer is not None
    assert "mujoco, sim-to-sim" in found.transfer.name, "stride is what both were trained on"
    assert found.undecided, "strata of fewer than 64 pairs"
    assert all(s.name in sentence(found) for s in found.undecided)


@pytest.mark.parametrize(
    ("disturbed", "second", "outcomes", "outcome"),
    [
        (0.9, 0.87, ("better", "no difference shown"), "INCONCLUSIVE"),  # tuned to its own simulator
        (0.85, 0.97, ("no difference shown", "better"), "INCONCLUSIVE"),
        (0.9, 0.6, ("better", "worse"), "REJECT"),
        (0.85, 0.87, ("no difference shown", "no difference shown"), "INCONCLUSIVE"),
    ],
)
def test_better_on_one_alone_is_not(
    like: Result, disturbed: float, second: float, outcomes: tuple[str, str], outcome: str
) -> None:
    found = promote(made(like, disturbed, second, fast=1.0), made(like, 0.85, 0.87))
    assert found.disturbances is not None
    assert found.transfer is not None
    assert (found.disturbances.outcome, found.transfer.outcome) == outcomes
    assert found.outcome == outcome, found.reasons


def test_what_was_not_found_is_said_with_what_could_have_been(like: Result) -> None:
    found = promote(made(like, 0.87, 0.9, seed=3), made(like, 0.86, 0.88, seed=4))
    assert (found.outcome, found.exit_status) == ("INCONCLUSIVE", 4)
    side = found.transfer
    assert side is not None
    assert side.detectable is not None
    text = " ".join(found.reasons)
    assert f"a true difference of {100 * side.detectable:.1f} points of success would be found" in text
    need = side.scenarios_for(0.02)
    assert need is not None
    assert f"2 points take --scenarios {need}" in text
    assert need % 64 == 0
    assert need == pytest.approx(N * (side.detectable / 0.02) ** 2, rel=0.05)


@pytest.mark.parametrize(
    ("disturbed", "second", "missed"),
    [
        (0.4, 0.5, ["success on mujoco", "success under disturbances"]),  # twice as good as the baseline
        (0.4, 0.95, ["success under disturbances"]),
    ],
)
def test_better_than_what_fails_may_still_be_failing(
    like: Result, disturbed: float, second: float, missed: list[str]
) -> None:
    found = promote(made(like, disturbed, second), made(like, 0.2, 0.25))
    assert found.disturbances is not None
    assert found.transfer is not None
    assert found.disturbances.outcome == found.transfer.outcome == "better"
    assert [b.name for b in found.bars if b.met is False] == missed
    assert (found.outcome, found.exit_status) == ("REJECT", 1)
    assert all(f"measured {b.measured}" in " ".join(found.reasons) for b in found.bars if b.met is False)


def test_80_percent_is_not_shown_to_be_80_percent(like: Result) -> None:
    found = promote(made(like, 0.95, 0.8), made(like, 0.2, 0.25))
    assert [(b.name, b.met) for b in found.bars if not b.met] == [("success on mujoco", None)]
    assert found.outcome == "INCONCLUSIVE"


def test_safety_and_baselines_are_those_of_the_rows(like: Result) -> None:
    good, base = made(like, 0.9, 0.95), made(like, 0.6, 0.7)
    trained = good.table["policy"] == "trained"
    unsafe = edited(good, trained, torque_saturation=0.5)
    beaten = edited(good, ~trained, success=True)
    for bad, name in ((unsafe, "safety"), (beaten, "baselines")):
        found = promote(bad, base)
        assert [b.name for b in found.bars if b.met is False] == [name]
        assert found.outcome == "REJECT"
        assert promote(good, edited(base, trained, torque_saturation=0.5)).promoted, "a bar of the candidate"
    without = told(good, {k: v[trained] for k, v in good.table.items()}, "x")
    assert [(b.name, b.met) for b in promote(without, base).bars if not b.met] == [("baselines", None)]
    assert promote(without, base).outcome == "INCONCLUSIVE"


def test_two_that_never_fail_are_told_apart_by_their_error(like: Result) -> None:
    assert promote(made(like, 1.0, 1.0, shift=-0.02), made(like, 1.0, 1.0)).promoted
    assert promote(made(like, 1.0, 1.0, seed=5), made(like, 1.0, 1.0)).outcome == "INCONCLUSIVE"


def test_more_success_with_larger_errors_is_worse(like: Result) -> None:
    found = promote(made(like, 0.9, 0.95, shift=0.1), made(like, 0.6, 0.7))
    assert found.disturbances is not None
    assert found.disturbances.outcome == "worse"
    assert found.outcome == "REJECT"


def test_one_policy_cannot_replace_itself(like: Result) -> None:
    good = made(like, 0.9, 0.95)
    assert promote(good, good).outcome == "INVALID"


def test_a_candidate_that_was_trained_on_since_is_no_candidate(like: Result) -> None:
    good = dataclasses.replace(made(like, 0.9, 0.95), caveat="The evidence is of update 3; training went on.")
    found = promote(good, made(like, 0.6, 0.7))
    assert found.outcome == "INVALID"
    assert "training went on" in found.reasons[0]


def test_rows_of_other_scenarios_are_not_paired(like: Result) -> None:
    good, base = made(like, 0.9, 0.95), made(like, 0.6, 0.7)
    other = edited(base, base.table["scenario"] == 5, command_vx=0.123)
    found = promote(good, other)
    assert found.outcome == "INVALID"
    assert "different scenarios" in found.reasons[0]


# ---- strata


def test_a_stratum_that_is_shown_worse_rejects(like: Result) -> None:
    """Better everywhere but on one friction, where it fails: what an average would hide."""
    good, base = made(like, 0.97, 0.98), made(like, 0.6, 0.7)
    at = good.table["friction"] == np.unique(good.table["friction"])[0]
    some = at & (good.table["policy"] == "trained") & (good.table["scenario"] % 8 < 3)
    bad = edited(edited(good, some, friction=2.0), some, success=False)
    base = edited(edited(base, some, friction=2.0), some, success=True)
    found = promote(bad, base)
    worse = [s for s in found.strata if s.outcome == "worse"]
    assert worse
    assert found.outcome == "REJECT"
    assert "Shown worse in " in " ".join(found.reasons)
    assert any(s.name in r for s in worse for r in found.reasons)


def test_chance_alone_rejects_by_strata_seldom(like: Result) -> None:
    """Ten pairs of equal policies, some twenty strata each: without a correction most would be rejected."""
    rejected = [
        any(
            s.outcome == "worse"
            for s in promote(made(like, 0.9, 0.9, seed=k), made(like, 0.9, 0.9, seed=99)).strata
        )
        for k in range(10)
    ]
    assert sum(rejected) <= 2


# ---- the second simulator


def test_on_terrain_native_mujoco_is_no_second_simulator(like: Result) -> None:
    def rough(result: Result) -> Result:
        return edited(result, np.ones(len(result.table["terrain"]), bool), terrain="stairs_up")

    found = promote(rough(made(like, 0.9, 0.95)), rough(made(like, 0.6, 0.7)))
    assert (found.outcome, found.transfer) == ("INCONCLUSIVE", None)
    assert any("No independent reference" in r for r in found.reasons)

    def boxed(result: Result) -> Result:
        table = {k: np.concatenate([v, v[result.index]]) for k, v in result.table.items()}
        table["engine"][-N:] = "mujoco-boxes"
        return told(result, table, result.summary.checkpoint)

    found = promote(boxed(rough(made(like, 0.9, 0.95))), boxed(rough(made(like, 0.6, 0.7))))
    assert found.transfer is not None
    assert "mujoco-boxes" in found.transfer.name
    assert found.outcome == "PROMOTE", found.reasons


def test_what_was_not_measured_cannot_promote(like: Result) -> None:
    one, two = made(like, 0.9, 0.95), made(like, 0.6, 0.7)
    stride = told(one, {k: v[one.table["column"] == "nominal"] for k, v in one.table.items()}, "x")
    found = promote(stride, two)
    assert found.disturbances is None
    assert "No perturbed column" in " ".join(found.reasons)
    assert found.outcome == "INCONCLUSIVE"
    both = [dataclasses.replace(r, run=r.run.model_copy(update={"engine": "mujoco"})) for r in (one, two)]
    assert promote(both[0], two).outcome == "INCONCLUSIVE", "one was trained on each of the two simulators"


# ---- looks and alpha


def test_a_late_decision_must_show_more_than_the_first(like: Result) -> None:
    pair = made(like, 0.92, 0.95, seed=6), made(like, 0.88, 0.9, seed=6)
    looks = {k: Look("p@1", "d", "promote", (), "decision", number=k, decision=k) for k in (1, 1000)}
    first, late = (promote(*pair, look) for look in looks.values())
    assert first.alpha == pytest.approx(0.0304, abs=1e-4)
    assert late.alpha == pytest.approx(first.alpha / 1000**2)
    assert first.disturbances is not None
    assert late.disturbances is not None
    assert first.disturbances.outcome == "better"
    assert late.disturbances.outcome == "no difference shown"
    broken = dataclasses.replace(looks[1], fault="looks.jsonl was changed.")
    assert promote(*pair, broken).outcome == "INVALID"


def test_chance_does_not_promote(like: Result) -> None:
    """Policies that are the same but for luck."""
    base = made(like, 0.9, 0.9, seed=1000)
    found = [promote(made(like, 0.9, 0.9, seed=k), base) for k in range(12)]
    assert sum(p.disturbances is not None and p.disturbances.outcome == "better" for p in found) <= 3
    assert not any(p.promoted for p in found)


# ---- fresh scenarios


def test_fresh_scenarios_follow_from_the_policies_and_are_nobody_elses() -> None:
    panel = tiny_panel()
    made, again = (fresh_panel(panel, pair) for pair in (("a", "b"), ("b", "a")))
    assert made.digest == again.digest, "anybody can make them again"
    assert made.digest != fresh_panel(panel, ("a", "c")).digest
    assert fresh_root(("a", "b"), "x") != fresh_root(("a", "b"), "y")
    shipped = make_panel("walk-flat-v1")
    other = fresh_panel(shipped, ("a", "b"))
    roots = {shipped.seeds.root, panel.seeds.root}
    assert other.seeds.root not in roots
    assert not {s.pushes for s in other.scenarios} & {s.pushes for s in shipped.scenarios}


# ---- the command line, on real runs


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("promoted") / "other"
    code = surefoot("train", "tiny:walk", "--seed", "2", "--updates", "2", "--out", folder, "--quiet",
                    "--tracker", "none", "--perturb", "friction_0.3")  # fmt: skip
    assert code == 0
    return folder


def test_a_failing_policy_is_not_promoted_over_another(
    tiny_run: Path, other_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = tmp_path / "registry"
    assert surefoot("promote", tiny_run, "--over", other_run, "--registry", registry) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "REJECT: Baselines: asked every baseline beaten" in said
    assert "On fresh scenarios, made for this decision. Decision 1, look 1" in said
    kept = open_registry(registry).decisions()
    assert [(d.outcome, d.fresh, d.attempt) for d in kept] == [("REJECT", True, 1)]
    before = {p: p.stat().st_mtime_ns for p in registry.rglob("*") if p.is_file() and p.name != ".lock"}
    assert surefoot("promote", tiny_run, other_run, "--registry", registry, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["exit_status"]) == ("REJECT", 1)
    after = {p: p.stat().st_mtime_ns for p in registry.rglob("*") if p.is_file() and p.name != ".lock"}
    assert after == before, "decided once, evaluated once, overwritten never"
    assert (tiny_run.parent / LOOKS).is_file()


def test_recorded_rows_decide_where_that_is_asked(
    tiny_run: Path, other_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("promote", tiny_run, other_run, "--no-fresh") == 1
    assert "On the recorded half. Decision 1" in " ".join(capsys.readouterr().out.split())
    assert surefoot("promote", tiny_run, tiny_run, "--no-fresh") == 3
    assert "INVALID: Candidate and baseline are one policy" in " ".join(capsys.readouterr().out.split())
    assert surefoot("promote", tiny_run, other_run, "--no-fresh", "--scenarios", "64") == 2
    assert surefoot("promote", tiny_run) == 2
    assert surefoot("promote", tiny_run, other_run, "--over", other_run) == 2
    other = tmp_path / "other"
    shutil.copytree(other_run, other)
    success = RunFolder.open(other).record.contract.success
    under_another_contract(other, success=success.model_copy(update={"velocity_error_mps": 0.9}))
    assert surefoot("promote", other, tiny_run, "--no-fresh") == 3
    assert "What differs" in capsys.readouterr().out


def test_from_python_a_promotion_is_an_object(tiny_run: Path, other_run: Path) -> None:
    found = sf.promote(tiny_run, other_run, fresh=False)
    assert found.outcome == "REJECT"
    assert "REJECT" in repr(found)
    with pytest.raises(SurefootError, match="with fresh"):
        sf.promote(tiny_run, other_run, fresh=False, scenarios=64)


# ---- the registry


@pytest.fixture
def kept(like: Result, tiny_run: Path, other_run: Path, tmp_path: Path) -> Registry:
    """Two promotions, one over the other, and a rejection."""
    registry = tmp_path / "registry"
    runs = RunFolder.open(tiny_run), RunFolder.open(other_run)
    steps = [made(like, 0.6, 0.7), made(like, 0.85, 0.9), made(like, 0.97, 0.99), made(like, 0.3, 0.3)]
    steps = [dataclasses.replace(s, folder=tmp_path) for s in steps]
    for old, new in ((0, 1), (1, 2), (2, 3)):
        decide((runs[0], steps[new]), (runs[1], steps[old]), root=1, registry=registry)
    return Registry(registry)


def test_a_registry_keeps_decisions_and_their_lineage(
    kept: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = kept.decisions()
    assert [d.outcome for d in (first, second, third)] == ["PROMOTE", "PROMOTE", "REJECT"]
    assert second.parent == first.digest
    assert (second.previous, third.previous, first.previous) == (first.digest, second.digest, "")
    assert kept.current() == second
    assert kept.lineage(second) == [second, first]
    assert kept.bundle(first).is_file()
    assert not kept.bundle(third).exists()
    assert not kept.faults()
    assert surefoot("registry", "list", kept.path) == 0
    assert "Stands: " in capsys.readouterr().out
    assert surefoot("registry", "show", "2", "--registry", kept.path) == 0
    said = capsys.readouterr().out
    assert "PROMOTE" in said
    assert "held-out disturbances, success: +" in said
    assert surefoot("registry", "lineage", "--registry", kept.path) == 0
    assert "decision 2" in capsys.readouterr().out.splitlines()[0]
    assert surefoot("registry", "show", "9", "--registry", kept.path) == 2
    assert surefoot("registry", "list", kept.path / "nowhere") == 2


def test_a_changed_record_is_found(kept: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    path = kept.path / "decisions" / "0001.json"
    path.write_text(path.read_text().replace('"PROMOTE"', '"INCONCLUSIVE"'))
    assert kept.faults()
    assert surefoot("registry", "list", kept.path) == 1
    assert "a record was changed" in capsys.readouterr().out


def test_rows_that_contradict_themselves_decide_nothing(tiny_run: Path, tmp_path: Path) -> None:
    """Promotion reads rows and believes none that no evaluation could have written."""
    forged = tmp_path / "forged"
    shutil.copytree(tiny_run, forged)
    path = next(forged.glob("panels/*/confirmation/episodes.parquet"))
    rows, meta = read_table(path), table_meta(path)
    rows["success"] = np.ones_like(rows["success"])
    write_table(path, rows, PANEL_ROWS_VERSION, meta)
    found = promote_run(forged, tiny_run)
    assert (found.outcome, found.exit_status) == ("INVALID", 3)
    assert any("candidate's evidence contradicts itself" in r for r in found.reasons)
