"""Claims about the fleet's benchmarks: slots are apart, what failed is no row, and what is said of runs is
theirs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from places import BENCHMARKS

sys.path.insert(0, str(BENCHMARKS))

from fleet_collecting import Args, summary, turns
from fleet_judged import by_mean_errors
from fleet_slots import Job, Table, run_all
from fleet_staleness import history
from fleet_walk import reached
from surefoot.contract import Success

ASKED = """
import json, os, pathlib, sys
out = pathlib.Path(sys.argv[1])
out.parent.mkdir()
out.write_text(json.dumps(sorted(os.sched_getaffinity(0))))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_every_process_has_cores_of_its_own_and_what_fails_is_no_row(tmp_path: Path) -> None:
    there = sorted(os.sched_getaffinity(0))

    def job(name: str, program: str) -> Job:
        out = tmp_path / name / "cores.json"

        def row() -> dict[str, Any]:
            return {"name": name, "ran_on": json.loads(out.read_text())}

        return Job(name, ["-c", program, str(out)], row, out)

    table = Table(tmp_path / "table.json", True, "abc")
    jobs = [job("a", ASKED), job("b", ASKED), job("c", "raise SystemExit('it broke')")]
    failed = run_all(jobs, 0, 1, table.add)
    assert [f.split(":")[0] for f in failed] == ["c"]
    assert "it broke" in failed[0]
    again = Table(tmp_path / "table.json", True)
    assert sorted(r["name"] for r in again.rows) == ["a", "b"]
    assert again.has(name="a", cores=1)
    assert not again.has(name="c")
    assert {tuple(r["ran_on"]) for r in again.rows} <= {(core,) for core in there}
    assert {r["commit"] for r in again.rows} == {"abc"}


def test_what_had_ended_is_read_and_what_was_broken_off_begins_anew(tmp_path: Path) -> None:
    ended, broken = (tmp_path / name / "row.json" for name in ("ended", "broken"))
    for left in (ended, broken):
        left.parent.mkdir()
        (left.parent / "ledger").write_text("")
    ended.write_text("{}")
    assert Job("ended", ["never.py"], dict, ended).wanting().command == ("-c", "pass")
    job = Job("broken", ["always.py"], dict, broken)
    assert job.wanting() == job
    assert (ended.parent / "ledger").exists()
    assert not broken.parent.exists()


def test_both_take_turns_and_shares_are_of_the_same_round() -> None:
    asked: list[str] = []
    pace = {"alone": iter((10.0, 20.0, 40.0)), "fleet": iter((9.0, 16.0, 20.0))}

    def rate(name: str) -> Any:
        def measure(settle: float, seconds: float) -> float:
            asked.append(name)
            return next(pace[name])

        return measure

    found = summary(turns({k: rate(k) for k in ("alone", "fleet")}, Args(rounds=3)))
    assert asked == ["alone", "fleet", "fleet", "alone", "alone", "fleet"]
    assert found["share"] == {"median": 0.8, "least": 0.5, "most": 0.9, "rounds": [0.9, 0.8, 0.5]}
    assert found["alone"]["median"] == 20.0


def test_the_mark_is_reached_by_two_evaluations_in_a_row() -> None:
    curve = [
        {"update": k, "samples": 10 * k, "train_seconds": 1.0 * k, "success": s}
        for k, s in enumerate((0.2, 0.96, 0.94, 0.95, 0.99))
    ]
    assert reached(curve, "success") == {"update": 3, "samples": 30, "train_seconds": 3.0, "success": 0.95}
    assert reached(curve[:4], "success") is None


def test_mean_errors_and_falls_alone_decide_as_in_version_1() -> None:
    rows = {
        "velocity_error_mps": np.array([0.2, 0.3, 0.2, 0.2]),
        "yaw_error_radps": np.array([0.1, 0.1, 0.4, 0.1]),
        "fall": np.array([0, 0, 0, 1]),
    }
    assert by_mean_errors(rows, Success()).tolist() == [True, False, False, False]


def test_history_says_what_lag_was_on_the_record() -> None:
    row = dict.fromkeys(("kl", "clip_fraction", "learning_rate"), 0.5)
    row |= {"fleet.corrected_share": 1.0, "fleet.clipped_share": 0.25, "reward_per_step": 0.1}
    ledger = [
        row
        | {"samples": k, "episode.return": None}
        | {f"fleet.lag.{x}": min(k, 2) for x in ("min", "mean", "max")}
        for k in range(40)
    ]
    said = history(ledger)
    assert said["lag_on_record"] == {"least": 0, "most": 2, "last": 2}
    assert said["mean"]["fleet.clipped_share"] == 0.25
    assert [p["samples"] for p in said["curve"]] == list(range(1, 40, 2))
