"""A rough policy on the same terrain by other contacts and in other geometry, class by class.

    python benchmarks/box_world.py RUN      # a run of walk-rough; writes box_world.json

All in native MuJoCo, evaluation plant, both halves of the run's panel:

- surface: heightfields by Surefoot's contact function; what results are stated on;
- steep surface: the box world's ground as a heightfield of 1 cm samples, by that function. Its geometry is
  the box world's but for risers that are ramps 1 cm wide, so the step from here to the box world is contact,
  and the step from surface to here is geometry;
- box world: MuJoCo's own contact with boxes, planes and convex meshes;
- prisms: MuJoCo's own contact with the heightfields. Its control is the same policy on level ground: a plane,
  a level surface and level prisms (`agreement.py`).
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from agreement import on_level_ground
from machines import about, device_name
from surefoot.artifacts import write_json
from surefoot.compute import cores, prepare_torch
from surefoot.contract import BOX_WORLD, REFERENCE, Plant, evaluation_plant
from surefoot.engines import registry, scene
from surefoot.engines.mujoco import MujocoEngine
from surefoot.evaluation import PanelEvaluator
from surefoot.evaluation.passes import in_box_world
from surefoot.robots import RobotSpec
from surefoot.runs import RunFolder
from surefoot.statistics.columns import Rows, agreement, column_summary
from surefoot.terrain import MARGIN_M, SIZE_M, Atlas, TileId, box_world, has_solids
from surefoot.training.restore import load_policy, restore_plan

STEP_M = 0.01
SCORES = {"episodes", "effective_episodes", "success", "success_low", "success_high", "fall_rate"}


@dataclass(frozen=True)
class Given:
    """A run that is there already, where `agreement.py` has ones that it trains."""

    folder: Path

    def run(self, runs: Path) -> RunFolder:
        return RunFolder.open(self.folder)


class SteepSurface(MujocoEngine):
    """Native MuJoCo on the box world's ground, sampled every 1 cm and touched as a surface."""

    def _build(self, robot: RobotSpec, plant: Plant, atlas: Atlas | None) -> scene.Scene:
        assert atlas is not None
        with mock.patch.object(scene, "RESOLUTION_M", STEP_M):
            return super()._build(robot, plant, _finer(atlas))


def _finer(atlas: Atlas) -> Atlas:
    """Returns blocks of 1 cm samples side by side, a tile each; tiles that the box world lacks are level."""
    half = SIZE_M / 2 + MARGIN_M
    line = np.linspace(-half, half, round(2 * half / STEP_M) + 1)
    xy = np.stack(np.meshgrid(line, line, indexing="ij"), -1)
    blocks = [_heights(one, xy) for one in atlas.tiles]
    origins = np.array([(0.0, k * len(line) * STEP_M) for k in range(len(blocks))])
    heights = np.concatenate(blocks, 1).astype(np.float32)
    return replace(atlas, heights=heights, origins=origins, x0=-half, y0=-half)


def _heights(one: TileId, xy: np.ndarray) -> np.ndarray:
    if not has_solids(one.cls):
        return np.zeros(xy.shape[:-1])
    if one.cls.startswith("slope"):
        return box_world(one).height(xy)
    own = Atlas.build([one])  # level around every sample, as its solids are (tests/terrain/test_solids.py)
    return own.height(np.round(xy, 1) + own.origins[0])


def on_terrain(run: RunFolder) -> dict[str, Rows]:
    """The episodes by ground, of the scenarios that the box world has."""
    plan, (_, policy) = restore_plan(run), load_policy(run, "confirmed")
    hz = plan.recipe.control_hz
    only = in_box_world(plan.task, plan.panel, "all")
    plant = evaluation_plant(hz, heightfield=True)
    prisms = plant.model_copy(update={"heightfield": "prisms"})
    steep = mock.patch.dict(registry.ON_CPU, {REFERENCE: SteepSurface})
    grounds: dict[str, tuple[str, Plant, AbstractContextManager[Any]]] = {
        "surface": (REFERENCE, plant, nullcontext()),
        "steep surface": (REFERENCE, plant, steep),
        "box world": (BOX_WORLD, plant, nullcontext()),
        "prisms": (REFERENCE, prisms, nullcontext()),
    }
    rows = {}
    for name, (engine, chosen, within) in grounds.items():
        with within:
            evaluator = PanelEvaluator(
                plan.task, plan.panel, "all", hz, engine=engine, plant=chosen, only=only
            )
        rows[name] = evaluator.run(policy, traces=False).rows
        evaluator.close()
        print(f"{name}: {rows[name]['success'].mean():.3f}", flush=True)
    return rows


def measure(folder: Path) -> dict[str, Any]:
    run = RunFolder.open(folder)
    rows = on_terrain(run)
    contract = run.record.contract
    pairs = (("surface", "steep surface"), ("steep surface", "box world"), ("surface", "box world"))
    return {
        "machine": {"cpu": device_name(torch.device("cpu")), "cores": cores()},
        **about(torch.device("cpu"), quick=False),
        "policy": f"{run.record.task}, seed {run.record.seeds.root}, trained on {run.record.engine}",
        "training_figures": run.record.figures,
        "panel": run.record.panel,
        "scores": {
            name: column_summary(r, contract).model_dump(mode="json", include=SCORES)
            for name, r in rows.items()
        },
        "agreement": {f"{a}, {b}": agreement(rows[a], rows[b]).model_dump(mode="json") for a, b in pairs},
        "on_level_ground": on_level_ground(Given(folder), folder),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a run of walk-rough")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    write_json(args.out, measure(args.run))


if __name__ == "__main__":
    main()
