"""One iteration after the other: collect, learn, and the statistics of both on their way to the ledger.

On the CPU an iteration is done when `run` returns. Where environments are asynchronous it has only been put
in the queue: the rollout with its values and advantages is one CUDA graph, the update another, and the
statistics are copied behind them into pinned memory, of which there are two sets. So the host can write down
one iteration while the device works on the next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup
from surefoot.contract import Recipe
from surefoot.env import Actor, EpisodeStats, Finals, TrainingEnv
from surefoot.learners import Learner, PpoMetrics
from surefoot.rollout import MemoryBlock, RolloutBlock, gae
from surefoot.training.batch import block_statistics
from surefoot.training.honesty import honesty_figures


class Collector(Actor, Protocol):
    """An actor that also knows values: what collection needs of a learner."""

    def value(self, critic: Tensor) -> Tensor:
        """Returns values [B] of critic observations [B, C]."""


class Collected(Protocol):
    """What collection needs of environments; `TrainingEnv` says what it is."""

    @property
    def critic(self) -> Tensor: ...

    def rollout(self, actor: Actor, block: RolloutBlock) -> tuple[float, Finals]: ...


def recalled(env: Collected, learner: Learner, block: MemoryBlock) -> tuple[float, Finals]:
    """Takes the steps of a rollout under a policy that remembers, with the memory that the last one left."""
    recall = learner.recall(block)
    assert recall is not None
    recall.begin()
    done = env.rollout(recall, block)
    recall.end()
    return done


@torch.inference_mode()
def collect(env: Collected, learner: Collector, block: RolloutBlock, gamma: float, lam: float) -> float:
    """Fills `block`; returns the seconds spent in inference (policy, values, advantages)."""
    if isinstance(block, MemoryBlock):
        inference, finals = recalled(env, cast(Learner, learner), block)
    else:
        inference, finals = env.rollout(learner, block)
    begun = time.perf_counter()
    horizon, n = block.reward.shape
    step, row, critic = finals
    seen = torch.cat([block.critic.flatten(0, 1), env.critic, critic])
    values = learner.value(seen)
    block.value[:] = values[: horizon * n].view(horizon, n)
    block.next_value[:-1] = block.value[1:]
    block.next_value[-1] = values[horizon * n : (horizon + 1) * n]
    # Where an episode ran out of time, what followed is its own last observation.
    followed = block.next_value[step.clamp_min(0), row]
    block.next_value[step.clamp_min(0), row] = torch.where(step >= 0, values[(horizon + 1) * n :], followed)
    b = block
    gae(b.reward, b.value, b.next_value, b.terminated, b.truncated, gamma, lam, out=b.advantage)
    torch.add(b.advantage, b.value, out=b.returns)
    return inference + time.perf_counter() - begun


@dataclass
class IterationResult:
    """What one iteration left behind."""

    number: int
    host: dict[str, Tensor]
    """Copies of statistics; complete once `wait` has returned."""
    seconds: dict[str, float | None] = field(default_factory=dict)
    events: tuple[torch.cuda.Event, ...] = ()

    def wait(self) -> None:
        """Returns when `host` and `seconds` are complete."""
        if self.events:
            self.events[-1].synchronize()
            start, rolled, learned, _ = self.events
            self.seconds = {
                "environment": start.elapsed_time(rolled) / 1e3,
                "inference": None,  # part of the rollout's graph, not measured apart
                "learning": rolled.elapsed_time(learned) / 1e3,
            }
            self.events = ()


class TrainingIteration:
    """The loop's body, for one set of environments, one learner and one block. In the order in which they are
    called: `prepare` once, `run` (collect, learn, statistics), then `metrics` and `episode_stats` of an
    iteration that was waited for, `close` at the end."""

    def __init__(
        self,
        env: TrainingEnv,
        learner: Learner,
        block: RolloutBlock,
        recipe: Recipe,
        *,
        strata: tuple[int, ...],
        action_clip: float,
        group: ProcessGroup = SINGLE,
    ) -> None:
        self.env, self.learner, self.block, self.recipe = env, learner, block, recipe
        self._strata, self._clip, self._group = strata, action_clip, group
        self._recall = learner.recall(block)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._statistics = torch.zeros(0)
        self._pinned: list[dict[str, Tensor]] = [{}, {}]
        self.overlaps = env.asynchronous
        """Whether `run` returns before the work is done."""

    def prepare(self) -> None:
        """Captures the graphs; what has to run once for that is undone."""
        if not self.overlaps or self._graph is not None:
            return
        before = self.snapshot()
        self._collect()
        self.restore(before)
        torch.cuda.synchronize(self.env.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=self._group.capture_mode):
            self._collect()
        self._graph = graph
        self.learner.bind(self.block).prepare()

    def run(self, number: int, with_batch_stats: bool = False) -> IterationResult:
        """Runs iteration `number`; with `with_batch_stats` its statistics have those of batch honesty too."""
        start_age = self.env.age() if with_batch_stats else None
        return self._enqueue(number, start_age) if self.overlaps else self._run(number, start_age)

    def _run(self, number: int, start_age: Tensor | None) -> IterationResult:
        begun, environment = time.perf_counter(), self._environment_seconds()
        inference = self._collect()
        collected = time.perf_counter()
        self.learner.update(self.block)
        if self.block.reward.is_cuda:  # where environments are on the host, they wait for it anyway
            torch.cuda.synchronize(self.block.reward.device)
        ended = time.perf_counter()
        spent = self._environment_seconds() - environment
        seconds: dict[str, float | None] = {
            "environment": spent,
            "inference": max(collected - begun - spent, inference),
            "learning": ended - collected,
        }
        return IterationResult(number, self._outputs(start_age), seconds)

    def _enqueue(self, number: int, start_age: Tensor | None) -> IterationResult:
        self.prepare()
        assert self._graph is not None
        events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(4))  # type: ignore[no-untyped-call]
        events[0].record()
        self._graph.replay()
        events[1].record()
        self.learner.update(self.block)
        events[2].record()
        pinned = self._pinned[number % 2]
        for name, tensor in self._outputs(start_age).items():
            if name not in pinned:
                pinned[name] = torch.empty_like(tensor, device="cpu", pin_memory=True)
            pinned[name].copy_(tensor, non_blocking=True)
        events[3].record()
        host = {k: v for k, v in pinned.items() if k != "honesty" or start_age is not None}
        return IterationResult(number, host, events=events)

    def _collect(self) -> float:
        """Fills the block and takes its statistics; returns the seconds of inference."""
        inference = collect(self.env, self.learner, self.block, self.recipe.gamma, self.recipe.lam)
        self._statistics = block_statistics(
            self.block, len(self.env.reasons), math.prod(self._strata), self._clip, self._group
        )
        return inference

    def _environment_seconds(self) -> float:
        return self.env.seconds + self.env.physics_seconds

    def _outputs(self, start_age: Tensor | None) -> dict[str, Tensor]:
        """Returns what the ledger is written from, by name."""
        out = {"figures": self._statistics, "record": self.learner.record, **self.env.stats_tensors()}
        if start_age is not None:
            block, age, content = self._gathered(start_age)
            out["honesty"] = honesty_figures(
                block, age, content, families=self.recipe.families, strata=self._strata
            )
        return out

    def _gathered(self, start_age: Tensor) -> tuple[RolloutBlock, Tensor, Tensor]:
        """Returns what batch honesty looks at: block, ages and contents of all processes' environments."""
        gather = self._group.gather
        looked_at = ("terminated", "truncated", "stratum", "returns", "advantage")
        block = replace(self.block, **{k: gather(getattr(self.block, k), 1) for k in looked_at})
        return block, gather(start_age), gather(self.env.content())

    def snapshot(self) -> dict[str, Tensor]:
        """Returns copies of all that the next rollout depends on besides the learner: the environments, and
        what the policy remembers of them; a row per environment, as environments' own snapshots."""
        return self.env.snapshot() | ({} if self._recall is None else self._recall.snapshot())

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Continues, to the bit, from where `snapshot` was taken."""
        self.env.restore(snapshot)
        if self._recall is not None:
            self._recall.restore(snapshot)

    def metrics(self, result: IterationResult) -> PpoMetrics:
        """Returns the learner's metrics of an iteration that has been waited for."""
        return self.learner.metrics(result.host["record"])

    def episode_stats(self, result: IterationResult) -> EpisodeStats:
        """Returns the episodes of an iteration that has been waited for."""
        return self.env.episode_stats(result.host)

    def close(self) -> None:
        """Frees the graphs: NCCL does not end while one of them has calls of its."""
        self._graph = None
        self.learner.unbind()
