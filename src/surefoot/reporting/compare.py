"""Several runs side by side. Differences are stated only between runs that may be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from surefoot.contract import SurefootError
from surefoot.evidence import Comparison, compare_sound, metrics_of, refusal_sentence
from surefoot.reporting.figures import RunFigures
from surefoot.reporting.overview import bar, interval_text, shown
from surefoot.reporting.verdict import verdict
from surefoot.reporting.web.charts import Line, at_widths, legend, line_chart, rate_axis
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, join, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import RunFolder, load_result
from surefoot.statistics import SPANS, Difference, Estimate


def comparison(runs: Sequence[RunFigures], dollars_per_hour: float | None) -> Html:
    """Puts the figures of runs side by side; every run after the first is compared with the first, as
    `surefoot compare` does it."""
    head = el("tr", el("th", ""), *[el("th", r.record.id, scope="col") for r in runs])
    rows = [
        _row("Task", runs, lambda r: r.record.task),
        _row("Verdict", runs, _verdict),
        _figure_row("success", runs, "success", percent),
        _figure_row("fall rate", runs, "fall", percent),
        _figure_row("velocity error", runs, "velocity_error", number, " m/s"),
        _figure_row("cost of transport", runs, "cost_of_transport", number),
        _row("Training speed", runs, lambda r: f"{number(r.steps_per_second.value)} steps/s"),
        _row("Time, in all", runs, lambda r: duration(r.wall_seconds)),
    ]
    if dollars_per_hour is not None:
        rows.append(_row("Cost", runs, lambda r: _dollars(r, dollars_per_hour)))
    compared = [_compared(runs[0], r) for r in runs[1:]]
    alike = [c for c in compared if isinstance(c, Comparison)]
    if alike:
        metrics = metrics_of(runs[0].record.contract).items()
        rows += [_difference_row(title, column, runs, compared) for title, column in metrics]
    return el(
        "section",
        el("h2", "Side by side"),
        *[_refused(c) for c in compared if isinstance(c, str)],
        _comparable(runs, alike) if alike else None,
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
        id="comparison",
    )


def _verdict(run: RunFigures) -> Html:
    v = verdict(run)
    says = el("b", v.headline, class_=f"grade {v.grade}")
    return join(says, *[el("p", c, class_="note mixed caveat") for c in v.caveats])


def _compared(a: RunFigures, b: RunFigures) -> Comparison | str:
    """Compares the results of two runs, or says why not."""
    try:
        result_a, result_b = (load_result(RunFolder.open(r.folder)) for r in (a, b))
        compared = compare_sound(result_a, result_b)
    except SurefootError as error:  # one of them has no result, or they have no scenario in common
        return str(error)
    if isinstance(compared, Comparison):
        return compared
    return f"{refusal_sentence(a.record.id, b.record.id, compared.differs)} {compared.offer}"


def _refused(why: str) -> Html:
    return el("p", el("b", "Comparison refused. "), why, class_="note bad", data_refused="true")


def _comparable(runs: Sequence[RunFigures], alike: Sequence[Comparison]) -> Html:
    others = "These runs" if len(alike) == len(runs) - 1 else f"{runs[0].record.id} and the others"
    return el(
        "p",
        f"{others} were measured alike (",
        word("measurement id" if runs[0].record.measurement_id else "construct id"),
        f" {runs[0].record.construct_id[:12]}), so their results may be compared. ",
        _treatment(alike),
        class_="note good",
    )


def _curves(runs: Sequence[RunFigures]) -> Html | None:
    """Draws the held-out success of all runs over their samples."""
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
        figure: Estimate | None = getattr(r.panel.nominal, key) if r.panel else None
        if figure is None:
            return el("span", NOT_MEASURED, class_="absent")
        return join(
            el("b", shown(f"{r.record.id}.{key}", figure, text(figure.value) + unit)),
            bar(figure, "low" if key == "fall" else "high") if key in ("success", "fall") else None,
            interval_text(figure, text),
        )

    return el("tr", el("th", word(name), scope="row"), *[el("td", cell(r)) for r in runs])


def _difference_row(
    title: str, column: str, runs: Sequence[RunFigures], compared: Sequence[Comparison | str]
) -> Html:
    """Shows each run against the first, scenario by scenario."""
    cells = [
        _difference(f"{r.record.id}.difference.{column}", c.metrics.get(title), column)
        if isinstance(c, Comparison)
        else el("td", el("span", "not compared", class_="absent"))
        for r, c in zip(runs[1:], compared, strict=True)
    ]
    name = el("th", f"Difference in {title}", el("small", " paired"), scope="row")
    return el("tr", name, el("td", "reference"), *cells)


def _difference(name: str, d: Difference | None, column: str) -> Html:
    if d is None:
        return el("td", el("b", shown(name, None, NOT_MEASURED)))
    low, high = (x if math.isfinite(x) else None for x in (d.low, d.high))
    figure = Estimate(value=d.value, low=low, high=high, n=d.n, n_eff=d.n_eff, families=d.families, few=d.few)
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
    return el("td", el("b", shown(name, figure, _signed(d.value, column))), note)


def _signed(value: float, column: str) -> str:
    if not math.isfinite(value):
        return "unbounded"
    text = f"{100 * value:+.1f} points" if SPANS[column] == (0, 1) else f"{value:+.3f}"
    return text.replace("-", "−")


def _dollars(run: RunFigures, per_hour: float) -> str:
    wall = run.wall_seconds
    return NOT_MEASURED if wall is None else f"${wall / 3600 * per_hour:,.4f}"


def _treatment(alike: Sequence[Comparison]) -> str:
    """Says in what the treatments differ, by the fields that `surefoot compare` shows."""
    fields = {f.name for c in alike for f in c.training}
    names = sorted(fields - {"seed", "training_id"})
    connected = sorted({f.name.removeprefix("interface.") for c in alike for f in c.interface})
    signals = sorted({name for c in alike for name in c.other_signals})
    said = [f"They were trained differently: {', '.join(names)}."] if names else []
    said += [f"Their policies have other interfaces: {', '.join(connected)}."] if connected else []
    said += [f"Not the same signal, though called alike: {', '.join(signals)}."] if signals else []
    if said:
        return " ".join(said)
    return f"They were trained alike, with {'other seeds' if 'seed' in fields else 'the same seed'}."
