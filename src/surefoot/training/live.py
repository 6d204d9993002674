"""Live checks: what a run's own figures say against it while it trains, told at once and once each.

They cost nothing: rows of the ledger that are computed anyway, and checkpoints that are on the host already.
An audit asks more, and asks it when training has ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.runs import LIVE

if TYPE_CHECKING:
    from torch import Tensor

    from surefoot.training.plan import Plan

FIRST_RATIO = {"bf16": 0.2, "tf32": 0.02, "fp32": 1e-3}
"""Largest |ratio - 1| before an update's first step that is put down to rounding, by the precision of the
hidden layers' products. In fp32 clean runs stay below 1e-5."""
LOCKSTEP_SHARE = 0.5
"""Share of all environments that are equally old, or whose episodes run out of time within one update.
Staggered as they begin, some 2% run out; robots that fall together at first come to 20% (measured on clean
runs of 192 environments)."""
LOCKSTEP_HORIZON = 0.25
"""Most of an episode that an update may last for that share to mean anything."""
CLUMPED_SHARE = 0.25
"""Share of all environments that would have to be reset at one step for so high a Fano factor of resets: it
is about that share times their number. Clean runs stay below a hundredth."""
NON_FINITE_SHARE = 0.05
"""Share of all environments that come to a state that is not finite within one update. A single one is an
event, which the ledger counts: a clean run on native MuJoCo had one."""
REPEATS = 10
"""Updates in a row in which a reward term has the same mean to the bit, and is not zero."""
FIGURES = ("reward_per_step", "kl", "value_loss", "policy_loss", "entropy", "std", "grad_norm")
"""Figures of a row that are finite in any run that goes on as it should; `reward.*` and `advantage.*` too."""
CHECKS = {
    "first-ratio": "before an update's first step the probability ratio is 1, but for rounding",
    "lockstep": "environments are not reset together",
    "non-finite": "figures, gradients and states are finite",
    "constant-term": "no reward term has the same value, not zero, in update after update",
    "still-normaliser": "the observations' normaliser moves between checkpoints",
    "still-weights": "weights move between checkpoints",
}
"""The checks, by the names that the ledger has them under, and what each holds a run to."""


@dataclass(frozen=True)
class LiveFinding:
    """Something that a live check found."""

    name: str
    update: int
    statement: str

    def __str__(self) -> str:
        return f"Update {self.update}, {self.name}: {self.statement}"


class LiveChecks:
    """Looks at a run's rows and checkpoints as they come. With `strict`, `stop` says why it is to end."""

    def __init__(self, plan: Plan, episode_steps: int, strict: bool = False) -> None:
        recipe = plan.recipe
        self._envs, self._normalised, self.strict = recipe.envs, recipe.normalise, strict
        self._ratio = FIRST_RATIO[recipe.precision]
        self._staggered = plan.training_plant is not None and (
            recipe.horizon <= LOCKSTEP_HORIZON * episode_steps
        )
        # Outside, a reward may be 1 a step by its definition; it is one term in any case.
        self._terms = plan.training_plant is not None
        self._exempt = frozenset(plan.task.contract.exempt)
        self._told: set[str] = set()
        self._repeats: dict[str, tuple[float, int]] = {}
        self._saved: dict[str, Tensor] = {}
        self._at = -1  # the update of what was saved
        self._waiting: list[LiveFinding] = []
        self.stop = ""
        """What `strict` ends the run for; empty: nothing."""

    def look(self, row: dict[str, Any]) -> list[LiveFinding]:
        """Returns what an update's row shows for the first time, and writes it into the row."""
        found, self._waiting = self._waiting, []
        for name, statement in self._ask(row):
            found += self._new(name, int(row["update"]), statement)
        row |= {f"{LIVE}{f.name}": f.statement for f in found}
        return found

    def saved(self, tensors: Mapping[str, Tensor], update: int) -> None:
        """Looks at a checkpoint of Surefoot's own learner beside the one before; told with the next row."""
        names = ("learner.obs_normalizer.mean", "learner.networks.actor.0.weight")
        kept = {k: tensors[k] for k in names}
        first = not self._saved or update <= self._at
        normaliser, weights = (first or bool((self._saved[k] != kept[k]).any()) for k in names)
        if self._normalised and not normaliser:
            says = f"the observations' normaliser has not moved since update {self._at}."
            self._waiting += self._new("still-normaliser", update, says)
        if not weights:
            says = f"not one weight of the policy's first layer has moved since update {self._at}."
            self._waiting += self._new("still-weights", update, says)
        self._saved, self._at = {k: v.clone() for k, v in kept.items()}, update

    def _new(self, name: str, update: int, statement: str) -> list[LiveFinding]:
        """Returns a finding if it is the first of its name and the contract is not exempt from it."""
        if name in self._told or name in self._exempt:
            return []
        self._told.add(name)
        found = LiveFinding(name, update, statement)
        if self.strict and not self.stop:
            self.stop = str(found)
        return [found]

    def _ask(self, row: Mapping[str, Any]) -> list[tuple[str, str]]:
        asked = (
            ("first-ratio", self._first_ratio(row)),
            ("lockstep", self._lockstep(row) if self._staggered else ""),
            ("non-finite", _non_finite(row, self._envs)),
            ("constant-term", self._constant(row) if self._terms else ""),
        )
        return [(name, says) for name, says in asked if says]

    def _first_ratio(self, row: Mapping[str, Any]) -> str:
        error = row.get("first_ratio_error")
        if error is None or error <= self._ratio:
            return ""
        return (
            f"the first ratio is off 1 by {error:.2g} (rounding: {self._ratio:g}): samples are not of the "
            "policy that learns from them."
        )

    def _lockstep(self, row: Mapping[str, Any]) -> str:
        late, fano = row.get("reset.timeout", 0), row.get("honesty.reset_fano")
        together = row.get("honesty.lockstep")
        if together is not None and together > LOCKSTEP_SHARE:
            return (
                f"{together:.0%} of all environments are equally old, step after step: they are in lockstep."
            )
        if late > LOCKSTEP_SHARE * self._envs:
            return f"episodes of {late} of {self._envs} environments ran out of time within one update."
        if fano is not None and fano > CLUMPED_SHARE * self._envs:
            return (
                f"resets are clumped (Fano factor {fano:.0f}): about {min(1.0, fano / self._envs):.0%} of "
                "all environments are reset at one step."
            )
        return ""

    def _constant(self, row: Mapping[str, Any]) -> str:
        stuck = []
        for name, value in row.items():
            if name.startswith("reward."):
                last, times = self._repeats.get(name, (math.nan, 0))
                times = times + 1 if value == last and value != 0 else 1
                self._repeats[name] = value, times
                stuck += [name.removeprefix("reward.")] if times >= REPEATS else []
        if not stuck:
            return ""
        return (
            f"{', '.join(stuck)} had the same mean to the bit in {REPEATS} updates in a row: it does not "
            "depend on what robots do."
        )


def _non_finite(row: Mapping[str, Any], envs: int) -> str:
    wrong = [
        k
        for k, v in row.items()
        if (k in FIGURES or k.startswith(("reward.", "advantage.")))
        and isinstance(v, float)
        and not math.isfinite(v)
    ]
    if wrong:
        return f"{', '.join(wrong)}: not finite."
    if row.get("skipped_steps"):
        return f"{row['skipped_steps']} gradient steps were left out: their gradient was not finite."
    failed = row.get("reset.nonfinite", 0)
    if failed > max(1, NON_FINITE_SHARE * envs):
        return f"{failed} of {envs} environments came to a state that is not finite."
    return ""
