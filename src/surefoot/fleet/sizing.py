"""How many actors keep one learner busy, in exact arithmetic: M >= b / (t r).

A learner that takes t seconds for a batch of b transitions asks for b / t of them per second; an actor
supplies r. Whole numbers are rounded up where actors are counted, and down where a link is filled: nothing is
rounded before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil
from typing import Literal

from surefoot.contract import SurefootError

Binds = Literal["actors", "learner", "network"]
GIGA = 10**9
SMALLEST, LARGEST = Decimal("1e-12"), Decimal("1e18")


def exact(word: str | int | Fraction, what: str) -> Fraction:
    """Returns what a word says as a fraction: 0.1 is a tenth. Refused unless it is a positive number that a
    machine could mean: a fraction has as many digits as its exponent says."""
    if isinstance(word, Fraction):
        return word
    try:
        value = Decimal(str(word).replace(",", ""))
    except InvalidOperation:
        raise SurefootError(f"{what} takes a positive number, not '{word}'.") from None
    if not (value.is_finite() and SMALLEST <= value <= LARGEST):
        raise SurefootError(f"{what} is {word}; use a positive number from {SMALLEST} to {LARGEST}.")
    return Fraction(value)


@dataclass(frozen=True)
class Sizing:
    """Says what a fleet of `actors` gives, and what holds it back."""

    actors: int
    demand_per_s: Fraction
    """Transitions per second that the learner can take."""
    supply_per_s: Fraction
    """Transitions per second that the actors make."""
    bytes_per_s_per_actor: Fraction | None
    """None where the size of a transition is not known, as `bytes_per_s`."""
    bytes_per_s: Fraction | None
    network_actors: int | None
    """Actors that the link carries; None where it is not known."""
    network_per_s: Fraction | None
    """Transitions per second that the link carries."""

    @property
    def surplus_per_s(self) -> Fraction:
        """What the actors make beyond what the learner takes; negative where they make too little."""
        return self.supply_per_s - self.demand_per_s

    @property
    def rate_per_s(self) -> Fraction:
        """Transitions per second that are learned from."""
        limits = [self.supply_per_s, self.demand_per_s]
        return min([*limits, *([] if self.network_per_s is None else [self.network_per_s])])

    @property
    def learner_utilisation(self) -> Fraction:
        """The share of its time that the learner works."""
        return self.rate_per_s / self.demand_per_s

    @property
    def binds(self) -> Binds:
        """What holds the rate where it is. The learner does where it is as fast as what feeds it."""
        if self.rate_per_s == self.demand_per_s:
            return "learner"
        return "actors" if self.rate_per_s == self.supply_per_s else "network"

    def as_json(self) -> dict[str, int | float | str | None]:
        """Returns what `surefoot size --calculate --json` prints: whole numbers where they are whole."""
        return {
            "actors": self.actors,
            "demand_per_s": number(self.demand_per_s),
            "supply_per_s": number(self.supply_per_s),
            "surplus_per_s": number(self.surplus_per_s),
            "rate_per_s": number(self.rate_per_s),
            "learner_utilisation": number(self.learner_utilisation),
            "bytes_per_s_per_actor": number(self.bytes_per_s_per_actor),
            "bytes_per_s": number(self.bytes_per_s),
            "network_actors": self.network_actors,
            "binds": self.binds,
        }


def number(value: Fraction | None) -> int | float | None:
    """Returns a fraction as a whole number where it is one, else as the nearest float."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else float(value)


def calculate(
    batch: str | int,
    learner_ms: str | int,
    actor_rate: str | int,
    *,
    actors: int | None = None,
    bytes_per_transition: str | int | None = None,
    link_gbytes: str | int | None = None,
) -> Sizing:
    """Sizes a fleet: `batch` transitions per `learner_ms` milliseconds, `actor_rate` transitions per second
    and actor. `actors`: as many as that; None: the fewest that keep the learner busy. `link_gbytes`: what the
    learner's link carries, in 10^9 bytes per second."""
    b, ms, r = (
        exact(word, name)
        for word, name in ((batch, "--batch"), (learner_ms, "--learner-ms"), (actor_rate, "--actor-rate"))
    )
    if actors is not None and actors < 1:
        raise SurefootError(f"--actors is {actors}; use 1 or more.")
    if link_gbytes is not None and bytes_per_transition is None:
        raise SurefootError(
            "--link-gbytes says what a link carries, and not of what; give --bytes-per-transition too."
        )
    demand = b / (ms / 1000)
    count = max(1, ceil(demand / r)) if actors is None else actors
    size = None if bytes_per_transition is None else exact(bytes_per_transition, "--bytes-per-transition")
    link = None if link_gbytes is None else exact(link_gbytes, "--link-gbytes") * GIGA
    carried = None if link is None or size is None else link / size
    return Sizing(
        actors=count,
        demand_per_s=demand,
        supply_per_s=count * r,
        bytes_per_s_per_actor=None if size is None else size * r,
        bytes_per_s=None if size is None else size * r * count,
        network_actors=None if carried is None else int(carried / r),
        network_per_s=carried,
    )
