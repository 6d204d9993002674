"""The deal once more: which bin of a stratified factor a family, an environment or an episode gets, in numpy
from the contract's prose. Bins are not drawn: each level (family, environment, episode) has a deck, the
product of the decks of its stratified factors, and the ordinal walks through it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.contract import Factor, TaskContract

FREE_COMMANDS = (7, 3)
"""Steps through the deck of commands where they are not stratified: from episode to episode, and from segment
to segment."""


@dataclass(frozen=True)
class Who:
    """Addresses of draws, one row each: whose environment, in which of its episodes."""

    family: np.ndarray
    member: np.ndarray
    episode: np.ndarray
    size: int
    """Environments of a family."""

    @property
    def env(self) -> np.ndarray:
        return np.asarray(self.family * self.size + self.member)

    def take(self, rows: np.ndarray) -> Who:
        return Who(self.family[rows], self.member[rows], self.episode[rows], self.size)


def deck_of(factor: Factor) -> list[int]:
    """Returns bins in the order in which they are dealt: each as often as its share, spread evenly."""
    if not factor.categories:
        return list(range(factor.bins))
    places = [((k + 0.5) / share, b) for b, share in enumerate(factor.shares) for k in range(share)]
    return [b for _, b in sorted(places)]


def stride(length: int) -> int:
    """Returns the first number from the golden section of `length` upwards that shares no divisor with it."""
    k = max(1, round(length * 0.618))
    while math.gcd(k, length) > 1:
        k += 1
    return k


def dealt(contract: TaskContract, name: str, who: Who, segment: int = 0) -> np.ndarray:
    """Returns the bin of factor `name` that each row is dealt, in one segment of its episode."""
    factors = {f.name: f for f in contract.factors}
    factor, deck = factors[name], deck_of(factors[name])
    if name not in contract.stratify:
        assert name == "command", "no other factor is dealt without being stratified"
        by_episode, by_segment = FREE_COMMANDS
        at = who.env + who.episode * by_episode + by_segment * segment
        free: np.ndarray = np.asarray(deck)[at % len(deck)]
        return free
    same = [factors[n] for n in contract.stratify if factors[n].level == factor.level]
    if factor.level == "family":
        at = who.family
    elif factor.level == "env":
        families = [len(deck_of(factors[n])) for n in contract.stratify if factors[n].level == "family"]
        at = who.member + who.family // math.prod(families)
    else:
        round_ = math.prod(len(deck_of(f)) for f in same)
        at = who.env + who.episode * stride(round_) + segment * stride(len(deck))
    for before in same:
        if before.name == name:
            break
        at = at // len(deck_of(before))
    out: np.ndarray = np.asarray(deck)[at % len(deck)]
    return out


def stratum(contract: TaskContract, who: Who, segment: int = 0) -> np.ndarray:
    """Returns the number of each row's stratum in a segment: its bins, the last factor's running fastest.
    Only commands change within an episode."""
    out = np.zeros(len(who.family), np.int64)
    for name in contract.stratify:
        factor = contract.factor(name)
        size = len(factor.categories) or factor.bins
        out = out * size + dealt(contract, name, who, segment if name == "command" else 0)
    return out
