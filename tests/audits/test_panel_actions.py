"""Actions on the panel are the policy's, for what it was to see; other ones are found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from planted_faults import copy_of, findings, rewrite_traces, said

from surefoot.audits.case import Case
from surefoot.audits.kept_episodes import Kept, kept_episodes
from surefoot.audits.panel_actions import _policies, expected
from surefoot.audits.slow_observations import slices
from surefoot.runs import RunFolder

NAME = "panel-actions"
Trace = dict[str, np.ndarray]


def test_actions_of_a_clean_run_are_its_policys(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []
    case = Case(RunFolder.open(tiny_run), 1)
    episodes = kept_episodes(case)
    policies = _policies(case, episodes)
    gaps = [np.abs(e.action - expected(policies, e)).max() for e in episodes]
    assert len({e.column for e in episodes}) > 8, "columns with faulty sensors are among them"
    assert max(gaps) < 1e-5


def _explored(trace: Trace) -> None:
    noise = np.random.default_rng(len(trace["action"])).normal(0, 0.05, trace["action"].shape)
    trace["action"] += noise.astype(np.float32)


def _shrunk(trace: Trace) -> None:
    trace["action"] *= np.float32(0.9)


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        (_explored, "held-out", "no step shares with the next"),
        (_shrunk, "action", "0.9"),
    ],
)
def test_other_actions_are_found(
    tiny_run: Path, tmp_path: Path, change: Callable[[Trace], None], cause: str, words: str
) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    assert rewrite_traces(run, change) > 0
    text = said(run, NAME)
    assert text
    assert words in text
    assert f"[{cause}" in text


def _played(
    tiny_run: Path, tmp_path: Path, columns: str, seen: Callable[[Kept], np.ndarray], late: int = 0
) -> str:
    """What is said when episodes were played with other observations than are declared, or with the actions
    of a step before: each action is part of what is seen next."""
    run = copy_of(tiny_run, tmp_path / "run")
    case = Case(RunFolder.open(run), 1)
    episodes = [e for e in kept_episodes(case) if e.name.startswith(columns)]
    policies = _policies(case, episodes)
    for e in episodes:
        shown, action = seen(e), np.zeros_like(e.action)
        at = slices(e.contract.observation)["last_action"]
        offset = shown[:, at] - e.shown()[:, at]
        for t in range(len(action)):
            shown[t, at] = offset[t] + (action[t - 1] if t else 0.0)
            row = max(t - late, 0)
            action[t] = expected(policies, e, shown[row : row + 1])[0].astype(np.float32)

        def change(trace: Trace, action: np.ndarray = action) -> None:
            trace["action"][: len(action)] = action

        rewrite_traces(run, change, e.name)
    return said(run, NAME)


def test_actions_of_the_step_before_are_found(tiny_run: Path, tmp_path: Path) -> None:
    text = _played(tiny_run, tmp_path, "", lambda e: e.shown(), late=1)
    assert "step before" in text


def test_a_policy_that_sees_no_noise_is_found(tiny_run: Path, tmp_path: Path) -> None:
    text = _played(tiny_run, tmp_path, "", lambda e: e.shown(noisy=0.0))
    assert "[observation]" in text


def test_sensors_without_their_faults_are_found(tiny_run: Path, tmp_path: Path) -> None:
    text = _played(tiny_run, tmp_path, "dropout", lambda e: e.shown(faulty=False))
    assert "[perturbation]" in text
    assert "dropout" in text


def test_another_normaliser_is_found(tiny_run: Path, tmp_path: Path) -> None:
    text = _played(tiny_run, tmp_path, "", lambda e: 1.02 * e.shown() + 0.02)
    assert "[normaliser]" in text
