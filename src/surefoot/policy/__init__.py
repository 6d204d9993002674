"""Policies: bundles that a panel can run, and baselines that nobody trained."""

from __future__ import annotations

from surefoot.contract import PolicyCard
from surefoot.policy.baselines import BASELINES, PREFIX, RandomActions, baseline
from surefoot.policy.bundle import (
    FixedBatch,
    HoldPose,
    Policy,
    PolicyBundle,
    external_card,
    first_state,
    policy_card,
    read_policy,
)

__all__ = [
    "BASELINES",
    "PREFIX",
    "FixedBatch",
    "HoldPose",
    "Policy",
    "PolicyBundle",
    "PolicyCard",
    "RandomActions",
    "baseline",
    "external_card",
    "first_state",
    "policy_card",
    "read_policy",
]
