"""The held-out panel in detail: by stratum, and over the commands."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.contract import TaskContract
from surefoot.reporting.figures import RunFigures
from surefoot.reporting.groups import Group, Heatmap, by_cell, by_factor, heatmap
from surefoot.reporting.improvement import improved
from surefoot.reporting.overview import bar, shown
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent
from surefoot.reporting.web.words import word

# ---- strata


def strata(run: RunFigures) -> Html:
    title = join("By ", word("stratum"), ", worst first")
    if run.panel is None:
        return card(title, _absent())
    contract = run.record.contract
    if not isinstance(contract, TaskContract):
        return card(title, el("p", "Nothing is known of what the simulator draws.", class_="absent"))
    factors = by_factor(run.panel.nominal_rows, contract)
    cells = by_cell(run.panel.nominal_rows, contract)
    inner = [forest(factors, "stratum")] if factors else [el("p", "All episodes are alike.", class_="absent")]
    if cells:
        names = ", ".join(n for n in contract.stratify)
        inner.append(
            el("details", el("summary", f"Every cell of {names}: {len(cells)}"), forest(cells, "cell"))
        )
    inner.append(improved(run.improvement) or Html(""))
    return card(
        title,
        *inner,
        lead="Success with its 95% interval in every group of held-out episodes. The top line is "
        "where to look first; groups of too few episodes stand last and are not ranked.",
    )


def forest(groups: Sequence[Group], kind: str) -> Html:
    rows = []
    for g in groups:
        s = g.success
        says = (
            f"{g.factor} {g.label}: success {percent(s.value)} ({percent(s.low)} to {percent(s.high)}), "
            f"falls {percent(g.fall.value)}, n {s.n}, n_eff {number(s.n_eff)}"
        )
        few = join(word("not shown"), f" (n {s.n})")
        told = shown(f"{kind}.{g.factor}.{g.label}", s, percent(s.value) if g.shown else few)
        named = g.label.replace("_", " ")
        label = named if g.factor == "cell" else join(el("em", g.factor), " ", named)
        rows.append(
            el(
                "div",
                el("span", label, class_="what"),
                bar(s) if g.shown else el("span", told, class_="absent"),
                el("span", told if g.shown else "", class_="num"),
                el("span", f"n {s.n}, n_eff {number(s.n_eff)}" if g.shown else "", class_="count"),
                class_="row",
                data_tip=says,
                tabindex="0",
            )
        )
    scale = el(
        "div",
        el("span"),
        el("span", *[el("i", t) for t in ("0%", "50%", "100%")], class_="scale"),
        el("span"),
        el("span", word("n"), ", ", word("n_eff"), class_="count"),
        class_="row head",
    )
    return el("div", scale, *rows, class_=f"forest {kind}")


# ---- commands


def commands(run: RunFigures) -> Html:
    title = "Command tracking"
    contract = run.record.contract
    if not isinstance(contract, TaskContract):
        return card(title, el("p", "There are no commands that Surefoot knows of.", class_="absent"))
    heat = heatmap(run.panel.nominal_rows) if run.panel else None
    if heat is None:
        return card(title, _absent())
    limits = contract.success
    return card(
        title,
        el(
            "div",
            _grid(
                heat,
                "velocity_error",
                word("velocity error", "Velocity error, m/s"),
                limits.velocity_error_mps,
            ),
            _grid(heat, "yaw_error", word("turning error", "Turning error, rad/s"), limits.yaw_error_radps),
            class_="two",
        ),
        lead="Mean error for every commanded forward speed (across) and turning rate (down). The "
        "stronger the colour, the larger the error; a ring marks errors above the contract's limit.",
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


def _absent() -> Html:
    return el("p", NOT_MEASURED, class_="absent")


def card(title: object, *children: object, lead: str = "") -> Html:
    return el(
        "section", el("h2", title), el("p", lead, class_="lead") if lead else None, *children, class_="card"
    )
