"""Six planted bugs, trained for real in a copy of the source and audited with it: each is found, and its run
is Unproven; the same run without a bug is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from places import BENCHMARKS

RUN = BENCHMARKS / "mutants" / "run.py"
BUGS = {
    "reward-term-sign-flipped": "reward",
    "one-joint-dead": "action",
    "timeout-as-terminal": "learning",
    "observation-noise-lost": "observation",
    "panel-without-pushes": "panel-plant",
    "intervals-too-narrow": "statistics",
}


def planted(out: Path, *words: str) -> dict[str, Any]:
    subprocess.run([sys.executable, RUN, "--quick", "--out", out, *words], check=True, capture_output=True)
    return {p.stem.split(".")[0]: json.loads(p.read_text()) for p in out.glob("*.json")}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of the six, and of a run without a bug; the jobs share their imports, and one core."""
    out = tmp_path_factory.mktemp("planted")
    return planted(out, "--clean") | planted(out, "--only", *BUGS)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_and_nothing_is_proven(results: dict[str, Any], name: str) -> None:
    audit = results[name]["audit"]
    assert audit["exit"] == 1, audit
    causes = {f["cause"] for f in audit["findings"] if f["kind"] == "proof"}
    assert BUGS[name] in causes, audit["findings"]
    assert results[name]["verdict_after"] == "Unproven"


def test_without_a_bug_nothing_is_found(results: dict[str, Any]) -> None:
    audit = results["clean"]["audit"]
    assert audit["findings"] == []
    assert audit["failed"] == []
    assert results["clean"]["verdict_after"] != "Unproven"
