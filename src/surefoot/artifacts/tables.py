"""Stores columns as Parquet and arrays as npz: written atomically, checksummed, and never read through a
pickle."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from surefoot.artifacts.documents import check_version
from surefoot.artifacts.files import atomic_write, cannot_read
from surefoot.contract import SurefootError

_VERSION_KEY = "surefoot.schema_version"
_META_PREFIX = "surefoot.meta."


def write_table(
    path: str | Path,
    columns: Mapping[str, np.ndarray[Any, Any] | Sequence[Any]],
    schema_version: int,
    meta: Mapping[str, str] | None = None,
) -> None:
    """Writes one Parquet file (zstd, page checksums) of flat columns of equal length, with its version and
    `meta` inside.

    Columns have one dimension: a vector per row is written as one column per component, which any tool can
    query. The checksums cover the pages of data, not the footer. An empty list has no type; give an empty
    numpy array of the right dtype instead.
    """
    if not columns:
        raise ValueError("a table needs at least one column")
    arrays: dict[str, pa.Array[Any]] = {}
    for name, values in columns.items():
        array = pa.array(values)
        if isinstance(array, pa.ChunkedArray):  # text beyond 2 GiB comes in chunks
            array = array.combine_chunks()
        if pa.types.is_nested(array.type):
            raise ValueError(f"column '{name}' is nested; write one column per component")
        arrays[name] = array
    metadata = {_VERSION_KEY: str(schema_version), **{_META_PREFIX + k: v for k, v in (meta or {}).items()}}
    table = pa.table(arrays).replace_schema_metadata(metadata)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    atomic_write(path, sink.getvalue())


def read_table(path: str | Path, newest: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Reads the columns of a table, or of a folder of part files read in name order as one (so number them
    0001, 0002).

    Text comes back as object arrays of str. A missing value is None in text and bool columns and NaN in
    number columns, which makes an integer column with missing values float64. `newest` is the newest schema
    version the caller reads.
    """
    path = Path(path)
    parts = _parts(path)
    tables = [_load(part, newest) for part in parts]
    first = tables[0]
    for part, table in zip(parts, tables, strict=True):
        if table.column_names != first.column_names:
            odd = sorted(set(table.column_names) ^ set(first.column_names)) or table.column_names
            raise SurefootError(
                f"'{part}' has other columns than '{parts[0]}' ({', '.join(odd)}); "
                "parts of one table must agree, move the odd one away."
            )
        if _meta(table)[_VERSION_KEY] != _meta(first)[_VERSION_KEY]:
            raise SurefootError(
                f"'{part}' has another schema_version than '{parts[0]}'; parts of one table must agree, "
                "move the odd one away."
            )
    try:
        # "default" lets a part whose column is all missing (type null) join, and changes no other type.
        table = pa.concat_tables(tables, promote_options="default")
        return {name: _numpy(table.column(name)) for name in table.column_names}
    except pa.ArrowException as error:
        raise SurefootError(
            f"The parts of '{path}' do not fit together ({_first_line(error)}); move the odd one away."
        ) from error


def table_meta(path: str | Path) -> dict[str, str]:
    """Returns the `meta` that a table was written with (of a folder: of its first part)."""
    meta = _meta(_load(_parts(Path(path))[0], None))
    return {k.removeprefix(_META_PREFIX): v for k, v in meta.items() if k.startswith(_META_PREFIX)}


def save_npz(path: str | Path, /, **arrays: Any) -> None:
    """Writes named arrays to one compressed npz. Object arrays are refused: they would need a pickle to be
    read."""
    fixed: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    for name, array in fixed.items():
        if array.dtype.hasobject:
            raise TypeError(f"array '{name}' holds Python objects; convert it to numbers or text first")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fixed)
    atomic_write(path, buffer.getvalue())


def load_npz(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """Reads all arrays of an npz at once (zip checksums verified). Nothing in the file is executed."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    # numpy takes what is no zip for a pickle, and says how to open that all the same.
    why = "cut short" if data[:2] == b"PK" else "not a zip file"
    if zipfile.is_zipfile(io.BytesIO(data)):
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            if all(isinstance(a, np.ndarray) for a in arrays.values()):
                return arrays
            why = "other files than arrays in it"
        except Exception:  # a damaged zip makes numpy, zipfile and zlib raise a dozen different things
            why = "damaged, or with Python objects in it, which are never opened"
    raise SurefootError(f"'{path}' is not a readable npz ({why}); restore it or make it again.")


def _parts(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    parts = sorted(p for p in path.glob("*.parquet") if not p.name.startswith("."))
    if not parts:
        raise SurefootError(f"The folder '{path}' holds no .parquet file; check the path.")
    return parts


def _load(path: Path, newest: int | None) -> pa.Table:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    try:
        # One reader thread: tables are small, and the cores belong to the simulation.
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
        table.validate(full=True)
        meta = _meta(table)
    except Exception as error:  # OSError, ArrowInvalid, UnicodeError: it depends on which byte is damaged
        raise SurefootError(
            f"'{path}' is not a readable Parquet file ({_first_line(error)}); restore it or make it again."
        ) from error
    version = meta.get(_VERSION_KEY)
    check_version(path, int(version) if version is not None and version.isdecimal() else version, newest)
    return table


def _meta(table: pa.Table) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def _numpy(column: pa.ChunkedArray[Any]) -> np.ndarray[Any, Any]:
    """Returns a writable array; Arrow's own buffers would be read-only."""
    return np.array(column.to_numpy())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def csv_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> str:
    """Writes rows as CSV under a line of names: those given, or all in the order in which rows first have
    them. What a row does not have is left empty."""
    text = io.StringIO()
    columns = list(dict.fromkeys(k for row in rows for k in row)) if names is None else names
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
