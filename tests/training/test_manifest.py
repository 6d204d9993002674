"""A manifest fixes an environment: who learns in it is free, and any other environment is refused by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import surefoot
from surefoot.contract import SurefootError, dump_panel, load_panel
from surefoot.experiments.studies.design import DesignOptions, make_design
from surefoot.runs import RunFolder
from surefoot.tasks import Task
from surefoot.tasks import task as find_task
from surefoot.training import Manifest, make_plan
from surefoot.training.manifest import environment
from tiny import surefoot as cli

TASK = "tiny:walk"


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    return surefoot.plan(TASK).freeze(tmp_path / "manifest.json")


def altered(task: Task, **changes: Any) -> Task:
    return dataclasses.replace(task, contract=task.contract.model_copy(update=changes))


def first(items: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    return (items[0].model_copy(update=changes), *items[1:])


def other_term(kind: str) -> Callable[[Task], Task]:
    def change(t: Task) -> Task:
        name = getattr(t.contract, kind)[0].name
        return dataclasses.replace(t, terms={**t.terms, name: lambda v, **k: v.robot.gravity[:, :3] * 0})

    return change


CHANGES: dict[str, tuple[Callable[[Task], Task], str]] = {
    "a reward's weight": (
        lambda t: altered(t, rewards=first(t.contract.rewards, weight=7.5)),
        r"rewards\.\w+\.weight is 7\.5",
    ),
    "a reward's function": (other_term("rewards"), r"rewards\.\w+\.source"),
    "a reward left out": (lambda t: altered(t, rewards=t.contract.rewards[1:]), r"rewards\.\w+ is None"),
    "the floor of rewards": (lambda t: altered(t, reward_floor=-1.0), "reward_floor is -1.0"),
    "a range": (
        lambda t: altered(t, factors=first(t.contract.factors, train=(0.1, 2.0))),
        r"factors\.\w+\.train",
    ),
    "a termination": (
        lambda t: altered(t, terminations=first(t.contract.terminations, params={"gravity_z": 3.0})),
        r"terminations\.\w+\.params",
    ),
    "a termination's function": (other_term("terminations"), r"measurement\.terminations\.\w+\.source"),
    "an observation's function": (other_term("observation"), r"interface\.observation\.\w+\.source"),
    "what the critic sees": (other_term("privileged"), r"privileged\.\w+\.source"),
    "success": (
        lambda t: altered(t, success=t.contract.success.model_copy(update={"velocity_error_mps": 1.3})),
        r"success\.velocity_error_mps is 1\.3",
    ),
    "the length of episodes": (lambda t: altered(t, episode_s=3.0), "episode_s is 3.0"),
    "commands": (
        lambda t: altered(t, command=t.contract.command.model_copy(update={"resample_s": 1.0})),
        r"command\.resample_s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_any_other_environment_is_refused_by_name(
    frozen: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    change, says = CHANGES[what]
    task = change(find_task(TASK))
    monkeypatch.setattr("surefoot.training.plan_makers.find_task", lambda name: task)
    with pytest.raises(SurefootError, match=says):
        surefoot.train(TASK, manifest=frozen, out=tmp_path / "run", updates=1)
    assert not (tmp_path / "run").exists()


def test_another_panel_is_refused(frozen: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two scenarios have changed places: the name is the same, and so are the ranges."""
    task = find_task(TASK)
    panel = load_panel(task.contract.panel)
    one, two, *others = panel.scenarios
    file = tmp_path / "panel.json"
    file.write_text(dump_panel(panel.model_copy(update={"scenarios": (two, one, *others)})))
    changed = altered(task, panel=str(file))
    monkeypatch.setattr("surefoot.training.plan_makers.find_task", lambda name: changed)
    with pytest.raises(SurefootError, match=r"measurement\.panel_digest is"):
        make_plan(TASK, manifest=Manifest.load(frozen))


def test_words_are_no_part_of_an_environment(frozen: Path) -> None:
    task = find_task(TASK)
    reworded = altered(task, rewards=first(task.contract.rewards, doc="other words"), name="other-name")
    plan = dataclasses.replace(make_plan(TASK), task=reworded)
    assert environment(plan) == Manifest.load(frozen).environment


def test_who_learns_with_what_recipe_and_seed_is_free(frozen: Path) -> None:
    manifest = Manifest.load(frozen)
    plan = make_plan(TASK, seed=9, overrides={"envs": 32, "epochs": 1}, manifest=manifest)
    assert plan.manifest == manifest.digest
    with pytest.raises(SurefootError, match=r"interface\.control_hz is 100"):
        make_plan(TASK, overrides={"control_hz": 100.0}, manifest=manifest)
    with pytest.raises(SurefootError, match="engine is 'mujoco', and 'stride' was frozen"):
        make_plan(TASK, engine="mujoco", manifest=manifest)


def test_studies_and_comparisons_are_held_to_it(
    frozen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = DesignOptions("epochs", TASK, values=(1, 2), seeds=2, updates=2, manifest=str(frozen))
    design = make_design(options)
    assert design.plan(1, 1).manifest == Manifest.load(frozen).digest
    out = tmp_path / "other"
    fewer = ("--eval-families", "2", "--manifest", frozen, "--out", out)
    for verb in (("study", "epochs"), ("compare-learners",), ("train",)):
        assert cli(*verb, TASK, *fewer) == 2
        assert "measurement.panel_digest" in " ".join(capsys.readouterr().err.split())
        assert not out.exists()
    assert cli("train", "--resume", tmp_path, "--manifest", frozen) == 2
    assert "continues a run as it was planned" in capsys.readouterr().err


def test_a_run_says_which_manifest_it_was_held_to(frozen: Path, tmp_path: Path) -> None:
    run = surefoot.train(TASK, manifest=frozen, out=tmp_path / "run", updates=1, perturb=("none",))
    assert RunFolder.open(run.path).record.manifest == Manifest.load(frozen).digest


def test_a_manifest_is_a_file_of_its_own(frozen: Path, tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match="already exists"):
        surefoot.plan(TASK).freeze(frozen)
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(json.loads(frozen.read_text()) | {"interface_id": "0" * 64}))
    with pytest.raises(SurefootError, match="interface_id"):
        surefoot.train(TASK, manifest=edited, updates=1)
    edited.write_text("{}")
    with pytest.raises(SurefootError, match=str(edited)):
        surefoot.train(TASK, manifest=edited, updates=1)
