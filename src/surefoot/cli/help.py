"""Writes the help of commands, from their dataclasses: what is said there is said once."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

from surefoot.cli.parser import Option, options_of
from surefoot.cli.verbs import CHAPTERS, VERBS, Group
from surefoot.printing import continued

WIDEST = 100
INDENT = 26
"""Where the help of an option begins, on a screen that is wide enough for two columns."""
FIRST_STEPS = (
    ("surefoot plan trot-flat", "what a run would do"),
    ("surefoot train trot-flat --until 0.95", "under a minute on two cores"),
    ("surefoot serve", "its report, in a browser"),
)


def help_text(called: tuple[str, ...], width: int = 80) -> str:
    """Returns the help of `surefoot` followed by the words `called`, in lines of at most `width`
    characters."""
    width = min(width, WIDEST)
    if not called:
        return "\n".join(_everything(width))
    asked = VERBS[called[0]]
    if isinstance(asked, Group) and len(called) == 1:
        return "\n".join(_group(called, asked, width))
    command = asked.verbs[called[1]] if isinstance(asked, Group) else asked
    return "\n".join(_command(called, command, width))


def summary(of: type | Group) -> str:
    """Returns the first sentence about a command or a group of them."""
    text = of.says if isinstance(of, Group) else paragraphs(of)[0]
    return re.split(r"(?<=[.?]) ", text)[0]


def examples(command: type) -> list[tuple[str, str]]:
    """Returns the examples of a command: what to type, and what is said about it."""
    found = (re.fullmatch(r"Example(?: \((.*?)\))?: (.*)", p) for p in paragraphs(command))
    return [(m[2], m[1] or "") for m in found if m]


def _everything(width: int) -> Iterator[str]:
    yield "usage: surefoot COMMAND ..."
    yield ""
    yield from _wrapped(
        "Train legged robots in thousands of parallel environments, and prove what they learned.", width
    )
    for title, verbs in CHAPTERS.items():
        yield from ("", title)
        for name, of in verbs.items():
            yield from _row(name, summary(of), width, indent=20)
    yield from ("", "First steps")
    yield from _typed(FIRST_STEPS, width)
    yield ""
    yield from _wrapped("surefoot COMMAND --help tells all about one; surefoot --version says which.", width)


def _group(called: tuple[str, ...], group: Group, width: int) -> Iterator[str]:
    yield f"usage: surefoot {called[0]} COMMAND ..."
    yield ""
    yield from _wrapped(group.says, width)
    yield from ("", "Commands")
    for name, command in group.verbs.items():
        yield from _row(name, summary(command), width, indent=20)
    yield from ("", "Examples")
    yield from _typed([e for command in group.verbs.values() for e in examples(command)], width)


def _command(called: tuple[str, ...], command: type, width: int) -> Iterator[str]:
    options = options_of(command)
    places = [o for o in options if o.positional]
    usage = ["usage: surefoot", *called, *map(_place, places), "[options]"]
    yield from _wrapped(" ".join(usage), width)
    shown = examples(command)
    for paragraph in paragraphs(command):
        if not paragraph.startswith("Example"):
            yield ""
            yield from _wrapped(paragraph, width)
    yield from ("", "Example" if len(shown) == 1 else "Examples")
    yield from _typed(shown, width)
    sections = {"Arguments": places} if places else {}
    for o in options:
        if not o.positional:
            sections.setdefault("Options" if len(o.path) == 1 else _about(command, o), []).append(o)
    docs = documents(command)
    for title in sorted(sections, key=lambda t: t not in ("Arguments", "Options")):
        yield ""
        yield from _wrapped(title, width)
        for o in sections[title]:
            yield from _row(typed_as(o), explained(o, docs[o.path]), width)


def documents(command: type, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Returns what is written below each field of a command, its own and inherited, by its path."""
    out: dict[tuple[str, ...], str] = {}
    for cls in reversed(command.__mro__[:-1]):  # all but object
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    out[(*path, name)] = " ".join(said.split())
    for inner in {o.path[0] for o in options_of(command) if len(o.path) > 1}:
        out |= documents(_inner(command, inner), (*path, inner))
    return out


def _inner(command: type, field: str) -> type:
    return type(command.__dataclass_fields__[field].default)  # type: ignore[attr-defined]


def _about(command: type, o: Option) -> str:
    return paragraphs(_inner(command, o.path[0]))[0]


def paragraphs(command: type) -> list[str]:
    """Returns what a command says about itself, examples among it."""
    return [" ".join(p.split()) for p in inspect.cleandoc(command.__doc__ or "").split("\n\n")]


def _place(o: Option) -> str:
    if o.many:
        return f"{o.metavar} [{o.metavar} ...]"
    return o.metavar if o.default not in ("", None) else f"[{o.metavar}]"


def typed_as(o: Option) -> str:
    """Returns how an option is typed, with what stands for its value."""
    if o.positional:
        return o.metavar
    if o.switch:
        return o.flag.replace("--", "--no-", 1) if o.default else o.flag
    return f"{o.flag} {o.metavar}" + (" ..." if o.many else "")


def explained(o: Option, text: str) -> str:
    """Returns what is said of an option: `text`, its choices, its default."""
    if o.choices and o.kind is str and not o.metavar.startswith("{"):
        text += f" One of: {', '.join(o.choices)}."
    empty = o.default in (None, "", ()) or not isinstance(o.default, str | int | float | tuple)
    if empty or o.switch or "default" in text:
        return text
    value = " ".join(map(str, o.default)) if isinstance(o.default, tuple) else o.default
    return f"{text} (default: {value})"


def _row(left: str, text: str, width: int, indent: int = INDENT) -> Iterator[str]:
    """Yields a name and what is said about it: beside it, or below it where there is no room."""
    narrow = width < 3 * indent
    if narrow:
        indent = 6
    lines = _wrapped(text, width - indent)
    if not narrow and len(left) <= indent - 4:
        yield f"  {left:<{indent - 2}}{lines[0]}"
        lines = lines[1:]
    else:
        yield from (f"  {line}" for line in _wrapped(left, width - 2))
    yield from (" " * indent + line for line in lines)


def _typed(commands: list[tuple[str, str]] | tuple[tuple[str, str], ...], width: int) -> Iterator[str]:
    for command, why in commands:
        yield from continued(command, why, width)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
