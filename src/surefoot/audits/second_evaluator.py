"""A second evaluator: plain MuJoCo and numpy, written from the contract's prose, so that what the first one
says of an episode can be held against something that shares nothing with it but the robot's text, the
contract's fields, the panel's scenarios and the policy's weights.

The world: a robot alone on a plane, or on the boxes of a tile; MuJoCo's own contact, dt 0.005 s, elliptic
cone, impratio 10, Newton until 1e-8, joint dry friction, no warm start between control steps. Heightfields,
which native MuJoCo touches by a function of Surefoot's, are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from surefoot.audits.slow_philox import philox
from surefoot.contract import Column, Memory, Panel, Scenario, TaskContract
from surefoot.robots import RobotSpec
from surefoot.terrain import BoxWorld

Frames = dict[str, np.ndarray]
"""An episode step by step, [T, ...] each, under the names of traces."""
DT_S = 0.005
LOAD_N = 1.0
"""A foot with more than this on it is in contact."""
SEEN_AT_MOST = 10.0
"""Observations are limited to so much to either side, after they are scaled."""
SHOWN = {"angular_velocity", "gravity", "command", "joint_position", "joint_velocity", "last_action", "clock"}
ENDS = {"tilted", "trunk_contact", "sunk"}
"""Terms of observations, and terminations, that are known here."""
SPLITS = {"train": 0, "eval": 1, "init": 2}
POSE, VELOCITY, YAW = 10, 11, 12
"""Channels of draws, by the numbers that they have for ever."""


def uniforms(panel: Panel, s: Scenario, channel: int, count: int, first: int = 0) -> np.ndarray:
    """Returns draws [count] in [0, 1) of a scenario's address, from draw `first` on."""
    blocks = np.arange(first // 4, (first + count + 3) // 4)
    where = (blocks, channel + 65536 * SPLITS[panel.seeds.split], s.member, 0)
    drawn = philox((panel.seeds.root, s.family), where).reshape(-1)[first % 4 : first % 4 + count]
    out: np.ndarray = (drawn >> np.uint64(8)).astype(np.float64) / 2**24
    return out


def shifted(s: Scenario, column: Column) -> Scenario:
    """Returns a scenario as a column plays it. Faults of sensors leave it as it is."""
    x = column.strength
    match column.perturbation:
        case "noise":
            change: dict[str, Any] = {"noise_scale": s.noise_scale * x}
        case "delay":
            change = {"delay_s": x}
        case "friction":
            change = {"friction": x}
        case "payload":
            change = {"payload_kg": s.payload_kg + x}
        case "strength":
            change = {"strength": x}
        case "push":
            angles = [math.atan2(p.vy_mps, p.vx_mps) for p in s.pushes]
            change = {
                "pushes": tuple(
                    p.model_copy(update={"vx_mps": x * math.cos(a), "vy_mps": x * math.sin(a)})
                    for p, a in zip(s.pushes, angles, strict=True)
                )
            }
        case "curbs" | "stones":
            moved = {"cls": column.perturbation, "level": int(x)}
            change = {"terrain": s.terrain.model_copy(update=moved)}
        case "" | "dropout" | "bias" | "stuck" | "obs_delay":
            change = {}
        case _:
            raise KeyError(column.perturbation)
    return s.model_copy(update=change)


@dataclass
class State:
    """Where a robot is: the trunk's origin and velocities in the world (turning in its own frame)."""

    position: np.ndarray  # [3]
    quaternion: np.ndarray  # [4]
    velocity: np.ndarray  # [3] world
    turning: np.ndarray  # [3] body
    joints: np.ndarray  # [J]
    speeds: np.ndarray  # [J]


def start_of(panel: Panel, s: Scenario, robot: RobotSpec, contract: TaskContract) -> State:
    """Returns the start of a scenario on level ground: a centimetre above standing, turned anywhere, joints
    and velocities as drawn."""
    ranges = panel.ranges

    def spread(name: str, channel: int, count: int, instead: tuple[float, float]) -> np.ndarray:
        low, high = ranges.get(name, instead)
        return low + (high - low) * uniforms(panel, s, channel, count)

    pose = spread("pose", POSE, len(robot.joints), contract.factor("pose").held_out or (0.0, 0.0))
    motion = spread("velocity", VELOCITY, 6, (0.0, 0.0))
    half = math.pi * uniforms(panel, s, YAW, 1)[0]
    return State(
        position=np.array([0.0, 0.0, robot.stand_height_m + 0.01]),
        quaternion=np.array([math.cos(half), 0.0, 0.0, math.sin(half)]),
        velocity=motion[:3],
        turning=motion[3:],
        joints=np.asarray(robot.default_pose) + pose,
        speeds=np.zeros(len(robot.joints)),
    )


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Returns the matrix [3, 3] that turns the body's frame into the world's."""
    w, x, y, z = (float(q) for q in quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class World:
    """One robot in plain MuJoCo, on a plane or among solids."""

    def __init__(self, robot: RobotSpec, control_hz: float, solids: BoxWorld | None = None) -> None:
        self.robot, self.substeps = robot, round(1 / (control_hz * DT_S))
        spec = robot.mjspec()
        o = spec.option
        o.timestep, o.impratio, o.tolerance = DT_S, 10.0, 1e-8
        o.cone, o.solver = mujoco.mjtCone.mjCONE_ELLIPTIC, mujoco.mjtSolver.mjSOL_NEWTON
        o.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        o.iterations = o.ls_iterations = 50
        o.disableflags = int(o.disableflags) | int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        floor = {"contype": 0, "conaffinity": 1, "condim": 3}
        height = 0.0 if solids is None else solids.ground_m
        spec.worldbody.add_geom(type=plane, size=[0, 0, 1], pos=[0, 0, height], **floor)
        for k, solid in enumerate(solids.solids if solids is not None else ()):
            if solid.box:
                where, size = solid.box
                spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=where, size=size, **floor)
            else:
                spec.add_mesh(name=f"solid {k}", uservert=solid.vertices.reshape(-1))
                spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"solid {k}", **floor)
        for joint in robot.joints:
            spec.add_actuator(
                target=joint,
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                gaintype=mujoco.mjtGain.mjGAIN_FIXED,
                biastype=mujoco.mjtBias.mjBIAS_AFFINE,
                forcelimited=True,
                forcerange=[-1, 1],
                ctrllimited=False,
            )
        self._sense(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        m = self.model
        self._trunk = m.body(robot.trunk).id
        base = int(m.body_jntadr[self._trunk])
        self._q, self._v = int(m.jnt_qposadr[base]), int(m.jnt_dofadr[base])
        self._joints = np.array([m.joint(j).qposadr[0] for j in robot.joints])
        self._speeds = np.array([m.joint(j).dofadr[0] for j in robot.joints])
        self._mass, self._centre = float(m.body_mass[self._trunk]), m.body_ipos[self._trunk].copy()
        self._inertia = m.body_inertia[self._trunk].copy()

    def _sense(self, spec: Any) -> None:
        """Adds what is read of feet and trunk: positions, velocities, forces of contact, and whether the
        trunk touches anything."""
        kind, data = mujoco.mjtSensor, mujoco.mjtConDataField
        geom = mujoco.mjtObj.mjOBJ_GEOM
        force, found = 1 << int(data.mjCONDATA_FORCE), 1 << int(data.mjCONDATA_FOUND)
        for foot in self.robot.feet:
            spec.add_sensor(type=kind.mjSENS_FRAMEPOS, objtype=geom, objname=foot)
            spec.add_sensor(type=kind.mjSENS_FRAMELINVEL, objtype=geom, objname=foot)
            spec.add_sensor(type=kind.mjSENS_CONTACT, objtype=geom, objname=foot, intprm=[force, 3, 1])
        body = mujoco.mjtObj.mjOBJ_BODY
        spec.add_sensor(
            type=kind.mjSENS_CONTACT, objtype=body, objname=self.robot.trunk, intprm=[found, 0, 1]
        )

    def embody(self, s: Scenario) -> None:
        """Gives the robot the body, the motors and the friction of a scenario."""
        m, r = self.model, self.robot
        m.geom_friction[:, 0] = s.friction
        gain = np.asarray(r.kp) * s.kp_scale * s.strength
        m.actuator_gainprm[:, 0], m.actuator_biasprm[:, 1] = gain, -gain
        m.actuator_biasprm[:, 2] = -np.asarray(r.kd) * s.kd_scale * s.strength
        limit = np.asarray(r.torque_limit_nm) * s.strength
        m.actuator_forcerange[:] = np.stack([-limit, limit], 1)
        mass = self._mass + s.payload_kg
        m.body_mass[self._trunk], m.body_ipos[self._trunk] = mass, self._centre + np.asarray(s.com_m)
        m.body_inertia[self._trunk] = self._inertia * mass / self._mass
        mujoco.mj_setConst(m, self.data)

    def put(self, state: State) -> None:
        d, q, v = self.data, self._q, self._v
        mujoco.mj_resetData(self.model, d)
        d.qpos[q : q + 3], d.qpos[q + 3 : q + 7] = state.position, state.quaternion
        d.qvel[v : v + 3], d.qvel[v + 3 : v + 6] = state.velocity, state.turning
        d.qpos[self._joints], d.qvel[self._speeds] = state.joints, state.speeds

    def push(self, velocity: np.ndarray) -> None:
        """Adds to the trunk's velocity in the world's plane."""
        self.data.qvel[self._v : self._v + 2] += velocity

    def step(self, targets: np.ndarray) -> None:
        """Makes a control step under the targets [substeps, J] that are in force in its physics steps."""
        self.data.qacc_warmstart[:] = 0.0
        for target in targets:
            self.data.ctrl[:] = target
            mujoco.mj_step(self.model, self.data)

    def seen(self) -> Frames:
        """Returns what there is to see, as traces have it: what acts (torque, feet) as it was in the last
        physics step."""
        d, q, v = self.data, self._q, self._v
        quaternion = d.qpos[q + 3 : q + 7].copy()
        turn = rotation(quaternion)
        feet = d.sensordata[:-1].reshape(-1, 9)
        return {
            "position": d.qpos[q : q + 3].copy(),
            "quaternion": quaternion,
            "joint_position": d.qpos[self._joints],
            "gravity": -turn[2],
            "linear_velocity": d.qvel[v : v + 3] @ turn,
            "angular_velocity": d.qvel[v + 3 : v + 6].copy(),
            "joint_velocity": d.qvel[self._speeds],
            "torque": d.actuator_force.copy(),
            "foot_position": feet[:, :3].copy(),
            "foot_velocity": feet[:, 3:6].copy(),
            "foot_force": -feet[:, 6:],
            "contact": -feet[:, 8] > LOAD_N,
            "trunk_contact": d.sensordata[-1] > 0,
        }


# ---- acting


def targets_of(
    actions: np.ndarray, phases: np.ndarray, s: Scenario, robot: RobotSpec, contract: TaskContract
) -> np.ndarray:
    """Returns joint targets [T, J] for actions [T, J] that are limited already: about the default pose, and
    with the prior's lift where it has one, at the clock's phases [T]."""
    out: np.ndarray = np.asarray(robot.default_pose) + contract.action.scale_rad * actions
    prior = contract.prior
    if prior is None or not prior.lift_rad or not moves(s, contract):
        return out
    lift = np.maximum(np.sin(2 * np.pi * (phases[:, None] + np.asarray(prior.offsets))), 0) * prior.lift_rad
    out += np.stack([np.zeros_like(lift), lift, -2 * lift], 2).reshape(out.shape)
    return out


def moves(s: Scenario, contract: TaskContract) -> bool:
    """Returns whether a scenario's command is more than to stand."""
    return max(abs(x) for x in s.command) > contract.command.dead_zone


def phase_at(steps: np.ndarray | int, contract: TaskContract, control_hz: float) -> np.ndarray:
    """Returns the gait clock after so many steps of a held-out episode, which begins at phase 0."""
    clock = contract.prior.clock_hz if contract.prior else 0.0
    return np.asarray(steps) * clock / control_hz % 1.0


def in_force(
    targets: np.ndarray, step: int, delay_s: float, substeps: int, pose: Sequence[float]
) -> np.ndarray:
    """Returns the targets [substeps, J] in force in the physics steps of a control step: each the latest that
    was issued (`targets` [T, J]) at least the delay ago; before any was, the default pose."""
    late = round(delay_s / DT_S)
    issued = (step * substeps + np.arange(substeps) - late) // substeps
    return np.where(issued[:, None] < 0, np.asarray(pose), targets[np.maximum(issued, 0)])


@dataclass(frozen=True)
class Weights:
    """A policy: an MLP with ELUs on normalised observations."""

    tensors: Mapping[str, np.ndarray]
    layers: int
    clip: float | None
    """Normalised observations are limited to so much."""
    memory: Memory

    def normal(self, obs: np.ndarray) -> np.ndarray:
        """Returns observations [..., O] as the network reads them."""
        x: np.ndarray = (obs - self.tensors["mean"]) / self.tensors["std"]
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


def act(weights: Weights, x: np.ndarray) -> np.ndarray:
    """Returns a policy's actions [..., A] for what its network reads [..., inputs], not limited yet."""
    t = weights.tensors
    for k in range(weights.layers):
        x = x @ t[f"{k}.weight"].T + t[f"{k}.bias"]
        if k < weights.layers - 1:
            x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return x


# ---- seeing


def clean(
    seen: Mapping[str, np.ndarray],
    action: np.ndarray,
    s: Scenario,
    phase: np.ndarray,
    robot: RobotSpec,
    contract: TaskContract,
) -> np.ndarray:
    """Returns an observation [O] without noise and unscaled, of what there is to see and the last action."""
    angle = 2 * np.pi * float(phase)
    parts = {
        "angular_velocity": seen["angular_velocity"],
        "gravity": seen["gravity"],
        "command": np.asarray(s.command),
        "joint_position": seen["joint_position"] - np.asarray(robot.default_pose),
        "joint_velocity": seen["joint_velocity"],
        "last_action": action,
        "clock": np.array([np.sin(angle), np.cos(angle)]) * moves(s, contract),
    }
    return np.concatenate([parts[t.name] for t in contract.observation])


def scaled(
    clean: np.ndarray, u: np.ndarray, noise_scale: float, noise: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Returns what a policy is shown [O]: noise by draws `u` in [0, 1) and half-widths, then scaled, then
    limited."""
    shown = (clean + noise * noise_scale * (2 * u - 1)) * scale
    out: np.ndarray = np.clip(shown, -SEEN_AT_MOST, SEEN_AT_MOST)
    return out
