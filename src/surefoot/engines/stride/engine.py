"""Stride behind the engine protocol: torch tensors own the memory, Warp kernels work in it.

On the CPU threads take one share of the environments after the other; results do not depend on how many
threads there are. On CUDA it is one launch on torch's current stream, and neither `reset` nor
`step`, `push` or `translate` waits for the device, so that all of them can be captured in a CUDA graph.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compiler import BLOCK, SHAPES, Target
from surefoot.compute import ThreadTeam, chunk_sizes, cores
from surefoot.compute.warp import Launch, start_warp
from surefoot.contract import MAX_DELAY_S, Plant, SurefootError
from surefoot.engines.protocol import Parameters, RobotState, Start
from surefoot.engines.scene import build_scene
from surefoot.engines.stride.buffers import Buffers, allocate, arrange
from surefoot.engines.stride.description import describe
from surefoot.engines.stride.kernel import DELAY, FAILED, HEAD, TILE, TRUNK_CONTACT, control_step_source
from surefoot.engines.stride.layout import Layout, lay_out
from surefoot.engines.stride.reset import reset_source
from surefoot.engines.stride.warp_kernels import make_control_step, make_reset
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

WIDTH = 16
"""Environments in a SIMD register. Wider than the machine's registers is fine: the compiler splits them."""

REGISTERS: int | None = None
"""Most registers of a CUDA thread; None is all that the device has (255)."""


@lru_cache(maxsize=32)
def _kernels(step: str, reset: str, cuda: bool, registers: int | None) -> tuple[Any, Any]:
    """Equal sources are the same kernels; Warp keeps their binaries on disk under a digest of the source."""
    return make_control_step(step, cuda, registers), make_reset(reset)


