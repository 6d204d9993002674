"""The house stands: imports go down only, through doors, in circles nowhere; functions and files stay small.

The floors are the table in docs/design.md, read from there, so that the document cannot drift from the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from places import ROOT, SOURCE

PACKAGE = "surefoot"
MOST_PARAMETERS, MOST_LINES, MOST_ROOT_FILES = 8, 450, 6
DOORS_IN_THE_ROOT = ("gym", "zoo")
"""Modules of the root that open one inner module each: their paths are what users type."""
LIGHT = ("contract", "artifacts", "statistics", "runs", "evidence", "reporting")
"""Rooms that work where torch, MuJoCo and Warp are absent."""
HEAVY = {"torch", "mujoco", "warp", "gymnasium", "mujoco_warp"}


@dataclass(frozen=True)
class Import:
    source: str
    module: str
    name: str
    line: int
    lazy: bool
    typing: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.name} from {self.module}"


@cache
def modules() -> dict[str, Path]:
    files = (SOURCE / PACKAGE).rglob("*.py")
    names = {
        p: ".".join(p.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for p in files
    }
    return {name: p for p, name in names.items()}


def is_package(module: str) -> bool:
    return module in modules() and modules()[module].name == "__init__.py"


@cache
def imports() -> tuple[Import, ...]:
    return tuple(i for module in modules() for i in _imports_of(module))


def _imports_of(module: str) -> Iterator[Import]:
    def visit(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inner = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typed = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            if isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module}:{child.lineno} imports relatively"
                for a in child.names:
                    yield Import(module, child.module or "", a.name, child.lineno, inner, typed)
            elif isinstance(child, ast.Import):
                for a in child.names:
                    yield Import(module, a.name, "", child.lineno, inner, typed)
            yield from visit(child, inner, typed)

    yield from visit(ast.parse(modules()[module].read_text()), False, False)


def own(i: Import) -> bool:
    return i.module.split(".")[0] == PACKAGE


def room(module: str) -> str:
    """The room of a module; '' for the root's own files."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and is_package(".".join(parts[:2])) else ""


@cache
def floors() -> dict[str, int]:
    """Room -> how high it stands, from the table in docs/design.md: one row a floor, lowest first, its rooms
    in the order in which they may import each other."""
    page = (ROOT / "docs" / "design.md").read_text()
    rows = re.findall(r"^\| \d \*\*\w+\*\* \| (.+?) \|", page, re.MULTILINE)
    rooms = [name for row in rows for name in re.findall(r"`(\w+)/`", row)]
    assert len(rows) == 5, "docs/design.md has a table of five floors"
    return {name: height for height, name in enumerate(rooms)}


def test_every_room_has_its_place_on_a_floor() -> None:
    rooms = {room(m) for m in modules()} - {""}
    assert rooms == set(floors())


def test_imports_go_down_only() -> None:
    upward = [str(i) for i in imports() if own(i) and not _goes_down(i)]
    assert upward == []


def _goes_down(i: Import) -> bool:
    a, b = room(i.source), room(i.module)
    if a == "":  # the root's doors stand above all
        return True
    if b == "":  # the root itself has nothing but its version
        return i.module == PACKAGE and i.name in ("", "__version__")
    return a == b or floors()[b] < floors()[a]


def test_between_rooms_only_what_a_door_exports() -> None:
    """A door is the `__init__` of a room, or of a room within it."""
    closed = []
    for i in imports():
        if not own(i) or room(i.source) == room(i.module) or i.module == PACKAGE:
            continue
        if i.source.removeprefix(f"{PACKAGE}.") in DOORS_IN_THE_ROOT:
            continue
        through = is_package(i.module) and i.name in exported(i.module)
        if not through:
            closed.append(str(i))
    assert closed == []


@cache
def exported(package: str) -> frozenset[str]:
    tree = ast.parse(modules()[package].read_text())
    lists = [
        n.value for n in tree.body
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in n.targets)
    ]  # fmt: skip
    return frozenset(name for value in lists for name in ast.literal_eval(value))


