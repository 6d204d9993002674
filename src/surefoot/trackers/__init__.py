"""Trackers: exporters fed from the ledger's rows. The ledger stays the record; a tracker is a view of it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from surefoot.contract import SurefootError, unknown

TRACKERS = ("tensorboard", "wandb", "none")


class Tracker(Protocol):
    def log(self, row: Mapping[str, Any]) -> None:
        """Exports one ledger row."""

    def close(self) -> None: ...


class Nothing:
    def log(self, row: Mapping[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The row's numbers, grouped for dashboards: 'reward.slip' -> 'reward/slip', 'kl' -> 'learner/kl'."""
    skip = ("schema_version", "update")
    numbers = {
        k: float(v)
        for k, v in row.items()
        if isinstance(v, int | float) and not isinstance(v, bool) and k not in skip
    }
    return {k.replace(".", "/", 1) if "." in k else f"learner/{k}": v for k, v in numbers.items()}


def check_tracker(name: str) -> None:
    """Refuses a tracker that cannot work, before a run folder is made for it."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    if name == "wandb" and find_spec("wandb") is None:
        raise SurefootError("--tracker wandb needs the wandb package; pip install 'surefoot[wandb]'.")


def make_tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """The tracker called `name`, writing into the run folder."""
    check_tracker(name)
    if name == "none":
        return Nothing()
    if name == "tensorboard":
        from surefoot.trackers.tensorboard import TensorBoard

        return TensorBoard(folder)
    if name == "wandb":
        from surefoot.trackers.wandb import WandB

        return WandB(folder, config)
    raise unknown("tracker", name, TRACKERS)
