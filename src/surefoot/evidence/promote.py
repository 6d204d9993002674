"""Promotion: a candidate replaces a baseline run only when it is better under disturbances and on a second
simulator, both at once, worse in no stratum, and works by itself. Better on one side alone is how a policy is
tuned to its own simulator; better than what fails may still be failing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from surefoot.contract import BOX_WORLD, REFERENCE, ExternalContract, Field, SurefootError
from surefoot.evidence.constructs import columns_difference, construct_difference
from surefoot.evidence.sides import NOT_WORSE_BY, Bar, Key, Side, Stratum, bars, shared
from surefoot.evidence.sides import side as judge_side
from surefoot.evidence.sides import strata as judge_strata
from surefoot.runs import Look, Result, RunFolder
from surefoot.statistics import ALPHA, decision_alpha

Outcome = Literal["PROMOTE", "REJECT", "INVALID", "INCONCLUSIVE"]
EXIT_STATUS: dict[Outcome, int] = {"PROMOTE": 0, "REJECT": 1, "INVALID": 3, "INCONCLUSIVE": 4}
NAMED = 3
"""Strata that a reason names; the others are counted, and stand in the table."""
SMALL = 0.02
"""A difference of success that is worth finding, for the number of scenarios that would find it."""
_SCENARIO = ("key", "command_vx", "command_vy", "command_wz", "friction", "payload_kg", "terrain", "level")


@dataclass(frozen=True)
class Promotion:
    """The decision, and everything that it rests on."""

    candidate: str
    baseline: str
    outcome: Outcome
    reasons: tuple[str, ...]
    """Why it is not PROMOTE; what makes it what it is comes first."""
    alpha: float
    """Error of each side: what is left for this decision on this half."""
    look: Look | None = None
    differs: tuple[Field, ...] = ()
    """Construct fields in which the two differ; then nothing was compared."""
    disturbances: Side | None = None
    transfer: Side | None = None
    strata: tuple[Stratum, ...] = ()
    bars: tuple[Bar, ...] = ()
    panel: str = ""
    panel_digest: str = ""
    root: int = 0
    """Root seed of the scenarios."""
    fresh: bool = False
    """Whether they were made for this decision, so that nobody can have chosen on them."""
    record: str = ""
    """File of the registry that keeps the decision; "" where none does."""
    candidate_caveat: str = ""
    """Why the candidate's evidence is not of what it has been trained to; then it is not promoted."""
    baseline_caveat: str = ""
    """The same of the baseline, whose confirmed policy is what the candidate is compared with."""

    @property
    def promoted(self) -> bool:
        return self.outcome == "PROMOTE"

    @property
    def exit_status(self) -> int:
        """Returns 0 PROMOTE, 1 REJECT, 3 INVALID, 4 INCONCLUSIVE."""
        return EXIT_STATUS[self.outcome]

    @property
    def undecided(self) -> tuple[Stratum, ...]:
        """Returns the strata that are too small to say that they did not get worse."""
        return tuple(s for s in self.strata if s.outcome == "undecided")

    def as_json(self) -> dict[str, Any]:
        return {"promoted": self.promoted, "exit_status": self.exit_status, **asdict(self)}


def promote(candidate: Result, baseline: Result, look: Look | None = None) -> Promotion:
    """Decides on the scenarios that both ran, from their rows. `look`: which decision on this half it is;
    None where nobody counts, and it has the error of a single one."""
    made = Promotion(
        candidate.run.id,
        baseline.run.id,
        "INVALID",
        (),
        decision_alpha(look.decision) if look is not None else ALPHA,
        look,
        panel=candidate.summary.panel,
        panel_digest=candidate.summary.panel_digest,
        candidate_caveat=candidate.caveat,
        baseline_caveat=baseline.caveat,
    )
    differs = construct_difference(baseline, candidate) + columns_difference(baseline, candidate)
    broken = _broken(candidate, baseline, look)
    if differs or broken:
        names = ", ".join(f.name for f in differs)
        alike = (f"The two were not measured alike ({names}); nothing was compared.",) if differs else ()
        return replace(made, reasons=alike + broken, differs=differs)
    perturbed, nominal = shared(candidate, baseline)
    second, missing = _second(candidate, baseline, nominal)
    nominal = {k for k in nominal if k[1] == second}
    sides: dict[str, set[Key]] = {}
    if perturbed:
        sides["held-out disturbances"] = perturbed
    if nominal:
        sides[f"second simulator ({second}, sim-to-sim)"] = nominal
    judged = {n: judge_side(n, candidate, baseline, keys, made.alpha) for n, keys in sides.items()}
    made = replace(
        made,
        disturbances=next((s for n, s in judged.items() if sides[n] is perturbed), None),
        transfer=next((s for n, s in judged.items() if sides[n] is nominal), None),
        strata=judge_strata(candidate, baseline, sides) if sides else (),
        bars=bars(candidate, baseline, perturbed, nominal),
    )
    return _decided(made, missing)


