"""The page: sections in their order, with style and scripts inside, so that it opens from disk without a
network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import surefoot
from surefoot.artifacts import atomic_write
from surefoot.contract import Contract, SurefootError, TaskContract
from surefoot.reporting import (
    compare,
    failures,
    held_out,
    honesty,
    overview,
    perturbations,
    provenance,
    training,
)
from surefoot.reporting.figures import RunFigures, read_run
from surefoot.reporting.players import hero
from surefoot.reporting.traces import MOST, MOST_STOPS, read_replays
from surefoot.reporting.web.html import Html, el, join

SCHEMA_VERSION = 1
"""Version of the page's figures: the names in its data-figure attributes."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The browser itself refuses anything that would come over a network."""

LARGEST = 15_000_000
"""Bytes; a page beyond it is refused rather than written."""


def write_report(
    folders: Sequence[str | Path], out: str | Path | None = None, dollars_per_hour: float | None = None
) -> Path:
    """Writes the report of the runs; without `out` into the first run's folder as report.html."""
    if not folders:
        raise SurefootError("Say which run to report, e.g. `surefoot report runs/<run>`.")
    if dollars_per_hour is not None and not 0 <= dollars_per_hour < float("inf"):
        raise SurefootError(f"--dollars-per-hour is {dollars_per_hour:g}; use a price of 0 or more.")
    runs = [read_run(f) for f in dict.fromkeys(map(str, folders))]
    path = Path(out) if out is not None else runs[0].folder / "report.html"
    if path.is_dir():
        raise SurefootError(f"'{path}' is a folder; give --out a file name, e.g. {path / 'report.html'}.")
    data = report_page(runs, dollars_per_hour).encode()
    if len(data) > LARGEST:
        raise SurefootError(
            f"The report would take {len(data) / 1e6:.1f} MB, above {LARGEST / 1e6:g} MB; give fewer runs "
            f"at once."
        )
    atomic_write(path, data)
    return path


def report_page(runs: Sequence[RunFigures], dollars_per_hour: float | None = None, back: str = "") -> str:
    """Writes the report of one run, or of several side by side. `back` is a link to an index."""
    names = ", ".join(r.record.id for r in runs)
    single = len(runs) == 1
    most = MOST if single else max(4, MOST // len(runs))
    body = [
        _header(runs, back),
        compare.comparison(runs, dollars_per_hour) if not single else None,
        *[_run(r, k, dollars_per_hour, most, single) for k, r in enumerate(runs)],
    ]
    return document(f"{names} · Surefoot", el("main", *body), "page.js", "drawing.js", "replay.js")


def document(title: str, body: Html, *scripts: str, policy: str = POLICY) -> str:
    page = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="surefoot.schema_version", content=SCHEMA_VERSION),
            el("title", title),
            el("style", Html(asset("style.css"))),
        ),
        el(
            "body",
            body,
            el("div", id="tip", role="tooltip"),
            *[el("script", Html(asset(s))) for s in scripts],
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def asset(name: str) -> str:
    return files("surefoot.reporting.web").joinpath(name).read_text("utf-8")


def page_header(kind: str, title: str, about: str, back: str = "") -> Html:
    """Writes the top of a page: what kind of page it is, what of, and a link back to an index."""
    return el(
        "header",
        el("p", el("b", "Surefoot"), f" {surefoot.__version__} {kind}", class_="brand"),
        el("h1", title),
        el("p", about, class_="about"),
        el("a", "← all runs", href=back, class_="back") if back else None,
        class_="top",
    )


def _who(c: Contract) -> str:
    return c.robot if isinstance(c, TaskContract) else "from outside"


def _header(runs: Sequence[RunFigures], back: str) -> Html:
    first = runs[0].record
    one = len(runs) == 1
    title = first.id if one else f"{len(runs)} runs"
    about = (
        f"{first.task} · {_who(first.contract)} · seed {first.seeds.root} · "
        f"{first.created.replace('T', ' ')[:16]} UTC"
        if one
        else ", ".join(r.record.id for r in runs)
    )
    return page_header("report", title, about, back)


def _run(run: RunFigures, index: int, dollars_per_hour: float | None, most: int, single: bool) -> Html:
    replays = read_replays(run, most, MOST_STOPS if single else MOST_STOPS // 2)
    inner = join(
        el("div", overview.verdict_block(run), hero(run, replays, index), class_="opening"),
        overview.tiles(run, dollars_per_hour),
        _torn(run),
        training.learning(run),
        held_out.strata(run),
        perturbations.perturbations(run),
        held_out.commands(run),
        failures.failures(run, replays, index),
        honesty.honesty(run),
        honesty.freshness(run),
        training.contract(run),
        provenance.provenance(run),
    )
    if single:
        return el("article", inner)
    summary = el("summary", el("b", run.record.id), " ", run.record.task)
    return el("details", summary, el("article", inner), class_="run", open=index == 0)


def _torn(run: RunFigures) -> Html | None:
    if not run.ledger.torn:
        return None
    return el(
        "p", "The ledger's last line was cut off when the run was killed; it is left out.", class_="note bad"
    )
