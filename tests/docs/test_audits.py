"""Claims about the pages on audits: they are made from the detectors, and say of files what is in them."""

from __future__ import annotations

import sys

import pytest

from places import ROOT
from surefoot.audits import detectors
from surefoot.runs import Audit, AuditFinding, NotLooked
from surefoot.training import LIVE_CHECKS

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def made() -> str:
    """The reference page as the site has it."""
    sys.path.insert(0, str(DOCS))
    try:
        import made

        return made.filled((DOCS / "reference" / "audits.md").read_text())
    finally:
        sys.path.remove(str(DOCS))


def test_every_detector_has_its_section(made: str) -> None:
    assert "<!-- made:" not in made
    for d in detectors().values():
        section = made.split(f"\n### {d.name}\n")
        assert len(section) == 2, d.name
        text = " ".join(section[1].split("\n### ")[0].replace("\\", "").split())
        for said in (d.asks, d.statistic, d.threshold, d.means, d.remedy):
            assert " ".join(said.split()) in text, (d.name, said)
        assert d.cause in text
    assert made.count("\n### ") == len(detectors()), "no section of a detector that is no more"


def test_every_live_check_is_named(made: str) -> None:
    assert [name for name in LIVE_CHECKS if f"`{name}`" not in made] == []


def test_the_audit_s_file_is_described_field_by_field() -> None:
    page = (DOCS / "reference" / "run-folder.md").read_text()
    described = page.split("## audit.json")[1].split("## audit-block.npz")[0]
    names = [*Audit.model_fields, *(f".{f}" for f in AuditFinding.model_fields), *NotLooked.model_fields]
    assert [n for n in names if f"`{n}`" not in described] == []
