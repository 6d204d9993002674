"""How do episodes begin? All of a probe's are ended, twice, and what follows is drawn again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from surefoot.audits.case import Case, as_numpy
from surefoot.audits.detector import Detector, Found
from surefoot.audits.draws import Drawn, not_the_runs, own_numbers, percent, quantities, slow_episodes
from surefoot.audits.lived import edited, live, robot_now, robots
from surefoot.audits.slow_deal import Who
from surefoot.audits.slow_episodes import Columns, SlowEpisodes
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv

ROUNDING = 1e-5
"""Allowed for a start that went through an engine, relative to 1 + size; clean runs: below 3e-7."""
SURE_M = 0.2
"""Progress this near to where the level changes is left out: the step that ends an episode adds to it."""
FACES = {
    "quaternion": "headings", "velocity": "velocities", "angular_velocity": "turning rates",
    "joint_position": "poses", "height": "heights",
}  # fmt: skip


def look(case: Case) -> list[Found]:
    """Looks at first episodes as they were made, then at two more of every environment."""
    env = robots(case)
    if found := list(_first(case)):
        return found
    kept = env.snapshot()
    episodes = slow_episodes(case, case.root)
    for _ in range(2):
        before = _at_the_end(case, env)
        live(env, lambda t: torch.zeros(env.num_envs, env.contract.action.size), 1)
        after = as_numpy(env.snapshot())
        who = own_numbers(case, case.chosen(), before["script.episode"] + 1)
        found += _next(case, env, episodes, who, after)
        found += _levels(case, episodes, who, before, after)
        if found:
            break
    env.restore(kept)
    return found


def _first(case: Case) -> Iterator[Found]:
    """First episodes are drawn like all others, and begin at ages that are spread over an episode."""
    begun, numbers = case.begun(), case.chosen()
    who = own_numbers(case, numbers, np.zeros_like(numbers))
    episodes = slow_episodes(case, case.root)
    yield from Drawn(episodes, who, quantities(begun), not_the_runs(case, case.root), "environments").faults()
    age = episodes.first_age(who)
    wrong = ~np.isnan(age) & ((begun["task.age"] != age) | (begun["born"] != age))
    if wrong.any():
        together = np.unique(begun["task.age"], return_counts=True)[1].max()
        yield Found(
            f"First episodes do not begin at the staggered ages that are drawn for them, in {_share(wrong)}; "
            f"{together} begin at the same age."
        )
    levels = episodes.contract.terrain_levels
    if levels > 1 and (begun["level"] != numbers % max(1, levels // 2)).any():
        yield Found("First levels are not spread over the lower half of all.", cause="randomisation")


def _at_the_end(case: Case, env: VecEnv | CompiledEnv) -> Columns:
    """Puts environments before the last step of their episodes, at any level, with any progress."""
    g, n, snapshot = case.numbers("beginnings"), env.num_envs, env.snapshot()
    level = torch.from_numpy(g.integers(0, env.contract.terrain_levels, n))
    asked = g.uniform(0, 12, n)
    progress = np.stack([asked * g.uniform(-0.2, 1.2, n), asked], 1).astype(np.float32)
    changed = edited(
        snapshot,
        task__age=env.episode_steps - 1,
        level=level,
        script__level=level,
        progress=torch.from_numpy(progress),
    )
    env.restore(changed)
    return as_numpy(changed)


def _next(
    case: Case, env: VecEnv | CompiledEnv, episodes: SlowEpisodes, who: Who, after: Columns
) -> Iterator[Found]:
    number = after["script.episode"]
    if (number != who.episode).any():
        wrong = number != who.episode
        yield Found(f"Environments do not go on to their next episode after an end, in {_share(wrong)}.")
        return
    if found := Drawn(
        episodes, who, quantities(after), not_the_runs(case, case.root), "environments"
    ).faults():
        yield from found
        return
    expected = episodes.start(who, case.robot.task.robot)
    actual = _start(env, expected, after["script.tile"])
    for name, value in expected.items():
        gap = np.abs(actual[name] - value) / (1 + np.abs(value))
        wrong = ~(gap.reshape(len(gap), -1).max(1) <= ROUNDING)
        if wrong.any():
            text = (
                f"Episodes do not begin with the {FACES[name]} that are drawn for them, in {_share(wrong)}."
            )
            yield Found(text, cause=_whose(value, actual[name]))


def _whose(expected: np.ndarray, actual: np.ndarray) -> str:
    """Names the cause of wrong starts: those of other environments are the batch's fault."""
    gap = np.abs(actual.reshape(len(actual), 1, -1) - expected.reshape(1, len(expected), -1)).max(2)
    wrong = gap.diagonal() > ROUNDING
    return "batch" if (gap[wrong].min(1) < ROUNDING).mean() > 0.5 else "randomisation"


