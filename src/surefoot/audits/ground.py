"""Is the ground what its classes and levels say: tiles, the atlas that lays them out, and the box world?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.slow_ground import CELL_M, FIGURES, STEPPED, around, heights
from surefoot.contract import Panel, SurefootError
from surefoot.terrain import Atlas, TileId, box_world, has_solids, tile

QUANTUM_M = 1.6 / 4096
"""Heights are multiples of 1/4096 m; where sines differ in their last bit, of neighbouring ones."""
PLANE_M = 2e-3
"""A ramp of the box world is exact, and goes through samples that are rounded; what dips where two solids
meet is below this."""
FEW = 3
"""Tiles of each class that are looked at, by the audit's seed; those of the highest level among them."""
PLACES = 120
REACH_M = 4.9
"""Around a tile's middle an atlas has so much of it, and the box world too."""


def look(case: Case) -> list[Found]:
    """Makes some tiles of every class again, those trained on and those of the panel."""
    trained, panel = list(case.robot.task.tiles), case.robot.panel
    assert isinstance(panel, Panel)
    judged = [TileId(s.terrain.cls, s.terrain.level, s.terrain.key) for s in panel.scenarios]
    ours = {t for t in (*trained, *judged) if t.cls in FIGURES}
    if all(t.cls == "flat" for t in ours):
        raise NotApplicable("its ground is a plane")
    if "stairs_up" in {t.cls for t in judged}:  # columns move such a panel to classes of their own
        ours |= {TileId(c, 4, t.key) for c in ("curbs", "stones") for t in judged[:FEW]}
    chosen = list(_some(case, ours))
    found = list(_tiles(chosen, {t.cls for t in trained}))
    if found:
        return found
    places = case.numbers("ground").integers(-49, 50, (PLACES, 2)) * CELL_M
    return [*_atlas(case, chosen, places), *_boxes(chosen, places)]


def _some(case: Case, tiles: Iterable[TileId]) -> Iterator[TileId]:
    numbers, by_class = case.numbers("tiles"), dict[str, list[TileId]]()
    for t in sorted(tiles):
        by_class.setdefault(t.cls, []).append(t)
    for group in by_class.values():
        group.sort(key=lambda t: t.level)
        yield group[-1]
        yield from (group[i] for i in numbers.permutation(len(group) - 1)[: FEW - 1].tolist())


def _tiles(chosen: list[TileId], trained: set[str]) -> Iterator[Found]:
    """Heights of tiles, sample by sample."""
    wrong, example = Counter[str](), dict[str, str]()
    for t in chosen:
        said, right = tile(*t).astype(np.float64), heights(*t)
        if not (np.abs(said - right) <= QUANTUM_M).all():
            wrong[t.cls] += 1
            span = f"{np.ptp(said):.3f} m high in place of {np.ptp(right):.3f} m"
            example.setdefault(t.cls, f"level {t.level} key {t.key} is {span}")
    for cls, count in wrong.items():
        yield Found(
            f"Tiles of '{cls}' are not what their levels and keys say, {count} of those looked at: "
            f"{example[cls]}.",
            cause="randomisation" if cls in trained else "perturbation",
        )


def _atlas(case: Case, chosen: list[TileId], places: np.ndarray) -> Iterator[Found]:
    """An atlas shows each tile around its middle, and beyond it the other side of the same tile."""
    atlas = Atlas.build(chosen)
    for k, t in enumerate(chosen):
        origin = atlas.origins[k].astype(np.float64)
        off = np.abs(atlas.height(places + origin) - around(*t, places)) > QUANTUM_M + 1e-4
        if off.any():
            yield Found(
                f"An atlas has other heights than its tile of '{t.cls}', in {100 * off.mean():.0f}% of the "
                "places around its middle."
            )
            return
        disc = np.stack(np.meshgrid(*[np.arange(-5, 6)] * 2, indexing="ij"), -1).reshape(-1, 2)
        disc = disc[(disc**2).sum(1) <= 25] * CELL_M
        highest = float(around(*t, disc).max())
        if abs(float(atlas.spawn_height[k]) - highest) > QUANTUM_M:
            yield Found(
                f"Robots begin on '{t.cls}' as if the ground were at {atlas.spawn_height[k]:.3f} m, and "
                f"within half a metre it rises to {highest:.3f} m."
            )
            return
    yield from _laid_out(case, atlas)


def _laid_out(case: Case, own: Atlas) -> Iterator[Found]:
    """The atlas that the run trains on has every tile of its task, at a place of its own."""
    tiles = case.robot.task.tiles
    if not tiles:
        return
    atlas = case.once("atlas", case.robot.atlas)
    assert atlas is not None
    apart = np.abs(atlas.origins[:, None] - atlas.origins[None]).max(-1) + 1e9 * np.eye(len(tiles))
    if tuple(atlas.tiles) != tuple(tiles) or float(apart.min()) < 2 * REACH_M:
        yield Found("The atlas of training does not have each tile of the task at a place of its own.")
    middle = np.zeros((1, 2))
    for k, t in enumerate(tiles):
        if t.cls not in FIGURES:
            continue
        said = float(atlas.height(middle + atlas.origins[k].astype(np.float64))[0])
        if abs(said - float(around(*t, middle)[0])) > QUANTUM_M + 1e-4:
            yield Found(f"The atlas of training has another tile where '{t.cls}' of level {t.level} is.")
            return


def _boxes(chosen: list[TileId], places: np.ndarray) -> Iterator[Found]:
    """Solids of the box world are as high as the ground that they stand for; where that is level, it is as
    high half a cell around."""
    wrong, seen = Counter[str](), set[str]()
    for t in chosen:
        if t.cls in seen or t.cls == "flat" or not has_solids(t.cls):
            continue
        seen.add(t.cls)
        try:
            world = box_world(t)
        except SurefootError:
            continue
        right = around(*t, places)
        moves = [(0.0, 0.0), (0.04, 0.04), (-0.04, -0.04)] if t.cls in STEPPED else [(0.0, 0.0)]
        off = np.any([np.abs(world.height(places + m) - right) > PLANE_M for m in moves], 0)
        wrong[t.cls] += int(off.mean() > 0.02)
    for cls, count in wrong.items():
        if count:
            text = f"The box world of '{cls}' is not as high as its tiles, at the highest level of them."
            yield Found(text, cause="panel-plant")


DETECTORS = (
    Detector(
        name="ground",
        kind="proof",
        cause="randomisation",
        asks="Is the ground as high, as steep and as rough as its classes and levels say, wherever it is "
        "laid out?",
        statistic="heights of up to three tiles of each class, trained on and held out, against a slow twin "
        "of them; their atlas around every middle, over the tile's edge; the box world's tops",
        threshold="0.4 mm: heights are multiples of 1/4096 m; 2 mm in the box world, in one place of fifty",
        means="Robots stand on another ground than task and panel name.",
        remedy="Compare terrain/tiles.py with its own table of figures; draw a tile: tests/terrain.",
        look=look,
        needs=("robot",),
    ),
)
