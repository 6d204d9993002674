"""Terrain: periodic tiles by class and level, and the atlas that lays them out for every engine.

`HeightField` (torch) is loaded on first use, so that panels can be made and hashed without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surefoot.terrain.atlas import MARGIN_M, Atlas, mujoco_hfield, wrap
from surefoot.terrain.solids import BoxWorld, box_world, has_solids
from surefoot.terrain.tiles import (
    HELD_OUT,
    LEVELS,
    RESOLUTION_M,
    SAMPLES,
    SIZE_M,
    TRAINED,
    Figure,
    TerrainClass,
    TileId,
    class_digest,
    generators,
    heights_digest,
    level_table,
    tile,
)

if TYPE_CHECKING:
    from surefoot.terrain.field import HeightField

__all__ = [
    "HELD_OUT",
    "LEVELS",
    "MARGIN_M",
    "RESOLUTION_M",
    "SAMPLES",
    "SIZE_M",
    "TRAINED",
    "Atlas",
    "BoxWorld",
    "Figure",
    "HeightField",
    "TerrainClass",
    "TileId",
    "box_world",
    "class_digest",
    "generators",
    "has_solids",
    "heights_digest",
    "level_table",
    "mujoco_hfield",
    "tile",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name == "HeightField":
        from surefoot.terrain.field import HeightField

        return HeightField
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
