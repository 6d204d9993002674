"""What other packages bring: entry points of a group, and `package.module:name`, loaded or refused in a
sentence."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint
from typing import TypeVar

from surefoot.contract.errors import SurefootError

Wanted = TypeVar("Wanted")


def offered(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points that installed packages declare in a group, by name."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def spelled(name: str) -> EntryPoint:
    """Returns `package.module:name` as if it were an entry point called by itself."""
    return EntryPoint(name=name, value=name, group="")


def load_plugin(what: str, point: EntryPoint, kind: type[Wanted], *, or_function: bool = False) -> Wanted:
    """Loads the `kind` that an entry point names; with `or_function`, a function without arguments that
    returns one will do as well. `what` is its word in sentences: 'robot'."""
    who = f"The {what} '{point.name}'"
    module, _, attribute = point.value.partition(":")
    if not module or module.startswith(".") or not attribute:
        raise SurefootError(f"{who} does not name a module and a {what} in it; write package.module:name.")
    try:
        loaded = point.load()
    except ModuleNotFoundError as error:
        raise SurefootError(
            f"{who} cannot be loaded: module '{error.name}' is not installed; pip install its package."
        ) from error
    except AttributeError as error:
        raise SurefootError(
            f"{who} cannot be loaded: module '{module}' has no '{attribute}'; check the part after the colon."
        ) from error
    except ImportError as error:
        raise SurefootError(
            f"{who} cannot be loaded from '{point.value}' ({error}); repair or uninstall that package."
        ) from error
    if or_function and not isinstance(loaded, kind) and callable(loaded):
        loaded = loaded()
    if not isinstance(loaded, kind):
        function = " or a function returning one" if or_function else ""
        raise SurefootError(
            f"{who} gave a {type(loaded).__name__}; it must be a surefoot {kind.__name__}{function}."
        )
    return loaded
