"""What is frozen before a run: accounting, dealt strata, panels, and who may be compared with whom."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from places import GOLDEN, SOURCE
from surefoot.artifacts import read_json, write_json
from surefoot.contract import (
    EVALUATION_PLANT,
    SOURCES,
    Factor,
    Panel,
    Recipe,
    SeedPlan,
    SourceName,
    Strata,
    SurefootError,
    TaskContract,
    canonical,
    construct_fields,
    differences,
    digest,
    dump_panel,
    evaluation_plant,
    interface_fields,
    load_panel,
    make_panel,
    measurement_fields,
    panel_names,
    parse_panel,
    training_id,
)
from surefoot.contract.panel import factor_values
from surefoot.contract.panel_makers import MAKERS
from surefoot.contract.panel_recipes import RECIPES
from surefoot.env.scenarios import TrainSampler
from surefoot.evaluation import code_digests
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder, RunRecord
from surefoot.tasks import task
from surefoot.tasks.registry import BUILT_IN
from surefoot.terrain import HELD_OUT, TRAINED
from surefoot.training.checks import check_disjoint
from surefoot.training.plan_makers import make_plan
from tiny import PANEL, surefoot, tiny_panel

WALK = task("walk-flat")
ROUGH = task("walk-rough")
PLAIN = make_plan("walk-flat")
PANELS = {name: make_panel(name) for name in MAKERS}
TEXTBOOK = ["plan", "walk-flat", "--envs", "4096", "--horizon", "24", "--minibatches", "8", "--epochs", "5",
            "--control-hz", "50", "--families", "128", "--json"]  # fmt: skip


# ---- recipe and accounting


def test_plan_of_the_textbook_recipe_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot(*TEXTBOOK) == 0
    plan = json.loads(capsys.readouterr().out)
    expected = {
        "rollout_shape": [24, 4096],
        "samples_per_update": 98304,
        "seconds_per_env": 0.48,
        "aggregate_robot_seconds": 1966.08,
        "minibatch_size": 12288,
        "sample_reuse": 5,
        "gradient_steps": 40,
        "policy_lag": [24, 5],
        "train_seed_families": 128,
        "envs_per_seed_family": 32,
        "eval_seed_families": 400,
        "eval_envs": 400,
        "strata": 36,
    }
    assert {k: plan[k] for k in expected} == expected
    assert len(plan["stratum_names"]) == plan["strata"]
    assert len(plan["construct_id"]) == len(plan["training_id"]) == 64
    c = WALK.contract
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    assert plan["buffer_bytes"] == RolloutBlock.empty(24, 4096, *widths, torch.device("cpu")).bytes


def test_every_class_of_terrain_is_dealt_to_some_robot_or_the_plan_is_refused() -> None:
    few = {"envs": 16, "families": 16, "horizon": 8, "minibatches": 2}
    with pytest.raises(SurefootError, match=r"nobody is dealt .*wave; use --families 2"):
        make_plan("walk-rough", overrides=few)
    make_plan("walk-rough", overrides=few | {"families": 2})
    with pytest.raises(SurefootError, match=r"nobody is dealt .*; use --envs 8 --families 1\."):
        make_plan("walk-rough", overrides=few | {"envs": 4, "families": 4})
    make_plan("walk-rough", overrides=few | {"envs": 8, "families": 1})
    make_plan("walk-rough", overrides=few | {"envs": 24, "families": 24})
    make_plan("walk-flat", overrides=few)


def test_a_thousand_million_robots_are_more_than_a_machine_holds() -> None:
    with pytest.raises(SurefootError, match=r"use --envs \d+ or less"):
        make_plan("walk-rough", overrides={"envs": 10**9, "families": 125})


def test_a_thousand_million_robots_are_planned_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that does not say how much it has, as on one that has enough."""
    monkeypatch.setattr("surefoot.training.checks.memory_bytes", lambda: None)
    tracemalloc.start()
    try:
        make_plan("walk-rough", overrides={"envs": 10**9, "families": 125})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 500e6, "bytes; an array of all robots would be eight thousand million"


