"""The page and the chart of `surefoot compare-learners`."""

from __future__ import annotations

import numpy as np

from surefoot.contract import BESIDE
from surefoot.evidence import TARGET, LearnerComparison, LearnerFigures
from surefoot.reporting.page import asset, document
from surefoot.reporting.web.charts import Axes, Line, at_widths, legend, line_chart, rate_axis
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, percent
from surefoot.statistics import Estimate

WIDTH, HEIGHT, KEY = 900, 320, 26


def learner_page(c: LearnerComparison) -> str:
    r = c.recipe
    lead = (
        f"{c.samples:,} samples each ({c.updates} updates of {r.horizon} steps x {r.envs} environments), the "
        f"same environments and panel ({c.panel}, {c.half} half, construct {c.construct_id[:12]}). Intervals "
        "are those of the typical (median) training seed: a few of them bound little."
    )
    body = el(
        "main",
        el("header", el("h1", f"Learners on {c.task}"), el("p", lead, class_="about"), class_="top"),
        el("section", el("h2", "Held-out success while training"), curves(c), class_="card"),
        el("section", el("h2", "What came out"), outcomes(c), class_="card"),
        el("section", el("h2", f"Against {c.learners[0].learner}, seed by seed"), paired(c), class_="card")
        if c.paired
        else None,
        el("section", el("h2", "What each did otherwise than the recipe"), differences(c), class_="card"),
    )
    return document(f"Learners on {c.task} · Surefoot", body, "page.js")


def learner_chart(c: LearnerComparison) -> str:
    """Draws the curves as a file of their own, with the page's style inside."""
    names, lines = _lines(c)
    chart = line_chart(_axes(c, WIDTH), lines, _label(c), percent)
    keys = [
        join(
            el("rect", x=52 + 118 * k, y=8, width=10, height=10, rx=2, fill=f"var({line.colour})"),
            el("text", name, x=67 + 118 * k, y=17),
        )
        for k, (name, line) in enumerate(zip(names, lines, strict=True))
    ]
    moved = Html(str(chart).replace("<svg ", f'<svg y="{KEY}" height="{HEIGHT}" ', 1))
    background = el("rect", width=WIDTH, height=HEIGHT + KEY, fill="var(--card)")
    style = el("style", Html(asset("style.css")))
    out = el("svg", style, background, *keys, moved, class_="chart", viewBox=f"0 0 {WIDTH} {HEIGHT + KEY}")
    return str(out).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _label(c: LearnerComparison) -> str:
    return (
        f"Held-out success on {c.task} over samples; lines are means over training seeds, bands their range"
    )


def _lines(c: LearnerComparison) -> tuple[list[str], list[Line]]:
    out = []
    for k, of in enumerate(c.learners):
        x, y, low, high = (
            np.array([getattr(p, name) for p in of.curve], float)
            for name in ("samples", "success", "lowest", "highest")
        )
        if len(x):
            out.append(Line(of.learner, x, y, f"--c{(k + 1) % 8}", low, high))
    return [line.name for line in out], out


def _axes(c: LearnerComparison, width: int) -> Axes:
    return rate_axis(
        width=width, height=HEIGHT, x_range=(0, float(c.samples)), x_label="samples (control steps of all)"
    )


def curves(c: LearnerComparison) -> Html:
    names, lines = _lines(c)
    if not lines:
        return el("p", NOT_MEASURED, class_="absent")
    chart = at_widths(lambda w: line_chart(_axes(c, w), lines, _label(c), percent))
    note = "Lines are means over the training seeds, bands reach from the lowest to the highest."
    return join(legend(names, [line.colour for line in lines]), chart, el("p", note))


def outcomes(c: LearnerComparison) -> Html:
    columns = c.learners[0].column_names
    head = [
        "learner",
        "seeds",
        *columns,
        f"reached {percent(TARGET)}",
        "steps/s",
        "minutes",
        "host syncs/step",
    ]
    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", *[el("th", h) for h in head])),
            el("tbody", *[_row(of, columns) for of in c.learners]),
        ),
        class_="scroll",
    )


def _row(of: LearnerFigures, columns: list[str]) -> Html:
    version = f" {of.version}" if of.version else ""
    seeds = f"{len(of.seeds)}" + (f" ({len(of.failed)} failed)" if of.failed else "")
    syncs = NOT_MEASURED if of.host_syncs_per_step is None else f"{of.host_syncs_per_step:.1f}"
    reached = ", ".join("no" if s is None else f"{s / 1e6:.2f}M" for s in of.reached.samples)
    return el(
        "tr",
        el("th", of.learner + version, scope="row"),
        el("td", seeds),
        *[el("td", _rate(of.columns[name]), class_="num") for name in columns],
        el("td", f"{of.reached.seeds} of {of.reached.of}: {reached}"),
        el("td", f"{of.steps_per_second.value:,.0f}", class_="num"),
        el("td", f"{of.train_minutes.value:.1f}", class_="num"),
        el("td", syncs, class_="num"),
    )


def paired(c: LearnerComparison) -> Html:
    """Shows what each learner's policies do otherwise than the first one's, trained with the same seeds."""
    rows = []
    for d in c.paired:
        ends = (
            "unbounded"
            if d.low is None or d.high is None
            else f"{d.low:+.3f} to {d.high:+.3f} at {100 * d.confidence:.3g}%"
        )
        name = BESIDE.get(d.figure, d.figure.replace("_", " "))
        cells = (name, f"{d.value:+.3f}", ends, f"{d.p:.3f}", str(d.seeds))
        rows.append(el("tr", el("th", d.learner, scope="row"), *[el("td", x) for x in cells]))
    head = ("learner", "figure", "typical difference", "interval", "p", "seeds")
    return el(
        "div",
        el("table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows)),
        class_="scroll",
    )


def _rate(f: Estimate) -> str:
    low, high = f.low if f.low is not None else 0.0, f.high if f.high is not None else 1.0
    return f"{percent(f.value)} ({percent(low)} to {percent(high)})"


def differences(c: LearnerComparison) -> Html:
    parts = []
    for of in c.learners:
        lines = of.differences or ("nothing: it is what the recipe is written for",)
        parts += [
            el("h3", of.learner),
            el("p", f"Timeouts: {of.timeouts}."),
            el("ul", *[el("li", d) for d in lines]),
        ]
    return join(*parts)
