"""Do engines tell of feet and contacts what their robots do? Rewards, ends and metrics rest on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.declared import columns_of, declared, judged_on, with_declared
from surefoot.audits.detector import Detector, Found
from surefoot.audits.fresh_lives import fresh_lives
from surefoot.audits.held_out_episodes import held_out_plant
from surefoot.audits.lived import robots
from surefoot.audits.slow_ground import FIGURES, around
from surefoot.audits.twin import PARAMETERS, Steps, Twin
from surefoot.audits.twin_steps import began, came, of_episode
from surefoot.audits.whole_steps import ground_below, middles, put
from surefoot.contract import BOX_WORLD, REFERENCE, Column, Plant, TaskContract
from surefoot.engines import Engine, Start
from surefoot.evaluation import PanelEvaluator
from surefoot.robots import RobotSpec
from surefoot.terrain import SIZE_M, TileId

Arrays = dict[str, np.ndarray]
ROWS, LAID, LAID_ON_PANEL, TRACES, STEPS = 240, 64, 24, 2, 24
"""Steps of training that are taken again, robots that are laid down; traces of an engine, steps of each."""
FIRST = 160
"""Held-out scenarios of which some are laid down: they stand on one atlas."""
NAMES = {
    "foot_position": "positions of feet",
    "foot_velocity": "velocities of feet",
    "foot_force": "forces on feet",
    "gravity": "direction of gravity",
    "trunk_contact": "contact of the trunk",
}
ROOM = {
    "foot_position": 1e-4,
    "foot_velocity": 2e-3,
    "gravity": 1e-5,
    "foot_force": 0.1,
    "trunk_contact": 0.0,
}
"""m, m/s, 1, N; clean runs: below 7e-6, 1e-4, 1e-6 and 0.03."""
SHARE = {"foot_force": 0.01}
"""What a force may be off besides, as a share of the greatest on that robot."""
MOST = {"foot_force": 0.05, "trunk_contact": 0.03}
"""Share of steps in which contacts may differ so much; of all else 2% may."""


@dataclass
class Sensed:
    """Steps, and what an engine told when they were over."""

    steps: Steps
    told: Arrays
    origin: np.ndarray  # [M, 2] of their tiles


class SensingTwin(Twin):
    """A twin that also notes where feet are and what they touch, as the last physics step begins."""

    def __init__(self, robot: RobotSpec, contract: TaskContract, plant: Plant) -> None:
        super().__init__(robot, contract, plant)
        self.noted: list[Arrays] = []

    def _one(self, s: Steps, i: int, targets: np.ndarray, delay: int, out: dict[str, np.ndarray]) -> None:
        super()._one(s, i, targets, delay, out)
        m, d, geoms = self.model, self.data, [self.model.geom(f).id for f in self.robot.feet]
        velocity, force = np.zeros((len(geoms), 6)), np.zeros((len(geoms), 3))
        for k, g in enumerate(geoms):
            mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_GEOM, g, velocity[k], 0)
        wrench, trunk = np.zeros(6), False
        for c in range(d.ncon):
            contact = d.contact[c]
            mujoco.mj_contactForce(m, d, c, wrench)
            world = contact.frame.reshape(3, 3).T @ wrench[:3]  # what the first geom does to the second
            for g, sign in ((int(contact.geom1), -1.0), (int(contact.geom2), 1.0)):
                if g in geoms:
                    force[geoms.index(g)] += sign * world
                trunk |= int(m.geom_bodyid[g]) == self._trunk
        x, y = d.qpos[self._base + 4 : self._base + 6]
        w, z = d.qpos[self._base + 3], d.qpos[self._base + 6]
        up = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
        self.noted.append(
            {
                "foot_position": d.geom_xpos[geoms].copy(),
                "foot_velocity": velocity[:, 3:].copy(),
                "foot_force": force,
                "gravity": -np.array(up),
                "trunk_contact": np.array(float(trunk)),
            }
        )


def look(case: Case) -> list[Found]:
    """Holds what training's engine told, and what recorded episodes have, to plain MuJoCo."""
    plan, plant = case.robot, case.record.training_plant
    assert plant is not None
    robot, contract = plan.task.robot, plan.task.contract
    found = list(_faults(_trained(case), robot, contract, plant, "training", "physics"))
    found = found or list(_faults(_laid_down(case), robot, contract, plant, "robots laid down", "physics"))
    if case.record.confirmation is None:
        return found
    heightfield = plan.task.on_heightfield(judged_on(case))
    held_out = held_out_plant(plan.recipe.control_hz, heightfield)
    laid = _laid_on_the_panel(case)
    found += _faults(laid, robot, contract, held_out, "held-out robots laid down", "panel-plant")
    for engine, sensed in _recorded(case).items():
        where = f"held-out episodes on {engine}"
        found += _faults(sensed, robot, contract, held_out, where, "panel-plant")
    return found


