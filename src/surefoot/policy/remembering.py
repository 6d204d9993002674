"""What a policy remembers between control steps, as a row of numbers per robot: `state` of a bundle.

A window's row is how many steps it holds (0: none, the episode begins) and the K - 1 observations before this
one, the newest first, normalised. A GRU's row is its state.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.contract import Memory

GRU = ("memory.input", "memory.state", "memory.input_bias", "memory.state_bias")
"""Tensors that a bundle with a GRU has: [3H, O], [3H, H], [3H], [3H], of gates reset, update and new."""


def state_size(memory: Memory, observation: int) -> int:
    """Returns how many numbers are remembered per robot."""
    if memory.kind == "window":
        return 1 + (memory.size - 1) * observation
    return memory.size


def remember(
    memory: Memory, tensors: Mapping[str, Tensor], x: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns what the actor's layers read [N, inputs] of normalised observations [N, O], and the memory
    after them."""
    if memory.kind == "window":
        before = torch.where(state[:, :1] == 0, x.repeat(1, memory.size - 1), state[:, 1:])
        seen = torch.cat([x, before], 1)
        held = (state[:, :1] + 1).clamp_max(memory.size - 1)
        return seen, torch.cat([held, seen[:, : -x.shape[1]]], 1)
    if not memory:
        return x, state
    after = torch.gru_cell(x, state, *(tensors[name] for name in GRU))
    return torch.cat([x, after], 1), after
