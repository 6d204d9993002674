"""What a run's figures amount to, in one line, by rules that are stated where the line is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from surefoot.reporting.figures import Column, PanelFigures, RunFigures
from surefoot.reporting.web.html import NOT_MEASURED, number, percent
from surefoot.statistics import Grade as KnownGrade

Grade = KnownGrade | Literal["none"]


@dataclass(frozen=True)
class Claim:
    """One of the three claims that are never mixed."""

    name: str
    says: str
    grade: Grade


@dataclass(frozen=True)
class Verdict:
    grade: Grade
    headline: str
    detail: str
    evidence: str
    claims: tuple[Claim, ...]
    caveats: tuple[str, ...] = ()
    """What must be said beside it: of an unfinished or resumed run, of a ledger with holes."""
    faults: tuple[str, ...] = ()
    """Where the run's files contradict each other; said before anything else."""


def verdict(run: RunFigures) -> Verdict:
    systems = Claim("systems claim", _speed(run), "none" if run.steps_per_second.value is None else "good")
    panel = run.panel
    if panel is None:
        status = run.record.status
        return Verdict(
            "none",
            "Not confirmed",
            f"This run is {status}; nothing was evaluated on the confirmation half, so it shows nothing yet.",
            "no held-out result",
            (systems, Claim("learning claim", NOT_MEASURED, "none"), _embodiment(None)),
            run.caveats,
        )
    s, lost = panel.nominal.success, beaten_by(panel)
    held, judged = panel.summary.safety_held, panel.judgement
    grade: Grade = judged.grade
    detail = (
        f"{percent(s.value)} of {s.n} held-out episodes succeed "
        f"({100 * s.confidence:g}% interval {percent(s.low)} to {percent(s.high)}, n_eff {number(s.n_eff)})"
    )
    if lost:
        detail += f"; not better than {', '.join(c.policy for c in lost)}"
    elif panel.baselines:
        detail += "; better than every baseline"
    detail += "; the safety limit is broken." if held is False else "."
    learning = Claim("learning claim", f"{percent(s.value)} success, held out", grade)
    claims = (systems, learning, _embodiment(panel))
    faults = tuple(map(str, judged.faults))
    beside = (*run.caveats, *judged.remarks)
    return Verdict(grade, judged.word, detail, _evidence(panel), claims, beside, faults)


def beaten_by(panel: PanelFigures) -> tuple[Column, ...]:
    """Baselines that the policy is not shown to beat: their success interval reaches into the policy's."""
    if panel.summary.beats_baselines is not False:
        return ()
    low = panel.nominal.success.low or 0.0
    worse = tuple(c for c in panel.baselines if (c.success.high or 0.0) >= low)
    return worse or panel.baselines


def _speed(run: RunFigures) -> str:
    value = run.steps_per_second.value
    if value is None:
        return NOT_MEASURED
    return f"{number(value)} steps/s on {run.record.device}, engine {run.record.engine}"


def _embodiment(panel: PanelFigures | None) -> Claim:
    name = "embodiment claim"
    if panel is None or not panel.perturbed:
        return Claim(name, NOT_MEASURED, "none")
    holds = [c for c in panel.perturbed if c.holds]
    total = len(panel.perturbed)
    if all(c.holds is None for c in panel.perturbed):
        return Claim(name, f"{total} perturbations measured, none judged", "none")
    grade: Grade = "good" if len(holds) == total else "mixed" if holds else "bad"
    grade = grade if panel.judgement.sound else "unproven"
    return Claim(name, f"holds under {len(holds)} of {total} perturbations", grade)


def _evidence(panel: PanelFigures) -> str:
    parts = ["held-out confirmation"]
    parts.append(f"{len(panel.baselines)} baselines" if panel.baselines else "no baselines")
    parts.append(f"{len(panel.perturbed)} perturbations" if panel.perturbed else "no perturbations")
    if panel.summary.agreement:
        parts.append("sim-to-sim on " + ", ".join(a.engine for a in panel.summary.agreement))
    else:
        parts.append("one simulator")
    return " · ".join(parts)
