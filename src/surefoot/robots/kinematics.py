"""Answers questions by MuJoCo's kinematics, so that no height, limit or order is typed in by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError

if TYPE_CHECKING:
    import mujoco

Array = NDArray[np.float64]


def missing(kind: str, names: Iterable[str], existing: Iterable[str], hint: str = "") -> SurefootError:
    """Returns an error that says what is not in the MJCF and lists what is."""
    wanted = ", ".join(f"'{n}'" for n in names)
    present = ", ".join(existing) or "none (name them in the MJCF)"
    return SurefootError(
        f"The MJCF has no {kind} {wanted}; it has: {present}." + (f" {hint}" if hint else "")
    )


def one_line(error: Exception) -> str:
    """Joins the lines of a message of MuJoCo's; an error sentence has one."""
    return " ".join(str(error).split())


def bodies_below(model: mujoco.MjModel, trunk: str) -> list[int]:
    """Returns the trunk and all its descendants, in MuJoCo's (depth-first) order."""
    inside = {model.body(trunk).id}
    for body in range(1, model.nbody):  # a parent always comes before its children
        if int(model.body_parentid[body]) in inside:
            inside.add(body)
    return sorted(inside)


def hinges_below(model: mujoco.MjModel, trunk: str) -> list[str]:
    """Returns the names of the hinge joints below the trunk, depth first."""
    import mujoco

    bodies = set(bodies_below(model, trunk))
    hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
    return [
        model.joint(j).name
        for j in range(model.njnt)
        if int(model.jnt_bodyid[j]) in bodies and int(model.jnt_type[j]) == hinge
    ]


def free_bodies(model: mujoco.MjModel) -> list[str]:
    """Returns the names of the bodies that float on a free joint."""
    import mujoco

    free = int(mujoco.mjtJoint.mjJNT_FREE)
    return [
        model.body(int(model.jnt_bodyid[j])).name for j in range(model.njnt) if int(model.jnt_type[j]) == free
    ]


def check_names(model: mujoco.MjModel, trunk: str, joints: Sequence[str], feet: Sequence[str]) -> None:
    """Refuses what an engine could not use: missing names, passive joints, feet out of order, no limits."""
    body_names = [model.body(b).name for b in range(1, model.nbody)]
    if trunk not in body_names:
        raise missing("body", [trunk], [n for n in body_names if n])
    if trunk not in free_bodies(model):
        hint = f"Add <freejoint/> to body '{trunk}', or name another body as trunk."
        raise missing("free joint on", [trunk], (f"a free joint on '{b}'" for b in free_bodies(model)), hint)

    hinges = hinges_below(model, trunk)
    if absent := [j for j in joints if j not in hinges]:
        raise missing("hinge joint", absent, hinges)
    # Any other joint would be a passive degree of freedom that no policy drives and no reset places.
    below = set(bodies_below(model, trunk)) - {model.body(trunk).id}
    others = [
        model.joint(j).name or f"(unnamed, on {model.body(int(model.jnt_bodyid[j])).name})"
        for j in range(model.njnt)
        if int(model.jnt_bodyid[j]) in below and model.joint(j).name not in joints
    ]
    if others:
        raise SurefootError(
            "These joints are below the trunk but not among the robot's joints: "
            + ", ".join(others)
            + "; list them (hinges only), or remove them from the MJCF to weld their bodies."
        )
    for title, names in (("joint", joints), ("foot", feet)):
        if not names:
            raise SurefootError(f"The robot has no {title}; name at least one {title}.")
        if len(set(names)) != len(names):
            raise SurefootError(f"A {title} is named twice in: {', '.join(names)}; name each once.")
    geoms = [model.geom(g).name for g in range(model.ngeom) if int(model.geom_bodyid[g]) in below]
    if absent := [f for f in feet if f not in geoms]:
        hint = "Feet are geoms, not bodies or sites."
        raise missing("geom below the trunk named", absent, [g for g in geoms if g], hint)
    if unlimited := [j for j in joints if not model.jnt_limited[model.joint(j).id]]:
        limited = [j for j in joints if j not in unlimited]
        raise missing(
            "range for joint", unlimited, (f"a range for '{j}'" for j in limited), 'Add range="low high".'
        )

    chains = [foot_chain(model, joints, foot) for foot in feet]
    if stray := [f for f, chain in zip(feet, chains, strict=True) if not chain]:
        raise SurefootError(
            f"No joint moves the foot {', '.join(stray)}; name geoms at the end of the legs as feet."
        )
    in_order = [
        foot for _, foot in sorted(zip((c[0] for c in chains), feet, strict=True), key=lambda pair: pair[0])
    ]
    if list(feet) != in_order:
        raise SurefootError(
            f"The feet are not in the order of the legs in the joints; give them as: {', '.join(in_order)}."
        )