def test_plan_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert surefoot("plan", "walk-flat", "--envs", "16", "--families", "4") == 0
    assert list(tmp_path.iterdir()) == []


@given(*[st.integers(1, 60)] * 4, st.sampled_from(["walk-flat", "walk-rough"]))
@settings(max_examples=30, deadline=None)
def test_a_recipe_divides_evenly_or_names_one_that_does(
    members: int, families: int, horizon: int, minibatches: int, name: str
) -> None:
    envs = members * families
    sizes = {"envs": envs, "families": families, "horizon": horizon}
    try:
        recipe = Recipe(**sizes, minibatches=minibatches)
    except SurefootError as error:
        assert (horizon * envs) % minibatches
        for better in str(error).split("--minibatches ")[1].rstrip(".").split(" or "):
            Recipe(**sizes, minibatches=int(better))
        return
    name = name if members >= 8 else "walk-flat"  # else a class of terrain might have no robot
    a = make_plan(name, overrides=recipe.model_dump() | {"eval_families": 2}).accounting
    assert a.minibatch_size * minibatches == a.samples_per_update == horizon * envs
    assert a.envs_per_seed_family * families == envs
    assert a.aggregate_robot_seconds == pytest.approx(a.seconds_per_env * envs)


def test_families_that_do_not_divide_are_refused_with_two_that_do() -> None:
    with pytest.raises(SurefootError, match="use --families 32 or 64"):
        Recipe(envs=512, families=33)


def test_a_refusal_is_quick_however_large_the_number() -> None:
    with pytest.raises(SurefootError, match="use --families 1 or 1000000007"):
        Recipe(envs=1_000_000_007, families=32)
    with pytest.raises(SurefootError, match="use --minibatches 12288"):
        Recipe(minibatches=10**15)


def test_evaluation_plant_keeps_its_time_step_at_any_control_rate() -> None:
    for hz, decimation in ((200, 1), (100, 2), (50, 4), (40, 5), (25, 8)):
        plant = evaluation_plant(hz)
        assert (plant.dt_s, plant.decimation, plant.control_hz) == (0.005, decimation, pytest.approx(hz))
    with pytest.raises(SurefootError, match="use 200, 100, 50, 40 or 25"):
        evaluation_plant(37)


# ---- factors and strata


