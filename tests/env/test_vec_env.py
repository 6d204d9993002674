"""VecEnv: episodes begin, end, are recorded and resumed as declared, and a failure is an event of one row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.contract import EVALUATION_PLANT, Panel, Push, Scenario, SeedPlan, SurefootError
from surefoot.env import OBSERVATION_LIMIT, Step, VecEnv
from surefoot.env.scenarios import PanelSampler, Scenarios, TrainSampler
from surefoot.tasks import Task, task
from surefoot.terrain import LEVELS, TRAINED, Atlas, TileId

CPU = torch.device("cpu")
HZ = 50.0
WALK, TROT, ROUGH = task("walk-flat"), task("trot-flat"), task("walk-rough")
TILES = tuple(TileId(c, level, 0) for c in TRAINED for level in range(LEVELS))


@pytest.fixture(autouse=True)
def one_thread_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MuJoCo writes MUJOCO_LOG.TXT into the working folder when a simulation explodes."""
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def atlas() -> Atlas:
    return Atlas.build(TILES)


def shortened(of: Task, steps: int | None = None, segment: int | None = None) -> Task:
    """The task with episodes of `steps` control steps and commands of `segment` steps."""
    update: dict[str, Any] = {"episode_s": steps / HZ} if steps else {}
    if segment:
        update["command"] = of.contract.command.model_copy(update={"resample_s": segment / HZ})
    return dataclasses.replace(of, contract=of.contract.model_copy(update=update))


def make(
    of: Task = WALK,
    envs: int = 6,
    families: int = 3,
    root: int = 1,
    sampler: type[TrainSampler] = TrainSampler,
    **options: Any,
) -> VecEnv:
    seeds = SeedPlan(root=root, families=families, envs=envs)
    ground = atlas() if of.tiles else None
    made = sampler(of.contract, of.robot, seeds, HZ, ground, CPU)
    return VecEnv(of, made, of.on("mujoco").plant, atlas=ground, **{"stagger": False, **options})


def actions(env: VecEnv, k: int, size: float = 0.5) -> Tensor:
    g = torch.Generator().manual_seed(k)
    return size * torch.randn(env.num_envs, env.contract.action.size, generator=g)


def columns(env: VecEnv, name: str) -> slice:
    """Where a term lies in the observation (and in the critic's)."""
    at = 0
    for t in (*env.contract.observation, *env.contract.privileged):
        if t.name == name:
            return slice(at, at + t.size)
        at += t.size
    raise KeyError(name)


def bits(step: Step) -> dict[str, Tensor]:
    return {f.name: getattr(step, f.name) for f in dataclasses.fields(step) if f.name != "view"}


def assert_same(a: Step, b: Step, what: str, rows: list[int] | None = None) -> None:
    for name, value in bits(a).items():
        x, y = (v if rows is None else v[rows] for v in (value, bits(b)[name]))
        assert torch.equal(x, y), f"{what}: {name}"


# ---- beginning and end


def test_an_episode_ends_exactly_at_its_length_and_is_then_truncated() -> None:
    env = make(shortened(WALK, 8))
    for k in range(1, 17):
        step = env.step(torch.zeros(6, 12))
        assert step.truncated.all() if k % 8 == 0 else not step.truncated.any(), f"step {k}"
        assert not step.terminated.any()
        assert (step.reason == (1 if k % 8 == 0 else 0)).all()
    assert env.reasons[1] == "timeout"


