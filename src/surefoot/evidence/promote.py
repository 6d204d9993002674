"""Promotion: a candidate replaces a baseline run only when it is better under disturbances and on a second
simulator, both at once, and works by itself. Better on one of them alone is how a policy is tuned to its own
simulator; better than what fails may still be failing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surefoot.contract import NOMINAL, REFERENCE, TRAINED, ExternalContract, Field, SurefootError
from surefoot.evidence.compare import unsound
from surefoot.evidence.constructs import columns_difference, construct_difference
from surefoot.runs import Result, RunFolder, load_result
from surefoot.statistics import HOLDS_AT, SPANS, Difference, Rate, judge, paired, rate

METRICS = {"success": 1.0, "velocity_error_mps": -1.0}
"""What is compared, and which way is better."""
CHANCES = 1 - 0.05 / len(METRICS)
"""Confidence at which one metric alone shows that a candidate is better: each is one more chance to."""
Key = tuple[str, str, int]
Outcome = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class Side:
    """One of the two things that must improve."""

    name: str
    columns: tuple[str, ...]
    metrics: dict[str, Difference]
    """Candidate less baseline; success and error averaged over the columns of a scenario, at 95%."""
    outcome: Outcome


@dataclass(frozen=True)
class Bar:
    """What a candidate must be shown to do whatever it is compared with."""

    name: str
    asked: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Promotion:
    candidate: str
    baseline: str
    differs: tuple[Field, ...]
    """Construct fields in which the two differ; then nothing was compared."""
    disturbances: Side | None = None
    transfer: Side | None = None
    bars: tuple[Bar, ...] = ()
    candidate_caveat: str = ""
    """Why the candidate's evidence is not of what it has been trained to; then it is not promoted."""
    baseline_caveat: str = ""
    """The same of the baseline, whose confirmed policy is what the candidate is compared with."""

    @property
    def promoted(self) -> bool:
        if self.candidate_caveat:
            return False
        sides = (self.disturbances, self.transfer)
        return all(s is not None and s.outcome == "better" for s in sides) and all(b.met for b in self.bars)

    def as_json(self) -> dict[str, Any]:
        return {"promoted": self.promoted, **asdict(self)}


def promote(candidate: Result, baseline: Result) -> Promotion:
    """Decides on the scenarios that both ran."""
    names = candidate.run.id, baseline.run.id
    differs = construct_difference(baseline, candidate) + columns_difference(baseline, candidate)
    if differs:
        return Promotion(*names, differs, candidate_caveat=candidate.caveat, baseline_caveat=baseline.caveat)
    both = set(_values(candidate, "success")) & set(_values(baseline, "success"))
    perturbed = {k for k in both if k[0] != NOMINAL}
    if not perturbed:
        raise SurefootError(
            "No perturbed column was measured on both runs; evaluate them with `surefoot evaluate RUN`."
        )
    known = {k[1] for k in both if k[0] == NOMINAL} - {candidate.run.engine, baseline.run.engine}
    if not known:
        raise SurefootError(
            "The nominal column was not measured on a simulator that neither run was trained on; evaluate "
            "both with `surefoot evaluate RUN`."
        )
    second = REFERENCE if REFERENCE in known else min(known)
    nominal = {k for k in both if k[:2] == (NOMINAL, second)}
    return Promotion(
        *names,
        (),
        _side("held-out disturbances", candidate, baseline, perturbed),
        _side(f"second simulator ({second}, sim-to-sim)", candidate, baseline, nominal),
        (
            _transfers(candidate, baseline, nominal, second),
            _withstands(candidate, perturbed),
            _judged(candidate),
        ),
        candidate_caveat=candidate.caveat,
        baseline_caveat=baseline.caveat,
    )


def _side(name: str, candidate: Result, baseline: Result, keys: set[Key]) -> Side:
    metrics: dict[str, Difference] = {}
    better = worse = False
    for metric, sign in METRICS.items():
        a, b, family = _pairs(candidate, baseline, metric, keys)
        if not len(family):
            continue
        difference = paired(b, a, family, SPANS[metric])
        strict = paired(b, a, family, SPANS[metric], CHANCES)
        metrics[metric] = difference
        better |= strict.low > 0 if sign > 0 else strict.high < 0
        # Also by sign flips: the caution of an interval of few families must not excuse what they do show.
        worse |= difference.high < 0 if sign > 0 else difference.low > 0
        worse |= difference.value * sign < 0 and difference.p <= 0.05
    outcome: Outcome = "worse" if worse else "better" if better else "no difference shown"
    return Side(name, tuple(sorted({k[0] for k in keys})), metrics, outcome)


