"""PPO says what it did, notices when collection and learning disagree, and comes back from disk exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import tiny
from surefoot.compute.warp.launch import Launch
from surefoot.contract import Recipe, SeedPlan
from surefoot.env import VecEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Normalizer, Ppo, PpoMetrics, Symmetry, gradient, networks, symmetry
from surefoot.learners import ppo as ppo_module
from surefoot.learners import update as update_module
from surefoot.learners.kernels import (
    GROUP,
    KL,
    PLAIN,
    RATIO_ERROR,
    ROWS,
    VALUE_LOSS,
    adam,
    elu_back,
    gather,
    moments,
    sum_squares,
)
from surefoot.learners.networks import ActorCritic, init_networks, tf32
from surefoot.learners.symmetry import Reflection
from surefoot.learners.update import PpoUpdate
from surefoot.policy.bundle import PolicyBundle, policy_card
from surefoot.rollout import RolloutBlock
from surefoot.tasks import task
from surefoot.tasks.registry import BUILT_IN
from surefoot.training import collect

CPU = torch.device("cpu")
TASK = tiny.walk()
CONTRACT = TASK.contract
SEEDS = SeedPlan(root=4, families=4, envs=16)
MIRRORS = {n: (t, symmetry(t.contract, t.robot, t.scan, CPU)) for n in BUILT_IN for t in [task(n)]}
WIDTHS = (CONTRACT.observation_size, CONTRACT.critic_size, CONTRACT.action.size, len(CONTRACT.rewards))


def learner(mirror: bool = True, seed: int = 4, align: int | None = None, **recipe: Any) -> Ppo:
    r = TASK.recipe.model_copy(update={"mirror": mirror, **recipe})
    return Ppo(
        CONTRACT,
        Recipe(**r.model_dump()),
        MIRRORS["walk-flat"][1],
        SEEDS.model_copy(update={"root": seed}),
        CPU,
        align,
    )


@pytest.fixture(scope="module")
def env() -> Iterator[VecEnv]:
    torch.set_num_threads(1)
    sampler = TrainSampler(CONTRACT, TASK.robot, SEEDS, 50.0, None, CPU)
    env = VecEnv(TASK, sampler, TASK.on("mujoco").plant)
    yield env
    env.close()


@pytest.fixture(scope="module")
def rolled(env: VecEnv) -> tuple[RolloutBlock, dict[str, Tensor]]:
    """A real block, and the learner that collected it after one update, so that its normaliser is at work."""
    ppo = learner()
    block = RolloutBlock.empty(24, 16, *WIDTHS)
    for k in range(2):
        collect(env, ppo, block, 0.97, 0.9)
        if k == 0:
            ppo.update(block)
    assert ppo.obs_normalizer.mean.abs().max() > 0.1, "an idle normaliser could not be caught"
    return block, ppo.tensors()


def restored(rolled: tuple[RolloutBlock, dict[str, Tensor]], **recipe: Any) -> tuple[Ppo, RolloutBlock]:
    ppo = learner(**recipe)
    ppo.load(rolled[1])
    block = RolloutBlock(**{k: v.clone() for k, v in vars(rolled[0]).items()})
    return ppo, block


def learn(ppo: Ppo, block: RolloutBlock) -> PpoMetrics:
    ppo.update(block)
    return ppo.metrics()


# ---- the first ratio


@pytest.mark.parametrize("mirror", [True, False])
def test_first_ratio_is_one(rolled: tuple[RolloutBlock, dict[str, Tensor]], mirror: bool) -> None:
    ppo, block = restored(rolled, mirror=mirror)
    assert learn(ppo, block).first_ratio_error <= 1e-5


def _normalise_early(ppo: Ppo, block: RolloutBlock) -> None:
    ppo.obs_normalizer.update(block.flat("obs"))


def _step_early(ppo: Ppo, block: RolloutBlock) -> None:
    with torch.no_grad():
        ppo.networks.actor[-1].bias.add_(1e-3)


def _wrong_log_prob(ppo: Ppo, block: RolloutBlock) -> None:
    block.log_prob += 1e-3


def _clipped_action(ppo: Ppo, block: RolloutBlock) -> None:
    block.action.clamp_(-0.5, 0.5)


def _shifted_observation(ppo: Ppo, block: RolloutBlock) -> None:
    block.obs[:-1] = block.obs[1:].clone()


@pytest.mark.parametrize(
    "bug", [_normalise_early, _step_early, _wrong_log_prob, _clipped_action, _shifted_observation]
)
def test_first_ratio_catches_a_planted_bug(
    rolled: tuple[RolloutBlock, dict[str, Tensor]], bug: Callable[[Ppo, RolloutBlock], None]
) -> None:
    ppo, block = restored(rolled)
    bug(ppo, block)
    assert learn(ppo, block).first_ratio_error > 1e-4


def test_normaliser_stays_frozen_until_the_update_is_over(
    rolled: tuple[RolloutBlock, dict[str, Tensor]],
) -> None:
    ppo, block = restored(rolled)
    seen: list[Tensor] = []
    update = ppo.bind(block)
    differentiate = update.differentiate

    def watch() -> None:
        seen.append(ppo.obs_normalizer.mean.clone())
        differentiate()

    update.differentiate = watch  # type: ignore[method-assign]
    before = ppo.obs_normalizer.mean.clone()
    ppo.update(block)
    assert len(seen) == ppo.recipe.epochs * ppo.recipe.minibatches
    assert all(torch.equal(m, before) for m in seen)
    assert not torch.equal(ppo.obs_normalizer.mean, before)


# ---- learning


def bandit(ppo: Ppo, direction: Tensor, seed: int = 0, size: int = 256) -> RolloutBlock:
    """One-step episodes, actions of the policy, an advantage that grows along `direction`."""
    g = torch.Generator().manual_seed(seed)
    block = RolloutBlock.empty(8, size // 8, *WIDTHS)
    obs, critic = torch.randn(size, WIDTHS[0], generator=g), torch.randn(size, WIDTHS[1], generator=g)
    with torch.no_grad():
        action, mean, log_prob = ppo.act(obs, torch.randn(size, WIDTHS[2], generator=g))
        advantage = (action - mean) @ direction
        filled = {
            "obs": obs, "critic": critic, "action": action, "mean": mean, "log_prob": log_prob,
            "advantage": advantage, "value": ppo.value(critic), "returns": ppo.value(critic) + advantage,
        }  # fmt: skip
    for name, x in filled.items():
        block.flat(name).copy_(x)
    return block


def test_the_mean_moves_where_the_advantage_points() -> None:
    ppo = learner(mirror=False, normalise=False)
    direction = torch.zeros(WIDTHS[2])
    direction[3], direction[7] = 1.0, -1.0
    start = bandit(ppo, direction).flat("mean").mean(0)
    for seed in range(20):
        ppo.update(bandit(ppo, direction, seed))
    moved = bandit(ppo, direction).flat("mean").mean(0) - start
    assert moved[3] > 0.2
    assert moved[7] < -0.2
    others = [k for k in range(WIDTHS[2]) if k not in (3, 7)]
    assert moved[others].abs().max() < 0.5 * moved[3]


def test_mirroring_teaches_both_sides() -> None:
    """What is good for a joint is learned for its mirror image too, from the same samples."""
    ppo = learner(normalise=False)
    assert ppo.symmetry is not None
    other = int(ppo.symmetry.action.index[0])
    sign = float(ppo.symmetry.action.sign[0])
    direction = torch.zeros(WIDTHS[2])
    direction[0] = 1.0
    start = bandit(ppo, direction).flat("mean").mean(0)
    for seed in range(20):
        ppo.update(bandit(ppo, direction, seed))
    moved = bandit(ppo, direction).flat("mean").mean(0) - start
    assert other != 0
    assert moved[0] > 0.1
    assert sign * moved[other] > 0.1


def test_the_value_function_fits_its_targets() -> None:
    ppo = learner(mirror=False, normalise=False)
    block = bandit(ppo, torch.zeros(WIDTHS[2]))
    block.flat("returns").copy_(block.flat("critic")[:, 0])
    losses = [learn(ppo, block).value_loss for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    ("target", "bound"), [(1e-12, "min_learning_rate"), (1e9, "max_learning_rate"), (None, "learning_rate")]
)
def test_learning_rate_follows_the_kl_within_its_bounds(target: float | None, bound: str) -> None:
    ppo = learner(mirror=False, target_kl=target)
    rates = [learn(ppo, bandit(ppo, torch.ones(WIDTHS[2]))).learning_rate for _ in range(10)]
    r = ppo.recipe
    assert rates[-1] == pytest.approx(getattr(r, bound))
    assert all(r.min_learning_rate <= x <= r.max_learning_rate for x in rates)
    assert float(ppo.state.scalars[0]) == rates[-1]


def test_learning_rate_turns_round() -> None:
    ppo = learner(target_kl=0.02, learning_rate=1e-3)
    update = ppo.bind(bandit(ppo, torch.ones(WIDTHS[2])))

    def rate_after(kl: float) -> float:
        update._totals[KL], update._totals[PLAIN] = 100 * kl, 100
        update.step()
        return float(ppo.state.scalars[0])

    assert rate_after(0.05) == pytest.approx(1e-3 / 1.5)
    assert rate_after(0.03) == pytest.approx(1e-3 / 1.5), "between half and twice the target it stays"
    assert rate_after(float("nan")) == pytest.approx(1e-3 / 1.5)
    assert rate_after(0.005) == pytest.approx(1e-3)


def test_kl_is_measured_on_samples_that_are_not_mirrored() -> None:
    """A policy that is not symmetric differs from itself on mirrored samples before it has learned
    anything."""
    ppo = learner(target_kl=None, learning_rate=1e-12, normalise=False)
    with torch.no_grad():
        ppo.networks.actor[-1].weight.mul_(10)
    block = bandit(ppo, torch.ones(WIDTHS[2]))
    s = ppo.symmetry
    assert s is not None
    with torch.no_grad():
        mirrored = ppo.networks.actor(s.observation(block.flat("obs"))) - s.action(block.flat("mean"))
        assert (mirrored.square().sum(1) / (2 * ppo.recipe.init_std**2)).mean() > 0.1, (
            "it is symmetric by accident"
        )
    metrics = learn(ppo, block)
    assert metrics.kl < 1e-6
    assert metrics.first_ratio_error < 1e-5


def test_kl_is_that_of_the_two_gaussians(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    ppo, block = restored(rolled, epochs=1, minibatches=1, mirror=False)
    old = torch.distributions.Normal(block.flat("mean"), ppo.networks.log_std.exp())
    update = ppo.bind(block)
    update.begin()
    ppo.networks.actor[-1].bias.add_(0.1)
    ppo.networks.log_std.add_(0.05)
    torch.exp(-ppo.networks.log_std, out=update._inverse_std)  # as a step does
    new = torch.distributions.Normal(
        ppo.networks.actor(ppo.obs_normalizer(block.flat("obs"))), ppo.networks.log_std.exp()
    )
    expected = float(torch.distributions.kl_divergence(old, new).sum(1).mean())
    update.differentiate()
    assert expected > 1e-3
    assert float(update._totals[KL]) / len(old.mean) == pytest.approx(expected, rel=1e-4)


def test_log_prob_is_that_of_the_gaussian() -> None:
    nets = init_networks(*WIDTHS[:3], (8,), 0.7, seed=3)
    mean, action = torch.randn(5, WIDTHS[2]), torch.randn(5, WIDTHS[2])
    expected = torch.distributions.Normal(mean, nets.log_std.exp()).log_prob(action).sum(1)
    assert torch.allclose(nets.log_prob(mean, action), expected, atol=1e-5)


@pytest.mark.parametrize("poison", ["advantage", "returns", "log_prob"])
def test_a_step_with_a_non_finite_gradient_is_left_out_and_counted(poison: str) -> None:
    ppo = learner(mirror=False, normalise=False, minibatches=4, epochs=3)
    block = bandit(ppo, torch.ones(WIDTHS[2]))
    if poison == "advantage":  # normalised over the whole block: every step is spoiled
        block.advantage[0, 0] = float("nan")
        spoiled = 12
    else:  # one minibatch of each epoch
        getattr(block, poison)[0, 0] = float("inf") if poison == "returns" else float("nan")
        spoiled = 3
    before = ppo.tensors()
    metrics = learn(ppo, block)
    assert metrics.skipped_steps == spoiled
    after = ppo.tensors()
    assert all(torch.isfinite(v).all() for k, v in after.items() if k.startswith(("networks.", "adam.")))
    moved = any(not torch.equal(after[k], v) for k, v in before.items() if k.startswith("networks.actor"))
    assert moved == (spoiled < 12)


def test_value_clipping_bounds_the_step_that_pays() -> None:
    loss: dict[float | None, float] = {}
    slope: dict[float | None, Tensor] = {}
    for clip in (None, 0.2):
        ppo = learner(value_clip=clip, mirror=False, epochs=1, minibatches=1)
        ppo.networks.critic[-1].weight.zero_()
        ppo.networks.critic[-1].bias.fill_(1.0)  # every value is 1
        block = bandit(ppo, torch.ones(WIDTHS[2]), size=8)
        block.flat("value").copy_(torch.tensor([0, 0, 0.95] + [1.0] * 5))
        block.flat("returns").copy_(torch.tensor([2, -2, 0.9] + [1.0] * 5))
        update = PpoUpdate(ppo.recipe, None, 4, ppo.state, block, shards=1)
        update.begin()
        update.differentiate()
        loss[clip] = 8 * float(update._totals[VALUE_LOSS])
        slope[clip] = torch.zeros(8)
        slope[clip][update.picks[0].long() // 2] = update._shards[0].critic.by_result[:, 0]
    assert loss[None] == pytest.approx(1 + 9 + 0.1**2)
    # first: 0.2 is further from 2 than 1 is; second: 1 is further from -2 than 0.2 is; third: within the clip
    assert loss[0.2] == pytest.approx(1.8**2 + 9 + 0.1**2)
    assert slope[0.2][0] == 0, "beyond the clip there is nothing to gain"
    assert torch.equal(slope[0.2][1:], slope[None][1:])
    assert slope[None][:3].abs().min() > 0


def test_std_stays_within_its_bounds() -> None:
    ppo = learner(mirror=False, entropy=50.0, init_std=1.3)
    for _ in range(5):
        assert learn(ppo, bandit(ppo, torch.ones(WIDTHS[2]))).std <= ppo.recipe.max_std + 1e-6
    assert float(ppo.networks.log_std.detach().exp().max()) == pytest.approx(ppo.recipe.max_std)


def test_every_sample_is_used_once_per_epoch_and_half_of_them_mirrored() -> None:
    ppo = learner(minibatches=4, epochs=3, normalise=False)
    block = bandit(ppo, torch.ones(WIDTHS[2]))
    label = torch.arange(256, dtype=torch.float32)
    block.flat("value").copy_(label)
    epochs: list[list[int]] = [[], [], []]
    plain, s = 0, ppo.symmetry
    assert s is not None
    update = ppo.bind(block)
    update.begin()
    for k in range(12):
        update.differentiate()
        rows, straight = update.picks[k].long() // 2, update.picks[k] % 2 == 0
        epochs[k // 4] += rows.tolist()
        plain += int(straight.sum())
        assert torch.equal(update.obs[straight], block.flat("obs")[rows[straight]])
        assert torch.equal(update.critic_obs[~straight], s.critic(block.flat("critic")[rows[~straight]]))
        update.step()
    assert [sorted(x) for x in epochs] == [list(range(256))] * 3
    assert len({tuple(x) for x in epochs}) == 3, "each epoch has its own order"
    assert 0.4 < plain / (3 * 256) < 0.6


# ---- symmetry


@pytest.mark.parametrize("name", MIRRORS)
def test_a_mirror_of_a_mirror_is_the_original(name: str) -> None:
    contract, s = MIRRORS[name][0].contract, MIRRORS[name][1]
    assert s is not None
    sizes = (contract.observation_size, contract.critic_size, contract.action.size)
    for reflection, size in zip((s.observation, s.critic, s.action), sizes, strict=True):
        x = torch.randn(7, size)
        assert torch.equal(reflection(reflection(x)), x)
        assert not torch.equal(reflection(x), x)
        assert reflection.sign.abs().eq(1).all()
        assert torch.equal(reflection.index.sort().values, torch.arange(size))


@pytest.mark.parametrize("name", MIRRORS)
def test_terms_are_mirrored_as_the_contract_says(name: str) -> None:
    contract, s = MIRRORS[name][0].contract, MIRRORS[name][1]
    assert isinstance(s, Symmetry)
    at = 0
    signs = {"vector": [1, -1, 1], "pseudovector": [-1, 1, -1], "command": [1, -1, -1], "clock": [-1, -1]}
    for term in (*contract.observation, *contract.privileged):
        here = slice(at, at + term.size)
        assert set(s.critic.index[here].tolist()) == set(range(at, at + term.size)), (
            "a term stays in its place"
        )
        if term.mirror in signs:
            assert s.critic.sign[here].tolist() == signs[term.mirror]
        if term.mirror == "joints":
            assert torch.equal(s.critic.index[here] - at, s.action.index)
            assert torch.equal(s.critic.sign[here], s.action.sign)
        if term.mirror == "scalar":
            assert s.critic.sign[here].tolist() == [1.0] * term.size
        at += term.size
    assert at == len(s.critic.index)
    assert torch.equal(s.critic.index[: contract.observation_size], s.observation.index)


def test_without_mirror_no_sample_is_reflected() -> None:
    ppo = learner(mirror=False)
    assert ppo.symmetry is None
    assert ppo.obs_normalizer.reflection is None


def test_shards_add_up_to_the_whole_minibatch(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    ppo, block = restored(rolled, epochs=1, minibatches=1)

    def differentiated(shards: int) -> tuple[Tensor, Tensor]:
        update = PpoUpdate(ppo.recipe, ppo.symmetry, 4, ppo.state, block, shards)
        update.begin()
        update.differentiate()
        assert len(update._shards) == min(shards, update.size)
        return update.gradient, update._totals[:RATIO_ERROR]  # of which the largest is kept

    whole, found = differentiated(1)
    for shards in (2, 3, 5):
        gradient, again = differentiated(shards)
        assert torch.allclose(gradient, whole, atol=1e-6)
        assert torch.allclose(again, found, atol=1e-6)
        assert torch.equal(gradient, differentiated(shards)[0]), "the same bits, whichever thread is first"
    assert torch.allclose(differentiated(500)[0], whole, atol=1e-6), "more cores than samples"


@pytest.mark.parametrize("columns", [1, 24], ids=["as CUDA does", "as a CPU does"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [GROUP, 75])
def test_the_way_back_through_elu_adds_up_its_columns(rows: int, dtype: torch.dtype, columns: int) -> None:
    g = torch.Generator().manual_seed(rows)
    x, slope = torch.randn(rows, 24, generator=g).to(dtype), torch.randn(rows, 24, generator=g).to(dtype)
    y = torch.nn.functional.elu(x)
    expected = slope.float() * torch.where(y < 0, y.float() + 1, 1.0)
    groups = -(-rows // GROUP)
    sums = torch.full((groups, 30), 7.0)
    Launch(elu_back, groups * 24 // columns, [columns, y, slope, 3, sums], CPU)()
    assert torch.equal(slope, expected.to(dtype))
    for k, part in enumerate(expected.split(GROUP)):
        assert torch.allclose(sums[k, 3:27], part.sum(0), atol=1e-5)
    assert (sums[:, :3] == 7).all()
    assert (sums[:, 27:] == 7).all()


def test_work_can_be_split_as_cuda_splits_it(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    """Several threads to a sample in the gather, one to a parameter in Adam."""
    ppo, block = restored(rolled, epochs=1, minibatches=1)
    update = PpoUpdate(ppo.recipe, ppo.symmetry, 4, ppo.state, block, shards=1)
    update.begin()
    update.differentiate()
    gathered = update.obs.clone(), update.critic_obs.clone()
    update.obs.zero_()
    update.critic_obs.zero_()
    kept = update._shards[0]._gather._kept
    Launch(gather, update.size * 8, [kept[0], 8, *kept[2:]], CPU)()
    assert torch.equal(update.obs, gathered[0])
    assert torch.equal(update.critic_obs, gathered[1])

    norm, decide, whole = update._step
    norm()
    decide()
    before = [t.clone() for t in ppo.state.tensors()]
    whole()
    stepped = [t.clone() for t in ppo.state.tensors()]
    for mine, old in zip(ppo.state.tensors(), before, strict=True):
        mine.copy_(old)
    assert not torch.equal(ppo.state.parameters, stepped[0])
    Launch(adam, ppo.state.layout.size, [1, *whole._kept[1:]], CPU)()
    for mine, other in zip(ppo.state.tensors(), stepped, strict=True):
        assert torch.allclose(mine, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("lanes", "parts"), [(1, 1), (1, 5), (4, 1)])
@pytest.mark.parametrize("size", [7, 16, 1003])
def test_squares_are_added_up_in_parts(size: int, lanes: int, parts: int) -> None:
    x, squares = torch.randn(size, generator=torch.Generator().manual_seed(size)), torch.zeros(parts)
    Launch(sum_squares, parts * lanes, [lanes, x, squares], CPU)()
    # a CPU's threads do not add up together: the part has what its first lane found
    expected = x.square().sum() if lanes == 1 else x[::lanes].square().sum()
    assert float(squares.sum()) == pytest.approx(float(expected), rel=1e-5)


def test_an_update_is_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """58 for two hidden layers and four minibatches: on a GPU each costs microseconds, however small."""
    ppo = learner(epochs=2, minibatches=2, hidden=(32, 32))
    update = PpoUpdate(ppo.recipe, ppo.symmetry, 4, ppo.state, bandit(ppo, torch.ones(WIDTHS[2])), shards=1)
    launches: Counter[str] = Counter()
    call = Launch.__call__

    def counted(launch: Launch) -> None:
        launches[launch._command.kernel.key] += 1
        call(launch)

    monkeypatch.setattr(Launch, "__call__", counted)
    update.run()
    once = {"draw_keys": 1, "draw": 1, "moments": 2, "take_in": 2}
    per_step = {"gather": 1, "elu": 4, "loss": 1, "elu_back": 4, "sum_squares": 1, "decide": 1, "adam": 1}
    assert launches == once | {name: 4 * n for name, n in per_step.items()}
    assert launches.total() == 58


def test_padded_inputs_change_nothing(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    saved = []
    for align in (1, 64):
        ppo, block = restored(rolled, align=align)
        assert (len(ppo.state.parameters) > sum(p.numel() for p in ppo.networks.parameters())) == (align > 1)
        update = ppo.bind(block)
        assert update.obs.shape[1] % align == 0
        weights = [w for net in (update.actor, update.critic) for w in (*net.weight, *net.bias)]
        assert all((w.data_ptr() - ppo.state.parameters.data_ptr()) % (4 * align) == 0 for w in weights)
        ppo.update(block)
        real = ppo.state.layout.natural(ppo.state.parameters).norm()
        assert torch.isclose(ppo.state.parameters.norm(), real), "padding stays zero"
        saved.append(ppo.tensors())
    one, two = saved
    assert {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in two.items()}
    assert update.obs.shape[1] > WIDTHS[0]
    for key in one:
        assert torch.allclose(one[key], two[key], atol=2e-5), key
    narrow, _ = restored(rolled)
    narrow.load(two)
    assert all(torch.equal(v, two[k]) for k, v in narrow.tensors().items()), "saved without padding"


# ---- normaliser

SWAP = Reflection(torch.tensor([1, 0, 2]), torch.tensor([-1.0, -1.0, -1.0]))


@given(st.lists(st.integers(8, 50), min_size=1, max_size=6), st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_normaliser_is_the_mean_and_variance_of_all_data(
    sizes: list[int], seed: int, reflected: bool
) -> None:
    g = torch.Generator().manual_seed(seed)
    batches = [
        torch.randn(n, 3, generator=g) * torch.tensor([1.0, 3.0, 0.1]) + torch.tensor([0.0, 5.0, -2.0])
        for n in sizes
    ]
    normalizer = Normalizer(3, 1e9, SWAP if reflected else None)
    for batch in batches:
        normalizer.update(batch)
    data = torch.cat(batches)
    everything = torch.cat([data, SWAP(data)] if reflected else [data]).double().numpy()
    # the first 1e-4 of a sample is the prior N(0, 1)
    np.testing.assert_allclose(normalizer.mean.numpy(), everything.mean(0), atol=2e-3)
    np.testing.assert_allclose(normalizer.var.numpy(), everything.var(0), atol=1e-2, rtol=2e-3)
    assert float(normalizer.count) == pytest.approx(sum(sizes), abs=1e-3)


@pytest.mark.parametrize("columns", [1, 5], ids=["as CUDA does", "as a CPU does"])
def test_moments_are_those_of_the_columns(columns: int) -> None:
    x = 100 + torch.randn(3 * ROWS + 7, 5, generator=torch.Generator().manual_seed(2))
    sums = torch.zeros(4, 10)
    Launch(moments, 4 * 5 // columns, [columns, x, sums], CPU)()
    off = x.double() - x[0]
    assert torch.allclose(sums.sum(0)[:5].double(), off.sum(0), atol=1e-3)
    assert torch.allclose(sums.sum(0)[5:].double(), off.square().sum(0), rtol=1e-5)


def test_reflected_statistics_are_their_own_mirror_image() -> None:
    normalizer = Normalizer(3, 1e9, SWAP)
    normalizer.update(torch.randn(100, 3) + 2)
    assert torch.allclose(SWAP(normalizer.mean), normalizer.mean)
    assert torch.allclose(normalizer.var[SWAP.index], normalizer.var)
    x = torch.randn(5, 3)
    assert torch.allclose(normalizer(SWAP(x)), SWAP(normalizer(x)), atol=1e-5)


def test_the_normaliser_forgets_beyond_its_window() -> None:
    forgetful, keeper = Normalizer(1, 100), Normalizer(1, 1e9)
    for normalizer in (forgetful, keeper):
        normalizer.update(torch.zeros(1000, 1))
        for _ in range(5):
            normalizer.update(torch.full((100, 1), 8.0))
    assert float(forgetful.mean) == pytest.approx(8 * (1 - 0.5**5), rel=1e-4)
    assert float(keeper.mean) == pytest.approx(8 * 500 / 1500, rel=1e-4)
    assert float(forgetful.count) == 100


def test_a_constant_input_is_not_blown_up() -> None:
    normalizer = Normalizer(1, 1e9)
    normalizer.update(torch.full((10_000, 1), 3.0))
    assert normalizer(torch.tensor([[3.001]])).abs().max() < 2


# ---- initial weights, and exact return


def test_initial_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = learner(seed=8).tensors()
    torch.manual_seed(2)
    torch.randn(100)
    two = learner(seed=8).tensors()
    assert all(torch.equal(one[k], two[k]) for k in one)
    other = learner(seed=9).tensors()
    assert not torch.equal(one["networks.actor.0.weight"], other["networks.actor.0.weight"])


def test_the_global_generator_is_left_untouched() -> None:
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    ppo = learner()
    ppo.update(bandit(ppo, torch.ones(WIDTHS[2])))
    assert torch.equal(torch.get_rng_state(), expected)


def test_first_actions_are_near_the_default_pose() -> None:
    nets = init_networks(*WIDTHS[:3], (32, 32), 0.8, seed=1)
    assert isinstance(nets, ActorCritic)
    assert nets.actor(torch.randn(200, WIDTHS[0])).abs().max() < 0.3


def test_a_learner_comes_back_exactly(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    ppo, block = restored(rolled)
    for _ in range(2):
        ppo.update(block)
    saved = ppo.tensors()
    again = learner(seed=99)  # other weights and, until loaded, other shuffles
    again._root = ppo._root
    again.load(saved)
    assert again.updates == ppo.updates == 3
    first, second = learn(ppo, block), learn(again, block)
    assert first == second
    one, two = ppo.tensors(), again.tensors()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert any(not torch.equal(one[k], saved[k]) for k in one), "saved tensors are copies"


def test_the_optimiser_owns_the_very_weights_that_act(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    """They are views of one flat parameter, through loading, learning and skipped steps."""
    ppo, block = restored(rolled)
    for _ in range(2):
        before = ppo.state.parameters.clone()
        ppo.update(block)
        own = torch.cat([p.detach().reshape(-1) for p in ppo.networks.parameters()])
        assert torch.equal(own, ppo.state.layout.natural(ppo.state.parameters))
        assert not torch.equal(ppo.state.parameters, before)
        block.log_prob[0, 0] = float("nan")


def test_tensors_keep_their_memory() -> None:
    """A captured update, or a recorded launch, goes on working in it."""
    ppo = learner()
    block = bandit(ppo, torch.ones(WIDTHS[2]))
    tensors = [*ppo.state.tensors(), *ppo.networks.parameters()]
    before = [t.data_ptr() for t in tensors]
    update = ppo.bind(block)
    ppo.update(block)
    ppo.load(ppo.tensors())
    ppo.update(block)
    assert ppo.bind(block) is update
    after = [*ppo.state.tensors(), *ppo.networks.parameters()]
    assert before == [t.data_ptr() for t in after]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_update_does_what_the_same_launches_do() -> None:
    cuda = torch.device("cuda")
    mirror = symmetry(CONTRACT, TASK.robot, TASK.scan, cuda)
    block = RolloutBlock(**{k: v.to(cuda) for k, v in vars(bandit(learner(), torch.ones(WIDTHS[2]))).items()})
    captured, launched = (Ppo(CONTRACT, TASK.recipe, mirror, SEEDS, cuda) for _ in range(2))
    start = captured.state.parameters.clone()
    for _ in range(3):
        captured.update(block)
        launched.bind(block).enqueue()
    moved = (launched.state.parameters - start).norm()
    assert moved > 0
    assert (captured.state.parameters - launched.state.parameters).norm() < 1e-3 * moved
    assert captured.updates == launched.updates == 3


class Streams:
    """torch.cuda's streams, of which only the order of what is asked of them is kept."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stack = [self.Stream(self, "main")]

    class Stream:
        device = CPU

        def __init__(self, parent: Streams, name: str) -> None:
            self.parent, self.name = parent, name

        def wait_stream(self, other: Streams.Stream) -> None:
            self.parent.said.append(f"{self.name} waits for {other.name}")

    def current_stream(self, device: torch.device) -> Stream:
        return self.stack[-1]

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.stack.append(stream)
        yield
        self.stack.pop()


