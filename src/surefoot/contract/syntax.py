"""What a piece of source says, apart from how it is written: its syntax tree as text that comments,
docstrings, annotations, formatting and the version of Python (3.11 to 3.13) do not change, and the names that
it takes from outside itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Chain = tuple[str, ...]
"""A name and the attributes taken of it: `terms.limits.tilt` is ("terms", "limits", "tilt")."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SILENT = {"ctx", "type_comment", "kind", "lineno", "col_offset", "end_lineno", "end_col_offset"}


@lru_cache(maxsize=512)
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@lru_cache(maxsize=512)
def _scopes(tree: ast.Module) -> list[Scope]:
    return [n for n in ast.walk(tree) if isinstance(n, Scope)]


def function_node(tree: ast.Module, code: CodeType) -> Scope | None:
    """Finds the definition that `code` was compiled from; None where `tree` does not have it."""
    found = [n for n in _scopes(tree) if _begins(n) == code.co_firstlineno]
    found = [n for n in found if getattr(n, "name", "<lambda>") == code.co_name]
    if len(found) > 1:  # several lambdas in a line: the innermost that holds every instruction
        places = [(a, c, b, d) for a, b, c, d in code.co_positions() if a and b and d]
        inside = [n for n in found if all(_holds(n, p) for p in places)]
        found = sorted(inside or found, key=lambda n: (n.lineno, n.col_offset))
    return found[-1] if found else None


def _begins(node: Scope) -> int:
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def _holds(node: Scope, place: tuple[int | None, ...]) -> bool:
    line, column, end_line, end_column = place
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return first <= (line, column) and (end_line, end_column) <= last


@lru_cache(maxsize=512)
def class_nodes(tree: ast.Module, qualname: str) -> list[ast.ClassDef]:
    """Finds the definitions of a class by its qualified name; more than one where a module has
    alternatives."""
    found: list[ast.AST] = [tree]
    for name in (part for part in qualname.split(".") if part != "<locals>"):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [
            n for f in found for n in ast.walk(f) if isinstance(n, kinds) and n.name == name and n is not f
        ]
    return [n for n in found if isinstance(n, ast.ClassDef)]


# ---- text


@lru_cache(maxsize=4096)
def text_of(node: ast.AST) -> str:
    """Writes a syntax tree as text: equal where two pieces of source do the same in the same words."""
    return "".join(_write(node, in_class=isinstance(node, ast.ClassDef)))


def _write(value: object, in_class: bool = False) -> Iterator[str]:
    if isinstance(value, ast.JoinedStr):
        value = ast.JoinedStr(values=_joined(value.values))
    if isinstance(value, ast.AST):
        yield f"({type(value).__name__}"
        for name, child in ast.iter_fields(value):
            if name in _SILENT or child is None or child == [] or _annotates(value, name, in_class):
                continue
            if name == "body" and isinstance(child, list):
                child = _statements(child)
            yield f" {name}="
            yield from _write(child, isinstance(value, ast.ClassDef))
        yield ")"
    elif isinstance(value, list):
        yield "["
        for item in value:
            yield from _write(item, in_class)
            yield ","
        yield "]"
    else:
        yield f"{type(value).__name__}:{value!r}"


def _annotates(node: ast.AST, name: str, in_class: bool) -> bool:
    """Tells annotations, which say nothing at run time but in the body of a class, where they make fields."""
    if name == "returns":
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return name == "annotation" and (isinstance(node, ast.arg) or not in_class)


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Leaves out what does nothing: docstrings, `...`, and `pass` beside anything else."""
    constant = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return [s for s in constant if not isinstance(s, ast.Pass)] or [ast.Pass()]


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Joins neighbouring texts of an f-string, which versions of Python cut up differently."""
    out: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            spec = _joined(part.format_spec.values)
            made = ast.JoinedStr(values=spec) if spec else None
            part = ast.FormattedValue(value=part.value, conversion=part.conversion, format_spec=made)
        if isinstance(part, ast.Constant) and out and isinstance(out[-1], ast.Constant):
            out[-1] = ast.Constant(value=str(out[-1].value) + str(part.value))
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            out.append(part)
    return out


# ---- names


@dataclass
class Names:
    """What a definition takes from outside itself."""

    free: set[Chain] = field(default_factory=set)
    """Names that are looked up where it was defined, with the attributes taken of them."""
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    """Imports within it."""
    imported: set[Chain] = field(default_factory=set)
    """What it takes of those."""


@lru_cache(maxsize=4096)
def names_of(node: ast.AST) -> Names:
    """Collects the names that a function or class takes from outside, nested definitions included. Its own
    decorators and defaults were evaluated before it was there: what came of them is looked at instead."""
    out = Names()
    out.free = _outside(node, out)
    return out


def _outside(node: ast.AST, out: Names) -> set[Chain]:
    """Returns the chains of a scope whose first name it does not bind itself."""
    if isinstance(node, ast.Lambda):
        inner: list[ast.AST] = [node.body]
    elif isinstance(node, ast.ClassDef):
        inner = [*node.bases, *(k.value for k in node.keywords), *node.body]
    elif isinstance(node, _COMPREHENSIONS):
        inner = list(ast.iter_child_nodes(node))
    else:
        inner = list(getattr(node, "body", [node]))
    found, nested, bound, declared = _Reading(), set[Chain](), set[str](), set[str]()
    for child in inner:
        found.visit(child)
    if isinstance(node, Scope):
        arguments = node.args
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        bound |= {a.arg for a in every if a is not None}
    bound |= found.bound
    declared |= found.declared
    for scope in found.scopes:
        nested |= _outside(scope, out)
    out.imports += found.imports
    imported = {a.asname or a.name.split(".")[0] for i in found.imports for a in i.names}
    out.imported |= {c for c in found.chains | nested if c[0] in imported}
    # Methods do not see a class's own names, and its body may read a name before it takes it.
    hidden = set() if isinstance(node, ast.ClassDef) else bound - declared
    return {c for c in found.chains | nested if c[0] not in hidden}


class _Reading(ast.NodeVisitor):
    """Reads one scope: what is bound and used in it, and the scopes within."""

    def __init__(self) -> None:
        self.chains: set[Chain] = set()
        self.bound: set[str] = set()
        self.declared: set[str] = set()
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.scopes: list[ast.AST] = []

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.chains.add((node.id,))
        else:
            self.bound.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names, root = [node.attr], node.value
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name) and isinstance(root.ctx, ast.Load):
            self.chains.add((root.id, *reversed(names)))
        else:
            self.visit(root)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.declared |= set(node.names)
        self.chains |= {(n,) for n in node.names}

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports.append(node)
        self.bound |= {a.asname or a.name.split(".")[0] for a in node.names}

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bound.add(node.name)
        self._defaults(node)
        self.scopes.append(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node)
        self.scopes.append(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.scopes.append(node)

    def _defaults(self, node: Scope) -> None:
        """Those of a nested function are evaluated here."""
        arguments = node.args
        for part in [*getattr(node, "decorator_list", []), *arguments.defaults, *arguments.kw_defaults]:
            if part is not None:
                self.visit(part)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)  # evaluated here, whatever the comprehension calls its own
        self.scopes.append(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.bound.add(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bound.add(node.rest)
        self.generic_visit(node)
