"""Baselines act where the episodes are: on any device."""

from __future__ import annotations

import pytest
import torch

from surefoot.contract import SeedPlan
from surefoot.policy import BASELINES, RandomActions, baseline, first_state
from surefoot.tasks import task

META = torch.device("meta")
"""A device without a host's memory: whatever takes a tensor to numpy, or mixes devices, breaks on it."""


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_acts_on_the_device_of_its_episodes(name: str) -> None:
    walk = task("walk-flat")
    seeds = SeedPlan(root=7, split="eval", families=4, envs=8)
    policy = baseline(name, walk.contract, walk.robot, 50.0, seeds)
    for device in (META, torch.device("cpu"), META):
        family, member = (torch.arange(8, device=device) for _ in range(2))
        state = first_state(policy, family, member)
        for _ in range(2):
            action, state = policy(torch.zeros(8, walk.contract.observation_size, device=device), state)
            assert (action.device, state.device) == (device, device)
            assert action.shape == (8, walk.contract.action.size)


def test_draws_are_the_same_whatever_was_done_on_another_device() -> None:
    seeds = SeedPlan(root=7, split="eval", families=4, envs=8)
    family, member = torch.arange(4), torch.zeros(4, dtype=torch.int64)
    one, two = RandomActions(3, seeds), RandomActions(3, seeds)
    two(torch.zeros(4, 1, device=META), two.start(family.to(META), member.to(META)))
    a, b = (p(torch.zeros(4, 1), p.start(family, member))[0] for p in (one, two))
    assert torch.equal(a, b)
