"""The footer: what a reader needs to trust or to repeat the figures."""

from __future__ import annotations

import hashlib
from pathlib import Path

from surefoot.contract import Contract, TaskContract
from surefoot.reporting.figures import RunFigures
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join
from surefoot.reporting.web.words import word
from surefoot.runs import RunRecord

FILES = ("run.json", "ledger.jsonl", "policy.safetensors", "checkpoints/confirmed.safetensors")


def _task_digests(c: Contract) -> list[tuple[str, str]]:
    """Lists digests of what is Surefoot's own; an outside simulator is named by its versions, which the
    contract holds."""
    if not isinstance(c, TaskContract):
        return []
    return [("robot", c.robot_digest), ("source of the task's functions", c.source_digest)]


def _ids(r: RunRecord) -> list[tuple[Html | str, str]]:
    """Lists the ids of a run; one of before there were two has a construct id."""
    if not r.measurement_id:
        return [(word("construct id"), r.construct_id)]
    held_to = [("environment manifest", r.manifest)] if r.manifest else []
    return [(word("measurement id"), r.measurement_id), (word("interface id"), r.interface_id), *held_to]


def provenance(run: RunFigures) -> Html:
    r, d = run.record, run.record.disjointness
    panel = run.panel
    digests = [
        *_ids(r),
        (word("training id"), r.training_id),
        ("contract", r.contract_digest),
        *_task_digests(r.contract),
        (f"panel {r.panel}", r.panel_digest),
        ("evaluated checkpoint", panel.summary.checkpoint if panel else NOT_MEASURED),
    ]
    files = [(name, _sha256(run.folder / name)) for name in FILES]
    if panel:
        for name in ("episodes.parquet", "summary.json"):
            path = panel.folder / name
            files.append((str(path.relative_to(run.folder)), _sha256(path)))
    return el(
        "footer",
        el("h2", "Provenance"),
        el(
            "div",
            el("div", el("h3", "Digests"), _pairs(digests)),
            el("div", el("h3", "Files, SHA-256"), _pairs(files)),
            class_="two",
        ),
        el("h3", "Held-out seeds are disjoint from training seeds"),
        el(
            "p",
            el(
                "b",
                "Proven: " if d.disjoint else "NOT disjoint: ",
                class_="grade " + ("good" if d.disjoint else "bad"),
            ),
            d.reason,
            f" {d.keys_checked:,} keys compared, {d.shared} shared. Training: root {r.seeds.root}, "
            f"{r.seeds.families} ",
            word("seed family", "seed families"),
            f" of {r.seeds.envs // r.seeds.families} environments; panel: root {r.panel_seeds.root}, "
            f"{r.panel_seeds.families} families. Random numbers version {r.seeds.rng_version}.",
        ),
        el("h3", "The summary, recomputed"),
        _audit(run),
        el("h3", "Versions"),
        el("p", " · ".join(f"{k} {v}" for k, v in r.versions.items())),
        el(
            "p",
            f"Run {r.id}, begun {r.created}, status {r.status}, schema {r.schema_version}.",
            class_="muted",
        ),
        class_="card provenance",
    )


def _audit(run: RunFigures) -> Html:
    if run.panel is None:
        return el("p", NOT_MEASURED, class_="absent")
    judged, n = run.panel.judgement, len(run.panel.rows["family"])
    unseen = [el("p", text, class_="muted") for text in judged.unseen]
    if judged.sound:
        said = f"Every statement above is computed from the {n} episode rows; summary.json agrees with them."
        return join(el("p", said), *unseen)
    says = [el("li", str(f)) for f in judged.faults]
    wrong = "The files contradict each other; the figures above are those of the rows."
    return join(el("p", wrong, class_="note bad"), el("ul", *says), *unseen)


def _pairs(pairs: list[tuple[object, str]] | list[tuple[str, str]]) -> Html:
    items = [
        join(el("dt", k), el("dd", el("code", v[:16] + "…" if len(v) == 64 else v, title=v, data_digest=v)))
        for k, v in pairs
    ]
    return el("dl", *items, class_="facts digests")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return NOT_MEASURED
