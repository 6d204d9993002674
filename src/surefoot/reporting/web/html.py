"""HTML written by hand and escaped by construction: text is escaped unless it is already `Html`."""

from __future__ import annotations

import html
import json
import math
from typing import Any

from surefoot.statistics import percent as plain_percent

NOT_MEASURED = "not measured"
_VOID = {"br", "hr", "img", "input", "meta"}


class Html(str):
    """Markup that may go into the page as it is."""

    __slots__ = ()


def esc(value: object) -> Html:
    return value if isinstance(value, Html) else Html(html.escape(str(value), quote=True))


def join(*parts: object) -> Html:
    """Joins the parts one after the other; None is nothing."""
    return Html("".join(esc(p) for p in parts if p is not None))


def el(name: str, /, *children: object, **attributes: object) -> Html:
    """Returns an element. Attribute names: a trailing underscore is dropped, others become dashes; None
    and False leave the attribute out."""
    text = "".join(
        f" {k.rstrip('_').replace('_', '-')}" + ("" if v is True else f'="{esc(v)}"')
        for k, v in attributes.items()
        if v is not None and v is not False
    )
    return Html(f"<{name}{text}>" + ("" if name in _VOID else f"{join(*children)}</{name}>"))


def script_json(value: Any) -> Html:
    """Writes JSON that can stand inside a <script> element whatever strings it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# ---- numbers


def known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def number(value: float | None, digits: int = 3) -> str:
    """Writes a figure for people: significant digits, thousands separated, no exponent for ordinary sizes."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e15 and value == int(value):  # a count has no decimals
        return f"{int(value):,}".replace("-", "−")
    if size >= 1e15 or size < 1e-4:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.replace("-", "−")


def percent(value: float | None) -> str:
    """Writes a share as pages show it: 0% and 100% are exactly that, what would be rounded to them says on
    which side it lies; with a true minus."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    if value in (0, 1):
        return f"{value:.0%}"
    if 0 < value < 0.0005 or 0.9995 <= value < 1:
        return "<0.1%" if value < 0.5 else ">99.9%"
    return plain_percent(value).replace("-", "−")


def short(value: float) -> str:
    """Writes an axis label: as few digits as say it."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return NOT_MEASURED
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
