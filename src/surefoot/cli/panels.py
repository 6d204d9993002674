"""`surefoot panel`: the held-out scenarios that policies are judged on."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import plain_table, say, say_commands

if TYPE_CHECKING:
    from surefoot.contract import Panel, Scenario

HALVES = ("selection", "confirmation")
STILL = ("com_m", "strength", "kp_scale", "kd_scale", "delay_s", "noise_scale")
"""What the shipped panels leave as it is; a panel of yours may vary it."""


@dataclass(frozen=True)
class PanelMakeCommand:
    """Regenerate a shipped panel, bit for bit, into a file.

    Example: surefoot panel make walk-flat-v1 --out mine.json
    """

    name: Positional[str]
    """Panel name, e.g. walk-flat-v1."""
    out: str | None = None
    """File to write (default: <name>.json here). An existing file is only replaced if it is the same
    panel."""

    def run(self, console: Console) -> int:
        from pathlib import Path

        from surefoot.artifacts import atomic_write, check_output
        from surefoot.contract import dump_panel, make_panel

        panel = make_panel(self.name)
        path, text = Path(self.out or f"{self.name}.json"), dump_panel(panel).encode()
        atomic_write(check_output(path, lambda there: there.read_bytes() == text), text)
        say(console, f"{path}: {len(panel.scenarios)} scenarios, digest {panel.digest[:12]}")
        return 0


@dataclass(frozen=True)
class PanelShowCommand:
    """List the shipped panels, or describe one: commands, pushes, friction, payload, terrain, its two halves
    and what of it training never sees.

    Example: surefoot panel show

    Example: surefoot panel show walk-rough-v1
    """

    name: Positional[str] = ""
    """Panel name or file; without one, all shipped panels are listed."""
    json: bool = False
    """Print one JSON list instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.contract import load_panel, panel_names

        panels = [load_panel(n) for n in ([self.name] if self.name else panel_names())]
        if self.json:
            print(json.dumps([panel_facts(p) for p in panels], indent=2))
        elif self.name:
            print_panel(console, panels[0])
        else:
            print_panels(console, panels)
        return 0


def panel_facts(p: Panel) -> dict[str, Any]:
    """Returns what a panel holds: scenarios in all, and in each half by condition."""
    return {
        "name": p.name,
        "digest": p.digest,
        "scenarios": len(p.scenarios),
        "families": p.seeds.families,
        "episode_s": p.episode_s,
        "root_seed": p.seeds.root,
        "counts": {
            name: {value: dict(zip(HALVES, counts, strict=True)) for value, counts in values.items()}
            for name, values in conditions(p).items()
        },
        "unseen_in_training": list(unseen(p)),
    }


