"""Digests of what functions do: their own source, and that of everything they reach.

Followed are helpers, methods, nested and wrapped functions, partials, classes, callable objects, closures,
default arguments, constants of any kind and imports, across modules and packages. Not followed are Python's
own library and the packages of `KNOWN_BY_NAME`, which stand for themselves by name, and what a function is
given: its arguments. Values are those of now, so a function that keeps state in globals has another digest
after it ran; a function of a contract keeps none.
"""

from __future__ import annotations

import ast
import copyreg
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from surefoot.contract.errors import SurefootError
from surefoot.contract.syntax import Chain, class_nodes, function_node, names_of, parsed, text_of

KNOWN_BY_NAME = frozenset(
    {
        "torch", "numpy", "scipy", "mujoco", "warp", "jax", "jaxlib", "gymnasium", "pydantic",
        "pydantic_core", "rich", "pyarrow", "safetensors",
    }
)  # fmt: skip
"""Packages whose functions are what they are called; their versions stand in run.json."""
_LOOKS_ANYWHERE = {"globals", "eval", "exec", "vars", "__import__"}
"""Builtins that reach what no name shows: a function that uses one stands for its whole module."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_BUILT_FROM = (dict, list, tuple, set, frozenset, int, float, complex, str, bytes)
_UNWRAPPED = (staticmethod, classmethod, property, functools.cached_property, functools.partialmethod)


def behaviour_digest(roots: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of what `roots` do, by their names: functions, classes, callable objects. Comments,
    docstrings, annotations and formatting do not count, nor does the version of Python (3.11 to 3.13)."""
    sha = hashlib.sha256()
    for name in sorted(roots):
        if isinstance(roots[name], types.BuiltinFunctionType | types.MethodDescriptorType):
            raise _unreadable(name)
        for part in _Walk(name).describe(roots[name]):
            sha.update(part.encode() + b"\0")
        sha.update(f"\n{name}\n".encode())
    return sha.hexdigest()


def package_digest(*packages: str) -> str:
    """Returns the SHA-256 of all source of packages (or modules) by their names, file by file, read as
    `behaviour_digest` reads it; what they use of others is not followed. It stands for the version of what
    has none of its own."""
    sha = hashlib.sha256()
    for package in packages:
        found = importlib.util.find_spec(package)
        own = Path(str(found.origin if found else package))
        files = sorted(own.parent.rglob("*.py")) if own.name == "__init__.py" else [own]
        for file in files:
            text = text_of(parsed(file.read_text("utf-8")))
            sha.update(f"{package} {file.relative_to(own.parent).as_posix()}\n{text}\n".encode())
    return sha.hexdigest()


def _unreadable(name: str) -> SurefootError:
    return SurefootError(
        f"The source of '{name}' cannot be read, so nobody could say what it does; define it with def in a "
        "file."
    )


def _known_by_name(module: str | None) -> bool:
    package = (module or "builtins").split(".")[0]
    return package in KNOWN_BY_NAME or package in sys.stdlib_module_names