def test_what_a_door_exports_somebody_asks_for_or_is_documented() -> None:
    """Doors say what others use. What no other room asks for is in the tests, the documents or an example."""
    asked = {(i.module, i.name) for i in imports() if own(i) and room(i.source) != room(i.module)}
    outside = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    outside += [*(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = "\n".join(p.read_text() for p in outside)
    idle = [
        f"{package}.{name}" for package in modules() if is_package(package) and package != PACKAGE
        for name in exported(package)
        if (package, name) not in asked and not re.search(rf"\b{re.escape(name)}\b", text)
    ]  # fmt: skip
    assert idle == []


def test_no_circles() -> None:
    """Among modules, imports inside functions counted, imports for typing alone left out."""
    graph: dict[str, set[str]] = {m: set() for m in modules()}
    for i in imports():
        if own(i) and not i.typing:
            target = f"{i.module}.{i.name}" if f"{i.module}.{i.name}" in modules() else i.module
            if target != i.source and target in graph:
                graph[i.source].add(target)
    state: dict[str, int] = {}
    path: list[str] = []

    def visit(m: str) -> list[str]:
        state[m] = 1
        path.append(m)
        for n in sorted(graph[m]):
            if state.get(n) == 1:
                return path[path.index(n) :]
            if n not in state and (circle := visit(n)):
                return circle
        state[m] = 2
        path.pop()
        return []

    for m in sorted(graph):
        if m not in state:
            assert visit(m) == []


def test_the_proof_imports_no_simulator() -> None:
    """Nothing at the head of a module of these rooms, of what they import, and so on down."""
    bad = []
    for i in imports():
        if i.lazy or i.typing or room(i.source) not in LIGHT:
            continue
        if i.module.split(".")[0] in HEAVY:
            bad.append(str(i))
    assert bad == []


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{module}:{node.lineno} {node.name}", node


def test_functions_have_few_parameters() -> None:
    """Kernels excepted: a kernel's arguments are its memory."""
    assert [
        where for where, f in _functions() if _parameters(f) > MOST_PARAMETERS and not _is_kernel(f)
    ] == []


def _parameters(f: ast.FunctionDef) -> int:
    every = (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)
    return len([a for a in every if a.arg not in ("self", "cls")])


def _is_kernel(f: ast.FunctionDef) -> bool:
    return any("wp.kernel" in ast.unparse(d) or "wp.func" in ast.unparse(d) for d in f.decorator_list)


def test_files_are_short() -> None:
    lines = {m: len(p.read_text().splitlines()) for m, p in modules().items()}
    assert {m: n for m, n in lines.items() if n > MOST_LINES} == {}


def test_the_root_is_a_hallway() -> None:
    root = [p.name for p in (SOURCE / PACKAGE).glob("*.py")]
    assert len(root) <= MOST_ROOT_FILES, root


def test_no_room_is_called_as_a_verb_is() -> None:
    verbs = {"report", "replay", "export", "train", "evaluate", "compare", "promote", "plan", "play", "audit"}
    assert {room(m) for m in modules()} & verbs == set()


@pytest.mark.parametrize("name", sorted(floors()) if (ROOT / "docs" / "design.md").exists() else [])
def test_every_room_says_what_it_is_for(name: str) -> None:
    doc = ast.get_docstring(ast.parse(modules()[f"{PACKAGE}.{name}"].read_text()))
    assert doc
    assert len(doc.split()) > 4


def test_where_to_change_what_is_there() -> None:
    """Every path of the table 'I want to change ...' exists."""
    page = (ROOT / "docs" / "design.md").read_text()
    table = re.search(r"^\| I want to change .*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert table, "docs/design.md begins with a table 'I want to change ...'"
    paths = re.findall(r"`([\w./-]+(?:/|\.\w+))`", table[0])
    assert len(paths) > 12
    missing = [p for p in paths if not (SOURCE / PACKAGE / p).exists() and not (ROOT / p).exists()]
    assert missing == []


MIDWAY = {"Of", "Which", "Who", "Whose", "Whom", "Than", "And", "But", "Or"}
"""Words that continue a sentence which nobody who reads a hover or a page of documentation has begun."""


def test_docstrings_do_not_begin_in_mid_sentence() -> None:
    """Command-line options (their help continues an option's name) and kernels (their text is hashed) may."""
    midway = [f"{where}: {text[:50]}" for where, text in _docstrings() if text.split()[0] in MIDWAY]
    assert midway == []


def _docstrings() -> Iterator[tuple[str, str]]:
    for module, path in modules().items():
        if room(module) == "cli" or ".kernels" in module or module.endswith("tasks.terms"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            for child in node.body:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    text = child.value.value
                    if isinstance(text, str) and text.split():
                        yield f"{module}:{child.lineno}", text
