"""Looks at a half are counted, whoever looks; what was written down cannot be changed unseen."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from surefoot.contract import SeedPlan
from surefoot.runs import LOOKS, Look, note_look, scenarios_of
from tiny import surefoot

PANEL = "walk-flat-v2@7"


def look(k: int = 0, kind: str = "estimate", digest: str = "d", by: str = "promote") -> Look:
    return Look(PANEL, digest, by, (f"candidate-{k}", "baseline"), kind)  # type: ignore[arg-type]


def test_looks_are_counted_and_decisions_among_them(tmp_path: Path) -> None:
    assert [note_look([tmp_path], look(k)).number for k in range(3)] == [1, 2, 3]
    first = note_look([tmp_path], look(0, "decision"))
    assert (first.number, first.decision) == (4, 1)
    second = note_look([tmp_path], look(1, "decision"))
    assert second.decision == 2
    again = note_look([tmp_path], look(0, "decision"))
    assert (again.number, again.decision) == (4, 1), "the same question has the same answer"
    assert len((tmp_path / LOOKS).read_text().splitlines()) == 6, "and is written down again"
    assert note_look([tmp_path], look(0, "decision", digest="longer")).decision == 3, "of more scenarios"
    assert note_look([tmp_path], Look("walk-flat-v2@8", "d", "promote", (), "decision")).decision == 1
    assert "Decision 2, look 5 at the confirmation half of walk-flat-v2" in second.said
    assert "other machines cannot be known" in second.said
    assert not second.fault


def test_a_cut_or_extended_panel_is_the_same_scenarios() -> None:
    seeds = SeedPlan(root=7, split="eval", families=8, envs=64)
    assert scenarios_of("walk-flat-v2+4families", seeds) == scenarios_of("walk-flat-v2", seeds) == PANEL


@pytest.mark.parametrize("edit", ["kind", "removed", "inserted", "garbage"])
def test_an_edited_file_is_found(tmp_path: Path, edit: str) -> None:
    for k in range(4):
        note_look([tmp_path], look(k, "decision"))
    path = tmp_path / LOOKS
    lines = path.read_text().splitlines()
    if edit == "kind":
        lines[1] = lines[1].replace("decision", "estimate")
    elif edit == "removed":
        del lines[1]
    elif edit == "inserted":
        lines.insert(2, json.dumps(json.loads(lines[2]) | {"by": "compare"}))
    else:
        lines[1] = "{}x"
    path.write_text("\n".join(lines) + "\n")
    found = note_look([tmp_path], look(9, "decision"))
    assert f"{LOOKS} was changed after it was written (line " in found.fault
    assert found.fault in found.said
    assert note_look([tmp_path], look(10)).fault, "and it stays so"


def test_many_who_look_at_once_are_all_counted(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as pool:
        seen = list(pool.map(note_look, [[tmp_path]] * 24, [look(k, "decision") for k in range(24)]))
    assert sorted(s.decision for s in seen) == list(range(1, 25))
    assert not note_look([tmp_path], look(99)).fault


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    note_look([tmp_path], look())
    (tmp_path / LOOKS).chmod(0o444)
    tmp_path.chmod(0o555)
    found = note_look([tmp_path], look(1))
    tmp_path.chmod(0o755)
    assert found.number == 2
    assert "not written down" in found.said


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / LOOKS).mkdir()  # nobody can append to a folder, root included
    found = note_look([tmp_path, tmp_path], look(1, "decision"))
    assert (found.number, found.decision) == (1, 1)
    assert found.said.count("not written down") == 1


def test_whoever_looks_is_written_down(tiny_run: Path, tmp_path: Path) -> None:
    runs = [tmp_path / "runs" / name for name in ("a", "b")]
    for run in runs:
        shutil.copytree(tiny_run, run)
    assert surefoot("evaluate", runs[0], "--perturb", "none", "--no-baselines", "--half", "selection") == 0
    assert not (tmp_path / "runs" / LOOKS).exists(), "that half is there to be looked at"
    assert surefoot("evaluate", runs[0], "--perturb", "none", "--no-baselines", "--half", "all") == 0
    assert surefoot("compare", *runs) == 0
    assert surefoot("promote", *runs, "--no-fresh") == 3, "one policy: nothing is decided, nothing spent"
    lines = (tmp_path / "runs" / LOOKS).read_text().splitlines()
    assert [(x["by"], x["kind"]) for x in map(json.loads, lines)] == [
        ("evaluate", "estimate"), ("compare", "estimate"),
    ]  # fmt: skip
    assert json.loads((tiny_run.parent / LOOKS).read_text().splitlines()[0])["by"] == "train"


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    note_look([tmp_path], look())
    path = tmp_path / LOOKS
    path.write_bytes(path.read_bytes()[:-1])
    assert note_look([tmp_path], look(1)).number == 2
    assert not note_look([tmp_path], look(2)).fault
    assert len(path.read_text().splitlines()) == 3
