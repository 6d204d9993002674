"""Native MuJoCo in a box world: the same robots, solver and plant, MuJoCo's own contacts and no heightfield.

On heightfields native MuJoCo uses Surefoot's contact function (`surface`), which has stride's rule: it can
confirm stride's solver there, not that rule. Here the ground is a plane with boxes and convex meshes
(`terrain.box_world`), and every contact is MuJoCo's. That is another geometry with the same figures: risers
are vertical. Classes without an exact form are refused when a robot is put on one.

Every tile is a model of its own size, and so has data of its own; threads take environments one by one.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

from surefoot.contract import BOX_WORLD, Plant, SurefootError
from surefoot.engines.mujoco import MujocoEngine
from surefoot.engines.scene import Scene, build_scene
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas, box_world


class MujocoBoxesEngine(MujocoEngine):
    """`num_envs` robots on `threads` CPU threads, each in the box world of its tile."""

    name = BOX_WORLD

    def __init__(self, robot: RobotSpec, plant: Plant, num_envs: int, **options: Any) -> None:
        super().__init__(robot, plant, num_envs, **options)
        threads = len(self._datas)
        self._data_of = [mujoco.MjData(m) for m in self._models]
        self._compiled: dict[int, mujoco.MjModel] = {}  # by tile
        self._model_tile = [-1] * num_envs
        self._workers = ThreadPoolExecutor(threads)
        self._alone = [rollout.Rollout(nthread=0) for _ in range(threads)]  # each in its caller's thread

    def _build(self, robot: RobotSpec, plant: Plant, atlas: Atlas | None) -> Scene:
        if atlas is None:
            raise SurefootError(
                f"Engine '{self.name}' stands in for heightfields, and this ground is a plane; use 'mujoco', "
                "whose contact with a plane is MuJoCo's own."
            )
        return build_scene(robot, plant)

    def _put_on_tiles(self, atlas: Atlas, rows: np.ndarray, tiles: np.ndarray) -> None:
        self._origin[rows], self._tile[rows] = atlas.origins[tiles], tiles
        for i, k in zip(rows.tolist(), tiles.tolist(), strict=True):
            if self._model_tile[i] == k:
                continue
            if k not in self._compiled:
                world = box_world(atlas.tiles[k])
                self._compiled[k] = build_scene(self.robot, self.plant, world=world).model
            self._models[i] = copy.copy(self._compiled[k])
            self._data_of[i] = mujoco.MjData(self._models[i])
            self._model_tile[i] = k

    def _advance(self) -> None:
        for done in [self._workers.submit(self._advance_share, k) for k in range(len(self._alone))]:
            done.result()

    def _advance_share(self, k: int) -> None:
        for i in range(k, self.num_envs, len(self._alone)):
            self._alone[k].rollout(
                [self._models[i]],
                [self._data_of[i]],
                self._state[i : i + 1],
                self._control[i : i + 1],
                control_spec=self._control_spec,
                skip_checks=True,
                nstep=self.plant.decimation,
                state=self._out[i : i + 1],
                sensordata=self._sensors[i : i + 1],
            )

    def _scratch_of(self, i: int) -> mujoco.MjData:
        return self._data_of[i]

    def close(self) -> None:
        self._workers.shutdown()
        for alone in self._alone:
            alone.close()
        super().close()
