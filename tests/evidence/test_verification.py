"""A forged run is caught: by its own rows, its ledger's chain, its seal, its key, or a replay."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from places import BENCHMARKS
from surefoot.artifacts import JsonLines, chain_fault
from surefoot.evidence import compare_runs, improvement, judgement, promote_run, verify_files
from surefoot.evidence.compare import Refusal
from surefoot.replays.sample import chance_missed, most_by_chance, replay_sample
from surefoot.reporting import read_run, verdict
from surefoot.reporting.index import entries, index_page
from surefoot.runs import RunFolder, compare_seal, load_pass, load_result, read_seal, sign
from tiny import surefoot

sys.path.insert(0, str(BENCHMARKS))
from forgeries import keys, reseal
from forgery_edits import FORGERIES, better, folder, one_row, restate, rows_of, write_rows

CAREFUL = {
    "the same, every metric of a row in keeping": {"traces"},
    "run.json: version of MuJoCo": set(),
    "run.json: date": set(),
    "one row of one column, with care": set(),
    "a column deleted everywhere": set(),
    "rows and traces of another run": set(),
    "report.html edited": set(),
    "the ledger made anew, its chain too": set(),
}
"""Forgeries that files without a key need not show, where their seal was made anew."""
QUIET = {
    "run.json: samples and seconds",
    "a wider success limit in every file and id",
    "traces swapped",
    "the ledger's last lines cut",
}
"""Those that contradict what the verdict does not rest on: verify says so, the verdict's faults do not."""


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other") / "run"
    options = ("--updates", "6", "--seed", "2", "--quiet", "--tracker", "none")
    assert surefoot("train", "tiny:walk", "--out", folder, *options) == 0
    return folder


def outcomes(run: Path, key: Path | None = None) -> dict[str, str]:
    return {c.name: c.outcome for c in verify_files(RunFolder.open(run), key)}


def test_an_honest_run_holds(tiny_run: Path) -> None:
    assert set(outcomes(tiny_run).values()) == {"holds"}
    judged = judgement(load_result(RunFolder.open(tiny_run)))
    assert (judged.faults, judged.unseen, judged.sound) == ((), (), True)


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda f: f.name)
def test_a_forgery_is_caught_where_it_can_be(forgery: Any, run: Path, other: Path, tiny_run: Path) -> None:
    private, public = keys(run.parent)
    sign(run, read_seal(run), private, "2026-01-01T00:00:00+00:00")
    forgery.edit(run, other)
    state = compare_seal(run, read_seal(run))  # type: ignore[arg-type]
    assert not state.holds, "who does not make the seal anew"
    reseal(run)
    found = outcomes(run, public)
    assert (found["seal"], found["signature"]) == ("holds", "fails"), "who has not the key"
    failed = {k for k, v in found.items() if v == "fails"} - {"signature"}
    assert failed == CAREFUL[forgery.name] if forgery.name in CAREFUL else failed
    if forgery.name in CAREFUL or forgery.name in QUIET:
        return
    judged = judgement(load_pass(RunFolder.open(run), folder(run)))
    assert (judged.word, judged.sound) == ("Unproven", False)


