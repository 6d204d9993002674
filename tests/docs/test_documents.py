"""Claims about the documents: figures are those of their JSON, fields those of a run, paths exist."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from places import BENCHMARKS, ROOT, SOURCE
from surefoot.policy import PolicyCard
from surefoot.runs import RunFolder, RunRecord
from surefoot.statistics import PanelSummary

sys.path.insert(0, str(BENCHMARKS))
import document
import markers
import provenance
import tables

DOCS = ROOT / "docs"
MEASURED = [ROOT / "README.md", *sorted((DOCS / "measurements").glob("*.md"))]


def page(name: str) -> str:
    return (DOCS / name).read_text()


def names(text: str) -> list[str]:
    """What stands in backticks in the first cells of a page's tables."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def missing(there: set[str], text: str) -> list[str]:
    """Names that no entry of the page's tables describes; `<x>` in an entry is any word."""
    patterns = [re.sub(r"<\w+>", ".+", re.escape(n)) for n in names(text)]
    return sorted(n for n in there if not any(re.fullmatch(p, n) for p in patterns))


# ---- figures


@pytest.mark.parametrize("path", tables.documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_table_is_what_its_json_says(path: Path) -> None:
    assert tables.fresh(path) == path.read_text(), "run make tables"


def test_files_are_those_whose_history_was_written_down() -> None:
    assert provenance.stale(tables.FILES) == [], "run make tables"


def test_every_table_stands_in_one_place() -> None:
    placed = [name for path in tables.documents() for name in document.places(path.read_text())]
    assert len(placed) == len(set(placed))
    assert set(tables.BLOCKS) <= set(placed)


def test_a_table_says_script_machine_date_and_commit() -> None:
    text = page("measurements/learning.md")
    (block,) = (b["made"] for b in document.PLACE.finditer(text) if b["name"] == "cpu")
    last = json.loads((BENCHMARKS / "provenance.json").read_text())["learning.json"]
    for said in (
        "benchmarks/learning.py",
        "2 cores of an Intel",
        last["date"],
        last["commit"],
        last["version"],
    ):
        assert said in block.splitlines()[-1]


@pytest.mark.parametrize("path", MEASURED, ids=lambda p: p.name)
def test_a_number_with_a_unit_names_where_it_is_from(path: Path) -> None:
    assert markers.unmarked(path.read_text()) == []
    assert markers.wrong(path.read_text()) == []


WALK = "time_to_walk.json: machines/*/tasks/trot-flat/summary/train_seconds_median"
SURE = "time_to_walk.json: machines/NVIDIA H200/tasks/trot-flat/runs/0/confirmation/success"


def test_markers_are_read_and_compared() -> None:
    text = f"It took 0.61 s <!-- {WALK} --> and 97.7% <!-- {SURE} --> of 10 s <!-- set --> held."
    assert markers.unmarked(text) == []
    assert markers.wrong(text) == []
    assert markers.wrong(text.replace("0.61", "0.62")) == [f"1: 0.62 s is 0.6106 in {WALK}"]
    assert markers.wrong(f"611 ms <!-- {WALK} x 1000 -->") == []
    assert markers.wrong(f"nothing <!-- {WALK} -->") != []
    entry = "learning.json: runs/task=walk-flat,seed=1/confirmation/success"
    assert markers.wrong(f"98.4% <!-- {entry} -->") == []
    with pytest.raises(KeyError):
        markers.wrong("3 s <!-- time_to_walk.json: machines/elsewhere -->")


@pytest.mark.parametrize(
    "text",
    [
        "12 s",
        "3.1 ms",
        "98%",
        "4 M",
        "1,024 steps/s",
        "0.2 m/s",
        "it is 79 times as fast",
        "-3 points",
        "7 kg",
        "2 GB",
    ],
)
def test_a_number_that_nothing_vouches_for_is_found(text: str) -> None:
    assert len(markers.unmarked(f"First 5 s <!-- set --> and then {text}.")) == 1
    assert markers.unmarked(f"<!-- cpu -->\n{text}\n<!-- end -->") == []


@pytest.mark.parametrize(
    "text", ["4,096 x 24", "seed 3", "walk-flat-v1", "`--minutes 0.5`", "16 families", "version 0.1.0"]
)
def test_counts_names_and_code_need_no_marker(text: str) -> None:
    assert markers.unmarked(text) == []


# ---- fields


def test_the_ledger_is_described_field_by_field(tiny_run: Path) -> None:
    rows = [json.loads(line) for line in (tiny_run / "ledger.jsonl").read_text().splitlines()]
    assert missing({key for row in rows for key in row}, page("reference/ledger.md")) == []


def test_rows_are_described_column_by_column(tiny_run: Path) -> None:
    held, training = page("reference/rows.md").split("## Training episodes")
    (path,) = tiny_run.glob("panels/*/confirmation/episodes.parquet")
    assert missing(set(pq.read_schema(path).names), held) == []
    part = next(iter((tiny_run / "episodes").glob("*.parquet")))
    assert missing(set(pq.read_schema(part).names), training) == []


def test_the_run_folder_is_described_file_by_file(tiny_run: Path) -> None:
    text = page("reference/run-folder.md")
    described = names(text.split("## run.json")[0])
    for path in tiny_run.rglob("*"):
        if path.is_dir():
            continue
        name = path.relative_to(tiny_run).as_posix()
        if name.startswith("panels/"):
            assert name.split("/")[2].startswith(("confirmation", "selection-update-"))
            name = ".../" + "/".join(name.split("/")[3:])
        assert any(re.fullmatch(re.escape(n).replace(r"\*", "[^/]+"), name) for n in described), name
    record, summary = text.split("## run.json")[1].split("## summary.json")
    assert missing(set(RunRecord.model_fields), record) == []
    assert missing(set(PanelSummary.model_fields), summary) == []
    assert RunFolder.open(tiny_run).record.status in text


def test_the_policy_card_is_described_field_by_field() -> None:
    text = page("reference/policy-card.md")
    assert missing(set(PolicyCard.model_fields), text.split("## Every field")[1]) == []


def test_every_document_that_the_code_names_exists() -> None:
    """In src, tests, benchmarks and examples: users are sent there by help texts and errors."""
    files = [
        *SOURCE.rglob("*.py"),
        *(ROOT / "examples").rglob("*.*"),
        *BENCHMARKS.glob("*.py"),
        ROOT / "Makefile",
    ]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {
        (p, m)
        for p in files
        if p.suffix != ".xml"
        for m in re.findall(r"docs/[\w./-]+\.(?:md|png)", p.read_text())
    }
    assert len(named) > 10
    assert sorted(f"{p.relative_to(ROOT)}: {m}" for p, m in named if not (ROOT / m).exists()) == []
