"""Packs a robot and its motion for the browser: its shapes, and poses of its bodies in 16-bit integers."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from surefoot.robots import Skeleton

POSITION_UNIT_M = 0.0005
"""One step of a 16-bit position; it reaches 16 m from where the episode began, more is scaled."""


def robot_shapes(skeleton: Skeleton) -> dict[str, Any]:
    """Returns the robot as replay.js draws it; bodies are numbered among those that are drawn. The part of a
    front leg's shape is `front`."""
    drawn, nose = skeleton.drawn, skeleton.nose
    shapes = []
    for s in (*skeleton.shapes, *((nose,) if nose else ())):
        part = "front" if s.part == "leg" and skeleton.is_front(s) else s.part
        shapes.append(s.model_dump(mode="json") | {"body": drawn.index(s.body), "part": part})
    return {"shapes": shapes, "height": skeleton.stand_height_m}


def packed_poses(place: np.ndarray, turn: np.ndarray) -> dict[str, Any]:
    """Packs positions [T, B, 3] and quaternions [T, B, 4] as 16-bit integers, delta-coded along time so that
    they deflate well."""
    unit = max(POSITION_UNIT_M, float(np.abs(place).max(initial=0.0)) / 32_000)
    # A quaternion and its negative are the same turn; neighbours in time get the same sign.
    for t in range(1, len(turn)):
        flip = np.sum(turn[t] * turn[t - 1], -1) < 0
        turn[t][flip] *= -1
    ints = np.concatenate([np.rint(place / unit), np.rint(turn * 32_000)], axis=2).astype(
        np.int16
    )  # [T, B, 7]
    return {"unit": unit, "poses": packed(ints)}


def packed(values: np.ndarray) -> str:
    """Packs int16 [T, ...] as differences in time, columns together, deflated, base64."""
    flat = values.reshape(len(values), -1).astype(np.int16)
    delta = np.diff(flat, axis=0, prepend=np.zeros((1, flat.shape[1]), np.int16))
    raw = np.ascontiguousarray(delta.T).astype("<i2").tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpacked(text: str, frames: int) -> np.ndarray:
    """Inverts `packed`: returns [frames, columns]."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i2")
    return np.cumsum(raw.reshape(-1, frames).T, axis=0, dtype=np.int16)


def tilt_of(quaternion: np.ndarray) -> np.ndarray:
    """Returns the angle between the trunk's z axis and the vertical, rad."""
    _, x, y, _ = np.moveaxis(quaternion.astype(float), -1, 0)
    angle: np.ndarray = np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1))
    return angle


def body_velocity(trace: dict[str, Any], position: np.ndarray, hz: float) -> np.ndarray:
    """Returns forward, sideways and turning velocity in the trunk's frame [T, 3]: from the positions where
    the trace has no velocities."""
    if "linear_velocity" in trace and "angular_velocity" in trace:
        both = (trace["linear_velocity"][:, :2], trace["angular_velocity"][:, 2:3])
        return np.concatenate(both, axis=1).astype(float)
    w, x, y, z = np.moveaxis(trace["quaternion"].astype(float), -1, 0)
    step = np.gradient(position, axis=0) * hz if len(position) > 1 else np.zeros_like(position)
    vx = (
        step[:, 0] * (1 - 2 * (y * y + z * z))
        + step[:, 1] * 2 * (x * y + w * z)
        + step[:, 2] * 2 * (x * z - w * y)
    )
    vy = (
        step[:, 0] * 2 * (x * y - w * z)
        + step[:, 1] * (1 - 2 * (x * x + z * z))
        + step[:, 2] * 2 * (y * z + w * x)
    )
    yaw = np.unwrap(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    wz = np.gradient(yaw) * hz if len(yaw) > 1 else np.zeros_like(yaw)
    return np.stack([vx, vy, wz], 1)
