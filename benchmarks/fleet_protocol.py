"""A fleet's protocol as discrete events: what fleet_sizing.py and fleet_scale.py play with, up to thousands
of actors.

An actor has at most one open ticket. It collects a fragment on a core of its machine and sends it over that
machine's link and the owner's. The owner is one process with two threads: the crew takes fragments in, one by
one, and issues tickets by the rule that the fleet itself has (`may_issue`); the learner takes a fragment per
actor, oldest first, leaves out those that are too old, updates and publishes. A machine fetches the weights
of a version once. Cores and links are shared evenly by what works on them. Nothing else is modelled: no
losses, no placement, no memory.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from surefoot.fleet.tickets import may_issue

Then = Callable[[], None]
POLL_S = 0.05
"""How long the crew's thread waits for a fragment before it looks whether tickets may be issued."""


@dataclass(frozen=True)
class Fleet:
    """Figures of a fleet: measured ones, where they are there. Where nothing else is said, seconds are of one
    core that has nothing else to do."""

    actors: int
    per_machine: int
    """Actors of one machine."""
    cores: int
    """Of one machine."""
    fragment: int
    """Transitions of a fragment."""
    collect_s: float
    """An actor's work for a fragment."""
    fragment_bytes: float
    weights_bytes: float
    link_bytes: float
    """Bytes per second of a machine's link, and of the owner's."""
    trip_s: float
    """For a call to an actor and back, of which half is on the way there."""
    receive_s: float
    """The crew's work to take in and verify a fragment, and to issue a ticket."""
    watch_s: float
    """More of that work for each ticket that is open."""
    update_s: float
    """The learner's work for an update: for each of its `pieces`."""
    publish_s: float
    """The learner's wall-clock from the end of an update to its publication, and for its row."""
    pieces: int = 1
    """Threads that share an update."""
    shares_cores: bool = False
    """Whether the learner works on the cores of the first machine."""
    lag: int = 1
    """Versions that a fragment may be old by."""
    jitter: float = 0.05
    """Standard deviation of the logarithm of an actor's work."""


@dataclass
class Clock:
    """Time, and what will happen when."""

    now: float = 0.0
    _ahead: list[tuple[float, int, Then]] = field(default_factory=list)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._ahead, (self.now + seconds, next(self._number), then))

    def run(self, done: Callable[[], bool]) -> None:
        """Lets happen what will, until `done` says so or nothing is ahead."""
        while self._ahead and not done():
            self.now, _, then = heapq.heappop(self._ahead)
            then()


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
    """What came of a fleet, in the second half of its updates."""

    samples_per_s: float
    busy: float
    """Share of its time that the learner learns."""
    waiting: float
    """Share of its time that the learner waits for fragments."""
    crew: float
    """Share of its time that the crew's thread works."""
    lag_mean: float
    """In versions, of what was trained."""
    lag_most: int
    dropped: float
    """Share of fragments that were too old."""
    oldest_s: float
    """Seconds between a collection's begin and its update's, the 95th percentile."""


@dataclass
class _Fragment:
    version: int
    begun: float
    actor: int


def play(fleet: Fleet, updates: int = 40, seed: int = 1) -> Played:
    """Plays a fleet for so many updates, of which the first half is left out."""
    return _Play(fleet, seed).run(updates)


