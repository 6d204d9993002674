"""The index of `surefoot serve`: all runs in a sortable table, some of them to be put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from surefoot.contract import SurefootError
from surefoot.reporting.page import POLICY, document
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import RunFolder, RunRecord

SERVED_POLICY = POLICY.replace("form-action 'none'", "form-action 'self'")
"""The index has one form: the choice of runs to compare."""


@dataclass(frozen=True)
class Entry:
    """A folder in the runs folder: a run, or why it cannot be read."""

    name: str
    record: RunRecord | None
    problem: str = ""


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
            out.append(Entry(name, RunFolder.open(path).record))
        except SurefootError as error:
            out.append(Entry(name, None, str(error)))
    return out


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
                ("status", "text"),
                ("success", "number"),
                ("falls", "number"),
                ("velocity error, m/s", "number"),
                ("samples", "number"),
                ("steps/s", "number"),
                ("minutes", "number"),
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
        el("main", header, el("section", body, class_="card")),
        "page.js",
        "index.js",
        policy=SERVED_POLICY,
    )


def _row(e: Entry) -> Html:
    link = el("a", e.name, href=f"/run/{quote(e.name, safe='')}")
    if e.record is None:
        return el("tr", el("td"), el("td", e.name), el("td", e.problem, colspan="9", class_="absent"))
    r = e.record
    c, f = r.confirmation, r.figures
    box = el("input", type="checkbox", name="run", value=e.name, aria_label=f"Compare {e.name}")
    train = f.get("train_seconds")
    minutes = (train + (f.get("evaluation_seconds") or 0)) / 60 if train is not None else None
    interval = f"{percent(c.success_low)} to {percent(c.success_high)}" if c else None
    return el(
        "tr",
        el("td", box),
        el("td", link),
        el("td", r.task),
        el("td", r.status),
        _cell(c.success if c else None, percent, interval),
        _cell(c.fall_rate if c else None, percent),
        _cell(c.velocity_error_mps if c else None, number),
        _cell(f.get("samples"), lambda v: f"{v:,.0f}"),
        _cell(f.get("steps_per_second"), number),
        _cell(minutes, lambda v: f"{v:.1f}"),
        el("td", r.created.replace("T", " ")[:16]),
    )


def _cell(value: float | None, text: object, tip: str | None = None) -> Html:
    if not known(value):
        return el("td", NOT_MEASURED, class_="num absent", data_value="")
    assert callable(text)
    return el("td", text(value), class_="num", data_value=value, data_tip=tip)
