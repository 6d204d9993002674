"""What a contract exempts itself from is not asked, and is said wherever the verdict is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from surefoot.audits import audit_run
from surefoot.evidence import judgement
from surefoot.robots import robot
from surefoot.runs import RunFolder, load_result
from surefoot.tasks import Task, velocity_task
from tiny import PANEL, RECIPE, surefoot, walk

WHY = "its floor is meant to swallow events"


def spared(name: str = "reward-terms", why: str = WHY) -> Task:
    return velocity_task("tiny-walk", robot=robot("go1"), panel=str(PANEL), recipe=RECIPE, exempt={name: why})


def unknown() -> Task:
    return spared("no-such-detector")


def test_exemptions_are_part_of_the_contract_and_none_are_not() -> None:
    contract = walk().contract
    assert "exempt" not in contract.model_dump(mode="json"), "so older contracts keep their digests"
    exempt = spared().contract
    assert exempt.digest != contract.digest
    assert type(contract).model_validate(exempt.model_dump(mode="json")).exempt == {"reward-terms": WHY}


def test_an_exemption_needs_a_reason() -> None:
    with pytest.raises(ValidationError, match="needs a reason"):
        type(walk().contract).model_validate(walk().contract.model_dump() | {"exempt": {"reward-terms": " "}})


def test_what_is_exempt_is_not_asked_and_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ("--quiet", "--tracker", "none", "--perturb", "none")
    assert surefoot("train", f"{__name__}:spared", "--updates", "2", "--out", tmp_path / "run", *told) == 0
    run = RunFolder.open(tmp_path / "run")
    audit = audit_run(run, seed=1, only=["reward-terms", "ledger-sums"])
    assert [(e.detector, e.because) for e in audit.exempt] == [("reward-terms", WHY)]
    assert audit.passed == ("ledger-sums",)
    assert WHY in " ".join(judgement(load_result(run)).remarks)
    assert WHY in " ".join(capsys.readouterr().out.split())
    assert surefoot("plan", f"{__name__}:spared") == 0
    assert "not audited" in capsys.readouterr().out


def test_an_exemption_from_what_is_not_asked_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("train", f"{__name__}:unknown", "--updates", "1", "--out", tmp_path / "run") == 2
    assert "no-such-detector" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