class _Walk:
    """Goes through everything that one root reaches, each thing once, in an order that only the source
    gives."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[int, tuple[int, Any]] = {}  # keeps what it has seen, so that no id is used twice
        self.inside: set[int] = set()

    def describe(self, value: Any) -> Iterator[str]:
        """Yields the parts of a description of `value`."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, types.ModuleType):
            yield from self._module(value)
        elif type(value) in (tuple, list, dict, set, frozenset, types.MappingProxyType):
            yield from self._container(value)
        elif id(value) in self.seen:
            yield f"again {self.seen[id(value)][0]}"
        else:
            self.seen[id(value)] = (len(self.seen), value)
            yield from self._thing(value)

    def _thing(self, value: Any) -> Iterator[str]:
        if isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, types.MethodType):
            yield "method"
            yield from self._each((value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            yield "partial"
            yield from self._each((value.func, value.args, value.keywords))
        elif isinstance(value, _UNWRAPPED):
            parts = ("__func__", "fget", "fset", "fdel", "func", "args", "keywords")
            yield type(value).__name__
            yield from self._each(getattr(value, p) for p in parts if hasattr(value, p))
        elif isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType):
            yield from self._builtin(value)
        elif _known_by_name(type(value).__module__) and hasattr(
            value, "__wrapped__"
        ):  # functools.cache, its like
            yield f"wrapped by {type(value).__name__}"
            yield from self.describe(value.__wrapped__)
        elif isinstance(value, enum.Enum):
            yield f"member {value.name}"
            yield from self._each((type(value), value.value))
        elif isinstance(value, PurePath):
            yield f"path {value.name} {_contents(value)}"
        elif hasattr(value, "__array__") and type(value).__module__.split(".")[0] in KNOWN_BY_NAME:
            yield from self._array(value)
        else:
            yield from self._object(value)

    def _each(self, values: Iterable[Any]) -> Iterator[str]:
        for value in values:
            yield from self.describe(value)

    # ---- code

    def _function(self, f: types.FunctionType) -> Iterator[str]:
        code = f.__code__
        module = f.__globals__.get("__name__")
        if module in sys.modules and vars(sys.modules[module]) is f.__globals__ and _known_by_name(module):
            yield f"function {module}.{code.co_qualname}"
            yield from self._each(_cells(f).values())  # what a library's wrapper wraps
            return
        tree = _tree(code.co_filename, f.__globals__)
        node = function_node(tree, code) if tree else None
        if node is None:
            raise _unreadable(
                f"{self.root}" if code.co_name == self.root else f"{self.root} ({code.co_name})"
            )
        yield text_of(node)
        yield from self._each((f.__defaults__, f.__kwdefaults__))
        # Its own attributes, which it may read.
        yield from self._each((k, v) for k, v in sorted(vars(f).items()) if k != "__wrapped__")
        yield from self._names(node, _cells(f), f.__globals__)

    def _names(self, node: ast.AST, cells: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
        """Describes what the names that a definition takes from outside stand for."""
        names = names_of(node)
        local = dict(_imported(names.imports, space))
        for chain, scopes in (
            *((c, (cells, space)) for c in sorted(names.free)),
            *((c, (local,)) for c in sorted(names.imported)),
        ):
            scope = next((s for s in scopes if chain[0] in s), None)
            if scope is not None:
                yield from self._chain(chain, scope[chain[0]])
            elif chain[0] in _LOOKS_ANYWHERE:
                yield from self._whole(space)

    def _chain(self, chain: Chain, value: Any) -> Iterator[str]:
        """Describes what `a.b.c` ends at: attributes of modules and classes are taken, those of other values
        are part of the value."""
        taken = 1
        while taken < len(chain) and isinstance(value, types.ModuleType):
            if _known_by_name(value.__name__) or not hasattr(value, chain[taken]):
                break
            value = getattr(value, chain[taken])
            taken += 1
        yield f"name {'.'.join(chain[:taken])}"
        yield from self.describe(value)

    def _module(self, module: types.ModuleType) -> Iterator[str]:
        """A module that is used as a value may be asked for anything: all of it counts."""
        yield f"module {module.__name__}"
        if not _known_by_name(module.__name__) and id(module) not in self.seen:
            self.seen[id(module)] = (len(self.seen), module)
            yield from self._whole(vars(module))

    def _whole(self, space: Mapping[str, Any]) -> Iterator[str]:
        for name, value in sorted(space.items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                yield f"name {name}"
                yield from self.describe(value)

    def _builtin(self, f: Any) -> Iterator[str]:
        """A compiled function: by its name where its package is known by name, else by the file it is in."""
        module = getattr(f, "__module__", None) or getattr(f, "__objclass__", type(f)).__module__
        yield f"compiled {module}.{f.__qualname__}"
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            yield from self.describe(owner)
        elif not _known_by_name(module):
            yield _contents(PurePath(getattr(sys.modules.get(module), "__file__", "") or ""))

    def _class(self, cls: type) -> Iterator[str]:
        yield f"class {cls.__module__}.{cls.__qualname__}" if _known_by_name(cls.__module__) else "class"
        if _known_by_name(cls.__module__):
            return
        module = sys.modules.get(cls.__module__)
        space = vars(module) if module else {}
        tree = _tree(getattr(module, "__file__", "") or "", space)
        nodes = class_nodes(tree, cls.__qualname__) if tree else []
        yield from (text_of(n) for n in nodes)
        yield from self._each(cls.__bases__)
        for node in nodes:
            yield from self._names(node, _class_cells(cls), space)
        yield from self._attributes(cls, nodes, getattr(module, "__file__", None))

    def _attributes(self, cls: type, nodes: list[ast.ClassDef], file: str | None) -> Iterator[str]:
        """Describes what a class has now and its source does not show: constants and methods that were put
        there from outside."""
        spans = [range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in nodes]
        for name, value in sorted(vars(cls).items()):
            if name.startswith("model_") or (name.startswith("_") and name.endswith("_")):
                continue  # what pydantic, enumerations and Python itself keep
            if type(value) in (*_PLAIN, tuple, list, dict, set, frozenset):
                yield f"has {name}"
                yield from self.describe(value)
            for f in _functions(value):  # methods that were put there from outside
                code = f.__code__
                own = code.co_filename == file
                made = code.co_filename.startswith("<") or _known_by_name(f.__globals__.get("__name__"))
                if not made and not (own and any(code.co_firstlineno in s for s in spans)):
                    yield f"put there {name}"
                    yield from self.describe(f)

    # ---- values

    def _container(self, value: Any) -> Iterator[str]:
        if id(value) in self.inside:
            yield "cycle"
            return
        self.inside.add(id(value))
        yield f"{type(value).__name__} {len(value)}"
        if isinstance(value, Mapping):
            yield from self._each(part for item in value.items() for part in item)
        elif isinstance(value, set | frozenset):
            yield from sorted("\1".join(_Walk(self.root).describe(v)) for v in value)
        else:
            yield from self._each(value)
        self.inside.discard(id(value))

    def _array(self, value: Any) -> Iterator[str]:
        detached = value.detach().cpu() if hasattr(value, "detach") else value
        array = detached.__array__()
        yield f"array {array.dtype.str} {array.shape}"
        yield from self.describe(array.tolist() if array.dtype.hasobject else array.tobytes())

    def _object(self, value: Any) -> Iterator[str]:
        """An object: its class, and its state. Where the class is known by name, what a pickle of it says."""
        cls = type(value)
        yield "object"
        yield from self.describe(cls)
        if not _known_by_name(cls.__module__):
            plain: Any = next((t for t in _BUILT_FROM if isinstance(value, t)), None)
            if plain is not None:  # a mapping, a tuple, a number of its own
                yield from self.describe(plain(value))
            yield from self._each((k, v) for k, v in sorted(_state(value).items()))
            return
        try:
            reduce = copyreg.dispatch_table.get(cls)
            reduced = reduce(value) if reduce else value.__reduce_ex__(2)
        except (TypeError, AttributeError, ValueError, RuntimeError):  # a lock, a stream: nothing to be read
            return
        if isinstance(reduced, str):
            yield reduced
            return
        yield from self._each(list(p) if isinstance(p, Iterator) else p for p in reduced)


def _cells(f: types.FunctionType) -> dict[str, Any]:
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _filled(cell)}


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _class_cells(cls: type) -> dict[str, Any]:
    """What the methods of a class that was made in a function take from there."""
    cells: dict[str, Any] = {}
    for value in vars(cls).values():
        for f in _functions(value):
            cells |= _cells(f)
    return {k: v for k, v in cells.items() if k != "__class__"}


def _functions(value: Any) -> list[types.FunctionType]:
    """The functions behind an attribute of a class."""
    parts = (getattr(value, p, None) for p in ("__func__", "fget", "fset", "fdel", "func"))
    candidates = [value] if isinstance(value, types.FunctionType) else list(parts)
    return [f for f in candidates if isinstance(f, types.FunctionType)]


def _state(value: Any) -> dict[str, Any]:
    """An object's attributes, but for what a cached property has left there."""
    cls, state = type(value), dict(getattr(value, "__dict__", {}))
    for base in cls.__mro__:
        if not _known_by_name(base.__module__):
            slots = vars(base).get("__slots__", ())
            slots = (slots,) if isinstance(slots, str) else slots
            state |= {s: getattr(value, s) for s in slots if hasattr(value, s)}
    cached = {k for k in state if isinstance(inspect.getattr_static(cls, k, None), functools.cached_property)}
    told = {k for k in state if k.startswith("__") and k != "__wrapped__"}  # a docstring, a name
    return {k: v for k, v in state.items() if k not in cached | told}


def _tree(file: str, space: dict[str, Any]) -> ast.Module | None:
    linecache.checkcache(file)
    lines = linecache.getlines(file, space)
    return parsed("".join(lines)) if lines else None


def _imported(
    nodes: Iterable[ast.Import | ast.ImportFrom], space: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yields what imports within a function bring, by the name it has there."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for a in node.names:
                module = _load(a.name if a.asname else a.name.split(".")[0])
                yield a.asname or a.name.split(".")[0], module
            continue
        name = "." * node.level + (node.module or "")
        module = _load(
            importlib.util.resolve_name(name, str(space.get("__package__") or "")) if node.level else name
        )
        for a in node.names:
            found = getattr(module, a.name, None)
            yield (
                a.asname or a.name,
                _load(f"{module.__name__}.{a.name}") if found is None and module else found,
            )


def _load(name: str) -> types.ModuleType | None:
    """Returns a module; None where it is not installed, as the function would find out."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _contents(path: PurePath) -> str:
    """Digest of a file that a function reads or is in; where there is none, nothing can be said."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "no file"
