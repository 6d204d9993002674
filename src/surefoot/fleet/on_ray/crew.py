"""The learner's side of a fleet: who is in it, who was asked for what, and what came back.

Each actor has at most one open ticket, and takes the newest weights with it. A fragment is learned from at
most once, and refused unless it is what was asked for. An actor whose process is gone is replaced by a new
incarnation, which begins episodes that were never drawn before. Where updates do not wait, `Crew` has a
thread that keeps actors at work while the learner learns; tickets are issued only as long as what they bring
can still be young enough (back-pressure).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
from surefoot.fleet.on_ray.inference import begin_service
from surefoot.fleet.on_ray.placement import Places
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


@dataclass
class Member:
    """One actor, as the learner's side knows it."""

    number: int
    part: range
    incarnation: int
    handle: Any
    sequence: int = 0
    refused: int = 0
    """Fragments refused since the last good one."""
    fruitless: int = 0
    """Incarnations since the last good fragment."""
    samples: int = 0
    seconds: float = 0.0
    """Spent on the fragments of `samples` transitions."""


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


@dataclass
class Crew:
    """The actors of a fleet, their tickets, and the fragments that came back."""

    cluster: Cluster
    setting: Setting
    books: Books = field(default_factory=Books)
    refusals: list[str] = field(default_factory=list)
    """What was refused and which actors were replaced, in words, for whoever follows the run."""

    replaced: int = 0
    """Actors that were replaced."""

    def __post_init__(self) -> None:
        ray, s = self.cluster.ray, self.setting
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._incarnation = next_incarnation(s.diaries)
        self._pending: dict[Any, tuple[Key, float]] = {}
        self._queue: list[Arrived] = []
        self._version, self._weights = -1, None
        self._learning = False
        """Whether an update has its fragments, and its policy is not published yet."""
        self._usual: list[float] = []
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._stop = False
        self._service: Any = None
        if s.central:
            self._service = begin_service(ray, s.places, s.order.plan, len(s.parts))
        first = self._incarnation == 0
        self.members = [
            self._member(k, part, 0 if first else self._incarnation + k) for k, part in enumerate(s.parts)
        ]
        self._incarnation = max(self._incarnation, *(m.incarnation + 1 for m in self.members))
        self.description: Description = self.ask(0, "describe")

    def _member(self, number: int, part: range, incarnation: int) -> Member:
        actor = self.cluster.ray.remote(self.setting.actor).options(
            max_restarts=0, max_task_retries=0, **self.setting.places.of_actor(number)
        )
        begun = incarnation % 4000  # episode numbers are 32 bits
        handle = actor.remote(self.setting.order, part, number, incarnation, begun, self._service)
        return Member(number, part, incarnation, handle)

    def ask(self, number: int, what: str, *given: Any) -> Any:
        """Asks an actor and waits until it is between two fragments; one that cannot be made is refused with
        its reason."""
        ray, member = self.cluster.ray, self.members[number]
        try:
            return ray.get(getattr(member.handle, what).remote(*given))
        except ray.exceptions.RayError as error:
            raise SurefootError(f"Actor {member.number} cannot work: {_reason(error)}") from error

    # ---- what the learner asks for

    def publish(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """Gives actors the policy as it is after update `version`, from their next fragment on."""
        ray = self.cluster.ray
        ref = ray.put(dict(weights))
        if self._service is not None:
            with self._lock:
                needed = {*self.books.open.values(), self._version, version}
            ray.get(self._service.publish.remote(version, ref, needed))
        with self._news:
            self._version, self._weights, self._learning = version, ref, False
            self._news.notify_all()
        if not self.setting.sync and self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()

    @property
    def alive(self) -> int:
        """Actors at work; of a replaced one, from its successor's first fragment on."""
        return sum(m.fruitless == 0 for m in self.members)

    @property
    def version(self) -> int:
        """The newest policy that was published; -1 before the first."""
        return self._version

    def round(self) -> list[Arrived]:
        """Returns a fragment of every actor, in their order, all with the newest policy."""
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
            if m.number in busy or not may_issue(
                opened, queued, len(self.members), self.setting.lag, self._learning
            ):
                continue
            key = Key(m.number, m.incarnation, m.sequence)
            m.sequence += 1
            self.books.issue(key, self._version)
            ref = m.handle.collect.remote(key, self._version, self._weights)
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
            key, issued = self._pending[ref]
            try:
                buffer = ray.get(ref)
            except ray.exceptions.RayError as error:
                with self._news:
                    del self._pending[ref]
                    self._replace(self.members[key.actor], _reason(error))
                continue
            self._take_in(ref, key, issued, buffer)
        self._give_up()

    def _take_in(self, ref: Any, key: Key, issued: float, buffer: np.ndarray[Any, Any]) -> None:
        """Reads a fragment, outside of the lock, and puts it in the queue or refuses it."""
        refusal, fragment = "", None
        try:
            fragment = unpack(self.description.schema, self.setting.order.run, buffer)
            if fragment.header.key != key or fragment.header.version != self.books.open[key]:
                raise Poisoned("it is not what was asked for")
        except Poisoned as error:
            refusal = str(error)
        with self._news:
            del self._pending[ref]
            m, now = self.members[key.actor], time.time()
            if refusal or fragment is None:
                self.books.end(key, "poisoned")
                m.refused += 1
                self.refusals.append(f"A fragment of actor {key.actor} was refused: {refusal}.")
                if m.refused >= REFUSALS:
                    self._replace(m, f"{REFUSALS} fragments in a row were refused")
            else:
                m.refused = m.fruitless = 0
                m.samples += fragment.header.horizon * fragment.header.envs
                m.seconds += now - issued
                self._usual = [*self._usual[-99:], now - issued]
                self._queue.append(Arrived(fragment, issued, now))
            self._news.notify_all()

    def _replace(self, m: Member, why: str) -> None:
        """Puts a new incarnation in the place of an actor that is gone."""
        self.books.lose(m.number, m.incarnation, [a.key for a in self._queue])
        if m.fruitless >= REFUSALS:
            raise SurefootError(
                f"Actor {m.number} was begun {m.fruitless + 1} times and brought nothing: {why}"
            )
        self.cluster.ray.kill(m.handle)
        new = self._member(m.number, m.part, self._incarnation)
        self._incarnation += 1
        self.replaced += 1
        new.fruitless, new.samples, new.seconds = m.fruitless + 1, m.samples, m.seconds
        self.members[m.number] = new
        self.refusals.append(f"Actor {m.number} was replaced: {why}")

    def _give_up(self) -> None:
        """Kills actors that take far longer than usual; they are replaced as any that is gone."""
        usual = float(np.median(self._usual)) if self._usual else PATIENCE_S
        for key, issued in list(self._pending.values()):
            if time.time() - issued > patience_s(usual, key.sequence == 0) and self._usual:
                self.cluster.ray.kill(self.members[key.actor].handle)

    # ---- environments

    def snapshot(self) -> dict[str, Tensor]:
        """Returns the state of all environments, each between two fragments."""
        parts = []
        for k in range(len(self.members)):
            for _ in range(REFUSALS):
                try:
                    parts.append(self.ask(k, "snapshot"))
                    break
                except SurefootError:  # it is being replaced
                    time.sleep(1.0)
            else:
                parts.append(self.ask(k, "snapshot"))
        return join_snapshots(parts)

    def restore(self, snapshot: Mapping[str, Tensor]) -> bool:
        """Goes on from a snapshot of any number of actors; returns whether the environments could."""
        able = [self.ask(m.number, "restore", part_of_snapshot(snapshot, m.part)) for m in self.members]
        return all(able)

    def service_figures(self) -> dict[str, float | int | None]:
        """Returns the ledger's columns about central inference; none where it is local."""
        if self._service is None:
            return {}
        figures: dict[str, float | int | None] = self.cluster.ray.get(self._service.take_figures.remote())
        return figures

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
                self.cluster.ray.kill(m.handle)
            if self._service is not None:
                self.cluster.ray.kill(self._service)
        self.setting.places.close()
        self.cluster.close()


def patience_s(usual: float, beginning: bool) -> float:
    """Returns the seconds that a fragment may take where `usual` is usual; more if it is an actor's first."""
    return max(PATIENCE_S, PATIENCE * usual, BEGINNING_S if beginning else 0.0)


def _reason(error: BaseException) -> str:
    """Returns what an error of Ray's comes down to, in a line."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    if isinstance(cause, SurefootError) or not lines:
        return lines[0] if lines else type(error).__name__
    named = [line for line in lines if "SurefootError: " in line]
    return named[-1].split("SurefootError: ")[1] if named else lines[0]
