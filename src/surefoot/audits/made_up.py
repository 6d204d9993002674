"""Tables of episodes that nobody played, for statistics to be asked about: families that are alike and that
are not, of equal sizes and of one, flawless columns and hopeless ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Design:
    """How many families have how many members, how often they succeed, and how alike they are."""

    families: int
    members: int
    success: float
    alike: float
    uneven: bool = False
    looks: int = 0
    classes: tuple[str, ...] = ("flat",)


DESIGNS = (
    Design(2, 4, 0.5, 0.0),
    Design(5, 6, 0.8, 0.9, classes=("flat", "slope")),
    Design(9, 8, 0.93, 0.3, uneven=True, classes=("flat", "stairs")),
    Design(24, 2, 0.97, 0.0, classes=("slope",)),
    Design(40, 4, 0.99, 0.2, uneven=True),
    Design(64, 1, 0.95, 0.0, looks=2),
    Design(160, 1, 1.0, 0.0, classes=("flat", "slope", "stairs")),
    Design(320, 1, 0.96, 0.0),
)
"""From too few families to bound anything up to a whole panel."""
COLUMNS = (
    ("nominal", "", 0.0, "mujoco", "trained", 0.0),
    ("nominal", "", 0.0, "stride", "trained", -0.02),
    ("push_1.0", "push", 1.0, "stride", "trained", -0.1),
    ("delay_40ms", "delay", 0.04, "stride", "trained", -0.15),
    ("baseline:hold-pose", "", 0.0, "stride", "hold-pose", -0.9),
    ("baseline:random", "", 0.0, "stride", "random", -0.05),
)
"""Column, perturbation, strength, engine, policy, and by how much it succeeds more often."""
ENDS = ("timeout", "tilted", "trunk_contact")


def table(design: Design, numbers: np.random.Generator) -> Table:
    """Returns the rows of all columns of one design, by the names of episodes.parquet."""
    sizes = np.full(design.families, design.members)
    if design.uneven:
        sizes = numbers.integers(1, 2 * design.members, design.families)
    family = np.repeat(np.arange(design.families) * 3 + 1, sizes)
    n = len(family)
    member = np.concatenate([np.arange(s) for s in sizes])
    own = numbers.random(n) if design.members == 1 else numbers.random(design.families)[(family - 1) // 3]
    commands = numbers.choice([-1.0, -0.5, 0.0, 0.5, 1.0], (max(2, n // 5), 3))
    command = commands[numbers.integers(0, len(commands), n)]
    shared: Table = {
        "scenario": np.arange(n) + 100,
        "key": np.array([f"{k:016x}" for k in numbers.permutation(n)]),
        "family": family,
        "member": member,
        "half": np.array(["confirmation"] * n),
        **{f"command_{k}": command[:, i] for i, k in enumerate(("vx", "vy", "wz"))},
        "friction": numbers.uniform(0.4, 0.7, n),
        "payload_kg": numbers.uniform(-1, 1, n),
        "terrain": numbers.choice(list(design.classes), n),
        "level": numbers.integers(0, 3, n),
        "look": numbers.integers(1, design.looks + 1, n) if design.looks else np.zeros(n, np.int64),
    }
    parts = [shared | _column(c, design, own, numbers) for c in COLUMNS]
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


def _column(
    c: tuple[str, str, float, str, str, float], design: Design, own: np.ndarray, numbers: np.random.Generator
) -> Table:
    name, kind, strength, engine, policy, better = c
    n = len(own)
    luck = np.where(numbers.random(n) < design.alike, own, numbers.random(n))
    success = luck < np.clip(design.success + better, 0, 1)
    fall = ~success & (numbers.random(n) < 0.6)
    error = np.exp(numbers.normal(-2 + own, 0.6))
    early = fall & (numbers.random(n) < 0.5)
    pushed = numbers.random(n) < 0.7
    recovered = ~pushed | (numbers.random(n) < 0.8)
    label = np.where(success, "", np.where(fall, "slipped", "off_course"))
    out: Table = {
        "column": np.array([name] * n),
        "perturbation": np.array([kind] * n),
        "strength": np.full(n, strength),
        "engine": np.array([engine] * n),
        "policy": np.array([policy] * n),
        "success": success,
        "fall": fall,
        "reason": np.where(fall, numbers.choice(ENDS[1:], n), "timeout"),
        "steps": np.where(fall, numbers.integers(1, 500, n), 500),
        "velocity_error_mps": np.where(early, np.nan, error),
        "yaw_error_radps": np.where(early, np.nan, 1.5 * error * numbers.random(n)),
        "cost_of_transport": np.where(numbers.random(n) < 0.1, np.nan, 1 / error),
        "foot_slip_per_m": error**2,
        "foot_clearance_m": np.where(numbers.random(n) < 0.2, np.nan, 0.05 * numbers.random(n)),
        "vibration_radps": np.full(n, 0.5),
        "torque_saturation": np.where(numbers.random(n) < 0.2, 0.04, 0.01) * numbers.random(n) * 2,
        "recovered": recovered,
        "recovery_s": np.where(pushed & recovered, numbers.random(n) * 2, np.nan),
        "return": numbers.standard_t(3, n) + 5 * own - 4 * fall,
        "label": label,
        "cause": np.where(success, "", np.where(fall, "state", "reward")),
    }
    return out
