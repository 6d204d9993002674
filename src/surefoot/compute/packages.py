"""Packages that training needs and judging does not: where one is absent, the user is told its name."""

from __future__ import annotations

PACKAGES = {
    "torch": ("torch", "torch"),
    "mujoco": ("MuJoCo", "mujoco"),
    "warp": ("Warp", "warp-lang"),
    "gymnasium": ("Gymnasium", "gymnasium"),
    "tensorboard": ("TensorBoard", "tensorboard"),
}
"""The name of a module -> what people call it, and what pip does."""


def missing_package(error: ImportError) -> tuple[str, str] | None:
    """Returns which of these packages could not be imported: its name, and pip's; None for any other."""
    return PACKAGES.get((error.name or "").split(".")[0])
