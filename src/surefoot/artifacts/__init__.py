"""Artifacts: what a run leaves on disk is written and read safely, as JSON, JSON Lines, Parquet and npz.

On the ground floor: stands on `contract` alone. Main names: `atomic_write`, `read_json`, `read_table`.
"""

from __future__ import annotations

from surefoot.artifacts.chain import chain_fault, is_chained
from surefoot.artifacts.documents import check_version, parse, plain, read_json, write_json
from surefoot.artifacts.files import (
    atomic_write,
    cannot_read,
    cannot_use,
    cannot_write,
    check_folder,
    clean_temporaries,
    new_folder,
)
from surefoot.artifacts.lines import JsonLines
from surefoot.artifacts.outputs import check_output
from surefoot.artifacts.tables import csv_text, load_npz, read_table, save_npz, table_meta, write_table

__all__ = [
    "JsonLines",
    "atomic_write",
    "cannot_read",
    "cannot_use",
    "cannot_write",
    "chain_fault",
    "check_folder",
    "check_output",
    "check_version",
    "clean_temporaries",
    "csv_text",
    "is_chained",
    "load_npz",
    "new_folder",
    "parse",
    "plain",
    "read_json",
    "read_table",
    "save_npz",
    "table_meta",
    "write_json",
    "write_table",
]
