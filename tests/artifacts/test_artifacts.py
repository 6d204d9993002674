"""A killed writer leaves every file readable; a broken file is refused with a sentence that names it."""

from __future__ import annotations

import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from places import SOURCE
from surefoot.artifacts import (
    JsonLines,
    atomic_write,
    check_folder,
    clean_temporaries,
    csv_text,
    load_npz,
    new_folder,
    read_json,
    read_table,
    save_npz,
    table_meta,
    write_json,
    write_table,
)
from surefoot.compute.background import Writer
from surefoot.contract.errors import SurefootError


class Part(BaseModel):
    rate: float
    note: str | None = None


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_version: int = 2
    name: str
    parts: tuple[Part, ...] = ()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# --- whole files


def test_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.bin"
    atomic_write(target, b"old")
    atomic_write(target, b"new")
    assert target.read_bytes() == b"new"
    assert names(target.parent) == ["a.bin"]


def test_bytes_are_on_disk_before_the_name_points_at_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("sync"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), replace(a, b))[1])
    atomic_write(tmp_path / "a", b"x")
    assert events == ["sync", "rename", "sync"]


@pytest.mark.parametrize(
    ("failure", "seen"),
    [(OSError(28, "No space left on device"), SurefootError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_failed_write_keeps_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, seen: type[BaseException]
) -> None:
    target = tmp_path / "a"
    atomic_write(target, b"old")

    def fail(_: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(seen, match="free some space" if seen is SurefootError else None):
        atomic_write(target, b"new")
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_write_under_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SurefootError, match="a part of this path is a file"):
        atomic_write(tmp_path / "file" / "a", b"")
    with pytest.raises(SurefootError, match="this path is a folder"):
        atomic_write(tmp_path, b"")


def test_cleaning_takes_leftovers_at_any_depth_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    leftovers = [tmp_path / ".tmp-0123456789abcdef", tmp_path / "deep" / ".tmp-00000000000000ff"]
    others = [tmp_path / ".tmp-mine", tmp_path / "tmp-0123456789abcdef", tmp_path / "deep" / "a"]
    for path in (*leftovers, *others):
        path.write_text("x")
    assert sorted(clean_temporaries(tmp_path)) == sorted(leftovers)
    assert all(path.exists() for path in others)
    assert clean_temporaries(tmp_path / "missing") == []


def test_cleaning_spares_a_writer_that_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    removed: list[Path] = []

    def clean_first(source: Path, target: Path) -> None:
        assert source.name.startswith(".tmp-")
        removed.extend(clean_temporaries(tmp_path))
        replace(source, target)

    monkeypatch.setattr(os, "replace", clean_first)
    atomic_write(tmp_path / "a", b"x")
    assert removed == []
    assert (tmp_path / "a").read_bytes() == b"x"


# --- folders


def test_good_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b", need_bytes=1)
    assert names(tmp_path / "a" / "b") == []


def test_bad_folders_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SurefootError, match="is a file"):
        check_folder(tmp_path / "file", 1)
    with pytest.raises(SurefootError, match="a part of this path is a file"):
        check_folder(tmp_path / "file" / "run", 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=9, used=0, free=2_000_000))
    with pytest.raises(SurefootError, match=r"2\.0 MB free and 3\.5 GB are needed"):
        check_folder(tmp_path / "run", 3_500_000_000)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    with pytest.raises(SurefootError, match="this disk is read-only"):
        check_folder(tmp_path / "run", 1)
    assert names(tmp_path / "run") == []


def test_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    assert new_folder(tmp_path / "runs" / "a").is_dir()
    with pytest.raises(SurefootError, match="already exists; choose another --out or resume it with"):
        new_folder(tmp_path / "runs" / "a")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "a"):
        with pytest.raises(SurefootError):
            new_folder(path)


# --- JSON


