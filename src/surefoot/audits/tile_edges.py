"""Do robots that leave their tile go on at its other side, as they are? Terrain is periodic, and episodes
never run out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.lived import Arrays, live, robot_now, robots
from surefoot.audits.slow_ground import around
from surefoot.audits.whole_steps import middles, put
from surefoot.contract import REFERENCE, Column
from surefoot.engines import Start
from surefoot.env import VecEnv
from surefoot.evaluation import PanelEvaluator

HALF_M, SIZE_M = 4.0, 8.0
BEFORE_M, FAST_MPS, STEPS = 0.02, 2.5, 3
"""Robots are put so far from an edge, going so fast towards it: the first step takes them across."""
ALOFT_M = 0.15
JUMP_M, TURN_MPS, ROOM_M = 0.12, 1.5, 1e-3
"""A step in the air moves nobody further, changes no velocity by more, and ends within the tile but for so
much."""
SCENARIOS, FIRST = 12, 160
"""Held-out scenarios, of so many first ones: they stand on one atlas."""


def look(case: Case) -> list[Found]:
    """Sends robots across every side and corner of their tiles: in training, and on the panel."""
    task, panel = case.robot.task, case.robot.panel
    if not task.on_heightfield(panel):
        raise NotApplicable("its ground is a plane, which has no end")
    found = list(_in_training(case)) if task.tiles else []
    return [*found, *_on_the_panel(case)]


def across(numbers: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns places [N, 2] just inside of a tile's edges, and the directions [N, 2] that lead out of it."""
    ways = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)], float)
    way = ways[np.arange(n) % len(ways)]
    along = numbers.uniform(-3, 3, (n, 2))
    return np.where(way != 0, way * (HALF_M - BEFORE_M), along), way


