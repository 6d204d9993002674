"""A robot as it is drawn: its bodies, its joints and their shapes, and where motion puts them.

A run keeps its robot's skeleton as robot.json, so that its episodes can be drawn where there is no simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from surefoot.contract import Frozen
from surefoot.robots.kinematics import Array

FILE = "robot.json"
"""The name of the skeleton's file in a run folder."""

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
"""A unit quaternion, w first."""


class Body(Frozen):
    """A body, placed in the frame of its parent as it is with all joints at their reference."""

    parent: int | None
    """The number of the body that it hangs on; None: the world."""
    position: Vector
    quaternion: Quaternion
    joints: tuple[int, ...]
    """The joints that turn it against its parent, in the order in which they do."""


class Joint(Frozen):
    """A hinge, in the frame of the body that it turns."""

    name: str
    axis: Vector
    anchor: Vector
    reference: float
    """The angle at which it turns nothing, rad."""


class Shape(Frozen):
    """A shape to draw, in the frame of its body. Sizes are MuJoCo's: radius and half lengths."""

    body: int
    kind: Literal["sphere", "capsule", "ellipsoid", "cylinder", "box"]
    size: tuple[float, ...]
    position: Vector
    quaternion: Quaternion
    part: Literal["foot", "trunk", "leg", "nose"]


class Skeleton(Frozen):
    """Holds robot.json. Bodies come after their parents; joints are in the order of the policy's."""

    schema_version: int = 1
    name: str
    robot_digest: str
    trunk: int
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    torque_limit_nm: tuple[float, ...]
    stand_height_m: float
    shapes: tuple[Shape, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        bodies, joints = range(len(self.bodies)), range(len(self.joints))
        named = [self.trunk, *(s.body for s in self.shapes)]
        turned = [j for b in self.bodies for j in b.joints]
        early = all(b.parent is None or b.parent in range(k) for k, b in enumerate(self.bodies))
        if not early or not all(b in bodies for b in named) or not all(j in joints for j in turned):
            raise ValueError("it names a body or joint that is not there, or not yet")
        if len(self.torque_limit_nm) != len(joints):
            raise ValueError("it has not one torque limit per joint")
        return self

    @property
    def drawn(self) -> list[int]:
        """Returns the bodies that have a shape, in the order of their first ones."""
        return list(dict.fromkeys(s.body for s in self.shapes))

    @property
    def nose(self) -> Shape | None:
        """Returns a shape at the front of the trunk, by which front and rear are told apart; None where the
        trunk has no shape to put it on."""
        reach = [(*_half_extents(s), s) for s in self.shapes if s.part == "trunk"]
        if not reach:
            return None
        x, y, z, foremost = max(reach, key=lambda r: r[3].position[0] + r[0])
        _, side, up = foremost.position
        return Shape(
            body=foremost.body,
            kind="ellipsoid",
            size=(0.3 * x, 0.62 * y, 0.72 * z),
            position=(foremost.position[0] + x, side, up),
            quaternion=(1.0, 0.0, 0.0, 0.0),
            part="nose",
        )

    def is_front(self, shape: Shape) -> bool:
        """Tells whether a shape belongs to a front leg. A robot whose legs are all at one place along its
        trunk, such as a biped, has none."""
        hips = [b.position[0] for b in self.bodies if b.parent == self.trunk]
        middle, spread = (max(hips) + min(hips)) / 2 if hips else 0.0, np.ptp(hips) if hips else 0.0
        if spread < 0.2 * self.stand_height_m or shape.part not in ("leg", "foot"):
            return False
        at, body = shape.position[0], shape.body
        while body != self.trunk:
            at, parent = self.bodies[body].position[0], self.bodies[body].parent
            if parent is None:
                return False
            body = parent
        return bool(at > middle + 0.1 * spread)

    def poses(self, position: Array, quaternion: Array, angles: Array) -> tuple[Array, Array]:
        """Computes where all bodies are in T frames: positions [T, B, 3] and unit quaternions [T, B, 4].

        `position` [T, 3] and `quaternion` [T, 4] are the trunk's, `angles` [T, J] the joints'.
        """
        frames = len(position)
        place, turn = np.zeros((frames, len(self.bodies), 3)), np.zeros((frames, len(self.bodies), 4))
        for k, body in enumerate(self.bodies):
            if k == self.trunk:
                place[:, k], turn[:, k] = position, _unit(np.asarray(quaternion, np.float64))
                continue
            at: Array = np.tile(body.position, (frames, 1))
            by: Array = np.tile(body.quaternion, (frames, 1))
            if body.parent is not None:
                at = place[:, body.parent] + _rotated(turn[:, body.parent], at)
                by = _product(turn[:, body.parent], by)
            for j in body.joints:
                joint = self.joints[j]
                anchor = at + _rotated(by, joint.anchor)
                by = _product(by, _about(joint.axis, angles[:, j] - joint.reference))
                at = anchor - _rotated(by, joint.anchor)
            place[:, k], turn[:, k] = at, _unit(by)
        return place, turn


def _half_extents(shape: Shape) -> tuple[float, float, float]:
    """Returns how far a shape reaches from its centre along the axes of its body, at most."""
    radius, length = shape.size[0], shape.size[1] if len(shape.size) > 1 else 0.0
    own: Sequence[float] = {
        "sphere": (radius, radius, radius),
        "capsule": (radius, radius, radius + length),
        "cylinder": (radius, radius, length),
    }.get(shape.kind, shape.size)
    w, x, y, z = shape.quaternion
    turn = np.array([_rotated(np.array([w, x, y, z]), axis) for axis in np.eye(3)]).T
    across, side, up = (np.abs(turn) @ np.asarray(own[:3], float)).tolist()
    return across, side, up


def _product(a: Array, b: Array) -> Array:
    """Returns the quaternion that turns by `b` first, then by `a` [..., 4]."""
    w, v, s, u = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    real = w * s - np.sum(v * u, axis=-1, keepdims=True)
    return np.concatenate([real, w * u + s * v + np.cross(v, u)], axis=-1)


def _rotated(q: Array, vector: Array | Sequence[float]) -> Array:
    """Returns `vector` [3] or [..., 3], turned by the unit quaternions `q` [..., 4]."""
    across = 2 * np.cross(q[..., 1:], vector)
    turned: Array = vector + q[..., :1] * across + np.cross(q[..., 1:], across)
    return turned


def _about(axis: Vector, angle: Array) -> Array:
    """Returns the quaternions of turns by `angle` [T] about a unit vector."""
    half = angle[:, None] / 2
    return np.concatenate([np.cos(half), np.sin(half) * np.asarray(axis)], axis=1)


def _unit(q: Array) -> Array:
    """Scales quaternions to length one; none at all counts as no turn, as in MuJoCo."""
    length = np.linalg.norm(q, axis=-1, keepdims=True)
    unit: Array = np.where(length < 1e-15, (1.0, 0.0, 0.0, 0.0), q / np.maximum(length, 1e-15))
    return unit