def dealt(
    strata: Strata, name: str, families: int, members: int, episode: int, segment: int = 0
) -> np.ndarray:
    env = np.arange(families * members)
    return strata.deal(name, env // members, env % members, env, np.full_like(env, episode), segment)


SIZES = st.tuples(st.integers(1, 40), st.integers(1, 40))


LIVES = (
    ROUGH.contract.strata,
    Strata(
        factors=(
            Factor(name="strength", unit="", level="env", train=(0, 1), bins=3),
            Factor(name="terrain", unit="", level="env", categories=("a", "b", "c"), shares=(2, 1, 4)),
            Factor(name="friction", unit="", level="family", train=(0, 1), bins=2),
            Factor(name="payload", unit="", level="family", train=(0, 1), bins=2),
        )
    ),
)


@given(st.sampled_from(LIVES), st.integers(1, 200), st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_what_is_dealt_for_life_is_known_without_asking_everybody(
    strata: Strata, families: int, members: int
) -> None:
    everybody = set(dealt(strata, "terrain", families, members, 0).tolist())
    assert strata.dealt_for_life("terrain", families, members) == everybody


@given(SIZES)
@settings(max_examples=200, deadline=None)
def test_family_cells_are_dealt_evenly_to_within_one_family(size: tuple[int, int]) -> None:
    families, members = size
    cells = dealt(WALK.contract.strata, "friction", families, members, 0).reshape(families, members)
    assert (cells == cells[:, :1]).all(), "a family shares its floor"
    count = np.bincount(cells[:, 0], minlength=3)
    assert count.max() - count.min() <= 1


@given(SIZES)
@settings(max_examples=200, deadline=None)
def test_environment_cells_are_even_within_every_family_cell(size: tuple[int, int]) -> None:
    strata = WALK.contract.strata
    friction, payload = (dealt(strata, n, *size, 0) for n in ("friction", "payload"))
    for floor in np.unique(friction):
        count = np.bincount(payload[friction == floor], minlength=3)
        assert count.max() - count.min() <= 1


@given(SIZES, st.integers(0, 10_000), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_commands_get_their_shares_in_every_round_of_episodes(
    size: tuple[int, int], episode: int, segment: int
) -> None:
    n = size[0] * size[1]
    count = np.bincount(dealt(WALK.contract.strata, "command", *size, episode, segment), minlength=4)
    shares = np.array(WALK.contract.factor("command").shares)
    whole = n // shares.sum()
    assert (count >= whole * shares).all()
    assert (count <= (whole + 1) * shares).all()


@given(SIZES, st.integers(0, 1000), st.sampled_from([WALK.contract, ROUGH.contract]))
@settings(max_examples=60, deadline=None)
def test_over_a_cycle_every_environment_meets_every_episode_cell_in_its_share(
    size: tuple[int, int], first: int, contract: TaskContract
) -> None:
    """So the joint shares over a cycle are exactly those declared, whatever the sizes."""
    strata = contract.strata
    changing = [f for f in strata.factors if f.level == "episode"]
    cycle = int(np.prod([len(f.deck) for f in changing]))
    joint = np.zeros((size[0] * size[1], *(f.cells for f in changing)), np.int64)
    for episode in range(first, first + cycle):
        cells = [dealt(strata, f.name, *size, episode) for f in changing]
        np.add.at(joint, (np.arange(len(joint)), *cells), 1)
    shares = [np.bincount(f.deck, minlength=f.cells) for f in changing]
    expected = shares[0] if len(shares) == 1 else np.multiply.outer(*shares)
    assert (joint == expected).all()


def test_the_sampler_draws_inside_the_cell_it_was_dealt() -> None:
    c = WALK.contract
    seeds = SeedPlan(root=3, families=9, envs=45)
    sampler = TrainSampler(c, WALK.robot, seeds, 50.0, None, torch.device("cpu"))
    everyone = torch.arange(45)
    counts = np.zeros(c.strata.count, np.int64)
    for episode in range(10):
        s = sampler.draw(everyone, torch.full((45,), episode), torch.zeros(45, dtype=torch.int64))
        cells = dict(
            zip(c.strata.names, np.unravel_index(s.script.stratum[:, 0].numpy(), c.strata.shape), strict=True)
        )
        for name, value in (("friction", s.parameters.friction), ("payload", s.parameters.payload_kg)):
            np.testing.assert_array_equal(c.factor(name).bin_of(value.numpy()), cells[name])
        command, mode = s.script.commands[:, 0].numpy(), cells["command"]
        kinds = c.factor("command").categories
        assert (command[mode == kinds.index("stand")] == 0).all()
        assert (command[mode == kinds.index("forward"), 0] >= 0).all()
        assert (command[mode == kinds.index("backward"), 0] <= 0).all()
        assert ((command[mode == kinds.index("axis")] != 0).sum(1) <= 1).all()
        counts += np.bincount(s.script.stratum[:, 0].numpy(), minlength=len(counts))
    np.testing.assert_array_equal(counts, np.round(450 * c.strata.weights()))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_a_deck_holds_every_category_as_often_as_its_share(shares: list[int]) -> None:
    names = tuple(f"c{k}" for k in range(len(shares)))
    factor = Factor(name="f", unit="1", level="episode", categories=names, shares=tuple(shares))
    assert Counter(factor.deck) == dict(enumerate(shares))
    strata = Strata(factors=(factor, Factor(name="g", unit="1", level="env", train=(0, 1), bins=2)))
    assert strata.weights().sum() == pytest.approx(1)
    assert len(set(strata.labels())) == strata.count == 2 * len(shares)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"categories": ("a", "b"), "shares": (1,)}, "give as many shares"),
        ({"train": (1.0, 0.0)}, "swap its ends"),
        ({"bins": 0}, "use 1 or more"),
    ],
)
def test_a_factor_that_makes_no_sense_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(SurefootError, match=why):
        Factor(name="f", unit="1", level="env", **fields)


