"""Finds robots by name: the built-in ones, those of installed packages, and `module:attribute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from surefoot.contract import SurefootError, unknown
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
        return _load(EntryPoint(name=name, value=name, group=ENTRY_POINT_GROUP))
    offered = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in offered:
        raise unknown("robot", name, {*ROBOTS, *offered})
    return _load(offered[name])


def _load(point: EntryPoint) -> RobotSpec:
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise SurefootError(
            f"The robot '{point.name}' cannot be loaded from '{point.value}' ({error}); "
            "check that the package is installed and the name after the colon exists in it."
        ) from error
    spec = loaded() if callable(loaded) else loaded
    if not isinstance(spec, RobotSpec):
        raise SurefootError(
            f"'{point.value}' gave a {type(spec).__name__} for the robot '{point.name}'; "
            "it must be a RobotSpec or a function without arguments that returns one."
        )
    return spec
