"""A drawn panel once more: its scenarios from recipe and root, one at a time, by the words of
`contract/drawn_panel`. Slow, and shared with nothing but the recipe's fields.

Strata (a slot of the kinds on a place of the grounds) are dealt in rounds, each round in an order that its
own draws shuffle; every scenario is the only member of a family of its own, even ones in the selection half
and odd ones in the other. One scenario in so many has one quantity from beyond what is trained, factors in
turn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from surefoot.audits.slow_philox import ALL, EVAL, philox
from surefoot.contract import DrawnPanel

Scenario = dict[str, Any]
Bands = list[tuple[float, float]]
QUANTITIES = {
    "friction": (1, 1),
    "payload": (2, 1),
    "com": (3, 3),
    "strength": (4, 1),
    "gains": (5, 2),
    "delay": (6, 1),
    "noise": (7, 1),
    "push": (9, 1),
}
"""Channel of each quantity, and how many numbers it has."""
COMMAND, PUSH, TERRAIN, STRATUM, SHUFFLE = 8, 9, 13, 17, 18
FIRST_KEY = 2**20


def words(root: int, family: int, member: int, episode: int, channel: int, count: int) -> list[int]:
    blocks = np.arange(-(-count // 4))
    drawn = philox((root, family), (blocks, channel + 65536 * EVAL, member, episode))
    return [int(w) for w in drawn.reshape(-1)[:count]]


def uniforms(root: int, family: int, channel: int, count: int) -> list[float]:
    return [(w >> 8) / 2**24 for w in words(root, family, 0, 0, channel, count)]


def over(bands: Bands, u: float) -> float:
    """Returns the place of `u` on bands laid end to end; 0 where there are none."""
    rest = u * sum(high - low for low, high in bands)
    for low, high in bands:
        if rest < high - low:
            return low + rest
        rest -= high - low
    return bands[-1][1] if bands else 0.0


def drawn_again(panel: DrawnPanel, half: int, count: int) -> list[Scenario]:
    """Returns the first scenarios of a half (0 selection, 1 confirmation), as numbers by name."""
    d, root = panel.draw, panel.seeds.root
    slots = [kind for kind in d.kinds for _ in range(kind.share)]
    length = len(slots) * len(d.grounds)
    outside = {
        name: [b for b in ((s.outer[0], s.inner[0]), (s.inner[1], s.outer[1])) if b[0] < b[1]]
        for name, s in d.spans.items()
    }
    turns = [name for name, bands in outside.items() if bands]
    out: list[Scenario] = []
    turn, order = 0, [0]
    for i in range(count):
        number, place = divmod(i, length)
        if place == 0:
            drawn = words(root, half, ALL, number, SHUFFLE, length)
            order = sorted(range(length), key=lambda k: (drawn[k], k))
        slot, ground = divmod(order[place], len(d.grounds))
        family = 2 * i + half
        extra, component = "", 0
        if (slot + ground + number) % d.beyond_every == 0 and turns:
            extra = turns[turn % len(turns)]
            turn += 1
            component = int(uniforms(root, family, STRATUM, 1)[0] * QUANTITIES[extra][1])
        values = {}
        for name, (channel, size) in QUANTITIES.items():
            low, high = d.spans[name].inner
            u = uniforms(root, family, channel, size)
            values[name] = [low + (high - low) * x for x in u]
            if name == extra:
                values[name][component] = over(outside[name], u[component])
        out.append(_scenario(panel, family, values, slots[slot], d.grounds[ground]))
    return out


def _scenario(
    panel: DrawnPanel, family: int, values: dict[str, list[float]], kind: Any, ground: str
) -> Scenario:
    d, root = panel.draw, panel.seeds.root
    along = uniforms(root, family, COMMAND, 3)
    _, when, direction, _ = uniforms(root, family, PUSH, 4)
    level, key = words(root, family, 0, 0, TERRAIN, 2)
    speed, angle = values["push"][0], 2 * math.pi * direction
    low, high = d.push_time_s
    return {
        "family": family,
        "command": [over(list(getattr(kind, k)), u) for k, u in zip(("vx", "vy", "wz"), along, strict=True)],
        "friction": values["friction"],
        "payload_kg": values["payload"],
        "com_m": values["com"],
        "strength": values["strength"],
        "kp_scale": values["gains"][:1],
        "kd_scale": values["gains"][1:],
        "delay_s": values["delay"],
        "noise_scale": values["noise"],
        "push": [round(low + (high - low) * when, 2), speed * math.cos(angle), speed * math.sin(angle)],
        "ground": ground,
        "level": d.levels[level % len(d.levels)],
        "key": 0 if set(d.grounds) == {"flat"} else FIRST_KEY + (key >> 4),
    }
