"""Trackers: views of the ledger in other people's dashboards. All that a row says goes there, and nothing
goes there that is not in a row; the ledger stays the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from surefoot.contract import SurefootError, unknown

TRACKERS = ("tensorboard", "wandb", "mlflow", "none")


class Tracker(Protocol):
    def log(self, row: Mapping[str, Any]) -> None:
        """Exports one ledger row, at the step that its samples are."""

    def close(self) -> None: ...


class Nothing:
    def log(self, row: Mapping[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """All numbers of a row, grouped for dashboards: 'reward.slip' is 'reward/slip', 'kl' is 'learner/kl', the
    fourth of 'stratum.samples' is 'stratum/samples/3', a table's 'fell' is '.../fell'. Null is left out."""
    return {name: float(v) for name, v in _leaves(row) if isinstance(v, int | float)}


def words(row: Mapping[str, Any]) -> dict[str, str]:
    """All that a row says in words, by the same names."""
    return {name: v for name, v in _leaves(row) if isinstance(v, str)}


def _leaves(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        yield from _below(key.replace(".", "/", 1) if "." in key else f"learner/{key}", value)


def _below(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | list):
        inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
        for k, v in inner:
            yield from _below(f"{name}/{k}", v)
    else:
        yield name, value


def check_tracker(name: str) -> None:
    """Refuses a tracker that cannot work, before a run folder is made for it."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    if name in ("wandb", "mlflow") and find_spec(name) is None:
        package = {"wandb": "wandb", "mlflow": "mlflow-skinny or mlflow"}[name]
        raise SurefootError(f"--tracker {name} needs the package {package}; pip install 'surefoot[{name}]'.")


def make_tracker(
    name: str, folder: Path, config: Mapping[str, Any], rows: Iterable[Mapping[str, Any]] = ()
) -> Tracker:
    """The tracker called `name`, in the run folder, with the `rows` that the ledger has already. A view is
    made anew, never continued: what an earlier one has of rows that a resumed run dropped must not stay."""
    check_tracker(name)
    if name == "none":
        return Nothing()
    tracker: Tracker
    if name == "tensorboard":
        from surefoot.trackers.tensorboard import TensorBoard

        tracker = TensorBoard(folder)
    elif name == "wandb":
        from surefoot.trackers.wandb import WandB

        tracker = WandB(folder, config)
    else:
        from surefoot.trackers.mlflow import MLflow

        tracker = MLflow(folder, config)
    for row in rows:
        tracker.log(row)
    return tracker
