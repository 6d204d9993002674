"""What both training benchmarks share: the trainer's cycle by itself, stopwatches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from surefoot.env.compiled import CompiledEnv
from surefoot.learners import Ppo
from surefoot.policy.bundle import PolicyBundle
from surefoot.rollout import RolloutBlock, with_memory
from surefoot.training import collect
from surefoot.training.iteration import IterationResult, TrainingIteration
from surefoot.training.plan import Plan

Run = Callable[[], Any]


class Loop:
    """Environments, learner, block and cycle of a plan, as the trainer has them; `run` is one update with its
    figures. On CUDA it is only put in the queue."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.device = plan, torch.device(plan.device)
        r, c = plan.recipe, plan.task.contract
        env = plan.environments(range(r.envs))
        assert isinstance(env, CompiledEnv), f"{plan.task_name} runs uncompiled"
        self.env = env
        self.learner = Ppo(c, r, plan.mirror(self.device), plan.seeds, self.device)
        widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
        block = RolloutBlock.empty(r.horizon, r.envs, *widths, self.device)
        self.block = with_memory(block, r.remembers, self.learner.mirrors)
        strata, clip = c.strata.shape, c.action.clip
        self._cycle = TrainingIteration(env, self.learner, self.block, r, strata=strata, action_clip=clip)
        self._done = 0

    def collect(self) -> None:
        """Rollout, values and advantages, launch by launch."""
        collect(self.env, self.learner, self.block, self.plan.recipe.gamma, self.plan.recipe.lam)

    @torch.inference_mode()
    def rollout(self) -> None:
        """The part of `collect` before values and advantages."""
        self.env.rollout(self.learner, self.block)

    def update(self) -> None:
        self.learner.update(self.block)

    @torch.no_grad()
    def update_by_launches(self) -> None:
        """What `update` does, without its graph."""
        self.learner.bind(self.block).enqueue()

    def run(self) -> IterationResult:
        self._done += 1
        return self._cycle.run(self._done)

    def warm_up(self, updates: int = 2) -> None:
        """Compiles, chooses kernels and captures graphs; then everything stands where it stood before."""
        env, learner = self.env.snapshot(), self.learner.tensors()
        for _ in range(updates):
            self.run()
        self.env.restore(env)
        self.learner.load(learner)
        settle(self.device)

    def policy(self) -> PolicyBundle:
        return PolicyBundle(self.plan.policy_card(), self.learner.policy_tensors())

    def close(self) -> None:
        self.env.close()


def captured(run: Run, device: torch.device) -> Run:
    """`run` as a CUDA graph, after it has run once to load and choose kernels; on a CPU `run` itself."""
    if device.type != "cuda":
        return run
    run()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def settle(device: torch.device) -> None:
    """Waits until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Run, count: int, device: torch.device) -> float:
    """Wall-clock of `count` runs, from an idle device to an idle device."""
    settle(device)
    begun = time.perf_counter()
    for _ in range(count):
        run()
    settle(device)
    return time.perf_counter() - begun


def milliseconds(run: Run, count: int, rounds: int, device: torch.device) -> float:
    """Of one run: the median over rounds of `count` of them, on CUDA between two events in the stream."""
    times = []
    for _ in range(rounds):
        if device.type != "cuda":
            times.append(seconds(run, count, device) * 1e3 / count)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / count)
    return statistics.median(times)
