"""Native MuJoCo through `mujoco.rollout`: all environments advance by one control step in one threaded call.

The reference engine: float64, MuJoCo's own solver, one model per environment so that every physical parameter
is really applied. Rollout starts each control step without a solver warm start, so a state alone determines
its future and
`snapshot` is exact to the bit, whatever the number of threads.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping

import mujoco
import numpy as np
import torch
from mujoco import rollout
from torch import Tensor

from surefoot.compute import cores
from surefoot.contract import MAX_DELAY_S, Plant
from surefoot.engines.protocol import Parameters, RobotState, Start
from surefoot.engines.scene import Scene, build_scene
from surefoot.engines.surface import make_surface
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

MAX_SPEED = 100.0
"""m/s or rad/s: no legged robot moves a base or a joint this fast, an exploding simulation does."""

MAX_TARGET = 1e10
"""rad: mjMAXVAL. MuJoCo replaces targets beyond it, or NaN, by zeros and goes on."""

FIRST_TIME_S = 1.0
"""MuJoCo's clock at a reset. Not 0, which is what MuJoCo's own reset of an exploding model sets it to."""


class MujocoEngine:
    """`num_envs` robots on `threads` CPU threads."""

    name = "mujoco"

    def __init__(
        self,
        robot: RobotSpec,
        plant: Plant,
        num_envs: int,
        *,
        atlas: Atlas | None = None,
        max_delay_s: float = MAX_DELAY_S,
        threads: int | None = None,
    ) -> None:
        self.robot, self.plant, self.num_envs = robot, plant, num_envs
        self.device = torch.device("cpu")
        self.seconds = 0.0
        scene = self._build(robot, plant, atlas)
        self._scene, model = scene, scene.model
        self._atlas = atlas
        self._origin = np.zeros((num_envs, 2), np.float32)  # of the tile that each environment is on
        self._base_mass = float(model.body_mass[scene.trunk])
        self._base_inertia = model.body_inertia[scene.trunk].copy()
        self._base_com = model.body_ipos[scene.trunk].copy()
        self._models = [copy.copy(model) for _ in range(num_envs)]
        threads = threads or cores()
        # Failures reach the caller through RobotState.failed; MuJoCo would also log them into the current
        # folder.
        mujoco.set_mju_user_warning(_reported_elsewhere)
        self._pool = rollout.Rollout(nthread=threads)
        self._datas = [mujoco.MjData(model) for _ in range(threads)]
        self._scratch = mujoco.MjData(model)
        n, dec, joints = num_envs, plant.decimation, len(robot.joints)
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._control_spec = int(mujoco.mjtState.mjSTATE_CTRL)
        self._state = np.zeros((n, size))  # time, qpos, qvel
        self._state[:, 0] = FIRST_TIME_S
        self._out = np.zeros((n, dec, size))
        self._sensors = np.zeros((n, dec, model.nsensordata))
        self._last_sensors = np.zeros((n, model.nsensordata))
        self._control = np.zeros((n, dec, joints))
        steps = math.ceil(max_delay_s / (plant.dt_s * dec)) + 1
        # In float32 like every target that is issued: a delayed default pose is then the issued one to the
        # bit.
        self._pose = np.asarray(robot.default_pose, np.float32).astype(np.float64)
        self._targets = np.tile(self._pose, (n, steps, 1))  # newest first
        self._delay = np.zeros(n, np.int64)  # physics steps
        self._failed = np.zeros(n, bool)
        self._tile = np.zeros(n, np.int64)
        self._before = self._state.copy()
        self._rows = np.arange(n)[:, None]
        self._qpos = _columns(1 + scene.qpos)
        self._qvel = _columns(1 + model.nq + scene.qvel)
        self._base = 1 + scene.base_qpos
        self._base_vel = 1 + model.nq + scene.base_qvel
        self._state[:, 1 : 1 + model.nq] = model.qpos0
        self._parameters = Parameters.nominal(n)

    def reset(self, mask: Tensor, start: Start, parameters: Parameters) -> None:
        rows = mask.nonzero()[:, 0].numpy()
        if not len(rows):
            return
        begun = time.perf_counter()
        self._parameters.put(mask, parameters.take(mask))
        values = {k: v.numpy().astype(np.float64) for k, v in parameters.tensors().items()}
        if self._atlas is not None:
            self._put_on_tiles(self._atlas, rows, start.tile[rows].numpy())
        names = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale")
        for i in rows:
            self._apply(i, *(values[k][i] for k in names))
        b, v = self._base, self._base_vel
        state = np.zeros((len(rows), self._state.shape[1]))
        state[:, 0] = FIRST_TIME_S
        state[:, 1 : 1 + self._scene.model.nq] = self._scene.model.qpos0
        state[:, b : b + 3] = start.position[rows].numpy()
        state[:, b : b + 2] -= self._origin[rows]  # each model holds one tile, centred
        state[:, b + 3 : b + 7] = start.quaternion[rows].numpy()
        state[:, self._qpos] = start.joint_position[rows].numpy()
        state[:, v : v + 3] = start.linear_velocity[rows].numpy()
        state[:, v + 3 : v + 6] = start.angular_velocity[rows].numpy()
        self._state[rows] = state
        self._targets[rows] = self._pose
        steps = np.rint(values["delay_s"][rows] / self.plant.dt_s).astype(np.int64)
        self._delay[rows] = np.clip(steps, 0, (self._targets.shape[1] - 1) * self.plant.decimation)
        self._failed[rows] = False
        for i, row in zip(rows, state, strict=True):
            self._last_sensors[i] = self._sense(i, row)
        self.seconds += time.perf_counter() - begun

    def step(self, targets: Tensor) -> RobotState:
        begun = time.perf_counter()
        dec = self.plant.decimation
        self._targets[:, 1:] = self._targets[:, :-1].copy()
        self._targets[:, 0] = targets.numpy()
        # The target in force at physics step k was issued ceil((delay - k) / decimation) control steps ago.
        age = -((np.arange(dec) - self._delay[:, None]) // dec)
        self._control[:] = self._targets[self._rows, np.maximum(age, 0)]
        self._before[:] = self._state
        self._advance()
        self._state[:] = self._out[:, -1]
        self._last_sensors[:] = self._sensors[:, -1]
        # MuJoCo resets a model whose acceleration explodes and leaves a finite state: its clock then has not
        # advanced.
        advanced = (
            np.abs(self._state[:, 0] - self._before[:, 0] - dec * self.plant.dt_s) < 0.5 * self.plant.dt_s
        )
        speed = np.abs(self._state[:, 1 + self._scene.model.nq :]).max(1)
        # Also targets that are not yet in force: they fail the step that issues them, so that no NaN gets any
        # further.
        driven = np.abs(self._targets).max((1, 2)) < MAX_TARGET
        self._failed = ~(advanced & np.isfinite(self._state).all(1) & (speed < MAX_SPEED) & driven)
        self.seconds += time.perf_counter() - begun
        return self.state()

    def state(self, rows: Tensor | None = None) -> RobotState:
        scene, feet = self._scene, self._scene.feet
        at = slice(None) if rows is None else rows.numpy()
        state = torch.from_numpy(self._state[at]).to(torch.float32)
        sensors = torch.from_numpy(self._last_sensors[at]).to(torch.float32)
        n = len(state)
        b, v = self._base, self._base_vel
        quaternion = state[:, b + 3 : b + 7]
        rotation = rotation_of(quaternion)  # [N, 3, 3], body to world
        foot = sensors[:, scene.foot].view(n, 3, feet, 3)
        joints = len(self.robot.joints)
        if self._atlas is not None:
            origin = torch.from_numpy(self._origin[at])
            state[:, b : b + 2] += origin
            foot[:, 0, :, :2] += origin[:, None]
        return RobotState(
            position=state[:, b : b + 3],
            quaternion=quaternion,
            linear_velocity=(rotation.transpose(1, 2) @ state[:, v : v + 3, None])[..., 0],
            angular_velocity=state[:, v + 3 : v + 6],
            gravity=-rotation[:, 2],
            joint_position=state[:, self._qpos],
            joint_velocity=state[:, self._qvel],
            torque=sensors[:, 9 * feet : 9 * feet + joints],
            foot_position=foot[:, 0],
            foot_velocity=foot[:, 1],
            foot_force=-foot[:, 2],  # the sensor reports the force on the ground
            trunk_contact=sensors[:, 9 * feet + joints] > 0,
            failed=torch.from_numpy(self._failed[at].copy()),
        )

    def push(self, mask: Tensor, velocity: Tensor) -> None:
        rows = mask.nonzero()[:, 0].numpy()
        self._state[rows, self._base_vel : self._base_vel + 2] += velocity[rows].numpy()

    def translate(self, mask: Tensor, offset: Tensor) -> None:
        rows = mask.nonzero()[:, 0].numpy()
        delta = offset[rows].numpy()
        self._state[rows, self._base : self._base + 2] += delta
        for foot in range(self._scene.feet):
            self._last_sensors[rows, 3 * foot : 3 * foot + 2] += delta

    def failures(self) -> dict[str, Tensor]:
        rows = np.flatnonzero(self._failed)
        return {
            "state": torch.from_numpy(self._before[rows]),
            "control": torch.from_numpy(self._control[rows]),
        }

    def parameters(self) -> Parameters:
        """Returns what is in the models, not what resets were given."""
        trunk, spec = self._scene.trunk, self.robot
        limit = np.array([m.actuator_forcerange[0, 1] for m in self._models])
        kp = np.array([m.actuator_gainprm[0, 0] for m in self._models])
        kd = np.array([-m.actuator_biasprm[0, 2] for m in self._models])
        strength = limit / spec.torque_limit_nm[0]
        read = {
            "friction": np.array([m.geom_friction[0, 0] for m in self._models]),
            "payload_kg": np.array([m.body_mass[trunk] for m in self._models]) - self._base_mass,
            "com_m": np.array([m.body_ipos[trunk] for m in self._models]) - self._base_com,
            "strength": strength,
            "kp_scale": kp / spec.kp[0] / strength,
            "kd_scale": kd / spec.kd[0] / strength,
            "delay_s": self._delay * self.plant.dt_s,
        }
        return Parameters(**{k: torch.from_numpy(np.asarray(v, np.float32)) for k, v in read.items()})

    def snapshot(self) -> dict[str, Tensor]:
        arrays = {
            "state": self._state,
            "sensors": self._last_sensors,
            "targets": self._targets,
            "delay": self._delay,
            "failed": self._failed,
            "tile": self._tile,
        }
        parameters = {f"parameters.{k}": v.clone() for k, v in self._parameters.tensors().items()}
        return {k: torch.from_numpy(v.copy()) for k, v in arrays.items()} | parameters

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        self._state[:] = snapshot["state"].numpy()
        self._last_sensors[:] = snapshot["sensors"].numpy()
        self._targets[:] = snapshot["targets"].numpy()
        self._delay[:] = snapshot["delay"].numpy()
        self._failed[:] = snapshot["failed"].numpy()
        if self._atlas is not None:
            self._put_on_tiles(self._atlas, np.arange(self.num_envs), snapshot["tile"].numpy())
        names = list(self._parameters.tensors())
        self._parameters = Parameters(**{k: snapshot[f"parameters.{k}"].clone() for k in names})
        values = {k: v.numpy().astype(np.float64) for k, v in self._parameters.tensors().items()}
        for i in range(self.num_envs):
            self._apply(i, *(values[k][i] for k in names if k != "delay_s"))

    def close(self) -> None:
        self._pool.close()

    def _build(self, robot: RobotSpec, plant: Plant, atlas: Atlas | None) -> Scene:
        """Returns the scene that every environment has a copy of."""
        scene = build_scene(robot, plant, atlas)
        if atlas is not None and plant.heightfield != "prisms":
            make_surface(scene.model)
        return scene

    def _put_on_tiles(self, atlas: Atlas, rows: np.ndarray, tiles: np.ndarray) -> None:
        """Gives the environments `rows` the ground of `tiles`, before parameters are applied."""
        self._origin[rows], self._tile[rows] = atlas.origins[tiles], tiles
        for i, k in zip(rows, tiles, strict=True):
            self._models[i].hfield_data[:] = self._scene.tiles[k]

    def _advance(self) -> None:
        """Simulates a control step from `_state` under `_control`, into `_out` and `_sensors`."""
        self._pool.rollout(
            self._models,
            self._datas,
            self._state,
            self._control,
            control_spec=self._control_spec,
            skip_checks=True,
            nstep=self.plant.decimation,
            state=self._out,
            sensordata=self._sensors,
        )

    def _scratch_of(self, i: int) -> mujoco.MjData:
        """Returns data that fit the model of environment i, for whoever needs some between steps."""
        return self._scratch

    def _apply(
        self,
        i: int,
        friction: float,
        payload: float,
        com: np.ndarray,
        strength: float,
        kp: float,
        kd: float,
    ) -> None:
        model, trunk, spec = self._models[i], self._scene.trunk, self.robot
        model.geom_friction[:, 0] = friction
        gain = np.asarray(spec.kp) * kp * strength
        model.actuator_gainprm[:, 0] = gain
        model.actuator_biasprm[:, 1] = -gain
        model.actuator_biasprm[:, 2] = -np.asarray(spec.kd) * kd * strength
        limit = np.asarray(spec.torque_limit_nm) * strength
        model.actuator_forcerange[:, 0], model.actuator_forcerange[:, 1] = -limit, limit
        mass, ipos = self._base_mass + payload, self._base_com + com
        if model.body_mass[trunk] != mass or (model.body_ipos[trunk] != ipos).any():
            model.body_mass[trunk] = mass
            model.body_inertia[trunk] = self._base_inertia * (mass / self._base_mass)
            model.body_ipos[trunk] = ipos
            # The solver's inverse weights depend on the masses.
            mujoco.mj_setConst(model, self._scratch_of(i))

    def _sense(self, i: int, state: np.ndarray) -> np.ndarray:
        model, data = self._models[i], self._scratch_of(i)
        mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        data.ctrl[:] = self._pose
        data.qacc_warmstart[:] = 0.0
        mujoco.mj_forward(model, data)
        sensors: np.ndarray = data.sensordata.copy()
        feet, joints = self._scene.feet, len(self.robot.joints)
        sensors[9 * feet : 9 * feet + joints] = 0.0  # no torque has acted yet
        return sensors


def _reported_elsewhere(message: str) -> None:
    return None


def _columns(index: np.ndarray) -> slice | np.ndarray:
    """A slice where the columns follow each other, which costs a tenth of an index."""
    return slice(int(index[0]), int(index[-1]) + 1) if (np.diff(index) == 1).all() else index


def rotation_of(q: Tensor) -> Tensor:
    """Rotation matrices [N, 3, 3] of unit quaternions [N, 4] (w, x, y, z)."""
    w, x, y, z = q.unbind(1)
    return torch.stack(
        [
            1 - 2 * (y * y + z * z),
            2 * (x * y - w * z),
            2 * (x * z + w * y),
            2 * (x * y + w * z),
            1 - 2 * (x * x + z * z),
            2 * (y * z - w * x),
            2 * (x * z - w * y),
            2 * (y * z + w * x),
            1 - 2 * (x * x + y * y),
        ],
        dim=1,
    ).view(-1, 3, 3)
