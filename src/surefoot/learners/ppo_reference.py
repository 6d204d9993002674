"""PPO in plain torch: the same update as `ppo.py`, `update.py` and `kernels/` compute, written to be read.

From top to bottom: the loss, which samples are in a minibatch, the statistics that observations are
normalised by, and the update itself. Gradients are autograd's, Adam and clipping are torch's, numbers are
double. It is slow and never trains a run; tests hold the kernels to it: loss, gradient and a whole update.

Tensors: B samples of a minibatch, O observations, C critic observations, A actions, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from surefoot.contract import Channel, Recipe, Split, words
from surefoot.learners.base import PpoMetrics
from surefoot.learners.networks import LOG_ROOT_2PI, ActorCritic
from surefoot.learners.normalizer import EPSILON
from surefoot.learners.symmetry import Reflection, Symmetry
from surefoot.rollout import MemoryBlock, RolloutBlock, windows

WORD = 2**32 - 1
FIELDS = ("obs", "critic", "action", "mean", "log_prob", "value", "returns", "advantage")
"""What an update reads of a block."""

# ---- the loss


@dataclass(frozen=True)
class Minibatch:
    """Samples of a block as the loss reads them: observations normalised, some samples mirrored."""

    obs: Tensor  # [B, O]
    critic: Tensor  # [B, C]
    action: Tensor  # [B, A] as sampled, before clipping
    old_mean: Tensor  # [B, A] of the policy that collected
    old_log_std: Tensor  # [A] of the same
    old_log_prob: Tensor  # [B] of `action` under it
    old_value: Tensor  # [B] at collection
    returns: Tensor  # [B] what the value should have been
    advantage: Tensor  # [B] normalised
    mirrored: Tensor  # [B] bool: reflected left to right


@dataclass(frozen=True)
class Loss:
    """The loss of a minibatch, and what is measured on the way."""

    total: Tensor  # [] what is minimised
    policy_loss: float
    value_loss: float
    kl: float
    clip_fraction: float
    ratio_error: float


def network(parameters: Mapping[str, Tensor], name: str, hidden: int, x: Tensor) -> Tensor:
    """Returns the outputs [B, outputs] of the actor or the critic: `hidden` layers with ELU, one without."""
    for k in range(hidden + 1):
        layer = f"{name}.{2 * k}"  # as nn.Sequential numbers them, where activations have numbers too
        x = x @ parameters[f"{layer}.weight"].T + parameters[f"{layer}.bias"]
        if k < hidden:
            x = nn.functional.elu(x)
    return x


def entropy(parameters: Mapping[str, Tensor]) -> Tensor:
    """Returns the policy's entropy [], the same for every observation, as its standard deviation is."""
    return (parameters["log_std"] + 0.5 + LOG_ROOT_2PI).sum()


def ppo_loss(parameters: Mapping[str, Tensor], batch: Minibatch, recipe: Recipe) -> Loss:
    """Returns clipped surrogate + value error - entropy (Schulman et al. 2017, equations 7 and 9)."""
    layers = len(recipe.hidden)
    policy = Normal(network(parameters, "actor", layers, batch.obs), parameters["log_std"].exp())  # [B, A]
    value = network(parameters, "critic", layers, batch.critic)[:, 0]  # [B]

    # How much more probable the action is now than when it was taken.
    log_prob = policy.log_prob(batch.action).sum(1)  # type: ignore[no-untyped-call]
    ratio = torch.exp(log_prob - batch.old_log_prob)  # [B]
    # The smaller of the two: nothing is gained by moving the ratio beyond its bounds, all is lost by moving
    # it the wrong way.
    bounded = ratio.clamp(1 - recipe.clip, 1 + recipe.clip)
    policy_loss = -torch.min(ratio * batch.advantage, bounded * batch.advantage).mean()

    error = (value - batch.returns).square()  # [B]
    if recipe.value_clip is not None:  # the larger of the two: a value may not run away from the old one
        near = batch.old_value + (value - batch.old_value).clamp(-recipe.value_clip, recipe.value_clip)
        error = torch.max(error, (near - batch.returns).square())
    value_loss = error.mean()

    total = policy_loss + recipe.value_coefficient * value_loss - recipe.entropy * entropy(parameters)

    # Measured on samples that are not mirrored: the policy is not symmetric yet, so mirrored ones would show
    # a divergence that no learning rate can lower.
    plain, count = ~batch.mirrored, max(int((~batch.mirrored).sum()), 1)
    kl = kl_divergence(Normal(batch.old_mean, batch.old_log_std.exp()), policy).sum(1)  # [B] KL(old || new)
    off = torch.where(plain, (ratio - 1).abs(), 0.0)  # [B]
    return Loss(
        total,
        policy_loss=policy_loss.item(),
        value_loss=value_loss.item(),
        kl=kl[plain].sum().item() / count,
        clip_fraction=(off > recipe.clip).sum().item() / count,
        ratio_error=off.max().item(),
    )


