"""Small batches to look into: a case played many times, or the environments of one seed family."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Frozen, Plant, SeedPlan, SurefootError, evaluation_plant
from surefoot.env import Faults, Scenarios, TrainSampler, VecEnv
from surefoot.evaluation import Episodes, run_episodes
from surefoot.policy import Policy
from surefoot.replays.cases import Case, CaseSampler
from surefoot.statistics import rate
from surefoot.tasks import Task
from surefoot.terrain import Atlas

FAMILY_FROM, ACCIDENT_BELOW = 0.5, 0.1
"""A case that fails in half of its neighbourhood or more is one of a family; in less than a tenth, an
accident."""


class CaseReport(Frozen):
    """Says what became of a case in many environments."""

    case: str
    envs: int
    engine: str
    failures: float
    failures_low: float
    failures_high: float
    labels: dict[str, int]
    recorded_label: str
    again: bool
    """Whether the case itself, unmoved, failed again."""
    verdict: str


def rerun_case(
    task: Task, case: Case, policy: Policy, seeds: SeedPlan, envs: int, engine: str
) -> tuple[CaseReport, Episodes]:
    """Plays the case in `envs` environments, in the first as it was, in the others with its factors moved."""
    if envs < 1:
        raise SurefootError(f"--envs is {envs}; use 1 or more.")
    flat = case.tile.cls == "flat" and not task.tiles
    atlas = None if flat else Atlas.build([case.tile])
    sampler = CaseSampler(case, envs, task.contract, seeds, atlas)
    plant = evaluation_plant(case.control_hz, heightfield=not flat)
    env = VecEnv(task, sampler, plant, engine=engine, atlas=atlas, auto_reset=False, stagger=False)
    terrain = {"class": case.tile.cls, "level": case.tile.level, "key": case.tile.key}
    try:
        played = run_episodes(env, policy, {k: np.array([v] * envs) for k, v in terrain.items()}).labelled()
    finally:
        env.close()
    failed = ~played.rows["success"]
    share = rate(failed, np.arange(envs))
    report = CaseReport(
        case=case.name,
        envs=envs,
        engine=engine,
        failures=share.value,
        failures_low=share.low,
        failures_high=share.high,
        labels=dict(Counter(x for x in played.rows["label"].tolist() if x).most_common()),
        recorded_label=case.label,
        again=bool(failed[0]),
        verdict=_verdict(share.value, envs),
    )
    return report, played


def _verdict(share: float, envs: int) -> str:
    if envs < 16:
        return "too few environments to tell a family of failures from an accident"
    if share >= FAMILY_FROM:
        return "a family of failures: most of its neighbourhood fails"
    if share < ACCIDENT_BELOW:
        return "an accident: hardly any of its neighbourhood fails"
    return "fragile: part of its neighbourhood fails"


class FamilySampler:
    """Draws some environments of one training family, as if there were no others."""

    faults: Faults | None = None

    def __init__(self, inner: TrainSampler, first: int, count: int) -> None:
        self.seeds, self.strata, self.count = inner.seeds, inner.strata, count
        self.episode_steps, self.segment_steps = inner.episode_steps, inner.segment_steps
        self.longest_delay_s = inner.longest_delay_s
        self.numbers = torch.arange(count)
        self._inner, self._first = inner, first

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return self._inner.draw(rows + self._first, episode, level)


def rerun_family(
    task: Task,
    seeds: SeedPlan,
    plant: Plant,
    engine: str,
    atlas: Atlas | None,
    policy: Policy,
    family: int,
    envs: int,
) -> dict[str, Any]:
    """Plays the first training episodes of a seed family, on the training plant, without exploration
    noise."""
    if not 0 <= family < seeds.families:
        raise SurefootError(f"There is no training family {family}; use 0 to {seeds.families - 1}.")
    count = min(envs, seeds.envs_per_family)
    cpu = torch.device("cpu")
    inner = TrainSampler(task.contract, task.robot, seeds, plant.control_hz, atlas, cpu)
    sampler = FamilySampler(inner, family * seeds.envs_per_family, count)
    env = VecEnv(task, sampler, plant, engine=engine, atlas=atlas, auto_reset=False, stagger=False)
    tiles = [atlas.tiles[int(k)] for k in env.script.tile] if atlas else []
    terrain = {
        "class": np.array([t.cls for t in tiles] or ["flat"] * count),
        "level": np.array([t.level for t in tiles] or [0] * count),
        "key": np.array([t.key for t in tiles] or [0] * count),
    }
    stratum = np.array([task.contract.strata.labels()[int(k)] for k in env.script.stratum[:, 0]])
    first = env.script.commands[:, 0].numpy().copy()
    friction, payload = env.parameters.friction.numpy().copy(), env.parameters.payload_kg.numpy().copy()
    try:
        played = run_episodes(env, policy, terrain).labelled()
    finally:
        env.close()
    about = {"family": np.full(count, family), "member": np.arange(count), "stratum": stratum}
    about |= {f"command_{k}": first[:, i] for i, k in enumerate(("vx", "vy", "wz"))}
    about |= {"friction": friction, "payload_kg": payload, "terrain": terrain["class"]}
    return about | played.rows
