"""Newton's method on the primal problem, with an exact line search.

Every contact touches the trunk and links of one chain, so the Hessian M + J' C J keeps the arrow shape of M:
a contact's stiffness adds to its link like inertia does, and its composite hangs on the same axes. An
iteration eliminates each chain and solves a 6x6.

An environment is done when the decrement p' H p of the step just taken was below the plant's tolerance
relative to mean inertia times degrees of freedom (the error that is left is its square, roughly), or when the
step was exact: no constraint changed its zone and none slides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surefoot.compiler import COUNT, Expr, absolute, lift, maximum, total, vectors, where
from surefoot.engines.stride.arrow import eliminate, pairs, solve, triangle
from surefoot.engines.stride.constraints import Contact, DryFriction, Limit, Touch
from surefoot.engines.stride.spatial import Spatial, Vec3, spatial

if TYPE_CHECKING:
    from surefoot.engines.stride.step import StepProgram

ITERATIONS = 20
SEARCH_ITERATIONS = 4
"""Iterations of a line search. Robots that need more are few, and those beside them in a warp wait: another
Newton step costs less."""
PATIENCE, PATIENT_ITERATIONS = 8, 16
"""After so many Newton steps a search may take longer: short ones can go to and fro without an end."""
SEARCH_TOLERANCE = 0.1
"""The slope that a search may leave, relative to the decrement."""
BRACKET = ("low", "below", "high", "above", "moved")
"""Step lengths on either side of the slope's zero, the slopes there, and how far the last step moved."""
FAR = 1e6
"""The upper end of a bracket that has none yet."""


def constraint_forces(p: StepProgram) -> None:
    """Joint torques ft, wrench on the trunk cw and foot forces ff of the constraints."""
    zero = vectors("ft", [0.0] * p.depth) | vectors("cw", [0.0] * 6)
    for f in range(len(p.layout.feet)):
        zero |= vectors(f"ff{f}_", [0.0] * 3)
    stiff = total([p.of_spot(s, "D") for s in p.hot] + [d.D for d in p.dry_frictions()])
    p.let(
        "chain",
        zero | {"stiff": stiff + p.variable("beyond", "chain") + p.variable(COUNT, "chain"), "touches": 0.0},
    )
    if any(s.level == 0 for s in p.rare):
        p.for_items({"touches": where(p.variable("level", "item") < 0.5, 1.0, 0.0)})
    p.sum(["stiff", "beyond", "touches"])
    alive = p.variable("stiff_sum")
    p.let(
        "env",
        {"alive": alive, "open": where(alive > 0.0, p.variable("awake"), 0.0), "iterations": lift(0.0)},
    )
    with p.while_any(p.variable("open") > 0.5, ITERATIONS, together=True):
        p.part = "Newton steps"
        _direction(p)
        p.part = "line search"
        _line_search(p)
    p.part = "constraints"
    with p.when_any((p.variable("alive") > 0.0) & (p.variable("awake") > 0.5)):
        _forces(p)


# What is rare is left out of the straight code: contacts of anything but feet are added from the chains'
# lists, joints beyond their limits in branches that are seldom taken.


@contextmanager
def _beyond(p: StepProgram) -> Iterator[None]:
    with p.when_any(p.variable("beyond_sum") > 0.5):
        yield


def _direction(p: StepProgram) -> None:
    """The Newton step `d` (trunk) and `qp` (joints), and its decrement."""
    n, M, F = p.depth, p.mass_rows(), p.couplings()
    acc, qa = p.base_acceleration(), p.joints("qa")
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
    for s in p.hot:
        residual, parts = _stiffness(p.touch(s), acc, qa)
        out |= vectors(f"jar_{s.number}_", residual)
        for name, extra in parts.items():
            out[name] = out[name] + extra
    p.let("chain", out)
    if p.rare:
        residual, parts = _stiffness(p.item_touch(), acc, qa)
        p.for_items(parts, vectors("jar", residual))
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
    qp = p.eliminated().back(p.env("d", 6))
    out = vectors("qp", qp)
    for s in p.hot:
        out |= vectors(f"line_{s.number}_", _line(p, p.touch(s), p.vector_of(s, "jar"), qp))
    p.let("chain", out)


def _line(p: StepProgram, touch: Touch, residual: Vec3, qp: list[Expr]) -> list[Expr]:
    return touch.contact.line(residual, touch.moved(spatial(p.env("d", 6)), qp))


def _stiffness(touch: Touch, acc: Spatial, qa: list[Expr]) -> tuple[Vec3, dict[str, Expr]]:
    """A contact's residual; and what it adds to Hessian and gradient of trunk, chain and their coupling."""
    residual = touch.residual(acc, qa)
    force, C = touch.contact.force_and_hessian(residual)
    out = vectors("rm", touch.on_trunk(C)) | vectors("rg", (touch.wrench(force) * -1.0).flat())
    for i, column in enumerate(touch.columns):
        pushed = C @ column
        out |= vectors(f"G{i}_", touch.wrench(pushed).flat())
        out |= {f"H{i * (i + 1) // 2 + j}": touch.columns[j].dot(pushed) for j in range(i + 1)}
        out[f"grad{i}"] = -column.dot(force)
    return residual, out


