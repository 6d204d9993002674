"""Tasks that train in a second: few robots, narrow networks, a panel of sixteen episodes of 3 s.

Given to Surefoot by name (`tiny:walk`), as a task of any other package would be.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import torch

from surefoot.cli.main import main
from surefoot.contract import RECIPES, Panel, Recipe, Scenario, SeedPlan, draw_panel, make_panel
from surefoot.robots import robot
from surefoot.tasks import TROT, TROT_REWARDS, Task, velocity_task

PANEL = Path(__file__).with_name("tiny-panel.json")
RECIPE = Recipe(
    envs=16,
    families=4,
    horizon=16,
    minibatches=2,
    epochs=2,
    hidden=(32, 32),
    evaluate_every=3,
    checkpoint_every=2,
)
"""Checkpoints and evaluations out of step, so that a resumed run has something to repeat."""


def walk() -> Task:
    return velocity_task("tiny-walk", robot=robot("go1"), panel=str(PANEL), recipe=RECIPE)


def drawn() -> Task:
    """The same on a panel of version 2: 14 episodes of 3 s to confirm on, on five kinds of command."""
    panel = str(PANEL.with_name("tiny-drawn-panel.json"))
    return velocity_task("tiny-drawn", robot=robot("go1"), panel=panel, recipe=RECIPE)


def trot() -> Task:
    return velocity_task(
        "tiny-trot", robot=robot("go1"), panel=str(PANEL), recipe=RECIPE, rewards=TROT_REWARDS, prior=TROT
    )


def tiny_panel() -> Panel:
    """What tests/tiny-panel.json holds: scenarios of walk-flat-v1, cut to 3 s, with their push at 1.5 s."""
    kept = [s for s in make_panel("walk-flat-v1").scenarios if s.family < 4 and s.member < 4]
    seeds = SeedPlan(root=20_260_103, split="eval", families=4, envs=16)
    return Panel(name="tiny-v1", episode_s=3.0, seeds=seeds, scenarios=tuple(_early(s) for s in kept))


def tiny_drawn_panel() -> Panel:
    """What tests/tiny-drawn-panel.json holds: the recipe of walk-flat-v2 with few scenarios of 3 s."""
    few = {"episode_s": 3.0, "push_time_s": (0.8, 1.6), "selection": 6, "confirmation": 14, "perturbed": 14}
    return draw_panel("tiny-v2", RECIPES["walk-flat-v2"].draw.model_copy(update=few), 20_260_104)


def _early(s: Scenario) -> Scenario:
    return s.model_copy(update={"pushes": tuple(p.model_copy(update={"time_s": 1.5}) for p in s.pushes)})


def surefoot(*arguments: str | Path) -> int:
    """The command line in this process, on one core; returns its exit code."""
    threads = torch.get_num_threads()
    try:
        with mock.patch("os.sched_getaffinity", return_value={0}):
            main([str(a) for a in arguments])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    finally:  # what the program sets for its own process
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    raise AssertionError("main returned without an exit code")
