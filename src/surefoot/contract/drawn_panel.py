"""Panels of version 2: scenarios drawn independently within strata, by key, from a short recipe.

A stratum is a kind of command on a class of ground, as trained or beyond. Strata are dealt in rounds, each of
them as often as its share, in an order that is shuffled by key for each round of each half; all else about a
scenario is drawn from its own address, (root, split, its family). So every scenario is a cluster
of its own, the halves share nothing, and a longer list begins with the shorter one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from surefoot.contract.errors import SurefootError
from surefoot.contract.model import Frozen
from surefoot.contract.panel import Half, Panel, Push, Scenario, Terrain
from surefoot.contract.seeds import EVERY_ENV, Channel, SeedPlan, words

Range = tuple[float, float]
HALVES: tuple[Literal["selection", "confirmation"], ...] = ("selection", "confirmation")
DIGITS = 9
"""Decimals that drawn figures are rounded to: two machines' cosines may differ in a later one."""
FIRST_KEY = 1 << 20
"""Keys of tiles begin here: those that training builds, and those of version 1, are smaller."""
MOST = 1 << 16
"""Scenarios of a half at most."""
CHANNELS = {
    "friction": (Channel.FRICTION, 1),
    "payload": (Channel.PAYLOAD, 1),
    "com": (Channel.COM, 3),
    "strength": (Channel.STRENGTH, 1),
    "gains": (Channel.GAINS, 2),
    "delay": (Channel.DELAY, 1),
    "noise": (Channel.NOISE_SCALE, 1),
    "push": (Channel.PUSH, 1),
}
"""What has a span: where its draws come from, and how many it takes. A push's time and direction follow its
size."""


class Kind(Frozen):
    """One kind of command: each component is drawn uniformly over its intervals, and is 0 without any."""

    name: str
    share: int
    """How many of the kinds in a round are of this one."""
    vx: tuple[Range, ...] = ()
    vy: tuple[Range, ...] = ()
    wz: tuple[Range, ...] = ()


class Span(Frozen):
    """What a quantity is drawn from: `inner` as trained, and in scenarios beyond training, where the quantity
    is the one that was chosen, `outer` without `inner`."""

    inner: Range
    outer: Range

    @property
    def bands(self) -> tuple[Range, ...]:
        """Returns what lies in `outer` and not in `inner`."""
        (a, b), (low, high) = self.inner, self.outer
        return tuple(band for band in ((low, a), (b, high)) if band[0] < band[1])


class Draw(Frozen):
    """The recipe that a panel's scenarios are drawn by."""

    kinds: tuple[Kind, ...]
    grounds: tuple[str, ...]
    """Classes of terrain; one that is named n times has n of the places in a round."""
    levels: tuple[int, ...] = (0,)
    spans: dict[str, Span]
    """By factor: friction, payload, com, strength, gains, delay, noise, push."""
    pose: Range
    velocity: Range
    """Joints about the default pose, and the trunk's velocities, at the start; drawn as in training."""
    push_time_s: Range = (3.0, 6.0)
    episode_s: float = 10.0
    beyond_every: int = 4
    """One scenario in so many has one quantity from beyond training."""
    selection: int
    """Scenarios of the selection half."""
    confirmation: int
    """Scenarios of the confirmation half, unless more are asked for."""
    perturbed: int
    """Scenarios at the beginning of a half that perturbed columns play; the nominal one plays all."""

    def model_post_init(self, _: object) -> None:
        counts = (*(k.share for k in self.kinds), self.beyond_every, self.selection, self.confirmation)
        if not self.kinds or not self.grounds or not self.levels or min(counts) < 1 or self.perturbed < 0:
            raise SurefootError("A draw needs kinds, grounds and levels, and counts of 1 or more.")
        missing = [name for name in CHANNELS if name not in self.spans]
        if missing or len(self.spans) != len(CHANNELS):
            raise SurefootError(f"A draw has spans of exactly {', '.join(CHANNELS)}.")

    @property
    def slots(self) -> tuple[Kind, ...]:
        """Returns the kinds, each as often as its share."""
        return tuple(k for k in self.kinds for _ in range(k.share))

    @property
    def round(self) -> int:
        """Returns the scenarios after which every stratum has come up in its share."""
        return len(self.slots) * len(self.grounds)

    @property
    def ranges(self) -> dict[str, Range]:
        """Returns what panels drawn by this can have, by factor of a contract."""
        axes = {axis: self._reach(axis) for axis in ("vx", "vy", "wz")}
        return {name: s.outer for name, s in self.spans.items()} | axes | {
            "pose": self.pose, "velocity": self.velocity,
        }  # fmt: skip

    def _reach(self, axis: str) -> Range:
        ends = [x for k in self.kinds for x in ((0.0, 0.0), *getattr(k, axis))]
        return min(low for low, _ in ends), max(high for _, high in ends)


