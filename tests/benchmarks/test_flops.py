"""Claims about the count of stride's arithmetic: right on programs counted by hand, of the robots that the
engine moves, and what the documentation says."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from places import BENCHMARKS
from scripts import run_script
from surefoot.compiler.expressions import exp, lift, sin, sqrt, where
from surefoot.compiler.program import COUNT, Block, Group, Program, run
from surefoot.engines.stride import StrideEngine, newton
from surefoot.engines.stride.numpy_backend import NumpyStep
from surefoot.robots import robot

sys.path.insert(0, str(BENCHMARKS))

from engines import PLANTS, actions
from flops import Costs, Tally, loops, play
from roofline import Peaks

ENVS = 16  # two warps of eight robots with four chains
ROBOTS, LANES = 8, 4


def tallied(program: Program, **values: Any) -> Tally:
    tally = Tally(program, ENVS)
    run(program, values, watch=tally)
    return tally


def flops(tally: Tally, part: str) -> tuple[float, float, float]:
    return tally.needed[part][0], tally.alone[part][0], tally.issued[part][0]


def test_a_straight_line_is_counted_by_what_its_numbers_depend_on() -> None:
    p = Program(chains=4, slots=1)
    x, y = p.variable("x"), p.variable("y", "chain")
    p.part = "blocks"
    p.let("chain", {"z": x * x * y + y / 3.0 - where(y < 0.0, y, -y)})
    p.part = "sums"
    p.sum(["z"])
    tally = tallied(p, x=np.ones(ENVS), y=np.ones((4, ENVS)))
    # x * x once for the robot; of each chain two products, an addition and a subtraction
    assert flops(tally, "blocks") == (ENVS * (1 + 4 * 4), ENVS * 4 * 5, ENVS * 4 * 5)
    # two products, the third with the addition, subtraction, comparison and selection; a sign is free
    assert tally.issued["blocks"][1] == ENVS * 4 * 6
    # three additions make a sum of four; lanes add twice, after a shuffle each
    assert flops(tally, "sums") == (ENVS * 3, ENVS * 4 * 2, ENVS * 4 * 2)
    assert tally.issued["sums"][1] == ENVS * 4 * 4


def test_what_is_known_is_not_computed_again() -> None:
    p = Program(chains=4, slots=1)
    x, y = p.variable("x"), p.variable("y")
    p.let("env", {"a": sqrt(x) * y})
    p.let("env", {"b": sqrt(x) * y + 1.0})
    p.let("env", {"y": y + 1.0})
    p.let("env", {"c": sqrt(x) * y})
    costs = [Costs(p).of[id(s)].robot[0] for s in p.body]
    assert costs == [2, 1, 1, 1], "the root holds on, the product does not after y was assigned"


def test_a_loop_is_needed_by_each_robot_and_issued_until_the_last_is_done() -> None:
    p = Program(chains=4, slots=1)
    left, x = p.variable("left"), p.variable("x")
    p.part = "loop"
    with p.while_any(left > 0.5, 20):
        p.let("env", {"left": left - 1.0, "x": sqrt(x) + sin(x)})
        p.part = "branch"
        with p.when_any(p.variable("rare") > 0.5):
            p.let("chain", {"z": p.variable("y", "chain") * 2.0})
    turns = np.array([0, 1, 2, 3, 0, 0, 5, 1, *[2] * 8])
    rare = np.zeros(ENVS)
    rare[1] = 1  # of the first warp: wanted once, in all of its warp's turns
    tally = tallied(p, left=turns, rare=rare)
    each = 1 + 1 + 1 + 11  # a subtraction, root, addition, sine
    assert flops(tally, "loop") == (
        each * turns.sum(),
        each * LANES * turns.sum(),
        each * LANES * ROBOTS * (5 + 2),
    )
    assert flops(tally, "branch") == (4, 4, LANES * ROBOTS * 5)
    (loop,) = loops(p.body)
    assert Costs(p).straight(loop.body) == {"flops": each, "instructions": each}


def test_contacts_are_counted_where_they_are() -> None:
    p = Program(chains=4, slots=3)
    depth = p.param("depth", np.arange(12.0).reshape(3, 4), Group(0, 3))
    height = p.variable("height", "chain")
    p.part = "none"
    p.let("chain", {COUNT: 0.0, "force": 0.0})
    p.part = "found"
    p.collect(Group(0, 3), height * height - depth < 0.0, {"gap": (height * height - depth) * 2.0})
    p.part = "pushed"
    p.for_items({"force": p.variable("gap", "item") * 3.0})
    height = np.full((4, ENVS), 10.0)  # no contact
    height[3, 0] = 3.0  # 9 < 11: the last slot
    height[2, 1] = 2.0  # 4 < 6, 10: the last two
    tally = tallied(p, height=height)
    # a product per chain and a subtraction per slot, whether it touches or not; then a product per contact
    looked = ENVS * 4 * (1 + 3)
    assert flops(tally, "found") == (looked + 3, looked + 4 * (1 + 2), looked + LANES * ROBOTS * 2)
    # a product and what adds it up; the warp goes on while one of its lists has something
    assert flops(tally, "pushed") == (2 * 3, 4 * 2 * (1 + 2), LANES * ROBOTS * 2 * 2)
    assert flops(tally, "none") == (0, 0, 0)


def test_an_operation_without_a_cost_is_refused() -> None:
    p = Program(chains=4, slots=1)
    p.let("env", {"a": exp(p.variable("x"))})
    with pytest.raises(KeyError):
        Costs(p)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("flops") / "flops.json"
    run_script(BENCHMARKS / "flops.py", "--quick", "--out", out)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_robots_counted_are_the_engines(quick: dict[str, Any]) -> None:
    assert quick["quick"] is True, "nobody mistakes it for a measurement"
    for plant in PLANTS:
        assert quick["plants"][plant]["off_engine_m"]["most"] < 1e-6


def test_every_part_of_a_step_is_counted(quick: dict[str, Any]) -> None:
    for found in quick["plants"].values():
        assert list(found["parts"]) == [
            "dynamics",
            "constraints",
            "Newton steps",
            "line search",
            "integration",
        ]
        for figures in [*found["parts"].values(), found["all"]]:
            assert 0 < figures["needed"] < figures["alone"] <= figures["issued"]
            assert figures["issued"] / 2 < figures["instructions"]
        turns = found["iterations"]
        assert 0 < turns["robot"] < turns["warp"] < turns["block"]


def test_the_document_tells_the_counts_that_were_made(quick: dict[str, Any]) -> None:
    made = json.loads((BENCHMARKS / "flops.json").read_text())
    text = " ".join((BENCHMARKS.parent / "docs" / "internals" / "engines.md").read_text().split())
    assert made["quick"] is False
    plain, evaluation = made["plants"]["plain"], made["plants"]["evaluation"]
    for plant, found in made["plants"].items():
        assert found["lane"] == quick["plants"][plant]["lane"], "the program has changed: count again"
    turns, more = plain["iterations"], evaluation["iterations"]
    assert f"{turns['warp']} iterations where a robot needs {turns['robot']} on average" in text
    assert f"{more['warp']} instead of {more['robot']} on the evaluation plant" in text
    assert f"the slowest of thirty-two, {turns['block']} and {more['block']} iterations" in text
    one, other = (x["lane"]["iteration"]["instructions"] for x in (plain, evaluation))
    assert f"the count has {one} ({other:,})" in text
    one, other = (x["lane"]["turn of the line search"]["instructions"] for x in (plain, evaluation))
    assert f"it has {one} ({other})" in text
    machines = json.loads((BENCHMARKS / "engines.json").read_text())["machines"]
    want = {"engine": "stride", "robot": "go1", "ground": "plane", "envs": 65536}
    (one,) = (r for r in machines["NVIDIA H200"]["rates"] if (want | {"plant": "plain"}).items() <= r.items())
    moved, needed = one["kernel"]["bytes_per_step"], plain["all"]["needed"]
    assert f"It needs {needed / moved:.0f} flops for each of the {moved} bytes" in text
    share = one["steps_per_second"] * needed / (Peaks().fp32_tflops * 1e12)
    assert f"what is needed is {100 * share:.1f}% of the arithmetic's" in text
    assert f"meet at {Peaks().fp32_tflops / Peaks().memory_tbps:.0f}." in text


def test_longer_searches_end_what_short_ones_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of one turn, shorter than they are, leave Newton's method going to and fro up to its limit."""
    engine = StrideEngine(robot("go1"), PLANTS["evaluation"], 64, threads=1)
    targets = [t.numpy() for t in actions(engine, 4)]
    monkeypatch.setattr(newton, "SEARCH_ITERATIONS", 1)
    assert play(engine, targets).iterations.max() < newton.ITERATIONS
    monkeypatch.setattr(newton, "PATIENCE", 1000)
    assert play(engine, targets).iterations.max() == newton.ITERATIONS
    engine.close()


def test_newton_steps_are_counted_from_every_physics_step_anew() -> None:
    """A kernel goes through the program once for each, with the variables of the one before."""
    engine = StrideEngine(robot("go1"), PLANTS["evaluation"], 1, threads=1)
    program = NumpyStep(engine.layout).program
    engine.close()
    begun = [
        s.outputs[x]
        for s in program.body
        if isinstance(s, Block)
        for x in s.outputs
        if x.name == "iterations"
    ]
    assert begun == [lift(0.0)]
