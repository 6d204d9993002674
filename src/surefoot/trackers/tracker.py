"""What a tracker is, and what it shows of a ledger's row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol


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
                self.error = one_line(error)
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
        if key == "chain":  # of the file, not of the run
            continue
        yield from _below(key.replace(".", "/", 1) if "." in key else f"learner/{key}", value)


def _below(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | list):
        inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
        for k, v in inner:
            yield from _below(f"{name}/{k}", v)
    else:
        yield name, value


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
