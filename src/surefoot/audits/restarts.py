"""Do episodes begin as their draws say, with nothing left of the episode before?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.lived import NEVER, edited, held, live, robot_now, wild
from surefoot.audits.slow_deal import Who
from surefoot.audits.slow_episodes import SlowEpisodes
from surefoot.audits.whole_steps import Env, everybody, plain
from surefoot.contract import TaskContract
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

ROUNDING = 2e-5
"""Allowance for sines and products in single precision; on terrain, for metres from the atlas's middle."""
LATEST = 400
"""Episodes are numbered up to here in the probe: late ones begin as early ones do."""
Snapshot = dict[str, Tensor]


def look(case: Case) -> list[Found]:
    """Ends all episodes at once, after a calm life and after a wild one, and looks at what begins."""
    env = everybody(case)
    home = env.snapshot()
    book = book_of(case)
    found = [*_first(env, book)]
    numbers = case.numbers("restarts")
    episode = torch.from_numpy(numbers.integers(0, LATEST, env.num_envs))
    late = home | {"episode": episode, "script.episode": episode.clone()}
    late = edited(late, born=5, progress=0.5, script__push_step=NEVER)
    calm = _restarted(case, env, late, wildly=False)
    found += _as_drawn(env, book, calm, episode.numpy() + 1)
    commands = list(_commands(env, book, calm, episode.numpy() + 1))
    wildly = _restarted(case, env, late, wildly=True)
    found += [*commands, *_alike(case, env, calm, wildly)]
    if case.robot.task.contract.terrain_levels > 1:
        found += _levels(case, env, book, late)
    env.restore(home)
    return found