def conditions(p: Panel) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns how many scenarios of each half have which command, friction, payload, terrain and level."""
    kinds: dict[str, Callable[[Scenario], tuple[float, str]]] = {
        "command": _direction,
        "friction": lambda s: (s.friction, f"{s.friction:g}"),
        "payload": lambda s: (s.payload_kg, f"{s.payload_kg:+g} kg" if s.payload_kg else "0 kg"),
        "terrain": lambda s: (0, s.terrain.cls),
        "level": lambda s: (s.terrain.level, str(s.terrain.level)),
    }
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, of in kinds.items():
        counts = Counter((of(s), str(s.half)) for s in p.scenarios)
        values = sorted({value for value, _ in counts})
        out[name] = {text: tuple(counts[(at, text), half] for half in HALVES) for at, text in values}
    return {
        name: values for name, values in out.items() if name in ("command", "friction") or len(values) > 1
    }


def _direction(s: Scenario) -> tuple[float, str]:
    vx, vy, _ = s.command
    if not any(s.command):
        return 0, "stand"
    if vx:
        return (3, "forward") if vx > 0 else (4, "backward")
    return (2, "sideways") if vy else (1, "turn on the spot")


def unseen(p: Panel) -> tuple[str, ...]:
    """Says what of a panel training never sees."""
    from surefoot.terrain import HELD_OUT

    draws = (
        f"every random draw (start, sensor noise): keyed by root seed {p.seeds.root} in split "
        f"'{p.seeds.split}', where training draws in split 'train'"
    )
    classes = sorted({s.terrain.cls for s in p.scenarios} & set(HELD_OUT))
    if not classes:
        return (draws,)
    return draws, f"terrain {' and '.join(classes)}: no shipped task trains on these"


def print_panels(console: Console, panels: list[Panel]) -> None:
    table = plain_table("Panels", "panel", "scenarios", "families", "halves", "terrain", "digest")
    for column in table.columns:
        column.no_wrap = True
    for p in panels:
        classes = {s.terrain.cls for s in p.scenarios}
        table.add_row(
            p.name,
            f"{len(p.scenarios)} x {p.episode_s:g} s",
            str(p.seeds.families),
            "+".join(str(len(p.select("selection" if h == "selection" else "confirmation"))) for h in HALVES),
            ", ".join(classes) if len(classes) == 1 else f"{len(classes)} classes",
            p.digest[:12],
        )
    console.print(table, highlight=False)
    console.print()
    say_commands(console, [(f"surefoot panel show {panels[0].name}", "what is in one")])


def print_panel(console: Console, p: Panel) -> None:
    say(console, p.name, style="bold")
    say(console, f"digest {p.digest}")
    facts = plain_table("", "", "")
    facts.title, facts.show_header = None, False
    members = Counter(s.family for s in p.scenarios)
    facts.add_row(
        "scenarios",
        f"{len(p.scenarios)} of {p.episode_s:g} s, in {len(members)} seed families of "
        f"{max(members.values())}",
    )
    facts.add_row("halves", _halves(p))
    grid = [sorted({s.command[k] for s in p.scenarios}) for k in range(3)]
    facts.add_row("commands", f"{len({s.command for s in p.scenarios})} that last all episode")
    for name, unit, speeds in zip(("  vx", "  vy", "  wz"), ("m/s", "m/s", "rad/s"), grid, strict=True):
        facts.add_row(name, f"{', '.join(f'{v:g}' for v in speeds)} {unit}")
    facts.add_row("pushes", _pushes(p))
    varied = [n for n in STILL if len({getattr(s, n) for s in p.scenarios}) > 1]
    facts.add_row("as the robot is", ", ".join(n for n in STILL if n not in varied) or "nothing")
    if varied:
        facts.add_row("varied too", ", ".join(varied))
    for k, text in enumerate(unseen(p)):
        facts.add_row("" if k else "unseen in training", text)
    console.print(facts, highlight=False)
    strata = plain_table("Scenarios by condition", "condition", "value", *HALVES)
    for name, values in conditions(p).items():
        for k, (value, counts) in enumerate(values.items()):
            strata.add_row("" if k else name, value, *map(str, counts))
    console.print()
    console.print(strata, highlight=False)


def _halves(p: Panel) -> str:
    families = {h: {s.family for s in p.scenarios if s.half == h} for h in HALVES}
    shared = families["selection"] & families["confirmation"]
    counts = ", ".join(f"{sum(s.half == h for s in p.scenarios)} {h}" for h in HALVES)
    return f"{counts}; they share {len(shared) or 'no'} seed {'family' if len(shared) == 1 else 'families'}"


def _pushes(p: Panel) -> str:
    pushes = [push for s in p.scenarios for push in s.pushes]
    if not pushes:
        return "none"
    each = sorted({len(s.pushes) for s in p.scenarios})
    speeds = sorted(math.hypot(push.vx_mps, push.vy_mps) for push in pushes)
    times = sorted(push.time_s for push in pushes)
    return (
        f"{' or '.join(map(str, each))} an episode, {speeds[0]:.2f} to {speeds[-1]:.2f} m/s, "
        f"{times[0]:.2f} to {times[-1]:.2f} s after its start"
    )
