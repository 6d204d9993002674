"""Does an update learn what PPO says? It is done again by the readable reference, in double precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import copied, iterated, learner_of, learning
from surefoot.contract import Recipe
from surefoot.learners import Ppo, PpoMetrics, ReferencePpo, gru
from surefoot.rollout import MemoryBlock, RolloutBlock, windows, with_memory

APART = 0.02
"""Part of an update's step that single precision may differ by; clean runs: below 0.004."""
MOMENTS = 0.05
"""Part of Adam's moments that may differ; clean runs: below 0.01."""
WAYS: Sequence[Mapping[str, Any]] = ({}, {"target_kl": None})
UNCLIPPED: Sequence[Mapping[str, Any]] = ({"target_kl": None, "max_grad_norm": 1e4},)
"""How the recipe is changed for a block of extremes: not at all, or with the learning rate fixed; and so that
no gradient is as long as what it is clipped at, which then changes none."""
BEGINS = 0.1
"""Share of a block's steps that begin an episode, where a policy remembers."""
NEAR = 0.01
"""A KL divergence this near to where the learning rate changes may be on either side of it."""


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) for one vector, with the parts that the reference asks for."""

    def __init__(self, weights: Sequence[Tensor], lr: float, eps: float) -> None:
        (self.weights,) = weights
        self.param_groups: list[dict[str, float]] = [{"lr": lr, "eps": eps}]
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        self.weights.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Moves the weights by their gradient's first moment over the root of its second."""
        s, group, g = self.state[self.weights], self.param_groups[0], self.weights.grad
        assert g is not None
        s["step"] += 1
        s["exp_avg"] += 0.1 * (g - s["exp_avg"])
        s["exp_avg_sq"] += 0.001 * (g * g - s["exp_avg_sq"])
        n = float(s["step"])
        first, second = s["exp_avg"] / (1 - 0.9**n), s["exp_avg_sq"] / (1 - 0.999**n)
        self.weights -= group["lr"] * first / (second.sqrt() + group["eps"])


class Follower(ReferencePpo):
    """The reference with an Adam of its own, which also notes whether rounding could have decided a learning
    rate."""

    optimiser = Adam
    close = False

    def adapt_learning_rate(self, kl: float) -> None:
        target = self.recipe.target_kl
        if target is not None:
            self.close |= any(abs(kl - edge) < NEAR * edge for edge in (2 * target, target / 2))
        super().adapt_learning_rate(kl)


@dataclass(frozen=True)
class Both:
    """What one update did to the learner's tensors, and what the reference says that it does."""

    before: dict[str, Tensor]
    after: dict[str, Tensor]
    metrics: PpoMetrics
    reference: Follower
    expected: PpoMetrics


def followed(learner: Ppo, before: dict[str, Tensor], block: RolloutBlock) -> tuple[Follower, PpoMetrics]:
    """Returns the reference after the update that a learner with the tensors `before` makes of `block`."""
    with torch.inference_mode(False), torch.enable_grad():
        t = {k: v.clone() for k, v in before.items()}
        nets = copy.deepcopy(learner.networks)
        nets.load_state_dict(
            {k.removeprefix("networks."): v for k, v in t.items() if k.startswith("networks.")}
        )
        mirror = learner.symmetry
        r = Follower(nets, learner.recipe, mirror, learner._root)
        r.updates = int(t["scalars"][1])
        r.adam.param_groups[0]["lr"] = float(t["scalars"][0])
        moments = {k: t[f"adam.{k}"].double().clone() for k in ("exp_avg", "exp_avg_sq")}
        r.adam.state[r.weights] = {"step": torch.tensor(float(t["adam.step"])), **moments}
        for stats, name in ((r.obs_stats, "obs_normalizer"), (r.critic_stats, "critic_normalizer")):
            stats.mean, stats.var = t[f"{name}.mean"].double(), t[f"{name}.var"].double()
            stats.count = float(t[f"{name}.count"])
        own = type(block)(**{k: v.clone() for k, v in vars(block).items()})
        return r, r.update(own)


