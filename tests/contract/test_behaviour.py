"""Digests of what functions do: changed by anything that changes it, and by nothing else."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import ast
import hashlib
import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surefoot.contract import SurefootError, behaviour_digest
from surefoot.contract.syntax import parsed, text_of

NUMBER = itertools.count()
Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports `text` as a module of a package of its own, whose other modules are `others`."""

    def made(text: str, **others: str) -> ModuleType:
        name = "grown"
        folder = tmp_path / f"{next(NUMBER)}" / name
        folder.mkdir(parents=True)
        for file, content in {"__init__": "", "terms": text, **others}.items():
            (folder / f"{file}.py").write_text(textwrap.dedent(content))
        for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            del sys.modules[module]
        monkeypatch.syspath_prepend(str(folder.parent))
        return importlib.import_module(f"{name}.terms")

    return made


def of(module: ModuleType, name: str = "f") -> str:
    return behaviour_digest({"f": getattr(module, name)})


# ---- what does not count

SAID = """
from math import pi

LIMIT = 0.5

def helper(x, y=2):
    return x * y + LIMIT

def f(v):
    if v > LIMIT:
        return helper(v) + pi
    return -1
"""
SAME = {
    "comments": SAID.replace("return -1", "return -1  # below the limit"),
    "docstrings": SAID.replace("def f(v):\n", 'def f(v):\n    """Says\n    much."""\n').replace(
        "def helper(x, y=2):\n", 'def helper(x, y=2):\n    "Helps."\n'
    ),
    "annotations": SAID.replace("def f(v):", "def f(v: float) -> float:"),
    "formatting": SAID.replace("x * y + LIMIT", "(\n        x*y\n        + LIMIT\n    )").replace(
        "0.5", "0.50"
    ),
    "order of definitions": SAID.replace("LIMIT = 0.5\n", "") + "\nLIMIT = 0.5\n",
    "what it does not use": SAID + "\nOTHER = 3\n\ndef g():\n    return OTHER\n",
    "quotes and pass": SAID.replace("return -1", "pass\n    ...\n    return -1"),
}


@pytest.mark.parametrize("what", SAME)
def test_how_it_is_written_does_not_count(load: Load, what: str) -> None:
    assert of(load(SAME[what])) == of(load(SAID))


# ---- what does


