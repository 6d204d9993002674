"""The panel of an outside environment: every held-out seed lives one episode under a policy without
exploration noise, and leaves the row that any panel's episode leaves. What the simulator does not tell is
nan."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import numpy as np
import torch

from surefoot.contract import TRAINED, Column, Half, SeedPanel, SurefootError
from surefoot.env.external import ALIVE, NONFINITE, REASONS, TERMINATED, TIMEOUT, ActionScale, ExternalTask
from surefoot.evaluation.evaluator import PendingResult
from surefoot.evaluation.passes import concatenate
from surefoot.evaluation.progress import PassCounter, Watch, unwatched
from surefoot.policy import FixedBatch, HoldPose, Policy, PolicyBundle, RandomActions, first_state
from surefoot.statistics import PanelResult

BASELINES = ("zero", "random")
"""No action (the middle of the range), and any."""

NOT_TOLD = (
    *("lived_s", "velocity_error_mps", "yaw_error_radps", "achieved_vx", "achieved_vy", "achieved_wz"),
    *("error_vx", "error_vy", "error_wz", "achieved_ratio", "cost_of_transport", "work_j", "distance_m"),
    *("torque_saturation", "trunk_contact", "foot_slip_m", "peak_tilt_rad", "recovery_s", "friction"),
    *("payload_kg", "command_vx", "command_vy", "command_wz", "window_velocity_error_mps"),
    *("window_yaw_error_radps", "windows_as_told", "stand_drift_m", "stand_turn_rad", "stand_speed_mps"),
    *("stand_joint_speed_radps", "foot_slip_per_m", "foot_clearance_m", "vibration_radps"),
)
"""Columns that only Surefoot's own simulators can fill."""