def faults(both: Both) -> Iterator[Found]:
    """Says where an update is not the reference's."""
    shapes = [k for k in both.before if k.startswith("networks.")]
    names = [f"networks.{n}" for n in both.reference.parameters()]
    assert sorted(names) == sorted(shapes)
    with torch.inference_mode(False):
        expected = {k: v.detach().numpy() for k, v in both.reference.parameters().items()}
    start, end = ({k: t[k].double().numpy() for k in names} for t in (both.before, both.after))
    for part in ("actor", "critic", "log_std"):
        chosen = [n for n in names if n.startswith(f"networks.{part}")]
        moved = np.concatenate([(end[n] - start[n]).ravel() for n in chosen])
        asked = np.concatenate([(expected[n.removeprefix("networks.")] - start[n]).ravel() for n in chosen])
        gap = float(np.linalg.norm(moved - asked)) / max(float(np.linalg.norm(asked)), 1e-9)
        if not gap < APART:
            along = float(moved @ asked / max(asked @ asked, 1e-18))
            name = {"log_std": "exploration"}.get(part, part)
            yield Found(
                f"An update moves the {name} otherwise than PPO does: {100 * gap:.1f}% of the step is off "
                f"({along:.2f} of it along the right one)."
            )
    r = both.reference
    held = r.adam.state[r.weights]
    for field, name in (("exp_avg", "mean of its gradients"), ("exp_avg_sq", "mean of their squares")):
        own, right = (x.double().numpy() for x in (both.after[f"adam.{field}"], held[field]))
        gap = float(np.linalg.norm(own - right)) / max(float(np.linalg.norm(right)), 1e-18)
        if not gap < MOMENTS:
            yield Found(f"After an update Adam's {name} is {100 * gap:.0f}% off: gradients are other ones.")
    for stats, name in ((r.obs_stats, "obs_normalizer"), (r.critic_stats, "critic_normalizer")):
        for field in ("mean", "var", "count"):
            own = np.asarray(both.after[f"{name}.{field}"], np.float64)
            right = np.asarray(getattr(stats, field), np.float64)
            scale = np.sqrt(np.asarray(stats.var)) if field == "mean" else np.abs(right)
            if not (np.abs(own - right) <= 1e-3 * scale + 1e-5).all():
                what = f"the {name.replace('_', ' ')}'s {field}"
                text = f"After an update {what} is not that of the observations it took in."
                yield Found(text, cause="normaliser")
    for name, value in asdict(both.expected).items():
        said = float(getattr(both.metrics, name))
        if not math.isclose(said, value, rel_tol=0.02, abs_tol=2e-3):
            yield Found(f"An update says {name} {said:.4g} where it is {value:.4g}.", cause="bookkeeping")


def look(case: Case) -> list[Found]:
    """Follows one update on what was collected, where there is a robot, and one on a block of extremes."""
    found: list[Found] = []
    if case.record.training_plant is not None:
        it = iterated(case)[0]
        kind = MemoryBlock if "since" in it.block else RolloutBlock
        block = kind(**{k: torch.from_numpy(v) for k, v in it.block.items()})
        learner = learner_of(case, case.seed)
        learner.recipe = it.recipe
        reference, expected = followed(learner, it.before, block)
        said = list(faults(Both(it.before, it.after, it.metrics, reference, expected)))
        found += [] if reference.close else said
    return found or _extremes(case, WAYS) or _extremes(case, UNCLIPPED)


def _extremes(case: Case, ways: Sequence[Mapping[str, Any]]) -> list[Found]:
    """Ratios and values on both sides of their clips, and exploration at its bounds; the first of `ways` to
    change the recipe, and where rounding could have moved the learning rate, the next."""
    for changes in ways:
        learner = learner_of(case, case.seed + 1)
        learner.recipe = learner.recipe.model_copy(update=changes)
        recipe = learner.recipe
        with learning():
            block = extreme_block(learner, recipe, case)
            before = copied(learner)
            learner.update(block)
        reference, expected = followed(learner, before, block)
        said = list(faults(Both(before, copied(learner), learner.metrics(), reference, expected)))
        if not reference.close or not said:
            return said
    return said