def test_document_round_trips_with_sorted_keys(tmp_path: Path) -> None:
    document = Document(name="é\u2028", parts=(Part(rate=0.1), Part(rate=1e-300, note="x")))
    write_json(tmp_path / "a.json", document)
    assert read_json(tmp_path / "a.json", Document) == document
    keys = list(json.loads((tmp_path / "a.json").read_text()))
    assert keys == sorted(keys)
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")


def test_numpy_and_non_finite_values_become_plain_json(tmp_path: Path) -> None:
    value = {
        "a": np.float32(0.5),
        "b": np.array([[1, 2]]),
        "c": [math.nan, math.inf, np.float64("-inf"), np.nan * np.ones(1)],
        "d": np.bool_(True),
        "e": Part(rate=math.nan),
        "f": Path("x/y"),
    }
    write_json(tmp_path / "a.json", value)
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "a": 0.5,
        "b": [[1, 2]],
        "c": [None, None, None, [None]],
        "d": True,
        "e": {"rate": None, "note": None},
        "f": "x/y",
    }


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {2}}, {"a": object()}])
def test_what_json_would_change_is_not_written(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", value)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"schema_version": 2, "name": 3}', r"field 'name' is refused: .*string.*found 3"),
        ('{"schema_version": 2}', "field 'name' is missing"),
        (
            '{"schema_version": 2, "name": "a", "parts": [{"rate": "x"}]}',
            r"field 'parts\.0\.rate' is refused",
        ),
        ('{"schema_version": 2, "parts": 1, "nmae": "a"}', "and 2 more complaints"),
        ('{"name": "a"}', "field 'schema_version' is missing"),
        (
            '{"schema_version": 3, "name": 3}',
            "'schema_version' is 3 and this Surefoot reads up to 2; upgrade",
        ),
        ('{"schema_version": true, "name": "a"}', "'schema_version' must be a whole number"),
        ('{"schema_version": 0, "name": "a"}', "'schema_version' must be a whole number"),
        ('{"schema_version": 2, "name": "a', "is not JSON"),
        ('{"schema_version": 2, "name": "a", "parts": [{"rate": NaN}]}', "is not JSON .*NaN"),
        ("[" * 200_000, "is not JSON"),
        ("[]", "holds a list"),
        ("null", "holds a null"),
        ("", "is not JSON"),
        ("\xff\xfe", "is not JSON"),
    ],
)
def test_malformed_document_is_refused_with_file_field_and_reason(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SurefootError, match=complaint) as caught:
        read_json(path, Document)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_document_and_literal_versions(tmp_path: Path) -> None:
    class Strict(BaseModel):
        schema_version: Literal[1, 2]

    with pytest.raises(SurefootError, match="does not exist"):
        read_json(tmp_path / "a.json", Strict)
    with pytest.raises(SurefootError, match="Cannot read"):
        read_json(tmp_path, Strict)
    write_json(tmp_path / "a.json", {"schema_version": 2})
    assert read_json(tmp_path / "a.json", Strict).schema_version == 2
    write_json(tmp_path / "a.json", {"schema_version": 3})
    with pytest.raises(SurefootError, match="reads up to 2"):
        read_json(tmp_path / "a.json", Strict)


# --- JSON Lines

scalars = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
row_lists = st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=6)


