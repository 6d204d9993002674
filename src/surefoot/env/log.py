"""The log of episodes: those that ended, those that began, states that engines failed from, and where on
the terrain environments stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from surefoot.engines import Parameters
from surefoot.env.base import EpisodeStats
from surefoot.env.scenarios import Script
from surefoot.terrain import TileId


class EpisodeLog:
    """Columns of numbers, collected until somebody takes them."""

    def __init__(
        self, reward_names: Sequence[str], strata: int, tiles: Sequence[TileId], levels: int
    ) -> None:
        self._reward_names, self._tiles, self._levels = reward_names, tiles, levels
        self.reset_counts = np.zeros(strata, np.int64)
        """[strata] episodes begun, by the stratum of their first step."""
        self.ended: list[dict[str, np.ndarray]] = []
        """Finished episodes, one dict of columns per step that had any."""
        self.failures: list[dict[str, np.ndarray]] = []
        """States that engines failed from, for replay."""

    def clear(self) -> None:
        """Forgets everything."""
        self.reset_counts[:] = 0
        self.ended, self.failures = [], []

    def add_begun(self, script: Script) -> None:
        """Counts episodes that begin, one for each row of `script`."""
        first = script.stratum[:, 0].cpu().numpy()
        self.reset_counts += np.bincount(first, minlength=len(self.reset_counts))

    def add_ended(
        self,
        script: Script,
        parameters: Parameters,
        *,
        steps: Tensor,
        reason: Tensor,
        returns: Tensor,
        progress: Tensor,
    ) -> None:
        """Adds episodes that ended, one for each row of all arguments; `returns` [M, R] are by reward term,
        `progress` [M, 2] is for `crossed`."""
        columns = {
            "family": script.family,
            "member": script.member,
            "episode": script.episode,
            "stratum": script.stratum[:, 0],
            "level": script.level,
            "steps": steps,
            "reason": reason,
            "friction": parameters.friction,
            "payload_kg": parameters.payload_kg,
            "delay_s": parameters.delay_s,
            "return": returns.sum(1),
        }
        columns |= {f"return.{n}": returns[:, i] for i, n in enumerate(self._reward_names)}
        out = {k: v.cpu().numpy() for k, v in columns.items()}
        if self._tiles:
            out |= self.crossed(script.tile.cpu().numpy(), progress.cpu().numpy())
        self.ended.append(out)

    def crossed(self, tile: np.ndarray, progress: np.ndarray) -> dict[str, np.ndarray]:
        """Returns columns of episodes that ended on terrain: where, and how far of what was commanded."""
        return {
            "terrain": np.array([self._tiles[k].cls for k in tile]),
            "tile": tile,
            "walked_m": progress[:, 0],
            "commanded_m": progress[:, 1],
        }

    def take_ended(self) -> list[dict[str, np.ndarray]]:
        """Returns the episodes that ended since this was last called."""
        ended, self.ended = self.ended, []
        return ended

    def take_reset_counts(self) -> np.ndarray:
        """Returns [strata], the episodes that began since this was last called."""
        counts = self.reset_counts.copy()
        self.reset_counts[:] = 0
        return counts

    def take(self, occupancy: Tensor | None) -> EpisodeStats:
        """Returns all that was collected, with `occupancy` [tiles] of the terrain where there is one."""
        failures, self.failures = self.failures, []
        by_class = {} if occupancy is None else self.by_class(occupancy)
        return EpisodeStats(self.take_ended(), failures, self.take_reset_counts(), by_class)

    # ---- terrain

    def occupancy(self, tile: Tensor) -> Tensor:
        """Returns [tiles], how many environments are on each, for environments on `tile` [N]."""
        return (tile[:, None] == torch.arange(len(self._tiles), device=tile.device)).sum(0)

    def by_class(self, occupancy: Tensor) -> dict[str, np.ndarray]:
        """Returns `occupancy` [tiles] by terrain class, [levels] each."""
        out: dict[str, np.ndarray] = {}
        for t, count in zip(self._tiles, occupancy.tolist(), strict=True):
            out.setdefault(t.cls, np.zeros(self._levels, np.int64))[t.level] += count
        return out
