"""What a word on the command line may become: commands, options, their choices, tasks, panels and runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefoot.cli.parser import Option, options_of
from surefoot.cli.verbs import VERBS, Group
from surefoot.contract import offered, panel_names

TASKS = ("walk-flat", "trot-flat", "walk-rough", "walk-anymal-flat", "walk-anymal-rough", "walk-biped-flat")
"""The tasks that come with Surefoot: to ask their registry would take seconds, for it needs torch."""
KNOWN = {
    "device": ("cpu", "cuda"),
    "engine": ("auto", "stride", "mujoco", "mujoco-warp", "mujoco-boxes"),
    "half": ("confirmation", "selection", "all"),
    "panel_half": ("confirmation", "selection", "all"),
    "checkpoint": ("confirmed", "best", "latest"),
    "perturb": (
        "all",
        "none",
        "noise",
        "delay",
        "friction",
        "payload",
        "push",
        "strength",
        "dropout",
        "bias",
        "stuck",
        "obs_delay",
    ),
}
RUNS = "runs"
"""Where runs are unless told otherwise."""


def candidates(words: Sequence[str]) -> list[str]:
    """Returns what the last of `words` may become, given those before it."""
    *before, word = words or [""]
    return sorted(w for w in _offers(before, word) if w.startswith(word))


def _offers(before: list[str], word: str) -> Iterator[str]:
    of = VERBS.get(before[0]) if before else None
    depth = 1
    if isinstance(of, Group) and len(before) > 1:
        of, depth = of.verbs.get(before[1]), 2
    if not before or isinstance(of, Group):
        yield from VERBS if not isinstance(of, Group) else of.verbs
        yield from ("--help", "--version") if not before else ("--help",)
        return
    if of is None:
        return
    options = options_of(of)
    typed = before[depth:]
    last = next((o for o in options if typed and o.flag == typed[-1] and not o.switch), None)
    if last is not None:
        yield from _values(last, word)
        return
    if word.startswith("-"):
        yield "--help"
        for o in options:
            if not o.positional:
                yield o.flag.replace("--", "--no-", 1) if o.switch and o.default else o.flag
        return
    for o in options:
        if o.positional:
            yield from _values(o, word)


def _values(o: Option, word: str) -> Iterator[str]:
    yield from o.choices or KNOWN.get(o.name, ())
    if o.name == "task":
        yield from (*TASKS, *offered("surefoot.tasks"))
    elif o.name in ("panel", "name"):
        yield from panel_names()
    elif o.metavar == "RUN":
        yield from _runs(word)


def _runs(word: str) -> Iterator[str]:
    """Yields the run folders that a beginning may lead to, and the folders on the way."""
    folder = word[: word.rfind("/") + 1]
    for place in dict.fromkeys((folder, f"{RUNS}/")) if not word else (folder,):
        try:
            with os.scandir(place or ".") as found:
                inside = sorted(e.name for e in found if e.is_dir() and not e.name.startswith("."))
        except OSError:
            continue
        for name in inside:
            is_run = (Path(place) / name / "run.json").exists()
            yield f"{place}{name}" if is_run else f"{place}{name}/"
