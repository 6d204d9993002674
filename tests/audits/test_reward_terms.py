"""Rewards of a clean run are what its contract says; a term that is not, is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.audits import audit_run, slow_terms
from surefoot.runs import RunFolder


def test_a_clean_run_is_paid_as_declared(tiny_run: Path) -> None:
    audit = audit_run(RunFolder.open(tiny_run), only=["reward-terms"], seed=1)
    assert audit.passed == ("reward-terms",)


def test_a_term_of_the_wrong_sign_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = slow_terms.SLOW["linear_error"]
    monkeypatch.setitem(slow_terms.SLOW, "linear_error", lambda f: -right(f))
    audit = audit_run(RunFolder.open(tiny_run), only=["reward-terms"], seed=1)
    assert [f.detector for f in audit.findings] == ["reward-terms"]
    assert "linear_error" in audit.findings[0].statement
