"""The command line in real processes, which can be stopped and killed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from places import TESTS

ZYGOTE = """
import os, shlex, signal, sys
import surefoot.sessions.session
import torch._dynamo  # which the first optimiser would import, for seconds
from surefoot.cli import main
os.sched_getaffinity = lambda _: {0}  # one core: other tests run beside this one
for line in sys.stdin:
    log, *arguments = shlex.split(line)
    nohup = arguments[0] == "nohup"
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
        # whatever these tests were started by
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        main(arguments[nohup:])
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Processes:
    """Runs the command line in real processes, forked from one that has done the slow imports."""

    def __init__(self, log: Path, prefix: Sequence[str] = ()) -> None:
        path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
        environment = os.environ | {"PYTHONPATH": path}
        self.log = log
        self.parent = subprocess.Popen(
            [*prefix, sys.executable, "-c", ZYGOTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            bufsize=1, env=environment,
        )  # fmt: skip

    def start(self, *arguments: str | Path) -> int:
        """The process id."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(shlex.join([str(self.log), *map(str, arguments)]) + "\n")
        return int(self.parent.stdout.readline())

    def wait(self) -> int:
        assert self.parent.stdout is not None
        return int(self.parent.stdout.readline())

    def close(self) -> None:
        assert self.parent.stdin is not None
        self.parent.stdin.close()
        self.parent.wait(30)


def rows_in(folder: Path) -> int:
    path = folder / "ledger.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(path: Path, rows: int = 0) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or rows_in(path) < rows:
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.01)