def _transfers(candidate: Result, baseline: Result, keys: set[Key], second: str) -> Bar:
    candidates, baselines = (_rate(r, keys) for r in (candidate, baseline))
    return Bar(
        f"success on {second}",
        f"interval from {HOLDS_AT:.0%} up",
        f"{_said(candidates)}; the baseline {_said(baselines)}",
        candidates.low >= HOLDS_AT,
    )


def _withstands(candidate: Result, keys: set[Key]) -> Bar:
    rates = {c: _rate(candidate, {k for k in keys if k[:2] == c}) for c in sorted({k[:2] for k in keys})}
    held = [c for c, r in rates.items() if r.low >= HOLDS_AT]
    best = max(rates, key=lambda c: rates[c].low)
    return Bar(
        "success under disturbances",
        f"interval from {HOLDS_AT:.0%} up under one of them at least",
        f"under {len(held)} of {len(rates)}; best {' on '.join(best)}, {_said(rates[best])}",
        bool(held),
    )


def _judged(candidate: Result) -> Bar:
    """Asks for the verdict of its report, without what that says of success, which is asked above, and for
    more."""
    s = candidate.summary
    wrong = ["the safety limit is broken"] if s.safety_held is False else []
    wrong += ["not shown to beat every baseline"] if s.beats_baselines is False else []
    return Bar(
        "safety and baselines",
        "the limit held and every baseline beaten",
        " and ".join(wrong) or "so, as far as they were measured",
        judge(1.0, 1.0, s.safety_held, s.beats_baselines) != "bad",
    )


def _rate(result: Result, keys: set[Key]) -> Rate:
    """Success on the scenarios of `keys`."""
    success, family = _values(result, "success"), _families(result)
    order = sorted(keys)
    return rate(np.array([success[k] for k in order]), np.array([family[k[2]] for k in order]))


def _said(r: Rate) -> str:
    return f"{r.value:.1%} (95% interval {r.low:.1%} to {r.high:.1%}, n {r.n}, n_eff {r.n_eff:.1f})"


def _pairs(
    candidate: Result, baseline: Result, metric: str, keys: set[Key]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (candidate's, baseline's, family) by scenario: means over the columns where both have the
    metric."""
    a, b = _values(candidate, metric), _values(baseline, metric)
    by: dict[int, list[tuple[float, float]]] = {}
    for key in sorted(keys & a.keys() & b.keys()):
        by.setdefault(key[2], []).append((a[key], b[key]))
    means = np.array([np.mean(v, axis=0) for v in by.values()]).reshape(-1, 2)
    families = _families(candidate)
    return means[:, 0], means[:, 1], np.array([families[s] for s in by])


def _families(result: Result) -> dict[int, int]:
    """Returns the seed family of each scenario."""
    return dict(zip(result.table["scenario"].tolist(), result.table["family"].tolist(), strict=True))


def _values(result: Result, metric: str) -> dict[Key, float]:
    """Returns (column, engine, scenario) -> value, of the trained policy's built-in columns."""
    return {key: x for key, x in _rows(result, metric) if np.isfinite(x)}


def _rows(result: Result, metric: str) -> Iterator[tuple[Key, float]]:
    t = result.table
    if not result.summary.columns:
        raise SurefootError(f"{result.folder} was written before there were columns; evaluate the run again.")
    own = {c.column for c in result.summary.columns if not c.source}
    names = ("column", "engine", "scenario", "policy", metric)
    for column, engine, scenario, policy, x in zip(*(t[n].tolist() for n in names), strict=True):
        if policy == TRAINED and column in own:
            yield (column, engine, scenario), float(x)


def promote_run(candidate: str | Path, baseline: str | Path) -> Promotion:
    """Decides whether the run in folder `candidate` may replace the one in `baseline`."""
    runs = [RunFolder.open(f) for f in (candidate, baseline)]
    for run in runs:
        if isinstance(run.record.contract, ExternalContract):
            raise SurefootError(
                f"{run.path} was trained on {run.record.task}, which comes from outside and can neither be "
                "perturbed nor simulated elsewhere; use `surefoot compare`."
            )
    results = [load_result(run) for run in runs]
    wrong = unsound(results[1], results[0])
    if wrong:
        differs = wrong + construct_difference(results[1], results[0])
        return Promotion(results[0].run.id, results[1].run.id, differs)
    return promote(*results)
