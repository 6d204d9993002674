"""MuJoCo Warp: the same MJCF in float32 on a GPU, for robots that no faster engine can represent.

Every environment is one world of a batched model, so each physical parameter is really its own, and a control
step (all of its physics steps) is one CUDA graph, captured at the second call and replayed. Nothing waits for
the device except `failures`. Warp's CPU device runs the same code, slowly: that is for tests.

A world starts each control step without a solver warm start, as native MuJoCo's rollout does: a state alone
determines its future.

On a plane it moves as native MuJoCo does, to float32. On a heightfield it keeps at most four contacts of a
geom (the deepest, and three far from it), where native MuJoCo keeps up to fifty: both stand on the same
ground, but their motions part within some control steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from surefoot.compute.warp import start_warp
from surefoot.contract import MAX_DELAY_S, Plant, SurefootError
from surefoot.engines.mujoco import MAX_SPEED, MAX_TARGET, rotation_of
from surefoot.engines.protocol import Parameters, RobotState, Start
from surefoot.engines.scene import FLOOR, build_scene
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

PER_WORLD = (
    "geom_friction",
    "geom_dataid",
    "actuator_gainprm",
    "actuator_biasprm",
    "actuator_forcerange",
    "body_mass",
    "body_inertia",
    "body_ipos",
    "body_subtreemass",
    "body_invweight0",
    "dof_invweight0",
)
"""Model fields that differ between environments."""

CONTACTS_PER_GEOM = 4
"""MuJoCo Warp makes no more contacts of a geom, with a plane or with a heightfield."""

LOST = int(
    mjw.OverflowType.NEFC | mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD
)
"""Overflows that mean that contacts of a world were dropped."""


class MujocoWarpEngine:
    """`num_envs` robots on a CUDA device, or on Warp's CPU device for tests.

    `deterministic` makes results on CUDA the same bits every time, as panels need; the CPU device always is.
    `seconds` counts on CUDA what issuing the work takes, not the work.
    """

    name = "mujoco-warp"

    def __init__(
        self,
        robot: RobotSpec,
        plant: Plant,
        num_envs: int,
        *,
        atlas: Atlas | None = None,
        device: str | torch.device = "cpu",
        max_delay_s: float = MAX_DELAY_S,
        deterministic: bool = True,
    ) -> None:
        self.robot, self.plant, self.num_envs = robot, plant, num_envs
        self.device = _device(device)
        self.seconds = 0.0
        self._scene = scene = build_scene(robot, plant, atlas)
        self._atlas = atlas
        start_warp()
        self._warp_device = wp.device_from_torch(self.device)
        with wp.ScopedDevice(self._warp_device):
            self._model, self._data = _upload(scene.model, num_envs, scene.tiles)
        self._model.opt.deterministic = deterministic and self.device.type == "cuda"
        self._model.opt.warn_overflow = 0  # they reach the caller through RobotState.failed
        self._graphs: dict[str, Any] = {}

        model, data = self._model, self._data
        self._fields = {name: wp.to_torch(getattr(model, name)) for name in PER_WORLD}
        self._qpos, self._qvel = wp.to_torch(data.qpos), wp.to_torch(data.qvel)
        self._warm_start, self._ctrl = wp.to_torch(data.qacc_warmstart), wp.to_torch(data.ctrl)
        self._sensordata, self._overflow = wp.to_torch(data.sensordata), wp.to_torch(data.overflow)
        self._qpos0 = wp.to_torch(model.qpos0)[:1]

        n, joints, dec = num_envs, len(robot.joints), plant.decimation
        steps = int(np.ceil(max_delay_s / (plant.dt_s * dec))) + 1
        self._pose, self._kp, self._kd, self._limit = map(
            self._tensor, (robot.default_pose, robot.kp, robot.kd, robot.torque_limit_nm)
        )
        self._targets = self._pose.repeat(n, steps, 1)  # newest first
        self._control = torch.zeros(dec, n, joints, device=self.device)
        self._exploded = torch.zeros(n, dtype=torch.bool, device=self.device)
        # What the captured work reads and writes besides MuJoCo's own arrays.
        self._control_in = wp.from_torch(self._control)
        self._exploded_out = wp.from_torch(self._exploded)

        self._sensors = self._sensordata.clone()
        self._before = (self._qpos.clone(), self._qvel.clone())
        self._failed = torch.zeros(n, dtype=torch.bool, device=self.device)
        self._delay = torch.zeros(n, dtype=torch.int64, device=self.device)  # physics steps
        self._tile = torch.zeros(n, dtype=torch.int64, device=self.device)
        origins = np.zeros((1, 2)) if atlas is None else atlas.origins
        self._origins = self._tensor(origins)
        self._joint_qpos, self._joint_qvel = (
            torch.as_tensor(x, device=self.device) for x in (scene.qpos, scene.qvel)
        )
        self._parameters = Parameters.nominal(n, self.device)
        self._trunk_mass = float(scene.model.body_mass[scene.trunk])
        self._trunk_inertia = self._tensor(scene.model.body_inertia[scene.trunk])
        self._trunk_com = self._tensor(scene.model.body_ipos[scene.trunk])
        self._apply()

    def reset(self, mask: Tensor, start: Start, parameters: Parameters) -> None:
        """Recomputes constants and forces of every environment, however few are reset."""
        begun = time.perf_counter()
        for name, old in self._parameters.tensors().items():
            _put(old, mask, getattr(parameters, name))
        self._apply()
        _put(self._tile, mask, start.tile)
        self._lay_tiles()
        b, v = self._scene.base_qpos, self._scene.base_qvel
        qpos, qvel = self._qpos0.repeat(self.num_envs, 1), torch.zeros_like(self._qvel)
        qpos[:, b : b + 3] = start.position
        qpos[:, b : b + 2] -= self._origins[self._tile]  # each world holds one tile, centred
        qpos[:, b + 3 : b + 7] = start.quaternion
        qpos[:, self._joint_qpos] = start.joint_position
        qvel[:, v : v + 3] = start.linear_velocity
        qvel[:, v + 3 : v + 6] = start.angular_velocity
        _put(self._qpos, mask, qpos)
        _put(self._qvel, mask, qvel)
        _put(self._targets, mask, self._pose.expand_as(self._targets))
        self._failed &= ~mask
        self._ctrl[:] = self._pose
        self._warm_start.zero_()
        self._launch("settle", self._settle)
        feet, joints = self._scene.feet, len(self.robot.joints)
        sensed = self._sensordata.clone()
        sensed[:, 9 * feet : 9 * feet + joints] = 0.0  # no torque has acted yet
        _put(self._sensors, mask, sensed)
        self.seconds += time.perf_counter() - begun

    def step(self, targets: Tensor) -> RobotState:
        begun = time.perf_counter()
        dec = self.plant.decimation
        self._targets[:, 1:] = self._targets[:, :-1].clone()
        self._targets[:, 0] = targets
        # The target in force at physics step k was issued ceil((delay - k) / decimation) control steps ago.
        substep = torch.arange(dec, device=self.device)
        age = -torch.div(substep - self._delay[:, None], dec, rounding_mode="floor")
        index = age.clamp(min=0)[:, :, None].expand(-1, -1, self._targets.shape[2])
        control = self._targets.gather(1, index).transpose(0, 1)
        # MuJoCo goes on with zeros in place of a bad target; the environment has failed.
        self._control.copy_(torch.where(control.abs() < MAX_TARGET, control, 0.0))
        self._before[0].copy_(self._qpos)
        self._before[1].copy_(self._qvel)
        self._warm_start.zero_()
        self._overflow.zero_()
        self._exploded.zero_()
        self._launch("step", self._advance)
        self._sensors.copy_(self._sensordata)
        slow = self._qvel.abs().amax(1) < MAX_SPEED
        # Also targets that are not yet in force: they fail the step that issues them, so that no NaN gets any
        # further.
        driven = self._targets.abs().amax((1, 2)) < MAX_TARGET
        self._failed = self._exploded | ~slow | ~driven | ((self._overflow & LOST) != 0)
        self.seconds += time.perf_counter() - begun
        return self.state()

    def state(self, rows: Tensor | None = None) -> RobotState:
        at = slice(None) if rows is None else rows
        scene, b, v = self._scene, self._scene.base_qpos, self._scene.base_qvel
        feet, joints = scene.feet, len(self.robot.joints)
        qpos, qvel, sensors = self._qpos[at], self._qvel[at], self._sensors[at]
        origin = self._origins[self._tile[at]]
        rotation = rotation_of(qpos[:, b + 3 : b + 7])  # [N, 3, 3], body to world
        foot = sensors[:, scene.foot].reshape(len(qpos), 3, feet, 3)
        return RobotState(
            position=_moved(qpos[:, b : b + 3], origin),
            quaternion=qpos[:, b + 3 : b + 7],
            linear_velocity=(rotation.transpose(1, 2) @ qvel[:, v : v + 3, None])[..., 0],
            angular_velocity=qvel[:, v + 3 : v + 6],
            gravity=-rotation[:, 2],
            joint_position=qpos[:, self._joint_qpos],
            joint_velocity=qvel[:, self._joint_qvel],
            torque=sensors[:, 9 * feet : 9 * feet + joints],
            foot_position=_moved(foot[:, 0], origin[:, None]),
            foot_velocity=foot[:, 1],
            foot_force=-foot[:, 2],  # the sensor reports the force on the ground
            trunk_contact=sensors[:, 9 * feet + joints] > 0,
            failed=self._failed[at].clone(),
        )

    def push(self, mask: Tensor, velocity: Tensor) -> None:
        v = self._scene.base_qvel
        self._qvel[:, v : v + 2] += torch.where(mask[:, None], velocity, 0.0)

    def translate(self, mask: Tensor, offset: Tensor) -> None:
        delta = torch.where(mask[:, None], offset, 0.0)
        b, feet = self._scene.base_qpos, self._scene.feet
        self._qpos[:, b : b + 2] += delta
        self._sensors[:, : 3 * feet].view(-1, feet, 3)[..., :2] += delta[:, None]

    def failures(self) -> dict[str, Tensor]:
        rows = self._failed.nonzero()[:, 0]
        qpos, qvel = self._before
        return {"qpos": qpos[rows], "qvel": qvel[rows], "control": self._control[:, rows].transpose(0, 1)}

    def parameters(self) -> Parameters:
        """Returns what is in the batched model, not what resets were given."""
        trunk, spec, field = self._scene.trunk, self.robot, self._fields
        strength = field["actuator_forcerange"][:, 0, 1] / spec.torque_limit_nm[0]
        return Parameters(
            friction=field["geom_friction"][:, 0, 0].clone(),
            payload_kg=field["body_mass"][:, trunk] - self._trunk_mass,
            com_m=field["body_ipos"][:, trunk] - self._trunk_com,
            strength=strength,
            kp_scale=field["actuator_gainprm"][:, 0, 0] / spec.kp[0] / strength,
            kd_scale=-field["actuator_biasprm"][:, 0, 2] / spec.kd[0] / strength,
            delay_s=(self._delay * self.plant.dt_s).to(torch.float32),
        )

    def snapshot(self) -> dict[str, Tensor]:
        parameters = {f"parameters.{k}": v.clone() for k, v in self._parameters.tensors().items()}
        return {k: v.clone() for k, v in self._saved().items()} | parameters

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        for name, tensor in self._parameters.tensors().items():
            tensor.copy_(snapshot[f"parameters.{name}"])
        self._apply()
        self._tile.copy_(snapshot["tile"])
        self._lay_tiles()
        self._launch("settle", self._settle)
        for name, tensor in self._saved().items():
            tensor.copy_(snapshot[name])

    def close(self) -> None:
        self._graphs.clear()

    def _saved(self) -> dict[str, Tensor]:
        return {
            "qpos": self._qpos,
            "qvel": self._qvel,
            "sensors": self._sensors,
            "targets": self._targets,
            "delay": self._delay,
            "failed": self._failed,
            "tile": self._tile,
        }

    def _apply(self) -> None:
        """Writes `self._parameters` into the batched model; `_settle` then works out what follows from it."""
        p, trunk, field = self._parameters, self._scene.trunk, self._fields
        strength = p.strength[:, None]
        gain, limit = self._kp * (p.kp_scale[:, None] * strength), self._limit * strength
        field["geom_friction"][..., 0] = p.friction[:, None]
        field["actuator_gainprm"][..., 0] = gain
        field["actuator_biasprm"][..., 1] = -gain
        field["actuator_biasprm"][..., 2] = -self._kd * (p.kd_scale[:, None] * strength)
        field["actuator_forcerange"][..., 0], field["actuator_forcerange"][..., 1] = -limit, limit
        mass = self._trunk_mass + p.payload_kg
        field["body_mass"][:, trunk] = mass
        field["body_inertia"][:, trunk] = self._trunk_inertia * (mass / self._trunk_mass)[:, None]
        field["body_ipos"][:, trunk] = self._trunk_com + p.com_m
        longest = (self._targets.shape[1] - 1) * self.plant.decimation
        steps = (p.delay_s.to(torch.float64) / self.plant.dt_s).round().to(torch.int64)
        self._delay.copy_(steps.clamp(0, longest))

    def _lay_tiles(self) -> None:
        if self._atlas is not None:
            self._fields["geom_dataid"][:, self._scene.model.geom(FLOOR).id] = self._tile.to(torch.int32)

    # What follows is issued through Warp only, and captured on CUDA.

    def _advance(self) -> None:
        model, data = self._model, self._data
        for k in range(self.plant.decimation):
            wp.copy(data.ctrl, self._control_in[k])
            mjw.step(model, data)
            wp.launch(
                _guard,
                dim=self.num_envs,
                inputs=[model.qpos0, data.qacc],
                outputs=[data.qpos, data.qvel, data.qacc_warmstart, self._exploded_out],
            )

    def _settle(self) -> None:
        """The solver's inverse weights, which depend on the masses, and the sensors of the current state."""
        groups = mjw.SetConstGroup.FIXED | mjw.SetConstGroup.INERT0
        mjw.set_const(self._model, self._data, groups=groups, restore=False)
        mjw.forward(self._model, self._data)

    def _launch(self, name: str, work: Callable[[], None]) -> None:
        """On CUDA the first call runs (and loads) the kernels, the second captures them, all later ones
        replay."""
        with wp.ScopedDevice(self._warp_device):
            if self.device.type != "cuda":
                work()
                return
            stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
            if name not in self._graphs:
                self._graphs[name] = None
                with wp.ScopedStream(stream):
                    work()
                return
            if self._graphs[name] is None:
                with wp.ScopedCapture() as capture:  # on Warp's own stream: torch's cannot be captured
                    work()
                self._graphs[name] = capture.graph
            wp.capture_launch(self._graphs[name], stream=stream)

    def _tensor(self, values: Any) -> Tensor:
        return torch.from_numpy(np.array(values, np.float32)).to(self.device)


