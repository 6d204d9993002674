"""The top of the report: the verdict and the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.contract import TaskContract
from surefoot.reporting.figures import Column, RunFigures
from surefoot.reporting.verdict import verdict
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, join, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import TimeParts
from surefoot.statistics import RULE, Estimate

Figure = Estimate | float | None
"""What a page shows: an estimate with its interval, a number that has none, or None: not measured."""


def value_of(figure: Figure) -> float | None:
    """Returns the number that a figure shows."""
    return figure.value if isinstance(figure, Estimate) else figure


def shown(name: str, figure: Figure, text: str) -> Html:
    """Writes a figure with its full precision beside what is printed, for whoever checks it."""
    e = figure if isinstance(figure, Estimate) else None
    return _span(
        name,
        text,
        data_value=value_of(figure),
        data_low=e.low if e else None,
        data_high=e.high if e else None,
        data_n=e.n if e else None,
        data_neff=e.n_eff if e else None,
    )


def _span(name: str, text: str, **data: float | None) -> Html:
    return el(
        "span", text, class_="figure" if known(data["data_value"]) else "absent", data_figure=name, **data
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
        _faults(v.faults),
        el(
            "div",
            el("strong", v.headline, class_="stamp word", tabindex="0", data_tip=RULE),
            el("p", v.detail, class_="detail"),
            class_="line1",
        ),
        *[el("p", c, class_="note mixed caveat") for c in v.caveats],
        el("p", el("b", "Evidence "), v.evidence, " · ", word("simulation only"), class_="evidence"),
        el("ul", *claims, class_="claims"),
        class_=f"verdict {v.grade}",
    )


def _faults(faults: Sequence[str]) -> Html | None:
    """Says first of all, in red, that the files of a run contradict each other."""
    if not faults:
        return None
    says = [el("li", text) for text in faults]
    head = el(
        "b", "This run is not what it says, or its files contradict each other; nothing below is proven."
    )
    return el("div", head, el("ul", *says), class_="note bad faults", role="alert")


# ---- tiles


def tiles(run: RunFigures, dollars_per_hour: float | None) -> Html:
    hours = run.wall_seconds / 3600 if run.wall_seconds is not None else None
    cost = hours * dollars_per_hour if hours is not None and dollars_per_hour is not None else None
    return el(
        "section",
        _held_out("success", word("success"), run, percent, good="high"),
        _held_out("fall", word("fall rate"), run, percent, good="low"),
        _held_out("velocity_error", word("velocity error"), run, number, "m/s"),
        _held_out("cost_of_transport", word("cost of transport"), run, number),
        _safety(run),
        _speed(run),
        _tile(
            word("wall-clock", "Time, in all"),
            shown("wall_seconds", run.wall_seconds, duration(run.wall_seconds)),
            _times(run.times),
        ),
        _tile(
            "Cost of this run",
            shown("cost", cost, _dollars(cost)),
            _note(
                f"{hours:.3f} h at ${dollars_per_hour:.2f}/h"
                if hours is not None and dollars_per_hour is not None
                else "give --dollars-per-hour to price it"
            ),
        ),
        class_="tiles",
    )


def _tile(title: object, value: Html, *below: Html | None) -> Html:
    return el("div", el("h3", title), el("p", value, class_="value"), *below, class_="tile")


def _note(text: str) -> Html:
    return el("p", text, class_="interval")


def _held_out(key: str, title: object, run: RunFigures, text: Any, unit: str = "", *, good: str = "") -> Html:
    """Shows a figure of the nominal column beside the baselines'; with `good`, on a track from 0 to 100%."""
    figure: Figure = getattr(run.panel.nominal, key) if run.panel else None
    value = shown(key, figure, text(value_of(figure)))
    return _tile(
        title,
        join(value, el("small", f" {unit}")) if unit and known(value_of(figure)) else value,
        bar(figure, good) if good else None,
        interval_text(figure, text),
        _baselines(key, run.panel.baselines if run.panel else (), text),
    )


def _speed(run: RunFigures) -> Html:
    s = run.steps_per_second
    value = _span(
        "steps_per_second",
        number(s.value),
        data_value=s.value,
        data_low=s.low,
        data_high=s.high,
        data_n=s.updates or None,
    )
    spread = (
        "over all of training, checkpoints included; single updates "
        f"{number(s.low)} to {number(s.high)} (middle 90% of {s.updates})"
    )
    return _tile(
        word("steps/s", "Training speed"),
        join(value, el("small", " steps/s")) if known(s.value) else value,
        _note(spread) if s.updates else None,
    )


def _times(t: TimeParts) -> Html:
    """Lists the parts of a run's time that were measured."""
    parts = (
        ("start-up", t.startup),
        ("training", t.training),
        (word("selection half", "selection"), t.selection),
        (word("confirmation half", "confirmation"), t.confirmation),
    )
    rows = [el("li", el("span", name), duration(s)) for name, s in parts]
    partly = _note("what was not measured is left out") if any(s is None for _, s in parts) else None
    return join(partly, el("ul", *rows, class_="baselines"))


def _safety(run: RunFigures) -> Html:
    """Shows what the contract's safety constraint came to, beside what it promised."""
    contract, share = run.record.contract, run.safety
    if not isinstance(contract, TaskContract) or run.panel is None or share is None:
        outside = not isinstance(contract, TaskContract)
        why = _note("an outside simulator does not tell torques") if outside else None
        return _tile(word("safety limit"), shown("safety", None, NOT_MEASURED), why)
    held = run.panel.summary.safety_held
    grade, said = ("bad", "✗ broken") if held is False else ("good", "✓ held")
    return _tile(
        word("safety limit"),
        shown("safety", share, percent(share)),
        el("p", el("span", said, class_=f"tag {grade}"), class_="interval"),
        _note(f"{contract.safety.doc}; promised: at most {percent(contract.safety.limit)}"),
    )


def _dollars(cost: float | None) -> str:
    return NOT_MEASURED if cost is None else f"${cost:,.2f}" if cost >= 0.1 else f"${cost:.4f}"


def _baselines(key: str, baselines: Sequence[Column], text: Any) -> Html:
    if not baselines:
        absent = el("span", NOT_MEASURED, class_="absent")
        return el("p", word("baselines", "Baselines"), ": ", absent, class_="nobase")
    rows = []
    for c in baselines:
        theirs: Figure = getattr(c, key)
        value = shown(f"{c.name}.{key}", theirs, text(value_of(theirs)))
        rows.append(el("li", el("span", c.policy.replace("-", " ")), value))
    return el("ul", *rows, class_="baselines")


def interval_text(figure: Figure, text: Any = percent) -> Html:
    if not isinstance(figure, Estimate):
        return Html("")
    span = (
        join(text(figure.low), " to ", text(figure.high))
        if known(figure.low) and known(figure.high)
        else join("interval ", NOT_MEASURED)
    )
    count = join(word("n"), f" {figure.n}, ", word("n_eff"), f" {number(figure.n_eff)}")
    few = join(", ", word("few families")) if figure.few else None
    return el("p", word("interval", "95%"), ": ", span, el("br"), count, few, class_="interval")


def bar(figure: Figure, good: str = "high") -> Html:
    """Draws a rate on a track from 0 to 100%, with its interval."""
    if not isinstance(figure, Estimate):
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
