"""Proximal policy optimisation on rollout blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.contract import Channel, Recipe, SeedPlan, Split, TaskContract
from surefoot.contract.seeds import words
from surefoot.learners.networks import ActorCritic, flatten, init_networks
from surefoot.learners.normalizer import EPSILON, Normalizer
from surefoot.learners.symmetry import Symmetry
from surefoot.rollout import RolloutBlock


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

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.networks.actor(self._normal(self.obs_normalizer, obs))
        action = mean + self.networks.log_std.exp() * exploration
        return action, mean, self.networks.log_prob(mean, action)

    def value(self, critic: Tensor) -> Tensor:
        return self.networks.critic(self._normal(self.critic_normalizer, critic))[:, 0]  # type: ignore[no-any-return]

    # ---- learning

    def update(self, block: RolloutBlock) -> PpoMetrics:
        """All epochs and minibatches on one block, then the normalisers take its observations into
        account."""
        r, nets = self.recipe, self.networks
        old_std = nets.log_std.detach().exp()
        advantage = block.flat("advantage")
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        sums = torch.zeros(7, device=self.device)
        first_error, skipped, last_kl, steps = 0.0, 0, 0.0, 0
        for epoch, batch in self._minibatches(block, advantage):
            mean = nets.actor(batch["obs"])
            ratio = torch.exp(nets.log_prob(mean, batch["action"]) - batch["log_prob"])
            value = nets.critic(batch["critic"])[:, 0]
            surrogate = torch.min(
                ratio * batch["advantage"], ratio.clamp(1 - r.clip, 1 + r.clip) * batch["advantage"]
            )
            policy_loss = -surrogate.mean()
            value_loss = self._value_loss(value, batch)
            entropy = nets.log_std.sum() + 0.5 * len(nets.log_std) * math.log(2 * math.pi * math.e)
            loss = policy_loss + r.value_coefficient * value_loss - r.entropy * entropy
            with torch.no_grad():
                kl = self._kl(mean, batch, old_std)
                if steps == 0:
                    error = (ratio - 1).abs() * batch["plain"]
                    first_error = float(error.max())
                clipped = (((ratio - 1).abs() > r.clip) * batch["plain"]).sum() / batch[
                    "plain"
                ].sum().clamp_min(1)
            self._adapt(float(kl))
            gradient = self.parameters.grad
            assert gradient is not None
            gradient.zero_()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = gradient.norm()
            if bool(torch.isfinite(norm)):
                gradient.mul_((r.max_grad_norm / (norm + 1e-6)).clamp_max(1.0))
                self.optimizer.step()
            else:
                skipped += 1
            with torch.no_grad():
                nets.log_std.clamp_(math.log(r.min_std), math.log(r.max_std))
                sums += torch.stack(
                    [kl, clipped, value_loss, policy_loss, entropy, norm, nets.log_std.exp().mean()]
                )
            if epoch == r.epochs - 1:
                last_kl += float(kl) / r.minibatches
            steps += 1
        if r.normalise:
            self.obs_normalizer.update(block.flat("obs"))
            self.critic_normalizer.update(block.flat("critic"))
        self.updates += 1
        kl_mean, clip, value_mean, policy_mean, entropy_mean, grad, std = (sums / steps).tolist()
        target = block.flat("returns")
        explained = 1 - (target - block.flat("value")).var() / target.var().clamp_min(1e-12)
        return PpoMetrics(
            first_error,
            kl_mean,
            last_kl,
            clip,
            value_mean,
            policy_mean,
            entropy_mean,
            std,
            self.learning_rate,
            grad,
            skipped,
            float(explained),
        )

    def _minibatches(self, block: RolloutBlock, advantage: Tensor) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Shuffled minibatches of every epoch; in each epoch a random half of the samples is mirrored."""
        r, s = self.recipe, self.symmetry
        size = len(advantage)
        raw = {k: block.flat(k) for k in ("obs", "critic", "action", "mean")}
        fixed = {k: block.flat(k)[:, None] for k in ("log_prob", "value", "returns")} | {
            "advantage": advantage[:, None]
        }
        plain = [self._prepare(k, x) for k, x in raw.items()] + list(fixed.values())
        # All columns of a sample side by side, mirrored samples below plain ones: a minibatch is one gather
        # of rows.
        rows = torch.cat([*plain, torch.ones(size, 1, device=self.device)], 1)
        if s is not None:
            reflect = {"obs": s.observation, "critic": s.critic, "action": s.action, "mean": s.action}
            mirrored = [self._prepare(k, reflect[k](x)) for k, x in raw.items()] + list(fixed.values())
            rows = torch.cat([rows, torch.cat([*mirrored, torch.zeros(size, 1, device=self.device)], 1)])
        names = [*raw, *fixed, "plain"]
        widths = [x.shape[1] for x in (*raw.values(), *fixed.values())] + [1]
        shuffle = torch.Generator().manual_seed(self._seed(Channel.SHUFFLE, self.updates))
        for epoch in range(r.epochs):
            order = torch.randperm(size, generator=shuffle)
            if s is not None:
                order += size * (torch.rand(size, generator=shuffle) < 0.5)
            for picked in order.to(self.device).chunk(r.minibatches):
                batch = dict(zip(names, torch.split(rows[picked], widths, 1), strict=True))
                yield epoch, {k: x[:, 0] if k not in raw else x for k, x in batch.items()}

    def _prepare(self, name: str, x: Tensor) -> Tensor:
        normalizer = {"obs": self.obs_normalizer, "critic": self.critic_normalizer}.get(name)
        return self._normal(normalizer, x) if normalizer else x

    def _value_loss(self, value: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        error = (value - batch["returns"]).square()
        if self.recipe.value_clip is not None:
            clip = self.recipe.value_clip
            near = batch["value"] + (value - batch["value"]).clamp(-clip, clip)
            error = torch.max(error, (near - batch["returns"]).square())
        return error.mean()

    def _kl(self, mean: Tensor, batch: Mapping[str, Tensor], old_std: Tensor) -> Tensor:
        """Mean KL(old || new) over the samples that are not mirrored: the policy is not symmetric yet, so
        mirrored ones would show a divergence that no learning rate can lower."""
        std = self.networks.log_std.exp()
        kl = (
            torch.log(std / old_std)
            + (old_std.square() + (batch["mean"] - mean).square()) / (2 * std.square())
            - 0.5
        )
        plain = batch["plain"]
        return (kl.sum(1) * plain).sum() / plain.sum().clamp_min(1)

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
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

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
        """The deterministic policy as a policy bundle wants it."""
        n, size = self.obs_normalizer, self.obs_normalizer.mean
        if self.recipe.normalise:
            out = {"mean": n.mean.clone(), "std": n.var.sqrt() + EPSILON}
        else:
            out = {"mean": torch.zeros_like(size), "std": torch.ones_like(size)}
        layers = [m for m in self.networks.actor if isinstance(m, torch.nn.Linear)]
        for k, layer in enumerate(layers):
            out |= {f"{k}.weight": layer.weight.detach().clone(), f"{k}.bias": layer.bias.detach().clone()}
        return out
