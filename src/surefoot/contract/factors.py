"""Factors (what is randomised, at which level, over which range) and the strata that resets are balanced
over.

A stratum is a cell of the bins of the factors named in `Strata.names`. Bins are not drawn, they are dealt:
the k-th family, environment or episode gets the k-th cell of a fixed order, so every stratum gets its
declared share exactly (to within one) however few environments there are. Only the position inside a bin is
random.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np

from surefoot.contract.errors import SurefootError
from surefoot.contract.model import Frozen

Level = Literal["family", "env", "episode"]


class Factor(Frozen):
    """One randomised quantity. Continuous (a range, `bins` equal bins) or categorical (`categories` with
    `shares`)."""

    name: str
    unit: str
    level: Level
    """What shares a draw: all environments of a seed family, one environment throughout, or one episode."""
    train: tuple[float, float] = (0.0, 0.0)
    """Range drawn from in training."""
    held_out: tuple[float, float] = (0.0, 0.0)
    """Range that panels draw from."""
    bins: int = 1
    categories: tuple[str, ...] = ()
    shares: tuple[int, ...] = ()
    """How many of sum(shares) consecutive deals each category gets."""
    held_out_categories: tuple[str, ...] = ()
    """Categories that only panels use."""

    def model_post_init(self, _: object) -> None:
        if self.categories and len(self.shares) != len(self.categories):
            raise SurefootError(
                f"Factor '{self.name}' has {len(self.categories)} categories; give as many shares."
            )
        if self.train[0] > self.train[1] or self.held_out[0] > self.held_out[1]:
            raise SurefootError(f"Factor '{self.name}' has a range with low above high; swap its ends.")
        if self.bins < 1:
            raise SurefootError(f"Factor '{self.name}' has {self.bins} bins; use 1 or more.")

    @property
    def cells(self) -> int:
        return len(self.categories) or self.bins

    @cached_property
    def deck(self) -> tuple[int, ...]:
        """Returns the bins in the order in which they are dealt, each as often as its share, spread
        evenly."""
        if not self.categories:
            return tuple(range(self.bins))
        slots = [((k + 0.5) / share, b) for b, share in enumerate(self.shares) for k in range(share)]
        return tuple(b for _, b in sorted(slots))

    def bin_of(self, value: np.ndarray) -> np.ndarray:
        """Returns the bin of a continuous value over the training range; values outside fall into the end
        bins."""
        low, high = self.train
        width = (high - low) / self.bins or 1.0
        return np.clip(np.floor((value - low) / width), 0, self.bins - 1).astype(np.int64)

    def label(self, cell: int) -> str:
        if self.categories:
            return self.categories[cell]
        low, high = self.train
        width = (high - low) / self.bins
        return f"{low + cell * width:.3g}..{low + (cell + 1) * width:.3g}"


class Strata(Frozen):
    """The stratification: which factors, and how their cells are dealt to families, environments and
    episodes."""

    factors: tuple[Factor, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(f.cells for f in self.factors)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def labels(self) -> list[str]:
        """Names every stratum, e.g. 'friction 0.4..0.67 | payload -1..-0.33 | command forward'."""
        cells = np.stack(np.unravel_index(np.arange(self.count), self.shape), 1)
        return [
            " | ".join(f"{f.name} {f.label(c)}" for f, c in zip(self.factors, row, strict=True))
            for row in cells.tolist()
        ]

    def weights(self) -> np.ndarray:
        """Returns the declared share of resets that each stratum gets; sums to 1."""
        out = np.ones(1)
        for f in self.factors:
            share = np.bincount(f.deck, minlength=f.cells) / len(f.deck)
            out = np.multiply.outer(out, share).reshape(-1)
        return out

    @cached_property
    def round(self) -> tuple[int, int]:
        """Returns (multiplier, length) of the episodes' deck: the episode-level cells of environment e in
        its episode k are a function of (e + k * multiplier) % length."""
        length = math.prod(len(f.deck) for f in self.factors if f.level == "episode")
        return _coprime(length), length

    def deal(
        self,
        name: str,
        family: np.ndarray,
        member: np.ndarray,
        env: np.ndarray,
        episode: np.ndarray,
        segment: int = 0,
    ) -> np.ndarray:
        """Returns the cell of factor `name` for each row: environment `env` is `member` of `family`.

        Each level has a deck: the product of the decks of the stratified factors of that level. The ordinal
        walks through it with a golden stride coprime to its length, so neighbours differ and every cell comes
        round once per cycle. A factor resampled within an episode advances by `segment`.
        """
        factor = self.factors[self.names.index(name)]
        same = [f for f in self.factors if f.level == factor.level]
        if factor.level == "family":
            at = family.astype(np.int64)
        elif factor.level == "env":
            # One step further after each round of family cells, so that every pair of cells comes up.
            rounds = math.prod(len(f.deck) for f in self.factors if f.level == "family")
            at = member.astype(np.int64) + family // rounds
        else:
            at = env + episode.astype(np.int64) * self.round[0] + segment * _coprime(len(factor.deck))
        for f in same[: same.index(factor)]:
            at = at // len(f.deck)
        cells: np.ndarray = np.asarray(factor.deck, np.int64)[at % len(factor.deck)]
        return cells

    def dealt_for_life(self, name: str, families: int, members: int) -> set[int]:
        """Returns the cells of environment-level factor `name` that somebody is dealt, of `families` of
        `members`.

        They follow member + family // rounds, as `deal` has it, and come round once per cycle of that level's
        decks: a cycle of members, then a cycle of rounds for the last of them, see all that is to be seen,
        however many there are.
        """
        rounds = math.prod(len(f.deck) for f in self.factors if f.level == "family")
        cycle = math.prod(len(f.deck) for f in self.factors if f.level == "env")
        first = np.arange(min(members, cycle))
        later = np.arange(0, min(families, rounds * cycle), rounds)
        family = np.concatenate((np.zeros_like(first), later))
        member = np.concatenate((first, np.full_like(later, first[-1])))
        none = np.zeros_like(family)
        return set(self.deal(name, family, member, none, none).tolist())

    def join(self, cells: dict[str, np.ndarray]) -> np.ndarray:
        """Numbers the stratum of each row from the cells of its factors."""
        return np.ravel_multi_index([cells[n] for n in self.names], self.shape).astype(np.int64)


def _coprime(length: int) -> int:
    """Returns the integer nearest above the golden section of `length` that is coprime to it."""
    k = max(1, round(length * 0.618))
    while math.gcd(k, length) != 1:
        k += 1
    return k
