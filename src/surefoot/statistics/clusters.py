"""Families: how alike their episodes are, and how many independent episodes they are therefore worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.contract import SurefootError


@dataclass(frozen=True)
class Families:
    """Sizes and means by family; all that a one-way analysis of variance needs besides the squares within."""

    sizes: NDArray[np.float64]  # [K]
    means: NDArray[np.float64]  # [K]
    mean: float
    within: float  # sum of squares of episodes about their family's mean
    n: int

    @property
    def count(self) -> int:
        return len(self.sizes)

    @property
    def size(self) -> float:
        """Returns sum(n_i^2) / n: the family size an average episode lives in; above the mean size when
        unequal."""
        return float(self.sizes @ self.sizes) / self.n

    @property
    def worth(self) -> float:
        """Returns n^2 / sum(n_i^2): how many equal families these are worth; K if equal, less if some
        outweigh."""
        return self.n / self.size


def icc(values: ArrayLike, family: ArrayLike) -> float:
    """Intraclass correlation, one-way random-effects ANOVA estimator for unequal sizes, clipped to 0..1.

    Where the data cannot tell: constant values give 0 (no variance to be shared) and a single family gives 1
    (nothing shows that its episodes are more than one draw). Families of one episode each give 0 and it does
    not matter.
    """
    return icc_of(split(values, family))


def design_effect(values: ArrayLike, family: ArrayLike) -> float:
    """Returns the variance of the mean over that of as many independent episodes: 1 + (m - 1) * icc, with m =
    sum(n_i^2) / n.

    That m is the exact one for the mean over episodes (Kish); it is the common size when all families are
    equal.
    """
    return design_effect_of(split(values, family))


def effective_n(values: ArrayLike, family: ArrayLike) -> float:
    """Returns n / design effect: from n (icc 0) down to n^2 / sum(n_i^2) (icc 1).

    That floor is the number of families K when they are equal, and below K when not: one large family
    outweighs.
    """
    families = split(values, family)
    return effective_n_of(families)


def checked(values: ArrayLike, family: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
    """Values and labels as arrays [n], refused where no statistic can be taken of them."""
    x = np.asarray(values, dtype=np.float64)
    labels = np.asarray(family)
    if x.ndim != 1 or x.shape != labels.shape:
        raise SurefootError(
            f"Values and families must be two lists of the same length, not {x.shape} and {labels.shape}."
        )
    if x.size == 0:
        raise SurefootError("There are no episodes to take a statistic of; evaluate at least one.")
    if not np.isfinite(x).all():
        raise SurefootError(
            f"{int((~np.isfinite(x)).sum())} of {x.size} values are not finite; "
            "leave those episodes out and say so."
        )
    return x, labels


def split(values: ArrayLike, family: ArrayLike) -> Families:
    """Sorts episodes into families; labels may be numbers or text, equal within a family."""
    x, labels = checked(values, family)
    _, index = np.unique(labels, return_inverse=True)
    sizes = np.bincount(index).astype(np.float64)
    # About a value of the data: constant values then have a variance of exactly 0, offsets cost no digits.
    origin = float(x[0])
    shifted = x - origin
    means = np.bincount(index, shifted) / sizes
    mean = float(shifted.mean())
    within = float(np.sum((shifted - means[index]) ** 2))
    return Families(sizes, means + origin, mean + origin, within, x.size)


def icc_of(families: Families) -> float:
    n, k = families.n, families.count
    if k == 1:
        return 1.0 if n > 1 else 0.0
    if n == k:
        return 0.0
    between_ms = float(families.sizes @ (families.means - families.mean) ** 2) / (k - 1)
    within_ms = families.within / (n - k)
    m0 = (n - families.size) / (k - 1)  # the size that makes the estimator of the variance between unbiased
    total = between_ms + (m0 - 1) * within_ms
    if total <= 0:
        return 0.0
    return min(max((between_ms - within_ms) / total, 0.0), 1.0)


def design_effect_of(families: Families) -> float:
    return 1 + (families.size - 1) * icc_of(families)


def effective_n_of(families: Families) -> float:
    return families.n / design_effect_of(families)
