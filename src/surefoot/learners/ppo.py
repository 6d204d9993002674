"""Proximal policy optimisation on rollout blocks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup
from surefoot.contract import Channel, Contract, Recipe, SeedPlan, Split, words
from surefoot.learners.base import Learner, PpoMetrics
from surefoot.learners.kernels import COLUMNS
from surefoot.learners.networks import LOG_ROOT_2PI, Layout, flatten, init_networks, tf32
from surefoot.learners.normalizer import EPSILON, Normalizer
from surefoot.learners.recall import GruRecall, Recall, WindowRecall
from surefoot.learners.symmetry import Symmetry
from surefoot.learners.update import ALIGN, LearnerState, PpoUpdate
from surefoot.rollout import MemoryBlock, RolloutBlock
from surefoot.runs import section


class Ppo:
    """Surefoot's own learner: networks, normalisers and optimiser, as `Learner` says.

    `reference.py` has the same in plain torch, to be read first.
    """

    name = "ppo"

    def __init__(
        self,
        contract: Contract,
        recipe: Recipe,
        symmetry: Symmetry | None,
        seeds: SeedPlan,
        device: torch.device,
        align: int | None = None,
        group: ProcessGroup = SINGLE,
    ) -> None:
        """`align`: what the layout pads parameters to, in numbers; by default what the device wants. `group`:
        the processes that learn together, each from its own block; all of them have the same weights."""
        self.recipe, self.device, self._group = recipe, device, group
        self.symmetry = s = symmetry if recipe.mirror else None
        obs, critic, act = contract.observation_size, contract.critic_size, contract.action.size
        self._root = seeds.root
        seed = int(words(self._root, Split.INIT, 0, 0, 0, Channel.WEIGHTS, 1)[0])
        self.memory = recipe.remembers
        nets = init_networks(obs, critic, act, recipe.hidden, recipe.init_std, seed, self.memory).to(device)
        layout = Layout(nets, align or (ALIGN if device.type == "cuda" else 1))
        parameters = flatten(nets, layout)
        steps, window = recipe.epochs * recipe.minibatches, recipe.normaliser_window
        self.state = LearnerState(
            networks=nets,
            layout=layout,
            parameters=parameters,
            exp_avg=torch.zeros_like(parameters),
            exp_avg_sq=torch.zeros_like(parameters),
            scalars=torch.tensor([recipe.learning_rate, 0.0], dtype=torch.float64, device=device),
            clock=torch.zeros(2, dtype=torch.int32, device=device),
            record=torch.zeros(steps + 1, len(COLUMNS), dtype=torch.float64, device=device),
            obs_normalizer=Normalizer(obs, window, s.observation if s else None, device),
            critic_normalizer=Normalizer(critic, window, s.critic if s else None, device),
        )
        self.networks = nets
        self.obs_normalizer, self.critic_normalizer = self.state.obs_normalizer, self.state.critic_normalizer
        self._bound: PpoUpdate | None = None
        self._recall: Recall | None = None

    @property
    def updates(self) -> int:
        """Updates done so far. Waits for the device."""
        return int(self.state.clock[0])

    @property
    def record(self) -> Tensor:
        """What the last update left for `metrics`: float64 [steps + 1, columns]."""
        return self.state.record

    @property
    def mirrors(self) -> bool:
        return self.symmetry is not None

    @property
    def parameters(self) -> Tensor:
        """[P] all weights, in the order of the layout."""
        return self.state.parameters

    # ---- acting

    def recall(self, block: RolloutBlock) -> Recall | None:
        if not isinstance(block, MemoryBlock):
            return None
        if self._recall is None or self._recall.block is not block:
            with torch.inference_mode(False):  # it is restored outside of rollouts too
                gru = self.memory.kind == "gru"
                self._recall = GruRecall(self, block) if gru else WindowRecall(self, block, self.memory.size)
        return self._recall

    def remember(self, x: Tensor, state: Tensor) -> Tensor:
        """Returns the states [N, H] of the policy's GRU after normalised observations [N, O]."""
        with self._precision():
            return self.networks.memory(x, state)  # type: ignore[no-any-return]

    def normal(self, obs: Tensor) -> Tensor:
        """Returns observations [..., O] as the actor reads them."""
        return self._normal(self.obs_normalizer, obs)

    def mean_of(self, features: Tensor) -> Tensor:
        """Returns mean actions [N, A] for what the actor's layers read [N, inputs]."""
        with self._precision():
            return self.networks.actor(features).float()  # type: ignore[no-any-return]

    def _normal(self, normalizer: Normalizer, x: Tensor) -> Tensor:
        return normalizer(x) if self.recipe.normalise else x

    def _precision(self) -> AbstractContextManager[None]:
        """Returns the recipe's precision: acting and learning share it, or ratios do not begin at 1."""
        if self.recipe.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return tf32(self.recipe.precision == "tf32", self.device)

    @property
    def log_std(self) -> Tensor:
        return self.networks.log_std

    def mean(self, obs: Tensor) -> Tensor:
        return self.mean_of(self.normal(obs))

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        action = mean + self.networks.log_std.exp() * exploration
        return action, mean, self.networks.log_prob(mean, action)

    def value(self, critic: Tensor) -> Tensor:
        with self._precision():
            return self.networks.critic(self._normal(self.critic_normalizer, critic))[:, 0].float()  # type: ignore[no-any-return]

    # ---- learning

    def update(self, block: RolloutBlock) -> None:
        """Does all epochs and minibatches on one block; then the normalisers take its observations in. It is
        enqueued only: `metrics` waits for it. Another block than last time costs new buffers and, on CUDA, a
        new graph."""
        self.bind(block).run()

    def bind(self, block: RolloutBlock) -> PpoUpdate:
        if self._bound is None or self._bound.block is not block:
            self._bound = PpoUpdate(
                self.recipe, self.symmetry, self._root, self.state, block, group=self._group
            )
        return self._bound

    def unbind(self) -> None:
        """Frees buffers, and on CUDA the graph."""
        self._bound = None

    def metrics(self, record: Tensor | None = None) -> PpoMetrics:
        """Returns what the last update says about itself, in one transfer from the device, for which it
        waits; or what an earlier one said, of whose `record` a copy is given."""
        table: list[list[float]] = (self.state.record if record is None else record).tolist()
        *rows, (unexplained, log_std, first_error, std, left_out, *_) = table
        if left_out:
            raise RuntimeError(f"{left_out:.0f} samples of an update did not fit into their minibatches")
        steps = [dict(zip(COLUMNS, row, strict=True)) for row in rows]

        def mean(name: str, last: int = len(steps)) -> float:
            return sum(row[name] for row in steps[-last:]) / last

        # std is that after each step, and a row has that before it
        after = mean("std_before") + (std - steps[0]["std_before"]) / len(steps)
        return PpoMetrics(
            first_ratio_error=first_error,
            kl=mean("kl"),
            kl_last_epoch=mean("kl", self.recipe.minibatches),
            clip_fraction=mean("clipped"),
            value_loss=mean("value_loss"),
            policy_loss=mean("policy_loss"),
            entropy=log_std + len(self.networks.log_std) * (0.5 + LOG_ROOT_2PI),
            std=after,
            learning_rate=steps[-1]["rate"],
            grad_norm=mean("grad_norm"),
            skipped_steps=int(sum(row["skipped"] for row in steps)),
            explained_variance=1 - unexplained,
        )

    # ---- exact resume

    def tensors(self) -> dict[str, Tensor]:
        s = self.state
        out = {f"networks.{k}": v.detach().clone() for k, v in self.networks.state_dict().items()}
        out |= {
            "adam.step": s.scalars[1].to(torch.float32),
            "adam.exp_avg": s.layout.natural(s.exp_avg),
            "adam.exp_avg_sq": s.layout.natural(s.exp_avg_sq),
        }
        for name, n in (("obs_normalizer", s.obs_normalizer), ("critic_normalizer", s.critic_normalizer)):
            out |= {f"{name}.{k}": v.clone() for k, v in n.tensors().items()}
        return out | {"scalars": torch.stack([s.scalars[0], s.clock[0].to(torch.float64)]).cpu()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        s = self.state

        self.networks.load_state_dict(section("networks", tensors))
        zeros = torch.zeros_like(s.layout.natural(s.parameters))  # of a learner that had not taken a step yet
        for name, moments in (("adam.exp_avg", s.exp_avg), ("adam.exp_avg_sq", s.exp_avg_sq)):
            s.layout.restore(moments, tensors.get(name, zeros))
        s.scalars[1] = tensors.get("adam.step", zeros[0])
        s.scalars[0] = tensors["scalars"][0]
        s.clock.copy_(torch.tensor([int(tensors["scalars"][1]), 0]))
        s.obs_normalizer.load(section("obs_normalizer", tensors))
        s.critic_normalizer.load(section("critic_normalizer", tensors))

    def policy_tensors(self) -> dict[str, Tensor]:
        """Returns the deterministic policy as a policy bundle has it, on the CPU."""
        n, size = self.obs_normalizer, self.obs_normalizer.mean
        if self.recipe.normalise:
            out = {"mean": n.mean.clone(), "std": n.var.sqrt() + EPSILON}
        else:
            out = {"mean": torch.zeros_like(size), "std": torch.ones_like(size)}
        layers = [m for m in self.networks.actor if isinstance(m, torch.nn.Linear)]
        for k, layer in enumerate(layers):
            out |= {f"{k}.weight": layer.weight.detach().clone(), f"{k}.bias": layer.bias.detach().clone()}
        if self.memory.kind == "gru":
            own = self.networks.memory.named_parameters()
            out |= {f"memory.{k}": (p.reshape(-1) if k.endswith("bias") else p).clone() for k, p in own}
        return {k: v.cpu() for k, v in out.items()}


_: type[Learner] = Ppo  # the type checker holds it to the interface