class _Play:
    def __init__(self, fleet: Fleet, seed: int) -> None:
        f = self.f = fleet
        self.clock, self.numbers = Clock(), np.random.default_rng(seed)
        machines = -(-f.actors // f.per_machine)
        self.cores = [Shared(self.clock, f.cores) for _ in range(machines)]
        self.links = [Shared(self.clock, 1) for _ in range(machines)]
        self.inlet, self.outlet = Shared(self.clock, 1), Shared(self.clock, 1)
        """The owner's link, in both directions."""
        self.version, self.learning = 0, False
        self.known = [0] * machines
        self.fetching: list[list[tuple[int, Then]]] = [[] for _ in range(machines)]
        """What waits for weights that are on their way to a machine."""
        self.idle = deque(range(f.actors))
        self.opened = 0
        self.arrived: deque[_Fragment] = deque()
        self.queue: list[_Fragment] = []
        self.engaged = False
        """Whether the crew's thread works."""
        self._forget()

    def _forget(self) -> None:
        self.since, self.learned_s, self.crew_s, self.waited_s = self.clock.now, 0.0, 0.0, 0.0
        self.dropped = 0
        self.trained: list[tuple[int, float]] = []
        """Lag in versions, and age in seconds."""

    def run(self, updates: int) -> Played:
        self.idle_from = 0.0
        self._issue()
        self.clock.run(lambda: self.version >= updates // 2)
        self._forget()
        self.clock.run(lambda: self.version >= updates)
        took = self.clock.now - self.since
        lags, ages = (np.array(x) for x in zip(*self.trained, strict=True))
        return Played(
            samples_per_s=len(self.trained) * self.f.fragment / took,
            busy=self.learned_s / took,
            waiting=self.waited_s / took,
            crew=self.crew_s / took,
            lag_mean=float(lags.mean()),
            lag_most=int(lags.max()),
            dropped=self.dropped / (self.dropped + len(self.trained)),
            oldest_s=float(np.quantile(ages, 0.95)),
        )

    # ---- an actor

    def _issue(self) -> None:
        f = self.f
        while self.idle and may_issue(self.opened, len(self.queue), f.actors, f.lag, self.learning):
            self.opened += 1
            a, version = self.idle.popleft(), self.version
            self.clock.after(f.trip_s / 2, lambda a=a, v=version: self._fetch(a, v))  # type: ignore[misc]

    def _fetch(self, a: int, version: int) -> None:
        """An actor takes the weights that its ticket names: its machine has them, or waits for them."""
        m, wire = a // self.f.per_machine, self.f.weights_bytes / self.f.link_bytes
        if self.known[m] >= version:
            self._collect(a, version)
            return
        self.fetching[m].append((version, lambda: self._collect(a, version)))
        if sum(v == version for v, _ in self.fetching[m]) == 1:
            self.outlet.work(wire, lambda: self._know(m, version))

    def _know(self, m: int, version: int) -> None:
        self.known[m] = max(self.known[m], version)
        ready = [then for v, then in self.fetching[m] if v <= version]
        self.fetching[m] = [x for x in self.fetching[m] if x[0] > version]
        for then in ready:
            then()

    def _collect(self, a: int, version: int) -> None:
        f, m = self.f, a // self.f.per_machine
        fragment = _Fragment(version, self.clock.now, a)
        work = f.collect_s * float(np.exp(self.numbers.normal(0, f.jitter)))
        self.cores[m].work(work, lambda: self._send(fragment))

    def _send(self, fragment: _Fragment) -> None:
        f, m = self.f, fragment.actor // self.f.per_machine
        wire = f.fragment_bytes / f.link_bytes

        def there() -> None:
            self.arrived.append(fragment)
            self._take_in()

        self.links[m].work(wire, lambda: self.inlet.work(wire, lambda: self.clock.after(f.trip_s / 2, there)))

    # ---- the owner

    def _take_in(self) -> None:
        """The crew's thread takes one fragment after the other."""
        if self.engaged or not self.arrived:
            return
        self.engaged = True
        spent = self.f.receive_s + self.f.watch_s * self.opened

        def done() -> None:
            self.engaged = False
            self.crew_s += min(spent, self.clock.now - self.since)
            fragment = self.arrived.popleft()
            self.opened -= 1
            self.idle.append(fragment.actor)
            self.queue.append(fragment)
            self._issue()
            self._learn()
            self._take_in()

        self.clock.after(spent, done)

    def _look(self) -> None:
        """The crew's thread waits for fragments, and looks up every now and then for what else there is."""
        self.clock.after(float(self.numbers.uniform(0, POLL_S)), self._issue)

    def _learn(self) -> None:
        """The learner takes a fragment per actor, once they are there."""
        f, now = self.f, self.clock.now
        if self.learning or self.idle_from > now or len(self.queue) < f.actors:
            return
        young = [x for x in self.queue if self.version - x.version <= f.lag]
        self.dropped += len(self.queue) - len(young)
        self.queue = young
        if len(young) < f.actors:
            return
        young.sort(key=lambda x: x.version)
        taken, self.queue = young[: f.actors], young[f.actors :]
        self.trained += [(self.version - x.version, now - x.begun) for x in taken]
        self.learning = True
        self.waited_s += now - max(self.idle_from, self.since)
        left = f.pieces

        def piece() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._published(now)

        for _ in range(f.pieces):
            if f.shares_cores:
                self.cores[0].work(f.update_s, piece)
            else:
                self.clock.after(f.update_s, piece)
        self._look()

    def _published(self, begun: float) -> None:
        self.version += 1
        self.learning = False
        self.learned_s += self.clock.now - max(begun, self.since)
        self.idle_from = self.clock.now + self.f.publish_s
        if self.opened:
            self._look()
        else:
            self._issue()  # the crew has nothing to wait for but this
        self.clock.after(self.f.publish_s, self._learn)
