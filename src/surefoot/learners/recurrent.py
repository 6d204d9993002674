"""The gated recurrent unit of a policy, learned from in sequences: forwards over the steps of a block, and
backwards by hand.

What observations say of the gates is one matrix product for all steps, and so are the gradients of all
weights; what the state says of them is a small product and one kernel per step, each way.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.compute.warp import Launch
from surefoot.learners.gradient import Tape
from surefoot.learners.kernels.recurrent import begin_sequences, gru_back, gru_step

NAMES = ("input", "state", "input_bias", "state_bias")
"""Parameters of a unit: [3H, O], [3H, H], [3H, 1], [3H, 1]; gates reset, update and new."""
LANES = 32
"""CUDA threads that work on the beginning of a sequence."""


class Sequences:
    """Says where the sequences of a minibatch come from: the block, and which of them they are."""

    def __init__(self, horizon: int, envs: int, clock: Tensor, picks: Tensor) -> None:
        self.horizon, self.envs, self.clock, self.picks = horizon, envs, clock, picks

    def draw(self, drawn: Tensor) -> None:
        """Writes into `picks` [minibatches, B * T], of environments `drawn` [minibatches, B], twice each plus
        1 if mirrored, all their samples: those of a sequence one after the other."""
        step = torch.arange(self.horizon, dtype=torch.int32, device=drawn.device) * self.envs
        rows = (drawn >> 1)[..., None] + step
        self.picks.copy_((2 * rows + (drawn & 1)[..., None]).flatten(1))


class GruTape:
    """Does the forward and backward pass of the unit on a share of a minibatch's sequences. `x` [rows, W] has
    observations in its first columns and is given the states behind them."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        gradient: Mapping[str, Tensor],
        x: Tensor,
        sequences: Sequences,
        since: Tensor,
        earlier: Tensor,
        first: int,
    ) -> None:
        """`gradient`: where that of the weights goes. `since` [T * N], `earlier` [R * N, H]: of the block.
        `first`: the row of the minibatch that `x` begins with."""
        self._w, self._gradient = weights, gradient
        inputs, width = weights["input"].shape[1], weights["state"].shape[1]
        horizon, device, rows = sequences.horizon, x.device, len(x)
        count, cuda = rows // horizon, device.type == "cuda"
        self._seen, self.inputs = x[:, :inputs], inputs
        self._gates, self._kept = x.new_zeros(rows, 3 * width), x.new_zeros(rows, 3 * width)
        self._held, self.by_state = x.new_zeros(rows, width), x.new_zeros(rows, width)
        self._carry = x.new_zeros(count, width)
        keep = x.new_zeros(rows)
        self._ones = x.new_ones(rows, 1)
        columns, threads = (1, count * width) if cuda else (width, count)
        lanes = LANES if cuda else 1
        begun: list[Tensor | float] = [first, lanes, horizon, sequences.envs]
        begun += [sequences.clock, sequences.picks, since, earlier, keep, self._held]
        self._begin = Launch(begin_sequences, count * lanes, begun, device)
        state = [self._gates, self._kept, keep, self._held]
        back = [*state, self.by_state, self._carry]
        bias = weights["state_bias"].view(-1)
        steps = range(horizon)
        self._forward = [
            Launch(gru_step, threads, [columns, t, horizon, inputs, bias, *state, x], device) for t in steps
        ]
        self._back = [Launch(gru_back, threads, [columns, t, horizon, *back], device) for t in steps]
        by_step = (count, horizon, -1)
        self._held_at = self._held.view(by_step).unbind(1)  # [B, H] of each step
        self._kept_at = self._kept.view(by_step).unbind(1)

    def forward(self) -> None:
        """Computes the states of all steps into x."""
        w = self._w
        self._begin()
        torch.addmm(w["input_bias"].view(-1), self._seen, w["input"].t(), out=self._gates)
        weight = w["state"].t()
        for step, held, kept in zip(self._forward, self._held_at, self._kept_at, strict=True):
            torch.mm(held, weight, out=kept)
            step()

    def backward(self, actor: Tape) -> None:
        """Computes the gradients of the weights from those by the states, which `actor` read."""
        g, weight = self._gradient, self._w["state"]
        actor.by_inputs(self.inputs, self.by_state)
        for t in reversed(range(len(self._back))):
            self._back[t]()
            if t:
                self._carry.addmm_(self._kept_at[t], weight)
        torch.mm(self._gates.t(), self._seen, out=g["input"])
        torch.mm(self._kept.t(), self._held, out=g["state"])
        torch.mm(self._gates.t(), self._ones, out=g["input_bias"])
        torch.mm(self._kept.t(), self._ones, out=g["state_bias"])
