"""Metrics of episodes as they are lived: sums over the steps of each episode up to its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from surefoot.env import Step, VecEnv

GRAVITY = 9.81
AXES = ("vx", "vy", "wz")


class Tally:
    """Sums over the steps that each episode actually lived."""

    def __init__(self, env: VecEnv) -> None:
        n, dev = env.num_envs, env.device
        self.env = env
        self.alive = torch.ones(n, dtype=torch.bool, device=dev)
        self.reason = torch.zeros(n, dtype=torch.int64, device=dev)
        names = ["steps", "settled", "velocity", "yaw", "work", "distance", "saturated", "trunk", "slip"]
        names += [*AXES, *(f"error_{k}" for k in AXES), *(f"asked_{k}" for k in AXES), "return"]
        self.sum = {k: torch.zeros(n, dtype=torch.float64, device=dev) for k in names}
        self.terms = torch.zeros(n, len(env.reward_names), dtype=torch.float64, device=dev)
        self.peak_tilt = torch.zeros(n, device=dev)
        self.limit = env.const.torque_limit * env.parameters.strength[:, None]

    def carried(self) -> list[Tensor]:
        """Tensors that `add` replaces by new ones."""
        return [self.alive, self.reason, self.peak_tilt]

    def carry(self, tensors: Sequence[Tensor]) -> None:
        self.alive, self.reason, self.peak_tilt = tensors

    def add(self, step: Step) -> None:
        v, dt = step.view, self.env.dt
        robot, command = v.robot, v.task.command
        success = self.env.contract.success
        live = self.alive.to(torch.float64)
        settled = live * (v.task.age > round(success.settle_s / dt))
        done = torch.cat([robot.linear_velocity[:, :2], robot.angular_velocity[:, 2:]], 1)  # [N, 3]
        off = (done - command).abs()
        add = {
            "steps": live,
            "settled": settled,
            "velocity": settled * (done - command)[:, :2].norm(dim=1),
            "yaw": settled * off[:, 2],
            "work": live * (robot.torque * robot.joint_velocity).abs().sum(1) * dt,
            "distance": live * done[:, :2].norm(dim=1) * dt,
            "saturated": live * (robot.torque.abs() > 0.99 * self.limit).any(1),
            "trunk": live * robot.trunk_contact,
            "slip": live * (robot.foot_velocity[..., :2].norm(dim=2) * v.task.contact).sum(1) * dt,
            "return": live * step.reward,
        }
        for i, k in enumerate(AXES):
            add[k], add[f"asked_{k}"] = settled * done[:, i], settled * command[:, i]
            add[f"error_{k}"] = settled * off[:, i]
        for k, x in add.items():
            self.sum[k] += x
        self.terms += live[:, None] * step.terms
        tilt = torch.acos((-robot.gravity[:, 2]).clamp(-1, 1))
        self.peak_tilt = torch.where(self.alive, torch.maximum(self.peak_tilt, tilt), self.peak_tilt)
        ended = self.alive & (step.terminated | step.truncated)
        self.reason = torch.where(ended, step.reason.long(), self.reason)
        self.alive = self.alive & ~ended

    def rows(self) -> dict[str, np.ndarray]:
        s = {k: v.cpu().numpy() for k, v in self.sum.items()}
        success, dt = self.env.contract.success, self.env.dt
        reasons = np.array(self.env.reasons)[self.reason.cpu().numpy()]
        fall = reasons != "timeout"
        with np.errstate(invalid="ignore", divide="ignore"):
            velocity, yaw = s["velocity"] / s["settled"], s["yaw"] / s["settled"]
            cot = s["work"] / (self.env.const.mass_kg * GRAVITY * s["distance"])
            means = {f"achieved_{k}": s[k] / s["settled"] for k in AXES}
            means |= {f"error_{k}": s[f"error_{k}"] / s["settled"] for k in AXES}
            along = sum(s[k] * s[f"asked_{k}"] for k in AXES)
            ratio = along / sum(s[f"asked_{k}"] ** 2 for k in AXES)
        good = (velocity < success.velocity_error_mps) & (yaw < success.yaw_error_radps)
        # A robot that hardly moves has no cost of transport; a faller before the settling time no velocity
        # error; a command to stand no ratio: NaN.
        cot[s["distance"] < 0.5] = np.nan
        terms = self.terms.cpu().numpy()
        return {
            "success": ~fall & good,
            "fall": fall,
            "reason": reasons,
            "steps": s["steps"].astype(np.int64),
            "lived_s": s["steps"] * dt,
            "velocity_error_mps": velocity,
            "yaw_error_radps": yaw,
            **means,
            "achieved_ratio": np.where(np.isfinite(ratio), ratio, np.nan),
            "cost_of_transport": cot,
            "work_j": s["work"],
            "distance_m": s["distance"],
            "torque_saturation": s["saturated"] / s["steps"],
            "trunk_contact": s["trunk"] / s["steps"],
            "foot_slip_m": s["slip"],
            "peak_tilt_rad": self.peak_tilt.cpu().numpy(),
            "return": s["return"],
            **{f"return.{n}": terms[:, i] for i, n in enumerate(self.env.reward_names)},
        }
