"""What a promotion rests on, from episode rows: two sides that must improve, strata that must not get worse,
and bars that a candidate must clear whatever it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefoot.contract import NOMINAL, PERTURBATIONS, TRAINED, TaskContract
from surefoot.runs import Result
from surefoot.statistics import (
    ALPHA,
    HOLDS_AT,
    SPANS,
    Difference,
    Rate,
    holm,
    paired,
    panel_strata,
    rate,
)

METRICS = {"success": 1.0, "velocity_error_mps": -1.0}
"""What decides, and which way is better."""
SHOWN_ONLY = tuple(c for c in SPANS if c not in (*METRICS, "return"))
"""What is shown beside it, where both runs have it."""
NOT_WORSE_BY = 0.1
"""Points of success that a stratum of enough pairs may be worse, at most: shown at 95%, one-sided."""
ENOUGH_PAIRS = 64
"""Pairs from which on a stratum must be shown not to be worse; smaller ones are named and left open."""
Key = tuple[str, str, int]
"""Column, engine, number of the scenario."""
StratumOutcome = Literal["worse", "not worse", "not shown", "undecided"]
Change = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True)
class Side:
    """One of the two things that must improve."""

    name: str
    columns: tuple[str, ...]
    pairs: int
    """Scenarios that both ran."""
    of: int
    """Scenarios of the whole list: columns may be played on a part of it."""
    metrics: dict[str, Difference]
    """Candidate less baseline, averaged over the columns of a scenario, with 95% intervals."""
    beside: dict[str, Difference]
    """The same of metrics that are shown and decide nothing."""
    outcome: Change
    detectable: float | None
    """Smallest true difference of success that would have been found with 80% power; None: none at all."""

    def scenarios_for(self, difference: float) -> int | None:
        """Returns how long a list would find a difference of success of this size with 80% power."""
        if not difference or self.detectable is None:
            return None
        return 64 * math.ceil(self.of * (self.detectable / abs(difference)) ** 2 / 64)


@dataclass(frozen=True)
class Stratum:
    """Success in one stratum on one side, candidate less baseline."""

    side: str
    name: str
    difference: Difference
    p: float
    """The p-value of a difference either way, by sign flips, as Holm adjusts it over all strata."""
    outcome: StratumOutcome
    """Not shown: enough pairs, and a loss of 10 points is not excluded. Undecided: too few pairs to ask."""


@dataclass(frozen=True)
class Bar:
    """What a candidate must be shown to do whatever it is compared with."""

    name: str
    asked: str
    measured: str
    met: bool | None
    """None: neither that it does nor that it does not is shown."""


@dataclass(frozen=True)
class Pairs:
    """Values of both runs by scenario: means over the columns where both have the metric."""

    candidate: np.ndarray
    baseline: np.ndarray
    family: np.ndarray
    scenario: np.ndarray

    def __len__(self) -> int:
        return len(self.scenario)

    def at(self, mask: np.ndarray) -> Pairs:
        return Pairs(self.candidate[mask], self.baseline[mask], self.family[mask], self.scenario[mask])

    def difference(self, metric: str, confidence: float = 0.95) -> Difference:
        return paired(self.baseline, self.candidate, self.family, SPANS[metric], confidence)


def side(name: str, candidate: Result, baseline: Result, keys: set[Key], alpha: float) -> Side:
    """Judges one side at level `alpha`: better when one of the metrics is, at a half of it each, since there
    are two chances, and neither is worse at 5%."""
    metrics: dict[str, Difference] = {}
    better = worse = False
    detectable = math.inf
    for metric, sign in METRICS.items():
        pairs = pairs_of(candidate, baseline, metric, keys)
        if not len(pairs):
            continue
        difference = pairs.difference(metric)
        strict = pairs.difference(metric, 1 - alpha / len(METRICS))
        metrics[metric] = difference
        better |= strict.low > 0 if sign > 0 else strict.high < 0
        # Also by sign flips: the caution of an interval of few families must not excuse what they do show.
        worse |= difference.high < 0 if sign > 0 else difference.low > 0
        worse |= difference.value * sign < 0 and difference.p <= ALPHA
        detectable = strict.detectable if metric == "success" else detectable
    shown = {m: pairs_of(candidate, baseline, m, keys) for m in SHOWN_ONLY}
    return Side(
        name,
        tuple(sorted({k[0] for k in keys})),
        len({k[2] for k in keys}),
        len(np.unique(candidate.rows["scenario"])),
        metrics,
        {m: p.difference(m) for m, p in shown.items() if len(p)},
        "worse" if worse else "better" if better else "no difference shown",
        detectable if math.isfinite(detectable) else None,
    )


def strata(candidate: Result, baseline: Result, sides: Mapping[str, set[Key]]) -> tuple[Stratum, ...]:
    """Compares success stratum by stratum on every side; p-values are adjusted over all of them."""
    rows = candidate.rows
    masks = panel_strata(rows, candidate.run.contract)
    members = {name: set(rows["scenario"][mask].tolist()) for name, mask in masks.items()}
    found: list[tuple[str, str, Difference, Difference]] = []
    for of, keys in sides.items():
        pairs = pairs_of(candidate, baseline, "success", keys)
        for name, within in members.items():
            some = pairs.at(np.isin(pairs.scenario, list(within)))
            if len(some):
                loose = some.difference("success", 1 - 2 * ALPHA)  # one-sided at 5%
                found.append((of, name, some.difference("success"), loose))
    adjusted = holm([d.p for _, _, d, _ in found])
    return tuple(
        Stratum(of, name, d, p, _stratum(d, p, loose))
        for (of, name, d, loose), p in zip(found, adjusted, strict=True)
    )


def _stratum(d: Difference, p: float, loose: Difference) -> StratumOutcome:
    if d.value < 0 and p <= ALPHA:
        return "worse"
    if d.n < ENOUGH_PAIRS:
        return "undecided"
    return "not worse" if loose.low > -NOT_WORSE_BY else "not shown"


def bars(candidate: Result, baseline: Result, perturbed: set[Key], nominal: set[Key]) -> tuple[Bar, ...]:
    """Asks whether the candidate works by itself, on the same rows."""
    out = []
    if nominal:
        second = next(iter(nominal))[1]
        candidates, baselines = (success_rate(r, nominal) for r in (candidate, baseline))
        measured = f"{_said(candidates)}; the baseline {_said(baselines)}"
        asked = f"interval from {HOLDS_AT:.0%} up"
        out.append(Bar(f"success on {second}", asked, measured, _held(candidates)))
    if perturbed:
        out.append(_withstands(candidate, perturbed))
    return (*out, *_judged(candidate))


def _withstands(candidate: Result, keys: set[Key]) -> Bar:
    by = {c: success_rate(candidate, {k for k in keys if k[:2] == c}) for c in sorted({k[:2] for k in keys})}
    held = [_held(r) for r in by.values()]
    best = max(by, key=lambda c: by[c].low)
    return Bar(
        "success under disturbances",
        f"interval from {HOLDS_AT:.0%} up under one of them at least",
        f"under {held.count(True)} of {len(by)}; best {' on '.join(best)}, {_said(by[best])}",
        True if True in held else None if None in held else False,
    )


def _held(r: Rate) -> bool | None:
    """Returns whether a rate is shown to be 80% or more, or shown not to be; None: neither."""
    return True if r.low >= HOLDS_AT else False if r.high < HOLDS_AT else None


def _judged(candidate: Result) -> Iterator[Bar]:
    """Asks for what its report is failed by, besides success: from the rows, whatever summary.json says."""
    s = candidate.summary  # counted from the rows
    contract = candidate.run.contract
    if isinstance(contract, TaskContract) and contract.safety is not None:
        limit = contract.safety
        said = {True: "held", False: "broken", None: "not measured"}[s.safety_held]
        yield Bar("safety", f"{limit.name} at most {limit.limit:g}", f"the limit is {said}", s.safety_held)
    beaten = {True: "all beaten", False: "not shown to beat every one", None: "not measured"}
    yield Bar("baselines", "every baseline beaten", beaten[s.beats_baselines], s.beats_baselines)


def success_rate(result: Result, keys: set[Key]) -> Rate:
    """Returns success on the scenarios of `keys`."""
    success, family = values(result, "success"), families(result)
    order = sorted(keys)
    return rate(np.array([success[k] for k in order]), np.array([family[k[2]] for k in order]))


def _said(r: Rate) -> str:
    return f"{r.value:.1%} (95% interval {r.low:.1%} to {r.high:.1%}, n {r.n}, n_eff {r.n_eff:.1f})"


def pairs_of(candidate: Result, baseline: Result, metric: str, keys: set[Key]) -> Pairs:
    """Returns both runs' values of a metric by scenario."""
    a, b = values(candidate, metric), values(baseline, metric)
    by: dict[int, list[tuple[float, float]]] = {}
    for key in sorted(keys & a.keys() & b.keys()):
        by.setdefault(key[2], []).append((a[key], b[key]))
    means = np.array([np.mean(v, axis=0) for v in by.values()]).reshape(-1, 2)
    family = families(candidate)
    return Pairs(
        means[:, 0], means[:, 1], np.array([family[s] for s in by]), np.array(list(by), dtype=np.int64)
    )


def families(result: Result) -> dict[int, int]:
    """Returns the seed family of each scenario."""
    return dict(zip(result.table["scenario"].tolist(), result.table["family"].tolist(), strict=True))


def values(result: Result, metric: str) -> dict[Key, float]:
    """Returns the finite values of a metric: of the trained policy, nominally and under Surefoot's own
    perturbations (what another package's does is not part of the construct)."""
    t = result.table
    if metric not in t:
        return {}
    own = np.isin(t["perturbation"].astype(str), ["", *(p.name for p in PERTURBATIONS)]) & (
        t["policy"].astype(str) == TRAINED
    )
    x = np.asarray(t[metric], np.float64)
    at = np.flatnonzero(own & np.isfinite(x))
    names = (t["column"][at].astype(str).tolist(), t["engine"][at].astype(str).tolist())
    return dict(zip(zip(*names, t["scenario"][at].tolist(), strict=True), x[at].tolist(), strict=True))


def shared(candidate: Result, baseline: Result) -> tuple[set[Key], set[Key]]:
    """Returns what both ran: (under perturbations, nominally)."""
    both = set(values(candidate, "success")) & set(values(baseline, "success"))
    nominal = {k for k in both if k[0] == NOMINAL}
    return both - nominal, nominal
