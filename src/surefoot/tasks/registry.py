"""Tasks by name: the built-in ones, entry points of other packages (group surefoot.tasks), and
package.module:name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points

from surefoot.contract import SurefootError, unknown
from surefoot.tasks.anymal import walk_anymal_flat, walk_anymal_rough
from surefoot.tasks.biped import walk_biped_flat
from surefoot.tasks.sparse import SPARSE, sparse
from surefoot.tasks.task import Task
from surefoot.tasks.velocity import trot_flat, walk_flat, walk_rough

BUILT_IN: dict[str, Callable[[], Task]] = {
    "walk-flat": walk_flat,
    "trot-flat": trot_flat,
    "walk-rough": walk_rough,
    "walk-anymal-flat": walk_anymal_flat,
    "walk-anymal-rough": walk_anymal_rough,
    "walk-biped-flat": walk_biped_flat,
}


OUTSIDE = ("gym", "envpool", "mjlab")
"""Prefixes that name no module: environments from outside (surefoot.env.external)."""


def task_names() -> list[str]:
    return [*BUILT_IN, *sorted(e.name for e in entry_points(group="surefoot.tasks"))]


def task(name: str) -> Task:
    """The task called `name`, or made by the function `package.module:name` of a package that is
    importable; with `+sparse` behind it, that task with a sparse reward."""
    if name.endswith(SPARSE):
        return sparse(task(name.removesuffix(SPARSE)))
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.split(":", 1)[0] in OUTSIDE and ":" in name:
        raise SurefootError(
            f"{name} comes from outside, where only plan, train, evaluate, compare, postmortem, report and "
            "serve reach; for all else use one of Surefoot's own tasks (see `surefoot tasks`)."
        )
    if ":" in name:
        return _made_by(name, *name.split(":", 1))
    for entry in entry_points(group="surefoot.tasks"):
        if entry.name == name:
            return _made_by(name, *entry.value.split(":", 1))
    raise unknown("task", name, task_names())


def _made_by(name: str, module: str, attribute: str) -> Task:
    if not module or module.startswith(".") or not attribute:
        raise SurefootError(
            f"Task '{name}' does not name a module and a task in it; write package.module:name."
        )
    try:
        made = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise SurefootError(
            f"Task '{name}': module '{error.name}' is not installed; pip install its package."
        ) from error
    except AttributeError as error:
        raise SurefootError(
            f"Task '{name}': module '{module}' has no '{attribute}'; check the part after the colon."
        ) from error
    result = made() if callable(made) else made
    if not isinstance(result, Task):
        raise SurefootError(
            f"Task '{name}' gave a {type(result).__name__}; "
            "it must be a surefoot Task or a function returning one."
        )
    return result
