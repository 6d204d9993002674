"""summary.json as the report reads it: the fields it needs, whatever else a later version adds."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from surefoot.contract import SurefootError


class _Open(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ColumnSummary(_Open):
    column: str
    engine: str = "mujoco"
    policy: str = "trained"
    success: float | None = None
    holds: bool | None = None
    unit: str = ""
    trained: tuple[float, float] | None = None
    """What training saw of the perturbed quantity."""


class Agreement(_Open):
    """The same scenarios on a second simulator."""

    engine: str
    success_agreement: float | None = None
    rank_correlation: float | None = None
    n: int | None = None


class Summary(_Open):
    schema_version: int
    panel: str
    half: str
    construct_id: str
    training_id: str
    checkpoint: str
    engine: str
    episodes: int
    families: int
    success: float
    fall_rate: float
    velocity_error_mps: float | None
    torque_saturation: float | None = None
    safety_held: bool | None
    seconds: float | None = None
    columns: tuple[ColumnSummary, ...] = ()
    transfer: tuple[str, ...] | None = None
    agreement: tuple[Agreement, ...] = ()
    beats_baselines: bool | None = None


def read_summary(path: Path) -> Summary:
    try:
        return Summary.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise SurefootError(f"Cannot read '{path}' ({error.strerror}); check the run folder.") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(p) for p in first["loc"])
        raise SurefootError(
            f"'{path}' is not a panel summary: field '{field}': {first['msg']}; evaluate the run again."
        ) from error
    except ValueError as error:
        raise SurefootError(f"'{path}' is not JSON ({error}); evaluate the run again.") from error