@settings(max_examples=40, deadline=None)
@given(row_lists)
def test_rows_come_back_as_they_went_in(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with JsonLines(Path(folder) / "a.jsonl", sync_every=0) as lines:
            for row in rows:
                lines.append(row)
        path = Path(folder) / "a.jsonl"
        assert (JsonLines(path).read() if rows else ([], False)) == (rows, False)


@settings(max_examples=40, deadline=None)
@given(row_lists.filter(bool), st.data())
def test_cut_anywhere_loses_only_the_row_that_was_cut(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        with JsonLines(path, sync_every=0) as lines:
            for row in rows:
                lines.append(row)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        zeros = data.draw(st.sampled_from([0, 5]))  # what a power cut may leave after the last good block
        path.write_bytes(whole[:cut] + bytes(zeros))
        before, torn = JsonLines(path).read()
        complete = whole[:cut].count(b"\n")
        assert before in (rows[:complete], rows[: complete + 1])
        assert torn == (whole[:cut].rpartition(b"\n")[2] + bytes(zeros) != b"" and len(before) == complete)
        with JsonLines(path) as lines:
            lines.append({"after": 1})
        assert JsonLines(path).read() == ([*before, {"after": 1}], False)


def test_whole_row_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"i":0}\n{"i":1}')
    assert JsonLines(path).read() == ([{"i": 0}, {"i": 1}], False)
    with JsonLines(path) as lines:
        lines.append({"i": 2})
    assert path.read_bytes() == b'{"i":0}\n{"i":1}\n{"i":2}\n'


def test_non_finite_floats_are_written_as_null(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "a.jsonl")
    lines.append({"loss": math.nan, "deep": [{"x": np.float32("inf")}], "ok": np.int64(3)})
    assert (tmp_path / "a.jsonl").read_bytes() == b'{"loss":null,"deep":[{"x":null}],"ok":3}\n'
    lines.close()


def test_each_row_is_one_write_and_synced_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    write = os.write
    lines = JsonLines(tmp_path / "a.jsonl", sync_every=3)
    lines.append({"i": 0})
    monkeypatch.setattr(os, "write", lambda fd, data: (events.append("write"), write(fd, data))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: events.append("sync"))
    for i in range(1, 7):
        lines.append({"i": i, "text": "x" * 100_000})
    assert events == ["write", "write", "sync", "write", "write", "write", "sync", "write"]
    lines.close()
    assert events[-1] == "sync"


def test_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for broken in (b'{"i": 1', b"", b"[1]", b'{"i": NaN}', b"\xff"):
        path.write_bytes(b'{"i":0}\n' + broken + b'\n{"i":2}\n')
        with pytest.raises(SurefootError, match=r"a\.jsonl': line 2 is not a row"):
            JsonLines(path).rows()
    with pytest.raises(SurefootError, match="does not exist"):
        JsonLines(tmp_path / "missing").rows()


@pytest.mark.parametrize("data", [b"PAR1 and so on", b'{\n  "a": 1\n}', b'{"a":1}\n12', b"\x80\x04K\x01."])
def test_file_that_is_something_else_is_never_cut_or_appended_to(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "precious"
    path.write_bytes(data)
    for action in (lambda: JsonLines(path).append({}), lambda: JsonLines(path).keep(lambda _: True)):
        with pytest.raises(SurefootError, match="is not a row"):
            action()
    assert path.read_bytes() == data


def test_keep_drops_rows_and_the_torn_tail_and_appending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path)
    assert lines.keep(lambda _: False) == 0
    assert not path.exists()
    for i in range(6):
        lines.append({"i": i})
    with path.open("ab") as file:
        file.write(b'{"i": 6, "x')
    assert lines.keep(lambda row: row["i"] < 4) == 2
    lines.append({"i": 4, "again": True})
    lines.close()
    assert JsonLines(path).read() == (
        [{"i": 0}, {"i": 1}, {"i": 2}, {"i": 3}, {"i": 4, "again": True}],
        False,
    )
    assert names(tmp_path) == ["a.jsonl"]


def test_row_that_does_not_fit_on_the_disk_leaves_the_file_whole(tmp_path: Path) -> None:
    """A real short write: the kernel takes the bytes up to the limit, as it does on a disk that fills up."""
    lines = JsonLines(tmp_path / "a.jsonl", sync_every=0)
    lines.append({"i": 0})
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(SurefootError, match="Cannot write"):
            lines.append({"text": "x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    lines.append({"i": 1})
    lines.close()
    assert JsonLines(tmp_path / "a.jsonl").read() == ([{"i": 0}, {"i": 1}], False)


# --- tables and arrays


@st.composite
def column_sets(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(st.integers(0, 5))
    dtypes = st.sampled_from(["f4", "f8", "i1", "i4", "i8", "u4", "u8", "?"])

    def column(dtype: str) -> st.SearchStrategy[Any]:
        kind = np.dtype(dtype)
        item: st.SearchStrategy[Any]
        if kind.kind == "f":
            item = st.floats(width=32 if dtype == "f4" else 64)
        elif kind.kind == "b":
            item = st.booleans()
        else:
            item = st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        return st.lists(item, min_size=rows, max_size=rows).map(lambda x: np.array(x, dtype=kind))

    utf8 = st.text(st.characters(codec="utf-8"))
    text = st.lists(st.none() | utf8, min_size=rows, max_size=rows).map(lambda x: np.array(x, dtype=object))
    return draw(st.dictionaries(utf8, dtypes.flatmap(column) | text, min_size=1, max_size=4))


@settings(max_examples=40, deadline=None)
@given(column_sets(), st.dictionaries(st.text(st.characters(codec="utf-8")), st.just("é"), max_size=2))
def test_table_comes_back_as_it_went_in(columns: dict[str, Any], meta: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        write_table(path, columns, 1, meta)
        back = read_table(path)
        assert table_meta(path) == meta
    assert list(back) == list(columns)
    for name, column in columns.items():
        if column.dtype == object:
            assert back[name].tolist() == column.tolist()
        else:
            np.testing.assert_array_equal(back[name], column, strict=True)


def test_columns_may_be_lists_and_views_and_results_may_be_changed(tmp_path: Path) -> None:
    base = np.arange(12.0).reshape(3, 4)
    write_table(tmp_path / "a.parquet", {"x": base[:, 1], "y": ["a", None, "c"], "z": [1, None, 3]}, 1)
    back = read_table(tmp_path / "a.parquet")
    back["x"] += 1
    assert back["x"].tolist() == [2.0, 6.0, 10.0]
    assert back["y"].tolist() == ["a", None, "c"]
    np.testing.assert_array_equal(back["z"], [1.0, np.nan, 3.0])


@pytest.mark.parametrize(
    "columns", [{}, {"a": np.zeros((2, 2))}, {"a": [[1], [2]]}, {"a": np.zeros(2), "b": np.zeros(3)}]
)
def test_what_is_not_a_flat_table_is_not_written(tmp_path: Path, columns: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        write_table(tmp_path / "a.parquet", columns, 1)
    assert names(tmp_path) == []


def test_folder_of_parts_reads_as_one_table_in_name_order(tmp_path: Path) -> None:
    for i in (2, 0, 1):
        write_table(tmp_path / f"part-{i:04}.parquet", {"i": np.array([i, i]), "s": [None, None]}, 1)
    write_table(tmp_path / "part-0003.parquet", {"i": np.array([3]), "s": ["x"]}, 1)
    (tmp_path / ".tmp-0123456789abcdef.parquet").write_bytes(b"half")
    table = read_table(tmp_path)
    assert table["i"].tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert table["s"].tolist() == [None] * 6 + ["x"]


def test_parts_that_do_not_agree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match=r"holds no \.parquet file"):
        read_table(tmp_path)
    write_table(tmp_path / "0.parquet", {"i": np.zeros(1)}, 1)
    for columns, version, complaint in (
        ({"j": np.zeros(1)}, 1, r"1\.parquet' has other columns .*\(i, j\)"),
        ({"i": np.zeros(1)}, 2, "another schema_version"),
        ({"i": np.zeros(1, np.int32)}, 1, "do not fit together"),
    ):
        write_table(tmp_path / "1.parquet", columns, version)
        with pytest.raises(SurefootError, match=complaint):
            read_table(tmp_path)


def test_table_without_or_with_a_newer_version_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(SurefootError, match="'schema_version' is missing"):
        read_table(path)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"surefoot.schema_version": "x"}), path)
    with pytest.raises(SurefootError, match="must be a whole number"):
        read_table(path)
    write_table(path, {"a": [1]}, 3)
    assert read_table(path, newest=3)["a"].tolist() == [1]
    with pytest.raises(SurefootError, match="reads up to 2; upgrade"):
        read_table(path, newest=2)


def test_damaged_column_is_refused_never_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = np.arange(300) * 7919 % 1009
    write_table(path, {"value": values}, 1)
    whole = path.read_bytes()
    # Only the pages are checksummed; the footer (its length stands before the closing magic) is not.
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    dice = random.Random(0)
    refused = 0
    for _ in range(150):
        at = dice.randrange(4, footer)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        try:
            np.testing.assert_array_equal(read_table(path)["value"], values)
        except SurefootError:
            refused += 1
    assert refused > 100
    for damaged in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-1], b"x" * 1000):
        path.write_bytes(damaged)
        with pytest.raises(SurefootError, match="is not a readable Parquet file"):
            read_table(path)
    with pytest.raises(SurefootError, match="does not exist"):
        read_table(tmp_path / "missing.parquet")


