"""Contracts and panels of environments that come from outside: what is known about a simulator that is not
ours, and seeds that it never trained on.

An environment's seed is a whole number below 2**31. Bit 30 says what it is for: clear in training, set on
panels. So no training seed is ever a panel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from surefoot.contract.errors import SurefootError
from surefoot.contract.factors import Factor, Strata
from surefoot.contract.model import Frozen
from surefoot.contract.panel import Half, as_half
from surefoot.contract.panel_makers import PANEL_ROOT
from surefoot.contract.seeds import Channel, Disjointness, SeedPlan, words
from surefoot.contract.task import ActionBox, Contract

HELD_OUT = 1 << 30
PANEL = "outside-seeds-v1"
PANEL_SEEDS = 96
"""Where all 48 of a half succeed, the interval begins above 90%."""

SourceName = Literal["gymnasium", "envpool", "mjlab"]
SOURCES: dict[str, SourceName] = {"gym": "gymnasium", "envpool": "envpool", "mjlab": "mjlab"}
"""Prefix of a task's name -> the outside library that has it. The one list of them."""


class ReturnSuccess(Frozen):
    """What counts as a success where the simulator only tells rewards and ends."""

    return_at_least: float | None
    """An episode succeeds when its undiscounted return reaches this. None: when it lasts to its time
    limit."""
    doc: str


class ExternalContract(Contract):
    """What is known of an environment from outside. Its rewards, ends and physics are its own: the versions
    that they come from are part of the contract."""

    source: SourceName
    environment: str
    """The name that its own library gives it."""
    versions: dict[str, str]
    action: ActionBox
    episode_steps: int
    """Steps after which an episode is truncated."""
    step_s: float | None
    """Simulated seconds per step; None: the environment does not say, and a step is counted as a second."""
    success: ReturnSuccess
    seeding: Literal["environment", "batch"]
    """Whether every environment has a seed of its own, or all that are stepped together share one
    generator."""

    @property
    def strata(self) -> Strata:
        """Returns one stratum: nothing is known about what the simulator draws."""
        seed = Factor(name="seed", unit="", level="episode", categories=("any",), shares=(1,))
        return Strata(factors=(seed,))


class SeedScenario(Frozen):
    """One held-out episode: the environment's first one after it was given `seed`."""

    family: int
    member: int = 0
    half: Literal["selection", "confirmation"]
    seed: int


class SeedPanel(Frozen):
    """Held-out seeds in two halves. Nothing is shared between two of them: each is a family of its own."""

    schema_version: int = 1
    name: str
    episode_steps: int
    seeds: SeedPlan
    scenarios: tuple[SeedScenario, ...]

    def select(self, half: Half) -> tuple[SeedScenario, ...]:
        as_half(half)
        return tuple(s for s in self.scenarios if half in ("all", s.half))

    @property
    def size(self) -> int:
        return len(self.scenarios)


def environment_seeds(plan: SeedPlan, envs: Sequence[int]) -> list[int]:
    """Returns the seeds of environments `envs` of a plan: consecutive from a keyed start, so that no two are
    alike."""
    start = int(words(plan.root, plan.split_number, 0, 0, 0, Channel.OUTSIDE, 1)[0])
    held_out = HELD_OUT if plan.split == "eval" else 0
    return [held_out | (start + e) % HELD_OUT for e in envs]


def seed_panel(episode_steps: int, count: int = PANEL_SEEDS) -> SeedPanel:
    if not 2 <= count <= PANEL_SEEDS or count % 2:
        raise SurefootError(
            f"Panel {PANEL} has {PANEL_SEEDS} seeds in two halves; "
            f"use --eval-families with an even number from 2 to {PANEL_SEEDS}."
        )
    plan = SeedPlan(root=PANEL_ROOT + 100, split="eval", families=PANEL_SEEDS, envs=PANEL_SEEDS)
    seeds = environment_seeds(plan, range(count))
    return SeedPanel(
        name=PANEL if count == PANEL_SEEDS else f"{PANEL}+{count}families",
        episode_steps=episode_steps,
        seeds=plan,
        scenarios=tuple(
            SeedScenario(family=k, half="selection" if k % 2 == 0 else "confirmation", seed=s)
            for k, s in enumerate(seeds)
        ),
    )


def prove_seeds_disjoint(train: SeedPlan, panel: SeedPanel) -> Disjointness:
    """Proves that no environment is ever given a seed of the panel while it trains."""
    training = environment_seeds(train, range(train.envs))
    held_out = {s.seed for s in panel.scenarios}
    shared = len(held_out & set(training))
    return Disjointness(
        disjoint=shared == 0,
        reason="Bit 30 is set in every seed of the panel and in no training seed.",
        keys_checked=len(training) + len(held_out),
        shared=shared,
    )
