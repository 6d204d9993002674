"""A plan makes and judges its environments itself: nobody who has one asks which kind it is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_type_hints

import pytest
import torch

from places import SOURCE
from surefoot.compute import memory_bytes
from surefoot.contract import SurefootError, environment_seeds, load_panel, second_panel
from surefoot.training import ExternalPlan, Plan, RobotPlan, make_plan, robot_plan
from surefoot.training.plan_makers import Options, PlanOptions

PENDULUM = "gym:InvertedPendulum-v5"


@pytest.fixture(scope="module")
def robot() -> RobotPlan:
    return robot_plan("tiny:walk")


@pytest.fixture(scope="module")
def outside() -> Plan:
    pytest.importorskip("gymnasium")
    return make_plan(PENDULUM, overrides={"envs": 4, "minibatches": 1})


def test_nobody_asks_which_kind_of_plan_it_is() -> None:
    """Only `restore_robot_plan` does, which refuses to replay what has no robot."""
    asks = re.compile(r"isinstance\([^)]*(?:RobotPlan|ExternalPlan|ExternalTask)")
    files = {p.name: asks.findall(p.read_text()) for p in SOURCE.rglob("*.py")}
    assert {k: v for k, v in files.items() if v} == {"restore.py": ["isinstance(plan, RobotPlan"]}


def test_options_are_those_of_the_dataclass() -> None:
    assert get_type_hints(Options) == get_type_hints(PlanOptions)


def test_a_robot_s_seed_set_is_the_first_key_of_each_family(robot: RobotPlan) -> None:
    seeds, per_family = robot.seeds, robot.accounting.envs_per_seed_family
    keys = {str(f): f"{int(seeds.episode_key([f * per_family], 0)[0]):016x}" for f in range(seeds.families)}
    assert robot.seed_set() == keys


def test_outside_every_environment_is_a_family_with_a_seed_of_its_own(outside: Plan) -> None:
    expected = [f"{s:016x}" for s in environment_seeds(outside.seeds, range(4))]
    assert list(outside.seed_set().values()) == expected
    assert outside.simulator_versions() == outside.task.contract.versions


def test_environments_are_those_of_the_part(robot: RobotPlan, outside: Plan) -> None:
    for plan in (robot, outside):
        half = plan.recipe.envs // 2
        env = plan.environments(range(half, 2 * half))
        assert env.num_envs == half
        env.close()


def test_cards_and_mirrors_fit_the_contract(robot: RobotPlan, outside: Plan) -> None:
    for plan in (robot, outside):
        card = plan.policy_card()
        assert card.contract_digest == plan.task.contract.digest
        assert card.observation == plan.task.contract.observation
    assert robot.policy_card(observation_clip=5.0).observation_clip == 5.0
    mirror = robot.mirror(torch.device("cpu"))
    assert mirror is not None
    assert len(mirror.action.index) == robot.task.contract.action.size
    assert outside.mirror(torch.device("cpu")) is None


def test_another_panel_is_another_construct_of_the_same_run(robot: RobotPlan) -> None:
    other = second_panel(robot.panel)
    judged = robot.on_panel(other)
    assert judged.panel == other
    assert judged.construct_id != robot.construct_id
    assert replace(judged, panel=robot.panel, measurement=robot.measurement) == robot
    leaky = other.model_copy(update={"seeds": robot.seeds})
    with pytest.raises(SurefootError, match="shares keys with training"):
        robot.on_panel(leaky)


def test_a_robot_is_judged_on_any_panel_and_engine_that_there_is(robot: RobotPlan) -> None:
    assert robot.judged_on(None, "auto") is robot
    rough = robot.judged_on("walk-rough-v1", "mujoco")
    assert rough.panel == load_panel("walk-rough-v1")
    with pytest.raises(SurefootError, match="nothere"):
        robot.judged_on(None, "nothere")
    with pytest.raises(SurefootError, match="nothere"):
        robot.judged_on("nothere", "auto")


def test_outside_there_is_one_panel_one_simulator_and_no_perturbation(outside: Plan) -> None:
    assert isinstance(outside, ExternalPlan)
    assert outside.judged_on(None, "auto") is outside
    for panel, engine in (("walk-flat-v1", "auto"), (None, "stride")):
        with pytest.raises(SurefootError, match="leave out --panel and --engine"):
            outside.judged_on(panel, engine)
    assert outside.columns(("all",)) == outside.columns(("none",)) == ()
    with pytest.raises(SurefootError, match="leave out --perturb push"):
        outside.columns(("push",))
    with pytest.raises(SurefootError, match="leave out --sweep"):
        outside.columns(("all",), sweep=True)


def test_baselines_are_found_with_and_without_their_prefix(robot: RobotPlan, outside: Plan) -> None:
    assert type(robot.baseline("baseline:random")) is type(robot.baseline("random"))
    assert type(outside.baseline("baseline:zero")) is type(outside.baseline("zero"))
    with pytest.raises(SurefootError, match="no baseline 'zero'"):
        robot.baseline("zero")
    with pytest.raises(SurefootError, match="no baseline 'hold-pose' outside"):
        outside.baseline("hold-pose")


def test_a_plan_of_no_kind_cannot_be_made(robot: RobotPlan) -> None:
    fields = {k: getattr(robot, k) for k in Plan.__dataclass_fields__}
    with pytest.raises(TypeError, match="abstract"):
        Plan(**fields)  # type: ignore[abstract]


@pytest.mark.parametrize("task", ["walk-flat", PENDULUM])
@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_gpus_precision_is_refused_on_a_cpu(task: str, precision: str) -> None:
    with pytest.raises(SurefootError, match=f"--precision {precision} is for GPUs"):
        make_plan(task, overrides={"precision": precision})
    assert make_plan(task, overrides={"precision": precision}, restored=True).recipe.precision == precision


def test_a_buffer_that_the_machine_cannot_hold_is_refused_with_one_that_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = robot_plan("walk-flat")
    each = plan.accounting.buffer_bytes // plan.recipe.envs
    monkeypatch.setattr("surefoot.training.checks.memory_bytes", lambda: 700 * each)
    with pytest.raises(SurefootError) as refused:
        robot_plan("walk-flat", overrides={"envs": 1024})
    found = re.search(r"use --envs (\d+) or less", str(refused.value))
    assert found
    assert 512 <= int(found[1]) <= 700
    robot_plan("walk-flat", overrides={"envs": int(found[1])})
    assert robot_plan("walk-flat", overrides={"envs": 1024}, restored=True).recipe.envs == 1024


def test_a_plan_says_what_memory_the_machine_has() -> None:
    have = memory_bytes()
    assert have is not None
    assert 10**8 < have < 10**14
    assert robot_plan("tiny:walk").as_json()["memory_bytes"] == have
