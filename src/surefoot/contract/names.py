"""Names that rows, files and the command line use, each defined here alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

NOMINAL = "nominal"
"""The column of a panel whose scenarios are as they are."""
TRAINED = "trained"
"""What rows call the policy that was trained, beside the baselines' names."""
REFERENCE = "mujoco"
"""The engine that results are stated on."""
BOX_WORLD = "mujoco-boxes"
"""The engine that confirms them on terrain: native MuJoCo with contacts of its own, on boxes in place of
heightfields."""

CONTACT_ON_TERRAIN = {
    REFERENCE: "native MuJoCo, Surefoot's surface contact",
    BOX_WORLD: "native MuJoCo's own contact, box world",
    "stride": "stride, Surefoot's surface contact",
    "mujoco-warp": "MuJoCo Warp, its own prisms",
}
"""Engines and whose contact with terrain they have: a figure on terrain is said with it."""


def simulator(engine: str, on_terrain: bool) -> str:
    """Returns how a figure of `engine` is named to readers: on terrain with whose contact it is."""
    plain = "native MuJoCo" if engine == REFERENCE else engine
    return CONTACT_ON_TERRAIN.get(engine, engine) if on_terrain else plain


def second_simulator(measured: Iterable[str], trained_on: Iterable[str], on_terrain: bool) -> str | None:
    """Returns the engine that confirms runs that were trained on `trained_on`, of those that were measured;
    None where all of them trained one.

    On terrain that is the box world: native MuJoCo has stride's rule of contact with heightfields, and takes
    the place only where the box world was not measured.
    """
    known = set(measured) - set(trained_on)
    order = [BOX_WORLD, REFERENCE] if on_terrain else [REFERENCE]
    return next((e for e in [*order, *sorted(known)] if e in known), None)


LearnerName = Literal["ppo", "rsl_rl", "skrl", "rl_games", "sb3", "tianshou", "cleanrl"]
"""Learners there are: Surefoot's own PPO, and the libraries that have an adapter."""
LEARNERS: tuple[LearnerName, ...] = get_args(LearnerName)

Timeouts = Literal["stock", "corrected"]
"""How a library's learner treats an episode that ran out of time: its own way, or bootstrapped."""
