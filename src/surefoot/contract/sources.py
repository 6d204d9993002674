"""Digests of source: what a contract's functions say, as text."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from surefoot.contract.errors import SurefootError


def source_digest(terms: Mapping[str, Callable[..., Any]]) -> str:
    """Returns the SHA-256 over the source of the functions, in the order of their names, and of what they use
    of their own package: functions and plain constants they refer to, and so on. Source reached in other
    ways (methods, files) is not covered."""
    sha = hashlib.sha256()
    for name in sorted(terms):
        for part in _sources(terms[name], set()):
            sha.update(f"{name}\n{part}\n".encode())
    return sha.hexdigest()


def _sources(function: Any, seen: set[str]) -> Iterator[str]:
    seen.add(function.__name__)
    try:
        yield inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise SurefootError(
            f"The source of term '{function.__name__}' cannot be read; define it with def in a file."
        ) from error
    package = function.__module__.split(".")[0]
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if inspect.isfunction(value) and value.__module__.split(".")[0] == package and name not in seen:
            yield from _sources(value, seen)
        elif isinstance(value, bool | int | float | str | tuple):
            yield f"{name} = {value!r}"