class ExternalEvaluator:
    """A half of a seed panel laid out as environments; `run` may be called many times."""

    def __init__(self, task: ExternalTask, panel: SeedPanel, half: Half, device: str = "cpu") -> None:
        self.task, self.panel, self.half = task, panel, half
        self.engine, self.device = task.contract.source, torch.device(device)
        self.scenarios = panel.select(half)
        self.source = task.make([s.seed for s in self.scenarios], device)
        self._scale = ActionScale(task.contract.action, self.device)

    @torch.inference_mode()
    def run(
        self,
        policy: Policy,
        column: Column | None = None,
        *,
        name: str = TRAINED,
        traces: bool = True,
        counter: PassCounter | None = None,
    ) -> PanelResult:
        """Runs the nominal column, the only one. No trace is kept: there is no robot to replay."""
        if column is not None and column.perturbation:
            raise SurefootError(
                f"{self.task.contract.name} comes from outside and cannot be perturbed; use --perturb none."
            )
        begun, n, c = time.perf_counter(), len(self.scenarios), self.task.contract
        policy = policy.to(self.device) if isinstance(policy, PolicyBundle) else policy
        act = FixedBatch(policy, torch.arange(n, device=self.device))
        family = torch.tensor([s.family for s in self.scenarios], device=self.device)
        state = first_state(policy, family, torch.zeros_like(family))
        obs, width = self.source.start(), c.observation_size
        reason = np.zeros(n, np.int64)
        steps, total = np.zeros(n, np.int64), np.zeros(n)
        sha = [hashlib.sha256() for _ in range(n)]
        simulated = 0
        while (reason == ALIVE).any():
            action, state = act(torch.nan_to_num(obs[:, :width]), state)
            moved = self.source.step(self._scale(action))
            simulated += n
            live = reason == ALIVE
            reward, ended = moved.reward.cpu().double().numpy(), moved.terminated.cpu().numpy()
            finite = moved.seen.isfinite().all(1).cpu().numpy() & np.isfinite(reward)
            if counter is not None:
                counter.stepped(n, min(1.0, simulated / (n * c.episode_steps)))
            steps += live
            total += np.where(live & finite, reward, 0.0)
            late = moved.truncated.cpu().numpy() | (steps >= c.episode_steps)
            now = np.where(~finite, NONFINITE, np.where(ended, TERMINATED, np.where(late, TIMEOUT, ALIVE)))
            reason = np.where(live, now, reason)
            recorded = moved.seen[:, :width].cpu().numpy().astype("<f4")
            for i in np.flatnonzero(live):
                sha[i].update(recorded[i].tobytes())
            obs, done = moved.seen, moved.terminated | moved.truncated
            if bool(done.any()):  # whatever comes after their end does not count
                rows = done.nonzero()[:, 0]
                obs = obs.clone()
                obs[rows] = self.source.restart(rows)
        table = self._identify(name) | self._metrics(reason, steps, total)
        table["states_digest"] = np.array([s.hexdigest()[:16] for s in sha])
        table["trace"] = np.array([""] * n)
        return PanelResult(table, {}, time.perf_counter() - begun, simulated)

    def evaluate_async(self, policy: Policy, watch: Watch = unwatched) -> PendingResult:
        """Runs the panel as `PanelEvaluator` does; all is known at once here."""
        counter = PassCounter(watch, 1)
        counter.begin(f"{Column().name} on {self.engine}")
        result = self.run(policy, counter=counter)
        return PendingResult(result.success, lambda: result)

    def _metrics(self, reason: np.ndarray, steps: np.ndarray, total: np.ndarray) -> dict[str, np.ndarray]:
        """Returns a row per episode. `fall` is an episode that did not last."""
        c, n = self.task.contract, len(steps)
        wanted, fall = c.success.return_at_least, reason != TIMEOUT
        success = ~fall if wanted is None else (total >= wanted) & (reason != NONFINITE)
        label = np.where(fall, np.array(REASONS)[reason], "low_return")
        rows = {k: np.full(n, np.nan) for k in NOT_TOLD}
        if c.step_s is not None:
            rows["lived_s"] = steps * c.step_s
        return rows | {
            "success": success,
            "fall": fall,
            "reason": np.array(REASONS)[reason],
            "steps": steps,
            "return": total,
            "return.reward": total,
            "recovered": np.ones(n, bool),
            "recoveries_s": np.array([""] * n),
            "label": np.where(success, "", label),
            "cause": np.array([""] * n),
        }

    def _identify(self, policy: str) -> dict[str, np.ndarray]:
        s, n, seeds = self.scenarios, len(self.scenarios), self.panel.seeds
        family = np.array([x.family for x in s])
        shown = Column().name if policy == TRAINED else f"baseline:{policy}"
        return {
            "column": np.array([shown] * n),
            "perturbation": np.array([""] * n),
            "strength": np.zeros(n),
            "engine": np.array([self.engine] * n),
            "device": np.array([self.device.type] * n),
            "policy": np.array([policy] * n),
            "scenario": family,
            "key": np.array([f"{int(k):016x}" for k in seeds.episode_key(family, 0)]),
            "seed": np.array([x.seed for x in s]),
            "family": family,
            "member": np.zeros(n, np.int64),
            "half": np.array([x.half for x in s]),
            "terrain": np.array([""] * n),
            "level": np.zeros(n, np.int64),
            "stratum": np.array(["seed any"] * n),
        }

    def close(self) -> None:
        self.source.close()


def external_baseline(name: str, task: ExternalTask, panel: SeedPanel) -> Policy:
    if name == "zero":
        return HoldPose(task.contract.action.size)
    if name == "random":
        return RandomActions(task.contract.action.size, panel.seeds)
    raise SurefootError(
        f"There is no baseline '{name}' outside; use baseline:{' or baseline:'.join(BASELINES)}."
    )


def evaluate_seeds(
    task: ExternalTask,
    panel: SeedPanel,
    half: Half,
    policy: Policy,
    *,
    baselines: Sequence[str] = BASELINES,
    name: str = TRAINED,
    device: str = "cpu",
    watch: Watch = unwatched,
) -> tuple[PanelResult, list[PanelResult]]:
    """Returns the whole table as one result, and the passes it is made of; the first is the headline.

    Both halves are run one after the other, each as it is alone: simulators that share one generator would
    mix them.
    """
    halves: list[Half] = ["selection", "confirmation"] if half == "all" else [half]
    policies = {name: policy} | {b: external_baseline(b, task, panel) for b in baselines if b != name}
    parts: dict[str, list[PanelResult]] = {}
    counter = PassCounter(watch, len(halves) * len(policies))
    for one in halves:
        evaluator = ExternalEvaluator(task, panel, one, device)
        try:
            for who, acts in policies.items():
                counter.begin(f"{Column().name if who == name else who} on {evaluator.engine}")
                parts.setdefault(who, []).append(evaluator.run(acts, name=who, counter=counter))
        finally:
            evaluator.close()
    passes = [concatenate(p) for p in parts.values()]
    return concatenate(passes), passes
