"""The page: sections in their order, with style and scripts inside, so that it opens from disk without a
network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import surefoot
from surefoot.artifacts import atomic_write, check_output
from surefoot.contract import Contract, SurefootError, TaskContract
from surefoot.reporting import (
    audit,
    compare,
    failures,
    fleet,
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
from surefoot.reporting.web.words import glossary
from surefoot.runs import RunFolder

SCHEMA_VERSION = 1
"""Version of the page's figures: the names in its data-figure attributes."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The browser itself refuses anything that would come over a network."""

CONTENTS = {
    "verdict": "Verdict",
    "audit": "Audit",
    "learning": "Learning",
    "strata": "By stratum",
    "perturbations": "Perturbations",
    "commands": "Commands",
    "failures": "Failures",
    "honesty": "Batch honesty",
    "freshness": "Freshness",
    "contract": "Contract",
    "provenance": "Provenance",
}
"""The sections of a run, by the ids that links to them may rely on. One that a fleet collected for has
`fleet`, too."""

LARGEST = 15_000_000
"""Bytes; a page beyond it is refused rather than written."""


HEAD = 100_000
"""Bytes of a page within which its style ends and its header stands."""


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
    check_output(path, is_report, home=runs[0].folder)
    data = report_page(runs, dollars_per_hour).encode()
    if len(data) > LARGEST:
        raise SurefootError(
            f"The report would take {len(data) / 1e6:.1f} MB, above {LARGEST / 1e6:g} MB; give fewer runs "
            f"at once."
        )
    atomic_write(path, data)
    RunFolder.open(runs[0].folder).seal("report", [path])
    return path


def is_report(path: Path) -> bool:
    """Returns whether a file is a page that `write_report` wrote, of this version or an earlier one."""
    with path.open("rb") as file:
        start = file.read(HEAD)
    made_here = (
        start.startswith(b"<!doctype html>\n<html") and b'<meta name="surefoot.schema_version"' in start
    )
    return made_here and re.search(rb'<p class="brand"><b>Surefoot</b> [^<>]* report</p>', start) is not None


def report_page(runs: Sequence[RunFigures], dollars_per_hour: float | None = None, back: str = "") -> str:
    """Writes the report of one run, or of several side by side. `back` is a link to an index."""
    names = ", ".join(r.record.id for r in runs)
    single = len(runs) == 1
    most = MOST if single else max(4, MOST // len(runs))
    parts = [_run(r, k, dollars_per_hour, most, single) for k, r in enumerate(runs)]
    side = [] if single else [compare.comparison(runs, dollars_per_hour)]
    body = [_header(runs, back), _contents(runs), *side, *parts]
    body.append(el("section", el("h2", "Glossary"), glossary(join(*body)), class_="card", id="glossary"))
    return document(f"{names} · Surefoot", el("main", *body), "page.js", "drawing.js", "replay.js")


def document(
    title: str, body: Html, *scripts: str, policy: str = POLICY, refresh_s: int | None = None
) -> str:
    """Writes a whole page; with `refresh_s` one that index.js loads again after so many seconds."""
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
            data_refresh=refresh_s,
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
        _part(index, single, "audit", audit.audit_section(run)),
        _part(index, single, "learning", training.learning(run)),
        _part(index, single, "strata", held_out.strata(run)),
        _part(index, single, "perturbations", perturbations.perturbations(run)),
        _part(index, single, "commands", held_out.commands(run)),
        _part(index, single, "failures", failures.failures(run, replays, index)),
        _part(index, single, "honesty", honesty.honesty(run)),
        _part(index, single, "freshness", honesty.freshness(run)),
        _part(index, single, "fleet", fleet.fleet(run)) if fleet.collected(run) else None,
        _part(index, single, "contract", training.contract(run)),
        _part(index, single, "provenance", provenance.provenance(run)),
    )
    name = _id(index, single, "verdict")
    if single:
        return el("article", inner, id=name)
    summary = el("summary", el("b", run.record.id), " ", run.record.task)
    return el("details", summary, el("article", inner), class_="run", open=index == 0, id=name)


def _id(index: int, single: bool, name: str) -> str:
    """Returns the stable id of a section: `learning`; with several runs `run-2-learning`."""
    return name if single else f"run-{index + 1}-{name}"


def _part(index: int, single: bool, name: str, section: Html) -> Html:
    return el("div", section, id=_id(index, single, name), class_="part")


def _contents(runs: Sequence[RunFigures]) -> Html:
    """Lists what is on the page: its sections, or with several runs the runs."""
    if len(runs) == 1:
        links = list(CONTENTS.items())
        if fleet.collected(runs[0]):
            links.insert(1 + list(CONTENTS).index("freshness"), ("fleet", "Fleet"))
    else:
        links = [("comparison", "Side by side")]
        links += [(_id(k, False, "verdict"), r.record.id) for k, r in enumerate(runs)]
    links.append(("glossary", "Glossary"))
    items = [el("a", title, href=f"#{name}") for name, title in links]
    return el("nav", *items, class_="contents", aria_label="Contents")
