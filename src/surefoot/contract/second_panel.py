"""A second panel like a first: the same grid of conditions, and every draw made anew."""

from __future__ import annotations

import math

from surefoot.contract.drawn_panel import DrawnPanel
from surefoot.contract.errors import SurefootError
from surefoot.contract.panel import Half, Panel, Push, Scenario
from surefoot.contract.seeds import Channel, prove_disjoint

SECOND = "+second"
APART = 1_000_003
"""Added to the root seed; shipped panels have roots next to each other."""


def second_panel(panel: Panel, root: int | None = None, tag: str = SECOND) -> Panel:
    """Deals a second panel like `panel`, from the root seed `root` (None: its own and `APART`); `tag` is
    added to its name.

    Commands, friction and terrain stay where they are; payloads and pushes are dealt anew within their half,
    pushes in new directions, and all that is drawn by key (start, sensor noise) follows another root seed. So
    it holds what `panel` holds, in scenarios that `panel` does not have. One of version 2 is simply drawn
    again, by another root.
    """
    root = (panel.seeds.root + APART) % 2**32 if root is None else root
    if isinstance(panel, DrawnPanel):
        return panel.with_root(root, tag)
    seeds = panel.seeds.model_copy(update={"root": root})
    if not prove_disjoint(panel.seeds, seeds).disjoint:
        raise SurefootError(f"Panel {panel.name} and a second one would share draws; use another root seed.")
    made = panel.model_copy(update={"name": f"{panel.name}{tag}", "seeds": seeds})
    dealt: list[Scenario | None] = [None] * len(panel.scenarios)
    halves: tuple[Half, ...] = ("selection", "confirmation")
    for half in halves:
        numbers = panel.numbers(half)
        drawn = {i: _draws(made, panel.scenarios[i]) for i in numbers}
        order = sorted(numbers, key=lambda i: drawn[i][0])
        for i, giver in zip(numbers, order, strict=True):
            dealt[i] = _scenario(panel.scenarios[i], panel.scenarios[giver], drawn[i][1])
    return made.model_copy(update={"scenarios": tuple(s for s in dealt if s is not None)})


def _draws(panel: Panel, s: Scenario) -> tuple[float, float]:
    env = s.family * panel.seeds.envs_per_family + s.member
    place, turn = (float(u) for u in panel.seeds.uniforms(env, 0, Channel.PUSH, 4)[:2])
    return place, 2 * math.pi * turn


def _scenario(s: Scenario, giver: Scenario, angle: float) -> Scenario:
    pushes = tuple(_turned(p, angle) for p in giver.pushes)
    return s.model_copy(update={"payload_kg": giver.payload_kg, "pushes": pushes})


def _turned(p: Push, angle: float) -> Push:
    c, s = math.cos(angle), math.sin(angle)
    turned = {
        "vx_mps": round(c * p.vx_mps - s * p.vy_mps, 4),
        "vy_mps": round(s * p.vx_mps + c * p.vy_mps, 4),
    }
    return p.model_copy(update=turned)