@dataclass(frozen=True)
class Book:
    """What episodes of an audit's environments begin by."""

    episodes: SlowEpisodes
    contract: TaskContract
    robot: RobotSpec
    atlas: Atlas | None
    env: np.ndarray  # [N] numbers in the run
    size: int  # of a family

    def who(self, episode: np.ndarray) -> Who:
        return Who(self.env // self.size, self.env % self.size, episode, self.size)

    def starts(self, episode: np.ndarray, level: np.ndarray) -> dict[str, np.ndarray]:
        """Returns robots as they begin: in the world, but velocities in the body's frame."""
        who = self.who(episode)
        drawn = self.episodes.start(who, self.robot)
        position = np.zeros((len(level), 3))
        position[:, 2] = drawn["height"]
        tile = np.zeros(len(level))
        if self.atlas is not None:
            cells: dict[tuple[str, int], list[int]] = {}
            for k, t in enumerate(self.atlas.tiles):
                cells.setdefault((t.cls, t.level), []).append(k)
            tile = self.episodes.tile(who, level, cells)
            known = np.nan_to_num(tile).astype(int)
            position[:, :2] += self.atlas.origins[known]
            position[:, 2] += self.atlas.spawn_height[known]
            position[np.isnan(tile)] = np.nan
        w, _, _, z = drawn["quaternion"].T
        cos, sin = w * w - z * z, 2 * w * z
        x, y, up = drawn["velocity"].T
        still = np.zeros_like(drawn["joint_position"])
        return {
            "position": position,
            "quaternion": drawn["quaternion"],
            "linear_velocity": np.column_stack([cos * x + sin * y, cos * y - sin * x, up]),
            "angular_velocity": drawn["angular_velocity"],
            "joint_position": drawn["joint_position"],
            "joint_velocity": still,
            "torque": still,
            "tile": tile,
        }


def book_of(case: Case) -> Book:
    """Returns what episodes of this audit's environments begin by."""
    env, task, seeds = everybody(case), case.robot.task, plain(everybody(case)).sampler.seeds
    atlas = case.once("atlas", case.robot.atlas)
    episodes = SlowEpisodes(task.contract, case.robot.recipe.control_hz, 2**31 + case.seed)
    return Book(
        episodes, task.contract, task.robot, atlas, case.chosen()[: env.num_envs], seeds.envs_per_family
    )


def _restarted(case: Case, env: Env, start: Snapshot, wildly: bool) -> Snapshot:
    """Returns environments that have all just begun another episode, after a life that was wild or not."""
    env.restore(start)
    act = wild(case, "restarts", env, 2.0)
    if wildly:
        live(env, act, 12)
        lived = env.snapshot()
        same = ("episode", "level", "progress", "script.family", "script.member", "script.episode")
        kept = {k: v for k, v in start.items() if k in same or k in ("script.level", "script.tile")}
        start = lived | kept
    env.restore(edited(start, task__age=env.episode_steps - 1))
    still = torch.zeros(env.num_envs, env.contract.action.size)
    live(env, act if wildly else lambda t: still, 1)
    return env.snapshot()


def _first(env: Env, book: Book) -> Iterator[Found]:
    """First episodes begin at ages that are spread over an episode, each at its own."""
    n, home = env.num_envs, held(env)
    born, expected = home["born"], book.episodes.first_age(book.who(np.zeros(n, np.int64)))
    if (bad := (born != expected) & ~np.isnan(expected)).any():
        yield Found(
            f"First episodes begin at other ages than their keys draw, in {int(bad.sum())} of {n} "
            "environments: those that start together reset together."
        )
    levels = book.contract.terrain_levels
    if levels > 1 and (bad := home["script.level"] != book.env % max(1, levels // 2)).any():
        text = f"First terrain levels are not spread over the lower half, in {int(bad.sum())} of {n}."
        yield Found(text, cause="randomisation")
    if (bad := home["task.age"] != born).any():
        yield Found(f"First episodes do not begin at the age that is noted, in {int(bad.sum())} of {n}.")
    yield from _as_drawn(env, book, env.snapshot(), np.zeros(n, np.int64), first=True)


def _as_drawn(
    env: Env, book: Book, begun: Snapshot, episode: np.ndarray, first: bool = False
) -> Iterator[Found]:
    """Each robot is where its draws say, and its task remembers nothing."""
    env.restore(begun)
    n, now, task = env.num_envs, robot_now(env), held(env)
    when = "At their first start" if first else "After a reset"
    expected = book.starts(episode, task["script.level"])
    now["tile"] = task["script.tile"]
    scale = 1 + float(np.nanmax(np.abs(expected["position"]))) * (book.atlas is not None)
    blank = {k: np.zeros_like(task[f"task.{k}"]) for k in ("action", "previous_action", "air_time", "landed")}
    drawn = book.episodes.script(book.who(episode))
    blank |= {"phase": drawn["phase"], "contact": np.ones_like(task["task.contact"])}
    if not first:
        blank["age"] = np.zeros(n, np.int64)
    remembered = {k: task[f"task.{k}"] for k in blank}
    own = {"returns": begun["returns"].numpy(), "progress": begun["progress"].numpy()}
    none = {k: np.zeros_like(v) for k, v in own.items()}
    if not first:
        own, none = own | {"born": begun["born"].numpy()}, none | {"born": np.zeros(n)}
    own["episode"], none["episode"] = begun["episode"].numpy(), episode
    own["script.episode"], none["script.episode"] = begun["script.episode"].numpy(), episode
    for what, seen, right in (
        ("the robot's", now, expected),
        ("the task's", remembered, blank),
        ("the environment's", own, none),
    ):
        for name, value in right.items():
            gap = np.abs(seen[name].astype(np.float64) - value).reshape(n, -1)
            gap = np.where(np.isnan(value.astype(np.float64)).reshape(n, -1), 0.0, gap).max(1)
            allowed = ROUNDING * (scale if name == "position" else 1)
            if (bad := ~(gap <= allowed)).any():
                text = f"{when} {what} {name} is not what it begins with, in {int(bad.sum())} of {n}"
                yield Found(f"{text} environments (off by up to {gap[bad].max():.3g}).")
    for name in ("quaternion", "joint_position", "linear_velocity"):
        distinct = len(np.unique(now[name], axis=0))
        if distinct < n - 3:  # of 24-bit draws two in 768 agree once in fifty times
            text = f"{when} only {distinct} of {n} environments have a {name} of their own."
            yield Found(text, cause="batch")


def _commands(env: Env, book: Book, begun: Snapshot, episode: np.ndarray) -> Iterator[Found]:
    """Commands are as drawn, and change when a stretch of their time is over, and then only."""
    n, every = env.num_envs, book.episodes.segment
    drawn = book.episodes.commands(book.who(episode))
    gap = np.abs(begun["script.commands"].numpy() - drawn)
    wrong = ~(np.where(np.isnan(drawn), 0.0, gap).reshape(n, -1).max(1) <= ROUNDING)
    if wrong.any():
        text = f"Commands are not those that their keys draw, in {int(wrong.sum())} of {n} environments."
        yield Found(text, cause="randomisation")
    still = torch.zeros(n, env.contract.action.size)
    late = np.zeros(n, bool)
    told = begun["script.commands"].numpy()
    for k in range(told.shape[1]):
        first = max(0, k * every - 2)
        command = begun["script.commands"][:, max(0, k - 1)] if k else begun["script.commands"][:, 0]
        env.restore(edited(begun, task__age=first) | {"task.command": command.clone()})
        alive = np.ones(n, bool)
        for i, step in enumerate(live(env, lambda t: still, 4)):
            alive &= step.going
            segment = min((first + i + 1) // every, told.shape[1] - 1)
            late |= alive & (np.abs(step.after["task.command"] - told[:, segment]).max(1) > 1e-6)
    if late.any():
        text = f"Commands change at other times than every {book.contract.command.resample_s:g} s"
        yield Found(f"{text}, in {int(late.sum())} of {n} environments.", cause="randomisation")


def _alike(case: Case, env: Env, calm: Snapshot, wildly: Snapshot) -> Iterator[Found]:
    """The same episode after two different lives: the same memory, and the same steps, to the bit."""
    n = env.num_envs

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(((a != b) & ~((a != a) & (b != b))).reshape(n, -1).any(1))

    left = {k: apart(v.numpy(), wildly[k].numpy()) for k, v in calm.items() if k != "reset_counts"}
    if bad := {k: v for k, v in left.items() if v.any()}:
        names, most = ", ".join(f"'{k}'" for k in list(bad)[:4]), max(int(v.sum()) for v in bad.values())
        yield Found(
            f"A reset leaves something of the episode before in {names}, in {most} of {n} environments."
        )
        return
    act = wild(case, "restarts", env)
    actions = [act(t) for t in range(5)]
    pair = []
    for start in (calm, wildly):
        env.restore(start)
        pair.append(live(env, lambda t: actions[t], len(actions)))
    for t, (a, b) in enumerate(zip(*pair, strict=True)):
        mine, theirs = ({**s.outcome, **s.robot, "obs": s.obs, "critic": s.critic} for s in (a, b))
        bad = {k: v for k in mine if k != "final_critic" and (v := apart(mine[k], theirs[k])).any()}
        if bad:
            names, most = ", ".join(f"'{k}'" for k in list(bad)[:3]), max(int(v.sum()) for v in bad.values())
            yield Found(
                f"What was before a reset changes {names} of step {t + 1} after it, in {most} of {n} "
                "environments."
            )
            return


def _levels(case: Case, env: Env, book: Book, start: Snapshot) -> Iterator[Found]:
    """Levels of terrain move by what was walked of what was commanded."""
    n, numbers = env.num_envs, case.numbers("levels")
    commanded = numbers.choice([0.5, 8.0], n, p=[0.2, 0.8])  # a last step adds less than 0.05
    walked = commanded * numbers.choice([0.3, 0.5, 0.6, 0.8], n)
    progress = np.column_stack([walked, commanded])
    level = numbers.integers(0, book.contract.terrain_levels, n)
    env.restore(
        edited(start, task__age=env.episode_steps - 1)
        | {"progress": torch.from_numpy(progress.astype(np.float32)), "level": torch.from_numpy(level)}
        | {"script.level": torch.from_numpy(level)}
    )
    still = torch.zeros(n, env.contract.action.size)
    after = live(env, lambda t: still, 1)[0].after
    who = book.who(start["episode"].numpy())
    expected = book.episodes.next_level(who, level, walked, commanded)
    if (bad := (after["script.level"] != expected) & ~np.isnan(expected)).any():
        yield Found(
            f"Terrain levels do not move by what was walked, in {int(bad.sum())} of {n} environments.",
            cause="randomisation",
        )


DETECTORS = (
    Detector(
        name="restarts",
        kind="proof",
        cause="reset",
        asks="Does every episode begin as its own draws say, with nothing left of the one before?",
        statistic="starts, memories, commands and terrain levels of all environments after a real reset "
        "against a slow numpy twin of their draws; one after a calm life against one after a wild life",
        threshold="rounding of single precision (2e-5) for starts; of an episode before not a bit is left",
        means="Environments share their starts, begin elsewhere than they say, or carry something over: "
        "episodes are not the independent scenarios that they are counted as.",
        remedy="Look at what env/vec_env.py resets, and at the start that the engine is given.",
        look=look,
        needs=("robot",),
    ),
)