# ---- panels


def test_every_shipped_panel_has_a_maker() -> None:
    assert panel_names() == sorted({*PANELS, *RECIPES})


@pytest.mark.parametrize("name", PANELS)
def test_shipped_panels_regenerate_bit_for_bit(name: str) -> None:
    folder = Path(sys.modules["surefoot"].__file__ or "").parent / "panels"
    assert dump_panel(PANELS[name]).encode() == (folder / f"{name}.json").read_bytes()
    assert load_panel(name) == PANELS[name]


def test_the_panel_of_these_tests_regenerates_too() -> None:
    assert dump_panel(tiny_panel()).encode() == PANEL.read_bytes()


def test_panel_make_writes_the_shipped_file_and_nothing_over_another(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    assert surefoot("panel", "make", "walk-flat-v1", "--out", out) == 0
    assert load_panel(str(out)) == PANELS["walk-flat-v1"]
    assert surefoot("panel", "make", "walk-flat-v1", "--out", out) == 0
    out.write_text("mine")
    assert surefoot("panel", "make", "walk-flat-v1", "--out", out) == 2
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    "old", ['"friction":0.4', '"time_s":3', '"episode_s":10.0', '"half":"selection"', '"root":2026']
)
def test_a_tampered_panel_is_refused(old: str) -> None:
    text = dump_panel(PANELS["walk-flat-v1"])
    new = {
        '"time_s":3': '"time_s":4',
        '"half":"selection"': '"half":"confirmation"',
        '"episode_s":10.0': '"episode_s":9.0',
    }.get(old, old[:-1] + "3")
    assert old in text
    with pytest.raises(SurefootError, match="changed after it was frozen"):
        parse_panel(text.replace(old, new, 1), "panel")


NO_PANELS = ["", "[]", "3", "{}", '{"panel": 1}', "\x00", '{"panel": {"seeds": {"root": -1}}}']


@pytest.mark.parametrize("text", NO_PANELS)
def test_what_is_not_a_panel_is_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(SurefootError, match=r"p\.json"):
        load_panel(str(tmp_path / "p.json"))


@pytest.mark.parametrize("panel", PANELS.values(), ids=list(PANELS))
def test_halves_share_no_family_and_cover_every_condition(panel: Panel) -> None:
    halves = [panel.select("selection"), panel.select("confirmation")]
    assert {s.family for s in halves[0]}.isdisjoint({s.family for s in halves[1]})
    assert len(halves[0]) == len(halves[1]) == len(panel.select("all")) / 2
    for column in ("command", "friction", "payload_kg"):
        everything = {getattr(s, column) for s in panel.scenarios}
        for half in halves:
            assert {getattr(s, column) for s in half} == everything
    classes = {s.terrain.cls for s in panel.scenarios}
    assert all({s.terrain.cls for s in half} == classes for half in halves)
    assert len({(s.family, s.member) for s in panel.scenarios}) == len(panel.scenarios)


@pytest.mark.parametrize("name", ["walk-rough-v1", "walk-anymal-rough-v1"])
def test_a_rough_panel_has_classes_and_tiles_that_are_never_trained_on(name: str) -> None:
    classes = Counter(s.terrain.cls for s in PANELS[name].scenarios)
    assert set(classes) == {*TRAINED, *HELD_OUT}
    assert set(HELD_OUT).isdisjoint(t.cls for t in ROUGH.tiles)
    assert max(classes.values()) == min(classes.values())
    trained = {(t.cls, t.level, t.key) for t in ROUGH.tiles}
    assert trained.isdisjoint((s.terrain.cls, s.terrain.level, s.terrain.key) for s in PANELS[name].scenarios)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_panel_stays_within_what_its_task_declares_as_held_out(name: str) -> None:
    """And nearly reaches both ends of it: what `plan` prints is what the panel has."""
    contract = task(name).contract
    seen: dict[str, list[float]] = {}
    for s in load_panel(contract.panel).select("confirmation"):
        for factor, values in factor_values(s).items():
            seen.setdefault(factor, []).extend(values)
    assert set(seen) == {f.name for f in contract.factors} - {"pose", "velocity", "command", "terrain"}
    for factor, values in seen.items():
        low, high = contract.factor(factor).held_out
        assert low <= min(values) < max(values) <= high, factor
        assert max(values) - min(values) > 0.7 * (high - low), factor


