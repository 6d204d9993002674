"""Two runs on the same scenarios: what differs in behaviour, how sure that is, or why it may not be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import BESIDE, NOMINAL, Contract, ExternalContract, Field, SurefootError, as_half
from surefoot.evidence.constructs import (
    column_difference,
    construct_difference,
    interface_difference,
    other_signals,
    training_difference,
)
from surefoot.evidence.judgement import judgement
from surefoot.runs import Look, Result, RunFolder, load_result, note_look, scenarios_of
from surefoot.statistics import SPANS, Difference, paired, panel_strata

METRICS = {
    "success": "success",
    "fall rate": "fall",
    "velocity error m/s": "velocity_error_mps",
    "yaw error rad/s": "yaw_error_radps",
    "velocity error, 1 s means": "window_velocity_error_mps",
    "yaw error, 1 s means": "window_yaw_error_radps",
    **{title: name for name, title in BESIDE.items()},
}
"""Title -> column. Those from the verdict's own on stand beside it: success does not follow from them, but
where a task declares a limit."""
OUTSIDE = {"success": "success", "fall rate": "fall", "return": "return"}
"""The same where the reward is the environment's own: that of a task of ours is part of the treatment."""
Rows = Mapping[str, np.ndarray]
EVIDENCE = "evidence"
"""Named as what differs where a run's own files contradict each other: nothing can be compared with it."""
PANEL_FIELDS = ("panel", "panel_digest")
_SCENARIO = (
    "command_vx",
    "command_vy",
    "command_wz",
    "friction",
    "payload_kg",
    "terrain",
    "level",
)
"""What a scenario is besides its key: a key names draws, and panels may use them for different commands."""


@dataclass(frozen=True)
class Refusal:
    """Why two results may not be compared."""

    differs: tuple[Field, ...]
    shared: int
    """Scenarios that both have; comparable with --shared-panel when only the panel differs."""
    offered: bool

    @property
    def offer(self) -> str:
        """Says in a sentence what can be done about it."""
        if any(f.name == EVIDENCE for f in self.differs):
            return (
                "The files of a run contradict each other, or it is not what it says; look closer with "
                "`surefoot verify RUN` and `surefoot audit RUN`."
            )
        if self.offered:
            return f"They share {self.shared} scenarios; compare on those with --shared-panel."
        if self.shared:
            return (
                f"They share {self.shared} scenarios, but not what is measured on them; "
                "evaluate both under one contract."
            )
        return "They share no scenario; evaluate both on one panel."


def refusal_sentence(a: str, b: str, differs: tuple[Field, ...]) -> str:
    """Says which fields keep results `a` and `b` from being compared."""
    return (
        f"{a} and {b} were not measured alike ({', '.join(f.name for f in differs)}); nothing was compared."
    )


