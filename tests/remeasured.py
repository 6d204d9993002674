"""A run as if it had been measured otherwise: contract, fields and ids all say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.artifacts import read_table, table_meta, write_json, write_table
from surefoot.contract import digest, interface_fields, measurement_fields, recorded_code
from surefoot.runs import RunFolder, read_summary
from surefoot.runs.folder import PANEL_ROWS_VERSION


def under_another_contract(run: Path, **contract: Any) -> None:
    """Rewrites the record, and every pass over the confirmation half, for a changed contract."""
    folder = RunFolder.open(run)
    record = folder.record
    changed = record.contract.model_copy(update=contract)
    code = recorded_code(record.measurement, record.interface)
    fields = measurement_fields(changed, record.panel, record.panel_digest, record.evaluation_plant, code)
    seen = interface_fields(changed, record.recipe.control_hz, code)
    ids = {"construct_id": digest(fields), "measurement_id": digest(fields), "interface_id": digest(seen)}
    for panel in (run / "panels").glob("*/confirmation*"):
        summary = read_summary(panel).model_copy(update=ids | {"measurement": fields})
        write_json(panel / "summary.json", summary)
        table = panel / "episodes.parquet"
        write_table(table, read_table(table), PANEL_ROWS_VERSION, table_meta(table) | ids)
    assert record.confirmation is not None
    confirmed = record.confirmation.model_copy(update=ids | {"measurement": fields})
    folder.write_record(contract=changed, interface=seen, measurement=fields, confirmation=confirmed, **ids)
