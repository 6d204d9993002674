"""Reads a user's own MJCF, reduced to the robot alone.

Stripped: everything in the world that is not the trunk's subtree (floor, scenery, other bodies, lights,
cameras), all actuators, sensors, keyframes, contact pairs, tuples, skins and height fields, and the joints'
own actuator force limits (they become `torque_limit_nm`). Kept: the robot's bodies, joints (with their
damping, armature and friction), geoms, meshes, tendons, equalities, contact excludes and <option>, which an
engine overrides. Changed: the trunk starts at the origin, and geoms that collide get contype=1 conaffinity=0,
so a robot that collided with itself no longer does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypedDict

from surefoot.contract import SurefootError
from surefoot.robots import kinematics
from surefoot.robots.kinematics import one_line

if TYPE_CHECKING:
    import mujoco

PerJoint = float | Mapping[str, float] | Sequence[float]
"""One value for every joint, or a value per joint by name, or in the order of the joints."""


class _Assets(TypedDict, total=False):
    assets_dir: str | None
    assets: Sequence[tuple[str, str]]


class RobotDescription(_Assets):
    """Holds what describes a robot by itself, as `RobotSpec.describe` takes it; values are per joint."""

    name: str
    mjcf: str
    trunk: str
    joints: Sequence[str]
    feet: Sequence[str]
    default_pose: Sequence[float]
    kp: Sequence[float]
    kd: Sequence[float]
    torque_limit_nm: Sequence[float]
    sources: str


class _MayFollowFromTheFile(TypedDict, total=False):
    name: str | None
    torque_limit_nm: PerJoint | None
    trunk: str | None
    joints: Sequence[str] | None


class MjcfOptions(_MayFollowFromTheFile):
    """Holds what an MJCF does not say of a robot, as `RobotSpec.from_mjcf` takes it."""

    feet: Sequence[str]
    default_pose: Mapping[str, float] | Sequence[float]
    kp: PerJoint
    kd: PerJoint


def check_keywords(function: str, options: type, given: Mapping[str, Any]) -> None:
    """Refuses missing and unknown names as a signature does: a TypedDict says them to type checkers only."""
    required: frozenset[str] = options.__required_keys__  # type: ignore[attr-defined]
    optional: frozenset[str] = options.__optional_keys__  # type: ignore[attr-defined]
    if absent := sorted(required - given.keys()):
        raise TypeError(f"{function}() lacks the arguments {', '.join(absent)}")
    if strange := sorted(given.keys() - required - optional):
        raise TypeError(f"{function}() has no arguments {', '.join(strange)}")


def read_mjcf(path: Path, options: MjcfOptions) -> RobotDescription:
    """Describes the robot in a user's file. See `RobotSpec.from_mjcf`."""
    import mujoco

    if not path.is_file():
        raise SurefootError(f"There is no MJCF file '{path}'; give the path of the robot's XML.")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        model = spec.compile()
    except ValueError as error:
        raise SurefootError(f"MuJoCo cannot load '{path}'; fix this in it: {one_line(error)}") from error

    given = options.get("trunk")
    trunk = given if given is not None else _only_free_body(model, path)
    # Checked on the file as the user wrote it, so that errors speak of names the user knows.
    if trunk not in [model.body(b).name for b in range(1, model.nbody)]:
        raise kinematics.missing("body", [trunk], [model.body(b).name for b in range(1, model.nbody)])
    chosen, feet = options.get("joints"), options["feet"]
    joints = list(chosen) if chosen is not None else kinematics.hinges_below(model, trunk)
    if "" in joints:
        raise SurefootError(f"'{path}' has hinge joints without a name below body '{trunk}'; name them.")
    kinematics.check_names(model, trunk, joints, feet)
    limit = options.get("torque_limit_nm")
    if limit is None:
        limits = _torque_limits(model, joints)
    else:
        limits = _per_joint("torque_limit_nm", limit, joints)

    assets = _robot_alone(spec, trunk, path)
    return RobotDescription(
        name=options.get("name") or spec.modelname or path.stem,
        mjcf=spec.to_xml(),
        assets_dir=str(path.resolve().parent) if assets else None,
        assets=assets,
        trunk=trunk,
        joints=joints,
        feet=feet,
        default_pose=_per_joint("default_pose", options["default_pose"], joints),
        kp=_per_joint("kp", options["kp"], joints),
        kd=_per_joint("kd", options["kd"], joints),
        torque_limit_nm=limits,
        sources=f"the user's MJCF '{path.name}'",
    )


def _only_free_body(model: mujoco.MjModel, path: Path) -> str:
    """Returns the name of the one body with a free joint; refused where there is not one."""
    free = kinematics.free_bodies(model)
    if len(free) == 1 and free[0]:
        return free[0]
    if not free:
        bodies = ", ".join(model.body(b).name for b in range(1, model.nbody)) or "none"
        raise SurefootError(
            f"No body in '{path}' has a free joint; add <freejoint/> to the robot's trunk. "
            f"Its bodies are: {bodies}."
        )
    raise SurefootError(
        f"'{path}' has several bodies with a free joint, or one without a name ({', '.join(free)}); "
        "name the robot's with trunk=..."
    )


