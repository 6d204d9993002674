"""Ids computed again from what they are made of, whenever a result is read: an id that was only written down
proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.contract import (
    Plant,
    SurefootError,
    differences,
    digest,
    interface_fields,
    measurement_fields,
    recorded_code,
)
from surefoot.runs.folder import RunRecord
from surefoot.statistics import PanelSummary


def id_problems(record: RunRecord, summary: PanelSummary | None = None) -> list[str]:
    """Says where ids and fields of a run's record, and of a panel pass of it, contradict each other or the
    contract; nothing where all is right. Results of before there was a measurement id are left to those who
    compare them."""
    if not record.measurement_id and not record.measurement:
        if summary is not None and (summary.measurement_id or summary.measurement):
            return _pass_problems(record, summary, {})
        return []
    code = recorded_code(record.measurement, record.interface)
    measured = measurement_fields(
        record.contract, record.panel, record.panel_digest, record.evaluation_plant, code
    )
    seen = interface_fields(record.contract, record.recipe.control_hz, code, record.recipe.remembers)
    return [
        *_contradictions("run.json", "measurement", record.measurement, measured),
        *_contradictions("run.json", "interface", record.interface, seen),
        *_wrong("run.json", "measurement_id", record.measurement_id, record.measurement),
        *_wrong("run.json", "construct_id", record.construct_id, record.measurement),
        *_wrong("run.json", "interface_id", record.interface_id, record.interface),
        *(_pass_problems(record, summary, record.interface) if summary is not None else []),
    ]


def check_ids(record: RunRecord, summary: PanelSummary, folder: Path) -> None:
    """Refuses a panel pass whose ids do not follow from what is recorded beside them."""
    problems = id_problems(record, summary)
    if problems:
        raise SurefootError(
            f"{folder} is not what its ids say: {'; '.join(problems)}. Measure it again with `surefoot "
            "evaluate`, or put the files back that the run was written with."
        )


def _pass_problems(record: RunRecord, summary: PanelSummary, interface: Mapping[str, Any]) -> list[str]:
    """The pass may be on another panel, or by another version's code; the contract is the run's."""
    plant = record.evaluation_plant
    if plant is not None and summary.panel != record.panel:
        stated = dict(summary.measurement.get("plant") or {}) | {"decimation": plant.decimation}
        plant = plant.model_copy(update={"heightfield": Plant.model_validate(stated).heightfield})
    code = recorded_code(summary.measurement, interface)
    fields = measurement_fields(record.contract, summary.panel, summary.panel_digest, plant, code)
    where = "summary.json"
    engine = (summary.measurement.get("engine") or {}).get("name", "")
    problems = [
        *_contradictions(where, "measurement", summary.measurement, fields),
        *_wrong(where, "measurement_id", summary.measurement_id, summary.measurement),
        *_wrong(where, "construct_id", summary.construct_id, summary.measurement),
    ]
    if engine != summary.engine:
        problems.append(f"engine of summary.json is {summary.engine}, that of its measurement {engine}")
    if interface and summary.interface_id != digest(interface):
        problems.append(f"interface_id of summary.json is {summary.interface_id[:12]}, not its run's")
    return problems


def _contradictions(
    where: str, what: str, stated: Mapping[str, Any], follows: Mapping[str, Any]
) -> list[str]:
    """Names the fields that do not follow from the contract beside them."""
    return [
        f"{what}.{f.name} of {where} is {f.a!r}, and by the contract {f.b!r}"
        for f in differences(stated, follows)
    ]


def _wrong(where: str, name: str, stated: str, fields: Mapping[str, Any]) -> list[str]:
    made = digest(dict(fields))
    return [] if stated == made else [f"{name} of {where} is {stated[:12]}, and its fields give {made[:12]}"]
