"""lab.html: the lab's record as one page, with the failures to play."""

from __future__ import annotations

from pathlib import Path

from surefoot.experiments.lab.record import LabCase, LabRecord
from surefoot.experiments.lab.results import results, second_panel
from surefoot.experiments.lab.sections import baselines, configuration, learning, postmortems
from surefoot.reporting import Kept, Replays, document, make_replays, page_header, viewer
from surefoot.reporting.web import Html, el
from surefoot.runs import RunFolder, read_rows, read_summary


def lab_page(path: Path, lab: LabRecord) -> str:
    body = [
        _header(lab),
        results(lab),
        _task(lab),
        *learning(lab),
        baselines(lab),
        _cases(path, lab),
        postmortems(lab),
        second_panel(lab),
        configuration(lab),
    ]
    return document(f"{lab.id} · Surefoot", el("main", *body), "page.js", "drawing.js", "replay.js")


def _header(lab: LabRecord) -> Html:
    d = lab.design
    about = (
        f"{d.task} · {lab.contract.robot} · {', '.join(d.learners)} · training seeds "
        f"{', '.join(map(str, d.seeds))} · {lab.samples:,} samples each · "
        f"{lab.created.replace('T', ' ')[:16]} UTC"
    )
    return page_header("lab", lab.id, about)


def _task(lab: LabRecord) -> Html:
    return el("section", el("h2", "The task"), *[el("p", p) for p in lab.prose], class_="card")


def _cases(path: Path, lab: LabRecord) -> Html:
    rows = [_case(c) for c in lab.cases]
    return el(
        "section",
        el("h2", "Failures, to look at first"),
        el(
            "p",
            "Each was lived again alone from its row when this page was made; verified means the same states "
            "to the bit, the same label and the same figures. In the lab's folder the command does it again.",
            class_="lead",
        ),
        el("p", lab.cases_note, class_="absent") if lab.cases_note else None,
        el(
            "div",
            el(
                "table",
                el("thead", el("tr", *[el("th", h) for h in ("failure", "of", "why this one", "replay")])),
                el("tbody", *rows),
            ),
            class_="scroll",
        ),
        viewer(_replays(path, lab), 0),
        class_="card",
    )


def _case(c: LabCase) -> Html:
    seed = f", seed {c.seed}" if c.seed is not None else ""
    sparse = ", sparse reward" if c.reward == "sparse" else ""
    grade = "good" if c.verified else "bad"
    return el(
        "tr",
        el("th", c.case.label.replace("_", " "), el("small", f" {c.case.cause}"), scope="row"),
        el("td", f"{c.policy}{seed}{sparse}; {c.case.column.replace('_', ' ')}, {c.engine}"),
        el("td", f"{c.case.why}; ended by {c.case.reason.replace('_', ' ')} after {c.case.lived_s:g} s"),
        el(
            "td",
            el("span", "verified" if c.verified else "not the same", class_=f"tag {grade}"),
            el("code", f"surefoot {c.replay}"),
        ),
    )


def _replays(path: Path, lab: LabRecord) -> Replays:
    kept = []
    for c in lab.cases:
        file = path / c.trace
        folder = file.parent.parent
        rows = read_rows(folder, read_summary(folder))
        kept.append(Kept(file, rows, c.case.row, c.policy))
    if not kept:
        return Replays(None, (), lab.cases_note)
    run = RunFolder.open(path / lab.cases[0].run)
    return make_replays(run.path, run.record, kept)
