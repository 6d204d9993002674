"""Newton's method on the primal problem, with an exact line search.

Every contact touches the trunk and links of one chain, so the Hessian M + J' C J keeps the arrow shape of M:
a contact's stiffness adds to its link like inertia does, and its composite hangs on the same axes. An
iteration eliminates each chain and solves a 6x6.

An environment is done when the decrement p' H p of the step just taken was below TOLERANCE (the error that is
left is its square, roughly), or when the step was exact: no constraint changed its zone and none slides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surefoot.engines.stride.algebra import (
    Expr,
    Mat3,
    Spatial,
    Vec3,
    absolute,
    lift,
    maximum,
    pack,
    spatial,
    total,
    unpack,
    where,
)
from surefoot.engines.stride.arrow import eliminate, pairs, solve, triangle
from surefoot.engines.stride.constraints import DryFriction, Limit, Stiffness
from surefoot.engines.stride.dynamics import motions
from surefoot.engines.stride.program import vectors

if TYPE_CHECKING:
    from surefoot.engines.stride.layout import Spot
    from surefoot.engines.stride.step import StepProgram

TOLERANCE = 1e-4
"""Of the decrement, relative to mean inertia times degrees of freedom. Ten times more saves 3 to 5% of the
iterations and leaves some robots 1e-6 to 1e-5 m off after ten control steps: where rows change their zone the
step before the last is not yet quadratic."""
ITERATIONS = 20
SEARCH_ITERATIONS = 16
SEARCH_TOLERANCE = 0.1
"""Of the slope left, relative to the decrement."""
BRACKET = ("low", "below", "high", "above", "moved")
"""Step lengths on either side of the slope's zero, the slopes there, and how far the last step moved."""
FAR = 1e6
"""No upper end yet."""


def constraint_forces(p: StepProgram) -> None:
    """Joint torques ft, wrench on the trunk cw and foot forces ff of the constraints."""
    zero = vectors("ft", [0.0] * p.depth) | vectors("cw", [0.0] * 6)
    for f in range(len(p.layout.feet)):
        zero |= vectors(f"ff{f}_", [0.0] * 3)
    stiff = total([p.of_spot(s, "D") for s in p.hot] + [d.D for d in p.dry_frictions()])
    p.let("chain", zero | {"stiff": stiff})
    p.sum(["stiff", "beyond"])
    near = {s.number: p.variable(f"near{s.number}_sum") for s in p.rare}
    rare = p.variable("beyond_sum") + total(near.values())
    alive = p.variable("stiff_sum") + rare
    p.let(
        "env",
        {
            "rare": rare,
            "touches": total(near[s.number] for s in p.rare if s.level == 0),
            "alive": alive,
            "open": where(alive > 0.0, p.variable("awake"), 0.0),
        },
    )
    with p.when_any(p.variable("open") > 0.5):
        with p.while_any(p.variable("open") > 0.5, ITERATIONS):
            _direction(p)
            _line_search(p)
        _forces(p)


# What is rare (contacts of anything but feet, joints at their limits) is left out of the straight code and
# added in branches that are seldom taken.


@contextmanager
def _rarely(p: StepProgram, name: str, base: list[Expr], joints: list[Expr]) -> Iterator[None]:
    """With the motions of the links that only rare contacts need."""
    with p.when_any(p.variable("rare") > 0.5):
        _motions(p, name, base, joints, {s.level for s in p.rare} - {s.level for s in p.hot})
        yield


@contextmanager
def _near(p: StepProgram, spots: list[Spot]) -> Iterator[None]:
    with p.when_any(total(p.variable(f"near{s.number}_sum") for s in spots) > 0.5):
        yield


@contextmanager
def _beyond(p: StepProgram) -> Iterator[None]:
    with p.when_any(p.variable("beyond_sum") > 0.5):
        yield


