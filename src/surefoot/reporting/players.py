"""The replay on the page: a success beside the verdict, and the kept episodes with their curves."""

from __future__ import annotations

import json
import re

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.traces import Replay, Replays
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, percent, script_json

SPEEDS = ("0.1", "0.25", "0.5", "1", "2")
PLOTS = (
    ("vx", "forward speed, m/s"),
    ("vy", "sideways speed, m/s (left is positive)"),
    ("wz", "turning rate, rad/s (left is positive)"),
    ("tilt", "tilt of the trunk, degrees"),
    ("torque", "largest torque, share of its limit"),
)
NO_SCRIPT = "The replay needs scripts, which this browser has switched off."


def plain(name: str) -> str:
    """Writes a name of an artifact as words."""
    return name.replace("_", " ")


# ---- anchors


def episode_anchor(replay: Replay, index: int = 0) -> str:
    """Returns the anchor of a kept episode of run `index` on the page, e.g. episode-nominal-00012: the column
    and the scenario. A page opened at it shows that episode."""
    run = f"{index + 1}-" if index else ""
    return f"episode-{run}{re.sub('[^A-Za-z0-9_.-]', '-', replay.stem)}"


def episode_link(replays: Replays, index: int, label: str, column: str = "nominal") -> Html | None:
    """Writes the label as a link to the first kept episode that has it; None where none was kept."""
    for e in replays.episodes:
        if e.label == label and e.column == column:
            return el("a", plain(label), href=f"#{episode_anchor(e, index)}", title="see such an episode")
    return None


# ---- beside the verdict


def hero(run: RunFigures, replays: Replays, index: int) -> Html | None:
    """Shows the robot: a success of the trained policy where it has one, and a slider over the evaluations of
    training. None where nothing was kept."""
    stops = [
        {
            "episode": len(replays.episodes) + k,
            "name": f"update {s.update}",
            "rate": percent(s.success),
            "says": f"After update {s.update}{', the chosen one' if s.chosen else ''}: "
            f"{percent(s.success)} of {s.episodes} episodes of the selection half succeeded. "
            f"In this one it {_ended(s.replay)}.",
        }
        for k, s in enumerate(replays.learning)
    ]
    best = _showpiece(replays.episodes)
    if best is not None:
        s = run.panel.nominal.success if run.panel else None
        rate = percent(s.value) if s else NOT_MEASURED
        says = _about_showpiece(replays.episodes[best], s.n if s else 0)
        stops.append({"episode": best, "name": "the result", "rate": rate, "says": says})
    if not stops:
        return None
    last = len(stops) - 1
    learning = el(
        "div",
        el(
            "label",
            el("b", "Watch it learn"),
            el(
                "input",
                type="range",
                class_="stop",
                min="0",
                max=last,
                value=last,
            ),
            el("output", stops[last]["name"]),
        ),
        el(
            "ol",
            *[el("li", s["rate"], data_tip=f"{s['name']}: {s['rate']} succeeded") for s in stops],
            aria_hidden="true",
        ),
        class_="learn",
    )
    return el(
        "section",
        _stage(),
        _controls(),
        learning if replays.learning else None,
        el("p", stops[last]["says"], class_="caption", aria_live="polite"),
        class_="replay hero card",
        aria_label="The robot",
        data_of=f"replay-data-{index}",
        data_stops=json.dumps(stops),
    )


def _showpiece(episodes: tuple[Replay, ...]) -> int | None:
    """Returns the episode to open with: an undisturbed success that walks ahead, the faster the better; the
    longest episode where there is none."""
    own = [k for k, e in enumerate(episodes) if e.nominal] or list(range(len(episodes)))
    return max(own, key=lambda k: _worth(episodes[k]), default=None)


def _worth(e: Replay) -> tuple[float, ...]:
    seconds = e.data["frames"] / e.data["hz"]
    return (1.0, e.ahead_mps, seconds) if e.success else (0.0, seconds, e.ahead_mps)


def _about_showpiece(e: Replay, episodes: int) -> str:
    of = f"the {episodes} held-out episodes" if episodes else "the held-out episodes"
    if e.success and e.nominal:
        return f"A success among {of}: {e.caption}."
    return f"No undisturbed success was kept. The best episode that was: {e.caption}."