def test_actor_and_critic_part_and_meet_again(
    rolled: tuple[RolloutBlock, dict[str, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the critic's passes are on the side stream, between a wait for what they read and one for them."""
    streams = Streams()
    for name in ("current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(streams, name))
    ppo, block = restored(rolled, epochs=1, minibatches=1)
    update = PpoUpdate(ppo.recipe, ppo.symmetry, 4, ppo.state, block, shards=1)
    update.begin()
    update.differentiate()
    alone = update.gradient.clone()
    shard = update._shards[0]
    shard._side = streams.Stream(streams, "side")  # type: ignore[assignment]

    def heard(owner: Any, name: str) -> None:
        do = getattr(owner, name)

        def say() -> None:
            which = {id(shard.actor): "actor", id(shard.critic): "critic"}.get(id(owner), "shard")
            streams.said.append(f"{which}.{name} on {streams.stack[-1].name}")
            do()

        monkeypatch.setattr(owner, name, say)

    for owner in (shard.actor, shard.critic):
        heard(owner, "forward")
        heard(owner, "backward")
    heard(shard, "_gather")
    heard(shard, "_loss")
    update.gradient.zero_()
    update.differentiate()
    assert torch.equal(update.gradient, alone)
    assert streams.said == [
        "shard._gather on main", "side waits for main", "critic.forward on side", "actor.forward on main",
        "main waits for side", "shard._loss on main", "side waits for main", "critic.backward on side",
        "actor.backward on main", "main waits for side",
    ]  # fmt: skip


def test_tf32_is_allowed_and_forbidden_for_a_while() -> None:
    cuda, matmul = torch.device("cuda"), torch.backends.cuda.matmul
    before = matmul.fp32_precision
    with tf32(True, cuda):
        assert matmul.fp32_precision == "tf32"
        with tf32(False, cuda):
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    assert matmul.fp32_precision == before


def test_last_layers_are_never_in_tf32(
    rolled: tuple[RolloutBlock, dict[str, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[bool] = []
    seen: list[tuple[str, int, bool]] = []

    @contextmanager
    def watched(allow: bool, device: torch.device) -> Iterator[None]:
        allowed.append(allow)
        yield
        allowed.pop()

    def heard(owner: Any, name: str) -> None:
        do = getattr(owner, name)

        def product(*factors: Tensor, **out: Tensor) -> Any:
            result = do(*factors, **out)
            seen.append((name, result.shape[1], allowed[-1]))
            return result

        monkeypatch.setattr(owner, name, product)

    for module in (gradient, networks, ppo_module, update_module):
        monkeypatch.setattr(module, "tf32", watched)
    heard(torch.nn.functional, "linear")
    heard(torch, "addmm")
    ppo, block = restored(rolled, precision="tf32", epochs=1, minibatches=1)
    ppo.act(block.obs[0], torch.zeros(16, WIDTHS[2]))
    ppo.value(block.critic[0])
    PpoUpdate(ppo.recipe, ppo.symmetry, 4, ppo.state, block, shards=1).enqueue()
    hidden = [(w, True) for w in ppo.recipe.hidden]
    once = [*hidden, (WIDTHS[2], False), *hidden, (1, False)]
    assert seen == [(name, *x) for name in ("linear", "addmm") for x in once]


def test_acting_and_learning_normalise_to_the_same_bits(
    rolled: tuple[RolloutBlock, dict[str, Tensor]],
) -> None:
    ppo, block = restored(rolled, mirror=False, epochs=1, minibatches=1)
    update = ppo.bind(block)
    update.begin()
    update.differentiate()
    rows = update.picks[0].long() // 2
    assert torch.equal(update.obs, ppo.obs_normalizer(block.flat("obs"))[rows])
    assert torch.equal(update.critic_obs, ppo.critic_normalizer(block.flat("critic"))[rows])


def test_bf16_learns_the_same_to_its_own_rounding() -> None:
    gradients = []
    for precision in ("fp32", "bf16"):
        ppo = learner(precision=precision, mirror=False, epochs=1, minibatches=1)
        block = bandit(ppo, torch.ones(WIDTHS[2]))
        update = ppo.bind(block)
        update.begin()
        update.differentiate()
        gradients.append(update.gradient.clone())
        assert learn(ppo, block).first_ratio_error < (1e-5 if precision == "fp32" else 0.05)
        assert ppo.state.parameters.dtype == torch.float32
    gap = (gradients[1] - gradients[0]).norm() / gradients[0].norm()
    assert 1e-5 < gap < 0.03


def test_clip_fraction_counts_samples_that_are_not_mirrored() -> None:
    ppo = learner(target_kl=None, learning_rate=1e-12, normalise=False)
    with torch.no_grad():
        ppo.networks.actor[-1].weight.mul_(10)
    block = bandit(ppo, torch.ones(WIDTHS[2]))
    assert learn(ppo, block).clip_fraction == 0, "nothing has been learned that could be clipped"


def test_a_policy_bundle_acts_as_the_learner_does(rolled: tuple[RolloutBlock, dict[str, Tensor]]) -> None:
    ppo, block = restored(rolled)
    obs = block.flat("obs")
    for normalise in (True, False):
        ppo.recipe = ppo.recipe.model_copy(update={"normalise": normalise})
        card = policy_card(CONTRACT, TASK.robot, 50.0, ppo.recipe.hidden, normalise)
        action, _ = PolicyBundle(card, ppo.policy_tensors())(obs, torch.zeros(len(obs), 0))
        with torch.no_grad():
            _, mean, _ = ppo.act(obs, torch.zeros(len(obs), WIDTHS[2]))
        assert torch.allclose(action, mean, atol=1e-6)