class StrideEngine:
    """`num_envs` robots on `threads` CPU threads, or on a CUDA device."""

    name = "stride"

    def __init__(
        self,
        robot: RobotSpec,
        plant: Plant,
        num_envs: int,
        *,
        atlas: Atlas | None = None,
        max_delay_s: float = MAX_DELAY_S,
        threads: int | None = None,
        device: str | torch.device = "cpu",
        shape: str | None = None,
    ) -> None:
        self.robot, self.plant, self.num_envs = robot, plant, num_envs
        self.device = torch.device(device)
        self.seconds = 0.0
        cuda = self.device.type == "cuda"
        self.shape = shape or ("lanes" if cuda else "wide")
        _check_shape(self.shape, self.device)
        scene = build_scene(robot, plant, atlas)
        description = describe(scene.model, scene.trunk, robot.feet)
        self.layout = lay_out(description, atlas is not None, self._hot(atlas is not None))
        self.buffers = arrange(self.layout, len(robot.joints), len(robot.feet))
        self._atlas = atlas
        policy = policy_order(self.layout, robot)
        width = WIDTH if self.shape == "wide" else 1
        history = math.ceil(max_delay_s / (plant.dt_s * plant.decimation)) + 1
        self.timing = {"decimation": plant.decimation, "history": history}
        """Physics steps in a control step, and how many control steps' targets are remembered."""
        step_source = self._step_source(policy, Target(self.shape, width, cuda))
        pose = np.asarray(robot.default_pose, np.float32)
        self._step_kernel, self._reset_kernel = _kernels(
            step_source, reset_source(self.layout, self.buffers, policy, pose, **self.timing), cuda, REGISTERS
        )
        lanes = 1 << (self.layout.chains - 1).bit_length() if self.shape == "lanes" else 1
        self._per_launch = (width, lanes)
        multiple = math.lcm(width, 32 if cuda else 1)
        self.padded = -(-num_envs // multiple) * multiple
        targets_kept = history * self.layout.depth * self.layout.chains
        self.arrays = allocate(self.buffers, self.padded, targets_kept, atlas, self.device)
        start_warp()
        self._record(max(1, threads or cores()) if not cuda else 1)
        self._nominal_start()

    # ---- construction

    def _hot(self, heightfield: bool) -> bool:
        """A warp on a heightfield nearly always has some contact that is not a foot's first."""
        return self.shape != "lanes" or not heightfield

    def _step_source(self, policy: np.ndarray, target: Target) -> str:
        return control_step_source(self.layout, self.buffers, policy, target, **self.timing)

    def _record(self, threads: int) -> None:
        """Launches are recorded once; repeating them costs a few microseconds."""
        width, lanes = self._per_launch
        arrays = self.arrays.of_a_step()

        def record(kernel: Any, dim: int, inputs: list[Any]) -> Launch:
            return Launch(kernel, dim, inputs, self.device, BLOCK)

        groups = self.padded // width
        self.team = ThreadTeam(min(threads, groups))
        edges = list(accumulate(chunk_sizes(groups, min(threads, groups)), initial=0))
        self.shares = [(a * width, b * width) for a, b in pairwise(edges)]
        """Environments that a CPU thread takes at once; on CUDA all of them."""
        self.step_launches = [
            [
                record(self._step_kernel, (b - a) * lanes, [a * lanes, look, *arrays])
                for a, b in pairwise(edges)
            ]
            for look in (0, 1)
        ]
        arrays = self.arrays.of_a_reset()
        self.reset_launches = [record(self._reset_kernel, b - a, [a, *arrays]) for a, b in self.shares]

    def _nominal_start(self) -> None:
        """Padding too gets a sound state, so that every lane computes with numbers."""
        n, sg = self.padded, self.buffers.staging
        nominal = Parameters.nominal(n, self.device)
        for name, value in nominal.tensors().items():
            self.arrays.staging[:, sg[name]] = value.view(n, -1)
        self.arrays.staging[:, sg.first("position") + 2] = 10.0
        self.arrays.staging[:, sg.first("quaternion")] = 1.0
        pose = torch.tensor(self.robot.default_pose, dtype=torch.float32, device=self.device)
        self.arrays.staging[:, sg["joint_position"]] = pose
        self.arrays.mask[:] = 1
        self._launch(self.reset_launches)
        self._launch(self.step_launches[1])
        self.arrays.mask[:] = 0

    def _launch(self, commands: list[Launch]) -> None:
        self.team(commands)

    # ---- protocol

    def reset(self, mask: Tensor, start: Start, parameters: Parameters) -> None:
        begun = time.perf_counter()
        n, p = self.num_envs, parameters
        columns = [start.position, start.quaternion, start.linear_velocity, start.angular_velocity]
        columns += [start.joint_position, p.friction[:, None], p.payload_kg[:, None], p.com_m]
        columns += [x[:, None] for x in (p.strength, p.kp_scale, p.kd_scale, p.delay_s, start.tile.float())]
        torch.cat(columns, 1, out=self.arrays.staging[:n])
        self.arrays.mask[:n] = mask
        self._launch(self.reset_launches)
        self._launch(self.step_launches[1])
        self.seconds += time.perf_counter() - begun

    def step(self, targets: Tensor) -> RobotState:
        begun = time.perf_counter()
        self.arrays.targets[: self.num_envs] = targets
        state = self._step()
        self.seconds += time.perf_counter() - begun
        return state

    def _step(self) -> RobotState:
        if self.device.type != "cpu":
            self._launch(self.step_launches[0])
            return self.state()
        y = torch.empty(self.buffers.outputs.count, self.num_envs)
        flags = torch.empty(2, self.num_envs, dtype=torch.uint8)
        whole = [(y.numpy(), self.arrays.outputs.numpy()), (flags.numpy(), self.arrays.flags.numpy())]

        def piece(launch: Launch, share: tuple[int, int]) -> None:
            launch()
            part = slice(share[0], min(share[1], self.num_envs))
            for copy, kept in whole:  # while this core's cache has it
                copy[:, part] = kept[:, part]

        self.team([partial(piece, *x) for x in zip(self.step_launches[0], self.shares, strict=True)])
        return self._robot_state(y, flags)

    def state(self, rows: Tensor | None = None) -> RobotState:
        """A copy, so that a state outlives the step after it; `view` is the memory itself."""
        if rows is not None:
            return self._robot_state(self.arrays.outputs[:, rows], self.arrays.flags[:, rows])
        return self._robot_state(
            self.arrays.outputs[:, : self.num_envs].clone(), self.arrays.flags[:, : self.num_envs].clone()
        )

    def view(self) -> RobotState:
        """The state as views of the buffers that the kernel writes: always the newest, never copied."""
        return self._robot_state(
            self.arrays.outputs[:, : self.num_envs], self.arrays.flags[:, : self.num_envs]
        )

    def _robot_state(self, y: Tensor, flags: Tensor) -> RobotState:
        (_, n), (row, one), begin = y.shape, y.stride(), y.storage_offset()
        out = {}
        for name, (first, count) in self.buffers.outputs.at.items():  # views, each made by one call
            feet = name.startswith("foot_")
            size, stride = ((n, count // 3, 3), (one, 3 * row, row)) if feet else ((n, count), (one, row))
            out[name] = y.as_strided(size, stride, begin + first * row)
        flags = flags.view(torch.bool)
        return RobotState(**out, trunk_contact=flags[TRUNK_CONTACT], failed=flags[FAILED])

    def push(self, mask: Tensor, velocity: Tensor) -> None:
        kick = torch.where(mask[:, None], velocity, 0.0).T  # [2, N]
        n, st, out = self.num_envs, self.buffers.state, self.buffers.outputs
        first = st.first("vel")
        self.arrays.state[first : first + 2, :n] += kick
        w, x, y, z = self.arrays.outputs[out["quaternion"], :n]
        turned = torch.stack(
            [
                (1 - 2 * (y * y + z * z)) * kick[0] + 2 * (x * y + w * z) * kick[1],
                2 * (x * y - w * z) * kick[0] + (1 - 2 * (x * x + z * z)) * kick[1],
                2 * (x * z + w * y) * kick[0] + 2 * (y * z - w * x) * kick[1],
            ]
        )
        self.arrays.outputs[out["linear_velocity"], :n] += torch.where(mask, turned, 0.0)

    def translate(self, mask: Tensor, offset: Tensor) -> None:
        move = torch.where(mask[:, None], offset, 0.0).T
        n, out = self.num_envs, self.buffers.outputs
        first, feet = self.buffers.state.first("pos"), len(self.robot.feet)
        self.arrays.state[first : first + 2, :n] += move
        first = out.first("position")
        self.arrays.outputs[first : first + 2, :n] += move
        self.arrays.outputs[out["foot_position"]].view(feet, 3, -1)[:, :2, :n] += move

    def failures(self) -> dict[str, Tensor]:
        failed = self.arrays.flags[FAILED, : self.num_envs].bool()
        return {
            "state": self.arrays.state[:, : self.num_envs].T[failed],
            "control": self.arrays.targets[: self.num_envs][failed],
        }

    def parameters(self) -> Parameters:
        n, pr, d = self.num_envs, self.buffers.parameters, self.layout.description
        p = {name: self.arrays.parameters[pr[name], :n].T for name in pr.at}
        com = torch.tensor(d.trunk_com, dtype=torch.float32, device=self.device)
        return Parameters(
            friction=p["mu"][:, 0].clone(),
            payload_kg=p["m0"][:, 0] - (d.trunk_mass + d.fixed[0, 0]),
            com_m=p["com"] - com,
            strength=p["strength"][:, 0].clone(),
            kp_scale=p["kp"][:, 0].clone(),
            kd_scale=p["kd"][:, 0].clone(),
            delay_s=self.arrays.integers[DELAY, :n] * self.plant.dt_s,
        )

    def _memory(self) -> dict[str, Tensor]:
        """What goes from step to step, under the names that checkpoints have."""
        a = self.arrays
        return {
            "state": a.state,
            "parameters": a.parameters,
            "outputs": a.outputs,
            "targets": a.history,
            "flags": a.flags,
            "integers": a.integers,
        }

    def snapshot(self) -> dict[str, Tensor]:
        return {k: v[:, : self.num_envs].T.clone() for k, v in self._memory().items()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        for name, memory in self._memory().items():
            memory[:, : self.num_envs] = snapshot[name].T.to(self.device)

    def close(self) -> None:
        self.team.close()


def _check_shape(shape: str, device: torch.device) -> None:
    if shape not in SHAPES:
        raise SurefootError(f"Stride has no shape '{shape}'; choose one of {', '.join(SHAPES)}.")
    if device.type not in ("cpu", "cuda"):
        raise SurefootError(f"Stride runs on the CPU and on CUDA, not on '{device}'; choose one of those.")
    if (shape == "wide") != (device.type == "cpu") and shape != "solo":
        raise SurefootError(f"Stride's shape '{shape}' does not run on '{device}'; leave the shape out.")


def policy_order(layout: Layout, robot: RobotSpec) -> np.ndarray:
    """Returns [depth, K], each joint's place in the policy's order; -1 for padding and joints without a
    servo."""
    place = {name: i for i, name in enumerate(robot.joints)}
    return np.array([[place.get(link.name, -1) for link in row] for row in layout.links])


__all__ = ["HEAD", "TILE", "Buffers", "StrideEngine"]