def _add_rare(p: StepProgram, spot: Spot, sums: dict[str, Expr]) -> None:
    """Only where something is near: elsewhere the slots hold figures of earlier steps."""
    with _near(p, [spot]):
        p.let("slot", sums, group=spot.group, when=p.contact(spot).D > 0.0, add=True)


def _rare_levels(p: StepProgram) -> dict[int, list[Spot]]:
    out: dict[int, list[Spot]] = {}
    for s in p.rare:
        out.setdefault(s.level, []).append(s)
    return out


def _motions(p: StepProgram, name: str, base: list[Expr], joints: list[Expr], levels: Iterable[int]) -> None:
    """Accelerations of links (name la), or their changes along the direction (ld)."""
    found = motions(p.frames(), spatial(base), joints)
    out: dict[str, Expr] = {}
    for level in sorted(levels):
        if level:
            out |= vectors(f"{name}{level}_", found[level].flat())
    if out:
        p.let("chain", out)


def _residual(p: StepProgram, spot: Spot) -> Vec3:
    """Of a contact. Computed wherever it is needed: keeping it costs more registers than it saves work."""
    return p.level_motion("la", spot.level).at(p.contact_point(spot)) - p.vector_of(spot, "aref")


def _along(p: StepProgram, spot: Spot) -> Vec3:
    """How a contact's residual changes along the search direction."""
    return p.level_motion("ld", spot.level).at(p.contact_point(spot))