def test_what_contradicts_itself_is_said_everywhere(
    run: Path, tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(run)
    rows["success"][:] = True
    write_rows(run, rows)
    page = verdict(read_run(run))
    assert (page.headline, page.claims[1].grade, bool(page.faults)) == ("Unproven", "unproven", True)
    (compared,) = compare_runs([tiny_run, run])
    assert isinstance(compared.outcome, Refusal)
    assert promote_run(run, tiny_run).outcome == "INVALID"
    assert surefoot("compare", tiny_run, run) == surefoot("promote", run, tiny_run) == 3
    assert "contradict each other" in " ".join(capsys.readouterr().out.split())
    assert "Unproven" in index_page(entries({"run": run}), run.parent)
    assert surefoot("postmortem", run) == 2


def test_a_careful_forgery_is_found_by_a_replay(run: Path, other: Path) -> None:
    one_row(run, other)
    reseal(run)
    folder = next((run / "panels").glob("*/confirmation"))
    rows = rows_of(run)
    keep = rows["column"] == "push_1.5"
    write_rows(run, {k: v[keep | (rows["column"] == "nominal")] for k, v in rows.items()})
    restate(run)
    sample = replay_sample(RunFolder.open(run), [folder], seed=3)
    assert [(c.column, c.differing) for c in sample.columns if not c.holds] == [("push_1.5", 1)]
    assert all(c.rows == c.of and c.missed == 0 for c in sample.columns)


def test_elsewhere_chance_is_allowed_for(run: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine rows differ: those that do by chance are no forgery, those of another policy are."""
    rows = rows_of(run)
    nominal = (rows["column"] == "nominal") & (rows["engine"] == "stride")
    write_rows(run, {k: v[nominal] for k, v in rows.items()})
    restate(run, engine="stride")
    place = folder(run)
    monkeypatch.setattr("surefoot.replays.sample.SAME", ("processor",))
    monkeypatch.setattr("surefoot.replays.sample.versions", lambda: {"processor": "another"})
    honest = replay_sample(RunFolder.open(run), [place], seed=3)
    assert honest.exact, "most rows repeat, whatever versions say"
    monkeypatch.setattr("surefoot.replays.sample.REPEATS", 2.0)
    honest = replay_sample(RunFolder.open(run), [place], seed=3)
    assert (honest.exact, honest.holds) == (False, True)
    assert [c.natural for c in honest.columns] == [0], "a walk that does not fall withstands rounding"
    kept = rows_of(run)
    write_rows(run, better(kept, np.ones(len(kept["success"]), bool)))
    assert not replay_sample(RunFolder.open(run), [place], seed=3).holds


def test_verify_says_what_it_found(tiny_run: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("verify", tiny_run, "--no-replay") == 0
    assert "Without a key a seal shows accidents" in capsys.readouterr().out
    (run / "seal.json").unlink()
    assert surefoot("verify", run, "--no-replay", "--json") == 2
    found = json.loads(capsys.readouterr().out)
    assert found["checks"][0] == {"name": "seal", "outcome": "unseen", "says": "This run was never sealed."}
    summary = next((run / "panels").glob("*/confirmation")) / "summary.json"
    summary.write_text(summary.read_text().replace('"success": 0.0', '"success": 1.0', 1))
    assert surefoot("verify", run, "--no-replay") == 1
    assert "This run is not what it says." in capsys.readouterr().out


def test_files_are_verified_without_torch(tiny_run: Path) -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['mujoco'] = None\n"
    code += "from surefoot.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", str(tiny_run), "--no-replay"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_signature_is_of_one_key_and_of_all_files(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run.parent / "a").mkdir()
    (run.parent / "b").mkdir()
    (mine, public), (_, theirs) = keys(run.parent / "a"), keys(run.parent / "b")
    assert surefoot("verify", run, "--no-replay", "--sign", mine) == 0
    assert surefoot("verify", run, "--no-replay", "--key", public) == 0
    assert surefoot("verify", run, "--no-replay", "--key", theirs) == 1
    capsys.readouterr()
    assert surefoot("verify", run, "--no-replay", "--sign", public) == 2
    assert "not a private key" in capsys.readouterr().err
    entry = read_seal(run).entries[-1]  # type: ignore[union-attr]
    assert entry.reason == "signed"
    seal = json.loads((run / "seal.json").read_text())
    seal["entries"][0]["files"]["run.json"] = "0" * 64
    (run / "seal.json").write_text(json.dumps(seal))
    assert compare_seal(run, read_seal(run)).broken  # type: ignore[arg-type]


def test_additions_are_sealed_and_nothing_else(run: Path) -> None:
    (run / "robot.json").write_text((run / "robot.json").read_text() + "\n")
    assert surefoot("report", run) == 0
    seal = read_seal(run)
    assert seal is not None
    assert compare_seal(run, seal).changed == ("robot.json",), "a new page does not seal what was changed"


def test_a_ledger_s_chain_outlives_what_a_ledger_goes_through(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    JsonLines(path).append({"update": 1})  # of a version without a chain
    with JsonLines(path, chained=True) as lines:
        for k in (2, 3, 4):
            lines.append({"update": k})
        lines.keep(lambda row: row["update"] <= 3)
        lines.append({"update": 4, "again": True})
    assert chain_fault(path) == ""
    with open(path, "a") as file:
        file.write('{"update":5,"tor')  # killed while writing
    assert chain_fault(path) == ""
    with JsonLines(path, chained=True) as lines:
        lines.append({"update": 5})
    assert chain_fault(path) == ""
    whole = path.read_text().splitlines()
    for k in (0, 1, 2):  # line 1 has no link of its own, and is covered by the one after it
        edited = whole[k].replace(f'"update":{k + 1}', '"update":9')
        for forged in (whole[:k] + whole[k + 1 :], [*whole[:k], edited, *whole[k + 1 :]]):
            path.write_text("\n".join(forged) + "\n")
            assert "chain breaks at line" in chain_fault(path), (k, forged)


def test_a_broken_chain_is_a_contradiction_and_a_cut_end_is_none(run: Path) -> None:
    path = run / "ledger.jsonl"
    whole = path.read_text().splitlines()

    def faults(text: str) -> list[str]:
        path.write_text(text)
        judged = judgement(load_result(RunFolder.open(run)))
        assert (judged.word == "Unproven") == bool(judged.faults)
        return [str(f) for f in judged.faults]

    honest = "\n".join(whole) + "\n"
    last = whole[-1][: len(whole[-1]) // 2]
    assert faults("\n".join([*whole[:-1], last])) == faults("\n".join(whole[:-2]) + "\n") == []
    assert outcomes(run)["ledger"] == "fails", "lines that run.json counts are missing"
    (said,) = faults(honest.replace('"update":3,', '"update":3, '))
    assert said == "ledger: The ledger's chain breaks at line 3: it or the line before it was changed"
    (said,) = faults("\n".join([*whole[:-1], last, whole[-1]]) + "\n")
    assert "line 6, which has no link" in said
    (said,) = faults("".join(json.dumps(json.loads(line)) + "\n" for line in whole))
    assert "line 1, which has no link" in said, "written anew, in another form"
    assert outcomes(run)["ledger"] == "fails"
    assert faults(honest) == []


def test_chances_are_those_of_the_draw() -> None:
    assert chance_missed(59, 10_000_000) == pytest.approx(0.95**59, rel=1e-3)
    assert chance_missed(59, 10_000_000) < 0.05
    assert chance_missed(8, 8) == 0
    assert chance_missed(1, 20) == pytest.approx(0.95)
    assert most_by_chance(59, 0, 0.01) in range(4, 8), "about seven more than none"
    assert most_by_chance(59, 20, 0.01) in range(28, 36), "a third disagree with themselves"
    assert most_by_chance(8, 0, 0.01) >= 3


def test_what_improved_is_paired_by_scenario(tiny_run: Path) -> None:
    found = improvement(RunFolder.open(tiny_run))
    assert found is not None
    assert (found.first, found.last) == (3, 6)
    friction = [c for c in found.strata if c.stratum.startswith("friction")]
    assert sum(c.difference.n for c in friction) == 8
    values = [c.difference.value for c in found.strata]
    assert values == sorted(values)
