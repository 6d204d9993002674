"""The held-out panel in detail: by stratum, under perturbation, over the commands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from surefoot.contract import TaskContract
from surefoot.report.charts import Axes, Line, line_chart, rate_axis
from surefoot.report.figures import Column, PanelFigures, RunFigures
from surefoot.report.groups import Group, Heatmap, by_cell, by_factor, heatmap
from surefoot.report.html import NOT_MEASURED, Html, el, join, known, number, percent, short
from surefoot.report.overview import bar, shown
from surefoot.report.words import word

# ---- strata


def strata(run: RunFigures) -> Html:
    title = join("By ", word("stratum"), ", worst first")
    if run.panel is None:
        return _card(title, _absent())
    factors = by_factor(run.panel.nominal_rows, run.record.contract)
    cells = by_cell(run.panel.nominal_rows, run.record.contract)
    inner = [forest(factors, "stratum")] if factors else [el("p", "All episodes are alike.", class_="absent")]
    if cells:
        names = ", ".join(n for n in run.record.contract.stratify)
        inner.append(
            el("details", el("summary", f"Every cell of {names}: {len(cells)}"), forest(cells, "cell"))
        )
    return _card(
        title,
        *inner,
        lead="Success with its 95% interval in every group of held-out episodes. The top line is "
        "where to look first.",
    )


def forest(groups: Sequence[Group], kind: str) -> Html:
    rows = []
    for g in groups:
        s = g.success
        says = (
            f"{g.factor} {g.label}: success {percent(s.value)} ({percent(s.low)} to {percent(s.high)}), "
            f"falls {percent(g.fall.value)}, n {s.n}, n_eff {number(s.n_eff)}"
        )
        label = g.label if g.factor == "cell" else join(el("em", g.factor), " ", g.label)
        rows.append(
            el(
                "div",
                el("span", label, class_="what"),
                bar(s),
                el("span", shown(f"{kind}.{g.factor}.{g.label}", s, percent(s.value)), class_="num"),
                el("span", f"n {s.n}", class_="count"),
                class_="row",
                data_tip=says,
                tabindex="0",
            )
        )
    scale = el(
        "div",
        el("span"),
        el("span", *[el("i", t) for t in ("0%", "50%", "100%")], class_="scale"),
        class_="row head",
    )
    return el("div", scale, *rows, class_=f"forest {kind}")


# ---- perturbations

_TRAINED = {
    "friction": "friction",
    "payload": "payload",
    "push": "push",
    "delay": "delay",
    "strength": "strength",
    "noise": "noise",
}
"""Perturbation -> the factor whose training range is shaded in its curve."""
_UNITS = {"payload": "kg", "push": "m/s", "delay": "s"}


def perturbations(run: RunFigures) -> Html:
    title = join("Under ", word("perturbation"))
    if run.panel is None or not run.panel.perturbed:
        return _card(
            title,
            el("p", NOT_MEASURED, class_="absent"),
            lead="The same scenarios with noise, delay, friction, payload, pushes, weak motors or "
            "lost sensors.",
        )
    panel = run.panel
    transfer = panel.summary.transfer
    tags = (
        el(
            "p",
            "Shown to hold: ",
            *([el("span", t, class_="tag") for t in transfer] or [Html("none")]),
            class_="tags",
        )
        if transfer is not None
        else None
    )
    return _card(
        title,
        tags,
        _table(panel),
        _agreement(panel),
        el("div", *_curves(panel, run.record.contract), class_="multiples"),
        lead="The same scenarios, played again with one thing made harder; the engine stands beside "
        "each. Curves: success against strength, the range drawn in training shaded.",
    )


def _table(panel: PanelFigures) -> Html:
    rows = []
    plain = [c for c in panel.columns if not c.baseline and not c.perturbation]
    for c in [*plain, *panel.perturbed, *panel.baselines]:
        change = None
        if c.perturbation and c.success.value is not None:
            reference = panel.reference(c).success.value
            change = c.success.value - reference if reference is not None else None
        name = c.name.removeprefix("baseline:").replace("_", " ")
        rows.append(
            el(
                "tr",
                el("th", name, el("small", " baseline") if c.baseline else None, scope="row"),
                el("td", c.engine),
                el(
                    "td",
                    el(
                        "div",
                        el("b", shown(f"{c.name}@{c.engine}.success", c.success, percent(c.success.value))),
                        bar(c.success),
                        el("small", f"{percent(c.success.low)} to {percent(c.success.high)}"),
                        class_="measured",
                    ),
                ),
                el("td", "" if change is None else f"{100 * change:+.1f}".replace("-", "−"), class_="num"),
                el("td", percent(c.fall.value), class_="num"),
                el("td", _or_absent(c.velocity_error.value), class_="num"),
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


def _holds(c: Column) -> Html:
    if c.baseline or not c.perturbation:
        return Html("")
    if c.holds is None:
        return el("span", NOT_MEASURED, class_="absent")
    return el("span", "✓ holds" if c.holds else "✗ fails", class_="tag good" if c.holds else "tag bad")


def _agreement(panel: PanelFigures) -> Html:
    found = panel.summary.agreement
    if not found:
        return el(
            "p", word("sim-to-sim", "Second simulator"), ": ", el("span", NOT_MEASURED, class_="absent")
        )
    says = [
        f"{a.engine}: same outcome in {percent(a.success_agreement)} of {a.n} scenarios, rank correlation "
        f"of errors "
        f"{number(a.rank_correlation)}"
        for a in found
    ]
    return el("p", word("sim-to-sim", "Second simulator (sim-to-sim, never real)"), ": ", "; ".join(says))


def _curves(panel: PanelFigures, contract: TaskContract) -> list[Html]:
    """One small chart per perturbation and engine: success against strength."""
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
    trained = training_range(kind, contract, x)
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
    milliseconds = kind == "delay" and float(x.max()) > 1.5
    unit = "ms" if milliseconds else _UNITS.get(kind, "")
    axes = rate_axis(
        width=320,
        height=190,
        x_range=(low - air, high + air),
        x_label=f"{kind}{f' ({unit})' if unit else ''}",
        shade=trained,
        x_format=short,
        left=46,
    )
    reference = panel.reference(columns[0])
    nominal = reference.success.value
    rule = (
        Line("unperturbed", np.array(axes.x_range), np.full(2, nominal), "--c0") if known(nominal) else None
    )
    lines = [line] if rule is None else [rule, line]
    chart = line_chart(axes, lines, f"Success against {kind}", percent)
    note = "training range shaded" if trained else "training range: not drawn in training"
    return el("figure", el("figcaption", el("b", kind), f" on {engine}", el("small", note)), chart)


def training_range(kind: str, contract: TaskContract, strengths: np.ndarray) -> tuple[float, float] | None:
    """Where training drew this quantity from, in the unit of the strengths; None if it did not draw it."""
    factor = next((f for f in contract.factors if f.name == _TRAINED.get(kind) and not f.categories), None)
    if factor is None:
        return None
    # Delays are seconds in the contract; a sweep of more than 1.5 cannot be seconds, so it is milliseconds.
    scale = 1000.0 if kind == "delay" and float(strengths.max()) > 1.5 else 1.0
    return factor.train[0] * scale, factor.train[1] * scale


# ---- commands


def commands(run: RunFigures) -> Html:
    title = "Command tracking"
    found = heatmap(run.panel.nominal_rows) if run.panel else None
    if found is None:
        return _card(title, _absent())
    limits = run.record.contract.success
    return _card(
        title,
        el(
            "div",
            _grid(
                found,
                "velocity_error",
                word("velocity error", "Velocity error, m/s"),
                limits.velocity_error_mps,
            ),
            _grid(found, "yaw_error", word("turning error", "Turning error, rad/s"), limits.yaw_error_radps),
            class_="two",
        ),
        lead="Mean error for every commanded forward speed (across) and turning rate (down). A cell "
        "is as dark as its error; a ring marks errors above the contract's limit.",
    )


def _grid(h: Heatmap, key: str, title: object, limit: float) -> Html:
    cells: list[Html] = []
    for wz in reversed(h.wz):
        cells.append(el("span", wz, class_="side"))
        for vx in h.vx:
            c = h.cells[vx, wz]
            value: float | None = getattr(c, key)
            if value is None:
                cells.append(
                    el("span", "–", class_="cell none", data_tip=f"{vx} m/s, {wz} rad/s: {NOT_MEASURED}")
                )
                continue
            part = min(value / limit, 1.25) / 1.25
            tip = (
                f"{vx} m/s ahead, {wz} rad/s turn: error {number(value)}, success {percent(c.success)}, "
                f"{c.n} episodes"
            )
            cells.append(
                el(
                    "span",
                    f"{value:.2f}",
                    class_="cell" + (" over" if value > limit else "") + (" dark" if part > 0.55 else ""),
                    style=f"--part:{100 * part:.0f}%",
                    tabindex="0",
                    data_tip=tip,
                    data_figure=f"heat.{key}.{vx}.{wz}",
                    data_value=value,
                )
            )
    foot = [el("span", class_="side"), *[el("span", v, class_="foot") for v in h.vx]]
    return el(
        "figure",
        el("figcaption", el("b", title), el("small", f"limit {limit:g}")),
        el(
            "div",
            *cells,
            *foot,
            class_="heat",
            style=f"grid-template-columns:auto repeat({len(h.vx)},minmax(0,1fr))",
        ),
        el("p", "→ forward speed, m/s    ↑ turning rate, rad/s", class_="axes"),
    )


def _or_absent(value: float | None) -> Html:
    return el("span", number(value), class_=None if known(value) else "absent")


def _absent() -> Html:
    return el("p", NOT_MEASURED, class_="absent")


def _card(title: object, *children: object, lead: str = "") -> Html:
    return el(
        "section", el("h2", title), el("p", lead, class_="lead") if lead else None, *children, class_="card"
    )


__all__ = ["Axes", "commands", "forest", "perturbations", "strata", "training_range"]
