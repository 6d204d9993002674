"""The tables of a study: figures by value, differences between neighbours, failures by label."""

from __future__ import annotations

from surefoot.contract import BESIDE
from surefoot.experiments.studies.design import Budget
from surefoot.experiments.studies.figures import RATES, Group, Step
from surefoot.experiments.studies.plots import same
from surefoot.experiments.studies.record import StudyRecord
from surefoot.reporting.web import NOT_MEASURED, Html, el, join, number, percent, short, word
from surefoot.statistics import Estimate

NAMES = {
    "success": "success",
    "fall": "fall rate",
    "disturbed_success": "success under disturbances",
    "velocity_error_mps": "velocity error, m/s",
    **BESIDE,
}


def _shown(name: str, f: Estimate | None, text: str) -> Html:
    if f is None:
        return el("span", NOT_MEASURED, class_="absent")
    return el(
        "span", text, data_figure=name, data_value=f.value, data_low=f.low, data_high=f.high, data_n=f.n
    )


def by_value(record: StudyRecord, budget: Budget) -> Html:
    def row(g: Group) -> Html:
        f, at = g.figures, f"{budget}.{g.value}"

        def cell(name: str, text: str) -> Html:
            return el("td", _shown(f"{at}.{name}", f.get(name), text), class_="num")

        def rate(name: str) -> Html:
            figure = f.get(name)
            if figure is None:
                return el("td", el("span", NOT_MEASURED, class_="absent"), class_="num")
            span = "one seed" if figure.low is None else f"{percent(figure.low)} to {percent(figure.high)}"
            value = _shown(f"{at}.{name}", figure, percent(figure.value))
            return el("td", el("b", value), el("br"), el("small", span), class_="num")

        def plain(name: str) -> str:
            return number(f[name].value) if name in f else NOT_MEASURED

        n = f.get("block_samples")
        worth = f"{plain('n_eff_return')} of {number(n.value)}" if n else NOT_MEASURED
        return el(
            "tr",
            el("th", f"{g.value:,}", scope="row"),
            cell("train_seconds", f"{f['train_seconds'].value:.2f}"),
            cell("samples", short(f["samples"].value)),
            cell("updates", short(f["updates"].value)),
            cell("steps_per_second", short(f["steps_per_second"].value)),
            cell("n_eff_return", worth),
            cell("failures", plain("failures")),
            cell("rarest_failures", plain("rarest_failures")),
            cell("failure_cells", percent(f["failure_cells"].value) if "failure_cells" in f else ""),
            cell("age_steps", f"{f['age_steps'].value:g} × {f['reuse'].value:g}"),
            cell("gradient_steps", short(f["gradient_steps"].value)),
            cell("kl", plain("kl")),
            cell("clip_fraction", percent(f["clip_fraction"].value)),
            rate("success"),
            el("td", f"{g.collapses.count} of {g.collapses.n}", class_="num"),
            rate("fall"),
            rate("disturbed_success"),
            cell("velocity_error_mps", plain("velocity_error_mps")),
        )

    head = (
        record.design.knob.unit,
        "training s",
        "samples",
        "updates",
        word("steps/s"),
        join(word("n_eff"), " of a block"),
        "failures seen",
        "of the rarest kind",
        "cells of failures",
        word("freshness", "age, steps × reuse"),
        "gradient steps",
        word("KL"),
        word("clip share"),
        word("success"),
        "collapsed",
        word("fall rate", "falls"),
        "disturbed",
        word("velocity error", "velocity error, m/s"),
    )
    return el(
        "section",
        el("h2", f"With {same(record, budget)}"),
        el(
            "p",
            "The typical training seed (median). Collapsed: seeds below half of the typical success. "
            "n_eff is that of the rollout block by return, as batch honesty saw "
            "it every tenth update. Failures seen are training episodes that did not end by time, and beside "
            "them those of the termination that ended fewest, and the share of cells, a termination in a "
            "stratum each, in which one ended: the rare events in the samples. Age is how old a sample is on "
            "average when it is learned from, reuse how often. Below rates: 95% ",
            word("over seeds"),
            ".",
            class_="lead",
        ),
        scroll(head, [row(g) for g in record.groups_of(budget)]),
        class_="card",
    )


