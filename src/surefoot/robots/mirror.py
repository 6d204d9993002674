"""Finds the left-right mirror of a robot: guessed from names or positions, kept only if kinematics confirms
it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surefoot.robots.kinematics import Array, foot_chain, foot_positions, joint_range, posed

if TYPE_CHECKING:
    import mujoco

REFLECT: Array = np.array([1.0, -1.0, 1.0])
"""The mirror plane is the trunk's x-z plane."""

TOLERANCE_M = 1e-3
"""How far a mirrored foot may be off. MJCFs exported from CAD are symmetric to well below a millimetre."""

_PAIRS = (
    ("FR", "FL"),
    ("RR", "RL"),
    ("HR", "HL"),
    ("BR", "BL"),
    ("RF", "LF"),
    ("RH", "LH"),
    ("RM", "LM"),
    ("MR", "ML"),
    ("RIGHT", "LEFT"),
    ("R", "L"),
)
_OTHER_SIDE = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


@dataclass(frozen=True)
class Mirror:
    """Mirrors a pose q as `signs[i] * q[joints[i]]`; foot i then is where foot `feet[i]` was, reflected."""

    joints: tuple[int, ...]
    signs: tuple[float, ...]
    feet: tuple[int, ...]


def other_side(name: str) -> str:
    """Swaps the first left/right word of a name ('FR_hip' -> 'FL_hip'); one without such a word stays."""
    words = re.split(r"([^A-Za-z0-9])", name)
    for i, word in enumerate(words):
        if (swapped := _OTHER_SIDE.get(word.upper())) is not None:
            words[i] = swapped if word.isupper() else swapped.lower() if word.islower() else swapped.title()
            break
    return "".join(words)


def infer_mirror(
    model: mujoco.MjModel,
    trunk: str,
    joints: Sequence[str],
    feet: Sequence[str],
    default_pose: Sequence[float],
) -> Mirror | None:
    """Returns the mirror, or None: the robot or its default pose is not symmetric, or no pairing was found.

    The default pose must be its own mirror image, because actions are offsets from it.
    """
    for pairs in (_pair_by_name(joints), _pair_by_position(model, trunk, joints)):
        if pairs is None or any(pairs[pairs[i]] != i for i in range(len(pairs))):
            continue
        mirror = _complete(model, trunk, joints, feet, pairs)
        if mirror is not None and _confirmed(model, trunk, joints, feet, default_pose, mirror):
            return mirror
    return None


def _pair_by_name(joints: Sequence[str]) -> list[int] | None:
    index = {name: i for i, name in enumerate(joints)}
    pairs = [index.get(other_side(name), -1) for name in joints]
    return None if -1 in pairs else pairs


def _pair_by_position(model: mujoco.MjModel, trunk: str, joints: Sequence[str]) -> list[int] | None:
    """Pairs hinges whose anchors and axes mirror each other when all joints are at zero."""
    anchors, axes = _hinges(model, trunk, joints)
    pairs = []
    for anchor, axis in zip(anchors, axes, strict=True):
        distance = np.linalg.norm(anchors - anchor * REFLECT, axis=1)
        parallel = np.abs(axes @ (axis * REFLECT)) > 0.99
        near = [int(j) for j in np.flatnonzero((distance < TOLERANCE_M) & parallel)]
        if len(near) != 1:
            return None
        pairs.append(near[0])
    return pairs


def _hinges(model: mujoco.MjModel, trunk: str, joints: Sequence[str]) -> tuple[Array, Array]:
    data = posed(model, trunk, joints, np.zeros(len(joints)))
    ids = [model.joint(name).id for name in joints]
    return data.xanchor[ids], data.xaxis[ids]


def _complete(
    model: mujoco.MjModel, trunk: str, joints: Sequence[str], feet: Sequence[str], pairs: Sequence[int]
) -> Mirror | None:
    """Completes a pairing of joints with signs from the axes and feet from the legs that they end.

    A rotation seen in a mirror turns the other way round about the reflected axis. So a hinge about y keeps
    its sign and one about x or z flips, unless the MJCF gives the axes of a pair opposite directions.
    """
    _, axes = _hinges(model, trunk, joints)
    cosines = [float(-axes[i] @ (axes[j] * REFLECT)) for i, j in enumerate(pairs)]
    if any(abs(c) < 0.99 for c in cosines):
        return None
    last = [foot_chain(model, joints, foot)[-1] for foot in feet]
    if any(pairs[j] not in last for j in last):
        return None
    return Mirror(
        joints=tuple(pairs),
        signs=tuple(float(np.sign(c)) for c in cosines),
        feet=tuple(last.index(pairs[j]) for j in last),
    )


def _confirmed(
    model: mujoco.MjModel,
    trunk: str,
    joints: Sequence[str],
    feet: Sequence[str],
    default_pose: Sequence[float],
    mirror: Mirror,
) -> bool:
    """Returns whether mirrored poses put the feet at mirrored places, for a few poses around the default."""
    default = np.array(default_pose, dtype=np.float64)
    pairs, signs = list(mirror.joints), np.array(mirror.signs)
    if not np.allclose(signs * default[pairs], default, atol=1e-6):
        return False
    low, high = (np.array(x) for x in joint_range(model, joints))
    rng = np.random.default_rng(0)
    for _ in range(8):
        pose = np.clip(default + rng.uniform(-1.0, 1.0, len(joints)), low, high)
        seen = foot_positions(model, trunk, joints, feet, pose)[list(mirror.feet)] * REFLECT
        moved = foot_positions(model, trunk, joints, feet, signs * pose[pairs])
        if np.abs(seen - moved).max() > TOLERANCE_M:
            return False
    return True
