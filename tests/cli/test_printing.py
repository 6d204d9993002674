"""Programs call functions that return objects; only the command line prints on its own account."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from places import SOURCE

PACKAGE = SOURCE / "surefoot"


def prints(path: Path) -> list[str]:
    """Where a module imports rich, or prints to anything but the standard error."""
    where = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(n.split(".")[0] == "rich" for n in names):
                where.append(f"{path.name}:{node.lineno} imports rich")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            files = [ast.unparse(k.value) for k in node.keywords if k.arg == "file"]
            where += [f"{path.name}:{node.lineno} prints"] if files != ["sys.stderr"] else []
    return where


def test_only_the_command_line_prints() -> None:
    others = [p for p in PACKAGE.rglob("*.py") if PACKAGE / "cli" not in p.parents]
    assert len(others) > 200
    # Results show themselves on a console that they are given: two rooms import rich and print nothing.
    shown = {PACKAGE / "printing", PACKAGE / "api"}
    where = {p: prints(p) for p in others}
    assert [w for p, ws in where.items() for w in ws if not (shown & {*p.parents} and "rich" in w)] == []


@pytest.mark.parametrize(
    "text", ["print(1)", "from rich.console import Console", "import rich", "print(1, file=open('x'))"]
)
def test_a_module_that_prints_would_be_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(text)
    assert prints(tmp_path / "planted.py")