def test_standing_still_is_no_way_to_walk_like_a_biped() -> None:
    """Every command but the one to stand is too fast for the success limits to be met by not moving."""
    contract = task("walk-biped-flat").contract
    limit = contract.success
    for s in load_panel(contract.panel).scenarios:
        vx, vy, wz = s.command
        slow = math.hypot(vx, vy) < limit.velocity_error_mps and abs(wz) < limit.yaw_error_radps
        assert slow == (s.command == (0.0, 0.0, 0.0))


def test_a_cut_panel_keeps_halves_even_and_has_another_digest() -> None:
    panel = PANELS["walk-flat-v1"]
    cut = panel.with_families(4)
    assert {s.family for s in cut.scenarios} == {0, 1, 2, 3}
    assert len(cut.select("selection")) == len(cut.select("confirmation")) == 16
    assert cut.digest != panel.digest
    assert panel.with_families(64) is panel
    for wrong in (0, 1, 3, 65, 66, -2):
        with pytest.raises(SurefootError, match="even number from 2 to 64"):
            panel.with_families(wrong)


def test_a_panel_that_shares_draws_with_training_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = load_panel("walk-flat-v2")
    leaky = panel.model_copy(update={"seeds": panel.seeds.model_copy(update={"split": "train", "root": 5})})
    plan = SeedPlan(root=5, families=4, envs=16)
    with pytest.raises(SurefootError, match="shares keys with training"):
        check_disjoint(plan, leaky)
    assert check_disjoint(plan.model_copy(update={"root": 6}), leaky).disjoint
    assert check_disjoint(plan.model_copy(update={"root": panel.seeds.root}), panel).disjoint, (
        "the split keeps them apart"
    )
    monkeypatch.setattr("surefoot.training.plan_makers.load_panel", lambda name: leaky)
    with pytest.raises(SurefootError, match="shares keys with training"):
        make_plan("walk-flat", seed=5)
    make_plan("walk-flat", seed=6)


# ---- identity


def altered(contract: TaskContract, **changes: Any) -> TaskContract:
    return contract.model_copy(update=changes)


def with_factor(name: str, **changes: Any) -> TaskContract:
    c = WALK.contract
    return altered(c, factors=tuple(f.model_copy(update=changes) if f.name == name else f for f in c.factors))


C, P, E = WALK.contract, PANELS["walk-flat-v1"], EVALUATION_PLANT
HEAVIER = altered(C, rewards=(C.rewards[0].model_copy(update={"weight": 9.0}), *C.rewards[1:]))
JUDGED = {
    "velocity limit": (altered(C, success=C.success.model_copy(update={"velocity_error_mps": 0.2})), P, E),
    "yaw limit": (altered(C, success=C.success.model_copy(update={"yaw_error_radps": 0.2})), P, E),
    "settling time": (altered(C, success=C.success.model_copy(update={"settle_s": 1.0})), P, E),
    "safety": (altered(C, safety=C.safety.model_copy(update={"limit": 0.5})), P, E),
    "panel": (C, P.with_families(32), E),
    "one scenario": (C, P.model_copy(update={"scenarios": (*P.scenarios[1:], P.scenarios[0])}), E),
    "other panel": (altered(C, panel="walk-rough-v1"), PANELS["walk-rough-v1"], E),
    "plant": (C, P, E.model_copy(update={"impratio": 1.0})),
    "contact with heightfields": (C, P, E.model_copy(update={"heightfield": "prisms"})),
}
TREATED = {
    "reward weight": HEAVIER,
    "reward floor": altered(C, reward_floor=None),
    "training friction": with_factor("friction", train=(0.3, 1.5)),
    "training push": with_factor("push", train=(0.0, 2.0)),
    "episode length": altered(C, episode_s=10.0),
    "what the critic sees": altered(C, privileged=C.privileged[1:]),
    "a term's wording": altered(
        C, terminations=(C.terminations[0].model_copy(update={"doc": "other words"}), *C.terminations[1:])
    ),
}
CONNECTED = {
    "prior": altered(C, prior=task("trot-flat").contract.prior),
    "action scale": altered(C, action=C.action.model_copy(update={"scale_rad": 0.5})),
    "another sensor": altered(C, observation=(*C.observation, C.privileged[0])),
    "a scale": altered(
        C, observation=(C.observation[0].model_copy(update={"scale": 1.0}), *C.observation[1:])
    ),
}
BOTH = {
    "robot": altered(C, robot_digest="0" * 64),
    "termination": altered(C, terminations=C.terminations[1:]),
    "sensor noise": altered(
        C, observation=(C.observation[0].model_copy(update={"noise": 1.0}), *C.observation[1:])
    ),
    "starting pose": with_factor("pose", held_out=(-0.3, 0.3)),
}


