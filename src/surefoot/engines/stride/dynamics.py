"""Rigid body dynamics of one chain on a floating trunk, in the trunk's frame about the trunk's origin.

The mass matrix of a trunk with K chains is an arrow: a 6x6 block of the trunk, a block for each chain, and
the coupling of each chain with the trunk; chains do not couple with each other.

    M = [ B   F1  F2 ...]      B   composite inertia of everything
        [ F1' M1         ]     Mk  mass matrix of chain k
        [ F2'     M2     ]     Fk  momentum of the composite links when one joint of chain k turns

Bias forces are those of a frame that moves along with the trunk's origin (Galilean: a uniform motion changes
no force), so that the trunk's linear velocity does not appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.compiler import Expr, cos, lift, sin, sqrt, total
from surefoot.engines.stride.spatial import SYMMETRIC, ZERO3, Mat3, Spatial, Vec3, outer, unpack


@dataclass(frozen=True)
class LinkFigures:
    """A link's figures as expressions: constants, or parameters that differ between chains."""

    rotation: Mat3
    anchor: Vec3
    zero: Expr
    mass: Expr
    com: Vec3
    inertia: Mat3
    armature: Expr


@dataclass(frozen=True)
class Frame:
    """Where a link is: rotation to the trunk's frame, origin, and the motion that its joint gives it."""

    rotation: Mat3
    origin: Vec3
    axis: Spatial

    def point(self, local: Vec3) -> Vec3:
        turned: Vec3 = self.rotation @ local
        return self.origin + turned


TRUNK = Frame(Mat3([(1, 0, 0), (0, 1, 0), (0, 0, 1)]), ZERO3, Spatial(ZERO3, ZERO3))


@dataclass(frozen=True)
class Inertia:
    """Spatial inertia at the trunk's origin: mass, first moment h = m c, rotational inertia J."""

    mass: Expr
    h: Vec3
    J: Mat3

    def __add__(self, o: Inertia) -> Inertia:
        return Inertia(self.mass + o.mass, self.h + o.h, self.J + o.J)

    def __matmul__(self, v: Spatial) -> Spatial:
        """Momentum of a motion."""
        linear = v.linear * self.mass + v.angular.cross(self.h)
        return Spatial(linear, self.J @ v.angular + self.h.cross(v.linear))


def kinematics(links: Sequence[LinkFigures], q: Sequence[Expr]) -> list[Frame]:
    frames, parent = [], TRUNK
    for link, position in zip(links, q, strict=True):
        angle = position - link.zero
        s, c = sin(angle), cos(angle)
        x, y, z = (parent.rotation @ link.rotation).T
        rotation = Mat3([x * c + y * s, y * c - x * s, z]).T
        origin = parent.point(link.anchor)
        parent = Frame(rotation, origin, Spatial(origin.cross(z), z))
        frames.append(parent)
    return frames


def inertia_at(frame: Frame, mass: Expr, com: Vec3, inertia: Mat3) -> Inertia:
    """A link's inertia moved from its own frame to the trunk's."""
    centre = frame.point(com)
    half = frame.rotation @ inertia
    turned = unpack([half[i].dot(frame.rotation[j]) for i, j in SYMMETRIC])
    return about_origin(mass, centre, turned)


def about_origin(mass: Expr, centre: Vec3, central: Mat3) -> Inertia:
    h = centre * mass
    square = h.dot(centre)
    moved = outer(h, centre)
    J = unpack([central[i][j] - moved[i][j] + (square if i == j else 0.0) for i, j in SYMMETRIC])
    return Inertia(mass, h, J)


def composites(inertias: Sequence[Inertia]) -> list[Inertia]:
    """Each link together with all that hangs on it."""
    out = [inertias[-1]]
    for inertia in reversed(inertias[:-1]):
        out.append(inertia + out[-1])
    return out[::-1]


def mass_matrix(
    frames: Sequence[Frame], composite: Sequence[Inertia], armature: Sequence[Expr]
) -> tuple[list[list[Expr]], list[Spatial]]:
    """The chain's block (lower triangle, row i has i + 1 entries) and its couplings with the trunk."""
    couplings = [inertia @ frame.axis for inertia, frame in zip(composite, frames, strict=True)]
    rows = [[frames[j].axis.dot(couplings[i]) for j in range(i + 1)] for i in range(len(frames))]
    for i, extra in enumerate(armature):
        rows[i][i] = rows[i][i] + extra
    return rows, couplings


def motions(frames: Sequence[Frame], base: Spatial, rates: Sequence[Expr]) -> list[Spatial]:
    """Motion of the trunk and of each link: `base` plus what the joints between add."""
    out = [base]
    for frame, rate in zip(frames, rates, strict=True):
        out.append(out[-1] + frame.axis * rate)
    return out


def body_force(inertia: Inertia, velocity: Spatial, acceleration: Spatial) -> Spatial:
    """Newton and Euler: I a + v x* (I v)."""
    return (inertia @ acceleration) + velocity.cross_force(inertia @ velocity)


def bias(
    frames: Sequence[Frame],
    inertias: Sequence[Inertia],
    rates: Sequence[Expr],
    angular: Vec3,
    gravity: Vec3,
) -> tuple[list[Expr], Spatial]:
    """Joint torques and force on the trunk that keep all accelerations at zero (recursive Newton-Euler)."""
    velocity = Spatial(ZERO3, angular)
    acceleration = Spatial(-gravity, ZERO3)
    forces = []
    for frame, inertia, rate in zip(frames, inertias, rates, strict=True):
        joint = frame.axis * rate
        acceleration = acceleration + velocity.cross_motion(joint)
        velocity = velocity + joint
        forces.append(body_force(inertia, velocity, acceleration))
    carried = Spatial(ZERO3, ZERO3)
    torques: list[Expr] = []
    for frame, force in zip(reversed(frames), reversed(forces), strict=True):
        carried = carried + force
        torques.append(frame.axis.dot(carried))
    return torques[::-1], carried


def rotation_of(q: Sequence[Expr]) -> Mat3:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = q
    return Mat3(
        [
            (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        ]
    )


def rotate(q: Sequence[Expr], w: Vec3, dt: float) -> list[Expr]:
    """The quaternion after turning at body rate `w` for `dt`, normalised."""
    # Series of sin and cos of half the angle: at MAX_SPEED and dt 0.01 that is 0.87 rad, error below 1e-7.
    square = w.dot(w) * (0.25 * dt * dt)
    s = 0.5 * dt * _series(square, (1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880))
    c = _series(square, (1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320))
    x, y, z = w * s
    out = [
        q[0] * c - q[1] * x - q[2] * y - q[3] * z,
        q[0] * x + q[1] * c + q[2] * z - q[3] * y,
        q[0] * y - q[1] * z + q[2] * c + q[3] * x,
        q[0] * z + q[1] * y - q[2] * x + q[3] * c,
    ]
    scale = 1.0 / sqrt(total(a * a for a in out))
    return [a * scale for a in out]


def _series(x: Expr, coefficients: Sequence[float]) -> Expr:
    out = lift(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out