@wp.kernel  # type: ignore[untyped-decorator]
def _guard(
    qpos0: wp.array2d[float],
    qacc: wp.array2d[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    warm_start: wp.array2d[float],
    exploded: wp.array[bool],
) -> None:
    """Puts a world that left the numbers back to where its model starts, as MuJoCo does, and says so."""
    world = wp.tid()
    good = wp.bool(True)
    for i in range(qpos.shape[1]):
        good = good and wp.abs(qpos[world, i]) < wp.static(MAX_TARGET)
    for i in range(qvel.shape[1]):
        good = good and wp.abs(qvel[world, i]) < wp.static(MAX_TARGET)
        good = good and wp.abs(qacc[world, i]) < wp.static(MAX_TARGET)
    if good:
        return
    exploded[world] = True
    for i in range(qpos.shape[1]):
        qpos[world, i] = qpos0[world % qpos0.shape[0], i]
    for i in range(qvel.shape[1]):
        qvel[world, i] = 0.0
        warm_start[world, i] = 0.0


def _device(name: str | torch.device) -> torch.device:
    device = torch.device(name)
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise SurefootError("There is no CUDA device for engine 'mujoco-warp'; use --device cpu.")
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def _upload(model: mujoco.MjModel, worlds: int, tiles: np.ndarray) -> tuple[mjw.Model, mjw.Data]:
    """The model with a row per world where worlds differ, and data with room for all contacts.

    Heightfields are no batched field, but which of them a geom shows is: all tiles lie in the model once, and
    each world's floor names its own.
    """
    try:
        uploaded = mjw.put_model(model, batch_sizes=dict.fromkeys(PER_WORLD, worlds))
    except NotImplementedError as error:
        raise SurefootError(
            f"MuJoCo Warp cannot simulate this robot ({str(error).rstrip('.')}); use --engine mujoco."
        ) from error
    if len(tiles):
        count, samples = tiles.shape
        uploaded.hfield_size = wp.array(np.repeat(model.hfield_size, count, 0), dtype=wp.vec4)
        uploaded.hfield_nrow = wp.array(np.repeat(model.hfield_nrow, count), dtype=int)
        uploaded.hfield_ncol = wp.array(np.repeat(model.hfield_ncol, count), dtype=int)
        uploaded.hfield_adr = wp.array(np.arange(count) * samples, dtype=int)
        uploaded.hfield_data = wp.array(tiles.reshape(-1), dtype=float)
        uploaded.nhfield, uploaded.nhfielddata = count, tiles.size
    geoms = int((model.geom_contype > 0).sum())
    contacts = geoms * CONTACTS_PER_GEOM
    rows = (
        4 * contacts + 2 * model.nv
    )  # four per contact in a pyramidal cone; a limit and dry friction per joint
    data = mjw.make_data(model, nworld=worlds, nconmax=contacts, nccdmax=geoms, njmax=rows)
    return uploaded, data


def _put(old: Tensor, mask: Tensor, new: Tensor) -> None:
    """Writes the rows of `new` in `mask` into `old`; the others may be anything."""
    old.copy_(torch.where(mask.view(-1, *[1] * (old.dim() - 1)), new, old))


def _moved(points: Tensor, origin: Tensor) -> Tensor:
    return torch.cat([points[..., :2] + origin, points[..., 2:]], -1)