def test_obs_after_an_end_is_the_next_episodes_first_and_final_obs_the_last() -> None:
    env = make(shortened(WALK, 5))
    for k in range(5):
        step = env.step(actions(env, k))
    assert step.truncated.all()
    acted = columns(env, "last_action")
    assert torch.equal(step.final_obs[:, acted], actions(env, 4))
    assert not step.obs[:, acted].any()
    rows = torch.arange(6)
    new = env.sampler.draw(rows, torch.ones(6, dtype=torch.int64), torch.zeros(6, dtype=torch.int64))
    pose = new.start.joint_position - env.const.default_pose
    assert torch.allclose(step.critic[:, columns(env, "joint_position")], pose, atol=1e-6)
    assert torch.equal(step.critic[:, columns(env, "command")], 2.0 * new.script.commands[:, 0])
    assert not torch.allclose(step.final_critic[:, columns(env, "joint_position")], pose, atol=1e-2)
    assert torch.equal(step.obs, env.obs)
    assert torch.equal(step.critic, env.critic)


def test_step_shows_the_state_before_any_reset() -> None:
    """Whoever reads a Step after the call finds the ended episode in its view, not the next one."""
    env = make(shortened(WALK, 5))
    for k in range(5):
        step = env.step(actions(env, k))
    assert step.view.task.age.tolist() == [5] * 6
    f, c = env.task.terms, env.contract
    clean = torch.cat([f[t.name](step.view) * t.scale for t in (*c.observation, *c.privileged)], 1)
    command = columns(env, "command")
    clean[:, command] = step.final_critic[:, command]  # of the step to come
    assert torch.allclose(clean.clamp(-OBSERVATION_LIMIT, OBSERVATION_LIMIT), step.final_critic, atol=1e-6)
    assert torch.allclose(step.view.robot.position[:, 2], env.robot_state.position[:, 2], atol=0.1)
    assert not torch.equal(step.view.robot.position, env.robot_state.position)


class Later(TrainSampler):
    """Begins with every environment's second episode."""

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return super().draw(rows, episode + 1, level)


def test_an_episode_after_a_reset_is_the_one_that_a_new_environment_would_live() -> None:
    """To the bit: nothing of the episode before, and of the neighbours' ends, leaks into it."""
    used, fresh = make(shortened(WALK, 6)), make(shortened(WALK, 6), sampler=Later)
    for k in range(6):
        used.step(actions(used, 50 + k, size=2.0))
    for name in ("obs", "critic", "exploration"):
        assert torch.equal(getattr(used, name), getattr(fresh, name)), name
    for k in range(5):
        assert_same(used.step(actions(used, k)), fresh.step(actions(fresh, k)), f"step {k}")


@pytest.mark.parametrize("of", [WALK, TROT], ids=["walk", "trot"])
def test_terminated_truncated_and_reason_agree(of: Task) -> None:
    env = make(shortened(of, 24), envs=24, stagger=True)
    seen = set()
    for k in range(60):
        step = env.step(actions(env, k, size=4.0))
        assert not (step.terminated & step.truncated).any()
        ends = torch.stack(
            [env.task.terms[t.name](step.view, **t.params) for t in of.contract.terminations], 1
        )
        assert torch.equal(step.terminated, ends.any(1))
        for row in range(24):
            reason = env.reasons[int(step.reason[row])]
            names = [
                t.name for t, end in zip(of.contract.terminations, ends[row].tolist(), strict=True) if end
            ]
            expected = names[0] if names else "timeout" if step.truncated[row] else "alive"
            assert reason == expected
            seen.add(reason)
    assert {"alive", "timeout"} < seen, "some robots fall and some do not"