def _in_training(case: Case) -> Iterator[Found]:
    env, spec, tiles = robots(case), case.robot.task.robot, case.robot.task.tiles
    kept = env.snapshot()
    middle, n = middles(env, kept), env.num_envs
    place, way = across(case.numbers("tile-edges"), n)
    whose = [tiles[k] for k in kept["script.tile"].tolist()]
    high = np.array([float(around(t.cls, t.level, t.key, p)) for t, p in zip(whose, place, strict=True)])
    position = np.column_stack([middle + place, high + spec.stand_height_m + ALOFT_M])
    velocity = np.column_stack([FAST_MPS * way, np.zeros(n)])
    young = {**kept, "task.age": torch.full_like(kept["task.age"], env.episode_steps // 2)}
    put(env, young, position=position, linear_velocity=velocity)
    seen, going = [robot_now(env)], np.ones(n, bool)
    for one in live(env, lambda t: torch.zeros(n, env.contract.action.size), STEPS):
        going &= one.going
        seen.append(one.robot)
    env.restore(kept)
    yield from _told(seen, middle, going, "Training's robots", "physics")


def _on_the_panel(case: Case) -> Iterator[Found]:
    plan, numbers = case.robot, case.numbers("edges of the panel")
    panel, spec = plan.panel, plan.task.robot
    rough = [k for k, s in enumerate(panel.select("confirmation")) if s.terrain.cls != "flat"]
    only = sorted(numbers.permutation(rough[:FIRST])[:SCENARIOS].tolist())
    if not only:
        return
    hz = plan.recipe.control_hz
    evaluator = PanelEvaluator(plan.task, panel, "confirmation", hz, engine=REFERENCE, only=only)
    try:
        env = evaluator.begin(Column())
        n, middle = env.num_envs, env.origins().astype(np.float64)
        place, way = across(numbers, n)
        whose = [s.terrain for s in evaluator.scenarios[:n]]
        high = np.array([float(around(t.cls, t.level, t.key, p)) for t, p in zip(whose, place, strict=True)])
        start = Start(
            position=_single(np.column_stack([middle + place, high + spec.stand_height_m + ALOFT_M])),
            quaternion=_single(np.tile([1.0, 0, 0, 0], (n, 1))),
            linear_velocity=_single(np.column_stack([FAST_MPS * way, np.zeros(n)])),
            angular_velocity=torch.zeros(n, 3),
            joint_position=_single(np.tile(spec.default_pose, (n, 1))),
            tile=env.script.tile,
        )
        env.engine.reset(torch.ones(n, dtype=torch.bool), start, env.parameters)
        env.robot_state = env.engine.state()
        seen = [_now(env)]
        for _ in range(STEPS):
            env.step(torch.zeros(n, env.contract.action.size))
            seen.append(_now(env))
        yield from _told(seen, middle, np.ones(n, bool), "Held-out robots", "panel-plant")
    finally:
        evaluator.close()


def _single(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x, np.float32))


def _now(env: VecEnv) -> Arrays:
    return {k: v.cpu().numpy().copy() for k, v in env.robot_state.tensors().items()}


def _told(seen: list[Arrays], middle: np.ndarray, going: np.ndarray, who: str, cause: str) -> Iterator[Found]:
    for text, wrong in faults(seen, middle).items():
        share = float((wrong & going).sum() / max(going.sum(), 1))
        if share > 0.02:
            told = f"{who} that leave their tile {text}, in {100 * share:.0f}% of {int(going.sum())}."
            yield Found(told, cause=cause)
            return


def faults(seen: list[Arrays], middle: np.ndarray) -> dict[str, np.ndarray]:
    """Returns by what they do which robots [N] do not go on as they are at the other side."""
    n = len(middle)
    checks: dict[str, Callable[[Arrays, Arrays], np.ndarray]] = {
        "stay outside of it": lambda a, b: _away(b, middle) > HALF_M + ROOM_M,
        "go on elsewhere than at its other side": lambda a, b: _leap(a, b) > JUMP_M,
        "lose their feet": lambda a, b: np.abs(_feet(a) - _feet(b)).reshape(n, -1).max(1) > JUMP_M,
        "lose their velocity": lambda a, b: (
            np.abs(a["linear_velocity"] - b["linear_velocity"]).max(1) > TURN_MPS
        ),
    }
    out: dict[str, np.ndarray] = {}
    for text, check in checks.items():
        wrong = np.zeros(n, bool)
        for before, after in pairwise(seen):
            wrong |= check(before, after)
        out[text] = wrong
    crossed = np.any([np.abs(b["position"][:, :2] - a["position"][:, :2]).max(1) > HALF_M
                      for a, b in pairwise(seen)], 0)  # fmt: skip
    out["do not go on at its other side"] = ~crossed
    return out


def _away(a: Arrays, middle: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(a["position"][:, :2] - middle).max(1))


def _leap(a: Arrays, b: Arrays) -> np.ndarray:
    """Returns how far robots moved, but for whole periods along either axis."""
    moved = (b["position"] - a["position"]).astype(np.float64)
    moved[:, :2] -= SIZE_M * np.rint(moved[:, :2] / SIZE_M)
    return np.asarray(np.abs(moved).max(1))


def _feet(a: Arrays) -> np.ndarray:
    return np.asarray(a["foot_position"].astype(np.float64) - a["position"][:, None].astype(np.float64))


DETECTORS = (
    Detector(
        name="tile-edges",
        kind="proof",
        cause="physics",
        asks="Do robots that leave their tile go on at its other side, as they are?",
        statistic="up to 256 robots of training and 12 of the panel, sent across all sides and corners of "
        "their tiles: where trunk and feet are after each of three steps, and how fast",
        threshold="12 cm and 1.5 m/s in a step but for whole periods of 8 m, 1 mm beyond an edge; in 2%",
        means="Who walks far stands on ground that the episode does not name, or on none.",
        remedy="Look at `left_tile` of env/rules.py and at `translate` of the engine.",
        look=look,
        needs=("robot",),
    ),
)
