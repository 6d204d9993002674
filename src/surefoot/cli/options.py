"""Options about a task's recipe, of every command that trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class RecipeOptions:
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
    """Seed families of the held-out panel to use (even; default all of them)."""
    evaluate_every: int | None = None
    """Updates between evaluations on the panel's selection half."""
    precision: Literal["fp32", "tf32", "bf16"] | None = None
    """Precision of the networks' matrix products; tf32 and bf16 are a GPU's (default: fp32 on a CPU; on CUDA
    bf16 for the tasks where that was measured to be as good, else tf32)."""
    hidden: tuple[int, ...] | None = None
    """Widths of both networks' hidden layers, e.g. --hidden 512 256 128."""
    mirror: bool | None = None
    """Whether Surefoot's PPO reflects a random half of the samples left to right in each epoch."""
    seed: int = 1
    """Root seed, 0 to 4294967295: every random draw of the run follows from it."""
    device: str = "cpu"
    """Where environments and learner live: cpu or cuda."""
    engine: str = "auto"
    """Simulator to train on: stride, mujoco, mujoco-warp (see `surefoot engines`), or auto: the fastest that
    can take the robot."""

    def overrides(self) -> dict[str, Any]:
        names = (
            "envs",
            "horizon",
            "minibatches",
            "epochs",
            "control_hz",
            "families",
            "eval_families",
            "evaluate_every",
            "precision",
            "hidden",
            "mirror",
        )
        return {n: getattr(self, n) for n in names if getattr(self, n) is not None}


UNCHANGED = RecipeOptions()
"""The task's own recipe."""