def train_id(
    contract: TaskContract = C, recipe: Recipe | None = None, engine: str = "mujoco", **seeds: Any
) -> str:
    plan = SeedPlan(**({"root": 1, "families": 32, "envs": 512} | seeds))
    return training_id(contract, recipe or WALK.recipe, WALK.plant, engine, "ppo", plan)


CODE = code_digests(WALK, P, E)


def measured(contract: TaskContract = C, panel: Panel = P, plant: Any = E) -> str:
    return digest(measurement_fields(contract, panel.name, panel.digest, plant, CODE))


def connected(contract: TaskContract = C, control_hz: float = 50.0) -> str:
    return digest(interface_fields(contract, control_hz, CODE))


@pytest.mark.parametrize("what", JUDGED)
def test_how_a_policy_is_judged_changes_the_measurement_and_not_the_treatment(what: str) -> None:
    contract, panel, plant = JUDGED[what]
    assert measured(contract, panel, plant) != measured()
    assert train_id(contract) == train_id()
    assert connected(contract) == connected()


@pytest.mark.parametrize("what", TREATED)
def test_how_a_policy_is_trained_changes_the_treatment_and_not_the_measurement(what: str) -> None:
    assert measured(TREATED[what]) == measured()
    assert connected(TREATED[what]) == connected()
    assert train_id(TREATED[what]) != train_id()


@pytest.mark.parametrize("what", CONNECTED)
def test_what_a_policy_is_connected_with_changes_its_interface_alone(what: str) -> None:
    assert measured(CONNECTED[what]) == measured()
    assert connected(CONNECTED[what]) != connected()
    assert train_id(CONNECTED[what]) != train_id()


@pytest.mark.parametrize("what", BOTH)
def test_what_the_robot_is_and_is_told_changes_measurement_and_treatment(what: str) -> None:
    assert measured(BOTH[what]) != measured()
    assert train_id(BOTH[what]) != train_id()


def test_how_often_a_policy_acts_is_its_interface() -> None:
    assert measured(plant=evaluation_plant(100)) == measured()
    assert connected(control_hz=100.0) != connected()


@pytest.mark.parametrize("field", ["envs", "horizon", "minibatches", "epochs", "families", "evaluate_every"])
def test_the_recipe_is_treatment_only(field: str) -> None:
    plan = make_plan("walk-flat", overrides={field: getattr(WALK.recipe, field) * 2})
    assert plan.construct_id == PLAIN.construct_id
    assert plan.training_id != PLAIN.training_id


def test_seeds_name_neither_and_eval_families_is_the_panel() -> None:
    seeded = make_plan("walk-flat", seed=77)
    assert (seeded.construct_id, seeded.training_id) == (PLAIN.construct_id, PLAIN.training_id)
    fewer = make_plan("walk-flat", overrides={"eval_families": 4})
    assert fewer.construct_id != PLAIN.construct_id
    assert fewer.training_id == PLAIN.training_id


