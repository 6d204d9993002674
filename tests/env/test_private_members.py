"""The compiled environment is built on what environments and engines offer to everybody."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from places import SOURCE

FILES = sorted((SOURCE / "surefoot" / "env" / "compiled").glob("*.py"))


def reaches_in(text: str) -> list[str]:
    """Accesses `x._y` where x is neither the object itself nor its class."""
    hidden = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute) and n.attr.startswith("_")]
    own = ("self", "cls", "super()")
    return [ast.unparse(n) for n in hidden if not n.attr.endswith("__") and ast.unparse(n.value) not in own]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_nothing_private_of_another_class_is_used(path: Path) -> None:
    assert reaches_in(path.read_text()) == []


def test_reaching_in_is_seen() -> None:
    reached = reaches_in("self.env._judge(robot)\nself._own()\nengine._x += 1\nx.__class__")
    assert set(reached) == {"self.env._judge", "engine._x"}
