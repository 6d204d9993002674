"""Trackers show the ledger in other people's dashboards. All that a row says goes there, and nothing goes
there that is not in a row; the ledger stays the record. A tracker's package is imported when it is asked
for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from surefoot.contract import SurefootError, unknown

__all__ = ["TRACKERS", "FailSafeTracker", "NullTracker", "Tracker", "check_tracker", "make_tracker"]


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


class Tracker(Protocol):
    """Shows a run's ledger."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Exports one ledger row, at the step that its samples are."""

    def close(self) -> None: ...


class TrackerType(Tracker, Protocol):
    """Makes trackers; each module of this room has one."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Begins to show the run in `folder`; `config` is its run.json."""

    @staticmethod
    def check() -> None:
        """Raises what beginning would, as far as that is known without a run."""


class NullTracker:
    """Shows nothing: `--tracker none`."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        return None

    @staticmethod
    def check() -> None:
        return None

    def log(self, row: Mapping[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


class FailSafeTracker:
    """Keeps a tracker's errors from ending a run. The first is told, and from then on nothing is shown: the
    ledger has it all, and can be shown later."""

    def __init__(self, tracker: Tracker, tell: Callable[[str], None]) -> None:
        self._tracker, self._tell = tracker, tell
        self.error: str | None = None

    def log(self, row: Mapping[str, Any]) -> None:
        if self.error is None:
            self._try(partial(self._tracker.log, row))

    def close(self) -> None:
        """Closes the tracker, also one that has failed: it may hold a file or a connection."""
        self._try(self._tracker.close)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever another's package raises; not Ctrl-C
            if self.error is None:
                self.error = _line(error)
                self._tell(self.error)


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Returns all numbers of a row, grouped for dashboards: 'reward.slip' is 'reward/slip', 'kl' is
    'learner/kl', the fourth of 'stratum.samples' is 'stratum/samples/3', a table's 'fell' is '.../fell'. Null
    is left out."""
    return {name: float(v) for name, v in _leaves(row) if isinstance(v, int | float)}


def words(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns all that a row says in words, by the same names."""
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
            f"({_line(error)}); pip install '{extra}'."
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
            f"The tracker {name} could not begin ({_line(error)}); {REMEDIES[name]}."
        ) from error


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
