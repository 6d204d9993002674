"""Forward kinematics for the browser: shapes of the robot, poses of its bodies in 16-bit integers."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import mujoco
import numpy as np

from surefoot.robots import RobotSpec

POSITION_UNIT_M = 0.0005
"""One step of a 16-bit position; it reaches 16 m from where the episode began, more is scaled."""

_SHAPES = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
}


def robot_shapes(model: mujoco.MjModel, spec: RobotSpec) -> dict[str, Any]:
    """Visible shapes by body. A mesh is drawn as its bounding box."""
    bodies: list[int] = []
    shapes = []
    trunk = model.body(spec.trunk).id
    feet = {model.geom(f).id for f in spec.feet}
    for g in range(model.ngeom):
        if model.geom_rgba[g][3] == 0:
            continue
        kind = _SHAPES.get(int(model.geom_type[g]))
        size, offset = model.geom_size[g].copy(), np.zeros(3)
        if kind is None:
            offset, size, kind = model.geom_aabb[g][:3], model.geom_aabb[g][3:], "box"
        body = int(model.geom_bodyid[g])
        if body not in bodies:
            bodies.append(body)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[g])
        place = model.geom_pos[g] + rotation.reshape(3, 3) @ offset
        shapes.append(
            {
                "body": bodies.index(body),
                "kind": kind,
                "size": [round(float(s), 5) for s in size],
                "position": [round(float(p), 5) for p in place],
                "quaternion": [round(float(q), 6) for q in model.geom_quat[g]],
                "part": "foot" if g in feet else "trunk" if body == trunk else "leg",
            }
        )
    shapes += _links(model, bodies, trunk, shapes)
    return {"bodies": bodies, "shapes": shapes, "height": spec.stand_height_m}


def _links(
    model: mujoco.MjModel, bodies: list[int], trunk: int, shapes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Thin rods from each body's joint to the next one's, so that a robot whose hips have no shape of their
    own still hangs together. They are drawn, never collided with."""
    round_ones = [s["size"][0] for s in shapes if s["kind"] in ("capsule", "sphere", "cylinder")]
    radius = 0.7 * min(round_ones, default=0.01)
    links = []
    for child in range(1, model.nbody):
        parent, offset = int(model.body_parentid[child]), model.body_pos[child]
        length = float(np.linalg.norm(offset))
        if parent == 0 or child == trunk or length < 2 * radius:
            continue
        if parent not in bodies:
            bodies.append(parent)
        quaternion = np.zeros(4)
        mujoco.mju_quatZ2Vec(quaternion, offset)
        links.append(
            {
                "body": bodies.index(parent),
                "kind": "capsule",
                "size": [round(radius, 5), round(length / 2, 5)],
                "position": [round(float(p) / 2, 5) for p in offset],
                "quaternion": [round(float(q), 6) for q in quaternion],
                "part": "leg",
            }
        )
    return links


def body_poses(
    model: mujoco.MjModel, spec: RobotSpec, position: Any, quaternion: Any, joints: Any, bodies: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Forward kinematics of every frame: positions [T, B, 3] and unit quaternions [T, B, 4] (w first)."""
    data = mujoco.MjData(model)
    base = int(model.jnt_qposadr[model.body_jntadr[model.body(spec.trunk).id]])
    address = [int(model.joint(j).qposadr[0]) for j in spec.joints]
    frames = len(position)
    place, turn = np.zeros((frames, len(bodies), 3)), np.zeros((frames, len(bodies), 4))
    for t in range(frames):
        data.qpos[base : base + 3] = position[t]
        data.qpos[base + 3 : base + 7] = quaternion[t]
        data.qpos[address] = joints[t]
        mujoco.mj_kinematics(model, data)
        place[t], turn[t] = data.xpos[bodies], data.xquat[bodies]
    return place, turn


def packed_poses(place: np.ndarray, turn: np.ndarray) -> dict[str, Any]:
    """16-bit integers, delta-coded along time so that they deflate well."""
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
    """int16 [T, ...] as differences in time, columns together, deflated, base64."""
    flat = values.reshape(len(values), -1).astype(np.int16)
    delta = np.diff(flat, axis=0, prepend=np.zeros((1, flat.shape[1]), np.int16))
    raw = np.ascontiguousarray(delta.T).astype("<i2").tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpacked(text: str, frames: int) -> np.ndarray:
    """The inverse of `packed`: [frames, columns]."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i2")
    return np.cumsum(raw.reshape(-1, frames).T, axis=0, dtype=np.int16)


def tilt_of(quaternion: np.ndarray) -> np.ndarray:
    """Angle between the trunk's z axis and the vertical, rad."""
    _, x, y, _ = np.moveaxis(quaternion.astype(float), -1, 0)
    angle: np.ndarray = np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1))
    return angle


def body_velocity(trace: dict[str, Any], position: np.ndarray, hz: float) -> np.ndarray:
    """Forward, sideways and turning velocity in the trunk's frame [T, 3]; from the positions where the trace
    has no velocities."""
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
