"""Failures: how many of which kind, and the kept episodes in 3D."""

from __future__ import annotations

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.groups import LabelCount, label_counts, reason_counts
from surefoot.reporting.overview import bar, shown
from surefoot.reporting.traces import Replay, Replays
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent, script_json


def failures(run: RunFigures, replays: Replays, index: int) -> Html:
    return el(
        "section",
        el("h2", "Failures and replay"),
        _counts(run),
        _elsewhere(run),
        viewer(replays, index),
        class_="card",
    )


def _counts(run: RunFigures) -> Html:
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
    return join(el("p", note, class_="lead"), el("div", *[_count(c) for c in counts], class_="forest labels"))


def _elsewhere(run: RunFigures) -> Html | None:
    """Lists failures of the perturbed columns, most first: what breaks when something is made harder."""
    failing = [c for c in run.panel.perturbed if c.labels] if run.panel else []
    if not failing:
        return None
    rows = []
    for c in sorted(failing, key=lambda c: c.success.value):
        most = sorted(c.labels.items(), key=lambda kv: (-kv[1], kv[0]))
        chips = [el("span", f"{plain(k)} {v}", class_="tag") for k, v in most]
        rows.append(el("tr", el("th", plain(c.name), scope="row"), el("td", c.engine), el("td", *chips)))
    head = el("thead", el("tr", el("th", "column"), el("th", "engine"), el("th", "failures by label")))
    return el(
        "details",
        el(
            "summary", f"Failures under perturbation: {sum(sum(c.labels.values()) for c in failing)} episodes"
        ),
        el("div", el("table", head, el("tbody", *rows)), class_="scroll"),
    )


def plain(name: str) -> str:
    """Writes a name of an artifact as words."""
    return name.replace("_", " ")


def _count(c: LabelCount) -> Html:
    return el(
        "div",
        el("span", plain(c.label), el("small", f" {c.cause}") if c.cause else None, class_="what"),
        bar(c.share, "low"),
        el("span", shown(f"label.{c.label}", c.share, percent(c.share.value)), class_="num"),
        el("span", str(c.count), class_="count"),
        class_="row",
        tabindex="0",
        data_tip=f"{c.label}: {c.count} episodes, {percent(c.share.value)} ({percent(c.share.low)} to "
        f"{percent(c.share.high)})",
    )


def viewer(replays: Replays, index: int) -> Html:
    """Shows the kept episodes as cards, and the player."""
    if not replays.episodes:
        return el(
            "p", el("b", "Replay: "), el("span", f"{NOT_MEASURED}. {replays.why_none}", class_="absent")
        )
    cards = [_card(e, k) for k, e in enumerate(replays.episodes)]
    assert replays.robot is not None
    data = {"robot": replays.robot, "episodes": [e.data for e in replays.episodes]}
    controls = el(
        "div",
        el("button", "▶", type="button", class_="play", aria_label="Play or pause"),
        el(
            "input",
            type="range",
            class_="scrub",
            min="0",
            max="1000",
            value="0",
            aria_label="Time in the episode",
        ),
        el("output", "0.0 s", class_="clock"),
        el(
            "select",
            *[el("option", f"×{s}", value=s, selected=s == "1") for s in ("0.1", "0.25", "0.5", "1", "2")],
            class_="speed",
            aria_label="Speed",
        ),
        class_="controls",
    )
    return el(
        "div",
        el("div", *cards, class_="cards", role="group", aria_label="Kept episodes"),
        el(
            "div",
            el(
                "div",
                el(
                    "canvas",
                    class_="view",
                    tabindex="0",
                    aria_label="Robot in 3D: drag to turn, wheel or pinch to zoom",
                ),
                el("p", class_="hint"),
                el(
                    "p",
                    el("i", class_="commanded"),
                    " commanded ",
                    el("i", class_="achieved"),
                    " actual",
                    class_="key",
                ),
                class_="stage",
            ),
            controls,
            el("p", class_="caption"),
            el(
                "div",
                *[
                    el("figure", el("figcaption", name), el("canvas", class_="plot", data_plot=key))
                    for key, name in (
                        ("vx", "forward speed, m/s"),
                        ("wz", "turning rate, rad/s"),
                        ("tilt", "tilt of the trunk, degrees"),
                        ("torque", "largest torque, share of its limit"),
                    )
                ],
                class_="plots",
            ),
            class_="player",
        ),
        el("script", script_json(data), type="application/json", class_="replay-data"),
        class_="replay",
        id=f"replay-{index}",
    )


def _card(e: Replay, k: int) -> Html:
    grade = "none" if e.success is None else "good" if e.success else "bad"
    what = plain(e.label) or ("success" if e.success else "failure" if e.success is False else "episode")
    return el(
        "button",
        el("b", what),
        el("span", plain(e.column)),
        el("small", e.caption),
        type="button",
        class_=f"episode {grade}",
        data_episode=k,
        data_caption=e.caption,
        aria_pressed="false",
    )
