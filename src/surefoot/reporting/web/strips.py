"""A strip chart: one line per quantity, each on its own scale, with what was measured on it as dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.reporting.web.html import Html, el, short

NARROW = 500
"""Below this width a strip's title stands above it rather than beside it."""
APART = 40.0
"""Pixels between the middles of two labels that do not touch."""


@dataclass(frozen=True)
class Dot:
    x: float
    label: str
    grade: str
    """A class of the style sheet that gives its colour: good, bad, none."""
    tip: str


@dataclass(frozen=True)
class Strip:
    title: str
    dots: tuple[Dot, ...]
    trained: tuple[float, float] | None
    """The range that training drew from; None: it did not draw it."""


def strip_chart(strips: Sequence[Strip], width: int, label: str) -> Html:
    narrow = width < NARROW
    left, top, height = (14, 26, 72) if narrow else (210, 8, 52)
    rows = [_row(s, (left, width - 26), top + height * k, narrow) for k, s in enumerate(strips)]
    tall = top + height * len(strips)
    return el(
        "svg", *rows, class_="chart strips", viewBox=f"0 0 {width} {tall}", role="img", aria_label=label
    )


def _row(s: Strip, ends: tuple[float, float], y: float, narrow: bool) -> Html:
    edges: list[float] = [*(d.x for d in s.dots), *(s.trained or ())]
    low, high = min(edges), max(edges)
    air: float = 0.06 * (high - low) or abs(high) * 0.5 or 0.5
    low, high = low - air, high + air
    axis = y + 22

    def px(x: float) -> float:
        return ends[0] + (ends[1] - ends[0]) * (x - low) / (high - low)

    note = f"trained on {_range(s.trained)}" if s.trained else "not varied in training"
    at = (0, y - 8) if narrow else (0, axis - 3)
    title = el("text", el("tspan", s.title, class_="name"), x=at[0], y=at[1])
    beside = (
        el("text", note, x=ends[1], y=at[1], text_anchor="end")
        if narrow
        else el("text", note, x=0, y=axis + 13)
    )
    line = el("line", class_="grid", x1=ends[0], x2=ends[1], y1=axis, y2=axis)
    band = None
    if s.trained:
        a, b = px(s.trained[0]), px(s.trained[1])
        wide = max(b - a, 4.0)
        band = el("rect", class_="trained", x=f"{a:.1f}", y=axis - 5, width=f"{wide:.1f}", height=10, rx=3)
    ticks = _ticks([(px(d.x), short(d.x)) for d in s.dots], [(px(x), short(x)) for x in s.trained or ()])
    below = [el("text", t, class_=f"tick x {c}", x=f"{x:.1f}", y=axis + 19) for x, t, c in ticks]
    dots, last = [], float("-inf")
    for d in s.dots:
        x = px(d.x)
        said = el("text", d.label, class_="x said", x=f"{x:.1f}", y=axis - 10) if x - last >= APART else None
        last = x if said is not None else last
        ring = el("circle", class_="dot", cx=f"{x:.1f}", cy=axis, r=6)
        near = el("circle", cx=f"{x:.1f}", cy=axis, r=18, fill="transparent")  # for fingers
        dots.append(el("g", near, said, ring, class_=f"at {d.grade}", data_tip=d.tip, tabindex="0"))
    return el("g", title, beside, line, band, *below, *dots)


def _ticks(
    measured: Sequence[tuple[float, str]], trained: Sequence[tuple[float, str]]
) -> list[tuple[float, str, str]]:
    """Returns place, text and class of the labels below a line: what was measured first, then the ends of
    the training range where there is room."""
    kept: list[tuple[float, str, str]] = []
    for places, cls in ((measured, "measured"), (trained, "range")):
        for x, text in places:
            if all(abs(x - other) >= 0.8 * APART for other, _, _ in kept):
                kept.append((x, text, cls))
    return kept


def _range(pair: tuple[float, float]) -> str:
    low, high = (short(x) for x in pair)
    return low if low == high else f"{low} to {high}"