def gru(parameters: Mapping[str, Tensor], x: Tensor, state: Tensor, since: Tensor) -> Tensor:
    """Returns the states [B, T, H] of sequences x [B, T, O] that begin with `state` [B, H]; where `since`
    [B, T] is 0 an episode begins, and nothing is remembered (Cho et al. 2014, as torch's GRUCell has it)."""
    w, out = {k.removeprefix("memory."): v for k, v in parameters.items()}, []
    for t in range(x.shape[1]):
        state = torch.where(since[:, t, None] > 0, state, 0.0)
        given = x[:, t] @ w["input"].T + w["input_bias"][:, 0]
        held = state @ w["state"].T + w["state_bias"][:, 0]
        (gr, gz, gn), (hr, hz, hn) = given.chunk(3, 1), held.chunk(3, 1)
        reset, update = torch.sigmoid(gr + hr), torch.sigmoid(gz + hz)
        state = (1 - update) * torch.tanh(gn + reset * hn) + update * state
        out.append(state)
    return torch.stack(out, 1)


# ---- which samples are in a minibatch


def permutation(size: int, keys: Sequence[int]) -> Tensor:
    """Returns a permutation [size] of 0 .. size - 1 that the four `keys` determine, on every machine alike.

    Numbers of `bits` bits are cut into a left and a right half, and each half is mixed into the other in turn
    (a Feistel network). Every round can be undone, so no two numbers meet: a permutation of 0 .. 2**bits - 1.
    What comes out as `size` or more goes through again until it is less: a permutation of 0 .. size - 1.
    """
    bits = max(2, (size - 1).bit_length())
    half = bits // 2
    x = torch.arange(size)
    away = torch.ones(size, dtype=torch.bool)
    while away.any():
        left, right = x[away] >> half, x[away] & (1 << half) - 1
        for r in range(8):
            key = keys[r % 4] + r * 0x9E3779B9 & WORD
            if r % 2 == 0:
                left = left ^ mix(right ^ key) & (1 << bits - half) - 1
            else:
                right = right ^ mix(left ^ key) & (1 << half) - 1
        x[away] = left << half | right
        away = x >= size
    return x


def mix(x: Tensor) -> Tensor:
    """Returns 32-bit numbers of which every bit depends on every bit of x (C. Wellons' hash lowbias32)."""
    x = (x ^ x >> 16) * 0x7FEB352D & WORD
    x = (x ^ x >> 15) * 0x846CA68B & WORD
    return x ^ x >> 16


def epoch_order(root: int, update: int, epoch: int, size: int) -> tuple[Tensor, Tensor]:
    """Returns the order in which an epoch takes a block's samples [size], and which of the samples it mirrors
    [size] bool. Both follow from the run's seed, the update and the epoch, not from a generator's state."""
    shuffle, mirror = (
        words(root, Split.INIT, 0, 0, update, channel, 4, first=4 * epoch).tolist()
        for channel in (Channel.SHUFFLE, Channel.MIRROR)
    )
    mirrored = mix(torch.arange(size) ^ mirror[0]) >> 31 == 1  # a random half of them: the topmost bit
    return permutation(size, shuffle), mirrored


# ---- observations


