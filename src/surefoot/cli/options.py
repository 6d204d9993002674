"""Options about a task's recipe, of every command that trains."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from surefoot.contract import LearnerName, Timeouts


@dataclass(frozen=True)
class RecipeChanges:
    """What may be changed about a task's recipe; unset options keep the task's own values."""

    envs: int | None = None
    """Environments stepped together (N)."""
    horizon: int | None = None
    """Control steps per environment and update (T)."""
    minibatches: int | None = None
    """Minibatches per epoch; must divide T x N."""
    epochs: int | None = None
    """Passes over each rollout block (sample reuse)."""
    control_hz: float | None = None
    """Control rate, Hz: how often the policy acts."""
    families: int | None = None
    """Training seed families; must divide the number of environments."""
    eval_families: int | None = None
    """Seed families of the held-out panel to use, of both halves together (default all of them)."""
    evaluate_every: int | None = None
    """Updates between evaluations on the panel's selection half."""
    precision: Literal["fp32", "tf32", "bf16"] | None = None
    """Precision of the networks' matrix products; tf32 and bf16 are a GPU's (default: fp32 on a CPU; on CUDA
    bf16 for the tasks where that was measured to be as good, else tf32)."""
    hidden: tuple[int, ...] | None = None
    """Widths of both networks' hidden layers, e.g. --hidden 512 256 128."""
    mirror: bool | None = None
    """Whether Surefoot's PPO reflects a random half of the samples left to right in each epoch."""
    memory: str | None = None
    """What the policy remembers of its episode: none (default), window:K (it sees the last K observations)
    or gru:H (a recurrent state of H numbers)."""

    def overrides(self) -> dict[str, Any]:
        """Returns the fields of the recipe that were given."""
        given = {f.name: getattr(self, f.name) for f in fields(RecipeChanges)}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class RecipeOptions(RecipeChanges):
    """What may be changed about a task's recipe, and where it trains."""

    seed: int = 1
    """Root seed, 0 to 4294967295: every random draw of the run follows from it."""
    device: str = "cpu"
    """Where environments and learner live: cpu or cuda."""
    engine: str = "auto"
    """Simulator to train on: stride, mujoco, mujoco-warp (see `surefoot engines`), or auto: the fastest that
    can take the robot."""


UNCHANGED = RecipeOptions()
"""The task's own recipe."""


@dataclass(frozen=True)
class RunOptions(RecipeChanges):
    """All that may be asked of a run. What is not given is the default; a saved plan takes no options beside
    it."""

    seed: int | None = None
    """Root seed, 0 to 4294967295: every random draw of the run follows from it (default: 1)."""
    device: str | None = None
    """Where environments and learner live: cpu or cuda (default: cpu)."""
    engine: str | None = None
    """Simulator to train on: stride, mujoco, mujoco-warp (see `surefoot engines`), or auto: the fastest that
    can take the robot (default)."""
    updates: int | None = None
    """Stop after this many updates in all (resumed ones included)."""
    minutes: float | None = None
    """Stop after this many minutes of training; evaluation time does not count."""
    until: float | None = None
    """Stop when two consecutive evaluations on the selection half reach this success, e.g. 0.95."""
    learner: LearnerName | None = None
    """Who learns: Surefoot's own PPO (ppo, default), or a library (optional extras, see
    docs/guides/learners.md)."""
    timeouts: Timeouts | None = None
    """Episodes that run out of time: as the library treats them (stock, default), or bootstrapped from their
    final observation where the library does not. Surefoot's own PPO always does, and refuses corrected."""
    success_return: float | None = None
    """Return that makes an episode of an environment from outside a success (default: what it registers as
    its reward threshold, else to last to its time limit)."""
    perturb: tuple[str, ...] | None = None
    """Columns of the closing evaluation beside the nominal one: all (default), perturbations by name (see
    `surefoot evaluate`), or none, which leaves out the baselines too."""

    scenarios: int | None = None
    """Scenarios to confirm on (default: as many as the panel ships with); a longer list begins with the
    shorter one."""
    sequential: bool = False
    """Confirm in looks at 1, 2, 4 and 8 times the panel's scenarios, and stop when the verdict is decided."""
    strict: bool = False
    """Stop at the first thing that a live check finds while training (a first ratio far from 1, environments
    reset together, a figure that is not finite, ...): the run is saved, can be resumed, and the exit code is
    1. Without it they are printed, and training goes on."""
    keep_block: bool = False
    """Keep the last rollout block in the run folder (audit-block.npz), with the keys of its draws."""

    def settings(self) -> dict[str, Any]:
        """Returns what was given, by the names of the Python API."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v for k, v in given.items() if v is not None and not (k in FLAGS and v is False)}


FLAGS = ("sequential", "strict", "keep_block")
"""Options that are asked for or are not; what is not asked for is not given."""
NOTHING_ASKED = RunOptions()
"""A run as its task has it."""
