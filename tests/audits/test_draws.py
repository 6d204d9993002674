"""Draws are the seed plan's in a clean run; copies, repetitions, stolen seeds and dead factors are found, and
told apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.audits import audit_run
from surefoot.audits.slow_deal import Who
from surefoot.audits.slow_episodes import SlowEpisodes
from surefoot.contract import SeedPlan, Split
from surefoot.env import scenarios, vec_env
from surefoot.env.scenarios import Scenarios, TrainSampler
from surefoot.keyed import Keyed
from surefoot.runs import AuditFinding, RunFolder, save_checkpoint
from tiny import tiny_panel

Tensors = dict[str, Tensor]
NAMES = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale", "delay_s")


def findings(run: Path, name: str) -> list[AuditFinding]:
    audit = audit_run(RunFolder.open(run), only=[name], seed=3)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return list(audit.findings)


def only_cause(run: Path, name: str) -> str:
    causes = {f.cause for f in findings(run, name)}
    assert len(causes) == 1, causes
    return causes.pop()


@pytest.mark.parametrize("name", ["draws", "beginnings", "panel-scenarios"])
def test_a_clean_run_draws_by_its_keys(tiny_run: Path, name: str) -> None:
    assert findings(tiny_run, name) == []


# ---- what the run's environments held


@pytest.fixture
def edited(tiny_run: Path, tmp_path: Path) -> Callable[[Callable[[Tensors, SlowEpisodes, Who], None]], Path]:
    """Makes copies of a run in whose latest checkpoint the environments were changed."""

    def make(change: Callable[[Tensors, SlowEpisodes, Who], None]) -> Path:
        folder = tmp_path / "run"
        shutil.copytree(tiny_run, folder)
        run = RunFolder.open(folder)
        checkpoint = run.load_checkpoint("latest")
        tensors = dict(checkpoint.tensors)
        r = run.record
        env = np.arange(16)
        who = Who(env // 4, env % 4, tensors["env.episode"].numpy(), 4)
        change(tensors, SlowEpisodes(r.contract, r.recipe.control_hz, r.seeds.root), who)  # type: ignore[arg-type]
        save_checkpoint(run.checkpoint_path("latest"), tensors, checkpoint.meta)
        return folder

    return make


def put(tensors: Tensors, columns: dict[str, np.ndarray], rows: Any = slice(None)) -> None:
    for name, value in columns.items():
        key = f"env.{'parameters' if name in NAMES else 'script'}.{name}"
        if key in tensors:
            changed = tensors[key].clone()
            changed[rows] = torch.from_numpy(np.asarray(value)).to(changed.dtype)[rows]
            tensors[key] = changed


def test_one_environment_in_sixteen_that_copies_another_is_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        copied = Who(np.where(who.env == 9, 0, who.family), who.member, who.episode, 4)
        put(t, slow.script(copied) | {"delay_s": slow.delay_s(copied)}, [9])

    run = edited(change)
    assert only_cause(run, "draws") == "batch"
    assert "have draws of others" in findings(run, "draws")[0].statement


def test_members_that_share_their_familys_seed_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        shared = Who(who.family, np.zeros_like(who.member), who.episode, 4)
        put(t, {k: v for k, v in slow.for_life(shared).items() if k != "payload_kg"})

    assert only_cause(edited(change), "draws") == "batch"


def test_the_panels_seeds_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        panel = slow.from_seeds(20_260_103, Split.EVAL)
        put(t, panel.script(who) | {"delay_s": panel.delay_s(who)})

    run = edited(change)
    assert only_cause(run, "draws") == "held-out"


def test_a_factor_that_is_not_randomised_is_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        t["env.parameters.friction"] = torch.full((16,), 0.8)

    run = edited(change)
    assert only_cause(run, "draws") == "randomisation"
    assert "friction" in findings(run, "draws")[0].statement


def test_pushes_that_are_a_tenth_weaker_in_one_environment_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        t["env.script.push_velocity"] = t["env.script.push_velocity"].clone()
        t["env.script.push_velocity"][3] *= 0.9

    assert only_cause(edited(change), "draws") == "randomisation"


def test_labels_that_are_not_what_was_dealt_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        t["env.script.stratum"] = t["env.script.stratum"].roll(1, 0)

    assert only_cause(edited(change), "draws") == "bookkeeping"


def test_commands_that_change_in_step_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        t["env.task.command"] = t["env.script.commands"][:, 1].clone()

    run = edited(change)
    assert "for this part of an episode" in findings(run, "draws")[0].statement


def test_two_environments_in_one_state_are_found(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        t["env.critic"] = t["env.critic"].clone()
        t["env.critic"][5] = t["env.critic"][11]

    assert "1 environments are in the very state" in findings(edited(change), "draws")[0].statement


def test_a_scenario_of_the_panel_is_found_by_value(edited: Any) -> None:
    def change(t: Tensors, slow: SlowEpisodes, who: Who) -> None:
        scenario = next(s for s in tiny_panel().scenarios if s.half == "confirmation")
        put(
            t,
            {"friction": np.full(16, scenario.friction), "payload_kg": np.full(16, scenario.payload_kg)},
            [2],
        )

    (finding,) = findings(edited(change), "panel-scenarios")
    assert finding.cause == "held-out"


# ---- how episodes begin


def test_environments_that_begin_together_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vec_env, "staggered_ages", lambda sampler, device: torch.zeros(sampler.count, dtype=torch.int64)
    )
    (finding,) = findings(tiny_run, "beginnings")
    assert finding.cause == "batch"
    assert "16 begin at the same age" in finding.statement


def test_ages_within_a_tenth_of_an_episode_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = scenarios.staggered_ages
    monkeypatch.setattr(vec_env, "staggered_ages", lambda *given: right(*given) // 10)
    assert "staggered ages" in findings(tiny_run, "beginnings")[0].statement


def test_half_the_environments_that_are_copies_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TrainSampler._draw

    def copying(self: TrainSampler, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        own, other = right(self, rows, episode, level), right(self, rows % 8, episode, level)
        for name in ("family", "member"):
            setattr(other.script, name, getattr(own.script, name))
        return other

    monkeypatch.setattr(TrainSampler, "_draw", copying)
    assert only_cause(tiny_run, "beginnings") == "batch"


def test_another_split_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Keyed.__init__

    def other(self: Keyed, plan: SeedPlan, *rest: Any, **named: Any) -> None:
        right(self, plan.model_copy(update={"split": "eval"}), *rest, **named)

    monkeypatch.setattr(Keyed, "__init__", other)
    assert "held-out" in {f.cause for f in findings(tiny_run, "beginnings")}
