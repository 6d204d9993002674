"""Looks at all that a run's files say about each other: seal, signature, ledger, ids, figures, policies and
traces. Nothing is simulated, and neither torch nor a simulator is needed; `replays` plays rows again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surefoot.artifacts import load_npz
from surefoot.contract import SurefootError, construct_fields, digest
from surefoot.evidence.judgement import judgement
from surefoot.runs import (
    Result,
    RunFolder,
    broken_chain,
    compare_seal,
    id_problems,
    ledger_fault,
    load_pass,
    read_ledger,
    read_seal,
    read_summary,
    signed_entry,
    states_digest,
)

Outcome = Literal["holds", "fails", "unseen"]
FEW = 3
"""Files or rows that a sentence names; the rest are counted."""
TRAINING = ("ledger.jsonl", "run.json", "checkpoints/latest", "checkpoints/best", "episodes/", "panels/")
"""What training that was resumed after a seal goes on writing."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it holds, fails, or could not be seen."""

    name: str
    outcome: Outcome
    says: str


def verify_files(run: RunFolder, key: str | Path | None = None) -> list[Check]:
    """Looks at everything that needs no replay. `key`: a public key that must have signed it."""
    checks = [_seal(run)]
    if key is not None:
        checks.append(_signature(run, key))
    looks: dict[str, Callable[[RunFolder], Iterator[str] | None]] = {
        "ledger": _ledger,
        "ids": _ids,
        "figures": _figures,
        "traces": _traces,
    }
    for name, look in looks.items():
        try:
            found = look(run)
            says = None if found is None else list(found)
        except SurefootError as error:  # a file that cannot even be read
            says = [str(error)]
        if says is None:
            checks.append(Check(name, "unseen", UNSEEN[name]))
        else:
            checks.append(Check(name, "fails" if says else "holds", " ".join(_few(says)) or SOUND[name]))
    return checks


SOUND = {
    "ledger": "Its chain is whole, and run.json counts what it counts.",
    "ids": "They follow from the fields that they are digests of.",
    "figures": "Every figure follows from the rows, and the rows from the contract and the panel.",
    "traces": "Each is the episode of its row.",
}
UNSEEN = {
    "ledger": "It was written before ledgers had a chain.",
    "ids": "They were made by another version of Surefoot, which alone can make them again.",
    "figures": "Nothing was confirmed.",
    "traces": "There are none.",
}


def passes_of(run: RunFolder) -> list[Path]:
    """Returns the panel folders that the run's statements rest on: the confirmation, the evaluation that
    chose its checkpoint, and what `surefoot evaluate` wrote of the same policy."""
    root, r = run.path / "panels" / run.record.panel, run.record
    chosen = r.confirmed_update if r.confirmed_update is not None else r.figures.get("chosen_update")
    folders = [root / "confirmation", root / f"selection-update-{int(chosen or 0):06d}"]
    folders += sorted(root.glob("*-confirmed-*"))
    return [f for f in folders if (f / "summary.json").is_file()]


def _seal(run: RunFolder) -> Check:
    seal = read_seal(run.path)
    if seal is None:
        return Check("seal", "unseen", "This run was never sealed.")
    state = compare_seal(run.path, seal)
    entries = ", ".join(e.reason for e in seal.entries)
    if state.broken:
        return Check("seal", "fails", state.broken)
    on = run.record.status != "finished"
    trained = [n for n in state.changed if on and n.startswith(TRAINING) and "/confirmation" not in n]
    changed = [n for n in state.changed if n not in trained]
    if changed or state.missing:
        said = [
            f"{k}: {', '.join(_few(list(v)))}."
            for k, v in (("Changed", changed), ("Missing", state.missing))
            if v
        ]
        return Check("seal", "fails", f"{' '.join(said)} (sealed: {entries})")
    if trained:
        return Check("seal", "unseen", "Training was resumed after it was sealed, and is not confirmed yet.")
    more = f" Not sealed: {', '.join(_few(list(state.unsealed)))}." if state.unsealed else ""
    return Check("seal", "holds", f"All {len(seal.files())} sealed files are as they were ({entries}).{more}")


def _signature(run: RunFolder, key: str | Path) -> Check:
    seal = read_seal(run.path)
    number = signed_entry(seal, key) if seal else None
    if seal is None or number is None:
        return Check("signature", "fails", f"Nothing in this run's seal is signed with the key of '{key}'.")
    state = compare_seal(run.path, seal, number + 1)
    wrong = [*state.changed, *state.missing, *([state.broken] if state.broken else [])]
    if wrong:
        return Check("signature", "fails", f"Not as it was signed: {', '.join(_few(wrong))}.")
    more = f" Added since: {', '.join(_few(list(state.unsealed)))}." if state.unsealed else ""
    return Check("signature", "holds", f"All files that were signed are as they were then.{more}")


