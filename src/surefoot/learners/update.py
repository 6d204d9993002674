"""One PPO update on one rollout block, enqueued whole: nothing in it waits for the device.

A minibatch is a gather, the matrix products of gradient.py around a loss kernel, and a step. All of them read
which minibatch it is from a clock on the device, so they are recorded once, and on CUDA the whole update is
one graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from surefoot.contract import Recipe
from surefoot.cores import cores
from surefoot.launch import Launch
from surefoot.learners import kernels
from surefoot.learners.gradient import Tape, Weights, views
from surefoot.learners.networks import ActorCritic
from surefoot.learners.normalizer import EPSILON, Normalizer
from surefoot.learners.symmetry import Reflection, Symmetry
from surefoot.rollout import RolloutBlock

CHUNK = 1024
"""Parameters that a CPU works on at a time."""

ALIGN = 8
"""Networks' inputs are padded to a multiple of this on CUDA: 16 bytes of the smallest type."""

LANES = 32
"""CUDA threads that copy a sample together, so that neighbours read neighbouring numbers."""


@dataclass
class LearnerState:
    """All that an update changes, in the same memory for life."""

    networks: ActorCritic
    parameters: Tensor  # [P] of which the networks' are views, log_std first
    exp_avg: Tensor  # [P] Adam's
    exp_avg_sq: Tensor  # [P] Adam's
    scalars: Tensor  # float64 [2]: learning rate, Adam's steps
    clock: Tensor  # int32 [2]: updates done, minibatches done of the one under way
    record: Tensor  # float64 [steps + 1, columns]: a row per minibatch; the last one is of the whole update
    obs_normalizer: Normalizer
    critic_normalizer: Normalizer

    def tensors(self) -> list[Tensor]:
        own = [self.parameters, self.exp_avg, self.exp_avg_sq, self.scalars, self.clock, self.record]
        return [*own, *self.obs_normalizer.tensors().values(), *self.critic_normalizer.tensors().values()]


