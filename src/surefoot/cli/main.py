"""Train legged robots in thousands of parallel environments, and prove what they learned."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from surefoot import __version__
from surefoot.cli.complete import candidates
from surefoot.cli.completion import COMPLETE
from surefoot.cli.help import help_text
from surefoot.cli.parser import parse
from surefoot.cli.verbs import Group, find
from surefoot.compute import missing_package
from surefoot.contract import SurefootError
from surefoot.printing import make_console, say

HELP = {"-h", "--help"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line. Errors that a user can cause are one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path need not be text that all terminals have
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), make_console())
    except SurefootError as error:
        code = _refused(error)
    except ImportError as error:
        package = missing_package(error)
        if package is None:
            raise
        needs = f"This command needs {package[0]}, which cannot be imported here ({error})"
        code = _refused(SurefootError(f"{needs}; install all that training needs: pip install surefoot."))
    # Outside the training loop, which handles it itself: nothing is lost, files are whole.
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        code = 0
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    except OSError as error:
        from surefoot.artifacts import cannot_use  # here: numpy and pyarrow would slow every --help

        refusal = cannot_use(error)
        if refusal is None:
            raise
        code = _refused(refusal)
    sys.exit(code)


def _run(words: list[str], console: Console) -> int:
    if words[:1] == [COMPLETE]:
        for word in candidates(words[1:]):
            print(word)
        return 0
    if words[:1] == ["--version"]:
        print(f"surefoot {__version__}")
        return 0
    called, command = find(words)
    asked = words[: words.index("--")] if "--" in words else words
    if HELP & set(asked):
        print(help_text(called, console.width))
        return 0
    if command is None and words:
        raise SurefootError(
            f"'{words[0]}' is no command; `surefoot --help` lists them, and options come behind one."
        )
    if command is None or isinstance(command, Group):
        print(help_text(called, console.width), file=sys.stderr)
        return 2
    code: int = parse(command, words[len(called) :], " ".join(("surefoot", *called))).run(console)
    return code


def _refused(error: SurefootError) -> int:
    say(make_console(stderr=True), f"[red]surefoot:[/red] {escape(str(error))}", markup=True)
    return 2
