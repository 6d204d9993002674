"""lab.csv: the record as one flat table, a row per pass over a panel and a row per baseline's episode."""

from __future__ import annotations

from typing import Any

from surefoot.artifacts import plain
from surefoot.contract import NOMINAL
from surefoot.experiments.lab.record import LabRecord

SKIPPED = ("column", "policy", "engine", "labels", "trained")
"""Fields of a column's summary that are left out: said elsewhere in the row, or by the contract."""


def rows_of(lab: LabRecord) -> list[dict[str, Any]]:
    panels = {p.number: p for p in lab.panels}
    training = {(r.learner, r.seed, r.reward): r for r in lab.runs}
    common = {
        "lab": lab.id,
        "task": lab.design.task,
        "contract_digest": lab.contract_digest,
        "recipe_digest": lab.recipe.digest,
        "updates": lab.design.updates,
        "samples": lab.samples,
    }
    out: list[dict[str, Any]] = []
    for e in lab.entries:
        p = panels[e.panel]
        run = training.get((e.policy, e.seed, e.reward)) if e.seed is not None and e.reward else None
        about = {
            "kind": "panel",
            "panel": p.name,
            "panel_number": p.number,
            "panel_digest": p.panel_digest,
            "panel_seed": p.seeds.root,
            "construct_id": p.construct_id,
            "policy": e.policy,
            "training_seed": e.seed,
            "reward": e.reward,
            "training_id": run.training_id if run else None,
            "checkpoint": e.checkpoint,
            "column": e.column,
            "engine": e.found.engine,
        }
        figures = {k: v for k, v in plain(e.found).items() if k not in SKIPPED}
        counted = {"labels": _counts(e.found.labels), "ends": _counts(e.ends), "traces": " ".join(e.traces)}
        out.append(common | about | figures | counted)
    first = panels[1]
    for x in lab.episodes:
        about = {
            "kind": "episode",
            "panel": first.name,
            "panel_number": 1,
            "panel_digest": first.panel_digest,
            "panel_seed": first.seeds.root,
            "construct_id": first.construct_id,
            "column": NOMINAL,
        }
        own = {k: v for k, v in plain(x).items() if k not in ("terms", "command", "label")}
        own |= dict(zip(("command_vx", "command_vy", "command_wz"), x.command, strict=True))
        terms = {f"return.{k}": v for k, v in x.terms.items()}
        out.append(common | about | own | {"labels": x.label} | terms)
    return out


def _counts(counts: dict[str, int]) -> str:
    return " ".join(f"{k}:{v}" for k, v in counts.items())