@contextmanager
def precision(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Matrix products in the recipe's precision; act and learn in the same one, or ratios do not begin at
    1."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if recipe.precision == "tf32" else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


class Shard:
    """A thread's share of every minibatch: samples `first` to `last`, and where their gradient goes."""

    def __init__(self, parent: PpoUpdate, first: int, last: int, gradient: Tensor) -> None:
        nets = parent.state.networks
        parts = views(gradient, [p.shape for name, p in nets.named_parameters() if name != "log_std"])
        actor = len(list(nets.actor.parameters()))
        self._obs, self._critic_obs = parent.obs[first:last], parent.critic_obs[first:last]
        self.actor = Tape(parent.actor, last - first, parts[:actor])
        self.critic = Tape(parent.critic, last - first, parts[actor:])
        self._gather = parent.gather_launch(first, last - first)
        self._loss = parent.loss_launch(first, self.actor, self.critic)

    def run(self) -> None:
        self._gather()
        self.actor.forward(self._obs)
        self.critic.forward(self._critic_obs)
        self._loss()
        self.actor.backward()
        self.critic.backward()


class PpoUpdate:
    """Buffers and recorded launches for one block, whose tensors are read anew by every `run`."""

    def __init__(
        self,
        recipe: Recipe,
        symmetry: Symmetry | None,
        root: int,
        state: LearnerState,
        block: RolloutBlock,
        shards: int | None = None,
        align: int | None = None,
    ) -> None:
        self.recipe, self.symmetry, self.state, self.block = recipe, symmetry, state, block
        device = self.device = block.obs.device
        total = block.reward.numel()
        if total % recipe.minibatches:
            raise ValueError(f"{total} samples cannot be split into {recipe.minibatches} equal minibatches")
        size = self.size = total // recipe.minibatches
        self._bits = max(2, (total - 1).bit_length())
        nets = state.networks
        obs, critic, act = block.obs.shape[-1], block.critic.shape[-1], block.action.shape[-1]
        dtype = torch.bfloat16 if recipe.precision == "bf16" else torch.float32
        align = align or (ALIGN if device.type == "cuda" else 1)
        self.actor, self.critic = Weights(nets.actor, dtype, align), Weights(nets.critic, dtype, align)

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self._keys = empty(recipe.epochs, 8, dtype=torch.int32)
        self.pick = empty(size, dtype=torch.int32)  # twice the sample's row, plus 1 if it is mirrored
        self.obs, self.critic_obs = empty(size, self.actor.inputs), empty(size, self.critic.inputs)
        self.found = empty(size, kernels.FOUND + act)
        self._reflect = [
            _table(s, width, device)
            for s, width in zip(
                (symmetry.observation, symmetry.critic, symmetry.action) if symmetry else (None,) * 3,
                (obs, critic, act),
                strict=True,
            )
        ]
        self._scaling = [torch.stack([empty(w), empty(w) + 1]) for w in (obs, critic)]
        self._spread, self._first_error, self._norm = empty(2), empty(1)[0], empty(1)
        self._log_std = state.parameters[:act]
        self._old_log_std, self._old_std, self._inverse_std = empty(act), empty(act), empty(act)
        self._control = empty(4)
        # Sums of `found`, which end with the gradient by log_std, and after them that of the weights.
        sums = empty(kernels.FOUND + len(state.parameters))
        self._totals, self.gradient = sums[: kernels.FOUND + act], sums[kernels.FOUND :]
        self._weight_gradient = self.gradient[act:]
        count = min(shards or (cores() if device.type == "cpu" else 1), size)
        own = count == 1 and dtype == torch.float32
        self._parts = (
            self._weight_gradient[None] if own else empty(count, len(self._weight_gradient)).to(dtype)
        )
        edges = [round(k * size / count) for k in range(count + 1)]
        self._shards = [Shard(self, a, b, g) for (a, b), g in zip(pairwise(edges), self._parts, strict=True)]
        self._workers = (
            ThreadPoolExecutor(count, initializer=torch.set_flush_denormal, initargs=(True,))
            if count > 1
            else None
        )
        self._draw_keys = Launch(kernels.draw_keys, recipe.epochs, [root, state.clock, self._keys], device)
        self._decide, self._adam = self._step_launches()
        self._graph: torch.cuda.CUDAGraph | None = None

    # ---- launches

    def gather_launch(self, first: int, rows: int) -> Launch:
        lanes = LANES if self.device.type == "cuda" else 1
        mirror = int(self.symmetry is not None)
        b, (o, c, _) = self.block, self._reflect
        sources = [self.state.clock, self._keys, b.flat("obs"), b.flat("critic")]
        tables = [*o, self._scaling[0], *c, self._scaling[1]]
        numbers = [first, self.size, self.recipe.minibatches, self._bits, lanes, mirror]
        out = [self.pick, self.obs, self.critic_obs]
        return Launch(kernels.gather, rows * lanes, [*numbers, *sources, *tables, *out], self.device)

    def loss_launch(self, first: int, actor: Tape, critic: Tape) -> Launch:
        r, b = self.recipe, self.block
        value_clip = -1.0 if r.value_clip is None else r.value_clip
        numbers = [first, float(self.size), r.clip, value_clip, r.value_coefficient, r.entropy]
        names = ("action", "mean", "log_prob", "value", "returns", "advantage")
        inputs = [self.pick, actor.result, critic.result, *(b.flat(k) for k in names), self._spread]
        policy = [self._log_std, self._inverse_std, self._old_log_std, self._old_std]
        out = [actor.by_result, critic.by_result, self.found]
        return Launch(
            kernels.loss,
            len(actor.result),
            [*numbers, *inputs, *self._reflect[2], *policy, *out],
            self.device,
        )

    def _step_launches(self) -> tuple[Launch, Launch]:
        r, s = self.recipe, self.state
        target = -1.0 if r.target_kl is None else r.target_kl
        limits = [r.epochs * r.minibatches, target, r.min_learning_rate, r.max_learning_rate, r.max_grad_norm]
        read = [self._totals, self._norm, self._inverse_std]
        written = [s.clock, s.scalars, self._control, s.record]
        decide = Launch(kernels.decide, 1, [*limits, *read, *written], self.device)
        bounds = [r.adam_eps, math.log(r.min_std), math.log(r.max_std)]
        moved = [self.gradient, s.exp_avg, s.exp_avg_sq, s.parameters, self._inverse_std]
        count = CHUNK if self.device.type == "cpu" else 1
        threads = -(-len(s.parameters) // count)
        return decide, Launch(kernels.adam, threads, [count, *bounds, self._control, *moved], self.device)

    # ---- running

    def run(self) -> None:
        self.prepare()
        if self._graph is None:
            self.enqueue()
        else:
            self._graph.replay()

    def prepare(self) -> None:
        """On CUDA, captures the update; `run` does so otherwise."""
        if self.device.type == "cuda" and self._graph is None:
            self._graph = self._capture()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """The update as a graph, after one on a side stream that loads and chooses kernels and is undone."""
        before = [t.clone() for t in self.state.tensors()]
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            self.enqueue()
            for mine, old in zip(self.state.tensors(), before, strict=True):
                mine.copy_(old)
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.enqueue()
        return graph

    @torch.no_grad()
    def enqueue(self) -> None:
        """All epochs and minibatches; then the normalisers take the block's observations in."""
        with precision(self.recipe, self.device):
            self.begin()
            for step in range(self.recipe.epochs * self.recipe.minibatches):
                self.differentiate()
                if step == 0:
                    torch.amax(self.found[:, kernels.RATIO_ERROR], 0, out=self._first_error)
                self.step()
            self._finish()

    def begin(self) -> None:
        """What stays as it is for the whole update."""
        self._draw_keys()
        normalizers = (self.state.obs_normalizer, self.state.critic_normalizer)
        for scaling, n in zip(self._scaling, normalizers, strict=True):
            if self.recipe.normalise:
                scaling[0].copy_(n.mean)
                scaling[1].copy_(1 / (n.var.sqrt() + EPSILON))
        torch.stack(torch.std_mean(self.block.advantage), out=self._spread)
        self._old_log_std.copy_(self._log_std)
        torch.exp(self._log_std, out=self._old_std)
        torch.exp(-self._log_std, out=self._inverse_std)

    def differentiate(self) -> None:
        """The gradient of the clock's minibatch, and what was found on the way.

        On a CPU by a thread per core, each with its own rows: they meet once per minibatch. OpenMP inside the
        operations meets some sixty times, and each time waits for whichever core the machine has just taken
        away: ten times slower updates on a busy machine, a quarter faster ones on an idle one (measured).
        """
        self.actor.refresh()
        self.critic.refresh()
        if self._workers is None:
            for shard in self._shards:
                shard.run()
        else:
            list(self._workers.map(Shard.run, self._shards))
        if len(self._parts) > 1:  # in the order of the shards, whichever thread was first
            torch.sum(self._parts, 0, dtype=torch.float32, out=self._weight_gradient)
        elif self._parts.dtype != torch.float32:
            self._weight_gradient.copy_(self._parts[0])
        torch.sum(self.found, 0, out=self._totals)

    def step(self) -> None:
        """Adapts the learning rate, clips the gradient and follows it, unless it is not finite."""
        torch.linalg.vector_norm(self.gradient, dim=0, keepdim=True, out=self._norm)
        self._decide()
        self._adam()

    def _finish(self) -> None:
        s, b = self.state, self.block
        if self.recipe.normalise:
            s.obs_normalizer.update(b.flat("obs"))
            s.critic_normalizer.update(b.flat("critic"))
        unexplained = (b.returns - b.value).var() / b.returns.var().clamp_min(1e-12)
        std = self._log_std.exp().mean()
        last = torch.stack([unexplained, self._log_std.sum(), self._first_error, std])
        s.record[-1, : len(last)] = last


def _table(reflection: Reflection | None, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Indices and signs [2, width] of a plain sample and of its mirror image."""
    index = torch.arange(width, dtype=torch.int32, device=device)
    sign = torch.ones(width, device=device)
    if reflection is None:
        return torch.stack([index, index]), torch.stack([sign, sign])
    return torch.stack([index, reflection.index.to(torch.int32)]), torch.stack([sign, reflection.sign])
