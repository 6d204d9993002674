"""The same scenarios made harder: a table of columns, and success against strength."""

from __future__ import annotations

import math

import numpy as np

from surefoot.contract import TaskContract
from surefoot.reporting.figures import Column, PanelFigures, RunFigures
from surefoot.reporting.held_out import card
from surefoot.reporting.overview import bar, shown, value_of
from surefoot.reporting.web.charts import Line, line_chart, rate_axis
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent, short
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
        _agreement(panel),
        el("div", *_curves(panel, contract), class_="multiples"),
        lead="The same scenarios, played again with one thing made harder; the engine stands beside "
        "each. Curves: success against strength, the range drawn in training "
        "shaded, the unperturbed success in grey.",
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
                el("td", c.engine),
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
                el("td", _change(at, change), class_="num"),
                el("td", shown(f"{at}.fall", c.fall, percent(c.fall.value)), class_="num"),
                el(
                    "td",
                    shown(f"{at}.velocity_error", c.velocity_error, number(value_of(c.velocity_error))),
                    class_="num",
                ),
                el("td", number(c.success.n_eff) + f" of {c.success.n}", class_="num"),
                el("td", _holds(c)),
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


def _agreement(panel: PanelFigures) -> Html:
    engines = panel.summary.agreement
    if not engines:
        return el(
            "p", word("sim-to-sim", "Second simulator"), ": ", el("span", NOT_MEASURED, class_="absent")
        )
    says = [
        join(
            f"{a.engine}: same outcome in ",
            shown(f"agreement.{a.engine}.success", a.success_agreement, percent(a.success_agreement)),
            f" of {a.n} scenarios, rank correlation of errors ",
            shown(f"agreement.{a.engine}.rank", a.rank_correlation, number(a.rank_correlation)),
        )
        for a in engines
    ]
    named = word("sim-to-sim", "Second simulator (sim-to-sim, never real)")
    return el("p", named, ": ", *[join("; " if k else "", s) for k, s in enumerate(says)])


def _curves(panel: PanelFigures, contract: TaskContract) -> list[Html]:
    """Draws a small chart per perturbation and engine: success against strength."""
    by_kind: dict[tuple[str, str], list[Column]] = {}
    for c in panel.perturbed:
        if math.isfinite(c.strength):
            by_kind.setdefault((c.perturbation, c.engine), []).append(c)
    return [
        _curve(kind, engine, sorted(columns, key=lambda c: c.strength), panel, contract)
        for (kind, engine), columns in by_kind.items()
    ]


def _curve(
    kind: str, engine: str, columns: list[Column], panel: PanelFigures, contract: TaskContract
) -> Html:
    x = np.array([c.strength for c in columns])
    summary = columns[0].said
    trained = (summary.trained if summary else None) or training_range(kind, contract)
    edges = [*x.tolist(), *(trained or ())]
    low, high = min(edges), max(edges)
    air = 0.07 * (high - low) or abs(high) * 0.5 or 0.5
    line = Line(
        "success",
        x,
        np.array([c.success.value for c in columns], float),
        "--c1",
        np.array([c.success.low for c in columns], float),
        np.array([c.success.high for c in columns], float),
        dots=True,
    )
    unit = (summary.unit if summary else "") or _UNITS.get(kind, "")
    unit = "" if unit == "1" else unit
    axes = rate_axis(
        width=320,
        height=190,
        x_range=(low - air, high + air),
        x_label=f"{kind}{f' ({unit})' if unit else ''}",
        shade=trained,
        x_format=short,
        x_ticks=_spaced(x, high - low + 2 * air),
        left=46,
    )
    nominal = panel.reference(columns[0]).success.value
    rule = Line("unperturbed", np.array(axes.x_range), np.full(2, nominal), "--c0")
    chart = line_chart(axes, [rule, line], f"Success against {kind}", percent)
    note = "training range shaded" if trained else "training range: not drawn in training"
    return el("figure", el("figcaption", el("b", kind), f" on {engine}", el("small", note)), chart)


def _spaced(strengths: np.ndarray, span: float) -> tuple[float, ...]:
    """Returns the measured strengths as ticks, without those too close to the one before."""
    kept: list[float] = []
    for value in strengths.tolist():
        if not kept or value - kept[-1] > 0.12 * span:
            kept.append(value)
    return tuple(kept)


def training_range(kind: str, contract: TaskContract) -> tuple[float, float] | None:
    """Returns where training drew this quantity from; None if it did not draw it."""
    factor = next((f for f in contract.factors if f.name == kind and not f.categories), None)
    return factor.train if factor is not None else None
