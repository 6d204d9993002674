"""Shows who did what on the panels: the tables of a lab's page that everything else explains."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.contract import NOMINAL
from surefoot.experiments.lab.record import CoComputed, Entry, LabRecord
from surefoot.experiments.lab.views import Heading, Who, headings, policies, shown
from surefoot.reporting import bar
from surefoot.reporting import shown as shown_figure
from surefoot.reporting.web import NOT_MEASURED, Html, el, join, number, percent, word
from surefoot.statistics import Estimate

NAMES = {
    "success": "success",
    "fall_rate": "falls",
    "velocity_error_mps": "velocity error, m/s",
    "yaw_error_radps": "turning error, rad/s",
    "cost_of_transport": "cost of transport",
}
SINGLE = ("falls", "velocity error, m/s")
RATES = ("success", "fall_rate")


def results(lab: LabRecord) -> Html:
    """Shows everybody on the first panel; with a second one, only what both measured."""
    p, heads = lab.panels[0], headings(lab)
    alone = len(lab.panels) == 1  # else their figures stand below, panel by panel
    both = " Of two panels, what stands below was measured on both; each has its own line." * (not alone)
    return el(
        "section",
        el("h2", "Everybody on the same held-out panel"),
        el(
            "p",
            f"Success on {p.episodes} ",
            word("held-out"),
            f" episodes in {p.families} seed families of {p.name}, one pass each, no exploration noise, with "
            f"95% intervals over families. The perturbation: {lab.design.says}.{both}",
            class_="lead",
        ),
        small_note(lab),
        table(
            ("policy", *(h.title for h in heads), *SINGLE[: 2 * alone], "failures (nominal)"),
            [_result(lab, who, heads) for who in policies(lab)],
        ),
        class_="card",
    )


def small_note(lab: LabRecord) -> Html | None:
    """Says what a quick lab does not show, before its table is read as a ranking."""
    d = lab.design
    if not d.quick:
        return None
    seeds = "one training seed" if len(d.seeds) == 1 else f"{len(d.seeds)} training seeds"
    hidden = " x ".join(str(n) for n in lab.recipe.hidden)
    text = (
        f"A quick lab shows how a lab reads, not who learns best: networks of {hidden}, {d.updates} updates "
        f"and {seeds}. The intervals are over held-out episodes; another training seed can turn the order "
        "around."
    )
    if "ppo" in d.learners and lab.recipe.mirror:
        text += (
            " Surefoot's own PPO mirrors a random half of its samples, left to right, which the libraries do "
            "not: with networks this small it learns later for that (measured in docs/guides/learners.md)."
        )
    text += " For a comparison, leave --quick out."
    return el("p", text, class_="note none", data_note="quick")


def _result(lab: LabRecord, who: Who, heads: list[Heading]) -> Html:
    e = shown(lab, who, NOMINAL, heads[0].engine)
    chips = [el("span", f"{k.replace('_', ' ')} {v}", class_="tag") for k, v in _most(e)]
    fell = percent(e.found.fall_rate) if e else NOT_MEASURED
    error = number(e.found.velocity_error_mps) if e else NOT_MEASURED
    return el(
        "tr",
        el("th", who.title, scope="row"),
        *[el("td", _cell(lab, who, h)) for h in heads],
        *([el("td", fell, class_="num"), el("td", error, class_="num")] if len(lab.panels) == 1 else []),
        el("td", *(chips or [el("span", "none", class_="muted")])),
        class_="baseline" if who.seed is None else None,
    )


def _cell(lab: LabRecord, who: Who, h: Heading) -> Html:
    if h.sparse and who.seed is None:
        return el("span", "not trained", class_="absent")
    entries = [shown(lab, who, h.column, h.engine, h.sparse, p.number) for p in lab.panels]
    if any(e is None for e in entries):
        return el("span", NOT_MEASURED, class_="absent")
    return join(
        *[_measured(e, p.families) for e, p in zip(entries, lab.panels, strict=True) if e is not None]
    )


def _measured(e: Entry, families: int) -> Html:
    f = e.found
    figure = Estimate(
        value=f.success,
        low=f.success_low,
        high=f.success_high,
        n=f.episodes,
        n_eff=f.effective_episodes,
        families=families,
    )
    named = [e.policy, *([str(e.seed)] if e.seed is not None else []), *([e.reward] if e.reward else [])]
    name = ".".join([f"panel{e.panel}", *named, e.column, f.engine, "success"])
    return el(
        "div",
        shown_figure(name, figure, percent(f.success)),
        el("small", f" {percent(f.success_low)} to {percent(f.success_high)}"),
        bar(figure),
        style="min-width:150px;padding:3px 0;white-space:nowrap",
        tabindex="0",
        data_tip=f"{f.episodes} episodes, {number(f.effective_episodes)} effective; panel {e.panel}",
    )


def _most(e: Entry | None) -> list[tuple[str, int]]:
    return sorted(e.found.labels.items(), key=lambda x: (-x[1], x[0]))[:4] if e else []


def second_panel(lab: LabRecord) -> Html | None:
    if len(lab.panels) < 2:
        return None
    p = lab.panels[1]
    assert p.apart_from_first is not None
    by_place: dict[tuple[str, str], dict[str, CoComputed]] = {}
    for c in lab.co_computed:
        seed = f", seed {c.seed}" if c.seed is not None and len(lab.design.seeds) > 1 else ""
        sparse = ", sparse" if c.reward == "sparse" else ""
        place = (f"{c.policy}{seed}{sparse}", f"{c.column.replace('_', ' ')}, {c.engine}")
        by_place.setdefault(place, {})[c.metric] = c
    rows = [
        el("tr", el("th", who, scope="row"), el("td", where), *[_both(of.get(m), m) for m in NAMES])
        for (who, where), of in by_place.items()
    ]
    return el(
        "section",
        el("h2", "A second panel"),
        el(
            "p",
            f"{p.name}: {p.episodes} episodes of other seeds (root {p.seeds.root}). "
            f"{p.apart_from_first.reason} Only metrics that both panels measured, first | second; no "
            "difference is taken across panels, whose construct ids differ.",
            class_="lead",
        ),
        table(("policy", "column", *NAMES.values()), rows),
        class_="card",
    )


def _both(c: CoComputed | None, metric: str) -> Html:
    if c is None:
        return el("td", el("span", "not both", class_="absent"), class_="num")
    text = percent if metric in RATES else number
    name = ".".join(x for x in (c.policy, str(c.seed or ""), c.reward or "", c.column, c.engine, metric) if x)
    return el(
        "td",
        el("span", text(c.first), data_figure=f"first.{name}", data_value=c.first),
        " | ",
        el("span", text(c.second), data_figure=f"second.{name}", data_value=c.second),
        class_="num",
        tabindex="0",
        data_tip=_ends(c, text),
    )


def _ends(c: CoComputed, text: Callable[[float], str]) -> str | None:
    if c.first_interval is None or c.second_interval is None:
        return None
    (a, b), (x, y) = c.first_interval, c.second_interval
    return f"95% intervals: {text(a)} to {text(b)} | {text(x)} to {text(y)}"


def table(head: tuple[str, ...], rows: list[Html]) -> Html:
    return el(
        "div",
        el("table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows)),
        class_="scroll",
    )
