"""Reads a command from the words that were typed: its dataclass says which there are.

A field is an option (`--control-hz` for `control_hz`), or a word in its place where it is `Positional`. A
field that is itself a dataclass brings its own options along. What does not fit is refused in a sentence.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from surefoot.contract import SurefootError

T = TypeVar("T")
POSITIONAL = "positional"
Positional = Annotated[T, POSITIONAL]
"""A value that is given by its place: `surefoot report RUN`."""

METAVARS = {
    "run_folder": "RUN", "run_folders": "RUN", "candidate": "RUN", "baseline": "RUN", "resume": "RUN",
    "over": "RUN", "registry": "FOLDER", "scenarios": "N",
    "envs": "N", "horizon": "T", "horizons": "T", "minibatches": "N", "epochs": "N", "families": "N",
    "eval_families": "N", "evaluate_every": "UPDATES", "updates": "N", "samples": "N", "seeds": "N",
    "family": "K", "hidden": "WIDTH", "control_hz": "HZ", "until": "RATE", "margin": "RATE",
    "success_return": "RETURN", "dollars_per_hour": "PRICE", "out": "PATH", "video": "FILE", "trace": "FILE",
    "config": "FILE", "save": "FILE", "perturb": "COLUMN", "perturbation": "COLUMN", "panel_half": "HALF",
    "batch": "B", "learner_ms": "MS", "actor_rate": "RATE", "actors": "M", "bytes_per_transition": "BYTES",
    "link_gbytes": "GBYTES", "envs_per_actor": "N", "max_lag": "K", "ray": "ADDRESS",
    "patience_s": "SECONDS",
    "learners": "LEARNER", "runs": "FOLDER", "host": "ADDRESS", "where": "EVALUATION",
    "mirror": "True|False", "windows": "K",
}  # fmt: skip
"""What stands for an option's value in help, where it is not the option's own name in capitals."""
NUMBERS: dict[type, str] = {int: "a whole number", float: "a number"}
SHORT = 24
"""Choices that fit into so many characters are written out; longer ones are listed in the help."""


@dataclass(frozen=True)
class Option:
    """One field of a command, as it is typed."""

    path: tuple[str, ...]
    """The field's name; before it the one of the field that its dataclass is in."""
    kind: type
    many: bool
    positional: bool
    choices: tuple[str, ...]
    default: Any
    """dataclasses.MISSING where a value must be given."""

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def switch(self) -> bool:
        """Whether it takes no value: `--json`, and `--no-json`."""
        return self.kind is bool and isinstance(self.default, bool)

    @cached_property
    def metavar(self) -> str:
        listed = "{" + ",".join(self.choices) + "}"
        if self.choices and self.kind is str and len(listed) <= SHORT and not self.positional:
            return listed
        return METAVARS.get(self.name, self.name.upper().replace("_", "-"))

    def value(self, word: str) -> Any:
        """Returns what a word means here."""
        who = self.metavar if self.positional else self.flag
        if self.choices and word not in self.choices:
            near = difflib.get_close_matches(word, self.choices, n=1)
            hint = f"did you mean '{near[0]}'? There are" if near else "choose one of"
            raise SurefootError(f"{who} cannot be '{word}'; {hint}: {', '.join(self.choices)}.")
        if self.kind is bool:
            return word == "True"
        try:
            return self.kind(word)
        except ValueError:
            raise SurefootError(f"{who} takes {NUMBERS[self.kind]}, not '{word}'.") from None


def options_of(command: type, path: tuple[str, ...] = ()) -> tuple[Option, ...]:
    """Returns the options of a command, those of dataclasses inside it in their place."""
    hints = get_type_hints(command, include_extras=True)
    out: list[Option] = []
    for field in dataclasses.fields(command):
        hint, marks = hints[field.name], list[Any]()
        if get_origin(hint) is Annotated:
            hint, *marks = get_args(hint)
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type)
            out += options_of(hint, (*path, field.name))
            continue
        kind, many, choices = _kind(hint)
        where = (*path, field.name)
        out.append(Option(where, kind, many, POSITIONAL in marks, choices, field.default))
    return tuple(out)


