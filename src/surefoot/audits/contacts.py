"""What contact does training see? Which feet are down together, which slip, and which stand on an edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.iterated import learner_of
from surefoot.audits.lived import Lived, live, robots
from surefoot.audits.slow_observations import surface
from surefoot.rollout import RolloutBlock, with_memory
from surefoot.terrain import Atlas

STEPS = 16
"""Control steps of all environments of the probe."""
SLIPS_MPS = 0.3
"""Horizontal speed of a foot on the ground from which on it slips."""
NEAR_M, EDGE_M = 0.1, 0.04
"""Within how far of a foot the ground must change by how much for the foot to stand on an edge."""
FEW = 1e-3
"""Share of steps below which a kind of contact is as good as not there."""
STEPPED = ("stairs_up", "stairs_down", "boxes", "curbs", "stones")
"""Classes of terrain that have edges."""


@dataclass(frozen=True)
class Contacts:
    """How often each kind of contact is there, as shares of all steps."""

    steps: int
    patterns: np.ndarray  # [2^F] by which feet are down
    slips: float  # any foot slips
    edges: float | None  # any foot is on an edge; None where the ground has none


def look(case: Case) -> list[Found]:
    """Lives on from where the environments of the latest checkpoint stand, and counts kinds of contact."""
    steps = _lived_on(case)
    rough = case.robot.task.tiles and any(t.cls in STEPPED for t in case.robot.task.tiles)
    atlas = case.once("atlas", case.robot.atlas) if rough else None
    force, velocity, place = (
        np.concatenate([s.robot[k][s.going] for s in steps]).astype(np.float64)
        for k in ("foot_force", "foot_velocity", "foot_position")
    )
    return remarks(counted(force[..., 2] > 1.0, velocity, place, atlas))


def _lived_on(case: Case) -> list[Lived]:
    """Takes some steps under the policy that explores, from where training stands."""
    env, held = robots(case), case.tensors("latest", "env")
    if "script.family" not in held:
        raise NotApplicable("its checkpoints have no environments")
    kept, rows = env.snapshot(), torch.from_numpy(case.chosen())
    learner, numbers = learner_of(case, case.seed), case.numbers("contacts")
    learner.load(case.tensors("latest", "learner"))
    held = {k: v if k == "reset_counts" else v[rows] for k, v in held.items()}
    env.restore(held)
    c, n = env.contract, env.num_envs
    sizes = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(STEPS, n, *sizes)
    block = with_memory(block, learner.memory, learner.mirrors)
    recall = learner.recall(block)  # who remembers, where the policy does
    if recall is not None:
        recall.restore(held)
        recall.begin()
    actor = recall or learner
    out: list[Lived] = []
    for t in range(STEPS):
        exploration = torch.from_numpy(numbers.normal(0, 1, (n, c.action.size)).astype(np.float32))
        block.obs[t] = env.obs
        action = actor.act(block.obs[t], exploration)[0]
        out += live(env, lambda _, a=action: a, 1)  # type: ignore[misc]
        for name in ("terminated", "truncated"):
            getattr(block, name)[t] = torch.from_numpy(out[-1].outcome[name])
    env.restore(kept)
    return out


def counted(down: np.ndarray, velocity: np.ndarray, place: np.ndarray, atlas: Atlas | None) -> Contacts:
    """Counts steps [M] by feet [M, F] that are down, their velocities and places [M, F, 3]."""
    feet = down.shape[1]
    pattern = (down * (1 << np.arange(feet))).sum(1)
    slips = (down & (np.hypot(velocity[..., 0], velocity[..., 1]) > SLIPS_MPS)).any(1)
    edges = None
    if atlas is not None:
        edges = float((down & on_edge(atlas, place[..., :2])).any(1).mean())
    share = np.bincount(pattern, minlength=1 << feet) / len(down)
    return Contacts(len(down), share, float(slips.mean()), edges)


def on_edge(atlas: Atlas, xy: np.ndarray) -> np.ndarray:
    """Returns where the ground [...] changes near places [..., 2]."""
    around = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * NEAR_M
    heights = np.stack([surface(atlas, xy + a) for a in around])
    return np.asarray(heights.max(0) - heights.min(0) > EDGE_M)


def remarks(c: Contacts) -> list[Found]:
    """Says which kinds of contact are not in the batch."""
    seen = int((c.patterns > FEW).sum())
    out = []
    if seen < 2:
        out.append(
            f"The same feet are down in all but {100 * (1 - c.patterns.max()):.2g}% of {c.steps} steps"
        )
    if c.slips <= FEW:
        out.append(f"No foot slips in more than {100 * c.slips:.2g}% of {c.steps} steps")
    if c.edges is not None and c.edges <= FEW:
        out.append(
            f"A foot is on an edge in {100 * c.edges:.2g}% of {c.steps} steps, on terrain that has them"
        )
    return [Found(f"{text}: training sees none of what else there is.") for text in out]


DETECTORS = (
    Detector(
        name="contact-coverage",
        kind="behaviour",
        cause="behaviour",
        asks="Does training see feet down in different ways, slipping, and on edges where there are any?",
        statistic="shares of steps by which feet are down, with a foot that slips (0.3 m/s), and with one "
        "within 0.1 m of where the ground changes by 4 cm, in 16 steps of up to 256 environments from where "
        "they stand in the latest checkpoint",
        threshold="a thousandth of all steps; a remark, not a test (clean runs: every way to stand, slips in "
        "2% and edges in 2.5% of steps and more)",
        means="The batch does not hold what a robot meets: its policy has not learned it.",
        remedy="Look at friction's range, at the terrain's levels, and at what ends episodes early.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
