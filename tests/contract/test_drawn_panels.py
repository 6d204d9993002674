"""Panels of version 2: halves without twins, scenarios that are independent draws, lists that go on."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from surefoot.contract import (
    DrawnPanel,
    Panel,
    Scenario,
    SurefootError,
    TaskContract,
    beyond,
    check_ranges,
    dump_panel,
    load_panel,
    make_panel,
    parse_panel,
    second_panel,
)
from surefoot.contract.panel import factor_values
from surefoot.contract.panel_recipes import RECIPES
from surefoot.env import PanelSampler
from surefoot.tasks import task
from surefoot.tasks.registry import BUILT_IN
from surefoot.terrain import Atlas, TileId
from surefoot.training.plan_makers import make_plan

PANELS: dict[str, DrawnPanel] = {n: make_panel(n) for n in RECIPES}  # type: ignore[misc]
HALVES = ("selection", "confirmation")
EVERY = pytest.mark.parametrize("name", RECIPES)


def half(panel: Panel, name: str) -> tuple[Scenario, ...]:
    return panel.select(name)  # type: ignore[arg-type]


def numbers(scenarios: tuple[Scenario, ...]) -> dict[str, np.ndarray]:
    """What may make an episode easy or hard, by name [N]."""
    out: dict[str, list[float]] = {}
    for s in scenarios:
        for name, values in factor_values(s).items():
            for k, x in enumerate(values):
                out.setdefault(f"{name} {k}", []).append(x)
        out.setdefault("speed", []).append(float(np.hypot(*s.command[:2])))
        out.setdefault("stands", []).append(float(not any(s.command)))
        out.setdefault("level", []).append(s.terrain.level)
        out.setdefault("class", []).append(sum(map(ord, s.terrain.cls)))
        out.setdefault("push time", []).append(s.pushes[0].time_s)
        out.setdefault("push direction", []).append(float(np.arctan2(s.pushes[0].vy_mps, s.pushes[0].vx_mps)))
    return {k: np.array(v) for k, v in out.items()}


def starts(panel: Panel, name: str, contract: TaskContract) -> dict[str, np.ndarray]:
    robot, chosen = task(contract.name).robot, half(panel, name)
    rough = any(s.terrain.cls != "flat" for s in chosen)
    tiles = [TileId(s.terrain.cls, s.terrain.level, s.terrain.key) for s in chosen[:16]]
    sampler = PanelSampler(
        panel, chosen[:16] if rough else chosen, contract, robot, 50.0, Atlas.build(tiles) if rough else None
    )
    start = sampler.scenarios.start
    return {
        k: getattr(start, k).numpy()
        for k in ("quaternion", "joint_position", "linear_velocity", "angular_velocity")
    }


# ---- no twins


@EVERY
def test_halves_share_no_command_friction_body_push_or_tile(name: str) -> None:
    choose, confirm = (half(PANELS[name], h) for h in HALVES)
    for what in (
        "friction",
        "payload_kg",
        "com_m",
        "strength",
        "kp_scale",
        "kd_scale",
        "delay_s",
        "noise_scale",
    ):
        assert {getattr(s, what) for s in choose}.isdisjoint({getattr(s, what) for s in confirm}), what
    told = [{s.command for s in part if any(s.command)} for part in (choose, confirm)]
    assert told[0].isdisjoint(told[1])
    for k in range(3):
        assert {c[k] for c in told[0]} & {c[k] for c in told[1]} <= {0.0}
    kicks = [{(p.vx_mps, p.vy_mps) for s in part for p in s.pushes} for part in (choose, confirm)]
    assert kicks[0].isdisjoint(kicks[1])
    if "rough" in name:
        tiles = [{s.terrain.key for s in part} for part in (choose, confirm)]
        assert tiles[0].isdisjoint(tiles[1])
        assert [len(t) for t in tiles] == [len(choose), len(confirm)], "a tile for every scenario"
        trained = {t.key for t in task(name.removesuffix("-v2")).tiles}
        assert trained.isdisjoint(tiles[0] | tiles[1])


@EVERY
def test_halves_share_no_start(name: str) -> None:
    panel, contract = PANELS[name], task(name.removesuffix("-v2")).contract
    a, b = (starts(panel, h, contract) for h in HALVES)
    for k in a:
        assert {x.tobytes() for x in a[k]}.isdisjoint({x.tobytes() for x in b[k]}), k
        assert len({x.tobytes() for x in b[k]}) == len(b[k]), k


@EVERY
def test_what_stands_at_the_same_place_of_both_halves_is_unrelated(name: str) -> None:
    """Position by position, and at every shift up to 8: no condition of one half tells any of the other.
    Correlations of n unrelated pairs have a standard deviation of 1 / sqrt(n)."""
    panel = make_panel(name, scenarios=640) if "rough" in name else PANELS[name]
    choose, confirm = (numbers(half(panel, h)) for h in HALVES)
    n, found = len(choose["speed"]), []
    for shift in range(9):
        for a, b in itertools.product(choose.values(), confirm.values()):
            if np.ptp(a) and np.ptp(b):
                found.append(np.corrcoef(a, b[shift : shift + n])[0, 1] * np.sqrt(n))
    assert len(found) > 1000
    assert np.mean(np.square(found)) == pytest.approx(1.0, abs=0.15)
    assert np.abs(found).max() < 5.5


def test_the_halves_of_version_1_were_twins() -> None:
    """What the tests above would have said of it."""
    choose, confirm = (half(make_panel("walk-flat-v1"), h) for h in HALVES)
    assert [(s.command, s.friction) for s in choose] == [(s.command, s.friction) for s in confirm]


# ---- independent draws within strata


@EVERY
def test_every_scenario_is_a_family_of_its_own(name: str) -> None:
    panel = PANELS[name]
    assert len({s.family for s in panel.scenarios}) == len(panel.scenarios) == panel.size
    assert {s.member for s in panel.scenarios} == {0}
    assert panel.version == 2


@EVERY
def test_strata_have_their_shares_in_every_round(name: str) -> None:
    panel, draw = PANELS[name], PANELS[name].draw
    for h in HALVES:
        part = half(panel, h)
        assert len(part) % draw.round == 0
        for first in range(0, len(part), draw.round):
            a_round = part[first : first + draw.round]
            classes = Counter(s.terrain.cls for s in a_round)
            assert classes == {c: len(draw.slots) * n for c, n in Counter(draw.grounds).items()}
            assert sum(not any(s.command) for s in a_round) == len(draw.grounds)
    assert len({(s.command, s.friction) for s in panel.scenarios}) == len(panel.scenarios)


@EVERY
def test_there_are_enough_to_confirm_on(name: str) -> None:
    confirm = half(PANELS[name], "confirmation")
    assert sum(not any(s.command) for s in confirm) >= 32
    classes = Counter(s.terrain.cls for s in confirm)
    assert min(classes.values()) >= (64 if "rough" in name else 256)
    assert len(classes) == (10 if "rough" in name else 1)
    columns = PANELS[name].select("confirmation", perturbed=True)
    assert columns == confirm[: len(columns)]
    assert len(columns) == PANELS[name].draw.perturbed
    assert len(columns) % PANELS[name].draw.round == 0


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_beyond_training_is_one_scenario_in_four_and_one_quantity_of_it(name: str) -> None:
    contract = task(name).contract
    panel = PANELS[contract.panel]
    found = [[f for f in beyond(s, contract) if f != "terrain"] for s in half(panel, "confirmation")]
    assert sum(map(bool, found)) == len(found) // 4
    assert max(map(len, found)) == 1
    counts = Counter(f for (f,) in filter(None, found))
    assert set(counts) == {f for f, span in panel.draw.spans.items() if span.bands}
    assert {"payload", "com", "strength", "gains", "delay", "noise"} <= set(counts)
    assert max(counts.values()) - min(counts.values()) <= 1
    for factor, span in panel.draw.spans.items():
        low, high = contract.factor(factor).train
        assert low <= span.inner[0] <= span.inner[1] <= high, factor
        assert all(b[1] <= low or b[0] >= high for b in span.bands), factor
    strange = [s for s in half(panel, "confirmation") if s.terrain.cls in ("curbs", "stones")]
    assert all("terrain" in beyond(s, contract) for s in strange)


# ---- lists that go on


@EVERY
def test_a_longer_list_begins_with_the_shorter(name: str) -> None:
    panel = PANELS[name]
    for count in (1, 7, 100, 2048):
        other = panel.with_scenarios(count)
        confirm = half(panel, "confirmation")
        assert len(half(other, "confirmation")) == count
        assert half(other, "confirmation")[: len(confirm)] == confirm[:count]
        choose = half(panel, "selection")
        assert half(other, "selection") == choose[: min(count, len(choose))]
        assert load_panel(other.name) == make_panel(name, scenarios=count) == other
        assert panel.with_families(other.size) == other, "as a run's record counts them"
        assert other.with_scenarios(len(confirm)) == panel
    assert panel.with_scenarios(len(confirm)) is panel


def test_another_root_is_another_panel_of_the_same_kind() -> None:
    panel = PANELS["walk-rough-v2"]
    fresh, second = make_panel("walk-rough-v2", scenarios=320, root=99), second_panel(panel)
    assert fresh.name == "walk-rough-v2+root99+320scenarios"
    assert load_panel(fresh.name) == fresh
    assert second == second_panel(panel)
    for other in (fresh, second):
        assert other.ranges == panel.ranges
        for what in ("command", "friction"):
            ours, theirs = ({getattr(s, what) for s in p.scenarios} for p in (panel, other))
            assert ours & theirs <= {(0.0, 0.0, 0.0)}
        ours, theirs = ({s.terrain.key for s in p.scenarios} for p in (panel, other))
        assert ours.isdisjoint(theirs)
    with pytest.raises(SurefootError, match="it has no other root"):
        make_panel("walk-flat-v1", root=3)
    with pytest.raises(SurefootError, match="leave out --scenarios"):
        make_panel("walk-flat-v1", scenarios=300)
    for count in (0, -1, 1 << 20):
        with pytest.raises(SurefootError, match="use --scenarios"):
            panel.with_scenarios(count)


# ---- files


@EVERY
def test_a_file_is_a_recipe_and_a_digest(name: str) -> None:
    panel = PANELS[name]
    text = dump_panel(panel)
    assert len(text) < 8000
    assert parse_panel(text, "file") == panel
    assert json.loads(text)["digest"] == panel.digest
    longer = panel.with_scenarios(300)
    assert parse_panel(dump_panel(longer), "file") == longer


def test_no_edit_of_a_recipe_goes_unnoticed() -> None:
    """Every number and every text of the file, one after the other."""
    raw = json.loads(dump_panel(PANELS["walk-flat-v2"].with_scenarios(40)))

    def leaves(node: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        if isinstance(node, dict):
            return [x for k, v in node.items() for x in leaves(v, (*at, k))]
        if isinstance(node, list):
            return [x for k, v in enumerate(node) for x in leaves(v, (*at, k))]
        return [at]

    def edited(path: tuple[object, ...]) -> str:
        copy = json.loads(json.dumps(raw))
        node = copy
        for k in path[:-1]:
            node = node[k]
        old = node[path[-1]]
        node[path[-1]] = (
            f"{old}x" if isinstance(old, str) else old + 1 if isinstance(old, int) else old + 0.01
        )
        return json.dumps(copy)

    paths = leaves(raw)
    assert len(paths) > 60
    for path in paths:
        with pytest.raises(SurefootError):
            parse_panel(edited(path), f"edit of {path}")


# ---- the contract and its panel


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_contract_that_states_other_ranges_than_its_panel_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = task(name)
    panel = PANELS[own.contract.panel]
    check_ranges(own.contract, panel)
    for factor in panel.ranges:
        wrong = tuple(
            f.model_copy(update={"held_out": (f.held_out[0], f.held_out[1] + 0.01)})
            if f.name == factor
            else f
            for f in own.contract.factors
        )
        with pytest.raises(SurefootError, match=f"says that {factor} is held out"):
            check_ranges(own.contract.model_copy(update={"factors": wrong}), panel)


def test_a_plan_of_such_a_contract_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = PANELS["walk-anymal-flat-v2"].model_copy(update={"name": "walk-flat-v2"})
    monkeypatch.setattr("surefoot.training.plan_makers.load_panel", lambda name: other)
    with pytest.raises(SurefootError, match="payload is held out"):
        make_plan("walk-flat")


def test_scenarios_are_asked_for_by_number() -> None:
    plan = make_plan("walk-flat", scenarios=512)
    assert plan.panel == PANELS["walk-flat-v2"].with_scenarios(512)
    again = make_plan("walk-flat", overrides={"eval_families": plan.recipe.eval_families})
    assert again.panel == plan.panel, "as a run that is restored has it"
    assert plan.training_id == make_plan("walk-flat").training_id
    with pytest.raises(SurefootError, match="leave one of them out"):
        make_plan("walk-flat", scenarios=512, overrides={"eval_families": 4})
