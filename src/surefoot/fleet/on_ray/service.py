"""The inference service as the learner's side knows it: one that is gone is begun again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from surefoot.contract import SurefootError
from surefoot.fleet.on_ray.roster import reason

MOST_IN_VAIN = 3
"""Services in a row that no fragment came of, before that is taken for how things are."""


class Service:
    """Begins the service, and tells `lost` why it is gone before there is another one. Whoever calls has the
    fleet's lock wherever that may happen."""

    def __init__(self, ray: Any, begin: Callable[[], Any], lost: Callable[[str], None]) -> None:
        self._ray, self._begin, self._lost = ray, begin, lost
        self.handle: Any = begin()
        self.in_vain = 0
        """How often it was begun again since the last good fragment."""
        self._kept: dict[int, Any] = {}

    def publish(self, version: int, weights: Any, needed: Collection[int]) -> None:
        """Lets it act with the policy of `version`, from when this returns; it keeps those that are
        `needed`."""
        self.ask("publish", version, weights, needed)
        self._kept = {v: w for v, w in self._kept.items() if v in needed} | {version: weights}

    def ask(self, what: str, *given: Any) -> Any:
        """Returns its answer."""
        while True:
            handle = self.handle
            try:
                return self._ray.get(getattr(handle, what).remote(*given))
            except self._ray.exceptions.RayActorError as error:
                self.renew(handle, reason(error))

    def renew(self, gone: Any, why: str) -> None:
        """Begins it again, with the policies that are needed; does nothing where that was done already."""
        if gone is not self.handle:
            return
        self._ray.kill(gone)
        self.in_vain += 1
        if self.in_vain > MOST_IN_VAIN:
            raise SurefootError(
                f"The inference service was begun {self.in_vain} times, and no fragment came of it: {why}"
            )
        self._lost(why)
        self.handle = self._begin()
        for version, weights in self._kept.items():
            self.ask("publish", version, weights, set(self._kept))

    def close(self) -> None:
        """Ends it."""
        self._ray.kill(self.handle)
