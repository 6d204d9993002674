"""One MJCF for every engine: the robot, the ground, position actuators and the sensors that RobotState
needs."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.contract import Plant, SurefootError
from surefoot.robots import RobotSpec
from surefoot.terrain import MARGIN_M, RESOLUTION_M, SIZE_M, Atlas, BoxWorld

FLOOR = "surefoot_floor"


@dataclass(frozen=True)
class Scene:
    """A compiled model and where its parts are."""

    model: mujoco.MjModel
    trunk: int  # body id
    qpos: np.ndarray  # [J] addresses of the policy's joints
    qvel: np.ndarray  # [J]
    foot: slice  # positions, velocities and forces in sensordata follow each other, F x 3 each
    feet: int
    base_qpos: int
    base_qvel: int
    tiles: np.ndarray  # [K, samples] heightfield data of each tile, in MuJoCo's order; empty on a plane


def build_scene(
    robot: RobotSpec, plant: Plant, atlas: Atlas | None = None, world: BoxWorld | None = None
) -> Scene:
    """Compiles the robot onto flat ground, onto the atlas' heightfield, or into a box world."""
    spec = robot.mjspec()
    option = spec.option
    option.timestep = plant.dt_s
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.cone = getattr(mujoco.mjtCone, f"mjCONE_{plant.cone.upper()}")
    option.impratio = plant.impratio
    option.iterations, option.ls_iterations, option.tolerance = (
        plant.iterations,
        plant.ls_iterations,
        plant.tolerance,
    )
    # One robot is one island: finding that out every step costs about 8% (measured) and changes nothing.
    option.disableflags = int(option.disableflags) | int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    if not plant.joint_dry_friction:
        for joint in spec.joints:
            joint.frictionloss = 0.0
    tiles = _add_ground(spec, atlas)
    if world is not None:
        _add_solids(spec, world)
    for i, joint in enumerate(robot.joints):
        _add_actuator(spec, joint, robot.kp[i], robot.kd[i], robot.torque_limit_nm[i])
    _add_sensors(spec, robot)
    try:
        model = spec.compile()
    except ValueError as error:
        raise SurefootError(f"MuJoCo cannot compile robot '{robot.name}': {error}; mend its MJCF.") from error
    joints = [model.joint(j) for j in robot.joints]
    trunk = model.body(robot.trunk).id
    base = int(model.body_jntadr[trunk])
    return Scene(
        model=model,
        trunk=trunk,
        qpos=np.array([j.qposadr[0] for j in joints]),
        qvel=np.array([j.dofadr[0] for j in joints]),
        foot=slice(0, 9 * len(robot.feet)),
        feet=len(robot.feet),
        base_qpos=int(model.jnt_qposadr[base]),
        base_qvel=int(model.jnt_dofadr[base]),
        tiles=tiles,
    )


def _add_ground(spec: mujoco.MjSpec, atlas: Atlas | None) -> np.ndarray:
    """Adds a plane, or a heightfield of the size of one tile; returns the data of every tile of the atlas.

    Each environment's model holds only its own tile (40 kB), written at reset, instead of a copy of the whole
    atlas.
    """
    # The robot's geoms have contype 1 and conaffinity 0, the ground the opposite: the robot never collides
    # with itself.
    if atlas is None:
        spec.worldbody.add_geom(
            name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=0, conaffinity=1, condim=3
        )
        return np.zeros((0, 0), np.float32)
    reach = round((SIZE_M / 2 + MARGIN_M) / RESOLUTION_M)
    centres = np.rint((atlas.origins - (atlas.x0, atlas.y0)) / RESOLUTION_M).astype(int)
    low, span = atlas.min_height, max(atlas.max_height - atlas.min_height, 1e-3)
    blocks = [atlas.heights[i - reach : i + reach + 1, j - reach : j + reach + 1].T for i, j in centres]
    data = np.stack([((b - low) / span).astype(np.float32).reshape(-1) for b in blocks])
    side, half = 2 * reach + 1, reach * RESOLUTION_M
    spec.add_hfield(name=FLOOR, nrow=side, ncol=side, size=[half, half, span, 1.0], userdata=data[0])
    spec.worldbody.add_geom(
        name=FLOOR,
        type=mujoco.mjtGeom.mjGEOM_HFIELD,
        hfieldname=FLOOR,
        pos=[0, 0, low],
        contype=0,
        conaffinity=1,
        condim=3,
    )
    return data


def _add_solids(spec: mujoco.MjSpec, world: BoxWorld) -> None:
    """Lowers the plane to the world's ground and puts its solids on it."""
    spec.geom(FLOOR).pos = [0, 0, world.ground_m]
    for k, solid in enumerate(world.solids):
        name = f"{FLOOR}_{k}"
        geom = spec.worldbody.add_geom(name=name, contype=0, conaffinity=1, condim=3)
        if solid.box:
            geom.type = mujoco.mjtGeom.mjGEOM_BOX
            geom.pos, geom.size = solid.box
        else:
            spec.add_mesh(name=name, uservert=solid.vertices.reshape(-1))
            geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, name


def _add_actuator(spec: mujoco.MjSpec, joint: str, kp: float, kd: float, limit: float) -> None:
    """A position servo: torque = kp (target - q) - kd qdot, clipped at the torque limit."""
    gain, bias = np.zeros(10), np.zeros(10)
    gain[0], bias[1], bias[2] = kp, -kp, -kd
    spec.add_actuator(
        name=f"servo_{joint}",
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        gaintype=mujoco.mjtGain.mjGAIN_FIXED,
        gainprm=gain,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        biasprm=bias,
        forcelimited=True,
        forcerange=[-limit, limit],
        ctrllimited=False,
    )


def _add_sensors(spec: mujoco.MjSpec, robot: RobotSpec) -> None:
    geom, sensor = mujoco.mjtObj.mjOBJ_GEOM, mujoco.mjtSensor
    for foot in robot.feet:
        spec.add_sensor(name=f"pos_{foot}", type=sensor.mjSENS_FRAMEPOS, objtype=geom, objname=foot)
    for foot in robot.feet:
        spec.add_sensor(name=f"vel_{foot}", type=sensor.mjSENS_FRAMELINVEL, objtype=geom, objname=foot)
    force, found = (
        1 << int(f) for f in (mujoco.mjtConDataField.mjCONDATA_FORCE, mujoco.mjtConDataField.mjCONDATA_FOUND)
    )
    net = 3  # reduce="netforce": the sum over contacts, in the world frame, acting on the second geom
    for foot in robot.feet:
        spec.add_sensor(
            name=f"force_{foot}",
            type=sensor.mjSENS_CONTACT,
            objtype=geom,
            objname=foot,
            intprm=[force, net, 1],
        )
    for joint in robot.joints:
        spec.add_sensor(
            name=f"torque_{joint}",
            type=sensor.mjSENS_JOINTACTFRC,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            objname=joint,
        )
    spec.add_sensor(
        name="trunk_contact",
        type=sensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        objname=robot.trunk,
        intprm=[found, 0, 1],
    )
