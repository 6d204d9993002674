"""The building blocks of pages: HTML, charts, words, poses."""

from __future__ import annotations

from surefoot.reporting.web.charts import Axes, Line, legend, line_chart, rate_axis, spread
from surefoot.reporting.web.html import NOT_MEASURED, Html, duration, el, join, number, percent, short
from surefoot.reporting.web.words import word

__all__ = [
    "NOT_MEASURED",
    "Axes",
    "Html",
    "Line",
    "duration",
    "el",
    "join",
    "legend",
    "line_chart",
    "number",
    "percent",
    "rate_axis",
    "short",
    "spread",
    "word",
]