def test_the_plant_says_how_a_heightfield_is_touched_and_nothing_of_it_on_a_plane() -> None:
    flat, rough = (make_plan(n).evaluation_plant for n in ("walk-flat", "walk-rough"))
    assert flat == EVALUATION_PLANT
    assert "heightfield" not in flat.model_dump(mode="json")
    assert rough.model_dump(mode="json") == flat.model_dump(mode="json") | {"heightfield": "surface"}
    assert make_plan("walk-rough").training_plant.heightfield == "surface"
    # The construct id of runs that were made before there were two ids, and before plants said so.
    then = RunFolder.open(GOLDEN / "v2").record
    fields = construct_fields(then.contract, then.panel, then.panel_digest, then.evaluation_plant)
    assert digest(fields) == then.construct_id


def test_walk_and_trot_are_measured_alike_through_other_interfaces() -> None:
    """They share a panel; the clock and the scripted lift that one is handed are treatment."""
    walk, trot = (make_plan(n) for n in ("walk-flat", "trot-flat"))
    assert walk.measurement_id == trot.measurement_id == walk.construct_id
    assert walk.interface_id != trot.interface_id
    assert {f.name for f in differences(walk.interface, trot.interface)} == {"prior", "observation.clock"}


def test_terrain_is_measured_by_its_heights_and_contact_with_it_by_its_source() -> None:
    flat, rough = (make_plan(n).measurement for n in ("walk-flat", "walk-rough"))
    assert (flat["terrain"], flat["engine"]["version"]) == ({}, "")
    assert {"rough", "stairs_up"} <= rough["terrain"].keys()
    assert len(rough["engine"]["version"]) == 64


@pytest.mark.parametrize("name", BUILT_IN)
def test_contracts_survive_json_with_the_same_digest(name: str) -> None:
    contract = task(name).contract
    again = TaskContract.model_validate_json(canonical(contract))
    assert again == contract
    assert again.digest == contract.digest


# ---- schemas


def test_a_contract_refuses_a_field_it_does_not_know() -> None:
    body = WALK.contract.model_dump(mode="json")
    for extra in (body | {"gait": "pace"}, body | {"success": body["success"] | {"tilt_rad": 0.3}}):
        with pytest.raises(ValidationError, match="Extra inputs"):
            TaskContract.model_validate(extra)
    with pytest.raises(ValidationError):
        WALK.contract.name = "other"  # type: ignore[misc]


def test_run_json_refuses_a_field_it_does_not_know(tiny_run: Path, tmp_path: Path) -> None:
    body = json.loads((tiny_run / "run.json").read_text())
    write_json(tmp_path / "run.json", body)
    assert read_json(tmp_path / "run.json", RunRecord).digest
    for broken in (
        body | {"mood": "good"},
        body | {"recipe": body["recipe"] | {"speed": 1}},
        body | {"schema_version": 99},
    ):
        write_json(tmp_path / "run.json", broken)
        with pytest.raises(SurefootError, match=r"run\.json"):
            read_json(tmp_path / "run.json", RunRecord)


def test_the_contract_room_does_not_import_torch() -> None:
    code = "import sys, surefoot.contract; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize("hidden", [(), (0,), (128, -3)])
def test_networks_without_width_are_refused(hidden: tuple[int, ...]) -> None:
    with pytest.raises(SurefootError, match="--hidden"):
        Recipe(hidden=hidden)


def test_a_copy_has_a_digest_of_its_own() -> None:
    known = C.digest
    assert C.model_copy(update={"robot_digest": "0" * 64}).digest != known
    assert C.model_copy().digest == known
    assert C.digest is known


def test_the_list_of_outside_sources_is_the_whole_list() -> None:
    """Prefixes of names, what a contract may say, and the files that know the simulators."""
    assert set(SOURCES.values()) == set(get_args(SourceName))
    folder = SOURCE / "surefoot" / "env" / "external"
    assert all((folder / f"{name}.py").is_file() for name in SOURCES.values())
