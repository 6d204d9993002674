"""Trackers by name. Another's package is imported when its tracker is asked for, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.contract import SurefootError, unknown
from surefoot.trackers.tracker import NullTracker, Tracker, TrackerType, one_line

TRACKERS = ("tensorboard", "wandb", "mlflow", "none")
PACKAGES = {
    "tensorboard": ("tensorboard", "tensorboard"),
    "wandb": ("wandb", "surefoot[wandb]"),
    "mlflow": ("mlflow-skinny or mlflow", "surefoot[mlflow]"),
}
"""The package that each needs, and what installs it."""
REMEDIES = {
    "tensorboard": "train without it: --tracker none",
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "mlflow": "set MLFLOW_TRACKING_URI to a server that answers, or unset it for a file store",
}
"""What helps where a tracker cannot begin."""


def check_tracker(name: str) -> None:
    """Refuses a tracker that cannot work as far as that is known without a run: before a folder is made."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    try:
        tracker = _type(name)
    except (
        Exception
    ) as error:  # not ImportError alone: packages that do not fit together raise what they like
        package, extra = PACKAGES[name]
        raise SurefootError(
            f"--tracker {name} needs the package {package}, which could not be imported "
            f"({one_line(error)}); pip install '{extra}'."
        ) from error
    with _beginning(name):
        tracker.check()


def make_tracker(
    name: str, folder: Path, config: Mapping[str, Any], rows: Iterable[Mapping[str, Any]] = ()
) -> Tracker:
    """Begins the tracker called `name`, with the `rows` that the ledger has already. A view is made anew,
    never continued: what an earlier one has of rows that a resumed run dropped must not stay."""
    with _beginning(name):
        tracker = _type(name)(folder, config)
        for row in rows:
            tracker.log(row)
    return tracker


def _type(name: str) -> type[TrackerType]:
    """Imports the package that it stands for, and no other."""
    if name == "tensorboard":
        from surefoot.trackers.tensorboard import TensorBoard

        return TensorBoard
    if name == "wandb":
        from surefoot.trackers.wandb import WandB

        return WandB
    if name == "mlflow":
        from surefoot.trackers.mlflow import MLflow, load

        load()
        return MLflow
    return NullTracker


@contextmanager
def _beginning(name: str) -> Iterator[None]:
    """Turns whatever a tracker's package raises as it begins into one sentence."""
    try:
        yield
    except Exception as error:
        raise SurefootError(
            f"The tracker {name} could not begin ({one_line(error)}); {REMEDIES[name]}."
        ) from error
