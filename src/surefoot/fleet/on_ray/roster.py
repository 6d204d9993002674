"""The actors of a fleet that may join and leave (`--actors auto`): as many as there are cores.

The environments are parted once, into as many parts as there may be actors, so fragments have one size
throughout. An actor has one part or several; when another joins or one leaves, whole parts change hands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.contract import SurefootError

LOOK_S = 0.5
"""How often it is asked whether cores are free."""
JOIN_S = 60.0
"""An actor that has not begun in so many seconds is given up."""
RETRY_S = 30.0
"""After an actor that could not begin no other is begun for so many seconds."""
GRACE_S = 2.0
"""Within so many seconds the core of an actor that is gone is free again, unless its node is gone too."""
ALONE_S = 300.0
"""Seconds without any actor after which a run ends."""


@dataclass(eq=False)
class Process:
    """An actor: a process that collects."""

    number: int
    handle: Any


@dataclass
class Member:
    """A part of the environments with the actor that has it, as the learner's side knows them."""

    number: int
    part: range
    incarnation: int
    process: Process | None
    """None: nobody has it."""
    sequence: int = 0
    moves: bool = False
    """Whether another actor is to have it, when what was asked for is there."""
    refused: int = 0
    """Fragments refused since the last good one."""
    fruitless: int = 0
    """Incarnations since the last good fragment."""
    samples: int = 0
    seconds: float = 0.0
    """Spent on the fragments of `samples` transitions."""


@dataclass(frozen=True)
class _Joining:
    process: Process
    ready: Any
    since: float


def spread(held: Sequence[Sequence[int]], homeless: Sequence[int], wait: bool = False) -> dict[int, int]:
    """Returns which parts go to which actor, by its place in `held`, so that no one has two more than
    another: those that nobody has to whoever has fewest, then others from whoever has most. With `wait`,
    those that nobody has go only to actors without any: more of them are about to come."""
    if not held:
        return {}
    now, out = [list(h) for h in held], dict[int, int]()
    for part in homeless:
        to = min(range(len(now)), key=lambda k: len(now[k]))
        if wait and now[to]:
            break
        now[to].append(part)
        out[part] = to
    while True:
        sizes = [len(h) for h in now]
        to, of = sizes.index(min(sizes)), sizes.index(max(sizes))
        if sizes[of] - sizes[to] < 2:
            return out
        part = now[of].pop()
        now[to].append(part)
        out[part] = to


class Roster:
    """The actors that are there and those that are being begun, at most `most`."""

    def __init__(self, ray: Any, begin: Callable[[int], Process], most: int) -> None:
        self._ray, self._begin, self._most = ray, begin, most
        self._joining: list[_Joining] = []
        self._number = 0
        self._looked = self._not_before = self._left = 0.0
        self._seen = time.monotonic()
        self.there: list[Process] = []
        self.joined = self.left = 0
        """Since the learner's process began; the first ones did not join."""
        free = self.free()
        if free < 1:
            raise SurefootError(
                "No core of the cluster is free for an actor; wait until other work on it has ended, or let "
                "machines join it."
            )
        self.there = [self._new() for _ in range(min(most, free))]

    def free(self) -> int:
        """Returns how many cores nobody has."""
        return int(self._ray.available_resources().get("CPU", 0))

    def _new(self) -> Process:
        self._number += 1
        return self._begin(self._number - 1)

    @property
    def expects(self) -> bool:
        """Whether more of them are about to come."""
        return bool(self._joining) or time.monotonic() - self._left < GRACE_S

    def look(self) -> list[str] | None:
        """Takes in actors that have begun, and begins others where cores are free; returns what there is to
        say about it. None: it was asked a moment ago."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return None
        self._looked = now
        said = [words for j in list(self._joining) if (words := self._came(j, now))]
        room = self._most - len(self.there) - len(self._joining)
        if room > 0 and now >= self._not_before:
            for _ in range(min(self.free() - len(self._joining), room)):
                process = self._new()
                self._joining.append(_Joining(process, process.handle.ready.remote(), now))
        if self.there or self._joining:
            self._seen = now
        elif now - self._seen > ALONE_S:
            raise SurefootError(
                f"No actor is left, and the cluster has had no core free for {ALONE_S:.0f} s; let machines "
                "join it, and go on from the last checkpoint."
            )
        return said

    def _came(self, j: _Joining, now: float) -> str:
        """Returns what became of one that was begun; "" as long as that is not known."""
        if not self._ray.wait([j.ready], timeout=0)[0]:
            if now - j.since < JOIN_S:
                return ""
            return self._failed(j, now, f"it had not begun after {JOIN_S:.0f} s")
        try:
            self._ray.get(j.ready)
        except self._ray.exceptions.RayError as error:
            return self._failed(j, now, reason(error))
        self._joining.remove(j)
        self.there.append(j.process)
        self.joined += 1
        return f"Actor {j.process.number} joined."

    def _failed(self, j: _Joining, now: float, why: str) -> str:
        self._joining.remove(j)
        self._ray.kill(j.process.handle)
        self._not_before = now + RETRY_S
        return f"Actor {j.process.number} could not join: {why}"

    def leave(self, process: Process) -> None:
        """Says that an actor is gone."""
        self.there.remove(process)
        self.left += 1
        self._looked, self._left = 0.0, time.monotonic()

    def close(self) -> None:
        """Ends all of them."""
        for process in [*self.there, *(j.process for j in self._joining)]:
            self._ray.kill(process.handle)
        self.there, self._joining = [], []


def reason(error: BaseException) -> str:
    """Returns what an error of Ray's comes down to, in a line."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    if isinstance(cause, SurefootError) or not lines:
        return lines[0] if lines else type(error).__name__
    named = [line for line in lines if "SurefootError: " in line]
    return named[-1].split("SurefootError: ")[1] if named else lines[0]
