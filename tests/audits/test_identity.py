"""Ids follow what they are of; a field that an id leaves out is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planted_faults import findings, said

from surefoot.audits import identity

NAME = "identity"


def test_a_clean_run_has_ids_of_its_own(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("noise", "when the noise of 'angular_velocity'"),
        ("panel_digest", "when the scenarios of the panel changes"),
        ("success", "'velocity_error_mps' of success"),
        ("engine", "the code or version of 'engine'"),
    ],
)
def test_a_field_that_is_left_out_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, field: str, text: str
) -> None:
    fields = identity.measurement_fields

    def fewer(*given: Any) -> dict[str, Any]:
        return {k: v for k, v in fields(*given).items() if k != field}

    monkeypatch.setattr(identity, "measurement_fields", fewer)
    assert text in said(tiny_run, NAME)


def test_a_treatment_without_its_ranges_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = identity.training_id

    def fewer(contract: Any, *given: Any) -> str:
        return own(contract.model_copy(update={"factors": ()}), *given)

    monkeypatch.setattr(identity, "training_id", fewer)
    assert "The training id stays the same when the training range of 'friction'" in said(tiny_run, NAME)
