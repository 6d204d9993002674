"""Programs call functions that return objects; only the house's faces (command line, notebook) print."""

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


def test_only_faces_print() -> None:
    faces = {PACKAGE / room for room in ("cli", "printing", "api")}
    others = [p for p in PACKAGE.rglob("*.py") if not faces & set(p.parents)]
    assert len(others) > 200
    assert [w for p in others for w in prints(p)] == []


@pytest.mark.parametrize(
    "text", ["print(1)", "from rich.console import Console", "import rich", "print(1, file=open('x'))"]
)
def test_a_module_that_prints_would_be_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(text)
    assert prints(tmp_path / "planted.py")
