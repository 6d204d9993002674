"""A policy that remembers: whose memory it is, when it begins anew, and what is learned from a block."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from surefoot.api import Policy as NumpyPolicy
from surefoot.audits.slow_memory import SlowMemory
from surefoot.contract import Memory, Recipe, SeedPlan, SurefootError
from surefoot.learners import Ppo, Recall, symmetry
from surefoot.learners.ppo_reference import ReferencePpo
from surefoot.policy import PolicyBundle, read_policy
from surefoot.rollout import RolloutBlock, with_memory
from surefoot.training import collect
from surefoot.training.plan_makers import make_plan

KINDS = ("window:3", "gru:8")
CPU = torch.device("cpu")
CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
)
TASK = tiny.walk()
CONTRACT = TASK.contract
WIDTHS = (CONTRACT.observation_size, CONTRACT.critic_size, CONTRACT.action.size, len(CONTRACT.rewards))
SEEDS = SeedPlan(root=4, families=4, envs=16)


def learner(memory: str, device: torch.device = CPU, **recipe: Any) -> Ppo:
    r = Recipe(**{**TASK.recipe.model_dump(), "memory": memory, **recipe})
    ppo = Ppo(CONTRACT, r, symmetry(CONTRACT, TASK.robot, TASK.scan, device), SEEDS, device)
    ppo.networks.actor[-1].weight.mul_(10)  # means that differ from sample to sample
    return ppo


def block_for(ppo: Ppo, envs: int, horizon: int = 8) -> RolloutBlock:
    empty = RolloutBlock.empty(horizon, envs, *WIDTHS, ppo.device)
    return with_memory(empty, ppo.memory, ppo.mirrors)


def ends(horizon: int, envs: int, seed: int) -> Tensor:
    """Episodes that end here and there, some in the last step, some twice in a block."""
    return torch.rand(horizon, envs, generator=torch.Generator().manual_seed(seed)) < 0.2


def lived(ppo: Ppo, obs: Tensor, over: Tensor, horizon: int = 8) -> tuple[Tensor, Recall]:
    """Means [S, N, A] that a recall acts with in S steps, block after block of `horizon`, of observations
    [S, N, O] where episodes end as `over` [S, N] says, now by a fall and now by time."""
    block = block_for(ppo, obs.shape[1], horizon)
    recall = ppo.recall(block)
    assert recall is not None
    out = []
    for k in range(0, len(obs), horizon):
        recall.begin()
        for t in range(horizon):
            block.obs[t] = obs[k + t]
            out.append(recall.mean(block.obs[t]))
            block.terminated[t], block.truncated[t] = over[k + t] & (t % 2 == 0), over[k + t] & (t % 2 == 1)
        recall.end()
    return torch.stack(out), recall


def acted(ppo: Ppo, obs: Tensor, over: Tensor) -> Tensor:
    return lived(ppo, obs, over)[0]


def observations(steps: int, envs: int, seed: int = 1) -> Tensor:
    return torch.randn(steps, envs, WIDTHS[0], generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("memory", KINDS)
def test_memory_never_leaks_between_environments_nor_out_of_an_episode(memory: str) -> None:
    """Everything that another environment saw, or this one before its episode began, is changed: the policy
    acts as it did, to the bit. What it saw earlier in the episode is changed: it does not."""
    ppo, over = learner(memory), torch.zeros(24, 6, dtype=torch.bool)
    over[10, 2], over[15, 3], over[17] = True, True, True  # the second one at a block's end
    obs = observations(24, 6)
    means = acted(ppo, obs, over)
    other = observations(24, 6, seed=2)
    others = obs.clone()
    others[:, [0, 1, 4, 5]] = other[:, [0, 1, 4, 5]]
    assert torch.equal(acted(ppo, others, over)[:, 2:4], means[:, 2:4])
    for env, last in ((2, 10), (3, 15), (0, 17)):
        before = obs.clone()
        before[: last + 1, env] = other[: last + 1, env]
        again = acted(ppo, before, over)
        assert torch.equal(again[last + 1 :, env], means[last + 1 :, env])
        assert not torch.allclose(again[: last + 1, env], means[: last + 1, env], atol=1e-3)
        within = obs.clone()
        within[last + 1, env] = other[last + 1, env]
        changed = acted(ppo, within, over)[last + 2, env]
        assert not torch.allclose(changed, means[last + 2, env], atol=1e-5)


@pytest.mark.parametrize("memory", [*KINDS, "window:12"])
def test_a_recall_remembers_what_the_definition_says_over_blocks_and_ends(memory: str) -> None:
    """Also of a window that is longer than the block."""
    ppo, obs, over = learner(memory), observations(24, 5), ends(24, 5, seed=3)
    over[:, 0] = False
    begins = torch.cat([torch.ones(1, 5, dtype=torch.bool), over[:-1]]).numpy()
    weights = {
        k.removeprefix("networks."): v.double().numpy()
        for k, v in ppo.tensors().items()
        if k.startswith("networks.memory.")
    }
    slow = SlowMemory(ppo.memory)
    normal = lambda x: ppo.normal(torch.from_numpy(x).float()).double().numpy()  # noqa: E731
    features = slow.steps(weights, normal, obs.double().numpy(), begins)
    expected = ppo.mean_of(torch.from_numpy(features).float())
    torch.testing.assert_close(acted(ppo, obs, over), expected, atol=1e-5, rtol=1e-5)


def test_a_mirrored_sequence_begins_with_the_state_of_the_mirrored_episode() -> None:
    ppo, obs, over = learner("gru:8"), observations(24, 5), ends(24, 5, seed=4)
    assert ppo.symmetry is not None
    _, recall = lived(ppo, obs, over)
    _, image = lived(ppo, ppo.symmetry.observation(obs), over)
    torch.testing.assert_close(recall.kept()[:, 1], image.kept()[:, 0])
    assert not torch.allclose(recall.kept()[:, 1], recall.kept()[:, 0], atol=1e-2)


@pytest.mark.parametrize("engine", ["stride", "mujoco"])
@pytest.mark.parametrize("memory", KINDS)
def test_the_first_ratio_is_one(memory: str, engine: str) -> None:
    """In compiled environments and in those that are stepped, in a block in which episodes end."""
    plan = make_plan("tiny:walk", overrides={"memory": memory}, engine=engine)
    ppo, env = learner(memory), plan.environments(range(16))
    block = block_for(ppo, 16, plan.recipe.horizon)
    collect(env, ppo, block, 0.97, 0.9)
    late = env.snapshot()
    late["task.age"][::2] = env.episode_steps - 5 - torch.arange(8)
    env.restore(late)
    collect(env, ppo, block, 0.97, 0.9)
    env.close()
    assert int(block.truncated.sum()) == 8
    ppo.update(block)
    assert ppo.metrics().first_ratio_error < 1e-5


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("mirror", [True, False])
@pytest.mark.parametrize("memory", KINDS)
def test_an_update_is_that_of_the_unrolled_reference_in_double_precision(
    memory: str, mirror: bool, device: str
) -> None:
    """The first minibatch's gradient, entry by entry, and a whole update: sequences cut at ends, states of
    the block's start, mirrored ones with their own."""
    where = torch.device(device)
    ppo = learner(memory, where, mirror=mirror, epochs=2, minibatches=2, target_kl=None)
    g = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g).to(where)

    ppo.obs_normalizer.update(2 * normal(100, WIDTHS[0]) + 0.5)
    ppo.critic_normalizer.update(2 * normal(100, WIDTHS[1]) - 0.5)
    block: Any = block_for(ppo, 16)
    block.earlier.copy_(normal(*block.earlier.shape))
    block.obs.copy_(normal(*block.obs.shape))
    over = ends(8, 16, seed=6).to(where)
    most = 2 if memory.startswith("window") else 1
    block.since[0] = torch.arange(16, device=where) % (most + 1)
    for t in range(1, 8):
        block.since[t] = torch.where(over[t - 1], 0, (block.since[t - 1] + 1).clamp_max(most))
    block.critic.copy_(normal(*block.critic.shape))
    for name, width in (("mean", 12), ("action", 12)):
        getattr(block, name).copy_(0.3 * normal(8, 16, width))
    block.log_prob.copy_(ppo.networks.log_prob(block.flat("mean"), block.flat("action")).view(8, 16))
    block.advantage.copy_(normal(8, 16))
    block.value.copy_(normal(8, 16))
    block.returns.copy_(normal(8, 16))

    image = symmetry(CONTRACT, TASK.robot, TASK.scan, CPU)
    reference = ReferencePpo(copy.deepcopy(ppo.networks).to(CPU), ppo.recipe, image, SEEDS.root)
    for stats, own in (
        (reference.obs_stats, ppo.obs_normalizer),
        (reference.critic_stats, ppo.critic_normalizer),
    ):
        stats.mean, stats.var = own.mean.double().cpu(), own.var.double().cpu()
        stats.count = float(own.count)
    gradients = []
    step = reference.step

    def noted(loss: Tensor) -> float:
        reference.adam.zero_grad()
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        gradients.append(reference.weights.grad.clone())  # type: ignore[union-attr]
        return step(loss)

    reference.step = noted  # type: ignore[method-assign]
    update = ppo.bind(block)
    update.begin()
    update.differentiate()
    own = ppo.state.layout.natural(update.gradient).cpu()
    expected = reference.update(type(block)(**{k: v.cpu() for k, v in vars(block).items()}))
    scale = float(gradients[0].abs().max())
    torch.testing.assert_close(own.double(), gradients[0], atol=2e-5 * scale, rtol=2e-4)
    if memory.startswith("gru"):
        parts = dict(zip(reference.parameters(), torch.split(gradients[0], [
            p.numel() for p in reference.parameters().values()
        ]), strict=True))  # fmt: skip
        assert all(float(parts[f"memory.{k}"].abs().max()) > 1e-3 * scale for k in ("input", "state"))
    ppo.unbind()
    ppo.update(block)
    assert ppo.metrics().kl == pytest.approx(expected.kl, rel=1e-2)
    moved = torch.cat([p.detach().reshape(-1) for p in ppo.networks.parameters()]).double().cpu()
    torch.testing.assert_close(moved, reference.weights.detach(), atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("memory", KINDS)
def test_a_bundle_acts_as_its_learner_alone_among_others_and_in_numpy(memory: str, tmp_path: Any) -> None:
    ppo, obs = learner(memory), observations(8, 5)
    plan = make_plan("tiny:walk", overrides={"memory": memory})
    bundle = PolicyBundle(plan.policy_card(), ppo.policy_tensors())
    bundle.save(tmp_path / "policy.safetensors")
    again, plain = read_policy(tmp_path / "policy.safetensors"), NumpyPolicy.load(tmp_path)
    assert again.card.memory == memory
    never = torch.zeros(8, 5, dtype=torch.bool)
    expected = acted(ppo, obs, never)
    nobody = torch.zeros(5, dtype=torch.int64)
    state, kept, one = again.start(nobody, nobody), plain.start(5), plain.start()
    for t in range(8):
        action, state = again(obs[t], state)
        torch.testing.assert_close(action, expected[t], atol=1e-5, rtol=1e-5)
        told, kept = plain.act(obs[t].numpy(), kept)
        np.testing.assert_allclose(told, action.numpy(), atol=1e-5)
        alone, one = plain.act(obs[t, 3].numpy(), one)
        np.testing.assert_allclose(alone, told[3], atol=1e-5)
    with pytest.raises(SurefootError, match="has a memory"):
        plain(obs[0].numpy())


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    for text in ("window", "window:1", "window:-3", "gru:0", "lstm:8", "gru:x", ""):
        with pytest.raises(SurefootError, match="--memory is"):
            Memory.parse(text)
    for changes, says in (
        ({"envs": 15, "families": 5, "minibatches": 2, "memory": "gru:8"}, "whole sequences"),
        ({"precision": "bf16", "memory": "gru:8"}, "too coarse"),
    ):
        with pytest.raises(SurefootError, match=says):
            Recipe(**{**TASK.recipe.model_dump(), **changes})
    remembering = {"memory": "window:3"}
    for options, says in (
        ({"learner": "cleanrl"}, "trains a policy that sees one observation"),
        ({"processes": 2}, "one process"),
    ):
        with pytest.raises(SurefootError, match=says):
            make_plan("tiny:walk", overrides=remembering, **options)  # type: ignore[arg-type]


def test_memory_is_treatment_and_none_is_what_it_was_before() -> None:
    plain, none = make_plan("tiny:walk"), make_plan("tiny:walk", overrides={"memory": "none"})
    assert (plain.training_id, plain.interface_id) == (none.training_id, none.interface_id)
    assert "memory" not in plain.recipe.model_dump()
    assert "memory" not in plain.policy_card().model_dump()
    for memory in KINDS:
        other = make_plan("tiny:walk", overrides={"memory": memory})
        assert other.measurement_id == plain.measurement_id
        assert other.interface_id != plain.interface_id
        assert other.training_id != plain.training_id
        assert other.accounting.buffer_bytes > plain.accounting.buffer_bytes
        assert other.as_json()["memory"]["sequence_steps"] == (16 if memory.startswith("gru") else 1)
