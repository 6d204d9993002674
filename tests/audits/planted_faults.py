"""What tests of audits share: what one detector says of a run, and runs with one thing changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.audits import audit_run
from surefoot.compiler import Untraceable
from surefoot.env import VecEnv
from surefoot.runs import AuditFinding, RunFolder
from surefoot.training import plan


def findings(run: Path, name: str) -> list[AuditFinding]:
    """Returns what a detector finds, which must have looked."""
    audit = audit_run(RunFolder.open(run), only=[name], seed=1)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable, audit.not_applicable
    return list(audit.findings)


def said(run: Path, name: str) -> str:
    return " ".join(f"[{f.cause}] {f.statement}" for f in findings(run, name))


def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets environments run in torch, so that a changed method needs no kernels of its own."""

    def refuse(env: VecEnv) -> Any:
        raise Untraceable("a test changes its methods")

    monkeypatch.setattr(plan, "CompiledEnv", refuse)


def copy_of(run: Path, where: Path) -> Path:
    shutil.copytree(run, where)
    return where


def rewrite_traces(run: Path, change: Any, columns: str = "nominal*") -> int:
    """Changes the confirmation's traces by `change(trace)`, in place; returns of how many."""
    paths = sorted(run.glob(f"panels/*/confirmation/traces/{columns}.npz"))
    for path in paths:
        with np.load(path) as file:
            trace = {k: file[k].copy() for k in file.files}
        change(trace)
        np.savez(path, **trace)
    return len(paths)
