"""Makes the skeleton of a robot from its compiled model, and writes it into a run folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.artifacts import write_json
from surefoot.robots.skeleton import FILE, Body, Joint, Shape, Skeleton
from surefoot.robots.spec import RobotSpec

if TYPE_CHECKING:
    import mujoco

LINK_WIDTH = 0.7
"""The radius of the rods between joints, as a share of the thinnest round shape's."""


def save_skeleton(robot: RobotSpec, folder: Path) -> None:
    """Writes robot.json into a run folder."""
    write_json(folder / FILE, make_skeleton(robot))


def make_skeleton(robot: RobotSpec) -> Skeleton:
    """Returns the skeleton of a robot. Body k of it is MuJoCo's body k + 1: the world is left out."""
    model = robot.compile()
    number = {model.joint(name).id: j for j, name in enumerate(robot.joints)}
    bodies = []
    for b in range(1, model.nbody):
        first, parent = int(model.body_jntadr[b]), int(model.body_parentid[b])
        own = range(first, first + int(model.body_jntnum[b]))
        bodies.append(
            Body(
                parent=parent - 1 if parent else None,
                position=_exact(model.body_pos[b]),
                quaternion=_exact(model.body_quat[b]),
                joints=tuple(number[j] for j in own if j in number),
            )
        )
    return Skeleton(
        name=robot.name,
        robot_digest=robot.digest,
        trunk=model.body(robot.trunk).id - 1,
        bodies=tuple(bodies),
        joints=tuple(_joint(model, name) for name in robot.joints),
        torque_limit_nm=robot.torque_limit_nm,
        stand_height_m=robot.stand_height_m,
        shapes=_shapes(model, robot),
    )


def _joint(model: mujoco.MjModel, name: str) -> Joint:
    j = model.joint(name).id
    return Joint(
        name=name,
        axis=_exact(model.jnt_axis[j]),
        anchor=_exact(model.jnt_pos[j]),
        reference=float(model.qpos0[model.jnt_qposadr[j]]),
    )


def _shapes(model: mujoco.MjModel, robot: RobotSpec) -> tuple[Shape, ...]:
    """Returns the visible geoms, then the rods between joints. A mesh is drawn as its bounding box."""
    import mujoco

    kinds = mujoco.mjtGeom
    names = {
        int(kinds.mjGEOM_SPHERE): "sphere",
        int(kinds.mjGEOM_CAPSULE): "capsule",
        int(kinds.mjGEOM_ELLIPSOID): "ellipsoid",
        int(kinds.mjGEOM_CYLINDER): "cylinder",
        int(kinds.mjGEOM_BOX): "box",
    }
    trunk, feet = model.body(robot.trunk).id, {model.geom(f).id for f in robot.feet}
    shapes = []
    for g in range(model.ngeom):
        body = int(model.geom_bodyid[g])
        if model.geom_rgba[g][3] == 0 or body == 0:
            continue
        kind = names.get(int(model.geom_type[g]))
        size, offset = model.geom_size[g], np.zeros(3)
        if kind is None:
            offset, size, kind = model.geom_aabb[g][:3], model.geom_aabb[g][3:], "box"
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[g])
        place = model.geom_pos[g] + rotation.reshape(3, 3) @ offset
        part = "foot" if g in feet else "trunk" if body == trunk else "leg"
        shapes.append(_shape(body - 1, kind, size, place, model.geom_quat[g], part))
    return (*shapes, *_links(model, trunk, shapes))


def _links(model: mujoco.MjModel, trunk: int, shapes: list[Shape]) -> list[Shape]:
    """Returns thin rods from each body's joint to the next one's, so that a robot whose hips have no shape of
    their own still hangs together. They are drawn, never collided with."""
    import mujoco

    radii = [s.size[0] for s in shapes if s.kind in ("capsule", "sphere", "cylinder")]
    radius = LINK_WIDTH * min(radii, default=0.01)
    links = []
    for child in range(1, model.nbody):
        parent, offset = int(model.body_parentid[child]), model.body_pos[child]
        length = float(np.linalg.norm(offset))
        if parent == 0 or child == trunk or length < 2 * radius:
            continue
        quaternion = np.zeros(4)
        mujoco.mju_quatZ2Vec(quaternion, offset)
        links.append(_shape(parent - 1, "capsule", (radius, length / 2), offset / 2, quaternion, "leg"))
    return links


def _shape(body: int, kind: Any, size: Any, position: Any, quaternion: Any, part: Any) -> Shape:
    """Returns a shape, rounded to what a screen shows."""
    return Shape(
        body=body,
        kind=kind,
        size=_rounded(size, 5),
        position=_rounded(position, 5),
        quaternion=_rounded(quaternion, 6),
        part=part,
    )


def _rounded(values: Iterable[float], digits: int) -> Any:
    return tuple(round(float(x), digits) for x in values)


def _exact(values: Iterable[float]) -> Any:
    return tuple(float(x) for x in values)
