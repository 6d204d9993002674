"""A fleet's protocol as discrete events: what fleet_simulation.py plays with thousands of actors.

An actor asks for a ticket, collects a fragment on a core of its machine, sends it over that machine's link,
and may have a few that are not trained yet. The owner, one process, takes fragments in one by one, and makes
an update when it has a block of them; then it sends weights, one copy a machine, which actors take between
fragments. Cores and links are shared evenly by what works on them. Nothing else is modelled: no losses, no
placement, no memory.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Then = Callable[[], None]


@dataclass(frozen=True)
class Fleet:
    """Figures of a fleet: measured ones, where they are there."""

    actors: int
    per_machine: int
    """Actors of one machine."""
    cores: int
    """Of one machine."""
    fragment: int
    """Samples of a fragment."""
    collect_s: float
    """Core seconds of a fragment."""
    serialise_s: float
    """Core seconds that an actor takes to pack and hand over a fragment."""
    fragment_bytes: float
    weights_bytes: float
    link_bytes: float
    """Bytes per second of a machine's link, and of the owner's."""
    latency_s: float
    """Seconds of a message, whatever its size."""
    receive_s: float
    """Seconds that the owner takes to receive, verify and file a fragment."""
    batch: int
    """Samples of an update."""
    update_s: float
    send_s: float
    """Seconds that the owner takes to hand weights to one machine."""
    shares_cores: bool = False
    """Whether the owner works on the cores of the first machine."""
    queue: int = 2
    """Fragments that an actor may have which are not trained."""
    jitter: float = 0.05
    """Standard deviation of a fragment's logarithmic duration."""

    @property
    def block(self) -> int:
        """Returns how many fragments are an update."""
        return -(-self.batch // self.fragment)


@dataclass
class Clock:
    """Time, and what will happen when."""

    now: float = 0.0
    _ahead: list[tuple[float, int, Then]] = field(default_factory=list)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._ahead, (self.now + seconds, next(self._number), then))

    def run(self, until: float) -> None:
        while self._ahead and self._ahead[0][0] <= until:
            self.now, _, then = heapq.heappop(self._ahead)
            then()
        self.now = until


