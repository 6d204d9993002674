"""MuJoCo's soft constraints, one row or cone at a time.

A constraint has a cost of the acceleration it sees. `residual` is that acceleration minus the reference
`aref = -b v - k d p` (p position, v velocity, d impedance), and D = d / ((1 - d) w) its stiffness (w inverse
weight). Limits and dry friction have a residual of one number, a contact one of three: with the normal part N
and the tangential part scaled by s = sqrt(impratio) to T, the cone mu = friction / s divides three zones:

    N >= mu T        open     no cost
    mu N + T <= 0    sticking 1/2 D (N^2 + T^2)
    between          sliding  1/2 D / (1 + mu^2) (N - mu T)^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.compiler import Expr, absolute, clamp, lift, maximum, minimum, sqrt, where
from surefoot.engines.stride.arrow import pairs
from surefoot.engines.stride.spatial import SYMMETRIC, Mat3, Spatial, Vec3, skew, unpack

TINY = 1e-12
"""A length below any tangential acceleration that matters: it keeps divisions finite where their result is
not used."""


@dataclass(frozen=True)
class SpringFigures:
    """`description.Spring` as expressions."""

    k: Expr
    b: Expr
    low: Expr
    high: Expr
    width: Expr
    midpoint: Expr
    power: int


def impedance(position: Expr, s: SpringFigures) -> Expr:
    """Rises from `low` at 0 to `high` at `width`, in an S made of two powers that meet at the midpoint."""
    x = minimum(absolute(position) / s.width, 1.0)
    if s.power == 1:
        return s.low + x * (s.high - s.low)
    rising = _power(x, s.power) / _power(s.midpoint, s.power - 1)
    falling = 1 - _power(1 - x, s.power) / _power(1 - s.midpoint, s.power - 1)
    return s.low + where(x <= s.midpoint, rising, falling) * (s.high - s.low)


def _power(x: Expr, n: int) -> Expr:
    out = lift(1.0)
    for _ in range(n):
        out = out * x
    return out


def stiffness(d: Expr, weight: Expr) -> Expr:
    return d / ((1 - d) * weight)


# ---- joints


@dataclass(frozen=True)
class Limit:
    """A joint limit: stiffness (0 when inactive), sign of its Jacobian, reference acceleration."""

    D: Expr
    sign: Expr
    aref: Expr

    def residual(self, acceleration: Expr) -> Expr:
        """Only the negative part counts: a limit pushes, never pulls."""
        return minimum(self.sign * acceleration - self.aref, 0.0)

    def gradient(self, acceleration: Expr) -> Expr:
        return self.D * self.sign * self.residual(acceleration)

    def curvature(self, acceleration: Expr) -> Expr:
        return where(self.residual(acceleration) < 0.0, self.D, 0.0)

    def zone(self, acceleration: Expr) -> Expr:
        return where((self.residual(acceleration) < 0.0) & (self.D > 0.0), 1.0, 0.0)


def limit(q: Expr, rate: Expr, low: Expr, high: Expr, weight: Expr, s: SpringFigures) -> Limit:
    below, above = q < low, q > high
    sign = where(below, 1.0, where(above, -1.0, 0.0))
    position = where(below, q - low, where(above, high - q, 0.0))
    d = impedance(position, s)
    return Limit(
        D=where(below | above, stiffness(d, weight), 0.0),
        sign=sign,
        aref=-(s.b * sign * rate) - s.k * d * position,
    )


@dataclass(frozen=True)
class DryFriction:
    """Joint dry friction: a Huber cost, linear where the force is at its bound."""

    D: Expr
    aref: Expr
    bound: Expr

    def force(self, acceleration: Expr) -> Expr:
        return self.D * (acceleration - self.aref)

    def gradient(self, acceleration: Expr) -> Expr:
        return clamp(self.force(acceleration), -self.bound, self.bound)

    def curvature(self, acceleration: Expr) -> Expr:
        return where(absolute(self.force(acceleration)) < self.bound, self.D, 0.0)

    def zone(self, acceleration: Expr) -> Expr:
        """Returns 0 between the bounds, at a bound its sign: crossing from one to the other changes no
        curvature."""
        force = self.force(acceleration)
        return where(force >= self.bound, 1.0, where(force <= -self.bound, -1.0, 0.0))


def dry_friction(rate: Expr, bound: Expr, weight: Expr, s: SpringFigures) -> DryFriction:
    return DryFriction(where(bound > 0.0, stiffness(s.low, weight), 0.0), -(s.b * rate), bound)


# ---- contacts


@dataclass(frozen=True)
class Contact:
    """A point contact: stiffness (0 when it does not touch), normal, friction and sqrt(impratio)."""

    D: Expr
    normal: Vec3
    mu: Expr  # friction / sqrt(impratio)
    s: float  # sqrt(impratio)

    def split(self, residual: Vec3) -> tuple[Expr, Vec3, Expr]:
        """Returns N, the scaled tangential vector and its length T."""
        N = self.normal.dot(residual)
        tangential = (residual - self.normal * N) * self.s
        return N, tangential, sqrt(tangential.dot(tangential))

    def zones(self, N: Expr, T: Expr) -> tuple[Expr, Expr]:
        """Returns where the contact sticks and where it slides, as masks."""
        touching = self.D > 0.0
        sticking = self.mu * N + T <= 0.0
        return touching & sticking, touching & ~sticking & (self.mu * T > N)

    def force(self, residual: Vec3) -> Vec3:
        N, tangential, T = self.split(residual)
        sticking, sliding = self.zones(N, T)
        return self._force(N, tangential, T, sticking, sliding)

    def _force(self, N: Expr, tangential: Vec3, T: Expr, sticking: Expr, sliding: Expr) -> Vec3:
        slide = -(self.D / (1 + self.mu * self.mu)) * (N - self.mu * T)
        normal = where(sticking, -self.D * N, where(sliding, slide, 0.0))
        along = where(sticking, -self.D, where(sliding, -(slide * self.mu) / maximum(T, TINY), 0.0))
        return self.normal * normal + tangential * (along * self.s)

    def force_and_hessian(self, residual: Vec3) -> tuple[Vec3, Mat3]:
        """Force, and second derivative of the cost by the contact's acceleration."""
        N, tangential, T = self.split(residual)
        sticking, sliding = self.zones(N, T)
        force = self._force(N, tangential, T, sticking, sliding)
        # sliding: K u u' + W b b' with u = n - mu t, t and b the unit vectors along and across the sliding;
        # b b' = 1 - n n' - t t' saves the cross product
        inverse = 1.0 / maximum(T, TINY)
        t = tangential * inverse
        K = self.D / (1 + self.mu * self.mu)
        W = -(K * (N - self.mu * T) * self.mu * inverse)
        u = self.normal - t * (self.mu * self.s)
        square = self.s * self.s
        ku = where(sliding, K, 0.0)
        kt = where(sliding, W * square, 0.0)
        kd = where(sticking, self.D * square, kt)
        kn = where(sticking, self.D * (1 - square), -kt)
        diagonal = [kd, kd, kd, 0, 0, 0]
        entries = [
            extra + ku * u[i] * u[j] + kn * self.normal[i] * self.normal[j] - kt * t[i] * t[j]
            for extra, (i, j) in zip(diagonal, SYMMETRIC, strict=True)
        ]
        return force, unpack(entries)

    def line(self, residual: Vec3, direction: Vec3) -> list[Expr]:
        """Residuals along a line, as far as costs depend on them: N is [0] + [1] step, T squared is
        [2] + 2 [3] step + [4] step^2."""
        N, tangential, _ = self.split(residual)
        rate = self.normal.dot(direction)
        turn = (direction - self.normal * rate) * self.s
        return [N, rate, tangential.dot(tangential), tangential.dot(turn), turn.dot(turn)]

    def along(self, line: Sequence[Expr], step: Expr | float) -> tuple[Expr, Expr, Expr]:
        """First and second derivative of the cost along a line, and zone: 0 open, 1 sticking, 2 sliding."""
        N0, vn, tt, tv, vv = line
        N, pull = N0 + vn * step, tv + vv * step
        T = sqrt(maximum(tt + (tv + pull) * step, 0.0))
        sticking, sliding = self.zones(N, T)
        inverse = 1.0 / maximum(T, TINY)
        dT = pull * inverse
        K = self.D / (1 + self.mu * self.mu)
        gap, slope = N - self.mu * T, vn - self.mu * dT
        bend = -(self.mu * (vv - dT * dT) * inverse)
        first = where(sticking, self.D * (N * vn + pull), where(sliding, K * gap * slope, 0.0))
        second = where(
            sticking, self.D * (vn * vn + vv), where(sliding, K * (slope * slope + gap * bend), 0.0)
        )
        return first, second, where(sticking, 1.0, where(sliding, 2.0, 0.0))


@dataclass(frozen=True)
class Touch:
    """A contact and what moves it: the trunk, and the joints between them."""

    contact: Contact
    point: Vec3
    aref: Vec3
    columns: list[Vec3]
    """The point's acceleration by those of the joints, from the trunk on."""

    def moved(self, base: Spatial, joints: Sequence[Expr]) -> Vec3:
        """Returns the point's acceleration."""
        out = base.at(self.point)
        for column, a in zip(self.columns, joints, strict=False):
            out = out + column * a
        return out

    def residual(self, base: Spatial, joints: Sequence[Expr]) -> Vec3:
        return self.moved(base, joints) - self.aref

    def wrench(self, force: Vec3) -> Spatial:
        """Returns force and moment at the trunk's origin."""
        return Spatial(force, self.point.cross(force))

    def on_trunk(self, C: Mat3) -> list[Expr]:
        """Lower triangle (21) of J' C J with the point's acceleration J (l, a) = l + a x point."""
        mixed = Mat3([self.point.cross(row) for row in C])  # linear by angular
        angular = skew(self.point) @ mixed
        return [
            C[i][j] if i < 3 else mixed[j][i - 3] if j < 3 else angular[i - 3][j - 3] for i, j in pairs(6)
        ]
