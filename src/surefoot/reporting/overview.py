"""The top of the report: the verdict and the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.reporting.figures import Column, Figure, RunFigures
from surefoot.reporting.verdict import verdict
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, join, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.statistics import RULE


def shown(name: str, figure: Figure, text: str) -> Html:
    """A figure with its full precision beside what is printed, for whoever checks it."""
    return el(
        "span",
        text,
        class_="figure" if known(figure.value) else "absent",
        data_figure=name,
        data_value=figure.value,
        data_low=figure.low,
        data_high=figure.high,
        data_n=figure.n,
        data_neff=figure.n_eff,
    )


def verdict_block(run: RunFigures) -> Html:
    v = verdict(run)
    claims = [
        el(
            "li",
            el("b", word(c.name)),
            el("span", c.says, class_="absent" if c.says == NOT_MEASURED else "says"),
            class_=f"claim {c.grade}",
        )
        for c in v.claims
    ]
    return el(
        "section",
        el(
            "div",
            el("strong", v.headline, class_="stamp word", tabindex="0", data_tip=RULE),
            el("p", v.detail, class_="detail"),
            class_="line1",
        ),
        el("p", el("b", "Evidence "), v.evidence, class_="evidence"),
        el("ul", *claims, class_="claims"),
        class_=f"verdict {v.grade}",
    )


# ---- tiles


def tiles(run: RunFigures, dollars_per_hour: float | None) -> Html:
    p = run.panel
    nominal = p.nominal if p else None
    base = p.baselines if p else ()

    def of(name: str) -> Figure:
        return getattr(nominal, name) if nominal else Figure()

    hours = run.wall_seconds / 3600 if run.wall_seconds is not None else None
    cost = (
        Figure(hours * dollars_per_hour) if hours is not None and dollars_per_hour is not None else Figure()
    )
    speed = run.steps_per_second
    return el(
        "section",
        _tile("success", word("success"), of("success"), percent, "", base, rate=True, good="high"),
        _tile("fall", word("fall rate"), of("fall"), percent, "", base, rate=True, good="low"),
        _tile("velocity_error", word("velocity error"), of("velocity_error"), number, "m/s", base),
        _tile("cost_of_transport", word("cost of transport"), of("cost_of_transport"), number, "", base),
        _tile(
            "steps_per_second",
            word("steps/s", "Training speed"),
            speed,
            number,
            "steps/s",
            note=f"middle 90% of {speed.n} updates: {number(speed.low)} to {number(speed.high)}"
            if speed.n
            else "",
        ),
        _tile(
            "wall_seconds",
            word("wall-clock", "Wall-clock"),
            Figure(run.wall_seconds),
            duration,
            "",
            note=f"{duration(run.train_seconds)} training, "
            f"{duration(run.evaluation_seconds)} evaluation; one run",
        ),
        _tile(
            "cost",
            "Cost of this run",
            cost,
            lambda v: NOT_MEASURED if v is None else f"${v:,.2f}" if v >= 0.1 else f"${v:.4f}",
            "",
            note=f"{hours:.3f} h at ${dollars_per_hour:.2f}/h"
            if hours is not None and dollars_per_hour is not None
            else "give --dollars-per-hour to price it",
        ),
        class_="tiles",
    )


def _tile(
    name: str,
    title: object,
    figure: Figure,
    text: Any,
    unit: str,
    baselines: Sequence[Column] = (),
    *,
    note: str | None = None,
    rate: bool = False,
    good: str = "",
) -> Html:
    value = shown(name, figure, text(figure.value))
    if note is None:
        note_html = interval_text(figure, text)
    else:
        note_html = el("p", note, class_="interval") if note else Html("")
    rows = []
    for c in baselines:
        theirs: Figure = getattr(c, name)
        rows.append(
            el(
                "li",
                el("span", c.policy.replace("-", " ")),
                shown(f"{c.name}.{name}", theirs, text(theirs.value)),
            )
        )
    compared = Html("")
    if name in ("success", "fall", "velocity_error", "cost_of_transport"):
        compared = (
            el("ul", *rows, class_="baselines")
            if rows
            else el(
                "p",
                word("baselines", "Baselines"),
                ": ",
                el("span", NOT_MEASURED, class_="absent"),
                class_="nobase",
            )
        )
    return el(
        "div",
        el("h3", title),
        el("p", value, el("small", f" {unit}") if unit and known(figure.value) else None, class_="value"),
        bar(figure, good) if rate else None,
        note_html,
        compared,
        class_="tile",
    )


def interval_text(figure: Figure, text: Any = percent) -> Html:
    if not known(figure.value):
        return Html("")
    span = (
        join(text(figure.low), " to ", text(figure.high))
        if known(figure.low) and known(figure.high)
        else join("interval ", NOT_MEASURED)
    )
    count = join(word("n"), f" {figure.n}, ", word("n_eff"), f" {number(figure.n_eff)}") if figure.n else None
    few = join(", ", word("few families")) if figure.few else None
    return el("p", word("interval", "95%"), ": ", span, el("br"), count, few, class_="interval")


def bar(figure: Figure, good: str = "high") -> Html:
    """A rate on a track from 0 to 100%, with its interval."""
    if figure.value is None:
        return Html("")
    low = figure.low if figure.low is not None else figure.value
    high = figure.high if figure.high is not None else figure.value
    return el(
        "div",
        el("i", class_="range", style=f"left:{100 * low:.2f}%;width:{max(100 * (high - low), 0.6):.2f}%"),
        el("i", class_="point", style=f"left:{100 * figure.value:.2f}%"),
        class_=f"bar {good}",
        aria_hidden="true",
    )
