"""How fast a training update could be: its arithmetic and its memory traffic, written down from the shapes.

Two counts of traffic. `bytes` is what matrix products and the kernels around them read and write, layer by
layer, as the update is organised: no bound, because what a cache still holds never reaches memory.
`compulsory` is what would remain if a minibatch went through both networks without its activations ever
leaving the chip; with the arithmetic it makes the floor.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from surefoot.contract import Recipe, TaskContract

FLOAT = 4
"""Bytes of a number in the block, in the optimiser and in matrix products other than bf16's."""


@dataclass(frozen=True)
class Peaks:
    """Of the device, from its data sheet. The defaults are an H200's, dense."""

    tf32_tflops: float = 495.0
    bf16_tflops: float = 990.0
    fp32_tflops: float = 67.0
    memory_tbps: float = 4.8

    def tflops(self, precision: str) -> float:
        return float(asdict(self)[f"{precision}_tflops"])


@dataclass(frozen=True)
class Work:
    """Of one part of an update."""

    flops: float
    bytes: float
    compulsory: float

    def report(self, ms: float, precision: str, peaks: Peaks | None) -> dict[str, float]:
        """What was achieved in `ms`, and the times that the peaks allow."""
        out = {
            "gflop": self.flops / 1e9,
            "gbyte": self.bytes / 1e9,
            "compulsory_gbyte": self.compulsory / 1e9,
            "achieved_tflops": self.flops / ms / 1e9,
            "achieved_gbps": self.bytes / ms / 1e6,
        }
        if peaks is not None:
            arithmetic = self.flops / peaks.tflops(precision) / 1e9
            traffic, compulsory = (b / peaks.memory_tbps / 1e9 for b in (self.bytes, self.compulsory))
            out |= {
                "arithmetic_ms": arithmetic,
                "traffic_ms": traffic,
                "floor_ms": max(arithmetic, compulsory),
                "share_of_arithmetic": arithmetic / ms,
                "share_of_bandwidth": traffic / ms,
            }
        return {k: round(v, 4) for k, v in out.items()}


def products(widths: tuple[int, ...]) -> int:
    """Multiplications of one row with all weights of an MLP."""
    return sum(a * b for a, b in pairwise(widths))


def forward_numbers(widths: tuple[int, ...]) -> int:
    """Numbers that a row's forward pass reads and writes: every layer's input and output, and each hidden
    activation once more to read and to write it."""
    return sum(a + b for a, b in pairwise(widths)) + 2 * sum(widths[1:-1])


def backward_numbers(widths: tuple[int, ...]) -> int:
    """Of the backward pass: the weight gradient reads a layer's input and output gradient, the bias gradient
    the latter again; but for the first layer the input gradient reads and writes, and the activation's
    derivative reads two and writes one."""
    weights = sum(a + 2 * b for a, b in pairwise(widths))
    inputs = sum(b + a + 3 * a for a, b in pairwise(widths[1:]))
    return weights + inputs


def learning(contract: TaskContract, r: Recipe) -> Work:
    """All epochs and minibatches: forward 2 flops per weight and row, backward 4, but 2 in the first layer,
    whose input needs no gradient."""
    c = contract
    actor = (c.observation_size, *r.hidden, c.action.size)
    critic = (c.critic_size, *r.hidden, 1)
    rows, steps = r.epochs * r.samples_per_update, r.epochs * r.minibatches
    flops = sum(6 * products(w) - 2 * w[0] * w[1] for w in (actor, critic)) * rows
    size = 2 if r.precision == "bf16" else FLOAT
    passes = sum(forward_numbers(w) + backward_numbers(w) for w in (actor, critic)) * size
    # Per row: the observations, action, mean, old log probability, value, return and advantage once; and the
    # observations again, written and read, as they are gathered.
    seen = c.observation_size + c.critic_size
    sample = (seen + 2 * c.action.size + 4) * FLOAT
    gathered = 2 * seen * FLOAT
    weights = sum(products(w) + sum(w[1:]) for w in (actor, critic)) + c.action.size
    # Per minibatch: weights read forward and backward, gradient written and read for its norm; Adam reads
    # gradient, moments and weights and writes the last three.
    optimiser = (2 + 2 + 7) * weights * FLOAT
    return Work(
        float(flops),
        float((passes + sample + gathered) * rows + optimiser * steps),
        float(sample * rows + optimiser * steps),
    )


def acting(contract: TaskContract, r: Recipe) -> Work:
    """The policy's matrix products of a rollout and the values of its states, of those after it and of final
    ones; physics and task apart."""
    c = contract
    actor = (c.observation_size, *r.hidden, c.action.size)
    critic = (c.critic_size, *r.hidden, 1)
    valued = r.samples_per_update + 2 * r.envs
    size = 2 if r.precision == "bf16" else FLOAT
    flops = 2 * (products(actor) * r.samples_per_update + products(critic) * valued)
    moved = forward_numbers(actor) * r.samples_per_update + forward_numbers(critic) * valued
    ends = (actor[0] + actor[-1]) * r.samples_per_update + (critic[0] + 1) * valued
    return Work(float(flops), float(moved * size), float(ends * FLOAT))


def roofline(
    contract: TaskContract, recipe: Recipe, ms: dict[str, float], peaks: Peaks | None
) -> dict[str, Any]:
    """What was measured of an update against the device's peaks."""
    out = {"update": learning(contract, recipe).report(ms["update"], recipe.precision, peaks)}
    if "rollout" in ms:
        collecting = ms["rollout"] + ms["advantages"]
        out["acting"] = acting(contract, recipe).report(collecting, recipe.precision, peaks)
    return out