@dataclass(frozen=True)
class Comparison:
    """B against A on the scenarios of both."""

    a: str
    b: str
    half: str
    column: str
    engine: str
    n: int
    shared_panel: bool
    metrics: dict[str, Difference]
    strata: dict[str, Difference]
    """Difference of success by stratum."""
    training: tuple[Field, ...]
    """Fields in which the treatments differ; shown, never refused."""
    a_caveat: str = ""
    """What must be said beside the result of A: training that went on after it. "" where nothing."""
    b_caveat: str = ""
    interface: tuple[Field, ...] = ()
    """Fields in which the interfaces of the policies differ: treatment as well."""
    other_signals: tuple[str, ...] = ()
    """Sensors with noise that are called alike and are not the same signal."""
    same_policy: bool = False
    """Whether A and B are one policy, by the digest of what was evaluated: all differences are then zero."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    a: Result, b: Result, half: str = "confirmation", column: str = NOMINAL, shared_panel: bool = False
) -> Comparison | Refusal:
    """Compares two results scenario by scenario; refused where their constructs differ."""
    differs = construct_difference(a, b) + column_difference(a, b, column)
    pairs = shared_scenarios(a, b)
    panel_only = all(_of_panel(f) for f in differs)
    if differs and not (shared_panel and panel_only and len(pairs)):
        return Refusal(differs, len(pairs), offered=panel_only and len(pairs) > 0)
    if not len(pairs):
        raise SurefootError(
            f"{a.folder} and {b.folder} have no scenario in common; evaluate both on the same --half."
        )
    left = {k: v[pairs[:, 0]] for k, v in a.rows.items()}
    right = {k: v[pairs[:, 1]] for k, v in b.rows.items()}
    metrics = {}
    for title, name in metrics_of(a.run.contract).items():
        difference = _difference(left, right, name)
        if difference is not None:
            metrics[title] = difference
    strata = {}
    for label, mask in panel_strata(left, a.run.contract).items():
        difference = _difference(left, right, "success", mask)
        if difference is not None:
            strata[label] = difference
    return Comparison(
        a=a.run.id,
        b=b.run.id,
        half=half,
        column=column,
        engine=a.engine,
        n=len(pairs),
        shared_panel=bool(differs),
        metrics=metrics,
        strata=strata,
        training=training_difference(a, b),
        interface=interface_difference(a, b),
        other_signals=other_signals(a, b),
        a_caveat=a.caveat,
        b_caveat=b.caveat,
        same_policy=a.summary.checkpoint == b.summary.checkpoint,
    )


def unsound(a: Result, b: Result) -> tuple[Field, ...]:
    """Returns what the evidence of either contradicts itself in; nothing where both are sound."""
    says = ["; ".join(map(str, judgement(r).faults)) or "sound" for r in (a, b)]
    return () if says == ["sound", "sound"] else (Field(EVIDENCE, *says),)


def _of_panel(field: Field) -> bool:
    """Tells what differs because panels do: a longer one may have classes of terrain that the other lacks."""
    lacks = field.name.startswith("terrain.") and None in (field.a, field.b)
    return field.name in PANEL_FIELDS or lacks


def metrics_of(contract: Contract) -> dict[str, str]:
    """Returns what two results under this contract are compared by: title -> column."""
    return OUTSIDE if isinstance(contract, ExternalContract) else METRICS


def _difference(a: Rows, b: Rows, name: str, mask: np.ndarray | None = None) -> Difference | None:
    """Compares the scenarios where both have a value; an error exists only where the robot lasted long
    enough."""
    x, y = a[name].astype(np.float64), b[name].astype(np.float64)
    known = np.isfinite(x) & np.isfinite(y) & (True if mask is None else mask)
    return paired(x[known], y[known], a["family"][known], SPANS[name]) if known.any() else None


def shared_scenarios(a: Result, b: Result) -> np.ndarray:
    """Returns the row numbers [n, 2] of the scenarios that both results have: the same key and the same
    content."""
    rows_of_a = {k: i for i, k in enumerate(_identities(a))}
    pairs = [(rows_of_a[k], j) for j, k in enumerate(_identities(b)) if k in rows_of_a]
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def _identities(result: Result) -> list[tuple[Any, ...]]:
    rows, seeds = result.rows, result.run.panel_seeds
    # What an outside simulator does not tell is nan, which would not even be equal to itself.
    content = zip(*([None if v != v else v for v in rows[k].tolist()] for k in _SCENARIO), strict=True)
    places = zip(rows["family"].tolist(), rows["member"].tolist(), strict=True)
    # The address of a scenario's draws, which its key is a hash of; rows of any version have it.
    return [(seeds.root, seeds.split, *p, *c) for p, c in zip(places, content, strict=True)]


@dataclass(frozen=True)
class Compared:
    """Holds what came of comparing the runs called `a` and `b`."""

    a: str
    b: str
    outcome: Comparison | Refusal
    look: Look | None = None
    """The look at the confirmation half; None where nothing was compared, or on the other half."""


def compare_runs(
    folders: Sequence[str | Path],
    *,
    half: str = "confirmation",
    column: str = "nominal",
    shared_panel: bool = False,
) -> list[Compared]:
    """Compares every run after the first with the first."""
    if len(folders) < 2:
        raise SurefootError("Comparing takes two runs or more: surefoot compare RUN_A RUN_B.")
    chosen = as_half(half)
    runs = [RunFolder.open(f) for f in folders]
    first, *others = results = [load_result(run, chosen, column) for run in runs]
    found = [(r, compare_sound(first, r, half, column, shared_panel)) for r in others]
    look = None
    if chosen != "selection" and any(isinstance(outcome, Comparison) for _, outcome in found):
        seen = Look(
            scenarios_of(first.summary.panel, first.run.panel_seeds),
            first.summary.panel_digest,
            "compare",
            tuple(r.summary.checkpoint for r in results),
        )
        look = note_look([run.path.parent for run in runs], seen)
    return [Compared(first.run.id, r.run.id, outcome, look) for r, outcome in found]


def compare_sound(
    a: Result, b: Result, half: str = "confirmation", column: str = NOMINAL, shared_panel: bool = False
) -> Comparison | Refusal:
    """Compares two results from disk; one whose own files contradict each other is refused before all."""
    wrong = unsound(a, b)
    if not wrong:
        return compare(a, b, half, column, shared_panel)
    return Refusal(wrong + construct_difference(a, b), len(shared_scenarios(a, b)), offered=False)