def _ended(e: Replay) -> str:
    seconds = e.data["frames"] / e.data["hz"]
    if e.success:
        return "succeeds"
    return f"lasts {seconds:.1f} s and fails{f' ({plain(e.label)})' if e.label else ''}"


# ---- all kept episodes


def viewer(replays: Replays, index: int) -> Html:
    """Shows the kept episodes as cards, and the player with its curves."""
    data = None
    if replays.robot is not None:
        data = el("script", script_json(replays.data), type="application/json", id=f"replay-data-{index}")
    if not replays.episodes:
        absent = el("span", f"{NOT_MEASURED}. {replays.why_none}", class_="absent")
        return join(el("p", el("b", "Replay: "), absent), data)
    plots = [
        el("figure", el("figcaption", name), el("canvas", class_="plot", data_plot=key))
        for key, name in PLOTS
    ]
    return join(
        data,
        el(
            "div",
            el("div", _filters(replays), _cards(replays, index), class_="list"),
            el(
                "div",
                _stage(),
                _controls(),
                el("p", class_="caption"),
                el("div", *plots, class_="plots"),
                class_="player",
            ),
            class_="replay all",
            id=f"replay-{index}",
            data_of=f"replay-data-{index}",
        ),
    )


def _filters(replays: Replays) -> Html:
    good = sum(bool(e.success) for e in replays.episodes)
    every = len(replays.episodes)
    counts = (("all", "All", every), ("bad", "Failures", every - good), ("good", "Successes", good))
    buttons = [
        el("button", f"{name} {n}", type="button", data_show=key, aria_pressed=str(key == "all").lower())
        for key, name, n in counts
        if n
    ]
    return el("div", *buttons, class_="filters", role="group", aria_label="Which episodes to list")


def _cards(replays: Replays, index: int) -> Html:
    anchors = [episode_anchor(e, index) for e in replays.episodes]
    # Where a page shows several runs' episodes together two may be called alike; the first has the address.
    own = [a if a not in anchors[:k] else None for k, a in enumerate(anchors)]
    cards = [_card(e, k, own[k]) for k, e in enumerate(replays.episodes)]
    return el("div", *cards, class_="cards", role="group", aria_label="Kept episodes")


def _card(e: Replay, k: int, anchor: str | None) -> Html:
    grade = "none" if e.success is None else "good" if e.success else "bad"
    what = plain(e.label) or ("success" if e.success else "failure" if e.success is False else "episode")
    return el(
        "button",
        el("b", what),
        el("span", plain(e.column)),
        el("small", f"{e.identity}: {e.caption}" if e.identity else e.caption),
        type="button",
        class_=f"episode {grade}",
        id=anchor,
        data_episode=k,
        data_caption=e.caption,
        aria_pressed="false",
    )


def _stage() -> Html:
    key = [
        join(el("i", class_=name), f" {says} ")
        for name, says in (("front", "front"), ("commanded", "commanded"), ("achieved", "actual"))
    ]
    return el(
        "div",
        el(
            "canvas",
            class_="view",
            tabindex="0",
            role="img",
            aria_label="Robot in 3D: drag to turn, space plays, arrow keys step",
        ),
        el("p", el("noscript", NO_SCRIPT), class_="hint"),
        el("p", *key, el("i", class_="pushed"), " push", class_="key"),
        class_="stage",
    )


def _controls() -> Html:
    speeds = [el("option", f"×{s}", value=s, selected=s == "1") for s in SPEEDS]
    slider = el(
        "input", type="range", class_="scrub", min="0", max="1", value="0", aria_label="Time in the episode"
    )
    return join(
        el(
            "div",
            el("button", "▶", type="button", class_="play", aria_label="Play or pause"),
            el("div", slider, el("div", class_="marks"), class_="track"),
            el("output", "0.0 s", class_="clock"),
            el("button", "⟳", type="button", class_="loop", aria_label="Loop", aria_pressed="true"),
            el("select", *speeds, class_="speed", aria_label="Speed"),
            class_="controls",
        ),
        el(
            "p",
            el("kbd", "space"),
            " plays ",
            el("kbd", "←"),
            el("kbd", "→"),
            " a frame ",
            el("kbd", "L"),
            " loops, drag turns",
            class_="keys",
        ),
    )
