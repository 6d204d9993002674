"""Newton's method on the primal problem, with an exact line search.

Every contact touches the trunk and links of one chain, so the Hessian M + J' C J keeps the arrow shape of M:
a contact's stiffness adds to its link like inertia does, and its composite hangs on the same axes. An
iteration eliminates each chain and solves a 6x6.

An environment is done when the decrement p' H p of the step just taken was below TOLERANCE (the error that is
left is its square, roughly), or when the step was exact: no constraint changed its zone and none slides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.engines.stride.algebra import (
    Expr,
    Mat3,
    Spatial,
    Vec3,
    absolute,
    lift,
    maximum,
    minimum,
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
    from surefoot.engines.stride.step import StepProgram

TOLERANCE = 1e-3
"""Of the decrement, relative to mean inertia times degrees of freedom. Ten times less or more changes neither
the results nor the cost by much: convergence is quadratic."""
ITERATIONS = 20
SEARCH_ITERATIONS = 16
SEARCH_TOLERANCE = 0.02
"""Of the slope left, relative to the decrement."""


def constraint_forces(p: StepProgram) -> None:
    """Joint torques ft, wrench on the trunk cw and foot forces ff of the constraints."""
    n, levels = p.depth, sorted({s.group.level for s in p.layout.slots})
    zero = vectors("ft", [0.0] * n) | vectors("cw", [0.0] * 6) | {"touch": lift(0.0)}
    for f in range(len(p.layout.feet)):
        zero |= vectors(f"ff{f}_", [0.0] * 3)
    zero |= {f"live{level}": lift(0.0) for level in levels}
    p.let("chain", zero)
    D = p.variable("D", "slot")
    for slots in p.layout.slots:
        group = slots.group
        name = f"live{group.level}"
        p.let(
            "slot",
            {name: D} | ({"touch": D} if group.level == 0 else {}),
            group=group,
            when=D > 0.0,
            add=True,
        )
    total_live = total([p.variable("live", "chain"), *(p.variable(f"live{x}", "chain") for x in levels)])
    p.let("chain", {"alive": total_live})
    p.sum(["alive"])
    awake = p.variable("awake")
    p.let("env", {"stiff": p.variable("alive_sum"), "open": where(p.variable("alive_sum") > 0.0, awake, 0.0)})
    with p.when_any(p.variable("open") > 0.5):
        with p.while_any(p.variable("open") > 0.5, ITERATIONS):
            _direction(p, levels)
            _line_search(p, levels)
        _forces(p, levels)


def _accelerations(
    p: StepProgram, name: str, base: list[Expr], joints: list[Expr], levels: list[int]
) -> None:
    found = motions(p.frames(), spatial(base), joints)
    out: dict[str, Expr] = {}
    for level in levels:
        if level:
            out |= vectors(f"{name}{level}_", found[level].flat())
    if out:
        p.let("chain", out)


def _residual(p: StepProgram, level: int) -> Vec3:
    """Of a contact. Computed wherever it is needed: keeping it costs more registers than it saves work."""
    return p.level_motion("la", level).at(p.contact_point()) - p.vector("aref", "slot")


def _along(p: StepProgram, level: int) -> Vec3:
    """How a contact's residual changes along the search direction."""
    return p.level_motion("ld", level).at(p.contact_point())