def _ledger(run: RunFolder) -> Iterator[str] | None:
    rows, _ = read_ledger(run.ledger.path)
    figures = run.record.figures if run.record.status in ("finished", "unconfirmed") else {}
    broken = broken_chain(run.path, run.record)
    if rows and broken is None:
        return None

    def faults() -> Iterator[str]:
        if broken:
            yield broken
        missing = ledger_fault(rows, int(figures["updates"] or 0) if figures.get("updates") else None)
        if missing:
            yield missing
        if not rows:
            return
        for name in ("samples", "train_seconds"):
            said, counted = figures.get(name), rows[-1].get(name)
            if said is not None and counted is not None and not _near(said, counted):
                yield f"run.json says {name} {said:g}, the ledger {counted:g}."
        samples, steps = rows[-1].get("samples"), run.record.recipe
        whole = int(rows[-1]["update"]) * steps.envs * steps.horizon
        if samples is not None and run.record.learner == "ppo" and samples != whole:
            yield f"The ledger counts {samples:,} samples where its updates make {whole:,}."
        yield from _evaluations(run, rows)

    return faults()


def _evaluations(run: RunFolder, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Compares what the ledger says of evaluations with their own rows."""
    for row in rows:
        folder = run.path / "panels" / run.record.panel / f"selection-update-{int(row['update']):06d}"
        said = row.get("evaluation.success")
        if said is None or not (folder / "summary.json").is_file():
            continue
        counted = load_pass(run, folder).summary
        for name in ("success", "fall_rate", "velocity_error_mps", "episodes"):
            a, b = row.get(f"evaluation.{name}"), getattr(counted, name)
            if (a is None) != (b is None) or (a is not None and not _near(a, b)):
                yield f"Of update {row['update']} the ledger says {name} {a}, the rows {b}."


def _ids(run: RunFolder) -> Iterator[str] | None:
    r = run.record
    if not r.measurement_id:  # of version 1, whose fields are not written down
        stated = construct_fields(r.contract, r.panel, r.panel_digest, r.evaluation_plant)
        if digest(stated) != r.construct_id:
            return None
    return _id_faults(run)


def _id_faults(run: RunFolder) -> Iterator[str]:
    r = run.record
    if r.contract.digest != r.contract_digest:
        yield "contract_digest is not the digest of the contract in run.json."
    for folder in passes_of(run):
        summary = read_summary(folder)
        yield from (f"{folder.name}: {problem}." for problem in id_problems(r, summary))
        if summary.training_id != r.training_id:
            yield f"The training id of {folder.name} is not that of run.json."


def _figures(run: RunFolder) -> Iterator[str] | None:
    folders = passes_of(run)
    if not folders:
        return None
    found = ((f.name, fault) for f in folders for fault in judgement(load_pass(run, f)).faults)
    return (f"{name}: {fault}." for name, fault in found if fault.check != "ledger")  # which is looked at


def _traces(run: RunFolder) -> Iterator[str] | None:
    results = [load_pass(run, f) for f in passes_of(run)]
    results = [r for r in results if "trace" in r.table and "states_digest" in r.table]
    if not any((r.table["trace"].astype(str) != "").any() for r in results):
        return None
    return (says for r in results for says in _trace_faults(r))


def _trace_faults(result: Result) -> Iterator[str]:
    t = result.table
    for i in np.flatnonzero(t["trace"].astype(str) != ""):
        path = result.folder / "traces" / f"{t['trace'][i]}.npz"
        trace = load_npz(path)
        if states_digest(trace) != str(t["states_digest"][i]):
            yield f"{result.folder.name}/traces/{path.name} has other states than its row."
            continue
        for name in ("column", "engine", "policy", "scenario", "label", "reason"):
            if name in trace and str(trace[name]) != str(t[name][i]):
                yield f"{result.folder.name}/traces/{path.name} says another {name} than its row."


def _near(a: float, b: float) -> bool:
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)


def _few(says: list[str]) -> list[str]:
    return says[:FEW] + ([f"and {len(says) - FEW} more"] if len(says) > FEW else [])


def outcome(checks: list[Check]) -> int:
    """Returns the exit status: 1 where something fails, 2 where nothing does and something decisive could not
    be seen, else 0."""
    if any(c.outcome == "fails" for c in checks):
        return 1
    return 2 if any(c.outcome == "unseen" and c.name in DECISIVE for c in checks) else 0


DECISIVE = ("seal", "signature", "figures", "replay")
