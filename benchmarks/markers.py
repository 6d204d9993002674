"""Numbers with units in prose: each names the JSON and the field that it is from, or is said to be a setting.

    0.61 s <!-- time_to_walk.json: machines/NVIDIA H200/tasks/trot-flat/summary/train_seconds_median -->
    episodes of 10 s <!-- set -->

A path's words are keys, places in a list, `field=value,...` (the one entry with these fields) or `*` (the
only entry). `%` is a hundred times the field, `M` a millionth, `k` a thousandth; another factor is written
behind the path: `x 1000`. `<!-- set -->` covers every unmarked number before it in its line. Generated blocks
are left out: tables.py holds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from document import PLACE, measured

UNITS = (
    r"%|points?\b|ms\b|us\b|µs\b|ns\b|s\b|min\b|minutes?\b|seconds?\b|hours?\b|steps/s|[kMGT]?[bB]/s|"
    r"[kMG]i?B\b|[kMG]\b|m/s\b|"
    r"rad/s\b|rad\b|deg\b|[kMG]?Hz\b|kg\b|mm\b|cm\b|m\b|N m\b|N\b|[MGT]?flop/s|[MGT]?FLOP/s|times\b|"
    r"x\b(?! \d)|\$"
)
NUMBER = re.compile(rf"(?<![\w./-])(?P<number>[+-]?\d[\d,]*(?:\.\d+)?) ?(?P<unit>{UNITS})")
MARK = re.compile(
    r"<!-- (?P<what>set|(?P<file>[\w./-]+\.json): (?P<path>.+?)(?: x (?P<factor>[\d.e+-]+))?) -->"
)
SCALE = {"%": 100.0, "M": 1e-6, "k": 1e-3, "G": 1e-9}


def prose(document: str) -> Iterator[tuple[int, str]]:
    """Lines outside of generated blocks, with their numbers. Code in backticks is typed, not claimed."""
    text = PLACE.sub(lambda block: "\n" * block[0].count("\n"), document)
    for at, line in enumerate(text.split("\n"), 1):
        yield at, re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), line)


def unmarked(document: str) -> list[str]:
    """Numbers with units that nothing vouches for: 'line: number unit'."""
    found = []
    for at, line in prose(document):
        marks = list(MARK.finditer(line))
        free = list(NUMBER.finditer(MARK.sub(lambda m: " " * len(m[0]), line)))
        for m in marks:
            before = [n for n in free if n.end() <= m.start()]
            gone = before if m["what"] == "set" else before[-1:]
            free = [n for n in free if n not in gone]
        found += [f"{at}: {n[0]}" for n in free]
    return found


def field(file: str, path: str) -> float:
    value: Any = measured(file)
    for word in path.strip().split("/"):
        if word == "*":
            (value,) = value.values() if isinstance(value, dict) else value
        elif isinstance(value, dict):
            value = value[word]
        elif "=" in word:
            want = dict(pair.split("=", 1) for pair in word.split(","))
            (value,) = [v for v in value if all(str(v.get(k)) == x for k, x in want.items())]
        else:
            value = value[int(word)]
    return float(value)


def wrong(document: str) -> list[str]:
    """Marked numbers that are not what their field says, rounded as printed."""
    found = []
    for at, line in prose(document):
        for m in MARK.finditer(line):
            if m["what"] == "set":
                continue
            before = [
                n for n in NUMBER.finditer(MARK.sub(lambda o: " " * len(o[0]), line)) if n.end() <= m.start()
            ]
            if not before:
                found.append(f"{at}: no number before {m[0]}")
                continue
            n = before[-1]
            text = n["number"].replace(",", "")
            digits = len(text.partition(".")[2])
            value = field(m["file"], m["path"]) * (
                float(m["factor"]) if m["factor"] else SCALE.get(n["unit"], 1.0)
            )
            if f"{value:.{digits}f}" != text.lstrip("+"):
                found.append(f"{at}: {n[0]} is {value:.{digits + 2}f} in {m['file']}: {m['path']}")
    return found
