"""Charts as plain SVG: colours by CSS variable, so that they follow the page into the dark; hover read by
page.js.

A chart that must hold text at a fixed size is drawn for three widths of the page (`at_widths`); the style
sheet shows one of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from surefoot.reporting.web.html import Html, el, join, short

WIDTHS = {"wide": 1040, "middle": 680, "narrow": 350}


@dataclass(frozen=True)
class Line:
    name: str
    x: np.ndarray
    y: np.ndarray
    colour: str
    """A CSS variable, e.g. --c1."""
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dots: bool = False


@dataclass(frozen=True)
class Axes:
    """The frame of a chart and its two scales."""

    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    y_format: Callable[[float], str] = short
    x_format: Callable[[float], str] = short
    x_label: str = ""
    left: int = 52
    right: int = 14
    top: int = 10
    bottom: int = 36
    shade: tuple[float, float] | None = None
    """A range of x that is shaded."""
    marks: tuple[tuple[float, str], ...] = field(default=())
    """Vertical lines with a word."""
    x_ticks: tuple[float, ...] | None = None

    def px(self, x: float) -> float:
        low, high = self.x_range
        inside = self.width - self.left - self.right
        return self.left + inside * ((x - low) / (high - low) if high > low else 0.5)

    def py(self, y: float) -> float:
        low, high = self.y_range
        inside = self.height - self.top - self.bottom
        return self.top + inside * (1 - ((y - low) / (high - low) if high > low else 0.5))

    def frame(self) -> Html:
        bottom = self.height - self.bottom
        parts = []
        if self.shade is not None:
            a, b = (min(max(v, self.x_range[0]), self.x_range[1]) for v in self.shade)
            if b >= a:
                left, wide = self.px(a), max(self.px(b) - self.px(a), 2.0)
                parts.append(_rect(left, self.top, wide, bottom - self.top, "shade"))
        for y in ticks(*self.y_range, max(2, (bottom - self.top) // 42)):
            at = self.py(y)
            parts += [
                el("line", class_="grid", x1=self.left, x2=self.width - self.right, y1=_n(at), y2=_n(at)),
                el("text", self.y_format(y), class_="tick y", x=self.left - 7, y=_n(at + 4)),
            ]
        xs = self.x_ticks if self.x_ticks is not None else ticks(*self.x_range, max(4, self.width // 110))
        for x in xs:
            parts.append(el("text", self.x_format(x), class_="tick x", x=_n(self.px(x)), y=bottom + 16))
        if self.x_label:
            middle = (self.left + self.width - self.right) / 2
            parts.append(el("text", self.x_label, class_="axis", x=_n(middle), y=self.height - 4))
        for x, word in self.marks:
            at = self.px(x)
            side = "end" if at > self.width * 0.6 else "start"
            shift = -5 if side == "end" else 5
            parts += [
                el("line", class_="mark", x1=_n(at), x2=_n(at), y1=self.top, y2=bottom),
                el("text", word, class_="marked", text_anchor=side, x=_n(at + shift), y=bottom - 7),
            ]
        return join(*parts)


def at_widths(draw: Callable[[int], Html]) -> Html:
    """Draws the chart for a laptop, a tablet and a phone."""
    return join(*[el("div", draw(width), class_=f"only-{name}") for name, width in WIDTHS.items()])


def line_chart(
    axes: Axes, lines: Sequence[Line], label: str, y_text: Callable[[float], str] | None = None
) -> Html:
    parts = [axes.frame()]
    text = y_text or axes.y_format
    for line in lines:
        points = [(axes.px(a), axes.py(b)) for a, b in zip(line.x, line.y, strict=True)]
        colour = f"var({line.colour})"
        if line.low is not None and line.high is not None and len(points) > 1:
            upper = [(axes.px(a), axes.py(b)) for a, b in zip(line.x, line.high, strict=True)]
            lower = [(axes.px(a), axes.py(b)) for a, b in zip(line.x, line.low, strict=True)]
            parts.append(el("path", class_="band", d=_path(upper + lower[::-1]) + "Z", fill=colour))
        parts.append(el("path", class_="line", d=_path(points), stroke=colour))
        if line.dots:
            for i, (a, b) in enumerate(points):
                if line.low is not None and line.high is not None:
                    y1, y2 = axes.py(line.low[i]), axes.py(line.high[i])
                    parts.append(
                        el("line", class_="whisker", x1=_n(a), x2=_n(a), y1=_n(y1), y2=_n(y2), stroke=colour)
                    )
                parts.append(el("circle", class_="dot", cx=_n(a), cy=_n(b), r=3.6, fill=colour))
    return _svg(axes, join(*parts), label, _line_tips(axes, lines, text))


def _line_tips(axes: Axes, lines: Sequence[Line], text: Callable[[float], str]) -> list[list[object]]:
    """Returns [pixel, lines of text] at every x of any line."""
    at: dict[float, list[str]] = {}
    for line in lines:
        for i, x in enumerate(line.x.tolist()):
            says = f"{line.name} {text(float(line.y[i]))}"
            if line.low is not None and line.high is not None:
                says += f" ({text(float(line.low[i]))} to {text(float(line.high[i]))})"
            at.setdefault(x, [f"{axes.x_label.split(' (')[0]} {axes.x_format(x)}"]).append(says)
    return [[round(axes.px(x), 1), *at[x]] for x in sorted(at)]


def stacked_chart(
    axes: Axes,
    x: np.ndarray,
    table: np.ndarray,
    names: Sequence[str],
    colours: Sequence[str],
    label: str,
    text: Callable[[float], str],
) -> Html:
    """Areas on top of each other, positive ones upwards from 0 and negative ones downwards."""
    parts = [axes.frame()]
    pixels = [axes.px(v) for v in x]
    above, below = np.zeros(len(x)), np.zeros(len(x))
    for k in range(len(names)):
        y = table[:, k]
        for base, part in ((above, np.maximum(y, 0)), (below, np.minimum(y, 0))):
            if not part.any():
                continue
            top = base + part
            upper = [(a, axes.py(b)) for a, b in zip(pixels, top, strict=True)]
            lower = [(a, axes.py(b)) for a, b in zip(pixels, base, strict=True)]
            parts.append(
                el("path", class_="area", d=_path(upper + lower[::-1]) + "Z", fill=f"var({colours[k]})")
            )
            base += part
    if axes.y_range[0] < 0:
        zero = _n(axes.py(0))
        parts.append(el("line", class_="zero", x1=axes.left, x2=axes.width - axes.right, y1=zero, y2=zero))
    tips: list[list[object]] = [
        [round(p, 1), f"{axes.x_label.split(' (')[0]} {axes.x_format(v)}"]
        + [f"{n} {text(float(t))}" for n, t in zip(names, row, strict=True)]
        for p, v, row in zip(pixels, x.tolist(), table, strict=True)
    ]
    return _svg(axes, join(*parts), label, tips)


def legend(names: Sequence[str], colours: Sequence[str]) -> Html:
    items = [
        el("span", el("i", style=f"background:var({c})"), n) for n, c in zip(names, colours, strict=True)
    ]
    return el("div", *items, class_="legend")


def sparkline(y: np.ndarray, colour: str = "--c1", width: int = 120, height: int = 28) -> Html:
    if len(y) < 2:
        return Html("")
    low, high = float(y.min()), float(y.max())
    span = high - low or 1.0
    points = [
        (2 + (width - 4) * i / (len(y) - 1), height - 3 - (height - 6) * (v - low) / span)
        for i, v in enumerate(y)
    ]
    path = el("path", class_="line", d=_path(points), stroke=f"var({colour})")
    return el("svg", path, class_="spark", viewBox=f"0 0 {width} {height}", aria_hidden="true")


def ticks(low: float, high: float, count: int) -> list[float]:
    """Returns round numbers between low and high, about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def spread(*values: np.ndarray, zero: bool = False) -> tuple[float, float]:
    """Returns a range that holds all values with a little air."""
    flat = np.concatenate([v[np.isfinite(v)] for v in values]) if values else np.zeros(0)
    if not len(flat):
        return 0.0, 1.0
    low, high = float(flat.min()), float(flat.max())
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    air = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    return (low if zero and low == 0 else low - air), (high if zero and high == 0 else high + air)


rate_axis = partial(Axes, y_range=(0.0, 1.0), y_format=lambda v: f"{v:.0%}")
"""Axes of a rate from 0 to 100%."""


def _svg(axes: Axes, inside: Html, label: str, tips: list[list[object]]) -> Html:
    cursor = el("line", class_="cursor", x1=0, x2=0, y1=axes.top, y2=axes.height - axes.bottom)
    return el(
        "svg",
        inside,
        cursor,
        class_="chart",
        viewBox=f"0 0 {axes.width} {axes.height}",
        role="img",
        aria_label=label,
        data_tips=json.dumps(tips, ensure_ascii=False, separators=(",", ":")),
    )


def _rect(x: float, y: float, w: float, h: float, cls: str) -> Html:
    return el("rect", class_=cls, x=_n(x), y=_n(y), width=_n(w), height=_n(h))


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
