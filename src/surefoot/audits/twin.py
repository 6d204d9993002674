"""A twin of the engines: plain MuJoCo, one model that takes on the parameters of one environment after the
other as the contract words them. It takes a control step from any state, with whatever actions, pushes and
parameters it is given, so that lived steps can be held to what was declared of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import mujoco
import numpy as np

from surefoot.contract import Plant, TaskContract
from surefoot.engines import make_surface
from surefoot.robots import RobotSpec
from surefoot.terrain import MARGIN_M, RESOLUTION_M, SIZE_M, TileId, tile

Arrays = dict[str, np.ndarray]
PARAMETERS = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale", "delay_s")
OLDER = ("actions", "lift")
"""What steps have of targets that were issued before."""
GROUND, TALLEST_M = "twin_ground", 4.0


@dataclass
class Steps:
    """Control steps of some environments, one a row: what they began from, what was declared, what came."""

    env: np.ndarray  # [M] rows of one environment follow each other
    position: np.ndarray  # [M, 3] m, relative to the middle of the tile
    quaternion: np.ndarray  # [M, 4]
    linear: np.ndarray  # [M, 3] m/s, world
    angular: np.ndarray  # [M, 3] rad/s, body
    joints: np.ndarray  # [M, J] rad
    speeds: np.ndarray  # [M, J] rad/s
    actions: np.ndarray  # [M, H, J] as given, newest first
    lift: np.ndarray  # [M, H, J] rad, what the prior adds to each of them
    push: np.ndarray  # [M, 2] m/s, world
    friction: np.ndarray  # [M]
    payload_kg: np.ndarray  # [M]
    com_m: np.ndarray  # [M, 3]
    strength: np.ndarray  # [M]
    kp_scale: np.ndarray  # [M]
    kd_scale: np.ndarray  # [M]
    delay_s: np.ndarray  # [M]
    after: np.ndarray  # [M, 6 + J] velocities that came: linear (world), angular, joints
    moved: np.ndarray  # [M, 3 + J] by how much position and joints changed
    torque: np.ndarray  # [M, J] N m, of the last physics step
    ground: list[TileId | None] = field(default_factory=list)
    """[M] tiles; None on a plane."""

    def __len__(self) -> int:
        return len(self.env)

    def take(self, rows: np.ndarray) -> Steps:
        """Returns some of the rows."""
        chosen = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "ground"}
        at = np.arange(len(self))[rows]
        return Steps(**chosen, ground=[self.ground[i] for i in at] if self.ground else [])

    @classmethod
    def join(cls, parts: list[Steps]) -> Steps:
        """Returns the rows of several; who remembers fewer targets never asks for older ones."""
        names = [f.name for f in fields(cls) if f.name not in ("ground", *OLDER)]
        every = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        depth = max(p.actions.shape[1] for p in parts)
        for n in OLDER:
            each = [getattr(p, n) for p in parts]
            longer = [np.pad(x, ((0, 0), (0, depth - x.shape[1]), (0, 0)), mode="edge") for x in each]
            every[n] = np.concatenate(longer)
        return cls(**every, ground=[g for p in parts for g in (p.ground or [None] * len(p))])


@dataclass(frozen=True)
class Variant:
    """What is otherwise than declared, in a twin that looks for an explanation."""

    gravity: float = 1.0
    damping: float = 1.0
    armature: float = 1.0
    limit: float = 1.0
    impratio: float | None = None
    cone: str | None = None
    dry_friction: bool | None = None
    dt_s: float | None = None
    scale: float = 1.0


DECLARED = Variant()


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Returns [..., 3, 3] body to world."""
    w, x, y, z = np.moveaxis(np.asarray(quaternion, np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def lift_of(contract: TaskContract, joints: int, phase: np.ndarray, command: np.ndarray) -> np.ndarray:
    """Returns [M, J], the prior's scripted lift: thigh up and calf twice down while a foot swings."""
    prior, out = contract.prior, np.zeros((len(phase), joints))
    if prior is None or prior.lift_rad == 0:
        return out
    height = np.sin(2 * np.pi * (phase[:, None] + np.asarray(prior.offsets)))
    moving = np.abs(command).max(1, keepdims=True) > contract.command.dead_zone
    lift = np.maximum(height, 0.0) * prior.lift_rad * moving
    out[:, 1::3], out[:, 2::3] = lift, -2.0 * lift
    return out


class Twin:
    """One model of a robot on a plane or a tile, which is given the parameters of whoever is stepped."""

    def __init__(self, robot: RobotSpec, contract: TaskContract, plant: Plant, v: Variant = DECLARED) -> None:
        self.robot, self.contract, self.plant, self.variant = robot, contract, plant, v
        self._tile: TileId | None = None
        self._make(heightfield=False)

    def _make(self, heightfield: bool) -> None:
        robot, plant, v = self.robot, self.plant, self.variant
        spec = robot.mjspec()
        o = spec.option
        o.timestep = v.dt_s or plant.dt_s
        o.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        o.solver = mujoco.mjtSolver.mjSOL_NEWTON
        elliptic = (v.cone or plant.cone) == "elliptic"
        o.cone = mujoco.mjtCone.mjCONE_ELLIPTIC if elliptic else mujoco.mjtCone.mjCONE_PYRAMIDAL
        o.impratio = plant.impratio if v.impratio is None else v.impratio
        o.iterations, o.ls_iterations, o.tolerance = plant.iterations, plant.ls_iterations, plant.tolerance
        o.gravity = [0.0, 0.0, -9.81 * v.gravity]
        dry = plant.joint_dry_friction if v.dry_friction is None else v.dry_friction
        for joint in spec.joints:
            joint.damping = np.asarray(joint.damping) * v.damping
            joint.armature = joint.armature * v.armature
            joint.frictionloss = joint.frictionloss * dry
        shape = mujoco.mjtGeom.mjGEOM_HFIELD if heightfield else mujoco.mjtGeom.mjGEOM_PLANE
        ground = spec.worldbody.add_geom(name=GROUND, type=shape, contype=0, conaffinity=1, condim=3)
        if heightfield:
            reach = round((SIZE_M / 2 + MARGIN_M) / RESOLUTION_M)
            side, half = 2 * reach + 1, reach * RESOLUTION_M
            spec.add_hfield(
                name=GROUND,
                nrow=side,
                ncol=side,
                size=[half, half, 2 * TALLEST_M, 1.0],
                userdata=np.full(side * side, 0.5, np.float32),
            )
            ground.hfieldname, ground.pos = GROUND, [0, 0, -TALLEST_M]
        else:
            ground.size = [0, 0, 1]
        for name in robot.joints:
            servo = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.gaintype, servo.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
            servo.forcelimited, servo.forcerange = True, [-1.0, 1.0]
        self.model = m = spec.compile()
        if heightfield:
            make_surface(m)
        self.data = mujoco.MjData(m)
        self._trunk = m.body(robot.trunk).id
        joints = [m.joint(j) for j in robot.joints]
        self._q = np.array([j.qposadr[0] for j in joints])
        self._v = np.array([j.dofadr[0] for j in joints])
        base = int(m.body_jntadr[self._trunk])
        self._base, self._base_v = int(m.jnt_qposadr[base]), int(m.jnt_dofadr[base])
        self._mass, self._inertia = float(m.body_mass[self._trunk]), m.body_inertia[self._trunk].copy()
        self._com = m.body_ipos[self._trunk].copy()
        self._rough, self._bare = heightfield, True

    def step(self, s: Steps) -> dict[str, np.ndarray]:
        """Takes every row's control step; returns `after`, `moved` and `torque` as they should be."""
        joints = len(self.robot.joints)
        out = {"after": np.zeros((len(s), 6 + joints)), "moved": np.zeros((len(s), 3 + joints))}
        out["torque"] = np.zeros((len(s), joints))
        given = np.column_stack([s.env, *(getattr(s, k) for k in PARAMETERS)])
        targets, delay = self._targets(s), np.rint(s.delay_s / self.plant.dt_s).astype(int)
        for i in range(len(s)):
            self._stand_on(s.ground[i] if s.ground else None)
            if self._bare or i == 0 or (given[i] != given[i - 1]).any():
                self._take_on(s, i)
            self._one(s, i, targets[i], int(delay[i]), out)
        return out

    def _targets(self, s: Steps) -> np.ndarray:
        """Returns [M, H, J] joint targets: single precision, as they are issued."""
        a, clip = self.contract.action, self.contract.action.clip
        pose = np.asarray(self.robot.default_pose, np.float32)
        issued = pose + np.float32(a.scale_rad * self.variant.scale) * np.clip(s.actions, -clip, clip)
        return np.asarray(issued + s.lift, np.float32).astype(np.float64)

    def _stand_on(self, ground: TileId | None) -> None:
        if (ground is not None) != self._rough:
            self._make(heightfield=ground is not None)
            self._tile = None
        if ground is None or ground == self._tile:
            return
        self._tile = ground
        period = tile(ground.cls, ground.level, ground.key)
        reach = round((SIZE_M / 2 + MARGIN_M) / RESOLUTION_M)
        at = (len(period) // 2 + np.arange(-reach, reach + 1)) % len(period)
        heights = period[np.ix_(at, at)].T.astype(np.float64)
        self.model.hfield_data[:] = ((heights + TALLEST_M) / (2 * TALLEST_M)).reshape(-1)

    def _take_on(self, s: Steps, i: int) -> None:
        """Gives the model the parameters of row i: friction is of every contact, payload adds to the trunk's
        mass and its inertia scales along, the centre of mass shifts, strength scales gains and limits."""
        m, r, strength = self.model, self.robot, float(s.strength[i])
        m.geom_friction[:, 0] = s.friction[i]
        kp, kd = np.asarray(r.kp) * s.kp_scale[i] * strength, np.asarray(r.kd) * s.kd_scale[i] * strength
        m.actuator_gainprm[:, 0], m.actuator_biasprm[:, 1], m.actuator_biasprm[:, 2] = kp, -kp, -kd
        limit = np.asarray(r.torque_limit_nm) * strength * self.variant.limit
        m.actuator_forcerange[:] = np.column_stack([-limit, limit])
        mass = self._mass + float(s.payload_kg[i])
        m.body_mass[self._trunk] = mass
        m.body_inertia[self._trunk] = self._inertia * (mass / self._mass)
        m.body_ipos[self._trunk] = self._com + s.com_m[i]
        mujoco.mj_setConst(m, self.data)
        self._bare = False

    def _one(self, s: Steps, i: int, targets: np.ndarray, delay: int, out: dict[str, np.ndarray]) -> None:
        d, b, v, plant = self.data, self._base, self._base_v, self.plant
        mujoco.mj_resetData(self.model, d)
        d.qpos[b : b + 3], d.qpos[b + 3 : b + 7] = s.position[i], s.quaternion[i]
        d.qpos[self._q], d.qvel[self._v] = s.joints[i], s.speeds[i]
        d.qvel[v : v + 3], d.qvel[v + 3 : v + 6] = s.linear[i], s.angular[i]
        d.qvel[v : v + 2] += s.push[i]
        for k in range(plant.decimation):
            age = max(0, math.ceil((delay - k) / plant.decimation))
            d.ctrl[:] = targets[min(age, len(targets) - 1)]
            mujoco.mj_step(self.model, d)
        out["after"][i] = np.concatenate([d.qvel[v : v + 6], d.qvel[self._v]])
        out["moved"][i, :3] = d.qpos[b : b + 3] - s.position[i]
        out["moved"][i, 3:] = d.qpos[self._q] - s.joints[i]
        out["torque"][i] = d.qfrc_actuator[self._v]


def gap(s: Steps, twin: Mapping[str, np.ndarray], control_s: float) -> np.ndarray:
    """Returns [M, 9 + 2J + J] by how much steps are off their twin's: velocities, distances over the step's
    time, and torques, in m/s, rad/s and N m."""
    parts = [s.after - twin["after"], (s.moved - twin["moved"]) / control_s, s.torque - twin["torque"]]
    return np.concatenate(parts, 1)
