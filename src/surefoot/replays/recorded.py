"""Replay: an episode of a panel played again from its row, and compared with what was recorded.

An episode recorded on a CPU is replayed to the bit on the same kind of machine: physics does not depend on
who else is in the batch, and inference always has the same number of rows. One recorded on a GPU (the
selection half of a run trained there) is replayed on the CPU: the same outcome and label, and states within
`GPU_TOLERANCE` for a second; after that the two part as any two roundings of a walking robot do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import load_npz
from surefoot.contract import NOMINAL, Column, SurefootError
from surefoot.evaluation import PanelEvaluator
from surefoot.policy import Policy
from surefoot.runs import STATES, RunFolder, read_rows, read_summary, states_digest, typed
from surefoot.statistics import PanelSummary

METRIC_TOLERANCE = 1e-5
"""Relative. States agree to the bit; sums over joints are taken in an order that depends on the batch."""
GPU_TOLERANCE = 1e-2
"""m or rad, over the first second, of an episode that was recorded on a GPU."""
NEEDED = ("column", "perturbation", "strength", "engine", "policy", "scenario", "trace", "states_digest")
UNCOMPARED = ("trace", "device", "look")
"""Fields that say how a row was kept, not what happened."""
EXACT = ("success", "fall", "reason", "steps", "label", "cause", "recovered", "key")


@dataclass(frozen=True)
class Recorded:
    """Holds one row of a panel's table on disk."""

    folder: Path
    summary: PanelSummary
    row: dict[str, Any]

    @property
    def column(self) -> Column:
        """Returns the perturbation that the row was recorded under."""
        kind, strength = str(self.row["perturbation"]), float(self.row["strength"])
        name = str(self.row["column"]) if kind else NOMINAL
        return Column(name=name, perturbation=kind, strength=strength)

    def trace(self) -> dict[str, np.ndarray] | None:
        stem = str(self.row["trace"])
        return load_npz(self.folder / "traces" / f"{stem}.npz") if stem else None


@dataclass(frozen=True)
class Verdict:
    """Says what a replay shows about a recorded episode."""

    same_states: bool
    """Whether states agree to the bit at every step; those recorded on a GPU, to `GPU_TOLERANCE` for a
    second."""
    same_label: bool
    largest_difference: float | None
    """The largest over all states, m or rad; None where no trace was kept to measure it on."""
    differing: tuple[str, ...] = field(default=())
    """Figures of the row that the replay does not confirm."""

    @property
    def holds(self) -> bool:
        return self.same_states and self.same_label and not self.differing


def panel_folder(run: RunFolder, where: str) -> Path:
    """Finds `panels/<panel>/<where>` of a run; `where` may also name the panel: walk-flat-v1/confirmation."""
    pattern = where if "/" in where else f"*/{where}"
    folders = [p.parent for p in sorted((run.path / "panels").glob(f"{pattern}/summary.json"))]
    own = [p for p in folders if p.parent.name == run.record.panel]
    if len(own or folders) == 1:
        return (own or folders)[0]
    known = sorted((run.path / "panels").glob("*/*/summary.json"))
    there = [str(p.parent.relative_to(run.path / "panels")) for p in known]
    known_ones = f"use --where with one of: {', '.join(there)}"
    make_one = f"make one with `{typed('evaluate', run.path)}`"
    raise SurefootError(f"{run.path} has no evaluation '{where}'; {known_ones if there else make_one}.")


