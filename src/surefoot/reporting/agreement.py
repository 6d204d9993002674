"""A second simulator beside the one that results are stated on: scenario by scenario, class by class."""

from __future__ import annotations

from surefoot.contract import simulator
from surefoot.reporting.overview import shown
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent
from surefoot.reporting.web.words import word
from surefoot.statistics import Agreement, PanelSummary


def agreement(summary: PanelSummary) -> Html:
    """Says how far other simulators agree with the one that results are stated on."""
    engines = summary.agreement
    if not engines:
        return el(
            "p", word("sim-to-sim", "Second simulator"), ": ", el("span", NOT_MEASURED, class_="absent")
        )
    says = [
        join(
            f"{simulator(a.engine, summary.on_terrain)}: same outcome in ",
            shown(f"agreement.{a.engine}.success", a.success_agreement, percent(a.success_agreement)),
            f" of {a.n} scenarios, rank correlation of errors ",
            shown(f"agreement.{a.engine}.rank", a.rank_correlation, number(a.rank_correlation)),
        )
        for a in engines
    ]
    named = word("sim-to-sim", "Second simulator (sim-to-sim, no real robot)")
    stated = f" Against {simulator(engines[0].reference, True)}." if summary.on_terrain else ""
    text = el("p", named, ": ", *[join("; " if k else "", s) for k, s in enumerate(says)], ".", stated)
    return join(text, *[_by_class(a, set(summary.terrain) - set(a.terrain)) for a in engines if a.terrain])


def _by_class(a: Agreement, absent: set[str]) -> Html:
    """Shows two simulators side by side, terrain class by terrain class."""
    at = f"agreement.{a.engine}"
    rows = [
        el(
            "tr",
            el("th", cls.replace("_", " "), scope="row"),
            el("td", shown(f"{at}.{cls}.there", x.success, percent(x.success)), class_="num"),
            el(
                "td",
                shown(f"{at}.{cls}.here", x.reference_success, percent(x.reference_success)),
                class_="num",
            ),
            el(
                "td",
                shown(f"{at}.{cls}.success", x.success_agreement, percent(x.success_agreement)),
                class_="num",
            ),
            el("td", shown(f"{at}.{cls}.rank", x.rank_correlation, number(x.rank_correlation)), class_="num"),
            el("td", str(x.n), class_="num"),
        )
        for cls, x in a.terrain.items()
    ]
    head = (
        "terrain class",
        f"success, {a.engine}",
        f"success, {a.reference}",
        "same outcome",
        "rank",
        word("n"),
    )
    left_out = f" Not in it, for want of an exact form: {', '.join(sorted(absent))}." if absent else ""
    return el(
        "div",
        el("h3", f"{simulator(a.engine, True)}, by terrain class"),
        el(
            "table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows), class_="columns"
        ),
        el("p", left_out) if absent else None,
        class_="scroll",
    )
