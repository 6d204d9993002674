"""Runs of policies that remember: printed, trained, judged, replayed, audited and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.artifacts import JsonLines
from surefoot.audits import audit_run
from surefoot.runs import RunFolder, without_timing
from tiny import surefoot

QUIET = ("--quiet", "--tracker", "none")
PROOFS = ("rollout", "update", "minibatches", "policy-file", "panel-actions", "learner-record", "first-ratio")


@pytest.mark.parametrize("memory", ["window:3", "gru:8"])
def test_a_run_that_remembers_resumes_replays_and_passes_its_audits(memory: str, tmp_path: Path) -> None:
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    asked = ("tiny:walk", "--memory", memory, *QUIET)
    assert surefoot("train", *asked, "--updates", "4", "--perturb", "delay", "--out", whole) == 0
    assert surefoot("train", *asked, "--updates", "2", "--perturb", "none", "--out", parted) == 0
    resumed = ("--updates", "4", "--perturb", "none", "--tracker", "none")
    assert surefoot("train", "--resume", parted, *resumed) == 0
    rows = [[without_timing(r) for r in JsonLines(f / "ledger.jsonl").rows()] for f in (whole, parted)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4
    for name in ("latest", "best"):
        file = f"checkpoints/{name}.safetensors"
        assert (whole / file).read_bytes() == (parted / file).read_bytes()
    trace = next((whole / "panels" / "tiny-v1" / "confirmation" / "traces").glob("nominal-0*.npz"))
    assert surefoot("replay", whole, trace.stem, "--verify") == 0
    audit = audit_run(RunFolder.open(whole), only=PROOFS, seed=3)
    assert (audit.findings, audit.failed) == ((), ())
    assert len(audit.passed) == len(PROOFS)


def test_a_plan_says_what_is_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("plan", "tiny:walk", "--memory", "gru:8") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "GRU with a state of 8" in said
    assert "sequence length 16, no burn-in" in said
    assert surefoot("train", "tiny:walk", "--memory", "gru:8", "--actors", "2", "--updates", "1") == 2
    assert "no room for what a policy remembers" in " ".join(capsys.readouterr().err.split())