def _start(env: VecEnv | CompiledEnv, expected: Columns, tile: np.ndarray) -> Columns:
    """Returns the states that the engine has begun with, in the terms of `SlowEpisodes.start`."""
    robot = {k: v.astype(np.float64) for k, v in robot_now(env).items()}
    w, z = expected["quaternion"][:, 0], expected["quaternion"][:, 3]
    cos, sin = w * w - z * z, 2 * w * z
    vx, vy, vz = robot["linear_velocity"].T
    field = (env.plain if isinstance(env, CompiledEnv) else env).height_field
    ground = 0.0 if field is None else np.asarray(field.spawn_height)[tile]
    quaternion = robot["quaternion"]
    return {
        "height": robot["position"][:, 2] - ground,
        "quaternion": quaternion * np.sign((quaternion * expected["quaternion"]).sum(1, keepdims=True)),
        "velocity": np.stack([cos * vx - sin * vy, sin * vx + cos * vy, vz], 1),
        "angular_velocity": robot["angular_velocity"],
        "joint_position": robot["joint_position"],
    }


def _levels(case: Case, episodes: SlowEpisodes, who: Who, before: Columns, after: Columns) -> Iterator[Found]:
    """Levels follow progress, and tiles are of the class that was dealt, at that level."""
    if episodes.contract.terrain_levels == 1:
        return
    ended = Who(who.family, who.member, before["script.episode"], who.size)
    walked, asked = before["progress"].astype(np.float64).T
    moves = [(0.0, 0.0), (SURE_M, 0.0), (-SURE_M, 0.0), (0.0, SURE_M), (0.0, -SURE_M)]
    ways = [episodes.next_level(ended, before["level"], walked + a, asked + b) for a, b in moves]
    sure = np.all([w == ways[0] for w in ways], 0)
    wrong = sure & (after["script.level"] != ways[0])
    if wrong.any():
        example = int(wrong.argmax())
        yield Found(
            f"Levels of terrain do not follow what was walked of what was commanded, in {_share(wrong)}: "
            f"from level {before['level'][example]} to {after['script.level'][example]} instead of "
            f"{ways[0][example]:.0f}.",
            cause="randomisation",
        )
    tiles: dict[tuple[str, int], list[int]] = {}
    for k, t in enumerate(case.robot.task.tiles):
        tiles.setdefault((t.cls, t.level), []).append(k)
    tile = episodes.tile(who, after["script.level"], tiles)
    wrong = ~np.isnan(tile) & (after["script.tile"] != tile)
    if wrong.any():
        text = "Episodes do not begin on the tiles that are dealt and drawn for them"
        yield Found(f"{text}, in {_share(wrong)}.", cause="randomisation")


def _share(rows: np.ndarray) -> str:
    return f"{percent(rows)} of {len(rows)} environments"


DETECTORS = (
    Detector(
        name="beginnings",
        kind="proof",
        cause="batch",
        asks="Does every episode begin as it is drawn: age, script, parameters, state, level and tile?",
        statistic="first episodes as they are made and two more after forced ends, of up to 256 environments,"
        " drawn again by another cipher and another deal; the engine's state at the start read back",
        threshold="rounding: 2e-5 of 1 + size for what is drawn, 1e-5 for states; levels and tiles exactly",
        means="Environments share, repeat or synchronise episodes, or begin them otherwise than declared.",
        remedy="Compare env/scenarios.py, the reset of env/vec_env.py and its kernel with the seed plan.",
        look=look,
        needs=("robot",),
    ),
)