def extreme_block(learner: Ppo, recipe: Recipe, case: Case) -> RolloutBlock:
    """Makes a block of random samples, and a learner that has moved since they were collected."""
    g = case.numbers("updates")
    contract = case.plan.task.contract
    widths = (contract.observation_size, contract.critic_size, contract.action.size)
    horizon, envs = 16, recipe.minibatches * -(-64 // recipe.minibatches)  # minibatches divide it
    size = horizon * envs

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(g.normal(size=shape).astype(np.float32))

    last = {n: learner.networks.get_submodule(n)[-1] for n in ("actor", "critic")}  # type: ignore[index]
    with torch.no_grad():
        last["actor"].weight.mul_(10)
        last["critic"].bias.fill_(5.0)
        learner.log_std[::2] = math.log(recipe.min_std) + 1e-4
        learner.log_std[1::2] = math.log(recipe.max_std) - 1e-4
    for normalizer, width in zip((learner.obs_normalizer, learner.critic_normalizer), widths, strict=False):
        normalizer.update(3 * normal(100, width) + 1)
    block = RolloutBlock.empty(horizon, envs, *widths, len(contract.rewards))
    block = with_memory(block, recipe.remembers, learner.mirrors)
    obs, critic = 2 * normal(size, widths[0]), 2 * normal(size, widths[1])
    block.flat("obs").copy_(obs)
    mean = learner.mean_of(features(learner, block, g))
    action = mean + learner.log_std.exp() * normal(size, widths[2])
    log_prob = learner.networks.log_prob(mean, action)
    value = learner.value(critic)
    filled = {
        "critic": critic,
        "action": action,
        "mean": mean + 0.05 * normal(*mean.shape),
        "log_prob": log_prob + 0.2 * normal(size),
        "value": value + 0.1 * normal(size),
        "returns": value + normal(size),
        "advantage": 3 * normal(size) + 1,
    }
    for name, x in filled.items():
        block.flat(name).copy_(x)
    return block


def features(learner: Ppo, block: RolloutBlock, numbers: np.random.Generator) -> Tensor:
    """Returns what the actor's layers read [T * N, inputs] of a block's observations. Where the policy has a
    memory, what was before the block is made up, and so are episodes that begin in it."""
    if not isinstance(block, MemoryBlock):
        return learner.normal(block.flat("obs"))
    memory = learner.memory
    before = block.earlier[: -len(block.obs)] if memory.kind == "window" else block.earlier
    before.copy_(torch.from_numpy(numbers.normal(size=tuple(before.shape)).astype(np.float32)))
    most = memory.size - 1 if memory.kind == "window" else 1
    for t, begins in enumerate(torch.from_numpy(numbers.random(tuple(block.since.shape)) < BEGINS)):
        earlier = block.since[t - 1] + 1 if t else torch.full_like(block.since[0], most)
        block.since[t] = torch.where(begins, 0, earlier.clamp_max(most))
    if memory.kind == "window":
        return learner.normal(windows(block, memory.size)).flatten(2).flatten(0, 1)
    x, own = learner.normal(block.obs), dict(learner.networks.named_parameters())
    unit = {k: v for k, v in own.items() if k.startswith("memory.")}
    states = gru(unit, x.transpose(0, 1), block.earlier[0], block.since.T).transpose(0, 1)
    return torch.cat([x, states], 2).flatten(0, 1)


DETECTORS = (
    Detector(
        name="update",
        kind="proof",
        cause="learning",
        asks="Does an update move weights, exploration and normalisers as PPO with the declared recipe does?",
        statistic="steps of actor, critic and exploration, moments of observations and the update's own "
        "figures against the reference in double precision, on a collected block and on one of extremes",
        threshold="2% of a step (clean runs: below 0.4%), 0.1% of moments, 2% of figures: rounding",
        means="The policy was not trained by the recipe that the run states.",
        remedy="Run tests/learners, which hold loss, gradient and update to the reference apart.",
        look=look,
        needs=("ppo",),
    ),
)
