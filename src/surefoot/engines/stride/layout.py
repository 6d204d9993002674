"""The description as tables: chains padded to one depth, contact points sorted into slots that all chains
share.

Chains of unequal depth are padded with links without mass, whose joints have armature 1 and nothing that
drives them: they stay where they are. Points of the trunk are dealt to the chains, because a lane has time
for them there; a chain that has fewer points of a kind than others gets points that never touch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from surefoot.compiler import Expr, Group, Program
from surefoot.engines.stride.constraints import SpringFigures
from surefoot.engines.stride.description import UNLIMITED, Description, Link, Point, Spring
from surefoot.engines.stride.dynamics import LinkFigures
from surefoot.engines.stride.heightfield import MAX_RADIUS_M
from surefoot.engines.stride.refusals import cannot
from surefoot.engines.stride.spatial import Mat3, Vec3, unpack

NO_SPRING = Spring(1.0, 1.0, 0.9, 0.95, 0.001, 0.5, 2)
PADDING = Link(
    name="",
    dof=-1,
    qpos=-1,
    rotation=np.eye(3),
    anchor=np.zeros(3),
    mass=0.0,
    com=np.zeros(3),
    inertia=np.zeros((3, 3)),
    zero=0.0,
    armature=1.0,
    damping=0.0,
    stiffness=0.0,
    spring_zero=0.0,
    frictionloss=0.0,
    low=-UNLIMITED,
    high=UNLIMITED,
    limit=NO_SPRING,
    friction=NO_SPRING,
    kp=0.0,
    kd=0.0,
    torque_low=-UNLIMITED,
    torque_high=UNLIMITED,
)


MAX_HOT = 2
"""Points of a foot that are worked out one by one; a foot with more is worked out in a loop."""


@dataclass(frozen=True)
class Spot:
    """Contact points that are worked out together: points[i][k] is the i-th of chain k, or None.

    Feet touch all the time: each of their points is a hot spot, one without a group, whose figures are
    variables of the chain and which takes part in every computation. All other points touch rarely. They have
    slots, and those that touch become items of their chain's list.
    """

    level: int
    foot: int  # position among the chain's feet, or -1
    points: list[list[Point | None]]
    group: Group | None
    number: int
    """Distinguishes spots."""
    repeats: bool = False
    """Whether its points are a hot spot's, which touch the ground a second time."""
    second: int = -1
    """The slot for the second contact of the first point, if there may be one. In a group each of its points
    then stands twice: the slots from here on are for touching a second time."""

    @property
    def hot(self) -> bool:
        return self.group is None

    @property
    def asked(self) -> Group | None:
        """Slots of points that ask for the ground: those of first contacts."""
        if self.group is None or self.second < 0:
            return self.group
        return Group(self.group.start, self.second)

    @property
    def bodies(self) -> list[list[int]]:
        """[i][k] the body of each point; one that does not exist has some other's."""
        some = next(x for row in self.points for x in row if x is not None)
        return [[(some if x is None else x).body for x in row] for row in self.points]


@dataclass(frozen=True)
class Layout:
    """Chains of one depth, groups of slots, feet by chain."""

    description: Description
    heightfield: bool
    links: list[list[Link]]  # [depth][K]
    spots: list[Spot]
    feet: list[list[int]]  # [f][K] index in description.feet, or -1
    foot_levels: list[int]  # of feet[f]

    @property
    def chains(self) -> int:
        return len(self.links[0])

    @property
    def depth(self) -> int:
        return len(self.links)

    @property
    def slot_count(self) -> int:
        return max((s.group.stop for s in self.spots if s.group), default=0)


def lay_out(d: Description, heightfield: bool, hot: bool = True) -> Layout:
    """`hot`: whether feet are. Without, there is one code for all contacts: less to fetch, more to load."""
    count = len(d.chains)
    if any(foot.chain < 0 for foot in d.feet):
        raise cannot("a foot on the trunk", "name a geom of a leg")
    rows: dict[tuple[int, int], list[int]] = {}  # (level, how many of the chain's feet are there already)
    for i, foot in enumerate(d.feet):
        nth = sum(f.chain == foot.chain and f.level == foot.level for f in d.feet[:i])
        rows.setdefault((foot.level, nth), [-1] * count)[foot.chain] = i
    feet = [row for _, row in sorted(rows.items())]
    levels = [level for level, _ in sorted(rows)]
    widest = max((p.radius for p in d.points), default=0.0)
    if heightfield and widest > MAX_RADIUS_M:
        raise cannot(
            f"a sphere or capsule of radius {widest:g} m on a heightfield",
            f"use smaller ones, of at most {MAX_RADIUS_M} m",
        )
    links = [_row([c[i] if i < len(c) else None for c in d.chains]) for i in range(d.depth)]
    spots = _spots(d, heightfield, feet, hot)
    for spot in spots:
        there = [x.spring for row in spot.points for x in row if x is not None]
        one_power("contacts with the ground", there)
    return Layout(d, heightfield, links, spots, feet, levels)