class Shared:
    """Cores, or a link: each piece of work goes on at full speed while there is room, else all share.

    Since all pieces go at one speed, how much each has had is one figure, and the next to be done is the top
    of a heap."""

    def __init__(self, clock: Clock, capacity: float) -> None:
        self._clock, self._capacity = clock, capacity
        self._had, self._at, self._turn = 0.0, 0.0, 0
        self._pieces: list[tuple[float, int, Then]] = []
        self._number = itertools.count()
        self.worked = 0.0
        """Core seconds (or full seconds of the link) that were given."""

    def work(self, seconds: float, then: Then) -> None:
        self._catch_up()
        heapq.heappush(self._pieces, (self._had + seconds, next(self._number), then))
        self._plan()

    def _speed(self) -> float:
        return min(1.0, self._capacity / len(self._pieces)) if self._pieces else 0.0

    def _catch_up(self) -> None:
        given = (self._clock.now - self._at) * self._speed()
        self._had += given
        self.worked += given * len(self._pieces)
        self._at = self._clock.now

    def _plan(self) -> None:
        self._turn += 1
        if self._pieces:
            turn, left = self._turn, max(self._pieces[0][0] - self._had, 0.0)
            self._clock.after(left / self._speed(), lambda: self._done(turn))

    def _done(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._catch_up()
        done, _, then = heapq.heappop(self._pieces)
        self._had = max(self._had, done)
        self._plan()
        then()


@dataclass
class Played:
    """What came of a fleet, in the second half of its time."""

    samples_per_s: float
    busy: float
    """Share of the owner's time that it spends on updates."""
    receiving: float
    """Share of its time that it takes fragments in and sends weights."""
    waiting: float
    """Share of its time in which it has nothing to do."""
    lag_mean: float
    """In versions, of what was trained."""
    lag_most: int
    oldest_s: float
    """Seconds between the collection's begin and the update's, the 95th percentile."""


@dataclass
class _Fragment:
    version: int
    begun: float
    actor: int


def play(fleet: Fleet, seconds: float, seed: int = 1) -> Played:
    """Plays a fleet for `seconds`, of which the first half is left out."""
    return _Play(fleet, seed).run(seconds)


class _Play:
    def __init__(self, fleet: Fleet, seed: int) -> None:
        f = self.f = fleet
        self.clock, self.numbers = Clock(), np.random.default_rng(seed)
        machines = -(-f.actors // f.per_machine)
        self.cores = [Shared(self.clock, f.cores) for _ in range(machines)]
        self.links = [Shared(self.clock, 1) for _ in range(machines)]
        self.inlet = Shared(self.clock, 1)
        """The owner's link."""
        self.version, self.known = 0, [0] * machines
        self.open = [0] * f.actors
        self.idle = [False] * f.actors
        self.arrived: deque[_Fragment] = deque()
        self.todo: deque[tuple[float, str, Then]] = deque()
        self.engaged = False
        self.ready: deque[_Fragment] = deque()
        self.spent = {"update": 0.0, "receive": 0.0, "send": 0.0}
        self.trained: list[tuple[float, int, float]] = []

    def run(self, seconds: float) -> Played:
        for a in range(self.f.actors):
            first = float(self.numbers.uniform(0, self.f.collect_s))
            self.clock.after(first, lambda a=a: self._collect(a))  # type: ignore[misc]
        self.clock.run(seconds / 2)
        self.spent = dict.fromkeys(self.spent, 0.0)
        self.trained.clear()
        self.clock.run(seconds)
        half = seconds / 2
        lags = np.array([lag for _, lag, _ in self.trained] or [0])
        ages = np.array([age for _, _, age in self.trained] or [0.0])
        busy, taking = self.spent["update"] / half, (self.spent["receive"] + self.spent["send"]) / half
        return Played(
            samples_per_s=len(self.trained) * self.f.fragment / half,
            busy=busy,
            receiving=taking,
            waiting=max(0.0, 1 - busy - taking),
            lag_mean=float(lags.mean()),
            lag_most=int(lags.max()),
            oldest_s=float(np.quantile(ages, 0.95)),
        )

    # ---- an actor

    def _collect(self, a: int) -> None:
        f, m = self.f, a // self.f.per_machine
        if self.open[a] >= f.queue:
            self.idle[a] = True
            return
        self.open[a] += 1
        fragment = _Fragment(self.known[m], self.clock.now, a)
        work = (f.collect_s + f.serialise_s) * float(np.exp(self.numbers.normal(0, f.jitter)))
        self.cores[m].work(work, lambda: self._send(fragment))

    def _send(self, fragment: _Fragment) -> None:
        f, m = self.f, fragment.actor // self.f.per_machine
        wire = f.fragment_bytes / f.link_bytes
        self.links[m].work(
            wire, lambda: self.inlet.work(wire, lambda: self.clock.after(f.latency_s, self._take(fragment)))
        )
        self._collect(fragment.actor)

    # ---- the owner

    def _take(self, fragment: _Fragment) -> Then:
        def file() -> None:
            self.ready.append(fragment)
            self._update_if_whole()

        return lambda: self._owner(self.f.receive_s, "receive", file)

    def _update_if_whole(self) -> None:
        f = self.f
        if len(self.ready) < f.block:
            return
        taken = [self.ready.popleft() for _ in range(f.block)]
        for x in taken:
            self.trained.append((self.clock.now, self.version - x.version, self.clock.now - x.begun))
        self._owner(f.update_s, "update", lambda: self._updated(taken), first=True)

    def _updated(self, taken: list[_Fragment]) -> None:
        f = self.f
        self.version += 1
        for x in taken:
            self.open[x.actor] -= 1
            if self.idle[x.actor]:
                self.idle[x.actor] = False
                self.clock.after(f.latency_s, lambda a=x.actor: self._collect(a))  # type: ignore[misc]
        version = self.version
        self._owner(f.send_s * len(self.known), "send", lambda: self._sent(version), first=True)
        self._update_if_whole()

    def _sent(self, version: int) -> None:
        wire = self.f.weights_bytes / self.f.link_bytes
        for m, link in enumerate(self.links):
            link.work(wire, lambda m=m: self._know(m, version))  # type: ignore[misc]

    def _know(self, m: int, version: int) -> None:
        self.known[m] = max(self.known[m], version)

    def _owner(self, seconds: float, what: str, then: Then, *, first: bool = False) -> None:
        """The owner does one thing after the other: weights go out before the next update, and an update that
        can be made is made before more fragments are taken in."""
        place = (seconds, what, then)
        self.todo.appendleft(place) if first else self.todo.append(place)
        self._next()

    def _next(self) -> None:
        if self.engaged or not self.todo:
            return
        seconds, what, then = self.todo.popleft()
        self.engaged = True
        begun = self.clock.now

        def done() -> None:
            self.engaged = False
            self.spent[what] += self.clock.now - begun
            then()
            self._next()

        if self.f.shares_cores:
            self.cores[0].work(seconds, done)
        else:
            self.clock.after(seconds, done)
