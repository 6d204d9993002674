"""The rollout block: the T x N tensors of one update, with their provenance."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass
class RolloutBlock:
    """Holds one rollout: allocated once, overwritten by every rollout."""

    obs: Tensor  # [T, N, O]
    critic: Tensor  # [T, N, C]
    action: Tensor  # [T, N, A] as sampled, before clipping
    mean: Tensor  # [T, N, A] of the policy that sampled it
    log_prob: Tensor  # [T, N]
    reward: Tensor  # [T, N]
    terms: Tensor  # [T, N, R] weighted reward terms
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    reason: Tensor  # [T, N] uint8
    stratum: Tensor  # [T, N] int64
    value: Tensor  # [T, N]
    next_value: Tensor  # [T, N] of the true next observation: the final one where the episode was truncated
    advantage: Tensor  # [T, N]
    returns: Tensor  # [T, N]

    @classmethod
    def empty(
        cls,
        horizon: int,
        envs: int,
        obs: int,
        critic: int,
        action: int,
        terms: int,
        device: str | torch.device = "cpu",
    ) -> RolloutBlock:
        def tensor(*width: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(horizon, envs, *width, dtype=dtype, device=device)

        return cls(
            tensor(obs),
            tensor(critic),
            tensor(action),
            tensor(action),
            tensor(),
            tensor(),
            tensor(terms),
            tensor(dtype=torch.bool),
            tensor(dtype=torch.bool),
            tensor(dtype=torch.uint8),
            tensor(dtype=torch.int64),
            tensor(),
            tensor(),
            tensor(),
            tensor(),
        )

    @property
    def bytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    def flat(self, name: str) -> Tensor:
        """Returns a field as [T * N, ...]."""
        return getattr(self, name).flatten(0, 1)  # type: ignore[no-any-return]
