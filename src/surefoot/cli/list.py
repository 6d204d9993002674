"""`surefoot tasks`, `engines` and `panel`: what there is."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console
from tyro.conf import Positional

from surefoot.cli.terminal import plain_table
from surefoot.contract import SurefootError


@dataclass(frozen=True)
class TasksCommand:
    """List the tasks that can be trained, built in and from installed packages."""

    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        print_tasks(console, self.json)
        return 0


@dataclass(frozen=True)
class EnginesCommand:
    """List the simulators, what each is for, and what stride can and cannot represent."""

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        print_engines(console, self.json)
        return 0


@dataclass(frozen=True)
class PanelMakeCommand:
    """Regenerate a shipped panel, bit for bit, into a file."""

    name: Positional[str]
    """Panel name, e.g. walk-flat-v1."""
    out: str | None = None
    """File to write (default: <name>.json here). An existing file is only replaced if it is the same
    panel."""

    def run(self, console: Console) -> int:
        from pathlib import Path

        from surefoot.artifacts import atomic_write
        from surefoot.contract import dump_panel, make_panel

        panel = make_panel(self.name)
        path, text = Path(self.out or f"{self.name}.json"), dump_panel(panel).encode()
        if path.exists() and path.read_bytes() != text:
            raise SurefootError(f"{path} exists and is another file; choose another --out.")
        atomic_write(path, text)
        console.print(
            f"{path}: {len(panel.scenarios)} scenarios, digest {panel.digest[:12]}", highlight=False
        )
        return 0


@dataclass(frozen=True)
class PanelShowCommand:
    """Describe a panel: its scenarios, families, halves and digest."""

    name: Positional[str] = ""
    """Panel name or file; without one, all shipped panels are listed."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        print_panels(console, self.name, self.json)
        return 0


def print_engines(console: Console, as_json: bool) -> None:
    from surefoot.engines import ENGINES
    from surefoot.engines.stride import CAPABILITIES

    if as_json:
        print(json.dumps({"engines": ENGINES, "stride": dict(CAPABILITIES)}, indent=2))
        return
    table = plain_table("Engines (--engine)", "engine", "what it is")
    table.add_row(
        "auto", "stride where it can represent the robot, else MuJoCo Warp on CUDA, else native MuJoCo"
    )
    for name, what in ENGINES.items():
        table.add_row(name, what)
    console.print(table, "")
    can = plain_table("What stride can represent", "", "")
    for what, whether in CAPABILITIES:
        can.add_row(what, whether)
    console.print(can)


def print_tasks(console: Console, as_json: bool) -> None:
    from surefoot.statistics import percent
    from surefoot.tasks import task_names
    from surefoot.training import robot_plan

    plans, broken = {}, {}
    for name in task_names():
        try:
            plans[name] = robot_plan(name)
        except SurefootError as error:  # of one package; the others' tasks can still be trained
            broken[name] = str(error)
    if as_json:
        rows = {
            n: {
                "robot": p.task.contract.robot,
                "panel": p.panel.name,
                "construct_id": p.construct_id,
                "prior": p.task.contract.prior is not None,
            }
            for n, p in plans.items()
        }
        print(json.dumps(rows, indent=2))
        return
    table = plain_table("Tasks", "task", "robot", "prior", "panel", "until", "at most")
    for n, p in plans.items():
        c = p.task.contract
        table.add_row(
            n,
            c.robot,
            "clock, lift" if c.prior else "none",
            p.panel.name,
            percent(p.task.until),
            f"{p.task.minutes:g} min",
        )
    console.print(table, highlight=False)
    for name, why in broken.items():
        console.print(f"{name}: {why}", style="red", highlight=False, markup=False)
    console.print(
        "\nUntil: held-out success, twice in a row. All of a task: surefoot plan TASK.\n"
        "Your own: surefoot train package.module:name (docs/guides/extending.md)",
        highlight=False,
    )


def print_panels(console: Console, name: str, as_json: bool) -> None:
    from surefoot.contract import load_panel, panel_names

    panels = [load_panel(n) for n in ([name] if name else panel_names())]
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "name": p.name,
                        "digest": p.digest,
                        "scenarios": len(p.scenarios),
                        "families": p.seeds.families,
                    }
                    for p in panels
                ],
                indent=2,
            )
        )
        return
    table = plain_table(
        "Panels",
        "panel",
        "scenarios",
        "seconds",
        "families",
        "selection",
        "confirmation",
        "terrain",
        "digest",
    )
    for p in panels:
        classes = sorted({s.terrain.cls for s in p.scenarios})
        table.add_row(
            p.name,
            str(len(p.scenarios)),
            f"{p.episode_s:g}",
            str(p.seeds.families),
            str(len(p.select("selection"))),
            str(len(p.select("confirmation"))),
            ", ".join(classes),
            p.digest[:12],
        )
    console.print(table, highlight=False)
