"""What a policy remembers of its episode, as a recipe says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from surefoot.contract.errors import SurefootError
from surefoot.contract.model import Frozen

LARGEST = {"window": 256, "gru": 4096}
NONE = "none"


@dataclass(frozen=True)
class Memory:
    """`none`, `window:K` (the last K observations, this one among them) or `gru:H` (a state of H numbers)."""

    kind: Literal["none", "window", "gru"] = "none"
    size: int = 0

    def __bool__(self) -> bool:
        return self.kind != "none"

    @classmethod
    def parse(cls, text: str) -> Memory:
        """Reads what `--memory` takes; what cannot be read is refused."""
        kind, _, number = text.partition(":")
        if text == NONE:
            return cls()
        least = {"window": 2, "gru": 1}.get(kind)
        if least is None or not number.isdecimal():
            raise SurefootError(
                f"--memory is '{text}'; use none, window:K or gru:H, e.g. window:10 or gru:128."
            )
        if not least <= int(number) <= LARGEST[kind]:
            raise SurefootError(
                f"--memory is {text}; use {kind}:{least} to {kind}:{LARGEST[kind]}"
                + (", or none." if kind == "window" else ".")
            )
        return cls("window" if kind == "window" else "gru", int(number))

    def inputs(self, observation: int) -> int:
        """Returns how many numbers the actor's first layer reads, of observations of that size."""
        if self.kind == "gru":
            return observation + self.size
        return observation * max(1, self.size)

    def numbers(self, observation: int, horizon: int) -> int:
        """Returns how many numbers a rollout block has per environment besides those without memory."""
        kept = {"none": 0, "window": (self.size - 1) * observation, "gru": 2 * self.size}[self.kind]
        return kept + horizon * bool(self)

    def interface(self) -> dict[str, Any] | None:
        """Returns what an interface says of it; None: nothing is remembered."""
        names = {"window": "observations", "gru": "state"}
        return {"kind": self.kind, names[self.kind]: self.size} if self else None

    def plan(self, horizon: int) -> dict[str, Any]:
        """Returns what a plan says of it: what is remembered, and how it is learned from."""
        steps = horizon if self.kind == "gru" else 1
        return {"kind": self.kind, "size": self.size, "sequence_steps": steps, "burn_in_steps": 0}

    def said(self, horizon: int, control_hz: float) -> str:
        """Says it in words, with the length of the sequences that are learned from."""
        if self.kind == "window":
            span = (self.size - 1) / control_hz
            return (
                f"window: the last {self.size} observations ({span:g} s and now), the first one in place of "
                "those before it; sequence length 1, no burn-in"
            )
        if self.kind == "gru":
            return (
                f"GRU with a state of {self.size}, zero at an episode's start; sequence length {horizon}, no "
                "burn-in: a sequence begins with the state that it was collected with"
            )
        return "none: the policy sees one observation"


class Remembers(Frozen):
    """A record of which a memory is part. One without is written as it was before there was any, so that
    digests and files are what they were."""

    memory: str = NONE
    """What the policy remembers of its episode: none, window:K (the last K observations) or gru:H."""

    @property
    def remembers(self) -> Memory:
        """What the policy remembers."""
        return Memory.parse(self.memory)

    @model_serializer(mode="wrap")
    def _without_none(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        out: dict[str, Any] = write(self)
        if out.get("memory") == NONE:
            del out["memory"]
        return out