def _trained(case: Case) -> Sensed:
    """Returns steps of fresh lives; those first in which something is touched."""
    lives, numbers = fresh_lives(case), case.numbers("senses")
    told: dict[str, list[np.ndarray]] = {k: [] for k in NAMES}
    tiles, env, was = [], [], lives.begun[0].robot
    for one in lives.lived:
        rows = np.flatnonzero(one.going & ~one.robot["failed"].astype(bool) & ~was["failed"].astype(bool))
        for k in NAMES:
            told[k].append(one.robot[k][rows].astype(np.float64))
        tiles.append(one.before["script.tile"][rows])
        env.append(rows)
        was = one.robot
    order = np.argsort(np.concatenate(env), kind="stable")
    every = {k: np.concatenate(v)[order] for k, v in told.items()}
    assert len(order) == len(lives.steps)
    touching = (np.abs(every["foot_force"]).max((1, 2)) > 0) | (every["trunk_contact"] > 0)
    shuffled = numbers.permutation(len(order))
    first = np.concatenate([shuffled[touching[shuffled]][: ROWS - 40], shuffled[~touching[shuffled]][:40]])
    rows = np.sort(first)
    atlas = case.once("atlas", case.robot.atlas) if case.robot.task.tiles else None
    tile = np.concatenate(tiles)[order][rows]
    origin = np.zeros((len(rows), 2)) if atlas is None else atlas.origins[tile].astype(np.float64)
    return Sensed(lives.steps.take(rows), {k: v[rows] for k, v in every.items()}, origin)


def _laid_down(case: Case) -> Sensed:
    """Returns one step of training's robots that lie on the ground."""
    env, tiles = robots(case), case.robot.task.tiles
    kept = env.snapshot()
    middle = middles(env, kept)
    start = _lying(case, middle, ground_below(case, env, middle))
    put(env, kept, position=start.position.numpy(), quaternion=start.quaternion.numpy())
    given = {k: kept[f"parameters.{k}"].numpy() for k in PARAMETERS}
    ground = [tiles[k] for k in kept["script.tile"].tolist()] if tiles else []
    sensed = _one_step(case, env.engine, middle, given, ground)
    env.restore(kept)
    return sensed


def _laid_on_the_panel(case: Case) -> Sensed:
    """Returns the same of some held-out scenarios in native MuJoCo."""
    plan = case.robot
    panel, hz = plan.panel, plan.recipe.control_hz
    count = min(len(panel.numbers("confirmation")), FIRST)
    only = np.sort(case.numbers("laid on the panel").permutation(count)[:LAID_ON_PANEL]).tolist()
    evaluator = PanelEvaluator(plan.task, panel, "confirmation", hz, engine=REFERENCE, only=only)
    try:
        env = evaluator.begin(Column())
        middle = env.origins().astype(np.float64)
        whose = [
            TileId(s.terrain.cls, s.terrain.level, s.terrain.key) for s in evaluator.scenarios[: env.num_envs]
        ]
        high = [float(around(*t, np.zeros(2))) if t.cls in FIGURES else 0.0 for t in whose]
        start = _lying(case, middle, np.array(high))
        start.tile = env.script.tile
        env.engine.reset(torch.ones(env.num_envs, dtype=torch.bool), start, env.parameters)
        given = {k: v.numpy() for k, v in env.parameters.tensors().items()}
        ground = whose if plan.task.on_heightfield(panel) else []
        return _one_step(case, env.engine, middle, given, ground)
    finally:
        evaluator.close()


def _lying(case: Case, middle: np.ndarray, ground: np.ndarray) -> Start:
    """Returns robots close to the ground, turned any way: what touches it then are trunks."""
    numbers, n, pose = case.numbers("laid down"), len(middle), case.robot.task.robot.default_pose
    turn = numbers.normal(size=(n, 4))
    turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    position = np.column_stack([middle, ground + numbers.uniform(0.05, 0.25, n)])
    return Start(
        position=torch.from_numpy(position.astype(np.float32)),
        quaternion=torch.from_numpy(turn.astype(np.float32)),
        linear_velocity=torch.zeros(n, 3),
        angular_velocity=torch.zeros(n, 3),
        joint_position=torch.tensor(pose, dtype=torch.float32).repeat(n, 1),
        tile=torch.zeros(n, dtype=torch.int64),
    )


