"""Before training a plan is printed on one screen, with all that is promised, counted and frozen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surefoot.printing import make_console
from surefoot.printing.plan_text import print_plan_briefly
from surefoot.training import robot_plan
from tiny import surefoot


@pytest.mark.parametrize("task", ["walk-flat", "trot-flat", "walk-rough"])
def test_a_plan_fits_one_screen_and_leaves_nothing_out(
    task: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan = robot_plan(task)
    print_plan_briefly(make_console(), plan)
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 30
    words = " ".join(text.split())
    c = plan.task.contract
    for reward in c.rewards:
        assert f"{reward.name} {reward.weight:+g}" in words
    for factor in c.factors:
        assert f"{factor.name} " in words
    assert all(t.doc in words for t in c.terminations)
    assert c.safety.doc in words
    assert f"{c.success.velocity_error_mps:g} m/s" in words
    assert f"root {plan.seeds.root}" in words
    assert f"strata {plan.accounting.strata}" in words
    for digest in (c.digest, plan.construct_id, plan.training_id):
        assert digest[:12] in words


def test_one_policy_against_itself_is_called_that(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("compare", tiny_run, tiny_run) == 0
    assert "A and B are the same policy" in capsys.readouterr().out
    assert surefoot("compare", tiny_run, tiny_run, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["same_policy"] is True
