"""Runs the commands that stand in documents and puts what they print below them.

    python docs/capture.py docs/tutorial.md                  # minutes: it trains twice
    python docs/capture.py docs/exercises/*.md               # seconds
    python docs/capture.py docs/tutorial.md --work /tmp/t    # keeps the runs there

A captured block looks like this; every line that begins with `$ ` is run, in order, in one scratch folder:

    <!-- captured -->
    ```console
    $ surefoot plan walk-flat --envs 2048
    ... what it printed
    ```
    <!-- captured: end -->

`<!-- captured keep=REGEX -->` keeps only the lines in which the pattern is found, with `...` for the others.
`<!-- captured measured -->` says that its numbers are this machine's: a test compares only its words.
`<!-- picture PAGE -->` above an image takes the image anew, of an HTML page in that folder (needs Chromium).
`<!-- when -->...<!-- when: end -->` becomes a sentence that says when and where all of this was.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 80
BLOCK = re.compile(
    r"<!-- captured(?P<how>[^>]*?) -->\n```console\n(?P<shown>.*?)```\n<!-- captured: end -->", re.DOTALL
)
PICTURE = re.compile(r"<!-- picture (?P<page>\S+) -->\n!\[[^]]*\]\((?P<image>[^)]+)\)")
WHEN = re.compile(r"<!-- when -->.*?<!-- when: end -->", re.DOTALL)
NUMBER = re.compile(r"[+-]?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """One captured block of a document."""

    how: str
    """What stands after `captured`."""
    shown: str
    """Commands and outputs, as they stand in the text."""

    @property
    def commands(self) -> list[str]:
        return [line[2:] for line in self.shown.splitlines() if line.startswith("$ ")]

    @property
    def measured(self) -> bool:
        return "measured" in self.how

    def text(self, run: Callable[[str], str]) -> str:
        """What should stand in the document, with every command run again by `run`."""
        parts = [f"$ {c}\n{self.kept(run(c))}" for c in self.commands]
        return "\n".join(p.rstrip() + "\n" for p in parts)

    def kept(self, output: str) -> str:
        lines = [line.rstrip() for line in output.strip("\n").splitlines()]
        found = re.search(r"keep=(\S+)", self.how)
        if found is None:
            return "\n".join(lines)
        shown = [line if re.search(found[1], line) else "..." for line in lines]
        once = [line for k, line in enumerate(shown) if line != "..." or shown[k - 1 : k] != ["..."]]
        return "\n".join(once)

    def compared(self, shown: str) -> str:
        """What must be the same on any machine: all of it, or the words of what was measured."""
        return " ".join(re.sub(r"[-─]{3,}", "-", NUMBER.sub("#", shown)).split()) if self.measured else shown


def blocks(document: str) -> list[Block]:
    return [Block(m["how"].strip(), m["shown"]) for m in BLOCK.finditer(document)]


def shell(work: Path) -> Callable[[str], str]:
    """Runs a command as a reader would in the repository's folder, with the programs of this Python."""
    for name in ("docs", "examples"):
        if not (work / name).exists():
            (work / name).symlink_to(ROOT / name)
    path = os.pathsep.join([str(work), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"COLUMNS": str(WIDTH), "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    program = work / "surefoot"  # this folder's, whatever is installed
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m surefoot "$@"\n')
    program.chmod(0o755)

    def run(command: str) -> str:
        print(f"$ {command}", flush=True)
        done = subprocess.run(command, shell=True, cwd=work, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    return run


def photograph(page: Path, image: Path) -> None:
    """Takes a picture of the top of a page, as a screen of ordinary size shows it in the light."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    flags = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        view = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        view.goto(page.resolve().as_uri())
        view.wait_for_timeout(2000)
        view.screenshot(path=image)
        browser.close()


def here() -> str:
    """Today, this machine and this version of the code, in a sentence."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    day = f"{datetime.now(UTC):%d %B %Y}".lstrip("0")
    cpu = names[0].replace("(R)", "") if names else platform.machine()
    return f"Captured on {day} on {os.cpu_count()} cores of an {cpu}, commit {commit}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, help="folder that the commands run in, kept afterwards")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for path in args.documents:
            work = args.work or Path(scratch) / path.stem
            work.mkdir(parents=True, exist_ok=True)
            run, document = shell(work), path.read_text()

            def filled(m: re.Match[str], run: Callable[[str], str] = run) -> str:
                block = Block(m["how"].strip(), m["shown"])
                return m[0].replace(m["shown"], block.text(run))

            document = BLOCK.sub(filled, document)
            for m in PICTURE.finditer(document):
                photograph(work / m["page"], path.parent / m["image"])
            path.write_text(WHEN.sub(f"<!-- when -->{here()}<!-- when: end -->", document))


if __name__ == "__main__":
    main()