def _one_step(case: Case, engine: Engine, middle: np.ndarray, given: Arrays, ground: list[TileId]) -> Sensed:
    """Takes a control step under the default pose."""

    def now() -> Arrays:
        return {k: v.cpu().numpy().copy() for k, v in engine.state().tensors().items()}

    n, pose, was = len(middle), case.robot.task.robot.default_pose, now()
    engine.step(torch.tensor(pose, dtype=torch.float32).repeat(n, 1))
    after, nothing = now(), np.zeros((n, 1, len(pose)))
    steps = Steps(
        env=np.arange(n),
        **began(was, middle),
        actions=nothing,
        lift=nothing,
        push=np.zeros((n, 2)),
        **{k: np.asarray(v, np.float64) for k, v in given.items()},
        **came(was, after),
        ground=list(ground),
    )
    rows = np.flatnonzero(~after["failed"].astype(bool))[:LAID]
    return Sensed(steps.take(rows), {k: after[k][rows].astype(np.float64) for k in NAMES}, middle[rows])


def _recorded(case: Case) -> dict[str, Sensed]:
    """Returns steps of kept episodes of the nominal column, by engine."""
    result, plan, panel = case.result, case.robot, judged_on(case)
    table, numbers, hz = result.table, case.numbers("senses of episodes"), plan.recipe.control_hz
    tiles = plan.task.on_heightfield(plan.panel)
    out: dict[str, Sensed] = {}
    for (name, engine), column in columns_of(table).items():
        if engine == BOX_WORLD or column.perturbation:
            continue
        of = (table["column"] == name) & (table["engine"] == engine) & (table["trace"].astype(str) != "")
        parts: list[tuple[Steps, Arrays]] = []
        for i in numbers.permutation(np.flatnonzero(of))[:TRACES]:
            path = result.folder / "traces" / f"{table['trace'][i]}.npz"
            trace = case.trace(path) if path.is_file() else {"position": np.zeros(0)}
            if len(trace["position"]) < 4:
                continue
            d = declared(panel.scenarios[int(table["scenario"][i])], column, hz)
            at = np.unique(numbers.integers(1, len(trace["position"]) - 1, STEPS))
            steps = with_declared(of_episode(trace, plan.task.contract, at, len(parts), tiles=tiles), d, at)
            told = {k: trace[k][at].astype(np.float64) for k in NAMES if k in trace}
            told["origin"] = np.repeat(trace["tile_origin"].astype(np.float64)[None], len(at), 0)
            parts.append((steps, told))
        if parts:
            joined = {k: np.concatenate([t[k] for _, t in parts]) for k in parts[0][1]}
            out[engine] = Sensed(Steps.join([s for s, _ in parts]), joined, joined.pop("origin"))
    return out


def _faults(
    sensed: Sensed, robot: RobotSpec, contract: TaskContract, plant: Plant, where: str, cause: str
) -> Iterator[Found]:
    twin = SensingTwin(robot, contract, plant)
    twin.step(sensed.steps)
    right = {k: np.stack([n[k] for n in twin.noted]) for k in NAMES}
    for name, share in apart(sensed.told, right, sensed.origin).items():
        yield Found(
            f"In {where} an engine tells other {NAMES[name]} than plain MuJoCo has after the same step, in "
            f"{100 * share:.0f}% of {len(sensed.steps)} steps.",
            cause=cause,
        )


def apart(told: Mapping[str, np.ndarray], right: Arrays, origin: np.ndarray) -> dict[str, float]:
    """Returns in which share of steps something is told otherwise, where that is more than contacts make."""
    out = {}
    for name, said in told.items():
        gap = said - right[name]
        if name == "foot_position":
            gap[..., :2] -= origin[:, None]
            gap[..., :2] -= SIZE_M * np.rint(gap[..., :2] / SIZE_M)  # a tile was left meanwhile
        room = ROOM[name] + SHARE.get(name, 0.0) * np.abs(right[name]).reshape(len(gap), -1).max(1)
        off = np.abs(gap).reshape(len(gap), -1).max(1) > room
        if off.mean() > MOST.get(name, 0.02):
            out[name] = float(off.mean())
    return out


DETECTORS = (
    Detector(
        name="engine-senses",
        kind="proof",
        cause="physics",
        asks="Do engines tell of feet, forces and contacts what their robots do?",
        statistic="positions, velocities and forces of feet, gravity and the trunk's contact after 240 steps "
        "of training, 64 of robots that were laid down and 48 of held-out episodes of each engine, against "
        "plain MuJoCo's after the same step",
        threshold="0.1 mm, 2 mm/s, 0.1 N and 1% of the greatest force, in 2% of steps, 5% of forces and 3% "
        "of the trunk's contacts (clean runs: a tenth of that, and none): contacts enlarge rounding",
        means="Rewards for contact and slip, ends by contact and metrics of gaits rest on what was not.",
        remedy="Compare what the engine puts into RobotState with engines/protocol.py, frame by frame.",
        look=look,
        needs=("robot",),
    ),
)
