"""The parent of a worker: starts it, shows what it says, hands on a wish to stop, and knows how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

from surefoot.runs import LibraryRecord, RunFolder
from surefoot.trackers import Tracker
from surefoot.training.observers import Observer
from surefoot.training.plan import Plan
from surefoot.training.selection import Limits

LOG = "library.log"


class LibraryFailed(Exception):
    """A library broke off. The run is marked failed, and its log is in the run folder."""


class LibraryProcess:
    """Looks like a `Trainer` to whoever starts a run; the training happens in another process."""

    def __init__(self, plan: Plan, run: RunFolder) -> None:
        self.plan, self.run = plan, run
        self.stopped: signal.Signals | None = None
        self.chosen = "latest"
        self._child: subprocess.Popen[str] | None = None
        self._error = ""

    def train(self, limits: Limits, display: Observer, tracker: Tracker) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [
            sys.executable,
            "-m",
            "surefoot.training.library_worker",
            str(self.run.path),
            json.dumps(asdict(limits)),
        ]
        with open(self.run.path / LOG, "w") as log:
            # A session of its own: Ctrl-C on a terminal is for the parent, which asks the worker to stop.
            self._child = child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=environment, start_new_session=True,
            )  # fmt: skip
        with self._signals(child):
            assert child.stdout is not None
            for line in child.stdout:
                self._hear(json.loads(line), display, tracker)
            code = child.wait()
        self.run.record = RunFolder.open(self.run.path).record  # the worker wrote it
        if code:
            self._fail(code)

    def _hear(self, said: dict[str, Any], display: Observer, tracker: Tracker) -> None:
        if "row" in said:
            tracker.log(said["row"])
            display.show(said["row"], said["successes"])
        elif "library" in said:
            for line in notes(LibraryRecord.model_validate(said["library"])):
                display.note(line)
        elif "error" in said:
            self._error = said["error"]
        else:
            self.chosen = said["chosen"]
            self.stopped = signal.Signals[said["stopped"]] if said["stopped"] else None

    def _fail(self, code: int) -> None:
        log = (self.run.path / LOG).read_text(errors="replace").strip().splitlines()
        ended = f"killed by signal {-code}" if code < 0 else log[-1] if log else f"exit code {code}"
        why = self._error or ended
        if self.run.record.status != "failed":  # the worker could not say so itself
            self.run.write_record(status="failed", error=why)
        raise LibraryFailed(
            f"{self.plan.learner} broke off: {why}. The run is marked failed; its log is "
            f"{self.run.path / LOG}"
        )

    @contextmanager
    def _signals(self, child: subprocess.Popen[str]) -> Iterator[None]:
        """Ctrl-C and SIGTERM let the worker finish its update; a second one ends it."""
        asked = False

        def stop(number: int, _: FrameType | None) -> None:
            nonlocal asked
            if asked:
                raise KeyboardInterrupt
            asked = True
            assert child.stdin is not None
            child.stdin.write(signal.Signals(number).name + "\n")
            child.stdin.flush()

        before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)

    def close(self) -> None:
        child = self._child
        if child is None:
            return
        if child.poll() is None:  # aborted
            child.kill()
            child.wait()
            RunFolder.open(self.run.path).write_record(status="interrupted")
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def notes(library: LibraryRecord) -> list[str]:
    """What a person should know about a library's run before it starts."""
    of = f"{library.name} {library.version}" if library.version else library.name
    handling = "Bootstrapped from the final observation by the adapter"
    timeouts = library.stock_timeouts if library.timeouts == "stock" else f"{handling}; as it comes, {of} "
    if library.timeouts == "corrected":
        timeouts += library.stock_timeouts
    return [
        f"{of}, timeouts {library.timeouts}: {timeouts}.",
        "Otherwise than the recipe:",
        *(f"  - {d}" for d in library.differences),
    ]
