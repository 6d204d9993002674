"""One PPO update on one rollout block, enqueued whole: nothing in it waits for the device.

A minibatch is a gather, the matrix products of gradient.py around a loss kernel, and a step. All of them read
which minibatch it is from a clock on the device, so they are recorded once, and on CUDA the whole update is
one graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup, cores
from surefoot.compute.warp import Launch
from surefoot.contract import Recipe
from surefoot.learners.gradient import Tape, Weights
from surefoot.learners.kernels import (
    FOUND,
    GROUP,
    RATIO_ERROR,
    adam,
    decide,
    draw,
    draw_keys,
    gather,
    loss,
    sum_squares,
)
from surefoot.learners.kernels.windows import gather_windows
from surefoot.learners.networks import ActorCritic, Layout, tf32
from surefoot.learners.normalizer import Normalizer
from surefoot.learners.recurrent import NAMES, GruTape, Sequences
from surefoot.learners.symmetry import Reflection, Symmetry
from surefoot.rollout import MemoryBlock, RolloutBlock

CHUNK = 1024
"""Parameters that a CPU works on at a time."""

ALIGN = 8
"""Networks' inputs are padded to a multiple of this on CUDA: 16 bytes of the smallest type."""

PARTS = 256
"""Warps that add up the squares of the gradient on CUDA."""

SPARE = 8
"""There is room for a process' share of a minibatch up to this many standard deviations beyond its mean."""

LANES = 32
"""CUDA threads, a warp, that work on a sample or on a group of them together."""


@dataclass
class LearnerState:
    """Holds all that an update changes, in the same memory for life."""

    networks: ActorCritic
    layout: Layout
    parameters: Tensor  # [P] of which the networks' are views, in the order of the layout
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


def side_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


class Shard:
    """Does a thread's share of every minibatch: samples `first` to `last`, and where the gradient of the
    weights and the sums of their groups go."""

    def __init__(
        self,
        parent: PpoUpdate,
        drawn: tuple[int, int],
        rows: tuple[int, int],
        gradient: Tensor,
        sums: Tensor,
    ) -> None:
        """`drawn`: the places of all processes' minibatches that this thread draws."""
        first, last = rows
        layout, layers = parent.state.layout, parent.layers

        def tape(net: str, weights: Weights, x: Tensor) -> Tape:
            parts = [layout.view(gradient, f"{net}.{k}.weight") for k in layers]
            columns = [FOUND + layout.at(f"{net}.{k}.bias") for k in layers[:-1]]
            return Tape(weights, x[first:last], parts, sums, columns)

        self.actor = tape("actor", parent.actor, parent.obs)
        self.critic = tape("critic", parent.critic, parent.critic_obs)
        self._memory = parent.sequence_tape(self.actor, rows, gradient)
        self.draw = parent.draw_launch(drawn[0], drawn[1] - drawn[0])
        self._gather = parent.gather_launch(first, last - first)
        self._loss = parent.loss_launch(first, self.actor, self.critic, sums)
        self._side = side_stream(parent.device)

    def run(self) -> None:
        self._gather()
        self._side_by_side(self._act, self.critic.forward)
        self._loss()
        self._side_by_side(self._act_back, self.critic.backward)

    def _act(self) -> None:
        if self._memory is not None:
            self._memory.forward()
        self.actor.forward()

    def _act_back(self) -> None:
        self.actor.backward()
        if self._memory is not None:
            self._memory.backward(self.actor)

    def _side_by_side(self, one: Callable[[], None], other: Callable[[], None]) -> None:
        """Runs both; on CUDA the other one on a stream of its own, since neither fills the device alone."""
        if self._side is None:
            one()
            other()
            return
        here = torch.cuda.current_stream(self._side.device)
        self._side.wait_stream(here)
        with torch.cuda.stream(self._side):
            other()
        one()
        here.wait_stream(self._side)