def test_staggered_environments_do_not_end_together() -> None:
    env = make(shortened(WALK, 100), envs=96, stagger=True)
    age = env.state.age
    assert int(age.min()) >= 0
    assert int(age.max()) < 100
    quarters = np.bincount((age // 25).numpy(), minlength=4)
    assert (quarters >= 12).all()
    assert not make(shortened(WALK, 100)).state.age.any()


def test_ended_episodes_are_recorded_with_the_steps_actually_lived() -> None:
    """Also those that began at an age of their own, and the ones after them."""
    env = make(shortened(WALK, 10), stagger=True)
    lived, total = torch.zeros(6, dtype=torch.int64), torch.zeros(6, len(env.contract.rewards))
    expected = {}
    for k in range(25):
        step = env.step(actions(env, k))
        lived, total = lived + 1, total + step.terms
        for i in (step.terminated | step.truncated).nonzero()[:, 0].tolist():
            expected[i // 2, i % 2, int(env.episode[i]) - 1] = int(lived[i]), total[i].clone()
            lived[i], total[i] = 0, 0.0
    ended = env.log.take_ended()
    rows = {name: np.concatenate([e[name] for e in ended]) for name in ended[0]}
    keys = list(zip(*(rows[name].tolist() for name in ("family", "member", "episode")), strict=True))
    assert sorted(keys) == sorted(expected)
    assert len(keys) > 12
    for j, key in enumerate(keys):
        steps, returns = expected[key]
        assert rows["steps"][j] == steps
        assert env.reasons[rows["reason"][j]] == "timeout"
        assert rows["friction"][j] == pytest.approx(float(env.parameters.friction[2 * key[0] + key[1]]))
        recorded = [rows[f"return.{name}"][j] for name in env.reward_names]
        assert recorded == pytest.approx(returns.tolist(), abs=1e-5)
        assert rows["return"][j] == pytest.approx(sum(recorded), abs=1e-5)
    assert env.log.take_ended() == []


def test_without_auto_reset_nothing_begins_anew() -> None:
    env = make(shortened(WALK, 5), auto_reset=False)
    for k in range(8):
        step = env.step(actions(env, k))
        assert step.truncated.all() == (k >= 4)
        assert torch.equal(step.obs, step.final_obs)
    assert not env.log.ended
    assert not env.episode.any()


# ---- reward


@pytest.mark.parametrize("of", [WALK, TROT], ids=["walk", "trot"])
def test_reward_is_the_floored_sum_of_the_terms_plus_events(of: Task) -> None:
    env = make(of, envs=12)
    fell = floored = False
    for k in range(40):
        step = env.step(actions(env, k, size=0.1 if k < 5 else 4.0))
        steady, event = torch.zeros(12), torch.zeros(12)
        for r, t in enumerate(of.contract.rewards):
            if t.name == "fall":
                value = t.weight * step.terminated.float()
                event += value
            else:
                value = t.weight * 0.02 * env.task.terms[t.name](step.view, **t.params)
                steady += value
            assert torch.allclose(step.terms[:, r], value, atol=1e-5), t.name
        assert torch.allclose(step.reward, steady.clamp_min(0.0) + event, atol=1e-5)
        fell |= bool(step.terminated.any())
        floored |= bool((steady < 0).any())
    assert fell
    assert floored


def test_without_a_floor_the_reward_is_the_plain_sum() -> None:
    contract = WALK.contract.model_copy(update={"reward_floor": None})
    env = make(dataclasses.replace(WALK, contract=contract))
    rewards = []
    for k in range(10):
        step = env.step(actions(env, k, size=4.0))
        assert torch.allclose(step.reward, step.terms.sum(1), atol=1e-6)
        rewards.append(step.reward)
    assert float(torch.stack(rewards).min()) < 0


# ---- scripts


def spy(monkeypatch: pytest.MonkeyPatch, env: VecEnv, method: str) -> list[tuple[Any, ...]]:
    """The arguments of every call of an engine's method from now on."""
    calls: list[tuple[Any, ...]] = []
    real = getattr(env.engine, method)

    def record(*args: Any) -> Any:
        calls.append(tuple(a.clone() for a in args))
        return real(*args)

    monkeypatch.setattr(env.engine, method, record)
    return calls


def test_pushes_happen_at_their_scripted_step(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make(shortened(WALK, 50))
    env.script.push_step[:, 0] = torch.tensor([3, 5, 3, 60, 9, 60])
    calls = spy(monkeypatch, env, "push")
    at = {}
    for k in range(12):
        before = len(calls)
        env.step(torch.zeros(6, 12))
        if len(calls) > before:
            at[k] = calls[-1]
    assert {k: mask.tolist() for k, (mask, _) in at.items()} == {
        3: [True, False, True, False, False, False],
        5: [False, True, False, False, False, False],
        9: [False, False, False, False, True, False],
    }
    assert torch.equal(at[3][1][[0, 2]], env.script.push_velocity[[0, 2], 0])


def test_commands_change_at_segment_boundaries_and_are_seen_before_they_count() -> None:
    env = make(shortened(WALK, 20, segment=5))
    commands = env.script.commands.clone()
    strata = env.script.stratum.clone()
    assert commands.shape[1] == 4
    for k in range(19):
        step = env.step(torch.zeros(6, 12))
        assert torch.equal(step.view.task.command, commands[:, k // 5]), (
            "the reward is for the command followed"
        )
        assert torch.equal(step.obs[:, columns(env, "command")], 2.0 * commands[:, (k + 1) // 5])
        assert torch.equal(step.stratum, strata[:, k // 5])
        assert torch.equal(env.stratum, strata[:, (k + 1) // 5])
    assert not torch.equal(commands[:, 0], commands[:, 1])


def test_resets_share_out_the_strata_as_declared() -> None:
    env = make(shortened(WALK, 2), envs=27, families=9)
    for _ in range(18):  # ten episodes each: one round of the command deck
        env.step(torch.zeros(27, 12))
    counts = env.log.take_reset_counts()
    np.testing.assert_allclose(counts / counts.sum(), env.contract.strata.weights(), rtol=1e-9)
    assert counts.sum() == 270
    assert env.log.take_reset_counts().sum() == 0


def test_robots_keep_their_body_and_floor_for_life() -> None:
    env = make(shortened(WALK, 3))
    first = env.engine.parameters().clone()
    for k in range(7):
        env.step(actions(env, k))
    now = env.engine.parameters()
    for name in ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale"):
        assert torch.equal(getattr(now, name), getattr(first, name)), name
    assert torch.equal(now.friction[0::2], now.friction[1::2]), "a family shares its floor"
    assert len(set(now.friction.tolist())) == 3
    assert torch.allclose(now.friction, env.parameters.friction)
    assert not torch.equal(now.delay_s, first.delay_s), "the delay is drawn for every episode"


def held_out(**update: Any) -> Panel:
    base = Scenario(
        family=1, member=1, half="confirmation", command=(0.4, 0.0, 0.2), friction=0.6, payload_kg=1.5,
        com_m=(0.01, -0.02, 0.03), strength=0.95, kp_scale=1.05, kd_scale=0.9, delay_s=0.02,
        pushes=(Push(time_s=0.1, vx_mps=0.6, vy_mps=-0.2),),
    )  # fmt: skip
    seeds = SeedPlan(root=5, split="eval", families=2, envs=4)
    twin = base.model_copy(update={"family": 0, "half": "selection"})
    return Panel(name="p", episode_s=0.4, seeds=seeds, scenarios=(base.model_copy(update=update), twin))


def on_panel(panel: Panel) -> VecEnv:
    sampler = PanelSampler(panel, panel.scenarios, WALK.contract, WALK.robot, HZ, None)
    return VecEnv(WALK, sampler, EVALUATION_PLANT, auto_reset=False, stagger=False)


def test_a_panels_parameters_are_those_of_the_simulated_models() -> None:
    env = on_panel(held_out())
    for name, value in env.engine.parameters().tensors().items():
        declared = torch.tensor(getattr(held_out().scenarios[0], name))
        assert torch.allclose(value[0], declared, atol=1e-5), name


def test_a_panels_push_changes_nothing_before_its_time() -> None:
    pushed, calm = on_panel(held_out()), on_panel(held_out(pushes=()))
    for k in range(20):
        a, b = pushed.step(torch.zeros(2, 12)), calm.step(torch.zeros(2, 12))
        assert_same(a, b, f"the other scenario, step {k}", rows=[1])
        if k < 5:  # 0.1 s
            assert_same(a, b, f"step {k}")
        elif k == 5:
            gain = (a.view.robot.linear_velocity - b.view.robot.linear_velocity)[0, :2].norm()
            assert 0.3 < float(gain) < 0.7
    assert a.truncated.all()


def test_the_priors_lift_is_added_for_swinging_feet_of_a_moving_robot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = make(TROT)
    calls = spy(monkeypatch, env, "step")
    env.state.phase[:] = 0.25
    env.state.command[:] = torch.tensor([0.5, 0.0, 0.0])
    env.state.command[1] = 0.0
    env.step(torch.zeros(6, 12))
    lift = (calls[0][0] - env.const.default_pose).view(6, 4, 3)
    swinging = torch.tensor([[0.0, 0.3, -0.6], [0, 0, 0], [0, 0, 0], [0.0, 0.3, -0.6]])  # FR and RL
    assert torch.allclose(lift[0], swinging, atol=1e-6)
    assert not lift[1].any()


def test_actions_are_clipped_and_scaled_to_joint_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make()
    calls = spy(monkeypatch, env, "step")
    step = env.step(torch.full((6, 12), -100.0))
    assert torch.allclose(calls[0][0], env.const.default_pose - 0.3 * 6.0)
    assert (step.view.task.action == -6.0).all()


# ---- noise


def test_noise_is_within_its_declared_bounds_and_absent_where_none_is_declared() -> None:
    env = make(envs=12)
    noise = torch.cat([torch.full((t.size,), t.noise * t.scale) for t in env.contract.observation])
    bound = noise * env.script.noise_scale[:, None]
    size = env.contract.observation_size
    share = []
    for k in range(30):
        step = env.step(actions(env, k, size=0.2))
        unclipped = step.final_critic[:, :size].abs() < OBSERVATION_LIMIT - 1
        error = torch.where(unclipped, step.final_obs - step.final_critic[:, :size], torch.zeros(()))
        assert (error.abs() <= bound + 1e-6).all()
        assert not error[:, noise == 0].any()
        share.append((error / bound)[:, noise > 0])
    seen = torch.stack(share)
    assert float(seen.abs().max()) > 0.99
    assert abs(float(seen.mean())) < 0.02, "it pulls to no side"
    assert abs(float(seen.std()) - 3**-0.5) < 0.02, "it is uniform"
    flat = seen.flatten(1)
    assert float(torch.corrcoef(flat)[0, 1].abs()) < 0.15, "it is new in every step"


def test_noise_and_exploration_are_keyed_and_not_consumed() -> None:
    a, b = make(), make()
    a.step(torch.zeros(6, 12))
    b.step(torch.ones(6, 12))
    size = a.contract.observation_size
    assert torch.equal(a.exploration, b.exploration)
    assert torch.allclose(a.obs - a.critic[:, :size], b.obs - b.critic[:, :size], atol=1e-5)
    assert not torch.equal(a.exploration, make(root=2).exploration)


# ---- failure


def test_a_nonfinite_state_is_an_event_of_one_row() -> None:
    env, twin = make(), make()
    for k in range(3):
        env.step(actions(env, k))
        twin.step(actions(twin, k))
    bad = actions(env, 3)
    bad[2] = torch.nan
    env.engine.push(torch.arange(6) == 4, torch.full((6, 2), 1e6))
    step, other = env.step(bad), twin.step(actions(twin, 3))
    assert [env.reasons[r] for r in step.reason.tolist()] == [
        "alive",
        "alive",
        "nonfinite",
        "alive",
        "nonfinite",
        "alive",
    ]
    assert step.terminated.tolist() == [False, False, True, False, True, False]
    assert not step.truncated.any()
    for name, value in bits(step).items():
        assert torch.isfinite(value.float()).all(), f"{name} goes into training"
    assert not step.terms[[2, 4]].any(), "nothing in a failed row counts"
    assert_same(step, other, "the others do not notice", rows=[0, 1, 3, 5])
    (kept,) = env.log.failures
    assert kept["family"].tolist() == [1, 2]
    assert kept["member"].tolist() == [0, 0]
    assert kept["age"].tolist() == [3, 3]
    assert len(kept["state"]) == 2
    (ended,) = env.log.take_ended()
    assert [env.reasons[r] for r in ended["reason"]] == ["nonfinite", "nonfinite"]
    for k in range(4, 10):
        step, other = env.step(actions(env, k)), twin.step(actions(twin, k))
        assert_same(step, other, f"nor later (step {k})", rows=[0, 1, 3, 5])
        assert torch.isfinite(step.obs).all()
        assert (step.reason == 0).all()


def test_a_failure_is_kept_once_where_nothing_is_reset() -> None:
    env = make(auto_reset=False)
    bad = torch.zeros(6, 12)
    bad[2] = torch.nan
    for _ in range(4):
        assert env.step(bad).terminated.tolist() == [False, False, True, False, False, False]
    assert [f["family"].tolist() for f in env.log.failures] == [[1]]


def test_a_fall_event_counts_for_failures_too() -> None:
    env = make(TROT)
    bad = torch.zeros(6, 12)
    bad[2, 3] = torch.inf
    bad[3] = torch.nan
    step = env.step(bad)
    fall = env.reward_names.index("fall")
    assert step.terminated.tolist() == [False, False, False, True, False, False], (
        "an infinite action is clipped"
    )
    assert step.terms[:, fall].tolist() == [0, 0, 0, -0.5, 0, 0]
    assert float(step.reward[3]) == -0.5


def test_a_nan_that_is_still_in_the_delay_line_does_not_reach_the_training_data() -> None:
    env = make()
    env.parameters.delay_s[:] = 0.04
    start = env.sampler.draw(torch.arange(6), env.episode, env.level).start
    env.engine.reset(torch.ones(6, dtype=torch.bool), start, env.parameters)
    bad = torch.zeros(6, 12)
    bad[2] = torch.nan
    for k in range(4):
        step = env.step(bad if k == 0 else torch.zeros(6, 12))
        assert all(torch.isfinite(v.float()).all() for v in bits(step).values())
        assert step.terminated.tolist() == (
            [False, False, True, False, False, False] if k == 0 else [False] * 6
        )


# ---- exact resume


@pytest.mark.parametrize("of", [WALK, ROUGH], ids=["flat", "rough"])
def test_snapshot_and_restore_are_exact(of: Task) -> None:
    of = shortened(of, 12, segment=5)
    env = make(of, stagger=True)
    for k in range(7):
        env.step(actions(env, k, size=2.0))
    saved = env.snapshot()
    copies = {k: v.clone() for k, v in saved.items()}
    future = [env.step(actions(env, k, size=2.0)) for k in range(7, 25)]
    counts = env.log.reset_counts.copy()
    fresh = make(of, stagger=True)
    for again in (env, env, fresh):
        again.restore(saved)
        for name in ("obs", "critic", "exploration"):
            assert torch.equal(getattr(again, name), copies[name]), name
        for k, step in zip(range(7, 25), future, strict=True):
            assert_same(again.step(actions(again, k, size=2.0)), step, f"step {k}")
        assert (again.log.reset_counts == counts).all()
    for name, value in saved.items():
        assert torch.equal(value, copies[name]), f"a snapshot does not change under its environment: {name}"


def test_a_restart_begins_again_from_the_first_episode() -> None:
    env = make(shortened(WALK, 12), stagger=True)
    first = [env.step(actions(env, k)) for k in range(15)]
    env.restart()
    for k, step in enumerate(first):
        assert_same(env.step(actions(env, k)), step, f"step {k}")
    assert sum(len(e["family"]) for e in env.log.take_ended()) == sum(
        int((s.terminated | s.truncated).sum()) for s in first
    )


# ---- rough ground


def test_no_robot_falls_through_the_ground() -> None:
    env = make(ROUGH, envs=32, families=4)
    env.level = torch.arange(32) % LEVELS
    env.reset_rows(torch.ones(32, dtype=torch.bool))
    assert len(set(env.script.tile.tolist())) > 20
    for k in range(100):
        step = env.step(actions(env, k, size=0.5))
        assert (step.reason < len(env.reasons) - 1).all(), "nor does one explode"
        ground = step.view.ground
        assert float(ground.base.min()) > 0.0, f"step {k}"
        assert float(ground.base.max()) < 2.0, f"step {k}"
        # Calves and trunks may rest on an edge beside a foot, so feet are only bounded from below.
        assert float(ground.feet.min()) > -0.05, f"step {k}"
        assert float(ground.scan.abs().max()) < 3.0, f"step {k}"


def test_the_critics_scan_is_the_ground_around_the_robot_in_its_heading() -> None:
    env = make(ROUGH, envs=16, families=4)
    env.level[:] = 3  # moved without being lifted, robots on higher stairs would be buried
    env.reset_rows(torch.ones(16, dtype=torch.bool))
    env.engine.translate(torch.ones(16, dtype=torch.bool), torch.tensor([1.6, -0.9]).repeat(16, 1))
    view = env.step(torch.zeros(16, 12)).view
    for i in range(16):
        w, _, _, z = view.robot.quaternion[i].tolist()
        yaw = 2 * math.atan2(z, w)  # still upright
        assert math.hypot(*view.robot.quaternion[i, 1:3].tolist()) < 0.1
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        x, y, height = view.robot.position[i].tolist()
        points = np.array(ROUGH.scan) @ turn.T + (x, y)
        expected = atlas().height(points) - height + ROUGH.robot.stand_height_m
        # A tilt of 0.1 rad turns the heading by 0.005 at most: 5 mm at 1 m, on a riser of 63 degrees 1 cm.
        assert np.abs(view.ground.scan[i].numpy() - expected).max() < 0.02
        below = float(atlas().height(np.array([x, y])))
        assert float(view.ground.base[i]) == pytest.approx(height - below, abs=1e-3)
    assert float(view.ground.scan.std()) > 0.05, "uneven ground"


def test_a_robot_that_leaves_its_tile_goes_on_across_the_same_ground() -> None:
    env = make(ROUGH, envs=16, families=4)
    env.level[:] = 6
    env.reset_rows(torch.ones(16, dtype=torch.bool))
    everyone = torch.ones(16, dtype=torch.bool)
    env.engine.translate(everyone, torch.tensor([3.9, -3.9]).repeat(16, 1))
    env.engine.push(everyone, torch.tensor([4.0, -4.0]).repeat(16, 1))
    origins = torch.tensor(atlas().origins)
    wrapped = torch.zeros(16, dtype=torch.bool)
    for _ in range(8):
        step = env.step(torch.zeros(16, 12))
        before, after = step.view.robot, env.robot_state
        ended = step.terminated | step.truncated
        jump = (after.position - before.position)[:, :2]
        moved = (jump.abs() > 1).any(1) & ~ended
        wrapped |= moved
        assert torch.allclose((jump / 8.0).round() * 8.0, jump, atol=1e-4) or bool(ended.any())
        same = env.ground(after)
        assert torch.allclose(same.base[moved], step.view.ground.base[moved], atol=2e-3)
        assert torch.allclose(same.feet[moved], step.view.ground.feet[moved], atol=2e-3)
        assert torch.allclose(same.scan[moved], step.view.ground.scan[moved], atol=2e-3)
        local = after.position[:, :2] - origins[env.script.tile]
        assert float(local.abs().max()) <= 4.0001
        for name in ("quaternion", "linear_velocity", "joint_position", "foot_force"):
            assert torch.equal(getattr(after, name)[~ended], getattr(before, name)[~ended]), name
    assert int(wrapped.sum()) > 8


def test_the_curriculum_moves_by_what_was_walked() -> None:
    """Up after 70% of what was commanded, down below 40%, past the top anywhere; short episodes do not
    count."""
    env = make(ROUGH, envs=8, families=4)
    cases = [  # level, metres walked, metres commanded
        (3, 8.0, 10.0), (3, 5.0, 10.0), (3, 3.0, 10.0), (3, 0.1, 0.5),
        (0, 0.0, 10.0), (9, 9.0, 10.0), (9, 9.0, 10.0), (3, 6.9, 10.0),
    ]  # fmt: skip
    env.level[:] = torch.tensor([level for level, _, _ in cases])
    env.progress[:] = torch.tensor([pair for _, *pair in cases])
    env.state.age[:] = env.sampler.episode_steps - 1
    step = env.step(torch.zeros(8, 12))
    assert step.truncated.all()
    after = env.level.tolist()
    assert after[:5] == [4, 3, 2, 3, 0]
    assert after[7] == 3
    assert all(0 <= x <= 9 for x in after[5:7])
    assert env.script.level.tolist() == after
    assert [TILES[t].level for t in env.script.tile.tolist()] == after
    assert not env.progress.any()


def test_past_the_top_levels_are_drawn_anywhere() -> None:
    env = make(ROUGH, envs=64, families=4)
    env.level[:] = 9
    env.progress[:] = torch.tensor([9.0, 10.0])
    env.state.age[:] = env.sampler.episode_steps - 1
    env.step(torch.zeros(64, 12))
    assert len(set(env.level.tolist())) >= 8


def test_progress_is_the_distance_along_the_command() -> None:
    env = make(ROUGH, envs=4, families=4)
    env.script.commands[:] = torch.tensor([0.6, 0.8, 0.0])
    env.state.command[:] = torch.tensor([0.6, 0.8, 0.0])
    expected = torch.zeros(4, 2)
    for k in range(5):
        step = env.step(actions(env, k))
        v = step.view.robot.linear_velocity
        expected += torch.stack([0.6 * v[:, 0] + 0.8 * v[:, 1], torch.ones(4)], 1) * 0.02
    assert torch.allclose(env.progress, expected, atol=1e-5)


def test_first_episodes_are_spread_over_the_lower_levels() -> None:
    env = make(ROUGH, envs=20, families=4)
    assert set(env.level.tolist()) == set(range(5))
    assert [TILES[t].level for t in env.script.tile.tolist()] == env.level.tolist()


@pytest.mark.parametrize("engine", ["mujoco", "stride"])
def test_a_contract_may_ask_for_any_delay(engine: str) -> None:
    walk = task("walk-flat")

    def late(low: float, high: float) -> TrainSampler:
        delayed = {"train": (low, high)}
        table = tuple(f.model_copy(update=delayed) if f.name == "delay" else f for f in walk.contract.factors)
        contract = walk.contract.model_copy(update={"factors": table})
        return TrainSampler(
            contract, walk.robot, SeedPlan(root=1, families=2, envs=8), 50.0, None, torch.device("cpu")
        )

    env = VecEnv(walk, late(0.4, 0.5), EVALUATION_PLANT, engine=engine)
    delay = env.engine.parameters().delay_s
    assert 0.39 < float(delay.min()) < float(delay.max()) < 0.51
    env.close()
    short = VecEnv(walk, late(0.0, 0.02), EVALUATION_PLANT, engine=engine)
    with pytest.raises(SurefootError, match=r"remember actions for 0\.16 s.*up to 0\.5 s"):
        short.restart(late(0.4, 0.5))
    short.close()
