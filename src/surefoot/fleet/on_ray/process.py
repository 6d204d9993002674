"""A process of Ray, with the environments of one part or of several in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surefoot.fleet.on_ray.actor import FleetActor, Order, check_version


@dataclass(frozen=True)
class Post:
    """One incarnation of a part of the environments."""

    number: int
    part: range
    incarnation: int

    @property
    def begun(self) -> int:
        """How often its environments have begun before, for draws that are new. Episode numbers are 32
        bits."""
        return self.incarnation % 4000


class ActorProcess:
    """A process of a fleet. It makes the environments of an incarnation when it is first asked about it, and
    lets those go of the one before."""

    def __init__(self, kind: type[FleetActor], order: Order) -> None:
        check_version(order)
        self._kind, self._order = kind, order
        self._there: dict[int, tuple[Post, FleetActor]] = {}

    def ready(self) -> None:
        """Returns when the process has begun."""

    def ask(self, post: Post, service: Any, what: str, *given: Any) -> Any:
        """Asks the environments of `post` for `what`; they are made where they are not there."""
        there = self._there.get(post.number)
        if there is None or there[0] != post:
            self.leave(post.number)
            made = self._kind(
                self._order, post.part, post.number, post.incarnation, post.begun, service
            )  # fmt: skip
            there = self._there[post.number] = (post, made)
        return getattr(there[1], what)(*given)

    def leave(self, number: int) -> None:
        """Lets go of a part that another process has."""
        there = self._there.pop(number, None)
        if there is not None:
            there[1].close()