def _direction(p: StepProgram, levels: list[int]) -> None:
    """The Newton step `d` (trunk) and `qp` (joints), and its decrement."""
    n, M, F = p.depth, p.mass_rows(), p.couplings()
    acc, qa = p.base_acceleration(), p.joints("qa")
    _accelerations(p, "la", acc.flat(), qa, levels)
    full = [[M[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)]
    gradient = [
        total(full[i][j] * qa[j] for j in range(n)) + F[i].dot(acc) - p.variable(f"tau{i}", "chain")
        for i in range(n)
    ]
    momentum = [total(qa[i] * F[i].flat()[k] for i in range(n)) for k in range(6)]
    curvature: list[Expr] = [lift(0.0)] * n
    for i, row in enumerate(p.limits()):
        gradient[i], curvature[i] = gradient[i] + row.gradient(qa[i]), curvature[i] + row.curvature(qa[i])
    for i, friction in enumerate(p.dry_frictions()):
        gradient[i] = gradient[i] + friction.gradient(qa[i])
        curvature[i] = curvature[i] + friction.curvature(qa[i])
    out = vectors("H", [M[i][j] + (curvature[i] if i == j else 0.0) for i, j in pairs(n)])
    for i in range(n):
        out |= vectors(f"G{i}_", F[i].flat())
    out |= vectors("grad", gradient) | vectors("rm", [0.0] * 21) | vectors("rg", momentum)
    p.let("chain", out)
    for level in levels:
        _stiffness(p, level)
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
    rows = p.base_rows([lift(0.0)] * 21)
    a = acc.flat()
    inertial = [total(rows[max(i, j)][min(i, j)] * a[j] for j in range(6)) for i in range(6)]
    g = [
        x + y + p.variable(f"rg{i}_sum")
        for i, (x, y) in enumerate(zip(inertial, p.base_bias().flat(), strict=True))
    ]
    d = solve(p.base_rows([p.variable(f"rm{i}_sum") for i in range(21)]), g)
    decrement = p.variable("dec_sum") - d.dot(spatial(g))
    p.let("env", vectors("d", d.flat()) | {"php": decrement})
    p.let("chain", vectors("qp", p.eliminated().back(p.env("d", 6))))
    _accelerations(p, "ld", p.env("d", 6), p.joints("qp"), levels)


def _stiffness(p: StepProgram, level: int) -> None:
    """Adds the contacts of one link to Hessian and gradient."""
    live = p.variable(f"live{level}", "chain") > 0.0
    p.let("chain", vectors("K", [0.0] * 21) | vectors("w", [0.0] * 6), when=live)
    contact, point = p.contact(), p.contact_point()
    touching = contact.D > 0.0
    for slots in p.layout.slots:
        if slots.group.level != level:
            continue
        force, C = contact.force_and_hessian(_residual(p, level))
        force = type(force)(*(where(touching, -x, 0.0) for x in force))
        K = Stiffness.of_contact(C, point)
        kept = [where(touching, x, 0.0) for x in (*pack(K.linear), *K.mixed.flat(), *pack(K.angular))]
        moment = type(force)(*(where(touching, x, 0.0) for x in point.cross(force)))
        p.let(
            "slot",
            vectors("K", kept) | vectors("w", [*force, *moment]),
            group=slots.group,
            when=touching,
            add=True,
        )
    k = p.variables_of("K", 21, "chain")
    linear, angular = unpack(k[:6]), unpack(k[15:])
    mixed = Mat3([k[6:9], k[9:12], k[12:15]])
    w = p.six("w")

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
    p.let("chain", out, when=live, add=True)


def _line_search(p: StepProgram, levels: list[int]) -> None:
    """The step length at which the cost's slope along the direction vanishes, and the step.

    The smooth part is a parabola whose slope and curvature follow from the decrement; the rows are evaluated.
    A full step is tried first, together with the slope at 0.
    """
    contact = p.contact()
    touching = contact.D > 0.0
    out = dict(zip(("y1", "y2", "z1", "z2", "changed"), _rows(p, None), strict=True))
    p.let("chain", out)
    for slots in p.layout.slots:
        jar, jv = _residual(p, slots.group.level), _along(p, slots.group.level)
        a0, b0, zone0 = contact.along(jar, jv, 0.0)
        a1, b1, zone1 = contact.along(jar, jv, 1.0)
        moved = where((zone1 > 1.5) | (absolute(zone1 - zone0) > 0.5), 1.0, 0.0)
        kept = {
            k: where(touching, v, 0.0)
            for k, v in {"y1": a0, "y2": b0, "z1": a1, "z2": b1, "changed": moved}.items()
        }
        p.let("slot", kept, group=slots.group, when=touching, add=True)
    p.sum(["y1", "y2", "z1", "z2", "changed"])
    php, one = p.variable("php"), lift(1.0)
    slope0, bend0 = -php - p.variable("y1_sum"), php - p.variable("y2_sum")
    p.let("env", {"slope0": slope0, "bend0": bend0})
    found = _next_step(p, one, lift(0.0), lift(1e6))
    searching = where((p.variable("open") > 0.5) & ~found["done"], 1.0, 0.0)
    exact = where(found["done"] & (p.variable("changed_sum") < 0.5), 1.0, 0.0)
    p.let(
        "env",
        {
            "step": found["step"],
            "low": found["low"],
            "high": found["high"],
            "searching": searching,
            "exact": exact,
        },
    )
    with p.while_any(p.variable("searching") > 0.5, SEARCH_ITERATIONS):
        step = p.variable("step")
        p.let("chain", dict(zip(("z1", "z2"), _rows(p, step), strict=True)))
        for slots in p.layout.slots:
            level = slots.group.level
            a, b, _ = contact.along(_residual(p, level), _along(p, level), step)
            p.let(
                "slot",
                {"z1": where(touching, a, 0.0), "z2": where(touching, b, 0.0)},
                group=slots.group,
                when=touching,
                add=True,
            )
        p.sum(["z1", "z2"])
        found = _next_step(p, step, p.variable("low"), p.variable("high"))
        on = p.variable("searching") > 0.5
        kept = {k: where(on, found[k], p.variable(k)) for k in ("step", "low", "high")}
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


def _joint_rows(p: StepProgram) -> list[tuple[int, Limit | DryFriction]]:
    return [*enumerate(p.limits()), *enumerate(p.dry_frictions())]


def _rows(p: StepProgram, step: Expr | None) -> list[Expr]:
    """Slope and curvature of limits and dry friction along the direction: at `step`, or at 0 and at 1 with
    the number of rows that change their zone."""
    qa, qp = p.joints("qa"), p.joints("qp")
    steps = [lift(0.0), lift(1.0)] if step is None else [step]
    slope, bend = [lift(0.0)] * len(steps), [lift(0.0)] * len(steps)
    changed = lift(0.0)
    for i, row in _joint_rows(p):
        zones = []
        for k, s in enumerate(steps):
            a = qa[i] + s * qp[i]
            zones.append(row.zone(a))
            slope[k] = slope[k] + row.gradient(a) * qp[i]
            bend[k] = bend[k] + row.curvature(a) * qp[i] * qp[i]
        if step is None:
            changed = changed + absolute(zones[1] - zones[0])
    if step is None:
        return [slope[0], bend[0], slope[1], bend[1], changed]
    return [slope[0], bend[0]]


def _next_step(p: StepProgram, step: Expr, low: Expr, high: Expr) -> dict[str, Expr]:
    """Newton on the slope, kept inside the bracket."""
    php = p.variable("php")
    slope = p.variable("slope0") + step * p.variable("bend0") + p.variable("z1_sum")
    bend = p.variable("bend0") + p.variable("z2_sum")
    floor = 3e-8 * p.d.tolerance_scale
    done = absolute(slope) <= SEARCH_TOLERANCE * php + floor
    low, high = where(slope < 0.0, step, low), where(slope < 0.0, high, step)
    newton = step - slope / maximum(bend, 1e-9)
    inside = (newton > low) & (newton < high)
    guess = where(inside, newton, 0.5 * (low + minimum(high, 2.0 * low + 1.0)))
    return {"done": done, "low": low, "high": high, "step": where(done, step, guess)}


def _forces(p: StepProgram, levels: list[int]) -> None:
    acc, qa = p.base_acceleration(), p.joints("qa")
    _accelerations(p, "la", acc.flat(), qa, levels)
    contact, point = p.contact(), p.contact_point()
    touching = contact.D > 0.0
    gradients = [lift(0.0)] * p.depth
    for i, row in _joint_rows(p):
        gradients[i] = gradients[i] - row.gradient(qa[i])
    p.let("chain", vectors("ft", gradients))
    for level in levels:
        live = p.variable(f"live{level}", "chain") > 0.0
        p.let("chain", vectors("w", [0.0] * 6), when=live)
        for slots in p.layout.slots:
            if slots.group.level != level:
                continue
            force = contact.force(_residual(p, level))
            force = type(force)(*(where(touching, x, 0.0) for x in force))
            moment = type(force)(*(where(touching, x, 0.0) for x in point.cross(force)))
            out = vectors("w", [*force, *moment])
            if slots.group.foot >= 0:
                out |= vectors(f"ff{slots.group.foot}_", force)
            p.let("slot", out, group=slots.group, when=touching, add=True)
        w = p.six("w")
        out = vectors("cw", w.flat())
        for i, frame in enumerate(p.frames()[:level]):
            out[f"ft{i}"] = frame.axis.dot(w)
        p.let("chain", out, when=live, add=True)
