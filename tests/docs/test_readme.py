"""The README and the tutorial stay short and true: commands exist, files are there, figures fit together."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

import surefoot as package
from places import BENCHMARKS, ROOT
from tiny import surefoot

README = (ROOT / "README.md").read_text()
PAGES = ["README.md", "docs/tutorial.md", "docs/concepts.md", "docs/exercises/choose-under-a-budget.md"]
PAGES += ["docs/exercises/design-a-run.md", "docs/exercises/two-levels.md", "docs/exercises/index.md"]


def commands(text: str) -> set[tuple[str, tuple[str, ...]]]:
    """Verbs and options of the `surefoot` commands in a text."""
    lines = re.findall(r"^[ $]*(?:torchrun.*-m )?surefoot ([a-z].*?)(?: +#.*)?$", text, re.MULTILINE)
    found = set()
    for words in (shlex.split(re.sub(r"[<>;].*", "", line)) for line in lines):
        verb = words[: 2 if words[0] in ("study", "panel") else 1]
        found.add((" ".join(verb), tuple(w for w in words if w.startswith("--"))))
    return found


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 80


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / page).read_text()
    found = commands(text)
    assert found or page in ("docs/concepts.md", "docs/exercises/index.md")
    for verb, options in found:
        assert surefoot(*verb.split(), "--help") == 0
        described = capsys.readouterr().out
        assert [o for o in options if o not in described] == [], verb


def test_links_of_the_readme_lead_somewhere() -> None:
    """Those of other documents are the site's."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", README)
    assert targets
    assert [t for t in targets if ":" not in t and not (ROOT / t).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_python_in_documents_names_what_there_is(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        names = [
            n.attr
            for n in ast.walk(ast.parse(block))
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "surefoot"
        ]
        assert names
        if importlib.util.find_spec("surefoot.api"):
            assert [n for n in names if not hasattr(package, n)] == []


def test_the_table_has_five_figures() -> None:
    section = README.split("## Measured")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert all("<!-- " in row for row in rows[2:]), "each names its JSON"


def test_what_a_run_ends_with_is_one_that_is_measured() -> None:
    rows = json.loads((BENCHMARKS / "recipes.json").read_text())["rows"]
    run = next(r for r in rows if (r["task"], r["seed"]) == ("walk-flat", 1))
    shown = (ROOT / "docs" / "outputs" / "walk-flat.txt").read_text().rstrip()
    assert f"```\n{shown}\n```" in README
    c = run["v2"]
    interval = f"(95% interval {c['low']:.1%} to {c['high']:.1%}"
    assert f"{c['success']:.1%}  {interval})" in shown
    assert f"{run['verdict']}: {c['success']:.1%} of {c['n']} held-out episodes succeed {interval}" in shown


def test_the_tutorial_was_captured_and_shows_its_report() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    assert re.search(r"Captured on \d+ \w+ \d{4} on \d+ cores of an .+, commit [0-9a-f]{7,}\.", text)
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert (ROOT / "docs" / Path(picture)).stat().st_size > 20_000
