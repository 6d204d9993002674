"""The learner's side of a fleet: who is in it, who was asked for what, and what came back.

A part of the environments has at most one open ticket, and takes the newest weights with it. A fragment is
learned from at most once, and refused unless it is what was asked for. Where an actor's process is gone a new
incarnation begins episodes that were never drawn before: in a process that replaces it or, where actors may
join and leave (`Roster`), with whoever is there. Where updates do not wait, `Crew` has a thread that keeps
actors at work while the learner learns; tickets are issued only as long as what they bring can still be young
enough (back-pressure).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from surefoot.contract import SurefootError
from surefoot.env import join_snapshots, part_of_snapshot
from surefoot.fleet.books import TRAINED, Books, next_incarnation
from surefoot.fleet.fragment import Fragment, Key, Poisoned, unpack
from surefoot.fleet.on_ray.actor import Description, FleetActor, Order
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.inference import ServiceLost, begin_service
from surefoot.fleet.on_ray.placement import Places
from surefoot.fleet.on_ray.process import ActorProcess, Post
from surefoot.fleet.on_ray.roster import Member, Process, Roster, reason, spread
from surefoot.fleet.on_ray.service import Service
from surefoot.fleet.tickets import may_issue

REFUSALS = 3
"""Fragments in a row that are refused, or incarnations in a row that bring nothing, before that is taken for
how things are."""
PATIENCE_S, PATIENCE = 60.0, 30.0
"""An actor is given up that takes longer than this many seconds, and this many times as long as usual."""
BEGINNING_S = 600.0
"""Seconds that the first fragment of an incarnation may take at least: a process is begun for it, modules are
imported and kernels compiled, which on a busy machine takes many times as long as a fragment."""
POLL_S = 0.05


@dataclass(frozen=True)
class Arrived:
    """A fragment that waits to be learned from."""

    fragment: Fragment
    issued: float
    arrived: float

    @property
    def key(self) -> Key:
        return self.fragment.header.key

    @property
    def version(self) -> int:
        return self.fragment.header.version


@dataclass(frozen=True)
class Setting:
    """What a crew works under."""

    order: Order
    parts: list[range]
    lag: int
    sync: bool
    central: bool
    diaries: Path
    places: Places
    actor: type[FleetActor] = FleetActor
    elastic: bool = False
    """Whether actors may join and leave; else there are as many as parts."""
    behind: int = 0
    """Versions that actors are kept behind the newest policy by, where lag is imposed."""


@dataclass
class Crew:
    """The actors of a fleet, their tickets, and the fragments that came back."""

    cluster: Cluster
    setting: Setting
    books: Books = field(default_factory=Books)
    refusals: list[str] = field(default_factory=list)
    """What was refused and which actors were replaced, in words, for whoever follows the run."""
    replaced: int = 0
    """Actors that were lost."""

    def __post_init__(self) -> None:
        ray, s = self.cluster.ray, self.setting
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._incarnation = next_incarnation(s.diaries)
        self._pending: dict[Any, tuple[Key, float]] = {}
        self._queue: list[Arrived] = []
        self._version = -1
        self._kept: deque[tuple[int, Any]] = deque(maxlen=s.behind + 1)
        """The newest versions with their weights, oldest first: actors act with the oldest."""
        self._learning = False
        """Whether an update has its fragments, and its policy is not published yet."""
        self._usual: list[float] = []
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._stop = False
        serve = partial(begin_service, ray, s.places, s.order.plan, len(s.parts))
        self._service = Service(ray, serve, self._service_lost) if s.central else None
        self.roster = Roster(ray, self._begin, len(s.parts)) if s.elastic else None
        there = self.roster.there if self.roster else [self._begin(k) for k in range(len(s.parts))]
        first = self._incarnation == 0
        self.members = [
            Member(k, part, 0 if first else self._incarnation + k, there[k * len(there) // len(s.parts)])
            for k, part in enumerate(s.parts)
        ]
        self._incarnation = max(self._incarnation, *(m.incarnation + 1 for m in self.members))
        self.description: Description = self.ask(0, "describe")

    def _begin(self, number: int) -> Process:
        """Begins an actor's process."""
        actor = self.cluster.ray.remote(ActorProcess).options(
            max_restarts=0, max_task_retries=0, **self.setting.places.of_actor(number)
        )
        return Process(number, actor.remote(self.setting.actor, self.setting.order))

    def ask(self, number: int, what: str, *given: Any) -> Any:
        """Asks an actor and waits until it is between two fragments; one that cannot be made is refused with
        its reason."""
        ray, member = self.cluster.ray, self.members[number]
        if member.process is None:
            raise SurefootError(f"Part {number} of the environments has no actor now.")
        try:
            return ray.get(self._call(member, what, *given))
        except ray.exceptions.RayError as error:
            raise SurefootError(f"Actor {member.process.number} cannot work: {reason(error)}") from error

    def _call(self, m: Member, what: str, *given: Any) -> Any:
        """Asks the actor of a part, and returns what will have its answer."""
        assert m.process is not None
        post = Post(m.number, m.part, m.incarnation)
        service = None if self._service is None else self._service.handle
        return m.process.handle.ask.remote(post, service, what, *given)

    # ---- what the learner asks for

    def publish(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """Gives actors the policy as it is after update `version`, from their next fragment on."""
        ray = self.cluster.ray
        ref = ray.put(dict(weights))
        with self._news:
            if self._service is not None:
                needed = {*self.books.open.values(), version, *(v for v, _ in self._kept)}
                self._service.publish(version, ref, needed)
            self._version, self._learning = version, False
            self._kept.append((version, ref))
            self._news.notify_all()
        if not self.setting.sync and self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()

    @property
    def actors(self) -> list[int | None]:
        """The number of the actor that has each part; None: nobody has it."""
        return [None if m.process is None else m.process.number for m in self.members]

    @property
    def alive(self) -> int:
        """Actors at work; of a replaced one, from its successor's first fragment on."""
        return len({m.process for m in self.members if m.process is not None and m.fruitless == 0})

    @property
    def under_way(self) -> int:
        """Fragments that were asked for and are not there yet."""
        return len(self._pending)

    @property
    def version(self) -> int:
        """The newest policy that was published; -1 before the first."""
        return self._version

    def round(self) -> list[Arrived]:
        """Returns a fragment of every actor, in their order, all with one policy: the newest, unless lag is
        imposed."""
        got: dict[int, Arrived] = {}
        while len(got) < len(self.members):
            with self._lock:
                self._issue(m for m in self.members if m.number not in got)
            self._poll()
            with self._lock:
                for a in self._queue:
                    got[a.key.actor] = a
                self._queue = []
        return self._trained([got[m.number] for m in self.members])

    def fill(self, count: int) -> list[Arrived]:
        """Returns `count` fragments that are young enough, oldest first; waits for them."""
        with self._news:
            while True:
                self._check()
                for stale in [a for a in self._queue if self._version - a.version > self.setting.lag]:
                    self._queue.remove(stale)
                    self.books.end(stale.key, "stale")
                if len(self._queue) >= count:
                    self._queue.sort(key=lambda a: (a.version, a.arrived))
                    taken, self._queue = self._queue[:count], self._queue[count:]
                    self._learning = True
                    return self._trained(taken)
                self._news.wait(1.0)

    def _trained(self, taken: list[Arrived]) -> list[Arrived]:
        with self._lock:
            for a in taken:
                self.books.end(a.key, TRAINED)
        return taken

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    # ---- tickets

    def _serve(self) -> None:
        """Keeps actors at work until told to stop."""
        try:
            while not self._stop:
                self._settle()
                with self._lock:
                    self._issue(self.members)
                self._poll()
        except BaseException as error:  # the learner raises it, in its own thread
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _issue(self, members: Any) -> None:
        """Gives a ticket to every actor without one, as long as what it brings can be young enough."""
        busy = {key.actor for key, _ in self._pending.values()}
        for m in members:
            opened, queued = len(self._pending), len(self._queue)
            if m.process is None or m.moves or m.number in busy:
                continue
            if not may_issue(opened, queued, len(self.members), self.setting.lag, self._learning):
                continue
            key = Key(m.number, m.incarnation, m.sequence)
            m.sequence += 1
            version, weights = self._kept[0]
            self.books.issue(key, version)
            ref = self._call(m, "collect", key, version, weights)
            self._pending[ref] = (key, time.time())

    def _poll(self) -> None:
        """Takes in what has come back."""
        ray = self.cluster.ray
        if not self._pending:
            with self._news:  # a new policy makes room for tickets
                self._news.wait(POLL_S)
            return
        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=POLL_S)
        for ref in ready:
            if ref not in self._pending:  # its incarnation was given up meanwhile
                continue
            key, issued = self._pending[ref]
            try:
                buffer = ray.get(ref)
            except ray.exceptions.RayError as error:
                with self._news:
                    if ref in self._pending:
                        self._failed(key, error)
                continue
            self._take_in(ref, key, issued, buffer)
        self._give_up()

    def _failed(self, key: Key, error: Any) -> None:
        """Sees to what became of a ticket whose fragment never comes."""
        m = self.members[key.actor]
        assert m.process is not None
        if self._service is not None and isinstance(getattr(error, "cause", None), ServiceLost):
            self._service.renew(self._service.handle, reason(error))
        else:
            self._lose(m.process, reason(error))

    def _take_in(self, ref: Any, key: Key, issued: float, buffer: np.ndarray[Any, Any]) -> None:
        """Reads a fragment, outside of the lock, and puts it in the queue or refuses it."""
        refusal, fragment = "", None
        try:
            fragment = unpack(self.description.schema, self.setting.order.run, buffer)
            if fragment.header.key != key or fragment.header.version != self.books.open.get(key):
                raise Poisoned("it is not what was asked for")
        except Poisoned as error:
            refusal = str(error)
        with self._news:
            if self._pending.pop(ref, None) is None:
                return
            m, now = self.members[key.actor], time.time()
            if refusal or fragment is None:
                self.books.end(key, "poisoned")
                m.refused += 1
                self.refusals.append(f"A fragment of {self._named(m)} was refused: {refusal}.")
                if m.refused >= REFUSALS and m.process is not None:
                    self._lose(m.process, f"{REFUSALS} fragments in a row were refused")
            else:
                m.refused = m.fruitless = 0
                if self._service is not None:
                    self._service.in_vain = 0
                m.samples += fragment.header.horizon * fragment.header.envs
                m.seconds += now - issued
                self._usual = [*self._usual[-99:], now - issued]
                self._queue.append(Arrived(fragment, issued, now))
            self._news.notify_all()

    def _named(self, m: Member) -> str:
        """Names an actor: by its number, and by the part that it is about where it may have several."""
        if m.process is None or self.roster is None:
            return f"actor {m.number}"
        return f"actor {m.process.number} (part {m.number})"

    def _lose(self, process: Process, why: str) -> None:
        """Ends what an actor had open that is gone, and puts a new one in its place or lets others have its
        parts."""
        self.cluster.ray.kill(process.handle)
        parts = [m for m in self.members if m.process is process]
        for m in parts:
            if m.fruitless >= REFUSALS:
                raise SurefootError(
                    f"Actor {m.number} was begun {m.fruitless + 1} times and brought nothing: {why}"
                )
            m.fruitless += 1
            self._post(m, None if self.roster else self._begin(m.number))
        self.replaced += 1
        if self.roster is None:
            self.refusals.append(f"Actor {process.number} was replaced: {why}")
        else:
            self.roster.leave(process)
            had = f"{len(parts)} of {len(self.members)} parts"
            self.refusals.append(f"Actor {process.number} left, which had {had}: {why}")

    def _post(self, m: Member, process: Process | None) -> None:
        """Gives a part to an actor, as a new incarnation. What the one before had open is lost."""
        self.books.lose(m.number, m.incarnation, [a.key for a in self._queue])
        self._pending = {r: p for r, p in self._pending.items() if p[0].actor != m.number}
        m.process, m.incarnation = process, self._incarnation
        m.sequence, m.refused, m.moves = 0, 0, False
        self._incarnation += 1

    def _settle(self) -> None:
        """Lets actors join where there are cores, and sees to it that each part has one, and each of them
        about as many parts."""
        if self.roster is None or (said := self.roster.look()) is None:
            return
        with self._news:
            self.refusals += said
            there = self.roster.there
            held = [[m.number for m in self.members if m.process is p] for p in there]
            homeless = [m.number for m in self.members if m.process is None]
            to = spread(held, homeless, self.roster.expects)
            busy = {key.actor for key, _ in self._pending.values()}
            for m in self.members:
                m.moves = m.number in to and m.number in busy
                if m.number not in to or m.moves:
                    continue
                if m.process is not None:
                    m.process.handle.leave.remote(m.number)
                self._post(m, there[to[m.number]])

    def _give_up(self) -> None:
        """Kills actors that take far longer than usual; they are replaced as any that is gone."""
        usual = float(np.median(self._usual)) if self._usual else PATIENCE_S
        for key, issued in list(self._pending.values()):
            if time.time() - issued > patience_s(usual, key.sequence == 0) and self._usual:
                process = self.members[key.actor].process
                if process is not None:
                    self.cluster.ray.kill(process.handle)

    # ---- environments

    def snapshot(self) -> dict[str, Tensor]:
        """Returns the state of all environments, each between two fragments."""
        with self._lock:
            asked = [(m.process, m.process and self._call(m, "snapshot")) for m in self.members]
        return join_snapshots([self._snapshot(m, *a) for m, a in zip(self.members, asked, strict=True)])

    def _snapshot(self, m: Member, process: Process | None, asked: Any) -> dict[str, Tensor]:
        """Returns the state of a part, as its actor was `asked`; asks again where it has lost that one, and
        waits for another."""
        ray, until = self.cluster.ray, time.monotonic() + PATIENCE_S
        while True:
            try:
                there: dict[str, Tensor] = self.ask(m.number, "snapshot") if asked is None else ray.get(asked)
                return there
            except (SurefootError, ray.exceptions.RayError) as error:
                self._check()
                if time.monotonic() > until:
                    raise
                with self._news:
                    if process is not None and m.process is process:  # without a ticket nobody else notices
                        self._lose(process, str(error))
                    process, asked = m.process, m.process and self._call(m, "snapshot")
                time.sleep(POLL_S)

    def restore(self, snapshot: Mapping[str, Tensor]) -> bool:
        """Goes on from a snapshot of any number of actors; returns whether the environments could."""
        able = [self.ask(m.number, "restore", part_of_snapshot(snapshot, m.part)) for m in self.members]
        return all(able)

    def service_figures(self) -> dict[str, float | int | None]:
        """Returns the ledger's columns about central inference; none where it is local."""
        if self._service is None:
            return {}
        with self._news:
            figures: dict[str, float | int | None] = self._service.ask("take_figures")
        return figures

    def _service_lost(self, why: str) -> None:
        """Fragments that were under way cannot be made without it: all parts begin anew, each with the actor
        that it has."""
        self.refusals.append(f"The inference service was begun again: {why}")
        for m in self.members:
            self._post(m, m.process)

    def close(self) -> None:
        """Ends the actors; what was not learned from is dropped or lost, and in the books."""
        self._stop = True
        if self._thread is not None:
            self._thread.join(30.0)
        with self._lock:
            for a in self._queue:
                self.books.end(a.key, "unneeded")
            self._queue = []
            for m in self.members:
                self.books.lose(m.number, m.incarnation)
                if m.process is not None:
                    self.cluster.ray.kill(m.process.handle)
            if self.roster is not None:
                self.roster.close()
            if self._service is not None:
                self._service.close()
        self.setting.places.close()
        self.cluster.close()


def patience_s(usual: float, beginning: bool) -> float:
    """Returns the seconds that a fragment may take where `usual` is usual; more if it is an actor's first."""
    return max(PATIENCE_S, PATIENCE * usual, BEGINNING_S if beginning else 0.0)
