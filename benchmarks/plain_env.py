"""The robot of walk-flat as a plain Gymnasium environment, as written by hand: one robot, one MjData, numpy.

What `cpu_throughput.py` compares with. It observes, rewards, ends and randomises the same kinds of things as
walk-flat does, as frugally as plain numpy allows; it is not the same task to the digit.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
import numpy as np

EPISODE_STEPS, COMMAND_STEPS, PUSH_STEPS = 1000, 250, 250


class PlainWalk(gymnasium.Env[np.ndarray, np.ndarray]):
    """`model` has position servos, and sensors for feet, joint torques and trunk contact, in that order."""

    def __init__(
        self, model: mujoco.MjModel, default_pose: tuple[float, ...], height_m: float, decimation: int
    ) -> None:
        self.model, self.data = model, mujoco.MjData(model)
        self.pose, self.height, self.decimation = np.array(default_pose), height_m, decimation
        self.torque_limit = model.actuator_forcerange[:, 1].copy()
        self.low, self.high = model.jnt_range[1:, 0] + 0.05, model.jnt_range[1:, 1] - 0.05
        self.leg = np.tile([1.0, 0.3, 0.1], 4)
        self.dt = model.opt.timestep * decimation
        joints = len(self.pose)
        self.noise = np.repeat([0.2, 0.05, 0.0, 0.02, 1.5, 0.0], [3, 3, 3, joints, joints, joints])
        self.scale = np.repeat([0.25, 1.0, 2.0, 1.0, 0.05, 1.0], [3, 3, 3, joints, joints, joints])
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (len(self.noise),), np.float32)
        self.action_space = gymnasium.spaces.Box(-6.0, 6.0, (joints,), np.float32)
        self.rotation = np.zeros(9)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        rng, data = self.np_random, self.data
        mujoco.mj_resetData(self.model, data)
        self.model.geom_friction[:, 0] = rng.uniform(0.4, 1.2)
        data.qpos[2] = self.height + 0.01
        yaw = rng.uniform(0.0, np.pi)
        data.qpos[3:7] = np.cos(yaw), 0.0, 0.0, np.sin(yaw)
        data.qpos[7:] = self.pose + rng.uniform(-0.1, 0.1, len(self.pose))
        data.qvel[:6] = rng.uniform(-0.3, 0.3, 6)
        mujoco.mj_forward(self.model, data)
        self.age = 0
        self.action = np.zeros(len(self.pose))
        self.air = np.zeros(4)
        self.contact = np.ones(4, bool)
        self.command = self._draw_command()
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        data = self.data
        action = np.clip(action, -6.0, 6.0)
        data.ctrl[:] = self.pose + 0.3 * action
        if self.age % PUSH_STEPS == PUSH_STEPS - 1:
            data.qvel[:2] += self.np_random.uniform(-0.5, 0.5, 2)
        mujoco.mj_step(self.model, data, self.decimation)
        self.age += 1
        mujoco.mju_quat2Mat(self.rotation, data.qpos[3:7])
        reward = self._reward(action)
        self.action = action
        fallen = bool(self.rotation[8] < 0.6 or data.sensordata[-1] > 0 or data.qpos[2] < 0.52 * self.height)
        if self.age % COMMAND_STEPS == 0:
            self.command = self._draw_command()
        return self._observe(), reward, fallen, self.age >= EPISODE_STEPS and not fallen, {}

    def _draw_command(self) -> np.ndarray:
        return self.np_random.uniform((-1.0, -0.5, -1.0), (1.0, 0.5, 1.0))

    def _observe(self) -> np.ndarray:
        q, v, r = self.data.qpos, self.data.qvel, self.rotation
        clean = np.concatenate([v[3:6], -r[6:9], self.command, q[7:] - self.pose, v[6:], self.action])
        noisy = clean + self.noise * self.np_random.uniform(-1.0, 1.0, len(clean))
        return np.clip(noisy * self.scale, -10.0, 10.0).astype(np.float32)

    def _reward(self, action: np.ndarray) -> float:
        """The terms of walk-flat; weights do not matter for speed."""
        data, command = self.data, self.command
        feet = data.sensordata[:36].reshape(3, 4, 3)
        torque = data.sensordata[36:48]
        velocity = self.rotation.reshape(3, 3).T @ data.qvel[:3]
        spin, joints = data.qvel[3:6], data.qpos[7:]
        contact = -feet[2, :, 2] > 1.0
        landed = self.air * (contact & ~self.contact)
        self.air = (self.air + self.dt) * ~contact
        self.contact = contact
        moving = float(np.abs(command).max() > 0.05)
        error = velocity[:2] - command[:2]
        miss = error @ error
        yaw = spin[2] - command[2]
        offset = joints - self.pose
        change = action - self.action
        reward = (
            1.5 * np.exp(-miss / 0.25) + 0.75 * np.exp(-yaw * yaw / 0.25) - np.sqrt(miss) - 0.4 * abs(yaw)
        )
        reward += 0.5 * moving * ((np.minimum(landed, 0.35) - 0.1) * (landed > 0)).sum() / self.dt
        reward -= velocity[2] ** 2 + 0.02 * (spin[:2] @ spin[:2]) + self.rotation[6:8] @ self.rotation[6:8]
        reward -= 1e-4 * (torque @ torque) + 0.01 * (change @ change) + 0.15 * (self.leg @ offset**2)
        reward -= 0.1 * (1 - moving) * np.abs(offset).sum() + 0.05 * ((feet[1, :, :2] ** 2).sum(1) @ contact)
        reward -= (np.maximum(self.low - joints, 0) + np.maximum(joints - self.high, 0)).sum()
        return max(float(reward), 0.0) * self.dt
