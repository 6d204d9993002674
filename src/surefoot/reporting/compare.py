"""Several runs side by side. Differences are stated only between runs that may be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from surefoot.contract import Contract, Factor, TaskContract, construct_fields
from surefoot.evidence import metrics_of
from surefoot.reporting.figures import Figure, RunFigures
from surefoot.reporting.overview import bar, interval_text, shown
from surefoot.reporting.verdict import verdict
from surefoot.reporting.web.charts import Line, at_widths, legend, line_chart, rate_axis
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, join, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import RunRecord
from surefoot.statistics import SPANS, Difference, paired


def comparison(runs: Sequence[RunFigures], dollars_per_hour: float | None) -> Html:
    """Tiles side by side; differences only between runs that may be compared."""
    ids = {r.record.construct_id for r in runs}
    head = el("tr", el("th", ""), *[el("th", r.record.id, scope="col") for r in runs])
    rows = [
        _row("Task", runs, lambda r: r.record.task),
        _row("Verdict", runs, lambda r: el("b", verdict(r).headline, class_=f"grade {verdict(r).grade}")),
        _figure_row("success", runs, "success", percent),
        _figure_row("fall rate", runs, "fall", percent),
        _figure_row("velocity error", runs, "velocity_error", number, " m/s"),
        _figure_row("cost of transport", runs, "cost_of_transport", number),
        _row("Training speed", runs, lambda r: f"{number(r.steps_per_second.value)} steps/s"),
        _row("Wall-clock", runs, lambda r: duration(r.wall_seconds)),
    ]
    if dollars_per_hour is not None:
        rows.append(_row("Cost", runs, lambda r: _dollars(r, dollars_per_hour)))
    engines = {r.panel.nominal.engine for r in runs if r.panel}
    if len(ids) == 1 and len(engines) < 2:
        note = el(
            "p",
            "These runs share one ",
            word("construct id"),
            f" ({next(iter(ids))[:12]}), so their results may be compared. ",
            _treatment(runs),
            class_="note good",
        )
        rows += [_difference_row(name, runs) for name in metrics_of(runs[0].record.contract)]
    else:
        fields = sorted({f for r in runs[1:] for f in different(runs[0].record, r.record)})
        fields += ["engine"] if len(engines) > 1 else []
        what = ", ".join(fields) if fields else "the definition of a metric or the evaluation plant"
        note = el(
            "p",
            el("b", "Comparison refused. "),
            "They were not measured alike (",
            word("construct id"),
            " and engine must be the same), so a difference between these figures would not be one "
            "between the policies. "
            f"What differs: {what}.",
            class_="note bad",
            data_refused="true",
        )
    return el(
        "section",
        el("h2", "Side by side"),
        note,
        el(
            "div",
            el(
                "table",
                el("thead", head),
                el("tbody", *rows),
                class_="compare",
                style=f"--runs:{len(runs)}",
            ),
            class_="scroll",
        ),
        _curves(runs),
        class_="card",
    )


def _curves(runs: Sequence[RunFigures]) -> Html | None:
    """Held-out success of all runs over their samples."""
    lines = []
    for k, run in enumerate(runs):
        x, y = run.ledger.series("evaluation.success")
        if len(x):
            lines.append(Line(run.record.id, x, y, f"--c{k % 7 + 1}", dots=True))
    if not lines:
        return None
    last = max(float(line.x.max()) for line in lines)
    chart = at_widths(
        lambda w: line_chart(
            rate_axis(width=w, height=230, x_range=(0, last), x_label="samples"),
            lines,
            "Held-out success of the runs over training",
            percent,
        )
    )
    title = el("h3", word("held-out", "Held-out"), " success while training, on the ", word("selection half"))
    return join(title, legend([line.name for line in lines], [line.colour for line in lines]), chart)


def _row(name: str, runs: Sequence[RunFigures], cell: Any) -> Html:
    return el("tr", el("th", name, scope="row"), *[el("td", cell(r)) for r in runs])


def _figure_row(name: str, runs: Sequence[RunFigures], key: str, text: Any, unit: str = "") -> Html:
    def cell(r: RunFigures) -> Html:
        figure: Figure = getattr(r.panel.nominal, key) if r.panel else Figure()
        if not known(figure.value):
            return el("span", NOT_MEASURED, class_="absent")
        return join(
            el("b", shown(f"{r.record.id}.{key}", figure, text(figure.value) + unit)),
            bar(figure, "low" if key == "fall" else "high") if key in ("success", "fall") else None,
            interval_text(figure, text),
        )

    return el("tr", el("th", word(name), scope="row"), *[el("td", cell(r)) for r in runs])


def _difference_row(metric: str, runs: Sequence[RunFigures]) -> Html:
    """Each run against the first, scenario by scenario."""
    cells = [el("td", "reference")]
    column = metrics_of(runs[0].record.contract)[metric]
    for r in runs[1:]:
        d = paired_difference(runs[0], r, metric)
        shown_name = f"{r.record.id}.difference.{column}"
        text = NOT_MEASURED if d is None else _signed(d.value, column)
        value = el("b", shown(shown_name, _figure(d), text))
        if d is None:
            cells.append(el("td", value))
            continue
        note = el(
            "p",
            word("interval", "95%"),
            f": {_signed(d.low, column)} to {_signed(d.high, column)}",
            el("br"),
            word("n"),
            f" {d.n}, ",
            word("n_eff"),
            f" {number(d.n_eff)}, p {d.p:.4f}",
            join(", ", word("few families")) if d.few else None,
            class_="interval",
        )
        cells.append(el("td", value, note))
    return el("tr", el("th", f"Difference in {metric}", el("small", " paired"), scope="row"), *cells)


def paired_difference(a: RunFigures, b: RunFigures, metric: str) -> Difference | None:
    """B minus A over the scenarios where both have the metric; the same that `surefoot compare` states."""
    name = metrics_of(a.record.contract)[metric]
    if a.panel is None or b.panel is None or any(name not in r.panel.nominal_rows for r in (a, b) if r.panel):
        return None
    ours, theirs = (
        {
            (int(f), int(m)): float(x)
            for f, m, x in zip(p["family"], p["member"], p[name], strict=True)
            if math.isfinite(x)
        }
        for p in (a.panel.nominal_rows, b.panel.nominal_rows)
    )
    keys = sorted(ours.keys() & theirs.keys())
    if not keys:
        return None
    family = [k[0] for k in keys]
    return paired([ours[k] for k in keys], [theirs[k] for k in keys], family, SPANS[name])


def _figure(d: Difference | None) -> Figure:
    if d is None:
        return Figure()
    low, high = (x if math.isfinite(x) else None for x in (d.low, d.high))
    return Figure(d.value, low, high, d.n, d.n_eff, d.few)


def _signed(value: float, column: str) -> str:
    if not math.isfinite(value):
        return "unbounded"
    text = f"{100 * value:+.1f} points" if SPANS[column] == (0, 1) else f"{value:+.3f}"
    return text.replace("-", "−")


def _dollars(run: RunFigures, per_hour: float) -> str:
    wall = run.wall_seconds
    return NOT_MEASURED if wall is None else f"${wall / 3600 * per_hour:,.4f}"


def different(a: RunRecord, b: RunRecord) -> list[str]:
    """The fields of the construct in which two runs differ, by name."""
    one, two = (construct_fields(r.contract, r.panel, r.panel_digest, r.evaluation_plant) for r in (a, b))
    return [k.replace("_", " ") for k in one if one[k] != two[k]]


def _factors(c: Contract) -> tuple[Factor, ...]:
    return c.factors if isinstance(c, TaskContract) else ()


def _treatment(runs: Sequence[RunFigures]) -> str:
    if len({r.record.training_id for r in runs}) == 1:
        seeds = {r.record.seeds.root for r in runs}
        return "They were trained alike, " + (
            "with other seeds." if len(seeds) > 1 else "with the same seed."
        )
    first = runs[0].record
    names: set[str] = set()
    for r in runs[1:]:
        a, b = first.recipe.model_dump(), r.record.recipe.model_dump()
        names |= {k.replace("_", " ") for k in a if a[k] != b[k]}
        names |= {"randomisation"} if _factors(first.contract) != _factors(r.record.contract) else set()
        names |= {"rewards"} if first.contract.rewards != r.record.contract.rewards else set()
        names |= {"engine"} if first.engine != r.record.engine else set()
    what = ", ".join(sorted(names)) or "the training plant, the learner or the number of seed families"
    return f"They were trained differently: {what}."
