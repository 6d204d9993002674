"""A panel laid out: which scenarios stand on which ground, in which batch, on one engine.

A list of version 1 is one batch on one atlas, as it was when its episodes were recorded. A drawn panel on
terrain has a tile for every scenario, so it is laid out in batches, each on an atlas of its own, and a column
that moves all scenarios to one class of terrain has its own atlases too. An atlas is as large for few tiles
as for many, so that kernels, whose text has its size, are compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.contract import (
    PERTURBATIONS,
    Column,
    Half,
    Panel,
    Plant,
    Scenario,
    applies,
    evaluation_plant,
    find_perturbation,
    perturb_all,
)
from surefoot.env import PanelSampler, VecEnv
from surefoot.evaluation.episodes import RawEpisodes, run_episodes
from surefoot.evaluation.perturb import faults_of
from surefoot.evaluation.progress import PassCounter
from surefoot.evaluation.runner import EpisodeRunner, runner_for
from surefoot.policy import Policy, PolicyBundle
from surefoot.tasks import Task
from surefoot.terrain import Atlas, TileId

BATCH = 320
"""Scenarios of a drawn panel that share an atlas: 18 x 18 tiles span 182 m, where float32 resolves 8
micrometres."""
GRID = 324
"""Tiles of such an atlas, those that only fill it up among them."""
FILLER = TileId("flat", 0, 0)


@dataclass(frozen=True)
class Setting:
    """What all batches of an evaluation share."""

    task: Task
    panel: Panel
    half: Half
    control_hz: float
    engine: str
    device: torch.device
    plant: Plant | None = None

    @property
    def heightfield(self) -> bool:
        return self.task.on_heightfield(self.panel)

    def batch_of(self, place: int) -> int:
        """Returns the batch of a scenario (its place in the half)."""
        return place // BATCH if self.panel.version > 1 and self.heightfield else 0

    def atlas(self, batch: int, column: Column) -> Atlas | None:
        """Builds the ground of a batch in a column; whoever of the batch is played, it is the same."""
        if not self.heightfield:
            return None
        everything = self.panel.select(self.half)
        if self.panel.version == 1:
            return Atlas.build(_tiles(everything, self.panel))
        there = [s for i, s in enumerate(everything) if self.batch_of(i) == batch]
        tiles = sorted({_tile(s) for s in (perturb_all(there, column) if grounded(column) else there)})
        return Atlas.build([*tiles, *[FILLER] * (GRID - len(tiles))])


def grounded(column: Column) -> bool:
    """Returns whether a column moves scenarios to another ground."""
    return bool(column.perturbation) and find_perturbation(column.perturbation).terrain is not None


class Batch:
    """Some scenarios of a half as environments on one ground; played again and again, under any column that
    leaves the ground as it is."""

    def __init__(self, setting: Setting, places: Sequence[int], column: Column) -> None:
        self.setting, self.places = setting, list(places)
        everything = setting.panel.select(setting.half)
        self.scenarios = tuple(everything[i] for i in self.places)
        self._atlas = setting.atlas(setting.batch_of(self.places[0]), column)
        self.env = VecEnv(
            setting.task,
            self._sampler(column),
            setting.plant or evaluation_plant(setting.control_hz, setting.heightfield),
            engine=setting.engine,
            atlas=self._atlas,
            device=str(setting.device),
            auto_reset=False,
            stagger=False,
        )
        self._runners: dict[int, EpisodeRunner] = {}
        self._runner()  # compiled now, not in the first pass

    def _sampler(self, column: Column) -> PanelSampler:
        s = self.setting
        return PanelSampler(
            s.panel,
            perturb_all(self.scenarios, column),
            s.task.contract,
            s.task.robot,
            s.control_hz,
            self._atlas,
            faults_of(column, len(self.scenarios)),
            s.device,
        )

    def begin(self, column: Column) -> None:
        """Brings all environments to the beginning of their episodes in `column`."""
        self.env.restart(self._sampler(column), stagger=False)

    def run_episodes(self, policy: Policy, column: Column, counter: PassCounter | None = None) -> RawEpisodes:
        """Runs every scenario of `column` once, to its end or its fall."""
        self.begin(column)
        scenarios, device = perturb_all(self.scenarios, column), self.setting.device
        terrain = {
            "class": np.array([s.terrain.cls for s in scenarios]),
            "level": np.array([s.terrain.level for s in scenarios]),
            "key": np.array([s.terrain.key for s in scenarios]),
        }
        policy = policy.to(device) if isinstance(policy, PolicyBundle) else policy
        places = torch.tensor(self.places, device=device)
        return run_episodes(self.env, policy, terrain, places, self._runner(), counter)

    def _runner(self) -> EpisodeRunner:
        """Returns the runner that was made before; only a column with more pushes than the others needs
        another."""
        pushes = self.env.script.push_step.shape[1]
        if pushes not in self._runners:
            self._runners[pushes] = runner_for(self.env)
        return self._runners[pushes]


def _tile(s: Scenario) -> TileId:
    return TileId(s.terrain.cls, s.terrain.level, s.terrain.key)


def _tiles(scenarios: Sequence[Scenario], panel: Panel) -> list[TileId]:
    """Returns every tile that a list or one of its terrain columns stands on: all have one atlas."""
    ids = {_tile(s) for s in scenarios}
    for p in PERTURBATIONS:
        if p.terrain is not None and applies(p, panel):
            ids |= {TileId(p.terrain, int(x), s.terrain.key) for x in p.sweep for s in scenarios}
    return sorted(ids)
