"""The index of `surefoot serve`: all runs in a sortable table, some of them to be put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from surefoot.contract import SurefootError
from surefoot.evidence import Judgement, judgement
from surefoot.reporting.page import POLICY, document
from surefoot.reporting.progress import Progress, read_progress
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, esc, join, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import AUDIT, RunFolder, RunRecord, caveat, load_result, time_parts

SERVED_POLICY = POLICY.replace("form-action 'none'", "form-action 'self'") + "; frame-ancestors 'none'"
"""The index has one form: the choice of runs to compare. No page is shown within another's; browsers heed
that in a header alone."""
REFRESH_S = 10
"""Seconds after which the index loads itself again while a run trains."""


@dataclass(frozen=True)
class Entry:
    """A folder in the runs folder: a run, or why it cannot be read."""

    name: str
    record: RunRecord | None
    problem: str = ""
    progress: Progress | None = None
    """How far it is, while somebody trains it."""
    caveat: str = ""
    """What must be said beside its result."""
    judged: Judgement | None = None
    """What its rows show; None while nothing is confirmed."""


def find_runs(root: Path) -> dict[str, Path]:
    """Finds run folders directly under `root`, by name. Links that lead out of it are not runs."""
    home = root.resolve()
    try:
        children = sorted(root.iterdir())
    except OSError as error:
        raise SurefootError(
            f"Cannot read '{root}' ({error.strerror}); give the folder of your runs."
        ) from error
    return {
        c.name: c
        for c in children
        if not c.name.startswith(".") and (c / "run.json").is_file() and c.resolve().parent == home
    }


def entries(runs: Mapping[str, Path]) -> list[Entry]:
    out = []
    for name, path in runs.items():
        try:
            run = RunFolder.open(path)
            out.append(Entry(name, run.record, "", read_progress(run), caveat(run), _judged(run)))
        except SurefootError as error:
            out.append(Entry(name, None, str(error)))
    return out


_KEPT: dict[Path, tuple[tuple[int, ...], Judgement]] = {}
"""What was judged before, by the run's folder, with the state that its files were in then."""


def _judged(run: RunFolder) -> Judgement | None:
    """Judges the confirmation of a run from its rows; again only where a file has changed since."""
    if run.record.confirmation is None:
        return None
    half = run.path / "panels" / run.record.panel / "confirmation"
    files = [half / "summary.json", half / "episodes.parquet", run.path / "policy.safetensors"]
    files += [run.path / AUDIT]
    files += [run.path / "run.json", run.path / "checkpoints" / "confirmed.safetensors"]
    state = tuple(p.stat().st_mtime_ns if p.exists() else 0 for p in files)
    if run.path not in _KEPT or _KEPT[run.path][0] != state:
        _KEPT[run.path] = state, judgement(load_result(run))
    return _KEPT[run.path][1]


def index_page(runs: list[Entry], root: Path) -> str:
    head = el(
        "tr",
        el("th", ""),
        *[
            el(
                "th",
                el("button", title, type="button", data_sort=kind),
                class_="num" if kind == "number" else None,
            )
            for title, kind in (
                ("run", "text"),
                ("task", "text"),
                ("verdict", "text"),
                ("status", "text"),
                ("success", "number"),
                ("falls", "number"),
                ("velocity error, m/s", "number"),
                ("samples", "number"),
                ("steps/s", "number"),
                ("time, in all", "number"),
                ("begun", "text"),
            )
        ],
    )
    body = (
        el(
            "form",
            el(
                "div",
                el("table", el("thead", head), el("tbody", *[_row(e) for e in runs]), class_="runs"),
                class_="scroll",
            ),
            el(
                "p",
                el("button", "Compare", class_="go", type="submit", disabled=True),
                el("small", "  choose two or more runs"),
            ),
            action="/compare",
            method="get",
        )
        if runs
        else el("p", "There is no run here yet. Train one: ", el("code", "surefoot train walk-flat"))
    )
    header = el(
        "header",
        el("p", el("b", "Surefoot"), class_="brand"),
        el("h1", "Runs"),
        el(
            "p",
            f"{len(runs)} in {root}. Figures are ",
            word("held-out"),
            ", on the ",
            word("confirmation half"),
            ".",
        ),
        class_="top",
    )
    return document(
        "Runs · Surefoot",
        el("main", header, el("section", body, class_="card"), class_="wide"),
        "page.js",
        "index.js",
        policy=POLICY.replace("form-action 'none'", "form-action 'self'"),
        refresh_s=REFRESH_S if any(e.progress for e in runs) else None,
    )


def _row(e: Entry) -> Html:
    link = el("a", e.name, href=f"/run/{quote(e.name, safe='')}")
    if e.record is None:
        return el("tr", el("td"), el("td", e.name), el("td", e.problem, colspan="10", class_="absent"))
    r = e.record
    c, f = e.judged.summary if e.judged else None, r.figures
    box = el("input", type="checkbox", name="run", value=e.name, aria_label=f"Compare {e.name}")
    seconds = time_parts(r).total
    interval = f"{percent(c.success_low)} to {percent(c.success_high)}" if c else None
    return el(
        "tr",
        el("td", box),
        el("td", link),
        el("td", r.task),
        el("td", _verdict(e.judged, e.caveat)),
        el("td", _status(e)),
        _cell(c.success if c else None, percent, interval),
        _cell(c.fall_rate if c else None, percent),
        _cell(c.velocity_error_mps if c else None, number),
        _cell(f.get("samples"), lambda v: f"{v:,.0f}"),
        _cell(f.get("steps_per_second"), number),
        _cell(seconds, duration),
        el("td", r.created.replace("T", " ")[:16]),
    )


def _verdict(judged: Judgement | None, caveat: str) -> Html:
    """Writes the word that the report of this run has, marked where something must be said beside it."""
    if judged is None:
        return el("span", "not confirmed", class_="absent")
    remarks = judged.audit.remarks if judged.audit else ()
    said = (*map(str, judged.faults), *(f.statement for f in remarks), caveat)
    tip = " ".join(text for text in said if text)
    mark = el("span", " *", class_="word", tabindex="0", data_tip=tip) if tip else None
    return join(el("b", judged.word, class_=f"grade {judged.grade}"), mark)


def _status(e: Entry) -> Html:
    """Writes the status; of a run that trains how far it is, of one that nobody trains that it broke off."""
    assert e.record is not None
    p = e.progress
    if p is None:
        broke = e.record.status == "running"
        return el("span", "broke off", class_="tag bad", data_tip=e.caveat) if broke else esc(e.record.status)
    done = f"update {p.update:,}" + (f" of {p.of:,}" if p.of else "")
    says = [
        done,
        f"success {percent(p.success)}" if p.success is not None else "",
        f"{number(p.steps_per_second)} steps/s" if p.steps_per_second else "",
        f"{duration(p.left_s)} left" if p.left_s is not None else "",
    ]
    bar = el("i", style=f"width:{100 * p.share:.1f}%") if p.share is not None else None
    return el(
        "div",
        el("b", "running"),
        el("span", bar, class_="progress") if bar else None,
        el("small", ", ".join(x for x in says if x)),
        class_="running",
    )


def _cell(value: float | None, text: object, tip: str | None = None) -> Html:
    if not known(value):
        return el("td", "–", class_="num absent", data_value="", data_tip=NOT_MEASURED)
    assert callable(text)
    return el("td", text(value), class_="num", data_value=value, data_tip=tip)
