"""Environments whose rollouts never leave the device: `VecEnv` compiled around the stride engine.

A control step is the policy's matrix products and six kernels (act, physics, task, reset, look, observe). On
CUDA the T steps of a rollout are one graph and nothing in it waits for the host; on the CPU threads take one
share of the environments after the other through all six, and meet once per step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from surefoot.compiler import Target
from surefoot.compute.warp import Launch
from surefoot.engines import Parameters
from surefoot.engines.stride import WIDTH, StrideEngine
from surefoot.env.base import Actor, EpisodeStats, Finals
from surefoot.env.compiled.kernels import RECORD, Sources, generate
from surefoot.env.compiled.memory import Memory
from surefoot.env.compiled.warp_kernels import make_act, make_observe, make_task
from surefoot.env.scenarios import Script
from surefoot.env.vec_env import VecEnv
from surefoot.rollout import RolloutBlock
from surefoot.tasks import TaskState

KEPT_FAILURES = 256
"""States that engines failed from are kept for replay, at most this many per rollout; all are counted."""
BLOCK = 64
NO_NOISE = -50.0
"""Logarithm of a standard deviation too small to change an action: the caller has already explored."""


@lru_cache(maxsize=32)
def _kernels(sources: Sources) -> tuple[Any, Any, Any]:
    return make_act(sources.act), make_task(sources.task), make_observe(sources.observe)


class Compiled:
    """Holds the kernels of `plain`, whose engine and memory they take over."""

    def __init__(self, plain: VecEnv) -> None:
        assert isinstance(plain.engine, StrideEngine)
        self.plain, self.engine = plain, plain.engine
        self.num_envs, self.device = plain.num_envs, plain.device
        cuda = self.device.type == "cuda"
        self.memory = Memory(plain, self.engine.padded)
        self._width = 1 if cuda else WIDTH
        target = Target("solo" if cuda else "wide", self._width, cuda)
        self._kernels = _kernels(generate(plain, self.memory, target))
        self.obs, self.critic = plain.obs.clone(), plain.critic.clone()

    def _launch(self, kernel: Any, share: tuple[int, int], inputs: list[Any]) -> Launch:
        """A kernel on a share of the environments."""
        first, last = share[0] // self._width, share[1] // self._width
        root = wp.uint32(self.plain.sampler.seeds.root)
        plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
        return Launch(kernel, last - first, [first, self.num_envs, root, *plain], self.device, BLOCK)

    def _run(self, launches: list[list[Launch]]) -> None:
        """Runs one list of launches per share."""
        self.engine.team([partial(_in_order, share) for share in launches])


class CompiledEnv(Compiled):
    """A `TrainingEnv` that does what `plain` does, in kernels."""

    def __init__(self, plain: VecEnv) -> None:
        super().__init__(plain)
        self.sampler, self.contract = plain.sampler, plain.contract
        self.reward_names, self.reasons = plain.reward_names, plain.reasons
        self.seconds = 0.0
        self._rough = plain.height_field is not None
        self._counts = torch.zeros(2, dtype=torch.int32, device=self.device)
        width = 3 + self.engine.buffers.state.count + self.engine.buffers.joints
        self._failed = torch.zeros(KEPT_FAILURES, width, device=self.device)
        self._final_critic = torch.zeros_like(self.critic)
        self._final_step = torch.full((self.num_envs,), -1, dtype=torch.int32, device=self.device)
        self._everyone = torch.arange(self.num_envs, device=self.device)
        self._no_noise = torch.full((self.contract.action.size,), NO_NOISE, device=self.device)
        self._records = torch.zeros(0, len(RECORD) + len(self.reward_names), device=self.device)
        self.launches: list[list[list[Launch]]] = []
        """The launches by step and share of the environments: act, physics, task, reset, look, observe."""
        self._bound: tuple[Any, ...] = ()
        self._numbers = plain.sampler.numbers.cpu().numpy()
        body = plain.parameters
        self._bodies = {k: getattr(body, k).cpu().numpy() for k in ("friction", "payload_kg")}  # for life

    # ---- rollout

    @property
    def asynchronous(self) -> bool:
        """Whether rollouts never wait for the host: on CUDA."""
        return self.device.type == "cuda"

    def rollout(self, actor: Actor, block: RolloutBlock) -> tuple[float, Finals]:
        """Does what `TrainingEnv.rollout` says. On CUDA all of it is only put in the queue."""
        inference = 0.0
        self._begin(actor.log_std, block)
        for t in range(len(block.reward)):
            started = time.perf_counter()
            block.mean[t] = actor.mean(block.obs[t])
            inference += time.perf_counter() - started
            self._advance(t)
        return inference, Finals(self._final_step.long(), self._everyone, self._final_critic)

    def step_into(self, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        """Does what `TrainingEnv.step_into` says: actions are means of an exploration of size NO_NOISE."""
        if t == 0:
            self._begin(self._no_noise, block)
        block.mean[t] = action
        self._advance(t)
        return self._final_critic

    def _begin(self, log_std: Tensor, block: RolloutBlock) -> None:
        """Begins a rollout into `block`, of which `_advance` takes one step after the other."""
        begun = time.perf_counter()
        self.bind(log_std, block)
        self._counts.zero_()
        self._final_step.fill_(-1)
        block.obs[0], block.critic[0] = self.obs, self.critic
        self.seconds += time.perf_counter() - begun

    def _advance(self, t: int) -> None:
        """Takes step `t` of the rollout that was begun, with the mean actions that its block holds."""
        begun = time.perf_counter()
        self._run(self.launches[t])
        self.seconds += time.perf_counter() - begun

    def bind(self, log_std: Tensor, block: RolloutBlock) -> None:
        """Records every launch of a rollout into this block; repeating them costs a few microseconds."""
        tensors = (block.obs, block.mean, log_std)
        if self._bound and all(a is b for a, b in zip(self._bound, tensors, strict=True)):
            return
        self._bound = tensors
        horizon, n, e = len(block.reward), self.num_envs, self.engine
        if horizon >= self.sampler.episode_steps:
            raise ValueError("a rollout must be shorter than an episode")
        self._records = torch.zeros(horizon * n, self._records.shape[1], device=self.device)
        act, task, observe = self._kernels
        record, m, a = self._launch, self.memory, self.engine.arrays
        finals = [self._final_critic, self._final_step, self._counts, self._records, self._failed]
        rewards = ("reward", "terms", "terminated", "truncated", "reason", "stratum")
        self.launches = []
        for t in range(horizon):
            last = t == horizon - 1
            obs, critic = (self.obs, self.critic) if last else (block.obs[t + 1], block.critic[t + 1])
            policy = [block.mean[t], log_std, block.action[t], block.log_prob[t]]
            outcome = [_bytes(getattr(block, k)[t]) for k in rewards]
            acting = [m.real, m.whole, a.state, a.targets, *policy]
            judging = [t, m.real, m.whole, a.state, a.outputs, a.flags, a.targets, a.staging]
            judging += [m.ground, a.mask, *outcome, *finals]
            seeing = [m.real, m.whole, a.state, a.outputs, a.flags, m.ground, obs, critic]
            self.launches.append(
                [
                    [
                        record(act, share, acting),
                        e.step_launches[0][k],
                        record(task, share, judging),
                        e.reset_launches[k],
                        e.step_launches[1][k],
                        record(observe, share, seeing),
                    ]
                    for k, share in enumerate(e.shares)
                ]
            )

    # ---- what a trainer asks for

    @property
    def script(self) -> Script:
        self.memory.give(self.plain)
        return self.plain.script

    @property
    def state(self) -> TaskState:
        self.memory.give(self.plain)
        return self.plain.state

    @property
    def parameters(self) -> Parameters:
        self.memory.give(self.plain)
        return self.plain.parameters

    @property
    def episode_steps(self) -> int:
        """Control steps after which an episode is truncated."""
        return self.sampler.episode_steps

    @property
    def physics_seconds(self) -> float:
        """Wall-clock in the engine's own functions; a rollout calls none of them."""
        return self.engine.seconds

    def age(self) -> Tensor:
        """Returns [N], the control steps that each episode has lasted; a copy."""
        return self.memory.integers("age").long()

    def content(self) -> Tensor:
        """Returns [N, K], what was drawn for the episodes that run now."""
        self.memory.give(self.plain)
        return self.plain.content()

    def stats_tensors(self) -> dict[str, Tensor]:
        """Returns what `episode_stats` needs, as it stands after a rollout and until the next."""
        out = {"counts": self._counts, "records": self._records, "failed": self._failed}
        if self._rough:
            out["occupancy"] = self.plain.log.occupancy(self.memory.read("script.tile"))
        return out

    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        """Returns what happened in the last rollout: episodes in the order of steps and environments."""
        count, failed = host["counts"].tolist()
        rows = host["records"][:count].numpy()
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        named = {name: rows[:, k] for k, name in enumerate(RECORD)}
        began = np.bincount(named["next_stratum"].astype(np.int64), minlength=self.sampler.strata)
        kept = host["failed"][: min(failed, KEPT_FAILURES)].numpy()
        return EpisodeStats(
            [self._ended(named, rows[:, len(RECORD) :])] if count else [],
            [self._failures(kept)] if failed else [],
            began + self.plain.log.take_reset_counts(),
            self.plain.log.by_class(host["occupancy"]) if self._rough else {},
        )

    def _ended(self, named: Mapping[str, np.ndarray], returns: np.ndarray) -> dict[str, np.ndarray]:
        env, seeds = named["env"].astype(np.int64), self.sampler.seeds
        number = self._numbers[env]
        out = {
            "family": seeds.family_of(number),
            "member": seeds.member_of(number),
            "episode": named["episode"].astype(np.int64),
            "stratum": named["stratum"].astype(np.int64),
            "level": named["level"].astype(np.int64),
            "steps": named["steps"].astype(np.int64),
            "reason": named["reason"].astype(np.uint8),
            **{k: v[env] for k, v in self._bodies.items()},
            "delay_s": named["delay_s"].copy(),
            "return": returns.sum(1),
        }
        out |= {f"return.{n}": returns[:, i].copy() for i, n in enumerate(self.reward_names)}
        if self._rough:
            progress = np.stack([named["walked_m"], named["commanded_m"]], 1)
            out |= self.plain.log.crossed(named["tile"].astype(np.int64), progress)
        return out

    def _failures(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
        seeds, state = self.sampler.seeds, self.engine.buffers.state.count
        env = self._numbers[rows[:, 0].astype(np.int64)]
        return {
            "state": rows[:, 3 : 3 + state],
            "control": rows[:, 3 + state :],
            "family": seeds.family_of(env),
            "member": seeds.member_of(env),
            "episode": rows[:, 1].astype(np.int64),
            "age": rows[:, 2].astype(np.int64),
        }

    # ---- exact resume

    def snapshot(self) -> dict[str, Tensor]:
        self.memory.give(self.plain)
        self.plain.obs, self.plain.critic = self.obs, self.critic
        return self.plain.snapshot()

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        self.plain.restore(snapshot)
        self.memory.take(self.plain)
        self.obs.copy_(self.plain.obs)
        self.critic.copy_(self.plain.critic)

    def close(self) -> None:
        self.plain.close()


def _in_order(launches: list[Launch]) -> None:
    for launch in launches:
        launch()


def _bytes(x: Tensor) -> Tensor:
    return x.view(torch.uint8) if x.dtype == torch.bool else x
