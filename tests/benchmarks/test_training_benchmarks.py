"""Claims about the training benchmarks: they run anywhere, count right, and the documentation is theirs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from places import BENCHMARKS
from scripts import run_script
from surefoot.learners.update import PpoUpdate

sys.path.insert(0, str(BENCHMARKS))

import document
from gpu_training import TINY
from proof_tables import TABLES
from roofline import Peaks, Work, learning
from time_to_walk import outcome, reached, summary
from training_loop import Loop


def run(script: str, *options: str | Path) -> str:
    return run_script(BENCHMARKS / script, *options)


def test_training_is_measured_by_part_and_kept_by_machine(tmp_path: Path) -> None:
    out = tmp_path / "training.json"
    earlier = {"cuda": True, "quick": False, "date": "2026-01-01", "table": [], "scaling": [], "peers": {}}
    out.write_text(json.dumps({"schema_version": 1, "machines": {"another machine": earlier}}))
    run("gpu_training.py", "--quick", "--device", "cpu", "--out", out)
    machines = json.loads(out.read_text())["machines"]
    assert machines.pop("another machine") == earlier, "what another device gave is kept"
    (found,) = machines.values()
    assert found["quick"] is True, "nobody mistakes it for a measurement"
    assert [r["precision"] for r in found["table"]] == ["fp32", "fp32"], "what a CPU has"
    assert [r["envs"] for r in found["scaling"]] == [32, 64]
    for row in found["table"]:
        assert row["samples"] == row["envs"] * row["horizon"] == 128
        assert min(row["rounds"]) > 0
        assert {"rollout", "advantages", "update", "logging", "loop", "trainer"} == row["ms"].keys()
        whole = sum(row["ms"][k] for k in ("rollout", "advantages", "update", "logging"))
        assert row["ms"]["trainer"] == pytest.approx(whole, abs=0.01)
        assert row["roofline"]["update"]["gflop"] > 0
        assert "floor_ms" not in row["roofline"]["update"], "no peaks are claimed for a CPU"
    for peer in found["peers"].values():
        assert "not_measured" in peer or peer["steps_per_second"] > 0
    assert "not_measured" in found["peers"]["mjlab"], "nothing was installed for it"


def test_time_to_walk_trains_scores_and_confirms(tmp_path: Path) -> None:
    out = tmp_path / "walk.json"
    run("time_to_walk.py", "--quick", "--device", "cpu", "--out", out, "--policies", tmp_path / "policies")
    (found,) = json.loads(out.read_text())["machines"].values()
    assert found["quick"] is True
    ((task, entry),) = found["tasks"].items()
    assert task == "trot-flat"
    (only,) = entry["runs"]
    assert [c["update"] for c in only["curve"]] == [2, 4]
    assert 0 < only["curve"][0]["train_seconds"] < only["curve"][1]["train_seconds"]
    assert only["train_seconds"] is None, "four updates teach nobody to walk"
    assert entry["summary"]["reached"] == 0
    assert only["confirmation"]["engine"] == "mujoco"
    (process,) = found["process"]
    assert 0 < process["policy_seconds"] <= process["confirmed_seconds"] <= process["exit_seconds"]


def test_two_in_a_row_must_reach_the_mark() -> None:
    assert reached([0.2, 0.96, 0.94, 0.95, 0.99], 0.95) == 3
    assert reached([0.96, 0.94, 0.96], 0.95) is None
    assert reached([], 0.95) is None


def test_a_run_that_never_walks_is_the_worst() -> None:
    def entry(seed: int, seconds: float | None) -> dict[str, Any]:
        return {
            "seed": seed,
            "train_seconds": seconds,
            "confirmation": {"success": 0.9},
            "stopped": seconds and {"train_seconds": seconds + 0.1, "confirmation": {"success": 1.0}},
        }

    found = summary([entry(1, 0.8), entry(2, None), entry(3, 1.2)])
    assert found["train_seconds_median"] == 1.2
    assert found["train_seconds_worst"] is None
    assert found["reached"] == 2
    assert found["stopped"]["train_seconds_median"] == pytest.approx(1.3)
    assert found["stopped"]["train_seconds_worst"] is None
    assert found["stopped"]["confirmation_success_worst"] == 1.0, "of those that stopped"


def test_seconds_and_success_belong_to_the_same_policy() -> None:
    curve = [{"update": 5 * k, "samples": 100 * k, "train_seconds": 0.1 * k} for k in range(1, 5)]
    confirmed = {u: {"update": u, "success": u / 100} for u in (5, 10, 15, 20)}
    found = outcome(curve, 2, confirmed.__getitem__)
    assert (found["train_seconds"], found["updates"]) == (0.3, 15)
    assert found["confirmation"] == confirmed[15], "not that of the evaluation after it"
    assert found["stopped"] == {"train_seconds": 0.4, "confirmation": confirmed[20]}
    never = outcome(curve, None, confirmed.__getitem__)
    assert never["train_seconds"] is None
    assert never["stopped"] is None
    assert never["confirmation"] == confirmed[20]


def test_flops_are_those_that_torch_counts() -> None:
    plan = TINY.plan("cpu")
    loop = Loop(plan)
    loop.collect()
    learner = loop.learner
    one_thread = PpoUpdate(plan.recipe, learner.symmetry, 1, learner.state, loop.block, shards=1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        one_thread.enqueue()
    loop.close()
    assert learning(plan.task.contract, plan.recipe).flops == counter.get_total_flops()


def test_roofline_is_arithmetic_over_peaks() -> None:
    found = Work(flops=990e9, bytes=9.6e9, compulsory=4.8e9).report(4.0, "tf32", Peaks())
    assert found["arithmetic_ms"] == pytest.approx(2.0)
    assert found["traffic_ms"] == pytest.approx(2.0)
    assert found["floor_ms"] == pytest.approx(2.0)
    assert found["share_of_bandwidth"] == pytest.approx(0.5)
    assert found["achieved_tflops"] == pytest.approx(247.5)


def test_warming_up_changes_nothing() -> None:
    policies = []
    for updates in (0, 2):
        loop = Loop(TINY.plan("cpu"))
        if updates:
            loop.warm_up(updates)
        loop.run()
        loop.run()
        policies.append(loop.policy().tensors)
        loop.close()
    for name, cold in policies[0].items():
        assert torch.equal(cold, policies[1][name]), name


def test_prose_tells_the_rates_that_were_measured() -> None:
    machines = json.loads((BENCHMARKS / "engines.json").read_text())["machines"]
    rows = machines["NVIDIA H200"]["rates"]
    rates = {
        (r["engine"], r["robot"], r["ground"], r["plant"], r["envs"]): r["steps_per_second"] for r in rows
    }
    ours, warp = (rates[name, "go1", "plane", "evaluation", 4096] for name in ("stride", "mujoco-warp"))
    document = " ".join((BENCHMARKS.parent / "docs" / "internals" / "engines.md").read_text().split())
    shares = [
        100 * rates["stride", "go1", "stairs", plant, n] / rates["stride", "go1", "plane", plant, n]
        for plant in ("evaluation", "plain")
        for n in (4096, 65536)
    ]
    told = "reach {:.0f}% of the plane's rate at N = 4,096 and {:.0f}% at 65,536 on the evaluation plant"
    assert (told + ", {:.0f} and {:.0f}% on the plain one").format(*shares) in document
    assert f"stride makes {ours / warp:.0f} times the steps of MuJoCo Warp" in document
    assert 1200 <= ours / rates["mjx", "go1", "plane", "evaluation", 4096] < 1300
    assert "twelve hundred times those of MJX" in document


def test_proof_tables_show_every_device_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {"parity.json": ("parity", "orientation", "closer", "itself"), "adversarial.json": ("hostile",)}
    shown |= {"compile.json": ("cold",)}
    for name in shown:
        found = json.loads((BENCHMARKS / name).read_text())
        for kind, quick in (("measured", False), ("tried", True)):
            one = next(iter(found["machines"].values())) | {"cuda": True, "quick": quick}
            found["machines"][f"a GPU that was {kind}"] = json.loads(
                json.dumps(one).replace("solo, cpu", "lanes, cuda")
            )
        (tmp_path / name).write_text(json.dumps(found))
    monkeypatch.setattr(document, "HERE", tmp_path)
    for table in (table for tables in shown.values() for table in tables):
        made = TABLES[table]()
        assert "a GPU that was measured" in made, table
        assert "tried" not in made, table


def test_the_tasks_part_of_a_step_is_measured_each_way(tmp_path: Path) -> None:
    out = tmp_path / "kernels.json"
    run("task_kernels.py", "--quick", "--device", "cpu", "--out", out)
    (found,) = json.loads(out.read_text())["machines"].values()
    (row,) = found["rows"]
    assert found["quick"] is True
    for way in ("torch", "generated"):
        assert row[way]["microseconds"] > 0
    for way in ("torch.compile", "torch.compile but for draws"):
        assert "not_measured" in row[way] or row[way]["microseconds"] > 0


def test_a_run_is_recorded_with_its_report_and_by_terrain_class(tmp_path: Path) -> None:
    out, pages = tmp_path / "learning.json", tmp_path / "reports"
    small = "--updates 2 --envs 64 --horizon 4 --minibatches 2 --epochs 1 --families 4 --eval-families 64"
    where = ("--runs", tmp_path, "--out", out, "--reports", pages)
    what = ("--tasks", "walk-rough", "--seeds", "7", "--device", "cpu", "--perturb", "none")
    run("learning.py", *what, *small.split(), *where)
    (found,) = json.loads(out.read_text())["runs"]
    assert (found["task"], found["seed"], found["figures"]["samples"]) == ("walk-rough", 7, 512)
    (column,) = [c for c in found["confirmation"]["columns"] if c["engine"] == "mujoco"]
    counts = found["classes"]["mujoco"]
    assert {"stairs_up", "stones"} <= counts.keys()
    assert sum(n for _, n in counts.values()) == column["episodes"]
    assert sum(k for k, _ in counts.values()) == round(column["success"] * column["episodes"])
    assert "</html>" in (pages / "walk-rough-seed7.html").read_text()
    assert out.with_suffix(".svg").exists()
