"""Tasks by name: the built-in ones, entry points of other packages (group surefoot.tasks), and
package.module:name."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.contract import SOURCES, SurefootError, load_plugin, offered, spelled, unknown
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


ENTRY_POINTS = "surefoot.tasks"


def task_names() -> list[str]:
    return [*BUILT_IN, *sorted(offered(ENTRY_POINTS))]


def task(name: str) -> Task:
    """Returns the task called `name`, or made by the function `package.module:name` of a package that is
    importable; with `+sparse` behind it, that task with a sparse reward."""
    if name.endswith(SPARSE):
        return sparse(task(name.removesuffix(SPARSE)))
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if ":" in name and name.split(":", 1)[0] in SOURCES:
        raise SurefootError(
            f"{name} comes from outside, where only plan, train, evaluate, compare, postmortem, report and "
            "serve reach; for all else use one of Surefoot's own tasks (see `surefoot tasks`)."
        )
    if ":" in name:
        return load_plugin("task", spelled(name), Task, or_function=True)
    points = offered(ENTRY_POINTS)
    if name not in points:
        raise unknown("task", name, task_names())
    return load_plugin("task", points[name], Task, or_function=True)