def _decided(p: Promotion, missing: str) -> Promotion:
    """Weighs what was found: what is shown against a candidate outweighs what is not shown for it."""
    sides = [s for s in (p.disturbances, p.transfer) if s is not None]
    against = [f"Worse: {s.name}." for s in sides if s.outcome == "worse"]
    against += _named("Shown worse in", [s for s in p.strata if s.outcome == "worse"])
    against += [f"{_sentence(b)} It does not work by itself." for b in p.bars if b.met is False]
    if against:
        return replace(p, outcome="REJECT", reasons=tuple(against))
    left = [] if p.disturbances else ["No perturbed column was measured on both runs."]
    left += [missing] if p.transfer is None else []
    left += [f"Not shown to be better: {s.name}. {_power(s)}" for s in sides if s.outcome != "better"]
    points = f"{100 * NOT_WORSE_BY:g} points"
    left += _named(
        f"A loss of {points} is not excluded in", [s for s in p.strata if s.outcome == "not shown"]
    )
    left += [f"{_sentence(b)} Neither is shown." for b in p.bars if b.met is None]
    return replace(p, outcome="INCONCLUSIVE" if left else "PROMOTE", reasons=tuple(left))


def _named(says: str, strata: Sequence[Stratum]) -> list[str]:
    """Says in a sentence which strata, the worst first; nothing where there are none."""
    if not strata:
        return []
    first = sorted(strata, key=lambda s: s.difference.value)[:NAMED]
    names = "; ".join(f"{s.name} ({s.side}, {s.difference.n} pairs)" for s in first)
    more = len(strata) - len(first)
    return [f"{says} {names}{f' and {more} more strata' if more else ''}."]


def _sentence(b: Bar) -> str:
    return f"{b.name[0].upper()}{b.name[1:]}: asked {b.asked}, measured {b.measured}."


def _power(s: Side) -> str:
    """Says what difference could have been found, and how many scenarios would find one."""
    if s.detectable is None or s.detectable >= 1:
        return (
            f"{s.pairs} scenarios could have found no difference of success at all; take more (--scenarios)."
        )
    text = f"With {s.pairs} pairs a true difference of {100 * s.detectable:.1f} points of success would be "
    text += f"found with 80% power; {100 * SMALL:g} points take --scenarios {s.scenarios_for(SMALL)}"
    seen = s.metrics["success"].value
    more = s.scenarios_for(seen)
    if seen > 0 and more is not None and more > s.pairs:
        text += f", the {100 * seen:.1f} that were seen --scenarios {more}"
    return f"{text}."


def _broken(candidate: Result, baseline: Result, look: Look | None) -> tuple[str, ...]:
    """Says what is wrong with the evidence, so that nothing may be decided on it."""
    out = []
    if candidate.caveat:
        out.append(f"{candidate.caveat} Let it finish, or promote a run that has.")
    if candidate.summary.checkpoint == baseline.summary.checkpoint:
        out.append("Candidate and baseline are one policy, by the digest of their checkpoints.")
    for who, result in (("candidate", candidate), ("baseline", baseline)):
        if not result.summary.columns:
            out.append(f"The {who} was evaluated before there were columns; evaluate it again.")
    if _other_scenarios(candidate, baseline):
        out.append("Rows of the same number are of different scenarios; evaluate both on one panel.")
    if look is not None and look.fault:
        out.append(f"{look.fault} Decide on scenarios that nobody has looked at (--fresh).")
    return tuple(out)


def _other_scenarios(candidate: Result, baseline: Result) -> bool:
    """Returns whether a scenario's number stands for another scenario in the other table."""
    known = [n for n in _SCENARIO if n in candidate.table and n in baseline.table]
    mine, theirs = (
        dict(
            zip(
                r.table["scenario"].tolist(),
                zip(*(r.table[n].tolist() for n in known), strict=True) if known else (),
                strict=False,
            )
        )
        for r in (_nominal(candidate), _nominal(baseline))
    )
    return any(mine[k] != theirs[k] for k in mine.keys() & theirs.keys())


def _nominal(result: Result) -> Result:
    return replace(result, table=result.rows)


def _second(candidate: Result, baseline: Result, nominal: set[Key]) -> tuple[str, str]:
    """Returns the second simulator, "" where there is none, and then why. On terrain it is the box world:
    stride and native MuJoCo touch uneven ground by one and the same contact function, Surefoot's."""
    known = {k[1] for k in nominal} - {candidate.run.engine, baseline.run.engine}
    if "terrain" in candidate.rows and not np.isin(candidate.rows["terrain"].astype(str), ("", "flat")).all():
        if BOX_WORLD in known:
            return BOX_WORLD, ""
        return "", (
            "No independent reference was measured on this terrain: native MuJoCo touches uneven ground "
            f"by Surefoot's own contact function there. {BOX_WORLD} would be one."
        )
    if known:
        return REFERENCE if REFERENCE in known else min(known), ""
    return "", (
        "The nominal column was not measured on a simulator that neither run was trained on; evaluate both "
        "with `surefoot evaluate RUN`."
    )


def check_promotable(run: RunFolder) -> None:
    """Refuses runs that nothing could be shown of."""
    if isinstance(run.record.contract, ExternalContract):
        raise SurefootError(
            f"{run.path} was trained on {run.record.task}, which comes from outside and can neither be "
            "perturbed nor simulated elsewhere; use `surefoot compare`."
        )
