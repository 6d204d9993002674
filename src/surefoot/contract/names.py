"""Names that rows, files and the command line use, each defined here alone."""

from __future__ import annotations

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

LearnerName = Literal["ppo", "rsl_rl", "skrl", "rl_games", "sb3", "tianshou", "cleanrl"]
"""Learners there are: Surefoot's own PPO, and the libraries that have an adapter."""
LEARNERS: tuple[LearnerName, ...] = get_args(LearnerName)

Timeouts = Literal["stock", "corrected"]
"""How a library's learner treats an episode that ran out of time: its own way, or bootstrapped."""