def foot_chain(model: mujoco.MjModel, joints: Sequence[str], foot: str) -> list[int]:
    """Returns the indices into `joints` of those between trunk and foot, from the trunk outwards."""
    index = {model.joint(name).id: i for i, name in enumerate(joints)}
    chain: list[int] = []
    body = int(model.geom_bodyid[model.geom(foot).id])
    while body != 0:
        first = int(model.body_jntadr[body])
        here = [index[j] for j in range(first, first + int(model.body_jntnum[body])) if j in index]
        chain = here + chain
        body = int(model.body_parentid[body])
    return chain


def joint_range(model: mujoco.MjModel, joints: Sequence[str]) -> tuple[list[float], list[float]]:
    """Returns lower and upper limits, rad."""
    ranges = [model.jnt_range[model.joint(name).id] for name in joints]
    return [float(r[0]) for r in ranges], [float(r[1]) for r in ranges]


def posed(
    model: mujoco.MjModel, trunk: str, joints: Sequence[str], pose: Sequence[float] | Array
) -> mujoco.MjData:
    """Computes kinematics with the trunk at the origin, level, and the joints at `pose`: the world's frame is
    the trunk's."""
    import mujoco

    data = mujoco.MjData(model)
    base = int(model.jnt_qposadr[model.body(trunk).jntadr[0]])
    data.qpos[base : base + 7] = (0, 0, 0, 1, 0, 0, 0)
    for name, angle in zip(joints, pose, strict=True):
        data.qpos[model.jnt_qposadr[model.joint(name).id]] = angle
    mujoco.mj_kinematics(model, data)
    return data


def foot_positions(
    model: mujoco.MjModel,
    trunk: str,
    joints: Sequence[str],
    feet: Sequence[str],
    pose: Sequence[float] | Array,
) -> Array:
    """Returns the centres of the foot geoms in the trunk's frame [feet, 3]."""
    data = posed(model, trunk, joints, pose)
    centres: Array = np.array([data.geom(foot).xpos for foot in feet])
    return centres


def stand_height(
    model: mujoco.MjModel, trunk: str, joints: Sequence[str], feet: Sequence[str], pose: Sequence[float]
) -> float:
    """Returns the height of the trunk's origin when the lowest foot touches flat ground and the trunk is
    level."""
    data = posed(model, trunk, joints, pose)
    return -min(lowest_point(model, data, model.geom(foot).id) for foot in feet)


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Returns z of the lowest point of a geom: exact for the primitives and for convex meshes."""
    import mujoco

    size: Array = model.geom_size[geom]
    up: Array = data.geom_xmat[geom].reshape(3, 3)[2]  # world z seen from the geom's frame
    z = float(data.geom_xpos[geom][2])
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return z - float(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return z - float(size[0]) - float(size[1]) * abs(float(up[2]))
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return z - float(size[0]) * math.hypot(up[0], up[1]) - float(size[1]) * abs(float(up[2]))
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return z - float(np.linalg.norm(size * up))
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return z - float(np.abs(size * up).sum())
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first = int(model.mesh_vertadr[mesh])
        vertices = model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])]
        return z + float((vertices @ up).min())
    raise SurefootError(
        f"Foot '{model.geom(geom).name}' is a {kind.name.removeprefix('mjGEOM_').lower()}; "
        "use a sphere, capsule, cylinder, ellipsoid, box or mesh."
    )
