"""Training scenarios are stratified, keyed and shared at the level that the contract declares; panels are
frozen."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from surefoot.contract import Panel, Push, Scenario, SeedPlan, Terrain
from surefoot.env.episodes import PUSH_EVERY_S
from surefoot.env.scenarios import NEVER, PanelSampler, Scenarios, TrainSampler
from surefoot.tasks import Task, task
from surefoot.terrain import TRAINED, Atlas, TileId

CPU = torch.device("cpu")
HZ = 50.0
WALK, ROUGH = task("walk-flat"), task("walk-rough")
TILES = tuple(TileId(c, level, key) for c in TRAINED for level in (0, 1) for key in (0, 1))


@cache
def atlas() -> Atlas:
    return Atlas.build(TILES)


def sampler(of: Task = WALK, families: int = 6, envs: int = 36, root: int = 1) -> TrainSampler:
    ground = atlas() if of.tiles else None
    return TrainSampler(
        of.contract, of.robot, SeedPlan(root=root, families=families, envs=envs), HZ, ground, CPU
    )


def draw(s: TrainSampler, episode: int = 0, rows: list[int] | None = None, level: int = 0) -> Scenarios:
    at = torch.arange(s.count) if rows is None else torch.tensor(rows)
    return s.draw(at, torch.full_like(at, episode), torch.full_like(at, level))


def tensors(s: Scenarios) -> dict[str, torch.Tensor]:
    records = {"script": s.script, "start": s.start, "parameters": s.parameters}
    return {f"{name}.{k}": v for name, record in records.items() for k, v in record.tensors().items()}


# ---- keys


def test_a_scenario_is_a_function_of_its_key_alone() -> None:
    whole = tensors(draw(sampler(), episode=3))
    used = sampler()
    draw(used, episode=3)
    draw(used, episode=8, rows=[4, 5])
    for s in (sampler(), used):  # whatever was drawn before, and for whom
        for name, value in tensors(draw(s, episode=3, rows=[17, 4])).items():
            assert torch.equal(value, whole[name][[17, 4]]), name


def test_another_root_or_episode_is_another_scenario() -> None:
    first = tensors(draw(sampler()))
    for other in (tensors(draw(sampler(root=2))), tensors(draw(sampler(), episode=1))):
        for name in (
            "start.quaternion",
            "start.joint_position",
            "script.push_velocity",
            "parameters.delay_s",
        ):
            assert not torch.equal(first[name], other[name]), name


def test_shapes_and_dtypes_are_those_that_environments_expect() -> None:
    s = sampler()
    for name, value in tensors(draw(s)).items():
        whole = name.removeprefix("script.") in (
            "family",
            "member",
            "episode",
            "stratum",
            "push_step",
            "level",
            "tile",
        )
        assert value.dtype == (torch.int64 if whole or name == "start.tile" else torch.float32), name
        assert len(value) == s.count, name


# ---- levels


@pytest.mark.parametrize("of", [WALK, ROUGH], ids=["flat", "rough"])
def test_each_factor_is_shared_at_its_declared_level(of: Task) -> None:
    s = sampler(of)
    draws = [draw(s, episode) for episode in range(4)]
    values = {
        "friction": [d.parameters.friction for d in draws],
        "payload": [d.parameters.payload_kg for d in draws],
        "com": [d.parameters.com_m for d in draws],
        "strength": [d.parameters.strength for d in draws],
        "gains": [torch.stack([d.parameters.kp_scale, d.parameters.kd_scale], 1) for d in draws],
        "delay": [d.parameters.delay_s for d in draws],
        "noise": [d.script.noise_scale for d in draws],
        "push": [d.script.push_velocity for d in draws],
        "pose": [d.start.joint_position for d in draws],
        "velocity": [d.start.linear_velocity for d in draws],
        "command": [d.script.commands for d in draws],
    }
    for name, by_episode in values.items():
        level = of.contract.factor(name).level
        x = torch.stack(by_episode)  # [episodes, envs, ...]
        fixed = bool((x == x[:1]).all())
        assert fixed == (level in ("family", "env")), f"{name} is declared per {level}"
        families = x[0].unflatten(0, (6, 6))  # environments of a family are neighbours
        shared = bool((families == families[:, :1]).all())
        assert shared == (level == "family"), f"{name} is declared per {level}"
        assert len({tuple(v.flatten().tolist()) for v in families[:, 0]}) > 1, f"families differ in {name}"


def test_every_value_is_inside_its_declared_training_range() -> None:
    s, c = sampler(envs=144), WALK.contract
    for episode in range(3):
        d = draw(s, episode)
        p, pose = d.parameters, d.start.joint_position - torch.tensor(WALK.robot.default_pose)
        seen = {
            "friction": p.friction, "payload": p.payload_kg, "com": p.com_m, "strength": p.strength,
            "gains": p.kp_scale, "delay": p.delay_s, "noise": d.script.noise_scale, "pose": pose,
            "push": d.script.push_velocity.norm(dim=-1), "velocity": d.start.linear_velocity,
            "vx": d.script.commands[..., 0], "vy": d.script.commands[..., 1], "wz": d.script.commands[..., 2],
        }  # fmt: skip
        for name, value in seen.items():
            low, high = c.factor(name).train
            assert low - 1e-6 <= float(value.min()), name
            assert float(value.max()) <= high + 1e-6, name
            assert float(value.max() - value.min()) > 0.8 * (high - low) or name == "friction", (
                f"{name} uses its range"
            )


# ---- strata


@pytest.mark.parametrize(("of", "families", "envs", "episodes"), [(WALK, 9, 81, 10), (ROUGH, 3, 24, 10)])
def test_resets_share_out_the_strata_as_declared(of: Task, families: int, envs: int, episodes: int) -> None:
    """Exactly, over a round of the decks of families, environments and episodes."""
    s = sampler(of, families, envs)
    counts = np.zeros(s.strata)
    for episode in range(episodes):
        counts += np.bincount(draw(s, episode).script.stratum[:, 0].numpy(), minlength=s.strata)
    weights = of.contract.strata.weights()
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(counts / counts.sum(), weights, rtol=1e-9)


@pytest.mark.parametrize(("families", "envs"), [(4, 16), (8, 32), (5, 35), (1, 7)])
def test_strata_are_near_their_shares_for_any_number_of_families(families: int, envs: int) -> None:
    """No family, environment or episode is told its cell by chance, so shares converge like 1/n and not
    1/sqrt(n)."""
    s = sampler(families=families, envs=envs)
    modes = np.zeros(4)
    for episode in range(20):
        stratum = draw(s, episode).script.stratum[:, 0].numpy()
        modes += np.bincount(np.unravel_index(stratum, WALK.contract.strata.shape)[2], minlength=4)
    assert np.abs(modes / modes.sum() - np.array([1, 1, 4, 4]) / 10).max() < 2.0 / envs


def test_a_scenario_lies_in_the_stratum_that_it_names() -> None:
    s, c = sampler(envs=72), WALK.contract
    strata = c.strata
    for episode in range(3):
        d = draw(s, episode)
        friction, payload, mode = np.unravel_index(
            d.script.stratum.numpy(), strata.shape
        )  # [envs, segments] each
        assert (friction == c.factor("friction").bin_of(d.parameters.friction.numpy())[:, None]).all()
        assert (payload == c.factor("payload").bin_of(d.parameters.payload_kg.numpy())[:, None]).all()
        command = d.script.commands.numpy()
        stand, axis, forward, backward = (mode == k for k in range(4))
        assert (command[stand] == 0).all()
        assert ((command[axis] != 0).sum(1) <= 1).all()
        assert (command[forward][:, 0] > 0).all()
        assert (command[backward][:, 0] < 0).all()
        assert ((command[forward] != 0).sum(1) == 3).all()


def test_commands_reach_the_corners_of_their_range() -> None:
    """Drawn wider than the range and clipped: the extremes are trained on and not only approached."""
    vx = torch.cat([draw(sampler(envs=144), k).script.commands[..., 0].flatten() for k in range(4)])
    at_the_end = float((vx.abs() == 1.0).float().mean())
    assert 0.03 < at_the_end < 0.3


# ---- script


def test_there_is_one_push_in_every_window() -> None:
    s = sampler()
    steps = draw(s).script.push_step.numpy()
    window = round(PUSH_EVERY_S * HZ)
    assert steps.shape[1] == round(WALK.contract.episode_s / PUSH_EVERY_S)
    assert (steps // window == np.arange(steps.shape[1])).all()
    assert len(np.unique(steps % window)) > 30, "at any time within it"


def test_pushes_and_headings_point_in_all_directions() -> None:
    d = draw(sampler(envs=144))
    push = torch.atan2(d.script.push_velocity[..., 1], d.script.push_velocity[..., 0]).flatten()
    heading = 2 * torch.atan2(d.start.quaternion[:, 3], d.start.quaternion[:, 0])
    for angle in (push, heading):
        octants = np.bincount((angle / (torch.pi / 4)).floor().long().numpy() % 8, minlength=8)
        assert (octants > len(angle) / 24).all()


def test_robots_start_upright_with_their_feet_just_above_the_ground() -> None:
    for of in (WALK, ROUGH):
        start = draw(sampler(of)).start
        assert torch.allclose(start.quaternion.norm(dim=1), torch.ones(36), atol=1e-6)
        assert not bool(start.quaternion[:, 1:3].any())
        ground = torch.tensor(atlas().spawn_height)[start.tile] if of.tiles else torch.zeros(36)
        gap = start.position[:, 2] - of.robot.stand_height_m - ground
        assert float(gap.min()) >= 0.0099
        assert float(gap.max()) <= 0.0301


def test_commands_come_in_segments_of_the_declared_length() -> None:
    s = sampler()
    assert s.segment_steps == 250
    assert s.episode_steps == 1000
    assert draw(s).script.commands.shape == (36, 4, 3)
    contract = WALK.contract.model_copy(update={"episode_s": 11.0})
    longer = TrainSampler(contract, WALK.robot, s.seeds, HZ, None, CPU)
    assert draw(longer).script.commands.shape == (36, 3, 3), "the last segment may be short"


# ---- terrain


def test_robots_are_placed_on_the_dealt_class_at_their_level() -> None:
    s = sampler(ROUGH, envs=72)
    names = ROUGH.contract.strata.names
    for level in (0, 1):
        d = draw(s, episode=1, level=level)
        dealt = np.unravel_index(d.script.stratum[:, 0].numpy(), ROUGH.contract.strata.shape)[
            names.index("terrain")
        ]
        for tile, cls, x in zip(d.script.tile.tolist(), dealt, d.start.position.numpy(), strict=True):
            assert TILES[tile].cls == ROUGH.contract.factor("terrain").categories[cls]
            assert TILES[tile].level == level
            assert np.allclose(x[:2], atlas().origins[tile])
    assert torch.equal(d.script.tile, d.start.tile)


def test_every_tile_of_the_atlas_is_trained_on() -> None:
    s = sampler(ROUGH, envs=72)
    used = {
        int(t) for level in (0, 1) for episode in range(6) for t in draw(s, episode, level=level).script.tile
    }
    assert {TILES[t] for t in used} == set(TILES)


# ---- panels


def panel(**update: object) -> Panel:
    scenario = Scenario(
        family=1, member=2, half="confirmation", command=(0.5, -0.25, 0.75), friction=0.6, payload_kg=1.5,
        com_m=(0.01, -0.02, 0.03), strength=0.95, kp_scale=1.05, kd_scale=0.9, delay_s=0.02, noise_scale=0.5,
        pushes=(Push(time_s=0.5, vx_mps=0.3, vy_mps=-0.4), Push(time_s=1.25, vx_mps=0.1, vy_mps=0.2)),
    )  # fmt: skip
    calm = Scenario(family=0, member=0, half="selection", command=(0, 0, 0), friction=1.0, payload_kg=0.0)
    seeds = SeedPlan(root=5, split="eval", families=2, envs=8)
    return Panel(name="p", episode_s=2.0, seeds=seeds, scenarios=(scenario.model_copy(update=update), calm))


def panel_sampler(p: Panel, of: Task = WALK, ground: Atlas | None = None) -> PanelSampler:
    return PanelSampler(p, p.scenarios, of.contract, of.robot, HZ, ground)


def test_a_panel_hands_out_what_it_says() -> None:
    s = panel_sampler(panel())
    d = s.draw(torch.tensor([0, 1]), torch.tensor([4, 4]), torch.tensor([0, 0]))
    assert (s.count, s.episode_steps) == (2, 100)
    got = {k: v[0].tolist() for k, v in d.parameters.tensors().items()}
    for name, value in got.items():
        assert value == pytest.approx(getattr(panel().scenarios[0], name)), name
    assert d.script.commands[0, 0].tolist() == [0.5, -0.25, 0.75]
    assert d.script.push_step.tolist() == [[25, 62], [NEVER, NEVER]]
    assert d.script.push_velocity[0].flatten().tolist() == pytest.approx([0.3, -0.4, 0.1, 0.2])
    assert d.script.noise_scale.tolist() == [0.5, 1.0]
    assert (d.script.family.tolist(), d.script.member.tolist()) == ([1, 0], [2, 0])
    assert not bool(d.start.linear_velocity.any() | d.start.angular_velocity.any())


def test_a_panels_scenario_is_the_same_in_every_episode_and_selection() -> None:
    s = panel_sampler(panel())
    both = tensors(s.draw(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 0])))
    one = tensors(s.draw(torch.tensor([1]), torch.tensor([7]), torch.tensor([3])))
    for name, value in one.items():
        assert torch.equal(value[0], both[name][1]), name


def test_a_panels_remaining_draws_come_from_its_own_key() -> None:
    low, high = WALK.contract.factor("pose").held_out
    whole = (torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 0]))
    start = panel_sampler(panel()).draw(*whole).start
    offset = start.joint_position - torch.tensor(WALK.robot.default_pose)
    assert low <= float(offset.min()) < float(offset.max()) <= high
    reversed_panel = panel().model_copy(update={"scenarios": panel().scenarios[::-1]})
    again = panel_sampler(reversed_panel).draw(*whole).start
    assert torch.equal(again.joint_position, start.joint_position.flip(0)), (
        "by family and member, not by position"
    )
    moved = panel_sampler(panel(member=3)).draw(*whole).start
    assert not torch.equal(moved.joint_position[0], start.joint_position[0])
    assert torch.equal(moved.joint_position[1], start.joint_position[1])


def test_a_panel_on_terrain_finds_its_tiles() -> None:
    p = panel(terrain=Terrain(cls="wave", level=1, key=1))
    s = panel_sampler(p, ROUGH, atlas()).draw(
        torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 0])
    )
    assert [TILES[k] for k in s.script.tile.tolist()] == [TileId("wave", 1, 1), TileId("flat", 0, 0)]
    assert s.script.level.tolist() == [1, 0]


def test_records_are_taken_and_put_by_row() -> None:
    d = draw(sampler())
    copy = d.parameters.clone()
    picked = d.parameters.take(torch.tensor([3, 1]))
    picked.friction[:] = 9.0
    assert torch.equal(d.parameters.friction, copy.friction), "take is a copy"
    d.parameters.put(torch.tensor([5, 6]), picked)
    assert d.parameters.friction[5:7].tolist() == [9.0, 9.0]
    assert d.parameters.payload_kg[5:7].tolist() == copy.payload_kg[[3, 1]].tolist()
    changed = [
        f.name
        for f in dataclasses.fields(copy)
        if not torch.equal(getattr(copy, f.name)[:5], getattr(d.parameters, f.name)[:5])
    ]
    assert not changed