def _row(links: Sequence[Link | None]) -> list[Link]:
    """Links of one depth, padded where a chain has none there."""
    there = [x for x in links if x is not None]
    limit, friction = (
        replace(NO_SPRING, power=one_power(f"{what} of {there[0].name} and its like", springs))
        for what, springs in (
            ("limits", [x.limit for x in there]),
            ("dry friction", [x.friction for x in there]),
        )
    )
    return [replace(PADDING, limit=limit, friction=friction) if x is None else x for x in links]


def one_power(what: str, springs: Sequence[Spring]) -> int:
    powers = {s.power for s in springs}
    if len(powers) > 1:
        raise cannot(f"several solimp powers in {what}", "make them equal")
    return powers.pop() if powers else NO_SPRING.power


def stack(layouts: Sequence[Layout]) -> Layout:
    """Robots of one shape as one, for the numpy backend: every number of links, points and feet becomes an
    array whose last axis is the robots. Time step, gravity and impratio are of the program and must be
    equal."""
    descriptions = [x.description for x in layouts]
    for name in ("timestep", "gravity", "impratio"):
        if len({np.asarray(getattr(d, name)).tobytes() for d in descriptions}) > 1:
            raise ValueError(f"robots that are stacked have one {name}")
    strictest = min(d.tolerance_scale for d in descriptions)
    description = replace(
        descriptions[0], feet=_stacked([d.feet for d in descriptions]), tolerance_scale=strictest
    )
    links, spots = (_stacked([getattr(x, name) for x in layouts]) for name in ("links", "spots"))
    return replace(layouts[0], description=description, links=links, spots=spots)


def _stacked(values: Sequence[Any]) -> Any:
    first = values[0]
    if is_dataclass(first):
        return replace(
            first, **{f.name: _stacked([getattr(v, f.name) for v in values]) for f in fields(first)}
        )  # type: ignore[type-var]
    if isinstance(first, list | tuple):
        return type(first)(_stacked(part) for part in zip(*values, strict=True))
    if isinstance(first, float | np.ndarray):
        return np.stack(values, axis=-1)
    if any(v != first for v in values):
        raise ValueError(f"robots that are stacked have one shape, not {sorted(set(values))}")
    return first


def _spots(d: Description, heightfield: bool, feet: list[list[int]], hot_feet: bool) -> list[Spot]:
    kinds: dict[tuple[int, int, bool], list[list[Point]]] = defaultdict(lambda: [[] for _ in d.chains])
    dealt = 0
    for p in d.points:
        chain = p.chain
        if chain < 0:
            chain, dealt = dealt % len(d.chains), dealt + 1
        foot = next((f for f, row in enumerate(feet) if p.foot >= 0 and p.foot in row), -1)
        kinds[p.level, foot, p.radius > 0][chain].append(p)
    out: list[Spot] = []
    slots = 0
    for (level, foot, round_), by_chain in sorted(kinds.items()):
        n = max(map(len, by_chain))
        points = [[c[i] if i < len(c) else None for c in by_chain] for i in range(n)]
        hot, twice = hot_feet and foot >= 0 and n <= MAX_HOT, heightfield and round_
        first = slots
        slots += (0 if hot else n) + (n if twice else 0)
        second = slots - n if twice else -1
        if hot:
            out += [
                Spot(level, foot, [row], None, len(out) + i, second=second + i if twice else -1)
                for i, row in enumerate(points)
            ]
            if twice:
                out.append(Spot(level, foot, points, Group(second, slots), len(out), repeats=True))
        else:
            rows = points + points if twice else points
            out.append(Spot(level, foot, rows, Group(first, slots), len(out), second=second))
    return out


def link_figures(p: Program, i: int, row: list[Link]) -> LinkFigures:
    def number(name: str, get: object) -> Expr:
        return p.param(f"{name}{i}", [get(x) for x in row])  # type: ignore[operator]

    def entries(name: str, size: int) -> list[Expr]:
        own = 2 if size == 9 else 1  # axes of a matrix or of a vector; one more where robots are stacked
        arrays = [np.asarray(getattr(x, name)) for x in row]
        flat = [a.reshape(size, *a.shape[own:]) for a in arrays]
        return [p.param(f"{name}{i}_{j}", [a[j] for a in flat]) for j in range(size)]

    turn, inertia = entries("rotation", 9), entries("inertia", 9)
    return LinkFigures(
        rotation=Mat3([turn[:3], turn[3:6], turn[6:]]),
        anchor=Vec3(*entries("anchor", 3)),
        zero=number("zero", lambda x: x.zero),
        mass=number("mass", lambda x: x.mass),
        com=Vec3(*entries("com", 3)),
        inertia=unpack([inertia[k] for k in (0, 4, 8, 1, 2, 5)]),
        armature=number("armature", lambda x: x.armature),
    )


def spring_figures(
    p: Program, name: str, springs: list[list[Spring]], group: Group | None = None
) -> SpringFigures:
    """`springs` [1][K], or [S][K] of a group."""

    def values(attribute: str) -> Expr:
        table = np.array([[getattr(s, attribute) for s in row] for row in springs])
        return p.param(f"{name}_{attribute}", table if group else table[0], group)

    names = [f.name for f in fields(SpringFigures) if f.name != "power"]
    return SpringFigures(**{n: values(n) for n in names}, power=springs[0][0].power)