def test_arrays_round_trip_exactly(tmp_path: Path) -> None:
    arrays = {
        "path": np.zeros((0, 3)),
        "q": np.array([[np.nan, -0.0, 1e-320]]),
        "flags": np.array([True]),
        "text": np.array(["é"]),
        "scalar": np.float32(2.5),
    }
    save_npz(tmp_path / "a.npz", **arrays)
    back = load_npz(tmp_path / "a.npz")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].tobytes() == np.asarray(array).tobytes()
        assert back[name].shape == np.shape(array)


def test_npz_never_carries_or_opens_a_pickle(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="holds Python objects"):
        save_npz(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    np.savez(tmp_path / "b.npz", x=np.array([{}], dtype=object))
    np.save(tmp_path / "c.npy", np.zeros(2))
    for name in ("b.npz", "c.npy"):
        with pytest.raises(SurefootError, match="is not a readable npz"):
            load_npz(tmp_path / name)


@pytest.mark.parametrize(
    "data",
    [b"", b"P", b"PK", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x93NUMPY", b"\x80\x04K\x01.", b"\0" * 99],
)
def test_garbage_is_refused_in_words_of_our_own(data: bytes, tmp_path: Path) -> None:
    """An empty zip is an npz without arrays, and nothing worse."""
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    if data[:4] == b"PK\x05\x06":
        assert load_npz(path) == {}
        return
    with pytest.raises(SurefootError, match="is not a readable npz") as refused:
        load_npz(path)
    assert not any(word in str(refused.value).lower() for word in ("pickle", "magic", "unsafe", "central"))


def test_damaged_npz_is_refused_or_unharmed_never_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    values = np.random.default_rng(0).normal(size=100)
    save_npz(path, x=values)
    whole = path.read_bytes()
    dice = random.Random(0)
    for _ in range(200):
        at = dice.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        try:
            for array in load_npz(path).values():
                np.testing.assert_array_equal(array, values)
        except SurefootError:
            continue
    for damaged in (b"", b"PK\x03\x04", whole[: len(whole) // 2], b"x" * 1000):
        path.write_bytes(damaged)
        with pytest.raises(SurefootError, match="is not a readable npz"):
            load_npz(path)
    with pytest.raises(SurefootError, match="does not exist"):
        load_npz(tmp_path / "missing.npz")


# --- kills

# Imports once, then forks a writer for every line it is told, and says when that writer is dead.
WRITERS = """
import os, sys
import numpy as np
from surefoot.artifacts import JsonLines, atomic_write, save_npz, write_json, write_table

def work(folder):
    lines = JsonLines(folder + "/ledger.jsonl", sync_every=0)
    lines.append({"i": 0})
    start = lines.rows()[-1]["i"] + 1
    for i in range(start, start + 10**6):
        lines.append({"i": i, "text": "x" * 1_000_000})
        write_json(folder + "/run.json", {"schema_version": 1, "name": "n" * 100_000, "parts": []})
        atomic_write(folder + "/blob", bytes([i % 256]) * 1_000_000)
        write_table(folder + "/t.parquet", {"i": np.full(20_000, i)}, 1)
        save_npz(folder + "/t.npz", i=np.full(20_000, i))
        lines.keep(lambda row: row["i"] == 0 or row["i"] > i - 3)
        if i == start:  # everything exists; from here on a kill may come
            print(os.getpid(), flush=True)

for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        work(sys.argv[1])
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "failed", flush=True)
"""


def run(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def test_kill_before_the_rename_leaves_the_old_file_and_one_leftover(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", b"old")
    program = """
import os, sys, time
from surefoot.artifacts import atomic_write
os.replace = lambda *_: (print("ready", flush=True), time.sleep(60))
atomic_write(sys.argv[1] + "/a", b"new")
"""
    writer = run(program, tmp_path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    assert clean_temporaries(tmp_path) == []  # its writer is alive
    writer.kill()
    writer.communicate()
    assert len(clean_temporaries(tmp_path)) == 1
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_killed_writer_leaves_every_file_readable(tmp_path: Path) -> None:
    dice = random.Random(7)
    with run(WRITERS, tmp_path) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for _ in range(8):
            writers.stdin.write("go\n")
            writer = int(writers.stdout.readline())
            time.sleep(dice.uniform(0.0, 0.1))
            os.kill(writer, signal.SIGKILL)
            assert writers.stdout.readline() == "killed\n"
            clean_temporaries(tmp_path)
            check_everything_is_whole(tmp_path)
            assert len(names(tmp_path)) == 5


def check_everything_is_whole(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name == "ledger.jsonl":
            rows = JsonLines(path).rows()
            assert rows[0] == {"i": 0}
            assert all(row["i"] == 0 or len(row["text"]) == 1_000_000 for row in rows)
        elif path.name == "run.json":
            assert len(read_json(path, Document).name) == 100_000
        elif path.name == "blob":
            blob = path.read_bytes()
            assert blob == blob[:1] * 1_000_000
        elif path.name == "t.parquet":
            assert len(set(read_table(path)["i"].tolist())) == 1
        else:
            assert path.name == "t.npz"  # so no temporary survived the cleaning
            assert len(set(load_npz(path)["i"].tolist())) == 1


# ---- written by another thread


def test_a_writer_keeps_the_order_and_finishes_what_was_asked() -> None:
    done: list[int] = []
    with Writer() as writer:
        for k in range(300):
            writer.do(partial(done.append, k))
        writer.wait()
        assert done == list(range(300))
        writer.do(partial(done.append, 300))
    assert done[-1] == 300


def test_a_writers_error_reaches_who_asked_and_nothing_is_written_after_it() -> None:
    done: list[int] = []

    def full() -> None:
        raise OSError("disk full")

    def ask(writer: Writer) -> None:
        with writer:
            writer.do(full)
            writer.do(partial(done.append, 1))
            writer.wait()

    with pytest.raises(OSError, match="disk full"):
        ask(Writer())
    assert done == []


def test_what_was_asked_for_is_written_even_if_the_caller_fails() -> None:
    done: list[int] = []

    def ask(writer: Writer) -> None:
        with writer:
            writer.do(partial(done.append, 1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(Writer())
    assert done == [1]


def test_csv_has_every_name_once_and_leaves_empty_what_a_row_lacks() -> None:
    rows = [{"a": 1, "b": None}, {"b": 'x, "y"', "c": 0.5}]
    assert csv_text(rows) == 'a,b,c\n1,,\n,"x, ""y""",0.5\n'
    assert csv_text([], ["a", "b"]) == "a,b\n"
