"""Terms keep environments apart: what one makes of an environment is what it makes of it alone.

A term that looks at other environments (a mean over all of them, the first one's row, their order or number)
would train one thing on tensors and another in a kernel, which sees one environment at a time; and episodes
would not be independent, as every interval takes them to be. So it is refused, by its effect and not by its
form: it is called with a few environments together and with each alone, on symbols, which stand for any
values. Where it cannot be traced, on drawn numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compiler import Expr, Symbols, Untraceable, Var, symbol, symbols
from surefoot.contract import SurefootError
from surefoot.engines import Parameters, RobotState
from surefoot.tasks.task import Constants, Ground, Task, TaskState, View

TRACED, DRAWN = 3, 16
"""Environments that are looked at together: symbols are never in order or equal by chance, numbers may be."""
FLAGS = {"trunk_contact", "failed", "contact"}
COUNTS = {"age"}
Shape = tuple[int, ...]


def check_apart(task: Task, device: str = "cpu") -> None:
    """Refuses a task in which a term of one environment depends on others."""
    constants = task.constants(torch.device(device), 1.0 / task.recipe.control_hz)
    traced = _views(task, constants, TRACED, _symbolic)
    draw = torch.Generator().manual_seed(1)
    drawn = _views(task, constants, DRAWN, lambda name, shape: _drawn(name, shape, draw).to(device))
    c = task.contract
    terms: list[Any] = [*c.observation, *c.privileged, *c.rewards, *c.terminations]
    for term in terms:
        function, params = task.terms[term.name], getattr(term, "params", {})
        try:
            apart = _apart(function, params, *traced, _same_expressions)
        except Untraceable:
            apart = _apart(function, params, *drawn, _same_numbers)
        if not apart:
            raise SurefootError(
                f"Task '{c.name}': the term '{term.name}' mixes environments: what it gives for one changes "
                "with the others, their order or their number. Let each row depend on its own row alone: "
                "index, reduce and sort over later axes."
            )


def _views(
    task: Task, constants: Constants, count: int, make: Callable[[str, Shape], Any]
) -> tuple[View, list[View]]:
    """Returns environments together, and each of them alone."""
    shapes = _shapes(len(task.robot.joints), len(task.robot.feet), len(task.scan))
    fields = {
        kind: {name: make(name, (count, *shape)) for name, shape in of.items()} for kind, of in shapes.items()
    }

    def view(rows: slice) -> View:
        robot, memory, params, ground = (
            kind(**{k: x[rows] for k, x in of.items()}) for kind, of in fields.items()
        )
        return View(robot, memory, params, ground, constants)

    return view(slice(None)), [view(slice(k, k + 1)) for k in range(count)]


def _shapes(joints: int, feet: int, scan: int) -> dict[Any, dict[str, Shape]]:
    """Returns the shapes of a view's fields, the environments' axis left out."""
    three: Shape = (3,)
    robot = dict.fromkeys(("position", "linear_velocity", "angular_velocity", "gravity"), three)
    robot |= dict.fromkeys(("joint_position", "joint_velocity", "torque"), (joints,))
    robot |= dict.fromkeys(("foot_position", "foot_velocity", "foot_force"), (feet, 3))
    robot |= {"quaternion": (4,), "trunk_contact": (), "failed": ()}
    memory = dict.fromkeys(("action", "previous_action"), (joints,)) | {
        "command": three,
        "age": (),
        "phase": (),
    }
    memory |= dict.fromkeys(("contact", "air_time", "landed"), (feet,))
    numbers = ("friction", "payload_kg", "strength", "kp_scale", "kd_scale", "delay_s")
    return {
        RobotState: robot,
        TaskState: memory,
        Parameters: dict.fromkeys(numbers, ()) | {"com_m": three},
        Ground: {"base": (), "feet": (feet,), "scan": (scan,)},
    }


def _symbolic(name: str, shape: Shape) -> Symbols:
    out = np.empty(shape, object)
    for k in range(out.size):
        out.reshape(-1)[k] = symbol(Var(f"{name}_{k}", "env"))
    return Symbols(out) > 0.5 if name in FLAGS else Symbols(out)


def _drawn(name: str, shape: Shape, draw: torch.Generator) -> Tensor:
    if name in FLAGS or name in COUNTS:
        return torch.randint(0, 2 if name in FLAGS else 500, shape, generator=draw).to(
            torch.bool if name in FLAGS else torch.int64
        )
    return torch.randn(shape, generator=draw)


def _apart(
    function: Callable[..., Any],
    params: Mapping[str, Any],
    together: View,
    alone: list[View],
    same: Callable[[Any, Any], bool],
) -> bool:
    whole, rows = function(together, **params), [function(view, **params) for view in alone]
    if tuple(whole.shape[:1]) != (len(alone),) or any(tuple(row.shape[:1]) != (1,) for row in rows):
        return False
    return all(same(whole[k], row[0]) for k, row in enumerate(rows))


def _same_expressions(a: Any, b: Any) -> bool:
    """Equal expressions are one object."""
    left: list[Expr] = symbols(a).flat()
    right: list[Expr] = symbols(b).flat()
    return len(left) == len(right) and all(x is y for x, y in zip(left, right, strict=True))


def _same_numbers(a: Tensor, b: Tensor) -> bool:
    """Sums may round differently by the number of rows."""
    close: bool = torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6, equal_nan=True)
    return a.shape == b.shape and close
