"""Claims about the benchmarks: they run from a checkout and write what the documentation is made from."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import surefoot
from places import BENCHMARKS
from scripts import run_script


@pytest.fixture(scope="module")
def throughput(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("benchmarks") / "throughput.json"
    done = subprocess.run(
        (sys.executable, BENCHMARKS / "cpu_throughput.py", "--quick", "--out", out),
        env=os.environ | {"PYTHONPATH": str(Path(surefoot.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Targets" in done.stdout
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_throughput_says_where_and_when_it_was_measured(throughput: dict[str, Any]) -> None:
    assert throughput["schema_version"] == 1
    assert throughput["quick"] is True, "nobody mistakes it for a measurement"
    assert throughput["date"].endswith("+00:00")
    machine = throughput["machine"]
    assert machine["cpu"]
    assert machine["torch_threads"] == 1, "physics and the learner spread work over the cores themselves"
    assert {"python", "torch", "mujoco", "numpy", "gymnasium", "surefoot", "platform"} <= machine.keys()
    plants = throughput["plants"]
    assert (plants["evaluation"]["dt_s"], plants["evaluation"]["decimation"]) == (0.005, 4)
    assert (plants["training"]["dt_s"], plants["training"]["decimation"]) == (0.01, 2)


def test_throughput_has_every_layer_at_every_size_on_both_plants(throughput: dict[str, Any]) -> None:
    rates = throughput["rates"]
    for plant in ("evaluation", "training"):
        seen = {(r["what"], r["envs"]) for r in rates if r["plant"] == plant}
        layers = {
            (what, n)
            for what in ("rollout", "engine", "env", "learning rollout", "training")
            for n in (8, 16)
        }
        assert seen == layers | {("env", 1), ("gymnasium", 2)}
        sweep = throughput["batch_sweep"][plant]
        assert sweep["envs"] == [1, 8, 16]
        assert sweep["flat_from_envs"] in sweep["envs"]


def test_throughput_figures_are_medians_of_the_rounds(throughput: dict[str, Any]) -> None:
    for rate in throughput["rates"]:
        assert len(rate["rounds"]) == 2
        assert min(rate["rounds"]) > 0
        assert rate["steps_per_second"] == pytest.approx(statistics.median(rate["rounds"]), abs=0.1)


def test_throughput_judges_its_targets(throughput: dict[str, Any]) -> None:
    targets = {t["name"]: t for t in throughput["targets"]}
    assert [t["must_be"] for t in targets.values()] == [">= 0.8", ">= 0.6", ">= 3", "< 3"]
    for t in targets.values():
        limit = float(t["must_be"].split()[1])
        assert t["met"] == (t["value"] >= limit if ">=" in t["must_be"] else t["value"] < limit)
    by = {(r["what"], r["envs"]): r["rounds"] for r in throughput["rates"] if r["plant"] == "evaluation"}
    pairs = zip(by["env", 16], by["rollout", 16], strict=True)
    ratio = statistics.median(a / b for a, b in pairs)
    assert targets["VecEnv.step / rollout of the same physics, N=16"]["value"] == pytest.approx(
        ratio, rel=0.01
    )
    assert throughput["memory"]["peak_rss_bytes"] > 1e8, "torch alone takes more than 100 MB"


def run(script: str, out: Path) -> dict[str, Any]:
    """What its quick form gave on this machine, beside what another had given."""
    earlier = {"cuda": True, "quick": False, "rates": []}
    out.write_text(json.dumps({"schema_version": 1, "machines": {"another machine": earlier}}))
    run_script(BENCHMARKS / script, "--quick", "--device", "cpu", "--out", out)
    machines = json.loads(out.read_text())["machines"]
    assert machines.pop("another machine") == earlier, "what another device gave is kept"
    found: dict[str, Any]
    (found,) = machines.values()
    assert found["quick"] is True, "nobody mistakes it for a measurement"
    assert found["cuda"] is False
    return found


def test_engines_are_measured_side_by_side(tmp_path: Path) -> None:
    found = run("engines.py", tmp_path / "engines.json")
    cases = {(r["engine"], r["ground"], r["threads"]) for r in found["rates"]}
    each = {(e, g, t) for e in ("stride", "mujoco") for g in ("plane", "stairs") for t in (1, 2)}
    assert cases == each | {("stride in two halves", g, 2) for g in ("plane", "stairs")}
    assert all(len(r["rounds"]) == 2 and min(r["rounds"]) > 0 for r in found["rates"])
    whats = ("stride over mujoco, 1", "stride over mujoco, 2", "stride, 2 over 1", "mujoco, 2 over 1")
    whats += ("stride in two halves, 2 over 1", "stride over stride in two halves")
    assert set(found["ratios"]) == {f"go1, {g}, 8: {what}" for g in ("plane", "stairs") for what in whats}


def test_what_is_measured_again_takes_the_place_of_what_was(tmp_path: Path) -> None:
    out = tmp_path / "engines.json"
    quick = ("--quick", "--device", "cpu", "--out", out, "--append")
    found = []
    for size in (["--envs", "8"], ["--envs", "16"], ["--envs", "8"]):
        run_script(BENCHMARKS / "engines.py", *quick, *size)
        found.append(next(iter(json.loads(out.read_text())["machines"].values())))
    first, both, again = found
    assert len(both["rates"]) == len(again["rates"]) == 2 * len(first["rates"])
    assert set(both["ratios"]) == set(again["ratios"]) > set(first["ratios"])
    small = [r["rounds"] for r in again["rates"] if r["envs"] == 8]
    assert small != [r["rounds"] for r in both["rates"] if r["envs"] == 8]


def test_hostile_actions_are_told_by_terrain(tmp_path: Path) -> None:
    found = run("adversarial.py", tmp_path / "adversarial.json")
    by = {(r["engine"], r["actions"], r["envs"]): r for r in found["results"]}
    kinds = ("random", "bang-bang", "poisoned")
    assert set(by) == {("stride", k, n) for k in kinds for n in (32, 64)} | {("mujoco", "bang-bang", 10)}
    assert all(r["nonfinite_values"] == 0 for r in by.values())
    for n, hit in ((32, 2), (64, 3)):
        poisoned = by["stride", "poisoned", n]
        assert sum(poisoned["flagged_envs"].values()) == n - poisoned["beside_poisoned"] == hit
        assert poisoned["disturbed"] == 0


def test_parity_is_told_for_every_motion_beside_mujocos_own(tmp_path: Path) -> None:
    found = run("parity.py", tmp_path / "parity.json")
    by = {(r["ground"], r["motion"], r["engine"]): r for r in found["divergence"]}
    motions = {motion for ground, motion, _ in by if ground == "plane"}
    assert motions == {"random targets", "long delay", "settle", "drop", "free flight"}
    level = {engine for ground, motion, engine in by if ground == "flat heightfield"}
    assert level > {"stride", "mujoco off by 1e-6", "mujoco with 4 iterations", "mujoco, prisms"}
    for ground, motion, _ in by:
        ours, off = (by[ground, motion, engine] for engine in ("stride", "mujoco off by 1e-6"))
        for what in ("position_m", "orientation_rad"):
            median, most, largest = ours[what]["0.1"]
            assert 0 <= median <= most <= largest > 0
            assert median < off[what]["0.1"][0]
    (met,) = found["after_ten_control_steps"]
    assert met["second"] == "solo, cpu"
    assert 0 < met["max_m_of_others"] < 1e-6
    assert met["max_m_of_others"] <= met["max_m"]


def test_a_cold_compile_takes_longer_than_a_warm_one(tmp_path: Path) -> None:
    (row,) = run("compile.py", tmp_path / "compile.json")["rows"]
    assert (row["robot"], row["ground"]) == ("go1", "plane")
    assert row["cold_processor_s"] > 5 * row["warm_processor_s"] > 0
    assert row["cold_s"] > row["warm_s"]
