"""Do held-out robots move as the evaluation plant, their scenarios and their columns say? Pieces of kept
episodes are played again in plain MuJoCo, under the actions that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.panel_traces import Traced, traced
from surefoot.audits.second_evaluator import (
    State,
    World,
    in_force,
    phase_at,
    rotation,
    start_of,
    targets_of,
)
from surefoot.contract import BOX_WORLD
from surefoot.terrain import SIZE_M, TileId, box_world

FIRST, PIECE, PIECES = 20, 8, 1
"""Control steps from the start, and in each of so many pieces elsewhere beside pushes and the end."""
SURE = {
    "position": 1e-4,
    "quaternion": 1e-4,
    "joint_position": 3e-4,
    "linear_velocity": 1e-3,
    "angular_velocity": 5e-3,
    "joint_velocity": 3e-2,
}
"""What engines may differ by after a piece: three times and more of the most that clean runs showed in 1,500
pieces of walks, trots and falls (m, 1, rad, m/s, rad/s, rad/s)."""
NUDGE, NUDGES, TIMES = 1e-5, 3, 30.0
"""Pieces further apart than that are played again with velocities moved by as much as engines round: those
that then part by a `TIMES`th of it amplify roundings, and say nothing."""
FEW, SHARE = 4, 0.04
"""Pieces, of two episodes or more and so many of their kind, that make a finding. On clean runs 2 of 5,000
were apart all the same, where a joint or the trunk struck something."""
PLENTY = 24
"""Pieces that are apart after which no more are looked at."""
START = 1e-5
"""What starts may differ by (m, rad, m/s): rounding of single precision."""


@dataclass(frozen=True)
class Piece:
    """Some control steps of an episode."""

    first: int
    last: int
    """One past the last."""
    what: str


def pieces(t: Traced, numbers: np.random.Generator, hz: float) -> Iterator[Piece]:
    """Yields the start of an episode, its pushes, its end, and some pieces in between."""
    n = t.steps
    yield Piece(0, min(FIRST, n), "start")
    for p in t.scenario.pushes:
        at = round(p.time_s * hz)
        if FIRST <= at < n:
            yield Piece(at - 1, min(at + PIECE, n), "push")
    if n > FIRST + PIECE:
        yield Piece(n - PIECE, n, "end")
        for at in numbers.integers(FIRST, n - PIECE + 1, PIECES).tolist():
            yield Piece(at, at + PIECE, "piece")


def state_after(t: Traced, step: int) -> State:
    """Returns where a robot was after `step` control steps, as its trace says."""
    f = {k: t.frames[k][step - 1].astype(np.float64) for k in (*SURE,)}
    f["position"][:2] -= t.frames["tile_origin"]
    return State(
        position=f["position"],
        quaternion=f["quaternion"],
        velocity=rotation(f["quaternion"]) @ f["linear_velocity"],
        turning=f["angular_velocity"],
        joints=f["joint_position"],
        speeds=f["joint_velocity"],
    )


def worlds(case: Case, t: Traced) -> World | None:
    """Returns the world of an episode; None where plain MuJoCo has none: on heightfields, but for level
    ones."""
    robot, hz, ground = case.robot.task.robot, case.robot.recipe.control_hz, t.scenario.terrain
    if ground.cls == "flat":
        return case.once("world", lambda: World(robot, hz))
    if t.engine != BOX_WORLD:
        return None
    tile = TileId(ground.cls, ground.level, ground.key)
    return case.once(f"world {tile}", lambda: World(robot, hz, box_world(tile)))


def play(case: Case, world: World, t: Traced, piece: Piece, start: State) -> dict[str, np.ndarray]:
    """Returns what there is to see after a piece of an episode, under its recorded actions."""
    contract, robot, hz = case.robot.task.contract, case.robot.task.robot, case.robot.recipe.control_hz
    s = t.scenario
    steps = np.arange(piece.last)
    actions = t.frames["action"][: piece.last].astype(np.float64)
    targets = targets_of(actions, phase_at(steps, contract, hz), s, robot, contract)
    due = {round(p.time_s * hz): np.array([p.vx_mps, p.vy_mps]) for p in s.pushes}
    world.put(start)
    for k in range(piece.first, piece.last):
        if k in due:
            world.push(due[k])
        world.step(in_force(targets, k, s.delay_s, world.substeps, robot.default_pose))
    return world.seen()


def apart(
    case: Case, world: World, t: Traced, piece: Piece, numbers: np.random.Generator
) -> dict[str, float]:
    """Returns by how much a recorded piece ended elsewhere than plain MuJoCo's, by quantity; empty where that
    is rounding, or where rounding cannot be told."""
    whole = case.robot.task
    own = start_of(t.panel, t.scenario, whole.robot, whole.contract)
    own.position[2] += float(t.frames["start_position"][2]) - own.position[2] if t.on_tile else 0.0
    start = own if piece.first == 0 else state_after(t, piece.first)
    told = {k: t.frames[k][piece.last - 1].astype(np.float64) for k in SURE}
    told["position"][:2] -= t.frames["tile_origin"]
    world.embody(t.scenario)
    again = play(case, world, t, piece, start)
    gap = {k: float(np.abs(again[k] - told[k]).max()) for k in SURE}
    off = {k: v for k, v in gap.items() if not v <= SURE[k]}
    if not off or gap["position"] > SIZE_M / 2:  # it went on at the other side of its tile
        return {}
    for _ in range(NUDGES):
        by = numbers.normal(0, NUDGE, len(start.speeds) + 6)
        moved = State(
            start.position,
            start.quaternion,
            start.velocity + by[:3],
            start.turning + by[3:6],
            start.joints,
            start.speeds + by[6:],
        )
        other = play(case, world, t, piece, moved)
        off = {k: v for k, v in off.items() if v > TIMES * np.abs(other[k] - again[k]).max()}
    return off


def moved_otherwise(case: Case) -> list[Found]:
    """Compares pieces of kept episodes with plain MuJoCo, and says what they have in common where some are
    apart."""
    numbers, hz = case.numbers("pieces"), case.robot.recipe.control_hz
    looked: list[tuple[Traced, Piece]] = []
    wrong: list[tuple[Traced, Piece, dict[str, float]]] = []
    elsewhere = []
    for t in traced(case):
        world = worlds(case, t)
        if str(t.row["reason"]) == "nonfinite":
            continue
        if not starts_there(case, t):
            elsewhere.append(t)
            continue
        if world is None:
            continue
        for piece in pieces(t, numbers, hz) if len(wrong) < PLENTY else ():
            looked.append((t, piece))
            off = apart(case, world, t, piece, numbers)
            if off:
                wrong.append((t, piece, off))
    if not looked and not elsewhere:
        raise NotApplicable("all kept episodes are on heightfields, which plain MuJoCo touches otherwise")
    found = []
    if elsewhere:
        found.append(
            Found(
                f"{len(elsewhere)} kept episodes begin elsewhere than their scenarios say (first: "
                f"{elsewhere[0].name}).",
                cause="panel-plant",
            )
        )
    return found + _said(looked, wrong)


def starts_there(case: Case, t: Traced) -> bool:
    """Returns whether an episode begins where its scenario's draws put it; how high, the ground says."""
    own = start_of(t.panel, t.scenario, case.robot.task.robot, case.robot.task.contract)
    f = t.frames
    gaps = [
        (f["start_position"] - np.append(f["tile_origin"], 0) - own.position)[: 2 if t.on_tile else 3],
        f["start_quaternion"] - own.quaternion,
        f["start_linear_velocity"] - own.velocity,
        f["start_angular_velocity"] - own.turning,
        f["start_joint_position"] - own.joints,
    ]
    return max(float(np.abs(g).max()) for g in gaps) <= START * (1 + float(np.abs(f["tile_origin"]).max()))


