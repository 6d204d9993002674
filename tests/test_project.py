"""What whoever takes over relies on agrees with itself: versions, targets, hooks, what is packaged."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import surefoot
from places import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from release import SDIST_NEEDS, sdist_problems, wheel_problems

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line[:60]
)


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    return found


def commands() -> list[tuple[str, str]]:
    """What the workflow runs, and on which Python: every step of every job, for every entry of its matrix."""
    found = []
    for job in workflow()["jobs"].values():
        for entry in job["strategy"]["matrix"]["include"]:
            for command in (step["run"] for step in job["steps"] if "run" in step):
                for name, value in entry.items():
                    command = command.replace(f"${{{{ matrix.{name} }}}}", value)
                found.append((command, entry["python"]))
    return found


def hooks() -> list[dict[str, Any]]:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}  # nothing is fetched when a commit is made
    return [hook for repo in repos for hook in repo["hooks"]]


# --- versions -------------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == surefoot.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == surefoot.__version__
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "surefoot.__version__"}


def test_a_citation_says_what_the_package_says_of_itself() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = PYPROJECT["project"]
    assert citation["abstract"] == project["description"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]


def test_what_lints_and_types_is_what_constraints_name() -> None:
    for tool in ("ruff", "mypy"):
        assert importlib.metadata.version(tool) == PINNED[tool]


def test_every_tool_of_the_developers_is_pinned() -> None:
    pinned = {re.sub(r"[-_.]+", "-", name).lower() for name in PINNED}
    dev = PYPROJECT["project"]["optional-dependencies"]["dev"]
    wanted = {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in dev}
    assert wanted - {"surefoot"} <= pinned


# --- workflow and hooks ---------------------------------------------------------------------------


def test_the_workflow_runs_make_targets_and_nothing_else() -> None:
    assert {"make check", "make test", "make docs", "make release"} == {command for command, _ in commands()}
    assert {command.removeprefix("make ") for command, _ in commands()} <= targets()


def test_actions_are_pinned_to_commits_and_may_only_read() -> None:
    assert workflow()["permissions"] == {"contents": "read"}
    assert [job for job in workflow()["jobs"].values() if "permissions" in job] == []
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_the_workflow_checks_every_python_that_the_package_names() -> None:
    named = {c.rpartition(" ")[2] for c in PYPROJECT["project"]["classifiers"] if "Python :: 3." in c}
    assert {python for command, python in commands() if command == "make check"} == named
    oldest = min(named, key=lambda v: int(v.partition(".")[2]))
    assert PYPROJECT["project"]["requires-python"] == f">={oldest}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest


def test_hooks_are_tools_of_the_environment_or_make_targets() -> None:
    names = {tool["id"] for tool in hooks()}
    assert {"ruff-check", "ruff-format", "large-file", "check"} <= names
    for hook in hooks():
        assert hook["language"] == "system"
        words = hook["entry"].split()
        if words[0] == "make":
            assert words[1] in targets()
        else:
            assert words[0].startswith(".venv/bin/")


# --- what is packaged -----------------------------------------------------------------------------


def test_every_file_of_the_package_is_python_or_named_as_data() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["surefoot"]
    files = [f.removeprefix("src/surefoot/") for f in tracked("src/surefoot") if not f.endswith(".py")]
    assert files
    assert [f for f in files if not any(fnmatch.fnmatchcase(f, p) for p in patterns)] == []
    folders = {Path(f).parent for f in tracked("src/surefoot") if f.endswith(".py")}
    # setuptools leaves out a folder without one
    assert [d for d in folders if not (ROOT / d / "__init__.py").is_file()] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda names: names - {"surefoot/py.typed"}, "lacks surefoot/py.typed"),
        (lambda names: names | {"tests/test_pins.py"}, "holds tests/test_pins.py"),
        (lambda names: names | {"surefoot/left_over.py"}, "holds surefoot/left_over.py"),
        (lambda names: names | {"surefoot/report.html"}, "holds surefoot/report.html"),
    ],
)
def test_a_wheel_is_the_package_and_nothing_else(change: Any, said: str) -> None:
    package = tracked("src/surefoot")
    whole = {p.removeprefix("src/") for p in package} | {"surefoot-0.1.0.dist-info/METADATA"}
    assert wheel_problems(whole, package) == []
    (problem,) = wheel_problems(change(whole), package)
    assert said in problem


def test_a_source_distribution_has_no_reports_and_can_be_built() -> None:
    package = tracked("src/surefoot")
    needed = set(SDIST_NEEDS)
    assert sdist_problems({*package, *needed}, package) == []
    assert sdist_problems({*package, *needed} - {"LICENSE"}, package) == ["the sdist lacks LICENSE"]
    (problem,) = sdist_problems({*package, *needed, "benchmarks/reports/a.html"}, package)
    assert "benchmarks/reports/a.html" in problem