def _per_joint(title: str, value: PerJoint, joints: Sequence[str]) -> list[float]:
    """Returns a value per joint, in the joints' order."""
    if isinstance(value, int | float):
        return [float(value)] * len(joints)
    if isinstance(value, Mapping):
        if strange := [j for j in value if j not in joints]:
            raise kinematics.missing(f"joint ({title} names it)", strange, joints)
        if absent := [j for j in joints if j not in value]:
            raise SurefootError(f"{title} has no value for: {', '.join(absent)}; add one for each.")
        return [float(value[j]) for j in joints]
    return [float(v) for v in value]  # the number of values is checked where the spec is made


def _torque_limits(model: mujoco.MjModel, joints: Sequence[str]) -> list[float]:
    """Returns the smallest limit that the file puts on each joint's torque, in either direction."""
    limits = {j: _joint_limits(model, model.joint(j).id) for j in joints}
    if unknown_limit := [j for j, limit in limits.items() if not limit]:
        raise SurefootError(
            "The MJCF gives no torque limit for: "
            + ", ".join(unknown_limit)
            + "; pass torque_limit_nm=..., or add actuatorfrcrange to the joints "
            + "or forcerange to their actuators."
        )
    return [min(limit) for limit in limits.values()]


def _joint_limits(model: mujoco.MjModel, joint: int) -> list[float]:
    """Returns all limits on a joint's torque: its own, and those of its actuators."""
    import mujoco

    limits = []
    if model.jnt_actfrclimited[joint]:
        limits.append(float(abs(model.jnt_actfrcrange[joint]).min()))
    for a in range(model.nu):
        if (
            int(model.actuator_trntype[a]) != int(mujoco.mjtTrn.mjTRN_JOINT)
            or int(model.actuator_trnid[a][0]) != joint
        ):
            continue
        gear = abs(float(model.actuator_gear[a][0]))
        plain_motor = int(model.actuator_gaintype[a]) == int(mujoco.mjtGain.mjGAIN_FIXED) and int(
            model.actuator_biastype[a]
        ) == int(mujoco.mjtBias.mjBIAS_NONE)
        if model.actuator_forcelimited[a]:
            limits.append(float(abs(model.actuator_forcerange[a]).min()) * gear)
        elif plain_motor and model.actuator_ctrllimited[a]:  # a motor's control is its torque
            gain = abs(float(model.actuator_gainprm[a][0]))
            limits.append(float(abs(model.actuator_ctrlrange[a]).min()) * gain * gear)
    return [limit for limit in limits if limit > 0.0]


def _robot_alone(spec: mujoco.MjSpec, trunk: str, path: Path) -> list[tuple[str, str]]:
    """Strips `spec` down to the trunk's subtree; returns its files with their SHA-256."""
    import mujoco

    world = spec.worldbody
    for group in (spec.keys, spec.sensors, spec.actuators, spec.pairs, spec.tuples, spec.skins):
        _delete(spec, group)
    _delete(spec, [body for body in world.bodies if body.name != trunk])
    for group in (world.geoms, world.sites, world.cameras, world.lights):
        _delete(spec, group)
    _delete(spec, spec.hfields)

    body = spec.body(trunk)
    for placed in (body, *world.frames):
        placed.pos, placed.quat = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
        placed.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # else euler=... would win over quat
    for geom in spec.geoms:
        if geom.contype or geom.conaffinity:
            geom.contype, geom.conaffinity = 1, 0
    for joint in spec.joints:
        joint.actfrclimited, joint.actfrcrange = mujoco.mjtLimited.mjLIMITED_FALSE, (0.0, 0.0)

    # File names become relative to the XML's folder, so that one folder holds meshes and textures alike.
    files: dict[str, str] = {}

    def moved(file: str, folder: str) -> str:
        if not file:
            return ""
        name = str(PurePosixPath(folder) / (PurePosixPath(file).name if spec.strippath else file))
        files[name] = hashlib.sha256((path.parent / name).read_bytes()).hexdigest()
        return name

    for mesh in spec.meshes:
        mesh.file = moved(mesh.file, spec.meshdir)
    for texture in spec.textures:
        texture.file = moved(texture.file, spec.texturedir)
        texture.cubefiles = [moved(file, spec.texturedir) for file in texture.cubefiles]
    spec.meshdir = spec.texturedir = ""
    return sorted(files.items())


def _delete(spec: mujoco.MjSpec, elements: Sequence[Any]) -> None:
    for element in list(elements):  # deleting changes the sequence MuJoCo hands out
        spec.delete(element)