LINE = ("y1", "y2", "z1", "z2", "changed")
"""Slope and curvature of the rows at 0 (y) and at 1 (z), and whether any leaves its zone or slides."""


def _line_search(p: StepProgram) -> None:
    """The step length at which the cost's slope along the direction vanishes, and the step.

    The smooth part is a parabola whose slope and curvature follow from the decrement; the rows are evaluated.
    A full step is tried first, together with the slope at 0.
    """

    def both(contact: Contact, line: list[Expr]) -> list[Expr]:
        a0, b0, zone0 = contact.along(line, 0.0)
        a1, b1, zone1 = contact.along(line, 1.0)
        return [a0, b0, a1, b1, where((zone1 > 1.5) | (absolute(zone1 - zone0) > 0.5), 1.0, 0.0)]

    _rows(p, LINE, both, [lift(0.0), lift(1.0)])
    php, one = p.variable("php"), lift(1.0)
    slope0, bend0 = -php - p.variable("y1_sum"), php - p.variable("y2_sum")
    p.let("env", {"slope0": slope0, "bend0": bend0})
    start = {"low": lift(0.0), "below": -php, "high": lift(FAR), "above": lift(0.0), "moved": one}
    trial = _next_step(p, one, start)
    limit = where(p.variable("iterations") < PATIENCE, SEARCH_ITERATIONS, PATIENT_ITERATIONS)
    searching = where((p.variable("open") > 0.5) & ~trial["done"], limit, 0.0)  # how many iterations are left
    exact = where(trial["done"] & (p.variable("changed_sum") < 0.5), 1.0, 0.0)
    p.let("env", {k: trial[k] for k in ("step", *BRACKET)} | {"searching": searching, "exact": exact})
    with p.while_any(p.variable("searching") > 0.5, PATIENT_ITERATIONS):
        step = p.variable("step")

        def there(contact: Contact, line: list[Expr], step: Expr = step) -> list[Expr]:
            return list(contact.along(line, step)[:2])

        _rows(p, LINE[2:4], there, [step])
        trial = _next_step(p, step, {k: p.variable(k) for k in BRACKET})
        left = p.variable("searching")
        on = left > 0.5
        kept = {"step": where(on, trial["step"], step)}  # whoever is done no longer looks at the rest
        kept |= {k: trial[k] for k in BRACKET}
        p.let("env", kept | {"searching": where(on & ~trial["done"], left - 1.0, 0.0)})
    on, step = p.variable("open") > 0.5, p.variable("step")
    tolerance = p.d.tolerance * p.d.tolerance_scale
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
    of_contact: Callable[[Contact, list[Expr]], list[Expr]],
    steps: list[Expr],
) -> None:
    """Sums over all rows: `of_contact` gives a contact's part from its residuals along the direction, `steps`
    are where joints are evaluated."""
    lines = [p.variables_of(f"line_{s.number}_", 5, "chain") for s in p.hot]
    of_spots = [of_contact(p.touch(s).contact, line) for s, line in zip(p.hot, lines, strict=True)]
    of_joints = _joint_rows(p, p.dry_frictions(), steps)[: len(names)]
    p.let("chain", dict(zip(names, map(total, zip(*of_spots, of_joints, strict=True)), strict=True)))
    if p.rare:
        touch, first = p.item_touch(), names == LINE
        line = p.variables_of("line", 5, "item")
        if first:
            line = _line(p, touch, p.vector("jar", "item"), p.joints("qp"))
        parts = of_contact(touch.contact, line)
        p.for_items(dict(zip(names, parts, strict=True)), vectors("line", line) if first else None)
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
            out[2 * k + 1] = out[2 * k + 1] + row.curvature(a) * (qp * qp)
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
    out = vectors("ft", [-row.gradient(a) for row, a in zip(p.dry_frictions(), qa, strict=False)])
    out = vectors("ft", [lift(0.0)] * p.depth) | out | vectors("cw", [lift(0.0)] * 6)
    out |= {f"ff{f}_{k}": lift(0.0) for f in range(len(p.layout.feet)) for k in range(3)}
    for s in p.hot:
        force, pushed = _pushed(p.touch(s), acc, qa)
        for name, x in (pushed | vectors(f"ff{s.foot}_", force)).items():
            out[name] = out[name] + x
    p.let("chain", out)
    if p.rare:
        force, pushed = _pushed(p.item_touch(), acc, qa)
        foot = p.variable("foot", "item")
        for f in {s.foot for s in p.rare} - {-1}:
            own = absolute(foot - f) < 0.5
            pushed |= vectors(f"ff{f}_", [where(own, x, 0.0) for x in force])
        p.for_items(pushed)
    if p.limited:
        with _beyond(p):
            pull = {f"ft{i}": -row.gradient(qa[i]) for i, row in enumerate(p.limits())}
            p.let("chain", pull, add=True)


def _pushed(touch: Touch, acc: Spatial, qa: list[Expr]) -> tuple[Vec3, dict[str, Expr]]:
    """A contact's force, and what it does to the trunk and to the joints above it."""
    force = touch.contact.force(touch.residual(acc, qa))
    out: dict[str, Expr] = vectors("cw", touch.wrench(force).flat())
    return force, out | {f"ft{i}": column.dot(force) for i, column in enumerate(touch.columns)}
