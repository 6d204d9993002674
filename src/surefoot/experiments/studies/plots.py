"""The charts of a study: figures against the varied quantity, and success against disturbances."""

from __future__ import annotations

import numpy as np

from surefoot.contract import NOMINAL, find_perturbation, trained_range
from surefoot.experiments.studies.design import Budget
from surefoot.experiments.studies.record import StudyRecord
from surefoot.reporting.web import (
    Axes,
    Html,
    Line,
    duration,
    el,
    legend,
    line_chart,
    number,
    percent,
    rate_axis,
    short,
    spread,
    word,
)
from surefoot.statistics import Estimate
from surefoot.training import RobotPlan

COLOURS = {"samples": "--c1", "seconds": "--c2"}


def same(record: StudyRecord, budget: Budget) -> str:
    if budget == "samples":
        return f"the same samples ({record.design.samples:,})"
    return f"the same training time ({duration(record.seconds)})"


def against(record: StudyRecord, budgets: list[Budget]) -> Html:
    rates = [
        ("success", "Held-out success"),
        ("fall", "Fall rate"),
        ("disturbed_success", "Disturbed success"),
    ]
    plain = [
        ("steps_per_second", "Training steps/s"),
        ("train_seconds", "Training seconds"),
        ("n_eff_return", "n_eff of a rollout block, by return"),
        ("kl", "Policy change per update (KL)"),
    ]
    charts = [_chart(record, budgets, n, t, rate=True) for n, t in rates]
    charts += [_chart(record, budgets, n, t, rate=False) for n, t in plain]
    names = [f"with {same(record, b)}" for b in budgets]
    return el(
        "section",
        el("h2", f"Against {record.design.knob.unit}"),
        el(
            "p",
            "The typical training seed; bars are its 95% interval ",
            word("over seeds"),
            ".",
            class_="lead",
        ),
        legend(names, [COLOURS[b] for b in budgets]),
        el("div", *[c for c in charts if c is not None], class_="multiples"),
        class_="card",
    )


def _chart(record: StudyRecord, budgets: list[Budget], name: str, title: str, *, rate: bool) -> Html | None:
    values = record.design.values
    lines = []
    for b in budgets:
        groups = [g for g in record.groups_of(b) if name in g.figures]
        if groups:
            x = np.array([values.index(g.value) for g in groups], float)
            lines.append(_line(f"same {b}", x, [g.figures[name] for g in groups], COLOURS[b]))
    if not lines:
        return None
    axis = {
        "width": 320,
        "height": 190,
        "x_range": (-0.35, len(values) - 0.65),
        "x_label": record.design.knob.unit,
        "x_ticks": tuple(float(k) for k in range(len(values))),
        "x_format": lambda k: f"{values[round(k)]:,}",
        "left": 52,
    }
    bounds = [y for line in lines for y in (line.y, line.low, line.high) if y is not None]
    axes = rate_axis(**axis) if rate else Axes(y_range=spread(*bounds, zero=True), **axis)  # type: ignore[arg-type]
    text = percent if rate else number
    return el("figure", el("figcaption", el("b", title)), line_chart(axes, lines, title, text))


def _line(name: str, x: np.ndarray, figures: list[Estimate], colour: str) -> Line:
    # Nothing that is drawn here can be negative, whatever the interval of a mean says.
    low = np.array([f.value if f.low is None else max(f.low, 0.0) for f in figures])
    high = np.array([f.value if f.high is None else f.high for f in figures])
    return Line(name, x, np.array([f.value for f in figures]), colour, low, high, dots=True)


def curves(record: StudyRecord, plan: RobotPlan, budget: Budget) -> Html | None:
    groups, columns = record.groups_of(budget), record.design.columns
    kinds = list(dict.fromkeys(c.perturbation for c in columns))
    if not kinds:
        return None
    colours = {v: f"--c{k % 7 + 1}" for k, v in enumerate(record.design.values)}
    figures = []
    for kind in kinds:
        p = find_perturbation(kind)
        of_kind = sorted((c for c in columns if c.perturbation == kind), key=lambda c: c.strength)
        at = {c.strength: c.name for c in of_kind}
        if p.neutral is not None:  # the panel as it is, at the strength that changes nothing
            at[p.neutral] = NOMINAL
        strengths = sorted(at)
        trained = trained_range(p, plan.task.contract)
        edges = [*strengths, *(trained or ())]
        air = 0.07 * (max(edges) - min(edges)) or abs(edges[0]) * 0.5 or 0.5
        axes = rate_axis(
            width=320,
            height=190,
            x_range=(min(edges) - air, max(edges) + air),
            x_label=f"{kind}{'' if p.unit == '1' else f' ({p.unit})'}",
            shade=trained,
            x_format=short,
            left=46,
        )
        lines = [
            _line(
                f"{g.value:,}", np.array(strengths), [g.columns[at[x]] for x in strengths], colours[g.value]
            )
            for g in groups
        ]
        note = "training range shaded" if trained else "never drawn in training"
        chart = line_chart(axes, lines, f"Success against {kind}", percent)
        figures.append(el("figure", el("figcaption", el("b", kind), el("small", note)), chart))
    return el(
        "section",
        el("h2", f"Under disturbances, {same(record, budget)}"),
        el(
            "p",
            "The same scenarios, one thing made harder. A line per value, bars are 95% ",
            word("over seeds"),
            "; --sweep measures every strength.",
            class_="lead",
        ),
        legend([f"{v:,} {record.design.knob.unit}" for v in colours], list(colours.values())),
        el("div", *figures, class_="multiples"),
        class_="card",
    )