def find_recorded(
    run: RunFolder, episode: str, where: str, column: str = NOMINAL, engine: str | None = None
) -> Recorded:
    """Finds the row of an episode: by a scenario's number in a column, or the name of a trace."""
    folder = panel_folder(run, where)
    summary = read_summary(folder)
    path = folder / "episodes.parquet"
    rows = read_rows(folder, summary)
    if any(k not in rows for k in (*NEEDED, *EXACT)):
        raise SurefootError(
            f"'{path}' was written before episodes could be replayed; make it again with `surefoot evaluate`."
        )
    if episode.isdecimal():
        at = (rows["scenario"] == int(episode)) & (rows["column"] == column)
    else:
        at = rows["trace"] == episode
    if engine is not None:
        at &= rows["engine"] == engine
    if not at.any():
        known = rows["scenario"]
        raise SurefootError(
            f"'{path}' has no episode {episode} in column {column}{f' on {engine}' if engine else ''}; "
            f"scenarios go from {known.min()} to {known.max()}, "
            f"columns are {', '.join(dict.fromkeys(rows['column'].tolist()))}, "
            f"engines are {', '.join(dict.fromkeys(rows['engine'].tolist()))}."
        )
    i = int(np.flatnonzero(at)[0])
    return Recorded(folder, summary, {k: v[i] for k, v in rows.items()})


def scenarios_of(run: RunFolder, where: str, column: str) -> np.ndarray:
    """Returns the scenarios that a column was played on: columns may be of fewer than the nominal one."""
    folder = panel_folder(run, where)
    rows = read_rows(folder, read_summary(folder))
    return np.unique(rows["scenario"][rows["column"] == column])


def replay(
    evaluator: PanelEvaluator, policy: Policy, column: Column, name: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Plays and returns (row, trace) of the one scenario that `evaluator` has laid out."""
    result = evaluator.run(policy, column, name=name)
    row = {k: v[0] for k, v in result.rows.items()}
    return row, next(iter(result.traces.values()))


def verify(recorded: Recorded, row: dict[str, Any], trace: dict[str, np.ndarray]) -> Verdict:
    """Compares a replay with the row that it is of, and with its trace where one was kept."""
    was = recorded.row
    if str(was.get("device", "cpu")) != "cpu":
        return _alike(recorded, row, trace)
    kept, largest = recorded.trace(), None
    same = str(was["states_digest"]) == states_digest(trace)
    if kept is not None:
        if any(k not in kept or kept[k].shape[1:] != trace[k].shape[1:] for k in STATES):
            raise SurefootError(
                f"The trace {was['trace']} in {recorded.folder} is not one of an episode; evaluate again."
            )
        short = min(len(kept[STATES[0]]), len(trace[STATES[0]]))
        largest = max(float(np.abs(kept[k][:short] - trace[k][:short]).max(initial=0.0)) for k in STATES)
        same = same and states_digest(kept) == str(was["states_digest"])
    differing = [k for k in EXACT if was[k] != row[k]]
    differing += [
        k for k in was if _is_metric(k, was) and not _close(float(was[k]), float(row.get(k, np.nan)))
    ]
    return Verdict(same, str(was["label"]) == str(row["label"]), largest, tuple(differing))


def differing(was: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    """Names the fields of a recorded row that a replay on the same kind of machine does not give again."""
    out = []
    for name in (k for k in was if k not in UNCOMPARED):
        if name not in now:
            out.append(name)
        elif _is_metric(name, was):
            if not _close(float(was[name]), float(now[name])):
                out.append(name)
        elif was[name] != now[name]:
            out.append(name)
    return tuple(out)


def _alike(recorded: Recorded, row: dict[str, Any], trace: dict[str, np.ndarray]) -> Verdict:
    """Compares a replay with an episode that was recorded on a GPU."""
    was, kept, largest = recorded.row, recorded.trace(), None
    if kept is not None:
        second = round(float(kept["control_hz"]))
        gaps = (np.abs(kept[k][:second] - trace[k][:second]).max(initial=0.0) for k in STATES)
        largest = max(float(x) for x in gaps)
    differing = tuple(k for k in ("success", "fall", "reason", "key") if was[k] != row[k])
    same_states = largest is None or largest <= GPU_TOLERANCE
    return Verdict(same_states, str(was["label"]) == str(row["label"]), largest, differing)


def _is_metric(name: str, row: dict[str, Any]) -> bool:
    return name not in EXACT and isinstance(row[name], float | np.floating)


def _close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=METRIC_TOLERANCE, atol=METRIC_TOLERANCE, equal_nan=True))
