"""The lab: one folder in which baselines and learners meet on one panel, readable without a rerun."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.artifacts import load_npz
from surefoot.contract import SurefootError, make_panel, parse_panel, prove_disjoint, second_panel
from surefoot.evidence.look_back import look_back
from surefoot.experiments.lab import LabOptions, LabRecord, make_lab, open_lab
from surefoot.experiments.lab.cases import find_cases
from surefoot.experiments.lab.design import Job
from surefoot.experiments.lab.gather import co_computed, gather
from surefoot.experiments.lab.judge import checked_summary
from surefoot.experiments.lab.page import lab_page
from surefoot.experiments.lab.progress import Stages
from surefoot.policy.baselines import BASELINES
from surefoot.runs import RunFolder
from surefoot.sessions import train_planned
from surefoot.tasks import task
from surefoot.training.plan_makers import make_plan
from surefoot.training.trainer import new_run
from tiny import surefoot

ARGUMENTS = ("lab", "--task", "tiny:trot", "--learners", "ppo", "cleanrl", "--seeds", "1", "--updates", "3")
OPTIONS = LabOptions("tiny:trot", learners=("ppo", "cleanrl"), seeds=1, updates=3)
"""What they ask for."""


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished lab of two runs of three updates, with a second panel. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("labs") / "lab"
    assert surefoot(*ARGUMENTS, "--panel2", "--out", folder) == 0
    return folder


@pytest.fixture(scope="session")
def record(lab: Path) -> LabRecord:
    return open_lab(lab)


def rows_of(lab: Path) -> list[dict[str, str]]:
    with (lab / "lab.csv").open() as text:
        return list(csv.DictReader(text))


# ---- what is in the folder


def test_baselines_and_learners_are_all_on_the_same_panel_and_under_the_same_perturbation(
    record: LabRecord,
) -> None:
    names = [*BASELINES, "ppo", "cleanrl"]
    for number in (1, 2):
        mine = [e for e in record.entries if e.panel == number]
        for column in ("nominal", "delay_120ms"):
            at = [e for e in mine if e.column == column and e.found.engine == "stride"]
            assert [e.policy for e in at] == names
            assert len({e.found.episodes for e in at}) == 1
        assert [e.policy for e in mine if e.found.engine == "mujoco"] == names, "the reference, nominal"
    assert record.comparison.samples == record.samples == 3 * 256
    assert [of.learner for of in record.comparison.learners] == ["ppo", "cleanrl"]


def test_the_table_says_what_the_json_says(lab: Path, record: LabRecord) -> None:
    rows = rows_of(lab)
    passes = [r for r in rows if r["kind"] == "panel"]
    assert len(passes) == len(record.entries)
    panels = {p.number: p for p in record.panels}
    for row, e in zip(passes, record.entries, strict=True):
        assert (row["policy"], row["column"], row["engine"]) == (e.policy, e.column, e.found.engine)
        assert row["training_seed"] == ("" if e.seed is None else str(e.seed))
        assert row["construct_id"] == panels[e.panel].construct_id
        assert int(row["panel_seed"]) == panels[e.panel].seeds.root
        for name in ("success", "success_low", "success_high", "fall_rate", "effective_episodes"):
            assert float(row[name]) == getattr(e.found, name)
        error = e.found.velocity_error_mps
        assert row["velocity_error_mps"] == ("" if error is None else str(error))
        assert row["labels"] == " ".join(f"{k}:{v}" for k, v in e.found.labels.items())
        assert row["traces"].split() == list(e.traces)
        assert all((lab / t).is_file() for t in e.traces)
    episodes = [r for r in rows if r["kind"] == "episode"]
    for row, x in zip(episodes, record.episodes, strict=True):
        assert (row["policy"], row["key"], row["reason"], row["labels"]) == (
            x.policy, x.key, x.reason, x.label,
        )  # fmt: skip
        assert float(row["episode_return"]) == x.episode_return
        assert {k: float(row[f"return.{k}"]) for k in x.terms} == x.terms


def test_a_quick_lab_says_what_its_table_does_not_show(lab: Path, record: LabRecord) -> None:
    quick = record.model_copy(update={"design": record.design.model_copy(update={"quick": True})})
    mirrored, plain = (
        quick.model_copy(update={"recipe": quick.recipe.model_copy(update={"mirror": m})})
        for m in (True, False)
    )
    said = lab_page(lab, mirrored)
    hidden = " x ".join(map(str, record.recipe.hidden))
    for words in (
        "not who learns best",
        f"networks of {hidden}",
        "one training seed",
        "mirrors a random half",
    ):
        assert words in said
    assert "mirrors a random half" not in lab_page(lab, plain)
    slow = record.model_copy(update={"design": record.design.model_copy(update={"quick": False})})
    assert 'data-note="quick"' not in lab_page(lab, slow)


def test_every_figure_on_the_page_is_in_the_json(lab: Path, record: LabRecord) -> None:
    page = (lab / "lab.html").read_text()
    shown = re.findall(r'data-figure="([^"]*)" data-value="([^"]*)"', page)
    known = {str(getattr(e.found, "success")) for e in record.entries}  # noqa: B009
    known |= {str(x) for c in record.co_computed for x in (c.first, c.second)}
    assert len(shown) > 2 * len(record.co_computed)
    assert {value for _, value in shown} <= known
    for paragraph in record.prose:
        assert paragraph.split(":")[0] in page
    for p in record.postmortems:
        assert len(p.sentences) == 6
    for c in record.cases:
        assert c.replay in page
    assert "http" not in page.replace("http-equiv", ""), "opens without a network"


def test_baselines_are_shown_on_the_same_five_episodes(record: LabRecord) -> None:
    by_policy = {b: [e for e in record.episodes if e.policy == b] for b in BASELINES}
    keys = [[e.key for e in mine] for mine in by_policy.values()]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys[0])) == 5
    rewards = [t.name for t in record.contract.rewards]
    for e in record.episodes:
        assert sorted(e.terms) == sorted(rewards)
        assert e.success == (e.label == "")
        assert e.reason


def test_the_contract_is_told_in_prose(record: LabRecord) -> None:
    text = " ".join(record.prose)
    for t in (*record.contract.observation, *record.contract.rewards):
        assert t.name.replace("_", " ") in text
    assert record.contract.success.doc in text


# ---- failures


def test_failure_cases_are_labelled_and_verified_by_replay(
    lab: Path, record: LabRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(record.cases) >= 2
    assert all(c.verified and c.case.label for c in record.cases)
    assert {c.case.column for c in record.cases} == {"nominal", "delay_120ms"}
    monkeypatch.chdir(lab)
    for c in record.cases[:2]:
        assert surefoot(*c.replay.split()) == 0
    trotting = next(e for e in record.episodes if e.policy == "open-loop-trot")
    assert surefoot(*trotting.replay.split()) == 0, "a baseline's episode can be lived again too"


def test_a_trace_that_was_tampered_with_is_not_called_verified(
    lab: Path, record: LabRecord, tmp_path: Path
) -> None:
    copy = tmp_path / "lab"
    shutil.copytree(lab, copy)
    file = copy / record.cases[0].trace
    trace = load_npz(file)
    trace["joint_position"] = trace["joint_position"] + np.float32(0.01)
    np.savez(file, **trace)
    design, plans = make_lab(OPTIONS)
    job = design.jobs()[0]
    run = RunFolder.open(copy / "runs" / job.name)
    found = find_cases(copy, plans, {job: run}, {job: look_back(run)}, (), job)
    assert [c.verified for c in found] == [False, True, True]


def test_where_learners_failed_too_seldom_baselines_give_the_cases(lab: Path, record: LabRecord) -> None:
    design, plans = make_lab(OPTIONS)
    job = design.jobs()[0]
    run = RunFolder.open(lab / "runs" / job.name)
    found = find_cases(lab, plans, {job: run}, {}, ("hold-pose",), job)
    assert len(found) == 2
    assert all(c.policy == "hold-pose" and c.verified and c.seed is None for c in found)


# ---- a second panel


def test_the_second_panel_shares_no_seed_with_the_first_nor_with_training(record: LabRecord) -> None:
    one, two = record.panels
    assert two.apart_from_first is not None
    assert two.apart_from_first.disjoint
    for p in (one, two):
        assert p.apart_from_training.disjoint
        for job in record.design.jobs():
            assert prove_disjoint(record.design.plan(job).seeds, p.seeds).disjoint
    assert prove_disjoint(one.seeds, two.seeds).shared == 0
    assert one.construct_id != two.construct_id, "never compared across panels"


def test_a_second_panel_has_the_same_conditions_in_other_scenarios() -> None:
    one = make_panel("walk-flat-v1")
    two = second_panel(one)
    assert second_panel(one) == two
    assert [(s.command, s.friction, s.half) for s in one.scenarios] == [
        (s.command, s.friction, s.half) for s in two.scenarios
    ]
    for half in ("selection", "confirmation"):
        a, b = one.select(half), two.select(half)  # type: ignore[arg-type]
        assert sorted(s.payload_kg for s in a) == sorted(s.payload_kg for s in b)
        size = [sorted(round(np.hypot(p.vx_mps, p.vy_mps), 3) for s in x for p in s.pushes) for x in (a, b)]
        assert np.allclose(*size, atol=1e-3)
        assert sum(s.pushes == t.pushes for s, t in zip(a, b, strict=True)) == 0


def test_only_metrics_of_both_panels_are_reported(record: LabRecord) -> None:
    found = {(c.policy, c.column, c.engine, c.metric) for c in record.co_computed}
    for a in (e for e in record.entries if e.panel == 1):
        b = next(e for e in record.entries if e.panel == 2 and e.key == a.key)
        for metric in ("success", "velocity_error_mps", "cost_of_transport"):
            both = getattr(a.found, metric) is not None and getattr(b.found, metric) is not None
            assert ((a.policy, a.column, a.found.engine, metric) in found) == both
    without = [
        e.model_copy(update={"found": e.found.model_copy(update={"cost_of_transport": None})})
        if e.panel == 2
        else e
        for e in record.entries
    ]
    assert "cost_of_transport" not in {c.metric for c in co_computed(without)}
    assert co_computed([e for e in record.entries if e.panel == 1]) == ()


def test_the_second_panel_is_a_file_that_evaluate_takes(lab: Path, record: LabRecord, tmp_path: Path) -> None:
    made = parse_panel((lab / "panel2.json").read_text(), "panel2.json")
    assert made.digest == record.panels[1].panel_digest
    run = tmp_path / "run"
    shutil.copytree(lab / "runs" / "ppo-seed1", run)
    assert (
        surefoot("evaluate", run, "--panel", lab / "panel2.json", "--perturb", "none", "--no-baselines") == 0
    )
    folder = next((run / "panels" / made.name).glob("confirmation-confirmed-*"))
    again = json.loads((folder / "summary.json").read_text())
    entry = next(e for e in record.entries if (e.panel, e.policy, e.found.engine) == (2, "ppo", "mujoco"))
    assert again["success"] == entry.found.success
    where = f"{made.name}/confirmation"
    first = next(k for k, s in enumerate(made.scenarios) if s.half == "confirmation")
    assert surefoot("replay", lab / "runs" / "ppo-seed1", str(first), "--where", where, "--verify") == 0
    assert again["velocity_error_mps"] == pytest.approx(entry.found.velocity_error_mps, rel=1e-5)


# ---- again, and on


def test_a_lab_that_is_there_is_not_trained_again_and_another_is_refused(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "lab"
    shutil.copytree(lab, copy)
    kept = {p: p.read_bytes() for p in (copy / "runs").rglob("*") if p.is_file()}
    assert surefoot(*ARGUMENTS, "--out", copy) == 0
    assert {p: p.read_bytes() for p in (copy / "runs").rglob("*") if p.is_file()} == kept
    assert len(open_lab(copy).panels) == 2, "its second panel stays"
    capsys.readouterr()
    assert surefoot(*ARGUMENTS[:-1], "4", "--out", copy) == 2
    assert "is another lab (updates 3)" in capsys.readouterr().err
    (tmp_path / "else").mkdir()
    assert surefoot(*ARGUMENTS, "--out", tmp_path / "else") == 2
    assert not list((tmp_path / "else").iterdir())


def test_a_library_that_breaks_is_named_and_the_rest_of_the_lab_stands(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "lab"
    shutil.copytree(lab, copy)
    (copy / "panel2.json").unlink()
    shutil.rmtree(copy / "runs" / "cleanrl-seed1")
    plant = "import sys\nif 'surefoot.training.library_worker' in sys.orig_argv:\n"
    plant += "    import surefoot.learners.libraries.env as env\n    env.LibraryEnv.step = lambda *_: 1 / 0\n"
    (tmp_path / "sitecustomize.py").write_text(plant)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert surefoot(*ARGUMENTS, "--out", copy) == 1
    found = open_lab(copy)
    assert [(r.learner, r.status) for r in found.runs] == [("ppo", "finished"), ("cleanrl", "failed")]
    assert [of.learner for of in found.comparison.learners] == ["ppo"]
    assert "cleanrl" not in {e.policy for e in found.entries}
    assert "cleanrl-seed1: failed (ZeroDivisionError" in (copy / "lab.html").read_text()
    assert "runs/cleanrl-seed1 failed: ZeroDivisionError" in capsys.readouterr().out


def test_a_pass_over_another_panel_is_refused(lab: Path, tmp_path: Path) -> None:
    _, plans = make_lab(OPTIONS)
    folder = tmp_path / "confirmation"
    shutil.copytree(lab / "runs" / "ppo-seed1" / "panels" / "tiny-v1+second" / "confirmation", folder)
    with pytest.raises(SurefootError, match="another panel or construct"):
        checked_summary(folder, plans[Job("ppo", 1)])


def test_an_interrupted_run_goes_on_and_a_librarys_is_set_aside(lab: Path, tmp_path: Path) -> None:
    plan = make_plan("tiny:trot")
    run = tmp_path / "ppo-seed1"
    shutil.copytree(lab / "runs" / "ppo-seed1", run)
    folder = RunFolder.open(run)
    before = folder.record.confirmation
    assert before is not None
    folder.write_record(confirmation=None, status="interrupted")
    ledger = (run / "ledger.jsonl").read_bytes()
    assert train_planned(plan, run, 3, ("none",)).exit_status == 0
    after = RunFolder.open(run).record.confirmation
    assert after is not None
    assert (after.checkpoint, after.success) == (before.checkpoint, before.success)
    assert (run / "ledger.jsonl").read_bytes() == ledger
    theirs = tmp_path / "cleanrl-seed1"
    new_run(make_plan("tiny:trot", learner="cleanrl"), str(theirs))
    plan = make_plan("tiny:trot", learner="cleanrl")
    assert train_planned(plan, theirs, 1, ("none",)).exit_status == 0
    assert (tmp_path / "cleanrl-seed1-unfinished1" / "run.json").is_file()
    assert RunFolder.open(theirs).record.confirmation is not None


def test_a_run_that_was_trained_on_by_hand_is_no_result_of_the_lab(lab: Path, tmp_path: Path) -> None:
    design, plans = make_lab(OPTIONS)
    folder = tmp_path / "lab"
    shutil.copytree(lab, folder)
    run = RunFolder.open(folder / "runs" / "ppo-seed1")
    as_it_was = run.record.figures
    for changed, says in (
        ({"status": "interrupted", "figures": {**as_it_was, "updates": 4}}, "4 updates.*of 3"),
        ({"status": "interrupted"}, "resumed from update 3"),
        ({"status": "unconfirmed"}, "resumed and ended at update 3, unconfirmed"),
        ({"status": "running"}, "resumed from update 3"),
        ({"figures": {**as_it_was, "updates": 6}}, "6 updates.*of 3"),
    ):
        run.write_record(**{"status": "finished", "figures": as_it_was, **changed})
        with pytest.raises(SurefootError, match=rf"(?s)not as the lab trained it.*{says}.*Move it away"):
            gather(folder, design, plans, ("hold-pose",), None)


def test_a_failed_run_of_our_own_is_tried_again_and_a_librarys_is_left(lab: Path, tmp_path: Path) -> None:
    for learner in ("ppo", "cleanrl"):
        run = tmp_path / f"{learner}-seed1"
        shutil.copytree(lab / "runs" / run.name, run)
        RunFolder.open(run).write_record(confirmation=None, status="failed", error="no memory left")
        plan = make_plan("tiny:trot", learner=learner)
        assert train_planned(plan, run, 3, ("none",)).exit_status == 0
        record = RunFolder.open(run).record
        again = learner == "ppo"
        assert (record.status, record.error) == (
            ("finished", None) if again else ("failed", "no memory left")
        )
        assert (record.confirmation is not None) == again


# ---- a sparse reward


def test_a_sparse_reward_changes_the_treatment_and_not_the_construct() -> None:
    shaped, bare = make_plan("tiny:trot"), make_plan("tiny:trot+sparse")
    assert bare.construct_id == shaped.construct_id
    assert bare.training_id != shaped.training_id
    assert [t.name for t in bare.task.contract.rewards] == ["on_target"]
    assert bare.task.contract.source_digest != shaped.task.contract.source_digest


def test_it_is_paid_only_on_target() -> None:
    from types import SimpleNamespace

    term = task("tiny:trot+sparse").terms["on_target"]
    velocity = torch.tensor([[0.5, 0.0, 9.0], [0.5, 0.3, 0.0], [0.5, 0.0, 0.0]])
    turn = torch.tensor([[9.0, 9.0, 0.1], [0.0, 0.0, 0.1], [0.0, 0.0, 0.6]])
    view: Any = SimpleNamespace(
        robot=SimpleNamespace(linear_velocity=velocity, angular_velocity=turn),
        task=SimpleNamespace(command=torch.tensor([[0.4, 0.1, 0.0]] * 2 + [[0.5, 0.0, 0.0]])),
    )
    assert term(view, velocity_error_mps=0.25, yaw_error_radps=0.3).tolist() == [1.0, 1.0, 0.0]
    assert term(view, velocity_error_mps=0.2, yaw_error_radps=0.3).tolist() == [1.0, 0.0, 0.0]


def test_learners_are_retrained_with_a_sparse_reward_and_shown_side_by_side(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    command = [*ARGUMENTS[:-1], "1", "--perturbation", "sparse", "--out", str(out)]
    assert surefoot(*command) == 0
    found = open_lab(out)
    assert found.sparse is not None
    assert [of.learner for of in found.sparse.learners] == ["ppo", "cleanrl"]
    assert found.sparse.construct_id == found.comparison.construct_id
    rewards = {(e.policy, e.reward) for e in found.entries}
    assert {("ppo", "task"), ("ppo", "sparse"), ("cleanrl", "sparse"), ("random", None)} <= rewards
    ledger = (out / "runs" / "ppo-sparse-seed1" / "ledger.jsonl").read_text()
    assert "reward.on_target" in ledger
    page = (out / "lab.html").read_text()
    assert "sparse reward, mujoco" in page
    assert "not trained" in page


# ---- refusals


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--learners", "ppo"), "two or more learners"),
        (("--learners", "cleanrl", "cleanrl"), "two or more learners"),
        (("--learners", "cleanrl", "sb3"), "put ppo into --learners"),
        (("--perturbation", "push"), "several strengths"),
        (("--perturbation", "all"), "one perturbation"),
        (("--perturbation", "wind"), "wind"),
        (("--seeds", "0"), "--seeds is 0"),
        (("--updates", "0"), "--updates is 0"),
    ],
)
def test_what_makes_no_lab_is_refused_before_anything_is_written(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lab"
    learners = () if arguments[0] == "--learners" else ("--learners", "ppo", "cleanrl")
    given = ("lab", "--task", "tiny:trot", *learners, *arguments, "--out", str(out))
    assert surefoot(*given) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_library_that_is_not_installed_is_one_sentence_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "rsl_rl" else find(n, *a))
    out = tmp_path / "lab"
    assert surefoot("lab", "--task", "tiny:trot", "--out", out) == 2
    assert "pip install 'surefoot[rsl-rl]'" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_single_learner_is_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "learners"
    assert surefoot("compare-learners", "tiny:walk", "--learners", "ppo", "--out", out) == 2
    assert "needs two or more learners" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


# ---- budgets and progress


def test_a_quick_lab_shares_its_budget_and_keeps_what_is_asked_for() -> None:
    two, _ = make_lab(LabOptions("tiny:trot", learners=("ppo", "cleanrl"), quick=True))
    sparse = LabOptions(
        "tiny:trot", learners=("ppo", "cleanrl"), quick=True, perturbation="sparse", overrides={"epochs": 1}
    )
    four, plans = make_lab(sparse)
    assert two.updates * len(two.jobs()) == four.updates * len(four.jobs())
    assert {p.recipe.epochs for p in plans.values()} == {1}
    assert {p.recipe.hidden for p in plans.values()} == {(64, 64)}
    assert len({p.recipe.digest for p in plans.values()}) == 1, "the same recipe for all"


def test_the_time_left_is_that_of_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, 10.0, 10.0, 30.0, 30.0, 31.0, 31.0, 32.0])
    monkeypatch.setattr("surefoot.experiments.lab.progress.time.monotonic", lambda: next(now))
    stages = Stages(lambda stage: None, ["training", "training", "panel", "panel"])
    assert stages.remaining() is None
    with stages.stage("first"):
        pass
    assert stages.remaining() == pytest.approx(10 + 2 * 1.5)
    with stages.stage("second"):
        pass
    with stages.stage("third"):
        pass
    assert stages.remaining() == 1.0
