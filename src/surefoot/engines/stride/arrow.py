"""Solving with an arrow matrix: eliminate each chain, solve the 6x6 that is left on the trunk, substitute
back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.compiler import Expr, lift, total
from surefoot.engines.stride.spatial import Mat3, Spatial, Vec3, spatial, unpack

LowerTriangle = list[list[Expr]]
"""Lower triangle: row i has i + 1 entries."""


def pairs(n: int) -> list[tuple[int, int]]:
    """Where the entries of a lower triangle stand, row by row."""
    return [(i, j) for i in range(n) for j in range(i + 1)]


def triangle(flat: Sequence[Expr], n: int) -> LowerTriangle:
    return [[flat[i * (i + 1) // 2 + j] for j in range(i + 1)] for i in range(n)]


def factor(H: LowerTriangle) -> tuple[LowerTriangle, list[Expr]]:
    """H = L diag(1 / inverse) L' with L's unit diagonal left out: (L, inverse)."""
    n = len(H)
    L: LowerTriangle = [[lift(0.0)] * i for i in range(n)]
    inverse: list[Expr] = []
    scaled: LowerTriangle = [[] for _ in range(n)]  # L[i][j] * d[j]
    for j in range(n):
        d = H[j][j] - total(L[j][k] * scaled[j][k] for k in range(j))
        inverse.append(1.0 / d)
        for i in range(j + 1, n):
            c = H[i][j] - total(L[i][k] * scaled[j][k] for k in range(j))
            scaled[i].append(c)
            L[i][j] = c * inverse[j]
    return L, inverse


def forward(L: LowerTriangle, b: Sequence[Expr]) -> list[Expr]:
    out: list[Expr] = []
    for i, x in enumerate(b):
        out.append(x - total(L[i][k] * out[k] for k in range(i)))
    return out


def backward(L: LowerTriangle, b: Sequence[Expr]) -> list[Expr]:
    """Solves L' x = b."""
    n, out = len(b), list(b)
    for i in reversed(range(n)):
        out[i] = b[i] - total(L[k][i] * out[k] for k in range(i + 1, n))
    return out


@dataclass(frozen=True)
class Eliminated:
    """A chain's factor, and its couplings and gradient after forward substitution."""

    L: LowerTriangle
    inverse: list[Expr]
    Z: list[list[Expr]]  # [depth][6]
    z: list[Expr]

    def reduction(self) -> tuple[list[Expr], list[Expr], Expr]:
        """What the elimination takes from the trunk's matrix (21 entries), gradient (6), and decrement."""
        n = len(self.z)
        scaled = [[x * self.inverse[k] for x in self.Z[k]] for k in range(n)]
        matrix = [total(scaled[k][i] * self.Z[k][j] for k in range(n)) for i, j in pairs(6)]
        gradient = [total(scaled[k][i] * self.z[k] for k in range(n)) for i in range(6)]
        return matrix, gradient, total(self.z[k] * self.z[k] * self.inverse[k] for k in range(n))

    def back(self, base: Sequence[Expr]) -> list[Expr]:
        """The joints' part of the solution -H^-1 g, given the trunk's."""
        b = [
            -((self.z[k] + total(x * y for x, y in zip(self.Z[k], base, strict=True))) * self.inverse[k])
            for k in range(len(self.z))
        ]
        return backward(self.L, b)

    def flat(self) -> dict[str, Expr]:
        """Names for everything that `back` needs later."""
        n = len(self.z)
        out = {f"eL{i}_{j}": self.L[i][j] for i in range(n) for j in range(i)}
        out |= {f"eD{k}": self.inverse[k] for k in range(n)}
        out |= {f"eZ{k}_{j}": self.Z[k][j] for k in range(n) for j in range(6)}
        return out | {f"ez{k}": self.z[k] for k in range(n)}


def eliminate(H: LowerTriangle, couplings: Sequence[Spatial], gradient: Sequence[Expr]) -> Eliminated:
    L, inverse = factor(H)
    columns = [forward(L, [c.flat()[a] for c in couplings]) for a in range(6)]
    Z = [[columns[a][k] for a in range(6)] for k in range(len(H))]
    return Eliminated(L, inverse, Z, forward(L, gradient))


def base_matrix(mass: Expr, h: Vec3, J: Sequence[Expr], extra: Sequence[Expr]) -> LowerTriangle:
    """The trunk's 6x6: composite inertia plus `extra` (21 entries), linear part first."""
    inertia = unpack(J)
    # angular rows: h x linear, J angular
    cross = Mat3([(0, -h[2], h[1]), (h[2], 0, -h[0]), (-h[1], h[0], 0)])
    rows: LowerTriangle = []
    for i, j in pairs(6):
        if i < 3:
            value = mass if i == j else lift(0.0)
        elif j < 3:
            value = cross[i - 3][j]
        else:
            value = inertia[i - 3][j - 3]
        if j == 0:
            rows.append([])
        rows[i].append(value + extra[len(rows) * (len(rows) - 1) // 2 + j])
    return rows


def solve(H: LowerTriangle, gradient: Sequence[Expr]) -> Spatial:
    """Returns -H^-1 gradient."""
    L, inverse = factor(H)
    y = forward(L, gradient)
    return spatial(backward(L, [-(a * b) for a, b in zip(y, inverse, strict=True)]))
