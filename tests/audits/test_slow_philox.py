"""The audits' own cipher gives the published words, and the draws that Surefoot makes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from surefoot.audits import slow_philox
from surefoot.contract import Channel, SeedPlan
from surefoot.keyed import Keyed

# kat_vectors of Random123 1.14: philox4x32 with 10 rounds; counter, key, words.
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_words_are_the_published_ones(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = counter
    assert tuple(slow_philox.philox(key, (c0, c1, c2, c3)).tolist()) == expected


def test_channels_have_the_contracts_numbers() -> None:
    other = {"noise scale": "noise_scale", "phase": "latent"}
    for name, number in slow_philox.CHANNELS.items():
        assert Channel[other.get(name, name).replace(" ", "_").upper()] == number


def test_draws_are_the_plans() -> None:
    plan = SeedPlan(root=77, families=3, envs=12)
    env, episode = np.arange(12), np.arange(12) % 5
    drawn = slow_philox.uniforms(77, slow_philox.TRAIN, env // 4, env % 4, episode, "push", 7, first=3)
    assert (drawn == plan.uniforms(env, episode, Channel.PUSH, 7, first=3)).all()
    for_life = slow_philox.uniforms(77, 0, env // 4, env % 4, slow_philox.ALL, "payload", 1)
    assert (for_life == plan.env_uniforms(env, Channel.PAYLOAD, 1)).all()
    shared = slow_philox.uniforms(77, 0, np.arange(3), slow_philox.ALL, slow_philox.ALL, "friction", 1)
    assert (shared == plan.family_uniforms(np.arange(3), Channel.FRICTION, 1)).all()


def test_normals_are_the_environments() -> None:
    plan = SeedPlan(root=5, families=2, envs=6)
    keyed, age = Keyed(plan), torch.arange(6)
    expected = keyed.normals(keyed.family, keyed.member, age, Channel.ACTION_NOISE, 12, age * 12)
    drawn = slow_philox.normals(
        5, 0, keyed.family, keyed.member, age, "action noise", 12, first=(age * 12).numpy()
    )
    assert np.abs(drawn - expected.numpy()).max() < 1e-5