class RunningStats:
    """Mean and variance of the observations so far, of the data and its mirror image."""

    def __init__(self, size: int, window: float, reflection: Reflection | None) -> None:
        self.mean, self.var = torch.zeros(size).double(), torch.ones(size).double()  # [D]
        self.count = 1e-4
        self._window, self._reflection = window, reflection

    def normalise(self, x: Tensor) -> Tensor:
        return (x - self.mean) / (self.var.sqrt() + EPSILON)

    def update(self, x: Tensor) -> None:
        """Takes x [B, D] in by the moments of two samples together (Chan et al. 1979). The count stops at the
        window, so that from there on old samples fade."""
        both = x if self._reflection is None else torch.cat([x, self._reflection(x)])
        share = len(x) / (self.count + len(x))
        delta = both.mean(0) - self.mean
        spread = both.var(0, correction=0)
        self.var = self.var * (1 - share) + spread * share + delta.square() * share * (1 - share)
        self.mean = self.mean + delta * share
        self.count = min(self.count + len(x), self._window)


# ---- the update


class ReferencePpo:
    """Weights, Adam and statistics of observations; `update` learns from one block as `Ppo.update` does."""

    optimiser: Callable[..., Any] = torch.optim.Adam

    def __init__(self, networks: ActorCritic, recipe: Recipe, symmetry: Symmetry | None, root: int) -> None:
        """`networks`: initial weights; `root`: the run's seed."""
        self.recipe, self.root, self.updates = recipe, root, 0
        self.symmetry = s = symmetry if recipe.mirror else None
        self._shapes = {name: p.shape for name, p in networks.named_parameters()}
        self.weights = nn.Parameter(nn.utils.parameters_to_vector(networks.parameters()).double())  # [P]
        self.adam = self.optimiser([self.weights], lr=recipe.learning_rate, eps=recipe.adam_eps)
        sizes = [self.parameters()[f"{name}.0.weight"].shape[1] for name in ("actor", "critic")]
        memory = recipe.remembers
        sizes[0] = sizes[0] - memory.size if memory.kind == "gru" else sizes[0] // max(1, memory.size)
        reflections = (s.observation, s.critic) if s else (None, None)
        self.obs_stats, self.critic_stats = (
            RunningStats(size, recipe.normaliser_window, reflection)
            for size, reflection in zip(sizes, reflections, strict=True)
        )

    def parameters(self) -> dict[str, Tensor]:
        """Returns the networks' parameters by name, as views of the flat weights."""
        parts = torch.split(self.weights, [math.prod(shape) for shape in self._shapes.values()])
        return {name: x.view(shape) for (name, shape), x in zip(self._shapes.items(), parts, strict=True)}

    @property
    def learning_rate(self) -> float:
        return float(self.adam.param_groups[0]["lr"])

    def update(self, block: RolloutBlock) -> PpoMetrics:
        """Does all epochs and minibatches on one block, then takes its observations into the statistics."""
        recipe = self.recipe
        data = {name: block.flat(name).double() for name in FIELDS}  # [T * N, ...]
        seen, memory = data["obs"], recipe.remembers
        if isinstance(block, MemoryBlock) and memory.kind == "window":
            data["obs"] = windows(block, memory.size).flatten(0, 1).double()  # [T * N, K, O]
        # Over the whole block, not over a minibatch: the same sample has the same advantage in every epoch.
        advantage = data["advantage"]
        data["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        old_log_std = self.parameters()["log_std"].detach().clone()  # [A]

        losses: list[Loss] = []
        norms: list[float] = []
        stds: list[float] = []
        for epoch in range(recipe.epochs):
            recurrent = isinstance(block, MemoryBlock) and memory.kind == "gru"
            units = block.reward.shape[1] if recurrent else len(advantage)  # sequences or samples
            order, mirrored = epoch_order(self.root, self.updates, epoch, units)
            for rows in order.chunk(recipe.minibatches):  # [B]
                if recurrent:
                    batch = self.sequences(block, data, rows, mirrored[rows], old_log_std)
                else:
                    batch = self.minibatch(data, rows, mirrored[rows], old_log_std)
                loss = ppo_loss(self.parameters(), batch, recipe)
                self.adapt_learning_rate(loss.kl)
                norms.append(self.step(loss.total))
                losses.append(loss)
                stds.append(self.parameters()["log_std"].exp().mean().item())

        # Only now: ratios begin at 1 if learning normalises as collection did.
        if recipe.normalise:
            self.obs_stats.update(seen)
            self.critic_stats.update(data["critic"])
        self.updates += 1
        last = losses[-recipe.minibatches :]
        unexplained = (data["returns"] - data["value"]).var() / data["returns"].var().clamp_min(1e-12)
        return PpoMetrics(
            first_ratio_error=losses[0].ratio_error,
            kl=fmean(x.kl for x in losses),
            kl_last_epoch=fmean(x.kl for x in last),
            clip_fraction=fmean(x.clip_fraction for x in losses),
            value_loss=fmean(x.value_loss for x in losses),
            policy_loss=fmean(x.policy_loss for x in losses),
            entropy=entropy(self.parameters()).item(),
            std=fmean(stds),
            learning_rate=self.learning_rate,
            grad_norm=fmean(norms),
            skipped_steps=sum(not math.isfinite(norm) for norm in norms),
            explained_variance=1 - float(unexplained),
        )

    def minibatch(
        self, data: Mapping[str, Tensor], rows: Tensor, mirrored: Tensor, old_log_std: Tensor
    ) -> Minibatch:
        """Returns samples `rows` [B] of a block, those that are `mirrored` [B] reflected left to right: what
        is learned of turning left is then learned of turning right too."""
        x = {name: values[rows] for name, values in data.items()}
        if self.symmetry is not None:
            s = self.symmetry
            for name, reflect in (
                ("obs", s.observation), ("critic", s.critic), ("action", s.action), ("mean", s.action),
            ):  # fmt: skip
                which = mirrored.view(-1, *(1,) * (x[name].ndim - 1))
                x[name] = torch.where(which, reflect(x[name]), x[name])
        else:
            mirrored = torch.zeros_like(mirrored)
        if self.recipe.normalise:
            x["obs"] = self.obs_stats.normalise(x["obs"])
            x["critic"] = self.critic_stats.normalise(x["critic"])
        return Minibatch(
            obs=x["obs"].flatten(1),  # a window is one long observation
            critic=x["critic"],
            action=x["action"],
            old_mean=x["mean"],
            old_log_std=old_log_std,
            old_log_prob=x["log_prob"],
            old_value=x["value"],
            returns=x["returns"],
            advantage=x["advantage"],
            mirrored=mirrored,
        )

    def sequences(
        self,
        block: RolloutBlock,
        data: Mapping[str, Tensor],
        envs: Tensor,
        mirrored: Tensor,
        old_log_std: Tensor,
    ) -> Minibatch:
        """Returns all samples of environments `envs` [B], one environment after the other, with the states
        that today's policy has there beside their observations."""
        assert isinstance(block, MemoryBlock)
        horizon, count = block.since.shape
        rows = (envs[:, None] + count * torch.arange(horizon)).flatten()  # [B * T]
        batch = self.minibatch(data, rows, mirrored.repeat_interleave(horizon), old_log_std)
        images = mirrored.long() if self.symmetry is not None else torch.zeros_like(envs)
        begun, x = block.earlier[images, envs].double(), batch.obs.view(len(envs), horizon, -1)
        states = gru(self.parameters(), x, begun, block.since[:, envs].T).flatten(0, 1)
        return replace(batch, obs=torch.cat([batch.obs, states], 1))

    def adapt_learning_rate(self, kl: float) -> None:
        """Lowers the learning rate where the policy has moved too far from the one that collected, and raises
        it where it has hardly moved. A KL that is not a number leaves it as it is."""
        r, rate = self.recipe, self.learning_rate
        if r.target_kl is not None and kl > 2 * r.target_kl:
            rate = max(rate / 1.5, r.min_learning_rate)
        elif r.target_kl is not None and kl < r.target_kl / 2:
            rate = min(rate * 1.5, r.max_learning_rate)
        self.adam.param_groups[0]["lr"] = rate

    def step(self, loss: Tensor) -> float:
        """Follows the gradient, clipped; returns its norm before clipping. A gradient that is not finite is
        left out, because no weight would be finite after it."""
        self.adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_([self.weights], self.recipe.max_grad_norm)
        if torch.isfinite(norm):
            self.adam.step()
            with torch.no_grad():  # std stays in its range
                low, high = math.log(self.recipe.min_std), math.log(self.recipe.max_std)
                self.parameters()["log_std"].clamp_(low, high)
        return float(norm)