def _direction(p: StepProgram) -> None:
    """The Newton step `d` (trunk) and `qp` (joints), and its decrement."""
    n, M, F = p.depth, p.mass_rows(), p.couplings()
    acc, qa = p.base_acceleration(), p.joints("qa")
    levels = {s.level for s in p.hot}
    _motions(p, "la", acc.flat(), qa, levels)
    full = [[M[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)]
    gradient = [
        total(full[i][j] * qa[j] for j in range(n)) + F[i].dot(acc) - p.variable(f"tau{i}", "chain")
        for i in range(n)
    ]
    momentum = [total(qa[i] * F[i].flat()[k] for i in range(n)) for k in range(6)]
    curvature: list[Expr] = [lift(0.0)] * n
    for i, friction in enumerate(p.dry_frictions()):
        gradient[i] = gradient[i] + friction.gradient(qa[i])
        curvature[i] = curvature[i] + friction.curvature(qa[i])
    out = vectors("H", [M[i][j] + (curvature[i] if i == j else 0.0) for i, j in pairs(n)])
    for i in range(n):
        out |= vectors(f"G{i}_", F[i].flat())
    out |= vectors("grad", gradient) | vectors("rm", [lift(0.0)] * 21) | vectors("rg", momentum)
    for level in sorted(levels):
        found = [_stiffness_of(p, s) for s in p.hot if s.level == level]
        parts = [total(x) for x in zip(*found, strict=True)]
        for name, extra in _hung(p, level, parts[:21], spatial(parts[21:])).items():
            out[name] = out[name] + extra
    p.let("chain", out)
    with _rarely(p, "la", acc.flat(), qa):
        for level, spots in _rare_levels(p).items():
            with _near(p, spots):
                p.let("chain", vectors("K", [0.0] * 21) | vectors("w", [0.0] * 6))
                for s in spots:
                    parts = _stiffness_of(p, s)
                    sums = vectors("K", parts[:21]) | vectors("w", parts[21:])
                    _add_rare(p, s, sums)
                p.let("chain", _hung(p, level, p.variables_of("K", 21, "chain"), p.six("w")), add=True)
        if p.limited:
            with _beyond(p):
                rows = p.limits()
                hard = {f"H{i * (i + 3) // 2}": row.curvature(qa[i]) for i, row in enumerate(rows)}
                pull = {f"grad{i}": row.gradient(qa[i]) for i, row in enumerate(rows)}
                p.let("chain", hard | pull, add=True)
    H = triangle(p.variables_of("H", n * (n + 1) // 2, "chain"), n)
    e = eliminate(H, [p.six(f"G{i}_") for i in range(n)], p.variables_of("grad", n, "chain"))
    matrix, reduced, decrement = e.reduction()
    rm, rg = p.variables_of("rm", 21, "chain"), p.variables_of("rg", 6, "chain")
    p.let(
        "chain",
        e.flat()
        | vectors("rm", [a - b for a, b in zip(rm, matrix, strict=True)])
        | vectors("rg", [a - b for a, b in zip(rg, reduced, strict=True)])
        | {"dec": decrement},
    )
    p.sum([f"rm{i}" for i in range(21)] + [f"rg{i}" for i in range(6)] + ["dec"])
    # The trunk's own gradient: composite inertia times acceleration, bias.
    base = p.base_rows([lift(0.0)] * 21)
    a = acc.flat()
    inertial = [total(base[max(i, j)][min(i, j)] * a[j] for j in range(6)) for i in range(6)]
    g = [
        x + y + p.variable(f"rg{i}_sum")
        for i, (x, y) in enumerate(zip(inertial, p.base_bias().flat(), strict=True))
    ]
    d = solve(p.base_rows([p.variable(f"rm{i}_sum") for i in range(21)]), g)
    decrement = p.variable("dec_sum") - d.dot(spatial(g))
    p.let("env", vectors("d", d.flat()) | {"php": decrement})
    p.let("chain", vectors("qp", p.eliminated().back(p.env("d", 6))))
    _motions(p, "ld", p.env("d", 6), p.joints("qp"), levels)


def _stiffness_of(p: StepProgram, spot: Spot) -> list[Expr]:
    """Hessian (21 numbers) and gradient (6) of contacts, as motions of the trunk's origin see them."""
    point = p.contact_point(spot)
    force, C = p.contact(spot).force_and_hessian(_residual(p, spot))
    K = Stiffness.of_contact(C, point)
    return [*pack(K.linear), *K.mixed.flat(), *pack(K.angular), *(-force), *(-point.cross(force))]


def _hung(p: StepProgram, level: int, k: list[Expr], w: Spatial) -> dict[str, Expr]:
    """What a stiffness `k` and gradient `w` on a link add to the trunk, the chain and their coupling."""
    linear, angular = unpack(k[:6]), unpack(k[15:])
    mixed = Mat3([k[6:9], k[9:12], k[12:15]])

    def entry(i: int, j: int) -> Expr:
        return linear[i][j] if i < 3 else mixed[j][i - 3] if j < 3 else angular[i - 3][j - 3]

    out = vectors("rm", [entry(i, j) for i, j in pairs(6)]) | vectors("rg", w.flat())
    axes = [frame.axis for frame in p.frames()[:level]]
    pushed = [
        Spatial(linear @ s.linear + mixed @ s.angular, mixed.T @ s.linear + angular @ s.angular) for s in axes
    ]
    for i in range(level):
        out |= vectors(f"G{i}_", pushed[i].flat())
        out |= {f"H{i * (i + 1) // 2 + j}": axes[j].dot(pushed[i]) for j in range(i + 1)}
        out[f"grad{i}"] = axes[i].dot(w)
    return out


LINE = ("y1", "y2", "z1", "z2", "changed")
"""Slope and curvature of the rows at 0 (y) and at 1 (z), and whether any leaves its zone or slides."""


def _line_search(p: StepProgram) -> None:
    """The step length at which the cost's slope along the direction vanishes, and the step.

    The smooth part is a parabola whose slope and curvature follow from the decrement; the rows are evaluated.
    A full step is tried first, together with the slope at 0.
    """

    def both(spot: Spot) -> list[Expr]:
        contact, jar, jv = p.contact(spot), _residual(p, spot), _along(p, spot)
        a0, b0, zone0 = contact.along(jar, jv, 0.0)
        a1, b1, zone1 = contact.along(jar, jv, 1.0)
        return [a0, b0, a1, b1, where((zone1 > 1.5) | (absolute(zone1 - zone0) > 0.5), 1.0, 0.0)]

    _rows(p, LINE, both, [lift(0.0), lift(1.0)], "ld")
    php, one = p.variable("php"), lift(1.0)
    slope0, bend0 = -php - p.variable("y1_sum"), php - p.variable("y2_sum")
    p.let("env", {"slope0": slope0, "bend0": bend0})
    start = {"low": lift(0.0), "below": -php, "high": lift(FAR), "above": lift(0.0), "moved": one}
    found = _next_step(p, one, start)
    searching = where((p.variable("open") > 0.5) & ~found["done"], 1.0, 0.0)
    exact = where(found["done"] & (p.variable("changed_sum") < 0.5), 1.0, 0.0)
    p.let("env", {k: found[k] for k in ("step", *BRACKET)} | {"searching": searching, "exact": exact})
    with p.while_any(p.variable("searching") > 0.5, SEARCH_ITERATIONS):
        step = p.variable("step")

        def there(spot: Spot, step: Expr = step) -> list[Expr]:
            return list(p.contact(spot).along(_residual(p, spot), _along(p, spot), step)[:2])

        _rows(p, LINE[2:4], there, [step])
        found = _next_step(p, step, {k: p.variable(k) for k in BRACKET})
        on = p.variable("searching") > 0.5
        kept = {k: where(on, found[k], p.variable(k)) for k in ("step", *BRACKET)}
        p.let("env", kept | {"searching": where(on & ~found["done"], 1.0, 0.0)})
    on, step = p.variable("open") > 0.5, p.variable("step")
    tolerance = TOLERANCE * p.d.tolerance_scale
    finished = (php <= tolerance) | (p.variable("exact") > 0.5)
    p.let(
        "chain",
        {
            f"qa{i}": where(on, a + step * b, a)
            for i, (a, b) in enumerate(zip(p.joints("qa"), p.joints("qp"), strict=True))
        },
    )
    p.let(
        "env",
        {
            f"acc{i}": where(on, a + step * b, a)
            for i, (a, b) in enumerate(zip(p.env("acc", 6), p.env("d", 6), strict=True))
        }
        | {
            "open": where(on & ~finished, 1.0, 0.0),
            "iterations": p.variable("iterations") + where(on, 1.0, 0.0),
        },
    )


def _rows(
    p: StepProgram,
    names: Sequence[str],
    of_contact: Callable[[Spot], list[Expr]],
    steps: list[Expr],
    motions_of: str = "",
) -> None:
    """Sums over all rows: `of_contact` gives a contact's part, `steps` are where joints are evaluated."""
    of_spots = [of_contact(s) for s in p.hot]
    of_joints = _joint_rows(p, p.dry_frictions(), steps)[: len(names)]
    p.let("chain", dict(zip(names, map(total, zip(*of_spots, of_joints, strict=True)), strict=True)))
    with p.when_any(p.variable("rare") > 0.5):
        if motions_of:
            levels = {s.level for s in p.rare} - {s.level for s in p.hot}
            _motions(p, motions_of, p.env("d", 6), p.joints("qp"), levels)
        for spot in p.rare:
            parts = dict(zip(names, of_contact(spot), strict=True))
            _add_rare(p, spot, parts)
        if p.limited:
            with _beyond(p):
                limits = _joint_rows(p, p.limits(), steps)[: len(names)]
                p.let("chain", dict(zip(names, limits, strict=True)), add=True)
    p.sum(names)


def _joint_rows(p: StepProgram, rows: Sequence[Limit | DryFriction], steps: list[Expr]) -> list[Expr]:
    """Slope and curvature at each of `steps`, and how many rows change their zone between them."""
    out = [lift(0.0)] * (2 * len(steps))
    changed = lift(0.0)
    for row, qa, qp in zip(rows, p.joints("qa"), p.joints("qp"), strict=bool(rows)):
        at = [qa + s * qp for s in steps]
        for k, a in enumerate(at):
            out[2 * k] = out[2 * k] + row.gradient(a) * qp
            out[2 * k + 1] = out[2 * k + 1] + row.curvature(a) * qp * qp
        changed = changed + absolute(row.zone(at[-1]) - row.zone(at[0]))
    return [*out, changed]


def _next_step(p: StepProgram, step: Expr, bracket: dict[str, Expr]) -> dict[str, Expr]:
    """Newton on the slope while its steps shrink inside the bracket, else between secant and middle.

    The slope has kinks where rows change zone, at which Newton alone jumps to and fro.
    """
    php = p.variable("php")
    slope = p.variable("slope0") + step * p.variable("bend0") + p.variable("z1_sum")
    bend = p.variable("bend0") + p.variable("z2_sum")
    done = absolute(slope) <= SEARCH_TOLERANCE * php + 3e-8 * p.d.tolerance_scale
    rising = slope >= 0.0
    low, below = where(rising, bracket["low"], step), where(rising, bracket["below"], slope)
    high, above = where(rising, step, bracket["high"]), where(rising, slope, bracket["above"])
    newton = slope / maximum(bend, 1e-9)
    inside = (step - newton > low) & (step - newton < high) & (absolute(newton) < 0.5 * bracket["moved"])
    secant = low - below * (high - low) / maximum(above - below, 1e-30)
    between = 0.5 * secant + 0.25 * (low + high)
    guess = where(inside, step - newton, where(high < FAR, between, 2.0 * low + 1.0))
    return {
        "done": done,
        "low": low,
        "below": below,
        "high": high,
        "above": above,
        "moved": absolute(guess - step),
        "step": where(done, step, guess),
    }


def _forces(p: StepProgram) -> None:
    acc, qa = p.base_acceleration(), p.joints("qa")
    levels = {s.level for s in p.hot}
    _motions(p, "la", acc.flat(), qa, levels)
    out = vectors("ft", [-row.gradient(a) for row, a in zip(p.dry_frictions(), qa, strict=False)])
    out = vectors("ft", [lift(0.0)] * p.depth) | out | vectors("cw", [lift(0.0)] * 6)
    out |= {f"ff{f}_{k}": lift(0.0) for f in range(len(p.layout.feet)) for k in range(3)}
    for spot in p.hot:
        force, w = _wrench(p, spot)
        for name, x in (_pushed(p, spot.level, w) | vectors(f"ff{spot.foot}_", force)).items():
            out[name] = out[name] + x
    p.let("chain", out)
    with _rarely(p, "la", acc.flat(), qa):
        for level, spots in _rare_levels(p).items():
            with _near(p, spots):
                p.let("chain", vectors("w", [0.0] * 6))
                for spot in spots:
                    force, w = _wrench(p, spot)
                    sums = vectors("w", w.flat())
                    if spot.foot >= 0:
                        sums |= vectors(f"ff{spot.foot}_", force)
                    _add_rare(p, spot, sums)
                p.let("chain", _pushed(p, level, p.six("w")), add=True)
        if p.limited:
            with _beyond(p):
                pull = {f"ft{i}": -row.gradient(qa[i]) for i, row in enumerate(p.limits())}
                p.let("chain", pull, add=True)


def _wrench(p: StepProgram, spot: Spot) -> tuple[Vec3, Spatial]:
    force = p.contact(spot).force(_residual(p, spot))
    return force, Spatial(force, p.contact_point(spot).cross(force))


def _pushed(p: StepProgram, level: int, w: Spatial) -> dict[str, Expr]:
    """What a wrench on a link does to the trunk and to the joints above it."""
    out: dict[str, Expr] = vectors("cw", w.flat())
    return out | {f"ft{i}": frame.axis.dot(w) for i, frame in enumerate(p.frames()[:level])}
