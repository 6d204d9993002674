"""`surefoot tasks` and `engines`: what there is."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.contract import SurefootError
from surefoot.printing import plain_table, say


@dataclass(frozen=True)
class TasksCommand:
    """List the tasks that can be trained, built in and from installed packages.

    Example: surefoot tasks
    """

    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        print_tasks(console, self.json)
        return 0


@dataclass(frozen=True)
class EnginesCommand:
    """List the simulators, what each is for, and what stride can and cannot represent.

    Example: surefoot engines
    """

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        print_engines(console, self.json)
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
        say(console, f"{name}: {why}", style="red")
    say(
        console,
        "\nUntil: held-out success, twice in a row. At most: minutes of training, on any device. All of a "
        "task: surefoot plan TASK.\nYour own: surefoot train package.module:name (docs/guides/extending.md)",
    )
