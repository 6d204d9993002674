"""Vectors, matrices and spatial motions of expressions: plain tuples, so that they can be taken apart and
stored by component."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.compiler import Expr, lift, total


class Vec3(tuple[Expr, Expr, Expr]):
    """A vector of three expressions with the arithmetic of vectors."""

    def __new__(cls, x: Any, y: Any, z: Any) -> Vec3:
        return super().__new__(cls, (lift(x), lift(y), lift(z)))

    def __add__(self, other: Any) -> Vec3:
        return Vec3(*(a + b for a, b in zip(self, other, strict=True)))

    def __sub__(self, other: Any) -> Vec3:
        return Vec3(*(a - b for a, b in zip(self, other, strict=True)))

    def __mul__(self, k: Any) -> Vec3:
        return Vec3(*(a * k for a in self))

    __rmul__ = __mul__

    def __neg__(self) -> Vec3:
        return Vec3(*(-a for a in self))

    def dot(self, other: Sequence[Expr]) -> Expr:
        return total(a * b for a, b in zip(self, other, strict=True))

    def cross(self, o: Sequence[Expr]) -> Vec3:
        return Vec3(
            self[1] * o[2] - self[2] * o[1], self[2] * o[0] - self[0] * o[2], self[0] * o[1] - self[1] * o[0]
        )


ZERO3 = Vec3(0, 0, 0)


class Mat3(tuple[Vec3, Vec3, Vec3]):
    """A 3x3 matrix as three rows."""

    def __new__(cls, rows: Iterable[Sequence[Any]]) -> Mat3:
        return super().__new__(cls, (Vec3(*r) for r in rows))

    @property
    def T(self) -> Mat3:
        return Mat3(zip(*self, strict=True))

    def __add__(self, other: Any) -> Mat3:
        return Mat3(a + b for a, b in zip(self, other, strict=True))

    def __sub__(self, other: Any) -> Mat3:
        return Mat3(a - b for a, b in zip(self, other, strict=True))

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Mat3):
            return Mat3([row.dot(column) for column in other.T] for row in self)
        return Vec3(*(row.dot(other) for row in self))

    def flat(self) -> list[Expr]:
        return [x for row in self for x in row]


def skew(v: Vec3) -> Mat3:
    """[v]x, the matrix of the cross product from the left."""
    return Mat3([(0, -v[2], v[1]), (v[2], 0, -v[0]), (-v[1], v[0], 0)])


def outer(a: Vec3, b: Vec3) -> Mat3:
    return Mat3([[x * y for y in b] for x in a])


def diagonal(x: Any, y: Any, z: Any) -> Mat3:
    return Mat3([(x, 0, 0), (0, y, 0), (0, 0, z)])


SYMMETRIC = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""Where the six numbers of a symmetric 3x3 matrix stand."""


def pack(m: Mat3) -> list[Expr]:
    """The six numbers of a symmetric matrix."""
    return [m[i][j] for i, j in SYMMETRIC]


def unpack(s: Sequence[Any]) -> Mat3:
    return Mat3([(s[0], s[3], s[4]), (s[3], s[1], s[5]), (s[4], s[5], s[2])])


class Spatial(tuple[Vec3, Vec3]):
    """Linear and angular part of a motion (or force and moment) at the trunk's origin, in the trunk frame."""

    def __new__(cls, linear: Sequence[Any], angular: Sequence[Any]) -> Spatial:
        return super().__new__(cls, (Vec3(*linear), Vec3(*angular)))

    @property
    def linear(self) -> Vec3:
        return self[0]

    @property
    def angular(self) -> Vec3:
        return self[1]

    def __add__(self, other: Any) -> Spatial:
        return Spatial(self[0] + other[0], self[1] + other[1])

    def __sub__(self, other: Any) -> Spatial:
        return Spatial(self[0] - other[0], self[1] - other[1])

    def __mul__(self, k: Any) -> Spatial:
        return Spatial(self[0] * k, self[1] * k)

    __rmul__ = __mul__

    def dot(self, other: Spatial) -> Expr:
        return self[0].dot(other[0]) + self[1].dot(other[1])

    def flat(self) -> list[Expr]:
        return [*self[0], *self[1]]

    def at(self, point: Vec3) -> Vec3:
        """Velocity of the body-fixed point."""
        return self.linear + self.angular.cross(point)

    def cross_motion(self, o: Spatial) -> Spatial:
        return Spatial(
            self.angular.cross(o.linear) + self.linear.cross(o.angular), self.angular.cross(o.angular)
        )

    def cross_force(self, f: Spatial) -> Spatial:
        return Spatial(
            self.angular.cross(f.linear), self.angular.cross(f.angular) + self.linear.cross(f.linear)
        )


def spatial(flat: Sequence[Any]) -> Spatial:
    return Spatial(flat[:3], flat[3:])
