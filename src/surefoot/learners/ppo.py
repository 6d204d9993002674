"""Proximal policy optimisation on rollout blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.contract import Channel, Recipe, SeedPlan, Split, TaskContract
from surefoot.contract.seeds import words
from surefoot.cores import cores
from surefoot.learners.networks import LOG_ROOT_2PI, ActorCritic, flatten, init_networks
from surefoot.learners.normalizer import EPSILON, Normalizer
from surefoot.learners.symmetry import Symmetry
from surefoot.rollout import RolloutBlock

COLUMNS = ("obs", "critic", "action", "mean", "log_prob", "value", "returns", "advantage", "plain")
"""Of a packed sample; `plain` is 1 for a sample as it was collected and 0 for its mirror image."""


@dataclass(frozen=True)
class PpoMetrics:
    """What one update says about itself. Means over its minibatches unless said otherwise."""

    first_ratio_error: float
    """Largest |ratio - 1| on the first minibatch, before any step: more than rounding means that collection
    and learning disagree about the policy."""
    kl: float
    kl_last_epoch: float
    clip_fraction: float
    value_loss: float
    policy_loss: float
    entropy: float
    std: float
    learning_rate: float
    grad_norm: float
    skipped_steps: int
    """Gradient steps left out because the gradient was not finite."""
    explained_variance: float


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, initializer=torch.set_flush_denormal, initargs=(True,))


class Ppo:
    """Networks, normalisers and optimiser; `act` and `value` for collection, `update` for learning."""

    name = "ppo"

    def __init__(
        self,
        contract: TaskContract,
        recipe: Recipe,
        symmetry: Symmetry | None,
        seeds: SeedPlan,
        device: torch.device,
    ) -> None:
        self.recipe, self.device = recipe, device
        self.symmetry = symmetry if recipe.mirror else None
        obs, critic, act = contract.observation_size, contract.critic_size, contract.action.size
        self._root = seeds.root
        nets = init_networks(obs, critic, act, recipe.hidden, recipe.init_std, self._seed(Channel.WEIGHTS, 0))
        self.networks: ActorCritic = nets.to(device)
        s = self.symmetry
        self.obs_normalizer = Normalizer(obs, recipe.normaliser_window, s.observation if s else None, device)
        self.critic_normalizer = Normalizer(critic, recipe.normaliser_window, s.critic if s else None, device)
        self.parameters = flatten(self.networks)
        self._leaves = list(self.networks.parameters())
        self.shards = cores() if device.type == "cpu" else 1
        self._workers = _pool(self.shards) if self.shards > 1 else None
        self.optimizer = torch.optim.Adam(
            [self.parameters], lr=recipe.learning_rate, eps=recipe.adam_eps, fused=True
        )
        self.learning_rate = recipe.learning_rate
        self.updates = 0

    def _seed(self, channel: Channel, number: int) -> int:
        return int(words(self._root, Split.INIT, 0, 0, number, channel, 1)[0])

    # ---- acting

    def _normal(self, normalizer: Normalizer, x: Tensor) -> Tensor:
        return normalizer(x) if self.recipe.normalise else x

    @property
    def log_std(self) -> Tensor:
        return self.networks.log_std

    def mean(self, obs: Tensor, out: Tensor) -> None:
        out.copy_(self.networks.actor(self._normal(self.obs_normalizer, obs)))

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.networks.actor(self._normal(self.obs_normalizer, obs))
        action = mean + self.networks.log_std.exp() * exploration
        return action, mean, self.networks.log_prob(mean, action)

    def value(self, critic: Tensor) -> Tensor:
        return self.networks.critic(self._normal(self.critic_normalizer, critic))[:, 0]  # type: ignore[no-any-return]

    # ---- learning

    def update(self, block: RolloutBlock) -> PpoMetrics:
        """All epochs and minibatches on one block; then the normalisers take its observations in."""
        r, nets = self.recipe, self.networks
        old_std = nets.log_std.detach().exp()
        advantage = block.flat("advantage")
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        sums = torch.zeros(6, device=self.device)
        first_error, skipped, last_kl, steps = 0.0, 0, 0.0, 0
        rows = self._pack(block, advantage)
        for epoch, picked in self._minibatches(len(advantage)):
            gradient, found = self._gradient(rows, picked, old_std)
            kl = float(found[0])
            first_error = float(found[4]) if steps == 0 else first_error
            self._adapt(kl)
            norm = gradient.norm()
            if bool(torch.isfinite(norm)):
                self.parameters.grad = gradient.mul_((r.max_grad_norm / (norm + 1e-6)).clamp_max(1.0))
                self.optimizer.step()
            else:
                skipped += 1
            with torch.no_grad():
                nets.log_std.clamp_(math.log(r.min_std), math.log(r.max_std))
                sums += torch.stack([*found[:4], norm, nets.log_std.exp().mean()])
            last_kl += kl / r.minibatches if epoch == r.epochs - 1 else 0.0
            steps += 1
        if r.normalise:
            self.obs_normalizer.update(block.flat("obs"))
            self.critic_normalizer.update(block.flat("critic"))
        self.updates += 1
        kl_mean, clipped, value_loss, policy_loss, grad_norm, std = (sums / steps).tolist()
        target = block.flat("returns")
        explained = 1 - (target - block.flat("value")).var() / target.var().clamp_min(1e-12)
        entropy = float(nets.log_std.detach().sum()) + len(nets.log_std) * (0.5 + LOG_ROOT_2PI)
        return PpoMetrics(
            first_ratio_error=first_error,
            kl=kl_mean,
            kl_last_epoch=last_kl,
            clip_fraction=clipped,
            value_loss=value_loss,
            policy_loss=policy_loss,
            entropy=entropy,
            std=std,
            learning_rate=self.learning_rate,
            grad_norm=grad_norm,
            skipped_steps=skipped,
            explained_variance=float(explained),
        )

    def _gradient(self, rows: Tensor, picked: Tensor, old_std: Tensor) -> tuple[Tensor, Tensor]:
        """The flat gradient of the minibatch `picked` from `rows`, and what `_shard` found, over shards side
        by side.

        A thread per core, each with its own rows: they meet once per minibatch. OpenMP inside the operations
        meets some sixty times, and each time waits for whichever core the machine has just taken away: ten
        times slower updates on a busy machine, a quarter faster ones on an idle one (measured).
        """
        size = len(picked)
        parts = picked.tensor_split(min(self.shards, size))  # on many cores a minibatch may be the smaller
        plain = (picked < len(rows) / 2 if self.symmetry else picked >= 0).sum().clamp_min(1)

        def shard(part: Tensor) -> tuple[Tensor, Tensor]:
            return self._shard(self._columns(rows[part]), old_std, size, plain)

        results = list(self._workers.map(shard, parts)) if self._workers else [shard(p) for p in parts]
        # Summed in the order of the shards, so the result does not depend on which thread was first.
        gradient = torch.stack([g for g, _ in results]).sum(0)
        found = torch.stack([f for _, f in results])
        return gradient, torch.cat([found[:, :4].sum(0), found[:, 4:].amax(0)])

    def _shard(
        self, batch: Mapping[str, Tensor], old_std: Tensor, size: int, plain: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A shard's part of the gradient, and of: KL, clip fraction, value loss, policy loss, ratio error."""
        r, nets = self.recipe, self.networks
        mean = nets.actor(batch["obs"])
        ratio = torch.exp(nets.log_prob(mean, batch["action"]) - batch["log_prob"])
        value = nets.critic(batch["critic"])[:, 0]
        bounded = ratio.clamp(1 - r.clip, 1 + r.clip)
        policy_loss = -torch.min(ratio * batch["advantage"], bounded * batch["advantage"]).sum() / size
        value_loss = self._value_errors(value, batch).sum() / size
        entropy = nets.log_std.sum() * (len(mean) / size)
        loss = policy_loss + r.value_coefficient * value_loss - r.entropy * entropy
        grads = torch.autograd.grad(loss, self._leaves)
        with torch.no_grad():
            kl = (self._kl(mean, batch["mean"], old_std) * batch["plain"]).sum() / plain
            off = (ratio - 1).abs() * batch["plain"]
            clipped = (off > r.clip).to(torch.float32).sum() / plain
            found = torch.stack([kl, clipped, value_loss, policy_loss, off.max()])
            return torch.cat([g.reshape(-1) for g in grads]), found

    def _pack(self, block: RolloutBlock, advantage: Tensor) -> Tensor:
        """All columns of a sample side by side, mirrored samples below plain ones: a minibatch is a gather of
        rows."""
        raw = {k: block.flat(k) for k in ("obs", "critic", "action", "mean")}
        fixed = [block.flat(k)[:, None] for k in ("log_prob", "value", "returns")] + [advantage[:, None]]
        flag = torch.ones_like(fixed[0])
        plain = [self._prepare(k, x) for k, x in raw.items()]
        self._widths = [x.shape[1] for x in (*plain, *fixed, flag)]
        rows = torch.cat([*plain, *fixed, flag], 1)
        if self.symmetry is None:
            return rows
        s = self.symmetry
        reflect = {"obs": s.observation, "critic": s.critic, "action": s.action, "mean": s.action}
        mirrored = [self._prepare(k, reflect[k](x)) for k, x in raw.items()]
        return torch.cat([rows, torch.cat([*mirrored, *fixed, flag * 0], 1)])

    def _columns(self, rows: Tensor) -> dict[str, Tensor]:
        """The named columns of packed rows: vectors as [B, D], numbers as [B]."""
        parts = torch.split(rows, self._widths, 1)
        return {k: x if k in COLUMNS[:4] else x[:, 0] for k, x in zip(COLUMNS, parts, strict=True)}

    def _minibatches(self, size: int) -> Iterator[tuple[int, Tensor]]:
        """Shuffled row numbers of every epoch's minibatches; in each epoch a random half of the samples is
        mirrored."""
        shuffle = torch.Generator().manual_seed(self._seed(Channel.SHUFFLE, self.updates))
        for epoch in range(self.recipe.epochs):
            order = torch.randperm(size, generator=shuffle)
            if self.symmetry is not None:
                order += size * (torch.rand(size, generator=shuffle) < 0.5)
            for picked in order.to(self.device).chunk(self.recipe.minibatches):
                yield epoch, picked

    def _prepare(self, name: str, x: Tensor) -> Tensor:
        normalizer = {"obs": self.obs_normalizer, "critic": self.critic_normalizer}.get(name)
        return self._normal(normalizer, x) if normalizer else x

    def _value_errors(self, value: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        error = (value - batch["returns"]).square()
        if self.recipe.value_clip is not None:
            clip = self.recipe.value_clip
            near = batch["value"] + (value - batch["value"]).clamp(-clip, clip)
            error = torch.max(error, (near - batch["returns"]).square())
        return error

    def _kl(self, mean: Tensor, old_mean: Tensor, old_std: Tensor) -> Tensor:
        """[B] KL(old || new). Averaged over samples that are not mirrored: the policy is not symmetric yet,
        so mirrored ones would show a divergence that no learning rate can lower."""
        std = self.networks.log_std.exp()
        gap = (old_std.square() + (old_mean - mean).square()) / (2 * std.square())
        return (torch.log(std / old_std) + gap - 0.5).sum(1)

    def _adapt(self, kl: float) -> None:
        r = self.recipe
        if r.target_kl is None:
            return
        if kl > 2 * r.target_kl:
            self.learning_rate = max(self.learning_rate / 1.5, r.min_learning_rate)
        elif kl < r.target_kl / 2:
            self.learning_rate = min(self.learning_rate * 1.5, r.max_learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    # ---- exact resume

    def tensors(self) -> dict[str, Tensor]:
        out = {f"networks.{k}": v.detach().clone() for k, v in self.networks.state_dict().items()}
        out |= {
            f"adam.{k}": v.detach().clone() for k, v in self.optimizer.state.get(self.parameters, {}).items()
        }
        for name, n in (
            ("obs_normalizer", self.obs_normalizer),
            ("critic_normalizer", self.critic_normalizer),
        ):
            out |= {f"{name}.{k}": v.clone() for k, v in n.tensors().items()}
        scalars = torch.tensor([self.learning_rate, float(self.updates)], dtype=torch.float64)
        return out | {"scalars": scalars}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        def under(prefix: str) -> dict[str, Tensor]:
            return {
                k.removeprefix(prefix): v.to(self.device) for k, v in tensors.items() if k.startswith(prefix)
            }

        self.networks.load_state_dict(under("networks."))
        adam = {k: v.clone() for k, v in under("adam.").items()}
        if adam:
            self.optimizer.state[self.parameters] = adam
        self.obs_normalizer.load(under("obs_normalizer."))
        self.critic_normalizer.load(under("critic_normalizer."))
        self.learning_rate = float(tensors["scalars"][0])
        self.updates = int(tensors["scalars"][1])
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def policy_tensors(self) -> dict[str, Tensor]:
        """The deterministic policy as a policy bundle wants it, on the CPU."""
        n, size = self.obs_normalizer, self.obs_normalizer.mean
        if self.recipe.normalise:
            out = {"mean": n.mean.clone(), "std": n.var.sqrt() + EPSILON}
        else:
            out = {"mean": torch.zeros_like(size), "std": torch.ones_like(size)}
        layers = [m for m in self.networks.actor if isinstance(m, torch.nn.Linear)]
        for k, layer in enumerate(layers):
            out |= {f"{k}.weight": layer.weight.detach().clone(), f"{k}.bias": layer.bias.detach().clone()}
        return {k: v.cpu() for k, v in out.items()}
