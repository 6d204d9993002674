"""The recipes of the shipped panels of version 2, each a table that can be read.

Bodies, delays and noise are drawn as in training (`inner`); one scenario in four has one quantity from beyond
it (`outer` without `inner`). Commands, frictions, starts and pushes lie anywhere in their ranges: none is on
a grid, and no two scenarios share one.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.contract.drawn_panel import Draw, Kind, Range, Span

ROOT = 20_270_101


@dataclass(frozen=True)
class PanelRecipe:
    """A shipped panel: what it is drawn by, and from which root seed."""

    draw: Draw
    root: int


def _either(low: float, high: float) -> tuple[Range, ...]:
    """Returns both signs of a size."""
    return (-high, -low), (low, high)


def _about(reach: float) -> tuple[Range, ...]:
    return ((-reach, reach),)


FLAT = (
    Kind(name="stand", share=1),
    Kind(name="turn", share=1, wz=_either(0.3, 1.0)),
    Kind(name="sideways", share=1, vy=_either(0.2, 0.5), wz=_about(0.5)),
    Kind(name="forward", share=4, vx=((0.2, 1.0),), vy=_about(0.5), wz=_about(1.0)),
    Kind(name="backward", share=3, vx=((-1.0, -0.2),), vy=_about(0.5), wz=_about(1.0)),
)
"""A robot of four legs on level ground: one scenario in ten is to stand, 32 of 320: who never
moves passes no more than that."""
ROUGH = (
    Kind(name="stand", share=1),
    Kind(name="turn", share=1, wz=_either(0.3, 0.8)),
    Kind(name="sideways", share=1, vy=_either(0.2, 0.4), wz=_about(0.4)),
    Kind(name="forward", share=11, vx=((0.3, 0.8),), vy=_about(0.3), wz=_about(0.6)),
    Kind(name="backward", share=2, vx=((-0.6, -0.3),), vy=_about(0.2), wz=_about(0.4)),
)
"""Terrain is mostly crossed forwards; one scenario in sixteen is to stand, 40 of 640."""
BIPED = (
    Kind(name="stand", share=1),
    Kind(name="turn", share=1, wz=_either(0.42, 0.7)),
    Kind(name="sideways", share=1, vy=_either(0.21, 0.25), wz=_about(0.35)),
    Kind(name="forward", share=4, vx=((0.21, 0.6),), vy=_about(0.25), wz=_about(0.7)),
    Kind(name="backward", share=3, vx=((-0.4, -0.21),), vy=_about(0.25), wz=_about(0.7)),
)
"""Slower, and yet too fast to be met by standing still."""

# Names and not imports: a frozen panel must not follow a list that grows.
CLASSES = (
    "flat", "rough", "slope_up", "slope_down", "stairs_up", "stairs_down", "boxes", "wave", "curbs", "stones",
)  # fmt: skip

SPANS = {
    "friction": Span(inner=(0.4, 1.2), outer=(0.35, 1.3)),
    "payload": Span(inner=(-1.0, 1.0), outer=(-1.5, 1.5)),
    "com": Span(inner=(-0.02, 0.02), outer=(-0.03, 0.03)),
    "strength": Span(inner=(0.9, 1.1), outer=(0.85, 1.15)),
    "gains": Span(inner=(0.9, 1.1), outer=(0.8, 1.2)),
    "delay": Span(inner=(0.0, 0.02), outer=(0.0, 0.03)),
    "noise": Span(inner=(0.8, 1.2), outer=(0.8, 1.6)),
    "push": Span(inner=(0.3, 0.8), outer=(0.3, 1.0)),
}
GENTLE = {"push": Span(inner=(0.3, 0.6), outer=(0.3, 0.6))}
"""On terrain nobody is pushed as hard as in training: the ground does its part."""
HEAVY = {
    "payload": Span(inner=(-5.0, 5.0), outer=(-7.5, 7.5)),
    "com": Span(inner=(-0.04, 0.04), outer=(-0.06, 0.06)),
}
LIGHT = {
    "payload": Span(inner=(-0.25, 0.25), outer=(-0.35, 0.35)),
    "com": Span(inner=(-0.01, 0.01), outer=(-0.015, 0.015)),
    "push": Span(inner=(0.2, 0.4), outer=(0.2, 0.5)),
}


def _flat(kinds: tuple[Kind, ...], spans: dict[str, Span], pose: Range, velocity: Range) -> Draw:
    """Rounds of 40: ten kinds, each four times, one of them beyond training."""
    return Draw(
        kinds=kinds,
        grounds=("flat",) * 4,
        spans=spans,
        pose=pose,
        velocity=velocity,
        selection=80,
        confirmation=320,
        perturbed=160,
    )


def _rough(levels: tuple[int, ...], spans: dict[str, Span]) -> Draw:
    """Rounds of 160: sixteen kinds on ten classes; 64 scenarios a class in four rounds."""
    return Draw(
        kinds=ROUGH,
        grounds=CLASSES,
        levels=levels,
        spans=spans,
        pose=(-0.1, 0.1),
        velocity=(-0.3, 0.3),
        selection=160,
        confirmation=640,
        perturbed=320,
    )


RECIPES: dict[str, PanelRecipe] = {
    "walk-flat-v2": PanelRecipe(_flat(FLAT, SPANS, (-0.1, 0.1), (-0.3, 0.3)), ROOT),
    "walk-rough-v2": PanelRecipe(_rough((2, 3, 4, 5, 6), SPANS | GENTLE), ROOT + 1),
    "walk-anymal-flat-v2": PanelRecipe(_flat(FLAT, SPANS | HEAVY, (-0.1, 0.1), (-0.3, 0.3)), ROOT + 2),
    "walk-anymal-rough-v2": PanelRecipe(_rough((4, 5, 6, 7, 8), SPANS | HEAVY | GENTLE), ROOT + 3),
    "walk-biped-flat-v2": PanelRecipe(_flat(BIPED, SPANS | LIGHT, (-0.05, 0.05), (-0.1, 0.1)), ROOT + 4),
}