def _said(
    looked: Sequence[tuple[Traced, Piece]], wrong: Sequence[tuple[Traced, Piece, dict[str, float]]]
) -> list[Found]:
    """Returns a finding for undisturbed episodes, and one for each perturbation that they do not explain."""
    out = []
    plain = [(t, p, off) for t, p, off in wrong if not t.column.perturbation]
    spoiled: set[tuple[str, str]] = set()
    if enough(plain, sum(not t.column.perturbation for t, _ in looked)):
        out.append(_found(looked, plain, "", "panel-plant"))
        spoiled = {(t.engine, p.what) for t, p, _ in plain}
    kinds = {t.column.perturbation for t, _, _ in wrong} - {""}
    for kind in sorted(kinds):
        own = [
            (t, p, off)
            for t, p, off in wrong
            if t.column.perturbation == kind and (t.engine, p.what) not in spoiled
        ]
        if enough(own, sum(t.column.perturbation == kind for t, _ in looked)):
            out.append(_found(looked, own, kind, "perturbation"))
    return out


def enough(wrong: Sequence[tuple[Traced, Piece, dict[str, float]]], of: int) -> bool:
    return len(wrong) >= max(FEW, SHARE * of) and len({t.name for t, _, _ in wrong}) > 1


def _found(
    looked: Sequence[tuple[Traced, Piece]],
    wrong: Sequence[tuple[Traced, Piece, dict[str, float]]],
    kind: str,
    cause: str,
) -> Found:
    of = sum(t.column.perturbation == kind for t, _ in looked)
    t, piece, off = wrong[0]
    what = ", ".join(sorted({p.what for _, p, _ in wrong}))
    by = ", ".join(f"{k} {v:.2g}" for k, v in off.items())
    called = f"of perturbation '{kind}'" if kind else "without perturbation"
    return Found(
        f"{len(wrong)} of {of} pieces of held-out episodes {called} ({what}) end elsewhere than in plain "
        f"MuJoCo on the evaluation plant, under the same actions; first: {t.name}, steps {piece.first} to "
        f"{piece.last}, apart by {by}.",
        cause=cause,
    )


DETECTORS = (
    Detector(
        name="panel-physics",
        kind="proof",
        cause="panel-plant",
        asks="Do held-out robots move as the evaluation plant, their scenarios and their columns say?",
        statistic="where pieces of kept episodes end, against plain MuJoCo under the recorded actions, from "
        "the scenario's start or a recorded state",
        threshold="four pieces, 4% of their kind, of two episodes, further apart than three times what "
        "engines differ by on clean runs, and than 30 times what rounding does to that very piece",
        means="The panel was played with another body, ground, delay, push, start or plant than its "
        "scenarios and columns say.",
        remedy="Compare the plant and the parameters that the panel's environments really have with the "
        "scenario.",
        look=moved_otherwise,
        needs=("confirmed", "robot"),
    ),
)
