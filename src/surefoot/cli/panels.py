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
from surefoot.contract import as_half
from surefoot.printing import plain_table, say, say_commands

if TYPE_CHECKING:
    from surefoot.contract import Kind, Panel, Scenario, Span

HALVES = ("selection", "confirmation")
STILL = ("com_m", "strength", "kp_scale", "kd_scale", "delay_s", "noise_scale")
"""What the shipped panels leave as it is; a panel of yours may vary it."""


@dataclass(frozen=True)
class PanelMakeCommand:
    """Regenerate a shipped panel, bit for bit, into a file.

    Example: surefoot panel make walk-flat-v2 --out mine.json

    Example (a longer list): surefoot panel make walk-flat-v2 --scenarios 2048
    """

    name: Positional[str]
    """Panel name, e.g. walk-flat-v2."""
    scenarios: int | None = None
    """Scenarios to confirm on, of a panel of version 2 (default: as many as it ships with)."""
    root: int | None = None
    """Root seed that a panel of version 2 is drawn by (default: its own)."""
    out: str | None = None
    """File to write (default: <name>.json here). An existing file is only replaced if it is the same
    panel."""

    def run(self, console: Console) -> int:
        from pathlib import Path

        from surefoot.artifacts import atomic_write, check_output
        from surefoot.contract import dump_panel, make_panel

        panel = make_panel(self.name, self.scenarios, self.root)
        path, text = Path(self.out or f"{panel.name}.json"), dump_panel(panel).encode()
        atomic_write(check_output(path, lambda there: there.read_bytes() == text), text)
        say(console, f"{path}: {len(panel.scenarios)} scenarios, digest {panel.digest[:12]}")
        return 0


