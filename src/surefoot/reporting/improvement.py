"""What improved by stratum while the run learned: the first evaluation beside the last."""

from __future__ import annotations

from surefoot.evidence import Improvement
from surefoot.reporting.overview import shown
from surefoot.reporting.web.html import Html, el, join, percent
from surefoot.reporting.web.words import word
from surefoot.statistics import Difference


def improved(found: Improvement | None) -> Html | None:
    """Tabulates success of every stratum at the first and the last evaluation on the selection half."""
    if found is None:
        return None
    rows = [
        el(
            "tr",
            el("th", c.stratum, scope="row"),
            el("td", percent(c.difference.a), class_="num"),
            el("td", percent(c.difference.b), class_="num"),
            el("td", shown(f"improved.{c.stratum}", c.difference.value, _points(c.difference)), class_="num"),
            el("td", str(c.difference.n), class_="num"),
        )
        for c in found.strata
    ]
    heads = ("stratum", f"update {found.first}", f"update {found.last}", "change, points [95%]", word("n"))
    head = el("tr", *[el("th", h) for h in heads])
    title = join("What improved from the first evaluation to the last (", word("selection half"), ")")
    table = el("div", el("table", el("thead", head), el("tbody", *rows)), class_="scroll")
    return el("details", el("summary", title), table)


def _points(d: Difference) -> str:
    return f"{100 * d.value:+.1f} [{100 * d.low:+.0f}, {100 * d.high:+.0f}]".replace("-", "−")