class DrawnPanel(Panel):
    """A panel of version 2, with the recipe that its scenarios follow from: selection first, then
    confirmation. Every scenario is the only member of a family of its own, even ones in the selection half
    and odd ones in the other, so that either list can go on."""

    schema_version: int = 2
    draw: Draw

    @property
    def size(self) -> int:
        return len(self.scenarios)

    @property
    def ranges(self) -> dict[str, Range]:
        return self.draw.ranges

    def numbers(self, half: Half, perturbed: bool = False) -> tuple[int, ...]:
        all_of_it = super().numbers(half)
        if not perturbed:
            return all_of_it
        return tuple(k for k in all_of_it if self.scenarios[k].family // 2 < self.draw.perturbed)

    def with_scenarios(self, count: int) -> DrawnPanel:
        """Returns the panel with `count` scenarios to confirm on: its own list, cut or continued. The
        selection half is as long as its recipe says, and never longer than that."""
        if count == len(self.select("confirmation")):
            return self
        return draw_panel(_untagged(self.name), self.draw, self.seeds.root, count)

    def with_families(self, count: int) -> DrawnPanel:
        """Returns the panel with `count` scenarios in all: of the selection half at most as many as of the
        other."""
        if count < 2:
            raise SurefootError(
                f"Panel {self.name} needs a scenario in each of its two halves; use --eval-families with 2 "
                "or more, or --scenarios."
            )
        return self.with_scenarios(count - min(self.draw.selection, count // 2))

    def with_root(self, root: int, tag: str) -> DrawnPanel:
        """Returns another panel of the same recipe and length, drawn by another root seed; `tag` is added to
        its name."""
        name, count = _untagged(self.name) + tag, len(self.select("confirmation"))
        return draw_panel(name, self.draw, root, count)


def draw_panel(name: str, draw: Draw, root: int, confirmation: int | None = None) -> DrawnPanel:
    """Draws a panel; one of another length than its recipe's says so in its name."""
    count = draw.confirmation if confirmation is None else confirmation
    if not 1 <= count <= MOST:
        raise SurefootError(
            f"Panel {name} can have 1 to {MOST} scenarios to confirm on, not {count}; use --scenarios with "
            "such a number."
        )
    sizes = (min(draw.selection, count), count)
    seeds = SeedPlan(root=root, split="eval", families=2 * max(sizes), envs=2 * max(sizes))
    drawn = tuple(s for k in range(2) for s in _scenarios(draw, seeds, k, sizes[k]))
    if count != draw.confirmation:
        name = f"{name}+{count}scenarios"
    return DrawnPanel(name=name, episode_s=draw.episode_s, seeds=seeds, scenarios=drawn, draw=draw)


def _untagged(name: str) -> str:
    return re.sub(r"\+\d+scenarios", "", name)


def _scenarios(draw: Draw, seeds: SeedPlan, half: int, count: int) -> list[Scenario]:
    """Draws the first `count` scenarios of a half (0 selection, 1 confirmation)."""
    env = 2 * np.arange(count) + half
    kind, ground, beyond = _strata(draw, seeds, half, count)

    def u(channel: Channel, size: int) -> np.ndarray:
        return seeds.uniforms(env, 0, channel, size).astype(np.float64)

    chosen = _chosen(draw, u(Channel.STRATUM, 1)[:, 0], beyond)
    body = {
        name: _spread(draw.spans[name], u(channel, size), chosen.get(name))
        for name, (channel, size) in CHANNELS.items()
    }
    when, turn = u(Channel.PUSH, 4)[:, 1:3].T
    along = u(Channel.COMMAND, 3)
    tiles = words(seeds.root, seeds.split_number, env, 0, 0, Channel.TERRAIN, 2)
    slots, out = draw.slots, []
    for i in range(count):
        x, y, z = (_rounded(v) for v in body["com"][i])
        speed, angle = body["push"][i, 0], 2 * math.pi * turn[i]
        vx, vy, wz = (
            _rounded(_over(getattr(slots[kind[i]], axis), v))
            for axis, v in zip(("vx", "vy", "wz"), along[i], strict=True)
        )
        flat = draw.grounds[ground[i]] == "flat" and len(set(draw.grounds)) == 1
        terrain = Terrain(
            cls=draw.grounds[ground[i]],
            level=draw.levels[int(tiles[i, 0]) % len(draw.levels)],
            key=0 if flat else FIRST_KEY + (int(tiles[i, 1]) >> 4),
        )
        out.append(
            Scenario(
                family=int(env[i]),
                member=0,
                half=HALVES[half],
                command=(vx, vy, wz),
                friction=_rounded(body["friction"][i, 0]),
                payload_kg=_rounded(body["payload"][i, 0]),
                com_m=(x, y, z),
                strength=_rounded(body["strength"][i, 0]),
                kp_scale=_rounded(body["gains"][i, 0]),
                kd_scale=_rounded(body["gains"][i, 1]),
                delay_s=_rounded(body["delay"][i, 0]),
                noise_scale=_rounded(body["noise"][i, 0]),
                pushes=(
                    Push(
                        time_s=round(_over((draw.push_time_s,), when[i]), 2),
                        vx_mps=_rounded(speed * math.cos(angle)),
                        vy_mps=_rounded(speed * math.sin(angle)),
                    ),
                ),
                terrain=terrain,
            )
        )
    return out


def _strata(draw: Draw, seeds: SeedPlan, half: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns [count] slot of the kind, number of the ground, and whether it lies beyond training: rounds of
    all of them, each in an order of its own. Which ones lie beyond moves on from round to round."""
    length = draw.round
    rounds = np.arange(-(-count // length))
    drawn = words(seeds.root, seeds.split_number, half, EVERY_ENV, rounds, Channel.SHUFFLE, length)
    cell = np.argsort(drawn, axis=1, kind="stable").reshape(-1)[:count]
    kind, ground = np.divmod(cell, len(draw.grounds))
    turn = np.repeat(rounds, length)[:count]
    return kind, ground, (kind + ground + turn) % draw.beyond_every == 0


def _chosen(draw: Draw, u: np.ndarray, beyond: np.ndarray) -> dict[str, np.ndarray]:
    """Returns by factor the scenarios [N] whose component (1, 2, ...) of it lies beyond training; 0: none.
    Factors take turns; where there are several components, one is drawn."""
    names = [name for name, span in draw.spans.items() if span.bands]
    if not names:
        return {}
    which = (np.cumsum(beyond) - 1) % len(names)
    return {
        name: np.where(beyond & (which == k), 1 + (u * CHANNELS[name][1]).astype(int), 0)
        for k, name in enumerate(names)
    }


def _spread(span: Span, u: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
    """Returns values [N, C] for draws [N, C]: within, but for the chosen components."""
    out = span.inner[0] + (span.inner[1] - span.inner[0]) * u
    for i in () if chosen is None else np.flatnonzero(chosen):
        at = int(chosen[i]) - 1 if chosen is not None else 0
        out[i, at] = _over(span.bands, u[i, at])
    return out


def _over(intervals: Sequence[Range], u: float) -> float:
    """Returns the place of a draw in [0, 1) on some intervals, laid end to end; 0 where there are none."""
    rest = u * sum(high - low for low, high in intervals)
    for low, high in intervals:
        if rest < high - low:
            return low + rest
        rest -= high - low
    return intervals[-1][1] if intervals else 0.0


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)