CHANGES = {
    "a constant": (SAID, "LIMIT = 0.5", "LIMIT = 0.6"),
    "its type": (SAID, "LIMIT = 0.5", "LIMIT = '0.5'"),
    "an operator": (SAID, "v > LIMIT", "v >= LIMIT"),
    "a helper": (SAID, "x * y", "x / y"),
    "a default": (SAID, "y=2", "y=3"),
    "an import": (SAID, "import pi", "import e as pi"),
    "a dictionary": ("A = {'x': [1, {2}]}\ndef f(v): return A['x'][0] * v", "[1,", "[7,"),
    "a nested function": ("def f(v):\n    def g(x): return x + 1\n    return g(v)", "x + 1", "x - 1"),
    "a function's constant": ("def g(): return C\nC = (1, 2)\ndef f(v): return g()", "(1, 2)", "(1, 3)"),
    "a lambda in a table": ("T = {'a': lambda x: x, 'b': lambda x: 2 * x}\ndef f(v): return T['b'](v)", "2 * x", "3 * x"),
    "a partial": ("from functools import partial\ndef g(k, v): return k * v\nf = partial(g, 2)", "(g, 2)", "(g, 3)"),
    "a partial's function": ("from functools import partial\ndef g(k, v): return k * v\nf = partial(g, 2)", "k * v", "k + v"),
    "a closure": ("def make(k):\n    def f(v): return k * v\n    return f\nf = make(2)", "make(2)", "make(3)"),
    "a wrapper": (
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def w(v): return g(v) * 1\n    return w\n"
        "@deco\ndef f(v): return v", "g(v) * 1", "g(v) * 100",
    ),
    "what is wrapped": (
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def w(v): return g(v) * 1\n    return w\n"
        "@deco\ndef f(v): return v", "return v", "return -v",
    ),
    "a decorator's argument": (
        "def scaled(k):\n    def deco(g):\n        def w(v): return k * g(v)\n        return w\n    return deco\n"
        "@scaled(1)\ndef f(v): return v", "@scaled(1)", "@scaled(0.01)",
    ),
    "what is cached": ("import functools\n@functools.cache\ndef g(): return 1\ndef f(v): return g()", "return 1", "return 2"),
    "a method": ("class A:\n    def at(self, v): return v + 1\ndef f(v): return A().at(v)", "v + 1", "v - 1"),
    "a base class": (
        "class B:\n    K = 1\n    def at(self, v): return v + self.K\nclass A(B): pass\ndef f(v): return A().at(v)",
        "K = 1", "K = 2",
    ),
    "a property": ("class A:\n    @property\n    def k(self): return 1\na = A()\ndef f(v): return a.k * v", "return 1", "return 2"),
    "a callable object": (
        "class A:\n    def __init__(self, k): self.k = k\n    def __call__(self, v): return self.k * v\nf = A(1)",
        "f = A(1)", "f = A(2)",
    ),
    "a wrapping object": (
        "import functools\nclass A:\n    def __init__(self, g, k):\n        functools.update_wrapper(self, g); self.k = k\n"
        "    def __call__(self, v): return self.k * self.__wrapped__(v)\ndef g(v): return v\nf = A(g, 1)",
        "A(g, 1)", "A(g, 2)",
    ),
    "a bound method": (
        "class A:\n    def __init__(self, k): self.k = k\n    def at(self, v): return self.k * v\nf = A(1).at",
        "A(1)", "A(2)",
    ),
    "an object with slots": (
        "class A:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\na = A(1)\ndef f(v): return a.k",
        "A(1)", "A(2)",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass L:\n    a: float = 1.0\n    b: float = 2.0\nL0 = L(b=3.0)\n"
        "def f(v): return L0.b", "b=3.0", "b=4.0",
    ),
    "a dataclass's default": (
        "from dataclasses import dataclass\n@dataclass\nclass L:\n    a: float = 1.0\ndef f(v): return L().a",
        "1.0", "1.5",
    ),
    "a named tuple": (
        "from collections import namedtuple\nL = namedtuple('L', 'a b')\nL0 = L(1, 2)\ndef f(v): return L0.b", "(1, 2)", "(1, 3)",
    ),
    "an enumeration": (
        "from enum import Enum\nclass E(Enum):\n    A = 1\n    B = 2\nK = E.A\ndef f(v): return K.value", "K = E.A", "K = E.B",
    ),
    "an array": ("import numpy as np\nA = np.array([1.0, 2.0])\ndef f(v): return A * v", "2.0", "3.0"),
    "a tensor": ("import torch\nA = torch.tensor([1.0, 2.0])\ndef f(v): return A * v", "2.0", "3.0"),
    "a pattern": ("import re\nP = re.compile('a+')\ndef f(v): return P.match(v)", "a+", "a*"),
    "a namespace": ("from types import SimpleNamespace\nN = SimpleNamespace(k=1)\ndef f(v): return N.k", "k=1", "k=2"),
    "an f-string": ("def f(v): return f'{v:.2f} m'", ".2f", ".3f"),
    "a function's attribute": ("def f(v): return f.k * v\nf.k = 1", "f.k = 1", "f.k = 2"),
    "what is found by name": (
        "def g_a(v): return v\ndef f(v): return globals()['g_a'](v)", "g_a(v): return v", "g_a(v): return -v",
    ),
    "a class made within": (
        "def make(k):\n    class A:\n        def at(self, v): return k * v\n    return A()\nf = make(1).at", "make(1)", "make(2)",
    ),
    "a default of a comprehension's name": ("x = [1, 2]\ndef f(v): return [x for x in x]", "[1, 2]", "[1, 3]"),
    "a static method": ("class A:\n    @staticmethod\n    def at(v): return v\nf = A.at", "return v", "return -v"),
    "a keyword default": ("def f(v, *, k=1): return v * k", "k=1", "k=2"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_it_does_counts(load: Load, what: str) -> None:
    text, old, new = CHANGES[what]
    assert old in text
    before, again, after = of(load(text)), of(load(text)), of(load(text.replace(old, new, 1)))
    assert before == again
    assert before != after


IMPORTS = (
    "from grown.helpers import g\ndef f(v): return g(v)",
    "from grown import helpers\ndef f(v): return helpers.g(v)",
    "import grown.helpers\ndef f(v): return grown.helpers.g(v)",
    "def f(v):\n    from .helpers import g\n    return g(v)",
    "def f(v):\n    import grown.helpers as h\n    return h.g(v)",
    "from . import helpers\ndef f(v): return getattr(helpers, 'g')(v)",
)


@pytest.mark.parametrize("text", IMPORTS)
def test_helpers_of_other_modules_are_followed(load: Load, text: str) -> None:
    helpers = "from grown.deeper import K\ndef g(v): return K * v"
    one = of(load(text, helpers=helpers, deeper="K = 1"))
    assert one == of(load(text, helpers="# why\n" + helpers, deeper="K = 1"))
    assert one != of(load(text, helpers=helpers, deeper="K = 2"))
    assert one != of(load(text, helpers=helpers.replace("K * v", "K + v"), deeper="K = 1"))


def test_what_was_put_in_its_place_while_running_counts(load: Load) -> None:
    text = "K = 1\nclass A:\n    C = 1\n    def at(self, v): return v\ndef h(v): return K\ndef f(v): return A().at(h(v))"
    other = "def h(v): return 9\ndef at(self, v): return 9"
    plain = of(load(text))
    for change in (
        lambda m: setattr(m, "K", 2),
        lambda m: setattr(m, "h", m.others.h),
        lambda m: setattr(m.A, "at", m.others.at),
        lambda m: setattr(m.A, "C", 2),
    ):
        module = load(text, others=other)
        module.others = importlib.import_module("grown.others")
        assert of(module) == plain
        change(module)
        assert of(module) != plain


def test_a_recursive_pair_has_a_digest(load: Load) -> None:
    text = "def g(v): return f(v - 1)\ndef f(v): return g(v) if v else 0\nL = []\nL.append(L)"
    assert of(load(text)) != of(load(text.replace("v - 1", "v - 2")))
    assert of(load("L = []\nL.append(L)\ndef f(v): return L"))


def test_what_cannot_be_read_is_refused(load: Load) -> None:
    module = load("space = {}\nexec('def f(v): return v', space)\nf = space['f']")
    for root in (module.f, len):
        with pytest.raises(SurefootError, match="define it with def in a file"):
            behaviour_digest({"f": root})


def test_two_lambdas_of_a_line_are_told_apart(load: Load) -> None:
    module = load("fs = [lambda v: v, lambda v: -v, lambda v: (lambda: v)()]")
    assert len({behaviour_digest({"f": f}) for f in module.fs}) == 3


# ---- any change, and any way of writing

names = st.sampled_from(["a", "b", "c"])
numbers = st.one_of(st.integers(0, 99), st.floats(0, 9, allow_nan=False).map(lambda x: round(x, 3)))
leaves = st.one_of(names, numbers.map(repr))
expressions = st.recursive(
    leaves,
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from(["+", "-", "*", "//", "<", "and"]), e).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(e, e).map(lambda t: f"max({t[0]}, {t[1]})"),
        e.map(lambda x: f"helper({x}, k={x})"),
        st.tuples(e, e, e).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=12,
)
PRINTED = st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\')
FREE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(expression: str) -> str:
    return f"def f(a, b, c):\n    x = {expression}\n    return x\n"


@FREE
@given(expressions, st.integers(0, 3), st.text(PRINTED, max_size=12))
def test_no_way_of_writing_counts(expression: str, blank: int, words: str) -> None:
    plain = written(expression)
    other = plain.replace(
        "    x = ", f'    "{words}"\n' + "\n" * blank + f"    # {words}\n    x = (\n        ", 1
    )
    other = other.replace("\n    return", "\n    )  # " + words.strip() + "\n\n    return", 1)
    tree, again = (parsed(t).body[0] for t in (plain, other))
    assert text_of(tree) == text_of(again)
    assert text_of(parsed(ast.unparse(tree)).body[0]) == text_of(tree)


@FREE
@given(expressions, expressions)
def test_other_expressions_have_other_texts(one: str, two: str) -> None:
    same = ast.dump(ast.parse(one)) == ast.dump(ast.parse(two))
    assert (text_of(parsed(written(one))) == text_of(parsed(written(two)))) == same


def test_the_text_is_the_same_in_every_python() -> None:
    """Pinned: a version of Python that reads or writes trees otherwise shows here. Syntax whose trees changed
    between 3.11 and 3.13 is in it: f-strings, type parameters' empty lists, comprehensions, star expressions."""
    text = (
        "class A(B, k=1):\n    x: int = 3\n    def m(self, *a, y=(1, *b), **k):\n        return [i async for i in a]\n"
        "async def f(v, /, w: int = 2, *, z=None) -> str:\n    '''doc'''\n"
        "    try:\n        return f'{v!r:>{w}}{{}}' 'x' f\"{z=}{v:}\"\n    except* E as e:\n        pass\n"
        "    match v:\n        case {'a': 1, **rest} if rest: return rest[1:2, ...]\n        case [1, *_] | None: ...\n"
        "    return lambda q=-1: {**q, 'u': u'u', b'b': 1e3, 2j: True}\n"
    )
    assert hashlib.sha256(text_of(parsed(text)).encode()).hexdigest() == TEXT


def test_digests_are_the_same_in_every_python(load: Load) -> None:
    found = {what: of(load(text)) for what, (text, _, _) in CHANGES.items()}
    assert hashlib.sha256(repr(found).encode()).hexdigest() == DIGESTS


TEXT = "408cc5f410162c90beca82c8d4841e4a5f8e001cdf527df4d20b44b007d798c6"
DIGESTS = "2ca8dd2a118ccec4046b8329dabcfbbe198e6f65e71e748d95bc34cbd92c4472"
"""Both were seen to be the same under Python 3.11, 3.12 and 3.13."""