def _kind(hint: Any) -> tuple[type, bool, tuple[str, ...]]:
    """Returns the type of one value, whether there may be many, and the only ones that there are."""
    if get_origin(hint) in (types.UnionType, Union):
        (hint,) = (h for h in get_args(hint) if h is not type(None))
        if hint is bool:
            return bool, False, ("True", "False")
    if get_origin(hint) is tuple:
        kind, _, choices = _kind(get_args(hint)[0])
        return kind, True, choices
    if get_origin(hint) is Literal:
        return str, False, get_args(hint)
    assert hint in (str, int, float, bool), f"no option is of type {hint}"
    return hint, False, ()


def parse(command: type[T], words: Sequence[str], called: str) -> T:
    """Returns the command that `words` ask for; `called` is what was typed before them."""
    options = options_of(command)
    given: dict[Option, Any] = {}
    left, free, last = list(words), [], None
    while left:
        word = left.pop(0)
        if word == "--":
            free += left
            break
        if not word.startswith("--"):
            free.append(word)
            continue
        flag, equals, value = word.partition("=")
        option, on = _find(options, flag, called)
        if option.switch:
            if equals:
                raise SurefootError(f"{flag} takes no value; leave out '{equals}{value}'.")
            given[option] = on
            continue
        values = [value] if equals else _values(left, option.many)
        if not values:
            raise SurefootError(f"{option.flag} needs a value: {option.flag} {option.metavar}.")
        if option.many:
            given[option] = given.get(option, ()) + tuple(option.value(v) for v in values)
            last = (option, values)
        else:
            given[option] = option.value(values[0])
    given |= _places(options, free, called, last)
    return _build(command, {o.path: v for o, v in given.items()})


def _find(options: Sequence[Option], flag: str, called: str) -> tuple[Option, bool]:
    """Returns the option that a flag names, and whether it is switched on by it."""
    typed = flag.replace("_", "-")
    named = {o.flag: (o, True) for o in options if not o.positional}
    named |= {o.flag.replace("--", "--no-", 1): (o, False) for o in options if o.switch}
    if typed in named:
        return named[typed]
    near = difflib.get_close_matches(typed, named, n=1, cutoff=0.65)
    hint = f"did you mean {near[0]}?" if near else f"`{called} --help` lists those that there are."
    raise SurefootError(f"`{called}` has no option {flag}; {hint}")


def _values(left: list[str], many: bool) -> list[str]:
    """Takes the values of an option from the words that follow it."""
    values: list[str] = []
    while left and not left[0].startswith("--") and (many or not values):
        values.append(left.pop(0))
    return values


def _places(
    options: Sequence[Option], free: list[str], called: str, last: tuple[Option, list[str]] | None
) -> dict[Option, Any]:
    """Gives every word without an option its place; `last` is the last option that took several words."""
    out: dict[Option, Any] = {}
    places = [o for o in options if o.positional]
    for o in places:
        if o.many:
            out[o] = tuple(o.value(word) for word in free)
            free = []
        elif free:
            out[o] = o.value(free.pop(0))
        elif o.default is dataclasses.MISSING:
            took = f" (before {last[0].flag}, which took '{' '.join(last[1])}')" if last else ""
            raise SurefootError(
                f"`{called}` needs {o.metavar}{took}; `{called} --help` has an example."
            ) from None
    if free:
        takes = " ".join(o.metavar for o in places)
        raise SurefootError(
            f"`{called}` takes {f'{takes} and options' if takes else 'nothing but options'}; "
            f"'{free[0]}' is too much."
        )
    return out


def _build(command: type[T], given: dict[tuple[str, ...], Any]) -> T:
    """Makes the command with the values that were given, by path, and the defaults of all others."""
    values = {path[0]: v for path, v in given.items() if len(path) == 1}
    defaults: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(command)}  # type: ignore[arg-type]
    for name in {path[0] for path in given if len(path) > 1}:
        inner = {path[1]: v for path, v in given.items() if path[0] == name and len(path) > 1}
        values[name] = dataclasses.replace(defaults[name], **inner)
    return command(**values)
