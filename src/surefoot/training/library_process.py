"""The parent of a library's worker: starts it, shows its messages, passes signals on, records a failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from surefoot.evaluation import EvaluationProgress, Watch
from surefoot.runs import LIVE, LibraryRecord, RunFolder
from surefoot.trackers import Tracker
from surefoot.training.live import LiveFinding
from surefoot.training.measurements import Clock
from surefoot.training.observers import Observer
from surefoot.training.plan import Plan
from surefoot.training.selection import Limits
from surefoot.training.signals import stop_signals

LOG = "library.log"


class LibraryFailed(Exception):
    """Raised when a library broke off. The run is marked failed, and its log is in the run folder."""


class LibraryProcess:
    """Trains a run with a library, in another process; whoever starts a run uses it as a `Trainer`."""

    def __init__(self, plan: Plan, run: RunFolder, clock: Clock, strict: bool = False) -> None:
        self.plan, self.run, self._clock, self._strict = plan, run, clock, strict
        self.found = ""
        """What `strict` ended training for; empty: nothing."""
        self._evaluation = ExitStack()
        self._watch: Watch | None = None
        self.stopped: signal.Signals | None = None
        self.chosen = "latest"
        self._child: subprocess.Popen[str] | None = None
        self._error = ""

    def train(self, limits: Limits, observer: Observer, tracker: Tracker) -> None:
        """Trains until a limit is reached or a signal comes; raises `LibraryFailed` if the library breaks
        off."""
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
        with stop_signals(self._stop):
            assert child.stdout is not None
            with self._evaluation:
                for line in child.stdout:
                    self._receive(json.loads(line), observer, tracker)
            code = child.wait()
        self.run.record = RunFolder.open(self.run.path).record  # the worker wrote it
        if code:
            self._fail(code)
        if self.found:
            self.run.write_record(status="interrupted", error=self.found)

    def _stop(self, received: signal.Signals) -> None:
        """Lets the worker finish its update."""
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(received.name + "\n")
        self._child.stdin.flush()

    def _receive(self, message: dict[str, Any], observer: Observer, tracker: Tracker) -> None:
        if "progress" in message:
            self._show(EvaluationProgress(**message["progress"]), observer)
            return
        self._evaluation.close()  # whatever comes next, it is over
        if "row" in message:
            row = message["row"]
            self._clock.ready(ago=float(row["wall_seconds"]))
            for name in (k for k in row if k.startswith(LIVE)):
                self._found(LiveFinding(name.removeprefix(LIVE), row["update"], row[name]), observer)
            tracker.log(message["row"])
            observer.show(message["row"], message["successes"])
        elif "library" in message:
            for line in notes(LibraryRecord.model_validate(message["library"])):
                observer.note(line)
        elif "error" in message:
            self._error = message["error"]
        else:
            self.chosen = message["chosen"]
            stopped = signal.Signals[message["stopped"]] if message["stopped"] else None
            self.stopped = None if self.found else stopped

    def _found(self, finding: LiveFinding, observer: Observer) -> None:
        """Tells what a live check found; where they are strict the worker is asked to stop."""
        observer.note(str(finding))
        if self._strict and not self.found:
            self.found = str(finding)
            self._stop(signal.SIGINT)

    def _show(self, progress: EvaluationProgress, observer: Observer) -> None:
        """Shows an evaluation of the worker's; its first message begins it."""
        if self._watch is None:
            self._watch = self._evaluation.enter_context(observer.evaluating("scoring"))
            self._evaluation.callback(self._unwatch)
        self._watch(progress)

    def _unwatch(self) -> None:
        self._watch = None

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
    """Returns what a person should know about a library's run before it starts, in lines."""
    title = f"{library.name} {library.version}" if library.version else library.name
    handling = "Bootstrapped from the final observation by the adapter"
    timeouts = library.stock_timeouts if library.timeouts == "stock" else f"{handling}; as it comes, {title} "
    if library.timeouts == "corrected":
        timeouts += library.stock_timeouts
    return [
        f"{title}, timeouts {library.timeouts}: {timeouts}.",
        "Otherwise than the recipe:",
        *(f"  - {d}" for d in library.differences),
    ]
