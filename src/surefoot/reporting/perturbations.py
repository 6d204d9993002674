"""The same scenarios made harder: a table of columns, and success against strength."""

from __future__ import annotations

import math
from dataclasses import replace

from surefoot.contract import TaskContract
from surefoot.reporting.agreement import agreement
from surefoot.reporting.figures import Column, PanelFigures, RunFigures
from surefoot.reporting.held_out import card
from surefoot.reporting.overview import bar, shown, value_of
from surefoot.reporting.web.charts import at_widths
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent
from surefoot.reporting.web.strips import Dot, Strip, strip_chart
from surefoot.reporting.web.words import word
from surefoot.statistics import Estimate, rate_estimate

_UNITS = {"payload": "kg", "push": "m/s", "delay": "s"}


def perturbations(run: RunFigures) -> Html:
    title = join("Under ", word("perturbation"))
    contract = run.record.contract
    if run.panel is None or not run.panel.perturbed or not isinstance(contract, TaskContract):
        return card(
            title,
            el("p", NOT_MEASURED, class_="absent"),
            lead="The same scenarios with noise, delay, friction, payload, pushes, weak motors or "
            "lost sensors.",
        )
    panel = run.panel
    chips = [_tag(panel, t) for t in panel.summary.transfer] or [Html("none")]
    return card(
        title,
        el("p", "Shown to hold: ", *chips, class_="tags"),
        _table(panel),
        agreement(panel.summary),
        _strips(panel, contract),
        lead="The same scenarios, played again with one thing made harder; the engine stands beside each.",
    )


def _tag(panel: PanelFigures, tag: str) -> Html:
    """Says where the policy is shown to hold, with the interval that shows it."""
    rows, cls = panel.nominal_rows, tag.removeprefix("terrain:")
    figure: Estimate | None
    if cls != tag:
        at = rows["terrain"] == cls
        figure = rate_estimate(rows["success"][at], rows["family"][at]) if at.any() else None
    else:
        figure = next((c.success for c in panel.perturbed if c.name == tag and c.holds), None)
    text = f"{percent(figure.low)} to {percent(figure.high)}" if figure else NOT_MEASURED
    name = tag.replace("_", " ").replace(":", " ")
    return el("span", name, " ", el("small", shown(f"transfer.{tag}", figure, text)), class_="tag good")


def _table(panel: PanelFigures) -> Html:
    rows = []
    plain = [c for c in panel.columns if not c.baseline and not c.perturbation]
    for c in [*plain, *panel.perturbed, *[c for c in panel.columns if c.baseline]]:
        change = c.success.value - panel.reference(c).success.value if c.perturbation else None
        name, at = c.name.removeprefix("baseline:").replace("_", " "), f"{c.name}@{c.engine}"
        rows.append(
            el(
                "tr",
                el("th", name, el("small", " baseline") if c.baseline else None, scope="row"),
                el("td", c.engine, class_="engine"),
                el(
                    "td",
                    el(
                        "div",
                        el("b", shown(f"{at}.success", c.success, percent(c.success.value))),
                        bar(c.success),
                        el("small", f"{percent(c.success.low)} to {percent(c.success.high)}"),
                        class_="measured",
                    ),
                ),
                el("td", _change(at, change), class_="num", data_name="change"),
                el("td", shown(f"{at}.fall", c.fall, percent(c.fall.value)), class_="num", data_name="falls"),
                el(
                    "td",
                    shown(f"{at}.velocity_error", c.velocity_error, number(value_of(c.velocity_error))),
                    class_="num",
                    data_name="error, m/s",
                ),
                el("td", number(c.success.n_eff) + f" of {c.success.n}", class_="num", data_name="n_eff"),
                el("td", _holds(c), class_="holds"),
                class_="baseline" if c.baseline else None,
            )
        )
    head = (
        "column",
        "engine",
        word("success"),
        "change, points",
        word("fall rate", "falls"),
        word("velocity error", "velocity error, m/s"),
        join(word("n_eff"), " of ", word("n")),
        word("holds"),
    )
    return el(
        "div",
        el(
            "table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows), class_="columns"
        ),
        class_="scroll",
    )


def _change(at: str, change: float | None) -> Html:
    if change is None:
        return Html("")
    text = f"{100 * change:+.1f}".replace("-", "−") if change else "0"
    return shown(f"{at}.change", change, text)


def _holds(c: Column) -> Html:
    if c.baseline or not c.perturbation:
        return Html("")
    if c.holds is None:
        return el("span", NOT_MEASURED, class_="absent")
    return el("span", "✓ holds" if c.holds else "✗ fails", class_="tag good" if c.holds else "tag bad")


def _strips(panel: PanelFigures, contract: TaskContract) -> Html | None:
    """Draws a strip per perturbation, on one chart: where it was measured, and where training drew from."""
    by_kind: dict[tuple[str, str], list[Column]] = {}
    for c in panel.perturbed:
        if math.isfinite(c.strength):
            by_kind.setdefault((c.perturbation, c.engine), []).append(c)
    if not by_kind:
        return None
    strips = [_strip(kind, columns, contract) for (kind, _), columns in by_kind.items()]
    if len({engine for _, engine in by_kind}) > 1:
        strips = [replace(s, title=f"{s.title} on {e}") for s, (_, e) in zip(strips, by_kind, strict=True)]
    return join(
        el("h3", "Success by strength, beside what training drew"),
        el(
            "p",
            el("span", el("i", class_="key-band"), word("training range")),
            el("span", el("i", class_="key-dot good"), word("holds")),
            el("span", el("i", class_="key-dot bad"), "fails"),
            el("span", f"unperturbed: {percent(panel.nominal.success.value)}"),
            class_="legend",
        ),
        at_widths(lambda w: strip_chart(strips, w, "Success under perturbations, by strength")),
    )


def _strip(kind: str, columns: list[Column], contract: TaskContract) -> Strip:
    said = columns[0].said
    trained = (said.trained if said else None) or training_range(kind, contract)
    unit = (said.unit if said else "") or _UNITS.get(kind, "")
    unit = "×" if unit == "x" else unit
    title = f"{kind}, {unit}" if unit not in ("", "1") else kind
    grades = {True: "good", False: "bad", None: "none"}
    dots = tuple(
        Dot(
            c.strength,
            percent(c.success.value),
            grades[c.holds],
            f"{c.name.replace('_', ' ')}: success {percent(c.success.value)} ({percent(c.success.low)} to "
            f"{percent(c.success.high)}), falls {percent(c.fall.value)}",
        )
        for c in sorted(columns, key=lambda c: c.strength)
    )
    return Strip(title, dots, trained)


def training_range(kind: str, contract: TaskContract) -> tuple[float, float] | None:
    """Returns where training drew this quantity from; None if it did not draw it."""
    factor = next((f for f in contract.factors if f.name == kind and not f.categories), None)
    return factor.train if factor is not None else None
