"""Keyed randomness: known vectors, the same bits everywhere, addresses that never meet, random draws.

Every statistical test draws from fixed addresses, so it passes or fails for good; thresholds are p > 1e-4 or
four standard errors.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from surefoot.contract import seeds
from surefoot.contract.errors import SurefootError
from surefoot.contract.seeds import EVERY_ENV, EVERY_EPISODE, Channel, SeedPlan, Split, prove_disjoint
from surefoot.keyed import torch as keyed
from surefoot.keyed.torch import Keyed

WORDS = st.integers(0, 2**32 - 1)
PLAN = SeedPlan(root=7, families=64, envs=512)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

# Random123's kat_vectors, the lines "philox4x32 10": counter, key, output.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

# Drawn when version 1 was fixed: these must never change while RNG_VERSION is 1.
GOLDEN = [0x31326E76, 0x0684B2C8, 0x47DED518, 0x410EEAB4, 0xB032344B]


# ---- the generator


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_published_vectors_are_reproduced(counter, key, output):
    assert tuple(seeds.philox(*key, *counter)) == output
    for device in DEVICES:
        first = torch.tensor(key[0], device=device)
        assert tuple(keyed.philox(first, key[1], *counter).tolist()) == output


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[WORDS] * 6), min_size=1, max_size=9))
def test_numpy_and_torch_give_the_same_bits(inputs):
    columns = np.array(inputs, dtype=np.int64).T
    for device in DEVICES:
        ours = keyed.philox(*(torch.from_numpy(column.copy()).to(device) for column in columns))
        assert np.array_equal(ours.cpu().numpy(), seeds.philox(*columns))


def test_inputs_broadcast_like_single_calls():
    rng = np.random.default_rng(0)
    shapes = [(), (3,), (2, 1), (2, 3), (1,), (3,)]
    parts = [rng.integers(0, 2**32, shape) for shape in shapes]
    together = seeds.philox(*parts)
    assert together.shape == (2, 3, 4)
    for i, j in product(range(2), range(3)):
        one = [int(np.broadcast_to(part, (2, 3))[i, j]) for part in parts]
        assert np.array_equal(together[i, j], seeds.philox(*one))
    assert np.array_equal(keyed.philox(*(torch.tensor(part) for part in parts)).numpy(), together)


@pytest.mark.parametrize("bad", [-1, 2**32, 0.5])
def test_an_address_that_does_not_fit_is_refused_not_wrapped(bad):
    with pytest.raises(ValueError, match="c3 must hold whole numbers"):
        seeds.philox(0, 0, 0, 0, 0, np.array([bad]))


def test_uniforms_are_the_top_24_bits_and_never_one():
    drawn = np.array([0, 255, 256, 2**31, 2**32 - 1], dtype=np.uint32)
    expected = [0.0, 0.0, 2.0**-24, 0.5, 1 - 2.0**-24]
    assert seeds.uniform(drawn).tolist() == expected
    assert keyed.uniform(torch.from_numpy(drawn.astype(np.int64))).tolist() == expected


# ---- addresses


def test_numbers_of_splits_and_channels_are_pinned():
    assert seeds.RNG_VERSION == 1
    assert [(s.name, s.value) for s in Split] == [("TRAIN", 0), ("EVAL", 1), ("INIT", 2)]
    pinned = """
        KEY 0 FRICTION 1 PAYLOAD 2 COM 3 STRENGTH 4 GAINS 5 DELAY 6 NOISE_SCALE 7 COMMAND 8 PUSH 9 POSE 10
        VELOCITY 11 YAW 12 TERRAIN 13 OBSERVATION_NOISE 14 ACTION_NOISE 15 AGE 16 STRATUM 17 SHUFFLE 18
        WEIGHTS 19 MIRROR 20 LATENT 21 DROPOUT 22 BASELINE 23 JITTER 24 OUTSIDE 25 BIAS 26 STUCK 27
    """
    assert [f"{c.name} {c.value}" for c in Channel] == re.findall(r"\w+ \d+", pinned)


def test_draws_of_version_1_are_pinned():
    plan = SeedPlan(root=2024, split="eval", families=4, envs=8)
    assert seeds.words(2024, Split.EVAL, 2, 1, 9, Channel.PUSH, 5, 2).tolist() == GOLDEN
    expected = [(word >> 8) / 2**24 for word in GOLDEN]
    assert plan.uniforms(5, 9, Channel.PUSH, 5, 2).tolist() == expected
    assert int(plan.episode_key(5, 9)) == 0x2F30BBED6058D694


def test_the_address_is_written_into_key_and_counter():
    """Checked against the bare generator, so that a change of the encoding cannot go unnoticed."""
    block = seeds.philox(11, 3, 6, 9 | 1 << 16, 5, 8)
    assert np.array_equal(seeds.words(11, Split.EVAL, 3, 5, 8, Channel.PUSH, 4, 24), block)


def test_every_part_of_the_address_matters():
    parts = [(0, 1, 2**31), (0, 1, 2), (0, 1, 2**16), (0, 1, EVERY_ENV), (0, 1, EVERY_EPISODE), (0, 1, 1024)]
    drawn = [tuple(seeds.words(*at, count=8)) for at in product(*parts)]
    halves = {words[i : i + 4] for words in drawn for i in (0, 4)}
    assert len(halves) == 2 * 3 ** len(parts)


@settings(max_examples=30, deadline=None)
@given(first=st.integers(0, 40), count=st.integers(0, 17))
def test_a_draw_does_not_depend_on_where_reading_starts(first, count):
    env = np.arange(6)
    everything = PLAN.uniforms(env, 3, Channel.COMMAND, 60)
    assert np.array_equal(
        PLAN.uniforms(env, 3, Channel.COMMAND, count, first), everything[:, first : first + count]
    )


# ---- plans


def test_environments_are_dealt_into_equal_families():
    env = np.arange(PLAN.envs)
    assert PLAN.envs_per_family == 8
    assert np.array_equal(np.bincount(PLAN.family_of(env)), np.full(64, 8))
    assert np.array_equal(PLAN.family_of(env) * 8 + PLAN.member_of(env), env)


def test_family_draws_are_shared_by_members_and_differ_between_families():
    env = np.arange(PLAN.envs)
    drawn = PLAN.family_uniforms(PLAN.family_of(env), Channel.FRICTION, 2).reshape(64, 8, 2)
    assert (drawn == drawn[:, :1]).all()
    assert len({tuple(row) for row in drawn[:, 0].tolist()}) == 64


def test_env_draws_last_for_life_and_episode_draws_do_not():
    life = PLAN.env_uniforms(np.arange(512), Channel.PAYLOAD, 1)
    episodes = PLAN.uniforms(np.arange(512)[:, None], np.arange(3), Channel.PAYLOAD, 1)
    assert episodes.shape == (512, 3, 1)
    assert len(np.unique(np.concatenate([life[:, None], episodes], 1))) > 2040  # of 2048 24-bit values


def test_a_larger_plan_extends_a_smaller_one():
    large = SeedPlan(root=7, families=128, envs=128 * 16)
    small_env, large_env = 9 * 8 + 5, 9 * 16 + 5  # member 5 of family 9 in both
    same = [plan.uniforms(env, 2, Channel.POSE, 12) for plan, env in ((PLAN, small_env), (large, large_env))]
    assert np.array_equal(*same)


def test_a_plan_survives_json_and_cannot_be_changed():
    assert SeedPlan.model_validate_json(PLAN.model_dump_json()) == PLAN
    with pytest.raises(ValidationError):
        PLAN.root = 8  # type: ignore[misc]
    assert PLAN.describe() == (
        "root 7, split train: 512 environments in 64 families of 8 (Philox4x32-10, RNG version 1)"
    )


@pytest.mark.parametrize(
    ("envs", "families", "fix"),
    [(512, 100, "--families 64 or 128."), (7, 3, "--families 1 or 7."), (512, 600, "--families 512.")],
)
def test_unequal_families_are_refused_with_the_nearest_that_work(envs, families, fix):
    sentence = f"{envs} environments cannot be split into {families} equal seed families; use {fix}"
    with pytest.raises(SurefootError) as caught:
        SeedPlan(root=0, families=families, envs=envs)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("root", [-1, 2**32, 1.5, "7", True, None])
def test_a_bad_root_is_refused_with_the_range(root):
    with pytest.raises(SurefootError, match=r"root seed \(--seed\) cannot be .* from 0 to 4294967295\."):
        SeedPlan(root=root, families=1, envs=1)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"split": "evaluate"}, "did you mean 'eval'"),
        ({"families": 0}, "seed families .* cannot be 0; use a whole number from 1"),
        ({"envs": -4}, "environments .* cannot be -4"),
        ({"rng_version": 2}, "RNG version 2 .* draws version 1"),
    ],
)
def test_a_bad_plan_is_refused_with_the_fix(changed, sentence):
    with pytest.raises(SurefootError, match=sentence):
        SeedPlan(**{"root": 1, "families": 1, "envs": 1, **changed})


def test_an_environment_outside_the_plan_is_refused():
    with pytest.raises(SurefootError, match="Environment 512 is not in this seed plan; use 0 to 511"):
        PLAN.uniforms([0, 512], 0, Channel.YAW, 1)
    with pytest.raises(SurefootError, match="Seed family -1 is not"):
        PLAN.family_uniforms(-1, Channel.YAW, 1)


# ---- disjointness


def test_train_and_eval_never_meet():
    found = prove_disjoint(PLAN, SeedPlan(root=7, split="eval", families=64, envs=512), episodes=16)
    assert found.disjoint
    assert (found.shared, found.keys_checked) == (0, 2 * 512 * 16)
    assert "splits train and eval differ" in found.reason


def test_different_roots_never_meet():
    found = prove_disjoint(PLAN, SeedPlan(root=8, families=64, envs=512))
    assert found.disjoint
    assert found.shared == 0
    assert "roots 7 and 8 differ" in found.reason


def test_a_plan_overlaps_itself_completely():
    found = prove_disjoint(PLAN, PLAN, episodes=4)
    assert not found.disjoint
    assert found.shared == 512 * 4


def test_overlap_is_counted_exactly_when_the_layouts_differ():
    found = prove_disjoint(PLAN, SeedPlan(root=7, families=16, envs=16 * 20), episodes=3)
    assert not found.disjoint
    assert found.shared == 16 * 8 * 3  # the families and members that both have
    assert "128 environments (16 families, 8 members of each)" in found.reason


def test_the_enumeration_is_capped_and_still_finds_overlap(monkeypatch):
    monkeypatch.setattr(seeds, "KEYS_PER_PLAN", 100)
    found = prove_disjoint(PLAN, SeedPlan(root=7, families=1, envs=64), episodes=9)
    assert found.keys_checked == 100 + 64
    assert not found.disjoint
    assert found.shared == 8


def test_shared_keys_overrule_the_argument(monkeypatch):
    monkeypatch.setattr(seeds, "_first_keys", lambda plan, episodes: np.arange(5, dtype=np.uint64))
    found = prove_disjoint(PLAN, SeedPlan(root=8, families=64, envs=512))
    assert not found.disjoint
    assert "generator is broken" in found.reason


def test_episode_keys_are_all_different():
    keys = PLAN.episode_key(np.arange(512)[:, None], np.arange(100))
    assert keys.dtype == np.uint64
    assert np.unique(keys).size == 51200


# ---- tensors


def backends() -> list[tuple[str, str]]:
    return [("cpu", "numpy"), *((device, "torch") for device in DEVICES)]


@pytest.mark.parametrize(("device", "backend"), backends())
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_tensors_hold_the_bits_of_the_plan(device, backend, data):
    families = data.draw(st.integers(1, 5))
    plan = SeedPlan(
        root=data.draw(WORDS),
        split=data.draw(st.sampled_from(["train", "eval"])),
        families=families,
        envs=3 * families,
    )
    draw = Keyed(plan, device, backend)
    env = np.array(data.draw(st.lists(st.integers(0, plan.envs - 1), max_size=6)), dtype=np.int64)
    episode = data.draw(WORDS)
    asked = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from([Channel.PUSH, Channel.YAW, 65535]), st.integers(1, 9), st.integers(0, 2**20)
            ),
            min_size=1,
            max_size=3,
        )
    )
    rows = torch.from_numpy(env).to(device)
    drawn = draw.uniforms_many(draw.family[rows], draw.member[rows], episode, asked)
    for one, (channel, count, first) in zip(drawn, asked, strict=True):
        assert one.dtype == torch.float32
        assert np.array_equal(one.cpu().numpy(), plan.uniforms(env, episode, channel, count, first))


@pytest.mark.parametrize(("device", "backend"), backends())
def test_each_row_may_read_at_its_own_step(device, backend):
    draw = Keyed(PLAN, device, backend)
    step = torch.arange(512, device=device) % 37
    episode = torch.arange(512, device=device) // 5
    noise, push = draw.uniforms_many(
        draw.family, draw.member, episode, [(Channel.OBSERVATION_NOISE, 10, step * 12), (Channel.PUSH, 3, 5)]
    )
    for env in (0, 17, 300, 511):
        expected = PLAN.uniforms(env, env // 5, Channel.OBSERVATION_NOISE, 10, 12 * (env % 37))
        assert np.array_equal(noise[env].cpu().numpy(), expected)
        assert np.array_equal(push[env].cpu().numpy(), PLAN.uniforms(env, env // 5, Channel.PUSH, 3, 5))


@pytest.mark.parametrize(("device", "backend"), backends())
def test_sentinels_give_family_and_life_draws(device, backend):
    draw = Keyed(PLAN, device, backend)
    shared = draw.uniforms(draw.family, EVERY_ENV, EVERY_EPISODE, Channel.FRICTION, 3).cpu().numpy()
    assert np.array_equal(shared, PLAN.family_uniforms(PLAN.family_of(np.arange(512)), Channel.FRICTION, 3))
    life = draw.uniforms(draw.family, draw.member, EVERY_EPISODE, Channel.COM, 3).cpu().numpy()
    assert np.array_equal(life, PLAN.env_uniforms(np.arange(512), Channel.COM, 3))


@pytest.mark.parametrize(("device", "backend"), backends())
def test_normals_are_normal_finite_and_addressable(device, backend):
    draw = Keyed(PLAN, device, backend)
    rows = (draw.family, draw.member, 4, Channel.ACTION_NOISE)
    drawn = draw.normals(*rows, 101)
    assert torch.equal(draw.normals(*rows, 30, 7), drawn[:, 7:37])
    assert torch.equal(draw.normals(*rows, 30, torch.full_like(draw.family, 8)), drawn[:, 8:38])
    assert stats.kstest(drawn.cpu().numpy().ravel(), "norm").pvalue > 1e-4
    pair = PLAN.uniforms(3, 4, Channel.ACTION_NOISE, 2).astype(np.float64)
    by_hand = np.sqrt(-2 * np.log(1 - pair[0])) * np.array(
        [np.cos(2 * np.pi * pair[1]), np.sin(2 * np.pi * pair[1])]
    )
    assert np.allclose(drawn[3, :2].cpu().numpy(), by_hand, atol=2e-6)
    extreme = keyed.box_muller(torch.tensor([0.0, 0.0, 1 - 2.0**-24, 0.0], device=device))
    assert extreme.tolist() == pytest.approx([0.0, 0.0, 5.768, 0.0], abs=1e-3)


def test_misuse_of_tensors_is_refused():
    draw = Keyed(PLAN)
    rows = (draw.family, draw.member, 0)
    with pytest.raises(ValueError, match="multiples of 4"):
        draw.uniforms(*rows, Channel.PUSH, 2, draw.family + 1)
    for channel, count in ((1 << 16, 1), (-1, 1), (Channel.PUSH, 0)):
        with pytest.raises(ValueError, match="channel below 65536"):
            draw.uniforms(*rows, channel, count)
    with pytest.raises(ValueError, match="numpy backend"):
        Keyed(PLAN, "meta", "numpy")


# ---- randomness

AXES = ["root", "split", "family", "env", "episode", "channel", "index"]


def grid(axis: str, length: int = 256) -> np.ndarray:
    """Uniforms [length, 256] at neighbouring addresses along one axis, for 256 envs (or families)."""
    at = {"root": 5, "split": 1, "family": 0, "env": np.arange(256), "episode": 0, "channel": 1, "index": 0}
    if axis == "env":
        at["family"], at["env"] = np.arange(256), 0
    rows = []
    for i in range(length):
        here = {**at, axis: at[axis] + i}
        index = here.pop("index")
        rows.append(seeds.uniform(seeds.words(**here, count=1, first=index))[:, 0])
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_addresses_are_independent(axis):
    u = grid(axis)
    for lag in (1, 2, 3, 4, 8):
        a, b = u[:-lag].ravel(), u[lag:].ravel()
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(a.size), (axis, lag)
        joint, _, _ = np.histogram2d(a, b, bins=16, range=[[0, 1], [0, 1]])
        assert stats.chisquare(joint.ravel()).pvalue > 1e-4, (axis, lag)


@pytest.mark.parametrize("axis", AXES)
def test_draws_along_each_axis_are_uniform(axis):
    u = grid(axis).ravel()
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    assert stats.chisquare(np.bincount((u * 256).astype(int), minlength=256)).pvalue > 1e-4
    low_bits = (u * 2**24).astype(np.int64) & 255
    assert stats.chisquare(np.bincount(low_bits, minlength=256)).pvalue > 1e-4


def avalanche() -> np.ndarray:
    """For each of the 192 input bits: the share of output bits that change with it, over 512 addresses."""
    base = np.random.default_rng(1).integers(0, 2**32, (6, 512), dtype=np.int64)
    shares = []
    for part, bit in product(range(6), range(32)):
        flipped = base.copy()
        flipped[part] ^= 1 << bit
        shares.append(np.bitwise_count(seeds.philox(*base) ^ seeds.philox(*flipped)).mean() / 32)
    return np.array(shares)


def test_any_input_bit_changes_half_of_the_output_bits():
    standard_error = 0.5 / np.sqrt(512 * 128)
    assert np.abs(avalanche() - 0.5).max() < 4.5 * standard_error  # the largest of 192


def test_the_avalanche_test_catches_a_generator_with_few_rounds(monkeypatch):
    monkeypatch.setattr(seeds, "ROUNDS", 3)
    assert np.abs(avalanche() - 0.5).max() > 0.1