def scroll(head: tuple[object, ...], rows: list[Html]) -> Html:
    top = el("tr", *[el("th", h, class_=None if k == 0 else "num") for k, h in enumerate(head)])
    return el("div", el("table", el("thead", top), el("tbody", *rows)), class_="scroll")


def differences(record: StudyRecord) -> Html:
    def text(s: Step, x: float | None) -> str:
        if x is None:
            return "unbounded"
        return (f"{100 * x:+.1f}" if s.figure in RATES else f"{x:+.3f}").replace("-", "−")

    def detectable(s: Step) -> str:
        if s.figure in RATES and s.detectable is not None and s.detectable > 1:
            return "none"
        return text(s, s.detectable).removeprefix("+") if s.detectable else "not known"

    rows = []
    for s in record.steps:
        at = f"{s.budget}.{s.lower}-{s.upper}.{s.figure}"
        f = Estimate(value=s.difference, low=s.low, high=s.high, n=s.seeds, n_eff=s.seeds, families=s.seeds)
        unit = " points" if s.figure in RATES else ""
        rows.append(
            el(
                "tr",
                el("th", f"{s.lower:,} to {s.upper:,}", scope="row"),
                el("td", f"same {s.budget}", class_="num"),
                el("td", NAMES[s.figure], class_="num"),
                el("td", el("b", _shown(at, f, text(s, s.difference) + unit)), class_="num"),
                el("td", f"{text(s, s.low)} to {text(s, s.high)}", class_="num"),
                el("td", detectable(s), class_="num"),
                el("td", f"{s.p:.3f}", class_="num"),
            )
        )
    head = (
        "step",
        "budget",
        "figure",
        "difference",
        "95% over seeds",
        word("minimum detectable"),
        "p",
    )
    return el(
        "section",
        el("h2", "Differences, ", word("paired by seed")),
        el(
            "p",
            f"The larger value less the smaller, median over seeds. p flips signs of seeds: with "
            f"{len(record.design.seeds)} seeds never below {2 / 2 ** len(record.design.seeds):.3g}. Each on "
            "its own here; the verdicts are corrected for their number.",
            class_="lead",
        ),
        scroll(head, rows),
        class_="card",
    )


def failures(record: StudyRecord, budgets: list[Budget]) -> Html:
    names = sorted({x for g in record.groups for x in (*g.labels, *g.disturbed_labels)})
    episodes = {
        (g.budget, g.value): sum(
            p.episodes for p in record.points if (p.budget, p.value) == (g.budget, g.value)
        )
        for g in record.groups
    }
    wide = len(record.design.columns)

    def row(g: Group, disturbed: bool) -> Html:
        n = episodes[(g.budget, g.value)] * (wide if disturbed else 1)
        counts = g.disturbed_labels if disturbed else g.labels
        at = f"{g.budget}.{g.value}.{'disturbed_label' if disturbed else 'label'}"
        cells = [
            el(
                "td",
                el(
                    "span",
                    percent(counts.get(x, 0) / n),
                    data_figure=f"{at}.{x}",
                    data_value=counts.get(x, 0),
                    data_n=n,
                ),
                class_="num",
            )
            for x in names
        ]
        where = f"same {g.budget}, {'disturbed' if disturbed else 'nominal'}"
        return el("tr", el("th", f"{g.value:,}", scope="row"), el("td", where, class_="num"), *cells)

    rows = [
        row(g, d) for b in budgets for d in ((False, True) if wide else (False,)) for g in record.groups_of(b)
    ]
    head = (record.design.knob.unit, "column", *(x.replace("_", " ") for x in names))
    empty = el("p", "No episode failed.", class_="lead")
    return el(
        "section",
        el("h2", "Failures by label"),
        el("p", "Share of all episodes of all seeds; rules: docs/reference/labels.md.", class_="lead"),
        scroll(head, rows) if names else empty,
        class_="card",
    )
