"""The panel evaluator: all scenarios of a half in one batch, deterministic actions, metrics per episode from
one pass."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.contract import Half, Panel, Plant, SurefootError, evaluation_plant
from surefoot.env import Step, VecEnv
from surefoot.policy import Policy
from surefoot.scenarios import PanelSampler
from surefoot.tasks import Task
from surefoot.terrain import Atlas, TileId

TRACES = 4
"""Episodes per evaluation whose states are kept for replay."""
GRAVITY = 9.81


@dataclass(frozen=True)
class PanelResult:
    """One row per episode, and the state traces of a few."""

    rows: dict[str, np.ndarray]
    traces: dict[int, dict[str, np.ndarray]]
    seconds: float
    """Wall-clock of the pass."""

    @property
    def success(self) -> float:
        return float(self.rows["success"].mean())


class PanelEvaluator:
    """A panel (or a half of it) laid out as environments on the evaluation plant; `run` may be called many
    times."""

    def __init__(
        self,
        task: Task,
        panel: Panel,
        half: Half,
        control_hz: float,
        *,
        engine: str = "mujoco",
        plant: Plant | None = None,
    ) -> None:
        self.task, self.panel, self.half = task, panel, half
        self.scenarios = panel.select(half)
        if not self.scenarios:
            raise SurefootError(f"Panel {panel.name} has no scenario in its {half} half; use another --half.")
        ids = sorted({TileId(s.terrain.cls, s.terrain.level, s.terrain.key) for s in self.scenarios})
        atlas = None if all(t.cls == "flat" for t in ids) and not task.tiles else Atlas.build(ids)
        sampler = PanelSampler(panel, self.scenarios, task.contract, task.robot, control_hz, atlas)
        self.env = VecEnv(
            task,
            sampler,
            plant or evaluation_plant(control_hz),
            engine=engine,
            atlas=atlas,
            auto_reset=False,
            stagger=False,
        )
        self._start = self.env.snapshot()

    def run(self, policy: Policy, traces: int = TRACES) -> PanelResult:
        """Plays every scenario once, to its end or its fall."""
        env = self.env
        env.restore(self._start)
        begun = time.perf_counter()
        tally = _Tally(env)
        state = torch.zeros(env.num_envs, 0, device=env.device)
        chosen = (
            np.unique(np.linspace(0, env.num_envs - 1, traces).astype(int)) if traces else np.zeros(0, int)
        )
        frames: list[dict[str, np.ndarray]] = []
        for _ in range(env.sampler.episode_steps):
            action, state = policy(env.obs, state)
            step = env.step(action)
            tally.add(step)
            if len(chosen):
                frames.append(_frame(step, chosen))
        rows = self._identify() | tally.rows()
        kept = {
            int(i): {k: np.stack([f[k][j] for f in frames])[: rows["steps"][i]] for k in frames[0]}
            for j, i in enumerate(chosen)
        }
        return PanelResult(rows, kept, time.perf_counter() - begun)

    def _identify(self) -> dict[str, np.ndarray]:
        s = self.scenarios
        command = np.array([x.command for x in s])
        return {
            "family": np.array([x.family for x in s]),
            "member": np.array([x.member for x in s]),
            "half": np.array([x.half for x in s]),
            "command_vx": command[:, 0],
            "command_vy": command[:, 1],
            "command_wz": command[:, 2],
            "friction": np.array([x.friction for x in s]),
            "payload_kg": np.array([x.payload_kg for x in s]),
            "terrain": np.array([x.terrain.cls for x in s]),
            "level": np.array([x.terrain.level for x in s]),
        }

    def close(self) -> None:
        self.env.close()


class _Tally:
    """Sums over the steps that each episode actually lived."""

    def __init__(self, env: VecEnv) -> None:
        n, dev = env.num_envs, env.device
        self.env = env
        self.alive = torch.ones(n, dtype=torch.bool, device=dev)
        self.reason = torch.zeros(n, dtype=torch.int64, device=dev)
        names = (
            "steps",
            "settled",
            "velocity",
            "yaw",
            "work",
            "distance",
            "saturated",
            "trunk",
            "slip",
            "vx",
            "vy",
            "wz",
            "return",
        )
        self.sum = {k: torch.zeros(n, dtype=torch.float64, device=dev) for k in names}
        self.peak_tilt = torch.zeros(n, device=dev)
        self.limit = env.const.torque_limit * env.parameters.strength[:, None]

    def add(self, step: Step) -> None:
        v, dt = step.view, self.env.dt
        robot, command = v.robot, v.task.command
        success = self.env.contract.success
        live = self.alive.to(torch.float64)
        settled = live * (v.task.age > round(success.settle_s / dt))
        error = (robot.linear_velocity[:, :2] - command[:, :2]).norm(dim=1)
        yaw = (robot.angular_velocity[:, 2] - command[:, 2]).abs()
        power = (robot.torque * robot.joint_velocity).abs().sum(1)
        speed = robot.linear_velocity[:, :2].norm(dim=1)
        add = {
            "steps": live,
            "settled": settled,
            "velocity": settled * error,
            "yaw": settled * yaw,
            "work": live * power * dt,
            "distance": live * speed * dt,
            "saturated": live * (robot.torque.abs() > 0.99 * self.limit).any(1),
            "trunk": live * robot.trunk_contact,
            "slip": live * (robot.foot_velocity[..., :2].norm(dim=2) * v.task.contact).sum(1) * dt,
            "vx": settled * robot.linear_velocity[:, 0],
            "vy": settled * robot.linear_velocity[:, 1],
            "wz": settled * robot.angular_velocity[:, 2],
            "return": live * step.reward,
        }
        for k, x in add.items():
            self.sum[k] += x
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
            achieved = {f"achieved_{k}": s[k] / s["settled"] for k in ("vx", "vy", "wz")}
        good = (velocity < success.velocity_error_mps) & (yaw < success.yaw_error_radps)
        # A robot that hardly moves has no cost of transport; a faller before the settling time no velocity
        # error: NaN.
        cot[s["distance"] < 0.5] = np.nan
        return {
            "success": ~fall & good,
            "fall": fall,
            "reason": reasons,
            "steps": s["steps"].astype(np.int64),
            "lived_s": s["steps"] * dt,
            "velocity_error_mps": velocity,
            "yaw_error_radps": yaw,
            "cost_of_transport": cot,
            "work_j": s["work"],
            "distance_m": s["distance"],
            "torque_saturation": s["saturated"] / s["steps"],
            "trunk_contact": s["trunk"] / s["steps"],
            "foot_slip_m": s["slip"],
            "peak_tilt_rad": self.peak_tilt.cpu().numpy(),
            "return": s["return"],
            **achieved,
        }


def _frame(step: Step, rows: np.ndarray) -> dict[str, np.ndarray]:
    r, t = step.view.robot, step.view.task
    fields = {
        "position": r.position,
        "quaternion": r.quaternion,
        "joint_position": r.joint_position,
        "torque": r.torque,
        "foot_position": r.foot_position,
        "foot_force": r.foot_force,
        "command": t.command,
        "action": t.action,
    }
    return {k: v[rows].cpu().numpy().copy() for k, v in fields.items()}
