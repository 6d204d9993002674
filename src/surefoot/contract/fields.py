"""Where two records differ, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """A field in which two records differ."""

    name: str
    a: Any
    b: Any


def differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> tuple[Field, ...]:
    """Returns the fields in which `a` and `b` differ, nested ones by their dotted name. What one of them does
    not have is None there."""
    out: list[Field] = []
    for key in [*a, *(k for k in b if k not in a)]:
        x, y, name = a.get(key), b.get(key), f"{prefix}{key}"
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            out += differences(x, y, f"{name}.")
        elif x != y:
            out.append(Field(name, x, y))
    return tuple(out)
