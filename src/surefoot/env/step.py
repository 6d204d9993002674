"""What stepping environments gives: a step, its outcome before any reset, and what happened meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from surefoot.tasks import View


@dataclass
class Step:
    """One control step of all environments. `obs` is what to act on next; for environments that ended it is
    already the first observation of their next episode, and `final_obs` holds the true last one."""

    obs: Tensor  # [N, O] noisy, scaled: what the policy sees
    critic: Tensor  # [N, C] clean, with privileged terms
    reward: Tensor  # [N]
    terms: Tensor  # [N, R] the weighted reward terms that make it up (before the floor)
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool
    reason: Tensor  # [N] uint8, index into VecEnv.reasons; 0 while alive
    final_obs: Tensor  # [N, O] before any reset
    final_critic: Tensor  # [N, C]
    stratum: Tensor  # [N] int64, of the step just lived
    exploration: Tensor  # [N, A] standard normals keyed to the next step, for whoever explores
    view: View  # the state the reward was computed on, before any reset


@dataclass
class Outcome:
    """Of one control step, before any reset; the names are those of `Step`."""

    view: View
    terms: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    reason: Tensor


@dataclass
class EpisodeStats:
    """What happened in the environments since it was last asked for, besides what is in a rollout block."""

    ended: list[dict[str, np.ndarray]]
    """Finished episodes: columns."""
    failures: list[dict[str, np.ndarray]]
    """States that engines failed from, for replay."""
    resets: np.ndarray  # [strata] episodes begun
    terrain_occupancy: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Environments by terrain class, [levels] each, as they stand now; none on a plane."""

    @classmethod
    def of(cls, parts: Sequence[EpisodeStats]) -> EpisodeStats:
        """What happened in the environments of several processes."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [e for p in parts for e in p.ended],
            [f for p in parts for f in p.failures],
            np.sum([p.resets for p in parts], 0),
            {
                name: np.sum([p.terrain_occupancy[name] for p in parts], 0)
                for name in parts[0].terrain_occupancy
            },
        )