@dataclass(frozen=True)
class PanelShowCommand:
    """List the shipped panels, or describe one: commands, pushes, friction, payload, terrain, its two halves
    and what of it training never sees.

    Example: surefoot panel show

    Example: surefoot panel show walk-rough-v2

    Example (its first scenarios): surefoot panel show walk-flat-v2 --rows 8
    """

    name: Positional[str] = ""
    """Panel name or file; without one, all shipped panels are listed."""
    rows: int = 0
    """List so many scenarios of each half, of the one panel that is named."""
    json: bool = False
    """Print one JSON list instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.contract import load_panel, panel_names

        panels = [load_panel(n) for n in ([self.name] if self.name else panel_names())]
        if self.json:
            print(json.dumps([panel_facts(p) for p in panels], indent=2))
        elif self.name:
            print_panel(console, panels[0])
            print_scenarios(console, panels[0], self.rows)
        else:
            print_panels(console, panels)
        return 0


def panel_facts(p: Panel) -> dict[str, Any]:
    """Returns what a panel holds: scenarios in all, and in each half by condition."""
    return {
        "name": p.name,
        "digest": p.digest,
        "scenarios": len(p.scenarios),
        "version": p.version,
        "families": p.size,
        "episode_s": p.episode_s,
        "root_seed": p.seeds.root,
        "counts": {
            name: {value: dict(zip(HALVES, counts, strict=True)) for value, counts in values.items()}
            for name, values in conditions(p).items()
        },
        "ranges": p.ranges,
        "beyond_training": beyond_counts(p),
        "unseen_in_training": list(unseen(p)),
    }


def conditions(p: Panel) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns how many scenarios of each half have which command, friction, payload, terrain and level."""
    listed: dict[str, Callable[[Scenario], tuple[float, str]]] = {
        "friction": lambda s: (s.friction, f"{s.friction:g}"),
        "payload": lambda s: (s.payload_kg, f"{s.payload_kg:+g} kg" if s.payload_kg else "0 kg"),
    }
    kinds: dict[str, Callable[[Scenario], tuple[float, str]]] = {
        "command": _direction,
        **({} if p.version > 1 else listed),
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
    out = [draws]
    if classes:
        out.append(f"terrain {' and '.join(classes)}: no shipped task trains on these")
    counts = beyond_counts(p)
    if counts:
        n, one = len(p.select("confirmation")), p.select("confirmation")
        some = sum(bool(_beyond(p, s)) for s in one)
        out.append(
            f"{some} of the {n} scenarios to confirm on have a quantity from beyond its training range: "
            + ", ".join(f"{name} {count}" for name, count in counts.items())
        )
    return tuple(out)


def _beyond(p: Panel, s: Scenario) -> tuple[str, ...]:
    """Names what a scenario of a drawn panel has from beyond the ranges that are trained on."""
    from surefoot.contract import DrawnPanel, outside

    return outside(s, {k: v.inner for k, v in p.draw.spans.items()}) if isinstance(p, DrawnPanel) else ()


def beyond_counts(p: Panel) -> dict[str, int]:
    """Returns by factor how many scenarios to confirm on lie beyond training, in panels that say so."""
    return dict(Counter(name for s in p.select("confirmation") for name in _beyond(p, s)).most_common())


def print_panels(console: Console, panels: list[Panel]) -> None:
    table = plain_table("Panels", "panel", "scenarios", "families", "halves", "terrain", "digest")
    for column in table.columns:
        column.no_wrap = True
    for p in panels:
        classes = {s.terrain.cls for s in p.scenarios}
        table.add_row(
            p.name,
            f"{len(p.scenarios)} x {p.episode_s:g} s",
            str(p.size),
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
    for name, text in (_drawn if p.version > 1 else _listed)(p):
        facts.add_row(name, text)
    for k, text in enumerate(unseen(p)):
        facts.add_row("" if k else "unseen in training", text)
    console.print(facts, highlight=False)
    strata = plain_table("Scenarios by condition", "condition", "value", *HALVES)
    for name, values in conditions(p).items():
        for k, (value, counts) in enumerate(values.items()):
            strata.add_row("" if k else name, value, *map(str, counts))
    console.print()
    console.print(strata, highlight=False)


def _listed(p: Panel) -> list[tuple[str, str]]:
    """Says what a list of version 1 holds."""
    members = Counter(s.family for s in p.scenarios)
    grid = [sorted({s.command[k] for s in p.scenarios}) for k in range(3)]
    varied = [n for n in STILL if len({getattr(s, n) for s in p.scenarios}) > 1]
    units = zip(("  vx", "  vy", "  wz"), ("m/s", "m/s", "rad/s"), grid, strict=True)
    return [
        (
            "scenarios",
            f"{len(p.scenarios)} of {p.episode_s:g} s, in {len(members)} seed families of "
            f"{max(members.values())}",
        ),
        ("halves", _halves(p)),
        ("commands", f"{len({s.command for s in p.scenarios})} that last all episode"),
        *((name, f"{', '.join(f'{v:g}' for v in speeds)} {unit}") for name, unit, speeds in units),
        ("pushes", _pushes(p)),
        ("as the robot is", ", ".join(n for n in STILL if n not in varied) or "nothing"),
        *([("varied too", ", ".join(varied))] if varied else []),
    ]


def _drawn(p: Panel) -> list[tuple[str, str]]:
    """Says what a panel of version 2 is drawn from."""
    from surefoot.contract import DrawnPanel
    from surefoot.printing import power_rows

    assert isinstance(p, DrawnPanel)
    d, total = p.draw, len(p.draw.slots)
    columns = len(p.select("confirmation", perturbed=True))
    return [
        ("scenarios", f"{len(p.scenarios)} of {p.episode_s:g} s, each drawn independently of all others"),
        ("halves", f"{_halves(p)}; perturbed columns play the first {columns} to confirm on"),
        ("commands", f"in rounds of {d.round}: every kind on every ground, in its share"),
        *((f"  {k.name}", f"{k.share} in {total}{_kind(k)}") for k in d.kinds),
        *((name, f"{s.inner[0]:g} to {s.inner[1]:g}" + _further(s)) for name, s in d.spans.items()),
        ("pushes", _pushes(p)),
        ("starts", f"joints within {d.pose[1]:g} rad of the default pose, speeds within {d.velocity[1]:g}"),
        *power_rows(p),
    ]


def _kind(kind: Kind) -> str:
    axes = [(a, getattr(kind, a)) for a in ("vx", "vy", "wz") if getattr(kind, a)]
    ranges = [f"{a} {' or '.join(f'{low:g} to {high:g}' for low, high in parts)}" for a, parts in axes]
    return ": " + ", ".join(ranges) if ranges else ""


def _further(span: Span) -> str:
    return f"; beyond: {' or '.join(f'{a:g} to {b:g}' for a, b in span.bands)}" if span.bands else ""


def print_scenarios(console: Console, p: Panel, count: int) -> None:
    """Lists the first scenarios of each half."""
    if count < 1:
        return
    table = plain_table(
        "Scenarios", "place", "half", "vx", "vy", "wz", "friction", "payload", "delay", "push", "terrain"
    )
    for half in HALVES:
        for k in p.numbers(as_half(half))[:count]:
            s = p.scenarios[k]
            push = " ".join(f"{math.hypot(x.vx_mps, x.vy_mps):.2f}@{x.time_s:.2f}s" for x in s.pushes)
            numbers = (*s.command, s.friction, s.payload_kg, s.delay_s)
            ground = f"{s.terrain.cls} {s.terrain.level}"
            table.add_row(str(k), half[:3], *(f"{x:.3g}" for x in numbers), push, ground)
    console.print()
    console.print(table, highlight=False)


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
