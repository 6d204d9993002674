"""Compiled panels are the plain ones: the same episodes, judged the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from surefoot.contract import Column, columns, load_panel
from surefoot.env.compiled import CompiledPanel
from surefoot.evaluation import PanelEvaluator
from surefoot.evaluation.episodes import Episodes, run_episodes
from surefoot.evaluation.runner import EagerRunner, runner_for
from surefoot.policy.baselines import baseline
from surefoot.tasks import task

SCENARIOS = list(range(0, 64, 4))


class Sensing:
    """A trot that also acts on what joints and gyroscope say, so that a fault of theirs is felt."""

    def __init__(self, trot: Any) -> None:
        self.trot, self.start = trot, trot.start

    def __call__(self, obs: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        action, state = self.trot(obs, state)
        return action - 0.3 * obs[:, 9:21] + 0.2 * obs[:, :1], state


def both(name: str, policy: str, column: Column) -> tuple[Episodes, Episodes]:
    """The open-loop trot (or hold-pose) on a few scenarios, in torch and compiled."""
    t = task(name)
    panel = load_panel(t.contract.panel)
    episodes = []
    for compiled in (False, True):
        evaluator = PanelEvaluator(t, panel, "selection", 50.0, engine="stride", only=SCENARIOS)
        env = evaluator.begin(column)
        runner = runner_for(env) if compiled else EagerRunner(env)
        assert isinstance(runner, CompiledPanel) == compiled
        ground = {k: np.array([0] * len(SCENARIOS)) for k in ("class", "level", "key")}
        name = "open-loop-trot" if policy == "sensing" else policy
        controller = baseline(name, t.contract, t.robot, 50.0, panel.seeds)
        controller = Sensing(controller) if policy == "sensing" else controller
        episodes.append(run_episodes(env, controller, ground, torch.tensor(SCENARIOS), runner).labelled())
        evaluator.close()
    return episodes[0], episodes[1]


@pytest.mark.parametrize(
    ("name", "policy", "column"),
    [
        ("walk-flat", "hold-pose", "nominal"),
        ("trot-flat", "open-loop-trot", "nominal"),
        ("trot-flat", "open-loop-trot", "dropout_0.1"),
        ("trot-flat", "sensing", "bias_x1"),
        ("trot-flat", "sensing", "stuck_1"),
        ("trot-flat", "sensing", "obs_delay_1"),
        ("trot-flat", "random", "push_1.5"),
        ("walk-rough", "open-loop-trot", "nominal"),
    ],
)
def test_a_compiled_panel_is_the_plain_one(name: str, policy: str, column: str) -> None:
    panel = load_panel(task(name).contract.panel)
    known = {c.name: c for c in (Column(), *columns(panel, ("all",)))}
    plain, compiled = both(name, policy, known[column])
    early = 25  # later rounding may have taken a robot elsewhere
    for k, x in plain.frames.items():
        y = compiled.frames[k]
        assert y.dtype == x.dtype or k == "action", k
        assert y.shape[1:] == x.shape[1:], k
        if k == "contact":
            assert (x[:early] == y[:early]).mean() > 0.99
        elif k != "foot_force":
            apart = np.abs(x[:early].astype(float) - y[:early]).reshape(early, len(SCENARIOS), -1).max((0, 2))
            assert (apart < 5e-3 * (1 + np.abs(x[:early]).max())).mean() > 0.85, (k, apart)
    a, b = plain.rows, compiled.rows
    assert a.keys() == b.keys()
    assert (a["reason"] == b["reason"]).mean() >= 0.8
    assert (a["success"] == b["success"]).mean() >= 0.9
    same = (a["reason"] == b["reason"]) & (np.abs(a["steps"] - b["steps"]) <= 1)
    assert same.mean() > 0.7
    for k in ("velocity_error_mps", "work_j", "return", "foot_slip_m"):
        with np.errstate(invalid="ignore"):
            close = np.abs(a[k] - b[k]) <= 0.1 * (1 + np.abs(a[k]))
        assert (close | np.isnan(a[k]))[same].mean() > 0.7, k


def test_an_episode_is_the_same_alone_to_the_bit() -> None:
    t = task("trot-flat")
    panel = load_panel(t.contract.panel)
    mind = baseline("open-loop-trot", t.contract, t.robot, 50.0, panel.seeds)
    digests = []
    for only in (SCENARIOS, SCENARIOS[5:6]):
        evaluator = PanelEvaluator(t, panel, "selection", 50.0, engine="stride", only=only)
        rows = evaluator.run(mind).rows
        digests.append(dict(zip(only, rows["states_digest"].tolist(), strict=True)))
        evaluator.close()
    assert digests[0][SCENARIOS[5]] == digests[1][SCENARIOS[5]]


def test_a_glance_is_the_whole_result_told_later() -> None:
    """The success that decides at once is that of the rows which follow, even after another pass."""
    t = task("trot-flat")
    panel = load_panel(t.contract.panel)
    trot, hold = (
        baseline(k, t.contract, t.robot, 50.0, panel.seeds) for k in ("open-loop-trot", "hold-pose")
    )
    evaluator = PanelEvaluator(t, panel, "selection", 50.0, engine="stride", only=SCENARIOS)
    seen = evaluator.evaluate_async(trot)
    other = evaluator.run(hold)
    late, anew = seen.result(), evaluator.run(trot)
    evaluator.close()
    assert seen.success == late.success == late.rows["success"].mean()
    assert late.rows.keys() == anew.rows.keys()
    for k, x in anew.rows.items():
        assert np.array_equal(late.rows[k], x, equal_nan=x.dtype.kind == "f"), k
    # Told to stand, both do.
    assert (late.rows["states_digest"] != other.rows["states_digest"]).mean() > 0.8
    assert late.traces.keys() == anew.traces.keys()
