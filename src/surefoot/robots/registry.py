"""Finds robots by name: the built-in ones, those of installed packages, and `module:attribute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from surefoot.contract import load_plugin, offered, spelled, unknown
from surefoot.robots.anymal import anymal
from surefoot.robots.biped import biped
from surefoot.robots.go1 import go1
from surefoot.robots.hexapod import hexapod
from surefoot.robots.spec import RobotSpec

ENTRY_POINT_GROUP = "surefoot.robots"

ROBOTS: Mapping[str, Callable[[], RobotSpec]] = MappingProxyType(
    {"go1": go1, "anymal": anymal, "hexapod": hexapod, "biped": biped}
)


def robot(name: str) -> RobotSpec:
    """Returns a robot by name. A built-in name always means the built-in robot: no package can replace it.

    Another package offers a robot as an entry point in the group `surefoot.robots`, or without one as
    `module:attribute`; either way a RobotSpec or a function without arguments that returns one.
    """
    if name in ROBOTS:
        return ROBOTS[name]()
    if ":" in name:
        return load_plugin("robot", spelled(name), RobotSpec, or_function=True)
    points = offered(ENTRY_POINT_GROUP)
    if name not in points:
        raise unknown("robot", name, {*ROBOTS, *points})
    return load_plugin("robot", points[name], RobotSpec, or_function=True)
