"""Failures: how many of which kind, each with a link to an episode of it."""

from __future__ import annotations

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.groups import LabelCount, label_counts, reason_counts
from surefoot.reporting.overview import bar, shown
from surefoot.reporting.players import episode_link, plain, viewer
from surefoot.reporting.traces import Replays
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent


def failures(run: RunFigures, replays: Replays, index: int) -> Html:
    return el(
        "section",
        el("h2", "Failures and replay"),
        _counts(run, replays, index),
        _elsewhere(run, replays, index),
        viewer(replays, index),
        class_="card",
    )


def _counts(run: RunFigures, replays: Replays, index: int) -> Html:
    panel = run.panel
    if panel is None:
        return el("p", NOT_MEASURED, class_="absent")
    labelled = label_counts(panel)
    counts = reason_counts(panel) if labelled is None else labelled
    s = panel.nominal.success
    if not counts:
        high = 1 - s.low if s.low is not None else None
        return el(
            "p",
            f"No failure among {s.n} nominal episodes ({number(s.n_eff)} effective). That does not mean "
            f"none can "
            f"happen: with 95% confidence fewer than {percent(high)} of such episodes fail.",
            class_="lead",
        )
    note = (
        "Labels: not measured; failures are counted by how the episode ended."
        if labelled is None
        else "Failures of the nominal column by label, as a share of all its episodes, with 95% intervals."
    )
    return join(
        el("p", note, class_="lead"),
        el("div", *[_count(c, replays, index) for c in counts], class_="forest labels"),
    )


def _elsewhere(run: RunFigures, replays: Replays, index: int) -> Html | None:
    """Lists failures of the perturbed columns, most first: what breaks when something is made harder."""
    failing = [c for c in run.panel.perturbed if c.labels] if run.panel else []
    if not failing:
        return None
    rows = []
    for c in sorted(failing, key=lambda c: c.success.value):
        most = sorted(c.labels.items(), key=lambda kv: (-kv[1], kv[0]))
        chips = [
            el("span", episode_link(replays, index, k, c.name) or plain(k), f" {v}", class_="tag")
            for k, v in most
        ]
        rows.append(el("tr", el("th", plain(c.name), scope="row"), el("td", c.engine), el("td", *chips)))
    head = el("thead", el("tr", el("th", "column"), el("th", "engine"), el("th", "failures by label")))
    return el(
        "details",
        el(
            "summary", f"Failures under perturbation: {sum(sum(c.labels.values()) for c in failing)} episodes"
        ),
        el("div", el("table", head, el("tbody", *rows)), class_="scroll"),
    )


def _count(c: LabelCount, replays: Replays, index: int) -> Html:
    return el(
        "div",
        el(
            "span",
            episode_link(replays, index, c.label) or plain(c.label),
            el("small", f" {c.cause}") if c.cause else None,
            class_="what",
        ),
        bar(c.share, "low"),
        el("span", shown(f"label.{c.label}", c.share, percent(c.share.value)), class_="num"),
        el("span", str(c.count), class_="count"),
        class_="row",
        tabindex="0",
        data_tip=f"{c.label}: {c.count} episodes, {percent(c.share.value)} ({percent(c.share.low)} to "
        f"{percent(c.share.high)})",
    )