class PpoUpdate:
    """Holds buffers and recorded launches for one block, whose tensors are read anew by every `run`."""

    def __init__(
        self,
        recipe: Recipe,
        symmetry: Symmetry | None,
        root: int,
        state: LearnerState,
        block: RolloutBlock,
        shards: int | None = None,
        group: ProcessGroup = SINGLE,
    ) -> None:
        self.recipe, self.symmetry, self.state, self.block = recipe, symmetry, state, block
        self._group = group
        device = self.device = block.obs.device
        total = block.reward.numel() * group.world
        if total % recipe.minibatches:
            raise ValueError(f"{total} samples cannot be split into {recipe.minibatches} equal minibatches")
        size = self.size = total // recipe.minibatches  # of a minibatch, whoever has its samples
        rows = self.rows = room(size, total, group.world)
        recurrent = isinstance(block, MemoryBlock) and recipe.remembers.kind == "gru"
        assert not recurrent or group.world == 1, "sequences are not shared out to processes"
        unit = self._unit = len(block.reward) if recurrent else 1  # samples that are drawn together
        self._bits = max(2, (total // unit - 1).bit_length())
        layout = state.layout
        obs, critic, act = block.obs.shape[-1], block.critic.shape[-1], block.action.shape[-1]
        dtype = torch.bfloat16 if recipe.precision == "bf16" else torch.float32
        self._flat = state.parameters.to(dtype)  # the very same, if it is of that type already
        self.layers = [k for k, m in enumerate(state.networks.actor) if isinstance(m, torch.nn.Linear)]
        self.actor, self.critic = (Weights(k, self.layers, layout, self._flat) for k in ("actor", "critic"))

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self._keys = empty(recipe.epochs, 8, dtype=torch.int32)
        # [minibatches of all epochs, size]: twice the sample's row, plus 1 if it is mirrored; first of all
        # processes' samples, then, if there are others, of this one's
        steps = recipe.epochs * recipe.minibatches
        self._drawn = self.picks = empty(steps, size // unit, dtype=torch.int32)
        if group.world > 1 or recurrent:
            self.picks = empty(steps, rows, dtype=torch.int32)
        envs = block.reward.shape[1]
        self._sequences = Sequences(unit, envs, state.clock, self.picks) if recurrent else None
        self._left_out = empty(1)[0]
        self.obs = empty(rows, self.actor.inputs, dtype=dtype)
        self.critic_obs = empty(rows, self.critic.inputs, dtype=dtype)
        self._reflect = [
            _table(s, width, device)
            for s, width in zip(
                (symmetry.observation, symmetry.critic, symmetry.action) if symmetry else (None,) * 3,
                (obs, critic, act),
                strict=True,
            )
        ]
        self._scaling = [torch.stack([empty(w), empty(w) + 1]) for w in (obs, critic)]
        self._spread, self._first_error = empty(2), empty(1)[0]
        self._log_std = state.parameters[:act]
        self._old_log_std, self._old_std, self._inverse_std = empty(act), empty(act), empty(act)
        self._control = empty(4)
        # The figures and after them the gradient, whose first part is added up together with the figures.
        sums = self._sums = empty(FOUND + layout.size)
        self._totals, self.gradient = sums[: FOUND + layout.matrices], sums[FOUND:]
        self._weight_gradient = self.gradient[layout.matrices :]
        count = min(shards or (cores() if device.type == "cpu" else 1), rows // unit)
        own = count == 1 and dtype == torch.float32
        self._parts = self.gradient[None] if own else empty(count, layout.size, dtype=dtype)
        drawn, own_rows = (
            list(pairwise(u * round(k * n / (u * count)) for k in range(count + 1)))
            for n, u in ((size // unit, 1), (rows, unit))
        )
        groups = [-(-(b - a) // GROUP) for a, b in own_rows]
        self._groups = empty(sum(groups), len(self._totals))
        self._ones = empty(sum(groups)) + 1
        group_sums = torch.split(self._groups, groups)
        self._shards = [Shard(self, *of) for of in zip(drawn, own_rows, self._parts, group_sums, strict=True)]
        self._workers = (
            ThreadPoolExecutor(count, initializer=torch.set_flush_denormal, initargs=(True,))
            if count > 1
            else None
        )
        self._draw_keys = Launch(draw_keys, recipe.epochs, [root, state.clock, self._keys], device)
        self._step = self._step_launches()
        self._graph: torch.cuda.CUDAGraph | None = None

    # ---- launches

    def draw_launch(self, first: int, rows: int) -> Launch:
        size = self._drawn.shape[1]
        numbers = [first, size, rows, self._bits, int(self.symmetry is not None)]
        return Launch(draw, len(self._drawn) * rows, [*numbers, self._keys, self._drawn], self.device)

    def gather_launch(self, first: int, rows: int) -> Launch:
        lanes = LANES if self.device.type == "cuda" else 1
        b, (o, c, _) = self.block, self._reflect
        rest = [b.flat("critic"), *o, self._scaling[0], *c, self._scaling[1], self.obs, self.critic_obs]
        which = [self.state.clock, self.picks]
        if isinstance(b, MemoryBlock) and self._sequences is None:
            numbers = [first, lanes, b.reward.shape[1], self.recipe.remembers.size]
            seen = [b.flat("earlier"), b.flat("since")]
            return Launch(gather_windows, rows * lanes, [*numbers, *which, *seen, *rest], self.device)
        return Launch(gather, rows * lanes, [first, lanes, *which, b.flat("obs"), *rest], self.device)

    def sequence_tape(self, actor: Tape, rows: tuple[int, int], gradient: Tensor) -> GruTape | None:
        """Returns who computes the states that `actor` reads in these rows; None where it reads none."""
        b, layout = self.block, self.state.layout
        if self._sequences is None or not isinstance(b, MemoryBlock):
            return None
        weights, parts = (
            {name: layout.view(flat, f"memory.{name}") for name in NAMES} for flat in (self._flat, gradient)
        )
        x, since, earlier = self.obs[slice(*rows)], b.flat("since"), b.flat("earlier")
        return GruTape(weights, parts, x, self._sequences, since, earlier, rows[0])

    def loss_launch(self, first: int, actor: Tape, critic: Tape, sums: Tensor) -> Launch:
        r, b = self.recipe, self.block
        value_clip = -1.0 if r.value_clip is None else r.value_clip
        lanes = LANES if self.device.type == "cuda" else 1
        outputs = [FOUND + self.state.layout.at(k) for k in self.state.layout.outputs]
        numbers = [lanes, *outputs, first, float(self.size), r.clip]
        numbers += [value_clip, r.value_coefficient, r.entropy]
        names = ("action", "mean", "log_prob", "value", "returns", "advantage")
        inputs = [self.state.clock, self.picks, actor.result, critic.result]
        inputs += [*(b.flat(k) for k in names), self._spread]
        policy = [self._log_std, self._inverse_std, self._old_log_std, self._old_std]
        out = [actor.by_result, critic.by_result, sums]
        return Launch(
            loss,
            len(sums) * lanes,
            [*numbers, *inputs, *self._reflect[2], *policy, *out],
            self.device,
        )

    def _step_launches(self) -> tuple[Launch, Launch, Launch]:
        r, s, cuda = self.recipe, self.state, self.device.type == "cuda"
        lanes = LANES if cuda else 1
        squares = torch.zeros(PARTS if cuda else 1, device=self.device)
        target = -1.0 if r.target_kl is None else r.target_kl
        limits = [r.epochs * r.minibatches, target, r.min_learning_rate, r.max_learning_rate, r.max_grad_norm]
        read = [self._totals, squares, self._inverse_std]
        written = [s.clock, s.scalars, self._control, s.record]
        bounds = [r.adam_eps, math.log(r.min_std), math.log(r.max_std)]
        moved = [self.gradient, s.exp_avg, s.exp_avg_sq, s.parameters, self._inverse_std]
        count = 1 if cuda else CHUNK
        threads = -(-len(s.parameters) // count)
        return (
            Launch(sum_squares, len(squares) * lanes, [lanes, self.gradient, squares], self.device),
            Launch(decide, lanes, [lanes, *limits, *read, *written], self.device),
            Launch(adam, threads, [count, *bounds, self._control, *moved], self.device),
        )

    # ---- running

    def run(self) -> None:
        self.prepare()
        if self._graph is None:
            self.enqueue()
        else:
            self._graph.replay()

    def prepare(self) -> None:
        """Captures the update on CUDA; without this call the first `run` does."""
        if self.device.type == "cuda" and self._graph is None:
            self._graph = self._capture()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Returns the update as a graph, after one on a side stream that loads and chooses kernels and is
        undone."""
        before = [t.clone() for t in self.state.tensors()]
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            self.enqueue()
            for tensor, old in zip(self.state.tensors(), before, strict=True):
                tensor.copy_(old)
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=self._group.capture_mode):
            self.enqueue()
        return graph

    @torch.no_grad()
    def enqueue(self) -> None:
        """Does all epochs and minibatches; then the normalisers take the block's observations in."""
        with tf32(self.recipe.precision == "tf32", self.device):  # as in acting, or ratios do not begin at 1
            self.begin()
            for step in range(self.recipe.epochs * self.recipe.minibatches):
                self.differentiate()
                if step == 0:
                    torch.amax(self._groups[:, RATIO_ERROR], 0, out=self._first_error)
                self.step()
            self._finish()

    def begin(self) -> None:
        """Computes what stays as it is for the whole update: minibatches, scales, the policy so far."""
        self._draw_keys()
        self._each(lambda shard: shard.draw())
        if self._sequences is not None:
            self._sequences.draw(self._drawn)
        elif self._group.world > 1:
            self._take_own()
        normalizers = (self.state.obs_normalizer, self.state.critic_normalizer)
        for scaling, n in zip(self._scaling, normalizers, strict=True):
            if self.recipe.normalise:
                scaling[0].copy_(n.mean)
                scaling[1].copy_(n.scale())
        torch.stack(self._group.std_mean(self.block.advantage), out=self._spread)
        self._old_log_std.copy_(self._log_std)
        torch.exp(self._log_std, out=self._old_std)
        torch.exp(-self._log_std, out=self._inverse_std)

    def _take_own(self) -> None:
        """Keeps of the samples drawn for each minibatch those of this process' environments, in the order
        drawn, and -1 where there are no more. So a minibatch is the same whoever has its samples."""
        envs, world = self.block.reward.shape[1], self._group.world
        row, mirrored = self._drawn >> 1, self._drawn & 1
        step, env = row // (envs * world), row % (envs * world)
        own = env // envs == self._group.rank
        place = own.cumsum(1) - 1
        place = torch.where(own & (place < self.rows), place, self.rows)  # a column more, for all others
        kept = torch.full((len(row), self.rows + 1), -1, dtype=torch.int32, device=self.device)
        kept.scatter_(1, place, 2 * (step * envs + env % envs) + mirrored)
        self.picks.copy_(kept[:, :-1])
        self._left_out.copy_((own.sum(1) - self.rows).clamp_min(0).sum())

    def differentiate(self) -> None:
        """Computes the gradient of the clock's minibatch, and the figures of its loss.

        On a CPU by a thread per core, each with its own rows: they meet once per minibatch. OpenMP inside the
        operations meets some sixty times, and each time waits for whichever core the machine has just taken
        away: ten times slower updates on a busy machine, a quarter faster ones on an idle one (measured).
        """
        if self._flat.dtype != torch.float32:
            self._flat.copy_(self.state.parameters)
        self.actor.refresh()
        self.critic.refresh()
        self._each(Shard.run)
        at = self.state.layout.matrices
        if len(self._parts) > 1:  # in the order of the shards, whichever thread was first
            torch.sum(self._parts[:, at:], 0, dtype=torch.float32, out=self._weight_gradient)
        elif self._parts.dtype != torch.float32:
            self._weight_gradient.copy_(self._parts[0, at:])
        torch.mv(self._groups.t(), self._ones, out=self._totals)
        self._group.all_reduce_sum_(self._sums)

    def _each(self, do: Callable[[Shard], None]) -> None:
        if self._workers is None:
            for shard in self._shards:
                do(shard)
        else:
            list(self._workers.map(do, self._shards))

    def step(self) -> None:
        """Adapts the learning rate, clips the gradient and follows it, unless it is not finite."""
        for launch in self._step:
            launch()

    def _finish(self) -> None:
        s, b, group = self.state, self.block, self._group
        if self.recipe.normalise:
            s.obs_normalizer.update(b.flat("obs"), group)
            s.critic_normalizer.update(b.flat("critic"), group)
        unexplained = group.var(b.returns - b.value) / group.var(b.returns).clamp_min(1e-12)
        std = self._log_std.exp().mean()
        group.all_reduce_max_(self._first_error)
        group.all_reduce_sum_(self._left_out)
        last = torch.stack([unexplained, self._log_std.sum(), self._first_error, std, self._left_out])
        s.record[-1, : len(last)] = last


def room(size: int, total: int, world: int) -> int:
    """Returns how many samples of a minibatch one of `world` processes may have: a random share, so somewhat
    more than an equal one; beyond that the update says that it failed."""
    if world == 1:
        return size
    spread = math.sqrt(size * (world - 1) / world**2 * (total - size) / (total - 1))
    wanted = size / world + SPARE * spread
    return min(size, total // world, GROUP * math.ceil(wanted / GROUP))


def _table(reflection: Reflection | None, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns indices and signs [2, width] of a plain sample and of its mirror image."""
    index = torch.arange(width, dtype=torch.int32, device=device)
    sign = torch.ones(width, device=device)
    if reflection is None:
        return torch.stack([index, index]), torch.stack([sign, sign])
    return torch.stack([index, reflection.index.to(torch.int32)]), torch.stack([sign, reflection.sign])
