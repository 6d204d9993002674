"""A postmortem says whether behaviour improved, and every number in it stands in an artifact."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from places import GOLDEN
from surefoot.artifacts import JsonLines, read_json, read_table, write_table
from surefoot.evidence.postmortem import Evidence, Postmortem, postmortem
from surefoot.evidence.representatives import representative_failures
from surefoot.runs import RunFolder, load_pass
from surefoot.runs.results import load_result
from surefoot.statistics import panel_strata
from tiny import surefoot


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


def row(update: int, reward: float, success: float | None = None, **more: Any) -> dict[str, Any]:
    out = {"update": update, "reward_per_step": reward} | more
    if success is not None:
        out |= {
            "evaluation.success": success,
            "evaluation.success_low": max(success - 0.1, 0),
            "evaluation.success_high": min(success + 0.1, 1),
            "evaluation.velocity_error_mps": 0.5,
            "evaluation.fall_rate": 0.5,
        }
    return out


def told(run: Path, ledger: list[dict[str, Any]], **summary: Any) -> Postmortem:
    result = load_result(RunFolder.open(run))
    changed = result.summary.model_copy(update=summary)
    return postmortem(dataclasses.replace(result, summary=changed), ledger, "p")


LEARNT = {"success": 0.95, "success_low": 0.9, "success_high": 0.98}
SAME = {"success": 0.1, "success_low": 0.0, "success_high": 0.3}
SLOPPY = {"velocity_error_mps": 0.6, "fall_rate": 0.5, "fall_high": 0.8}


def test_each_verdict_follows_from_the_figures(run: Path) -> None:
    rising = [row(k, 0.001 * k, 0.1 if k == 1 else None) for k in range(1, 21)]
    flat = [row(k, 0.01, 0.1 if k == 1 else None) for k in range(1, 21)]
    assert told(run, rising, **LEARNT, **SLOPPY).verdict == "behaviour"
    closer = {"velocity_error_mps": 0.2, "fall_rate": 0.5, "fall_high": 0.8}
    assert told(run, rising, **SAME, **closer).verdict == "diagnostics"
    only = told(run, rising, **SAME, **SLOPPY)
    assert only.verdict == "headline"
    assert "only the headline score" in only.sentences[3].text
    assert told(run, flat, **SAME, **SLOPPY).verdict == "nothing"


def test_a_rise_within_the_noise_is_no_rise(run: Path) -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, 20)
    ledger = [row(k, float(0.01 + x), 0.1 if k == 0 else None) for k, x in enumerate(noise)]
    ledger[-1]["reward_per_step"] += 0.011
    assert told(run, ledger, **SAME, **SLOPPY).verdict == "nothing"


def look_up(run: Path, e: Evidence) -> Any:
    """What the artifact says under the field that a sentence names."""
    if e.file.endswith("summary.json"):
        return json.loads((run / e.file).read_text())[e.field]
    if e.file == "audit.json":
        audit = json.loads((run / e.file).read_text())
        if found := re.fullmatch(r"findings\.(\d+) \(.*\): cause", e.field):
            return audit["findings"][int(found[1])]["cause"]
        return len(audit[e.field.removesuffix(": count")])
    if found := re.fullmatch(r"success where (.*): mean", e.field):
        rows = load_pass(RunFolder.open(run), (run / e.file).parent).rows
        return rows["success"][panel_strata(rows, RunFolder.open(run).record.contract)[found[1]]].mean()
    if e.file == "ledger.jsonl":
        rows = {r["update"]: r for r in JsonLines(run / e.file).rows()}
        if " at update " in e.field:
            name, update = e.field.split(" at update ")
            return rows[int(update)].get(name)
        if found := re.fullmatch(r"(\S+), mean of updates (\d+) to (\d+)", e.field):
            name, a, b = found.groups()
            return np.mean([rows[k][name] for k in range(int(a), int(b) + 1)])
    return e.value  # of rows, looked up below


def test_every_number_stands_where_the_sentence_says(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("postmortem", run) == 0
    said = capsys.readouterr().out
    found = read_json(run / "postmortem.json", Postmortem)
    assert len(found.sentences) == 7
    assert said.strip() == (run / "postmortem.md").read_text().strip()
    for sentence in found.sentences:
        assert sentence.text in said
        assert sentence.text.endswith(".")
        assert sentence.evidence, sentence.about
        for e in sentence.evidence:
            if e.value is not None:
                assert (run / e.file).is_file()
                assert look_up(run, e) == pytest.approx(e.value), e.field
    assert "not measured" in found.sentences[4].text, "six updates are too few for a look at the batch"


def test_the_batch_is_told_where_it_was_looked_at(run: Path) -> None:
    honest = {
        "honesty.n": 1000, "honesty.n_eff_return": 40.0, "honesty.n_eff_advantage": 500.0,
        "honesty.reset_sync_index": 0.02, "honesty.duplicate_scenarios": 0,
    }  # fmt: skip
    copied = honest | {"honesty.duplicate_scenarios": 7, "honesty.reset_sync_index": 0.9}
    text = told(run, [row(10, 0.1, **copied), row(20, 0.1, **honest)]).sentences[4].text
    assert "1000 samples" in text
    assert "40 independent returns" in text
    assert "7 environments ran copies" in text
    assert "90.0% synchronised at worst" in text


# ---- cases


def failures(**columns: Any) -> dict[str, np.ndarray]:
    n = 6
    rows = {
        "success": np.array([True, False, False, False, False, True]),
        "column": np.full(n, "nominal", object),
        "family": np.arange(n),
        "member": np.zeros(n, int),
        "reason": np.array(["timeout", "tilted", "tilted", "tilted", "timeout", "timeout"], object),
        "lived_s": np.array([10, 3.0, 1.0, 2.0, 10, 10]),
        "fall": np.array([False, True, True, True, False, False]),
        "velocity_error_mps": np.full(6, 0.1),
        "yaw_error_radps": np.full(6, 0.1),
    }
    return rows | columns


def test_two_cases_stand_for_the_two_commonest_failures() -> None:
    label = np.array(["", "slipped", "slipped", "slipped", "drifted", ""], object)
    cause = np.array(["", "action", "action", "action", "state", ""], object)
    trace = np.array(["", "00001", "", "00003", "00004", ""], object)
    cases, note = representative_failures(failures(label=label, cause=cause, trace=trace), "file")
    assert [(c.row, c.label, c.cause, c.trace) for c in cases] == [
        (3, "slipped", "action", "00003"),
        (4, "drifted", "state", "00004"),
    ]
    assert note == ""


def test_rows_without_labels_say_so() -> None:
    cases, _ = representative_failures(failures(), "file")
    assert [(c.row, c.label, c.cause) for c in cases] == [
        (3, "not measured", "not measured"),
        (4, "not measured", "not measured"),
    ]


def test_fewer_failures_give_fewer_cases() -> None:
    alike = failures(success=np.array([True, False, False, True, True, True]))
    assert [c.row for c in representative_failures(alike, "f")[0]] == [1, 2]
    one, note = representative_failures(failures(success=np.arange(6) != 4), "f")
    assert (len(one), note) == (1, "Only one episode failed.")
    assert representative_failures(failures(success=np.ones(6, bool)), "f")[0] == ()


def test_cases_name_rows_of_the_file(run: Path) -> None:
    assert surefoot("postmortem", run, "--json") == 0
    found = read_json(run / "postmortem.json", Postmortem)
    assert len(found.cases) == 2, "an untrained robot fails more than once"
    for case in found.cases:
        rows = read_table(run / case.file)
        assert not rows["success"][case.row]
        assert (rows["family"][case.row], rows["member"][case.row]) == (case.family, case.member)
        if case.column == "nominal" and case.why.startswith("median"):
            assert case.trace, "the median of a label is one of the traces kept"


def test_perturbations_give_the_cases_where_the_nominal_pass_has_none(run: Path) -> None:
    (folder,) = (run / "panels").glob("*/confirmation")
    rows = read_table(folder / "episodes.parquet")
    nominal = (rows["column"] == "nominal") & (rows["engine"] == "mujoco")
    many = {k: np.concatenate([v[nominal]] * 3) for k, v in rows.items()}
    many["column"] = np.repeat(["nominal", "baseline:random", "push_1.5"], 8)
    many["policy"] = np.repeat(["trained", "random", "trained"], 8)
    many["engine"] = np.repeat("mujoco", 24)
    many["success"] = np.array([True] * 8 + [False] * 8 + [True] * 5 + [False] * 3)
    many["label"] = np.where(many["success"], "", "fell after push")
    write_table(folder / "episodes.parquet", many, 1, {})
    found = postmortem(load_result(RunFolder.open(run)), [], "p")
    assert {(c.column, c.label) for c in found.cases} == {("push_1.5", "fell after push")}
    assert {c.row for c in found.cases} <= {21, 22, 23}
    assert len(found.cases) == 2
    assert "the hardest of 1 perturbations was push_1.5 with 62.5% (n 8" in found.sentences[5].text
    assert "No episode of 8 failed in the nominal pass; these failed when perturbed" in found.cases_note


def test_an_unfinished_run_has_no_postmortem(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder.open(run).write_record(status="interrupted", confirmation=None)
    assert surefoot("postmortem", run) == 2
    assert "--resume" in capsys.readouterr().err
    assert not (run / "postmortem.md").exists()


def test_a_run_of_the_first_schema_has_one(tmp_path: Path) -> None:
    golden = GOLDEN / "v1"
    shutil.copytree(golden, tmp_path / "v1")
    assert surefoot("postmortem", tmp_path / "v1") == 0
    text = (tmp_path / "v1" / "postmortem.md").read_text()
    assert "not measured" in text
