"""One physics step as a program: smooth dynamics, constraints, Newton's method, integration.

The order is MuJoCo's. Forces and the mass matrix are those at the step's beginning; the constraint solver
finds the acceleration a that minimises

    1/2 (a - a0)' M (a - a0) + sum of the constraints' costs       (a0: without constraints)

and its forces then act in `implicitfast`: (M + dt B) a = all forces, with B the joints' damping.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from surefoot.compiler import COUNT, Call, Domain, Expr, Program, clamp, lift, vectors, where
from surefoot.engines.stride import newton
from surefoot.engines.stride.arrow import Eliminated, base_matrix, eliminate, pairs, solve, triangle
from surefoot.engines.stride.constraints import (
    Contact,
    DryFriction,
    Limit,
    Touch,
    dry_friction,
    impedance,
    limit,
    stiffness,
)
from surefoot.engines.stride.dynamics import (
    TRUNK,
    Frame,
    Inertia,
    bias,
    body_force,
    composites,
    inertia_at,
    kinematics,
    mass_matrix,
    motions,
    rotate,
    rotation_of,
)
from surefoot.engines.stride.layout import Layout, Spot, link_figures, spring_figures
from surefoot.engines.stride.spatial import Mat3, Spatial, Vec3, pack, spatial, unpack

STATE = {"pos": 3, "quat": 4, "vel": 3, "ang": 3, "acc": 6}
"""Environment variables that go from step to step, with their sizes; `acc` is the solver's warm start."""

CHAIN_STATE = ("q", "qd", "qa")
"""The same of chains, one per link."""

PARAMETERS = {"mu": 1, "m0": 1, "h0_": 3, "J0_": 6, "kp": 1, "kd": 1, "strength": 1}
"""Environment variables that are set at a reset: friction, the trunk's mass, first moment and inertia about
its origin, gain scales and strength."""


class StepProgram(Program):
    """The program, and names for what its phases hand to each other."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout.chains, layout.slot_count)
        self.layout, self.d = layout, layout.description
        self.depth = layout.depth
        self.levels = sorted({s.level for s in layout.spots} | set(layout.foot_levels))
        self.hot = [s for s in layout.spots if s.hot]
        self.rare = [s for s in layout.spots if not s.hot]
        self.dry = any(np.any(link.frictionloss > 0) for row in layout.links for link in row)
        limits = [(link.low, link.high) for row in layout.links for link in row]
        self.limited = any(np.any(low > -1e8) or np.any(high < 1e8) for low, high in limits)

    # ---- names that several phases use

    def env(self, name: str, count: int) -> list[Expr]:
        return self.variables_of(name, count)

    def base_acceleration(self) -> Spatial:
        return spatial(self.env("acc", 6))

    def joints(self, name: str) -> list[Expr]:
        return self.variables_of(name, self.depth, "chain")

    def vector(self, name: str, domain: Domain = "chain") -> Vec3:
        return Vec3(*self.variables_of(name, 3, domain))

    def six(self, name: str) -> Spatial:
        return spatial(self.variables_of(name, 6, "chain"))

    def frames(self) -> list[Frame]:
        """Returns the links' frames with their axes only: the solver needs no more."""
        return [Frame(TRUNK.rotation, TRUNK.origin, self.six(f"S{i}_")) for i in range(self.depth)]

    def mass_rows(self) -> list[list[Expr]]:
        flat = self.variables_of("M", self.depth * (self.depth + 1) // 2, "chain")
        return triangle(flat, self.depth)

    def couplings(self) -> list[Spatial]:
        return [self.six(f"F{i}_") for i in range(self.depth)]

    def base_rows(self, extra: list[Expr]) -> list[list[Expr]]:
        h, J = self.env("h", 3), self.env("J", 6)
        return base_matrix(self.variable("mass"), Vec3(*h), J, extra)

    def base_bias(self) -> Spatial:
        return spatial(self.env("fb", 6))

    def eliminated(self) -> Eliminated:
        n = self.depth
        return Eliminated(
            [[self.variable(f"eL{i}_{j}", "chain") for j in range(i)] for i in range(n)],
            [self.variable(f"eD{k}", "chain") for k in range(n)],
            [[self.variable(f"eZ{k}_{j}", "chain") for j in range(6)] for k in range(n)],
            [self.variable(f"ez{k}", "chain") for k in range(n)],
        )

    def limits(self) -> list[Limit]:
        """Returns the limits, worked out anew wherever they are needed: joints are rarely at them."""
        if not self.limited:
            return []
        out = []
        for i, row in enumerate(self.layout.links):
            low, high = (self.param(f"{n}{i}", [getattr(x, n) for x in row]) for n in ("low", "high"))
            springs = spring_figures(self, f"limit{i}", [[x.limit for x in row]])
            q, qd, weight = (self.variable(f"{n}{i}", "chain") for n in ("q", "qd", "dofw"))
            out.append(limit(q, qd, low, high, weight, springs))
        return out

    def dry_frictions(self) -> list[DryFriction]:
        if not self.dry:
            return []
        return [
            replace(self._dry_friction(i), D=self.variable(f"dryD{i}", "chain")) for i in range(self.depth)
        ]

    def _dry_friction(self, i: int) -> DryFriction:
        row = self.layout.links[i]
        return dry_friction(
            self.variable(f"qd{i}", "chain"),
            self.param(f"frictionloss{i}", [x.frictionloss for x in row]),
            self.variable(f"dofw{i}", "chain"),
            spring_figures(self, f"dry{i}", [[x.friction for x in row]]),
        )

    def of_spot(self, spot: Spot, name: str) -> Expr:
        return self.variable(f"{name}_{spot.number}", "chain") if spot.hot else self.variable(name, "slot")

    def vector_of(self, spot: Spot, name: str) -> Vec3:
        domain: Domain = "chain" if spot.hot else "slot"
        return self.vector(f"{name}_{spot.number}_" if spot.hot else name, domain)

    def touch(self, spot: Spot) -> Touch:
        """A foot's contact."""
        point, aref = self.vector_of(spot, "r"), self.vector_of(spot, "aref")
        columns = [frame.axis.at(point) for frame in self.frames()[: spot.level]]
        contact = self._contact(self.of_spot(spot, "D"), f"n_{spot.number}_", "chain")
        return Touch(contact, point, aref, columns)

    def item_touch(self) -> Touch:
        """The contact that an item of the list is; no joint beyond its link moves it."""
        point, level = self.vector("r", "item"), self.variable("level", "item")
        levels = {s.level for s in self.rare}
        columns = [
            frame.axis.at(point) * (1.0 if i < min(levels) else where(level > i + 0.5, 1.0, 0.0))
            for i, frame in enumerate(self.frames()[: max(levels)])
        ]
        contact = self._contact(self.variable("D", "item"), "n", "item")
        return Touch(contact, point, self.vector("aref", "item"), columns)

    def _contact(self, D: Expr, name: str, domain: Domain) -> Contact:
        normal = self.vector(name, domain) if self.layout.heightfield else Vec3(*self.env("R", 9)[6:])
        root = math.sqrt(self.d.impratio)
        return Contact(D, normal, self.variable("mu") * (1 / root), root)

    def velocity(self, level: int) -> Spatial:
        """Returns the velocity of the link at `level`; 0 is the trunk."""
        return self.six(f"v{level}_") if level else spatial(self.env("vb", 3) + self.env("ang", 3))


def build_step(layout: Layout) -> StepProgram:
    p = StepProgram(layout)
    p.part = "dynamics"
    _trunk(p)
    _chains(p)
    p.part = "constraints"
    if layout.heightfield and layout.spots:
        p.external("ground", [_asked(p, spot) for spot in layout.spots if not spot.repeats])
    p.let("chain", {COUNT: 0.0})
    for spot in layout.spots:
        _touch(p, spot)
    _feet(p)
    newton.constraint_forces(p)
    _foot_forces(p)
    return p


def _trunk(p: StepProgram) -> None:
    """Rotation, gravity and velocity in the trunk's frame."""
    R = rotation_of(p.env("quat", 4))
    gravity = R.T @ Vec3(*p.d.gravity)
    velocity = R.T @ Vec3(*p.env("vel", 3))
    p.let("env", vectors("R", R.flat()) | vectors("g", gravity) | vectors("vb", velocity))


def _chains(p: StepProgram) -> None:
    """Kinematics, mass matrix, applied torques and joint constraints of a chain; composite of the robot."""
    rows = p.layout.links
    figures = [link_figures(p, i, row) for i, row in enumerate(rows)]
    q, qd = p.joints("q"), p.joints("qd")
    angular, gravity = Vec3(*p.env("ang", 3)), Vec3(*p.env("g", 3))
    frames = kinematics(figures, q)
    inertias = [inertia_at(f, x.mass, x.com, x.inertia) for f, x in zip(frames, figures, strict=True)]
    whole = composites(inertias)
    M, couplings = mass_matrix(frames, whole, [f.armature for f in figures])
    torques, on_trunk = bias(frames, inertias, qd, angular, gravity)
    out: dict[str, Expr] = {}
    kept: dict[str, Expr] = {}
    for i in range(p.depth):
        kept |= vectors(f"S{i}_", frames[i].axis.flat()) | vectors(f"F{i}_", couplings[i].flat())
        applied, derivative, motor = _applied(p, i, q[i], qd[i])
        out |= {f"tau{i}": applied - torques[i], f"dd{i}": derivative * p.d.timestep, f"motor{i}": motor}
    kept |= vectors("M", [M[i][j] for i, j in pairs(p.depth)])
    kept |= vectors("cm", [whole[0].mass, *whole[0].h, *pack(whole[0].J)]) | vectors("cf", on_trunk.flat())
    velocities = motions(frames, Spatial(p.env("vb", 3), angular), qd)
    for level in p.levels:
        frame = frames[level - 1] if level else TRUNK
        if level:
            kept |= vectors(f"R{level}_", frame.rotation.flat()) | vectors(f"p{level}_", frame.origin)
            kept |= vectors(f"v{level}_", velocities[level].flat())
    p.keep("chain", kept)
    p.let("chain", out | _joint_constraints(p, q))
    p.sum([*(f"cm{i}" for i in range(10)), *(f"cf{i}" for i in range(6))])
    trunk = Inertia(p.variable("m0"), Vec3(*p.env("h0_", 3)), unpack(p.env("J0_", 6)))
    force = body_force(trunk, Spatial((0, 0, 0), angular), Spatial(-gravity, (0, 0, 0)))
    legs = [p.variable(f"cm{i}_sum") for i in range(10)]
    bias_sum = spatial([p.variable(f"cf{i}_sum") for i in range(6)])
    p.let(
        "env",
        {"mass": trunk.mass + legs[0]}
        | vectors("h", trunk.h + Vec3(*legs[1:4]))
        | vectors("J", [a + b for a, b in zip(pack(trunk.J), legs[4:], strict=True)])
        | vectors("fb", (force + bias_sum).flat()),
    )


def _applied(p: StepProgram, i: int, q: Expr, qd: Expr) -> tuple[Expr, Expr, Expr]:
    """Torque of servo, damper and spring; minus its derivative by velocity; the servo's part."""
    row = p.layout.links[i]

    def figure(name: str) -> Expr:
        return p.param(f"{name}{i}", [getattr(x, name) for x in row])

    strength, kd = p.variable("strength"), figure("kd") * p.variable("kd")
    force = figure("kp") * p.variable("kp") * (p.variable(f"target{i}", "chain") - q) - kd * qd
    low, high = figure("torque_low"), figure("torque_high")
    # At its limit a servo's force does not depend on velocity, and MuJoCo leaves its derivative out.
    free = (force > low) & (force < high)
    motor = strength * clamp(force, low, high)
    damping = figure("damping")
    spring = figure("stiffness") * (q - figure("spring_zero"))
    return motor - damping * qd - spring, damping + where(free, strength * kd, 0.0), motor


def _joint_constraints(p: StepProgram, q: list[Expr]) -> dict[str, Expr]:
    """How many joints are beyond their limits; stiffness of dry friction."""
    out: dict[str, Expr] = {"beyond": lift(0.0)}
    for i, row in enumerate(p.layout.links):
        if p.limited:
            low, high = (p.param(f"{n}{i}", [getattr(x, n) for x in row]) for n in ("low", "high"))
            out["beyond"] = out["beyond"] + where((q[i] < low) | (q[i] > high), 1.0, 0.0)
        if p.dry:
            out[f"dryD{i}"] = p._dry_friction(i).D
    return out


class Points:
    """A spot's points as expressions, in their link's frame and in the trunk's."""

    def __init__(self, p: StepProgram, spot: Spot) -> None:
        some = next(x for row in spot.points for x in row if x is not None)
        points = [[some if x is None else x for x in row] for row in spot.points]

        def figure(name: str, table: list[list[float]]) -> Expr:
            if spot.hot:
                return p.param(f"{name}_{spot.number}", table[0])
            return p.param(name, table, spot.group)

        def vector(name: str) -> Vec3:
            tables = [[[getattr(x, name)[j] for x in row] for row in points] for j in range(3)]
            return Vec3(*(figure(f"{name}{j}", table) for j, table in enumerate(tables)))

        self.frame = TRUNK
        if spot.level:
            turn = p.variables_of(f"R{spot.level}_", 9, "chain")
            rotation = Mat3([turn[:3], turn[3:6], turn[6:]])
            self.frame = Frame(rotation, p.vector(f"p{spot.level}_"), TRUNK.axis)
        self.local, self.outward = vector("centre"), vector("outward")
        self.centre = self.frame.point(self.local)
        self.radius = figure("radius", [[x.radius for x in row] for row in points])
        self.exists = figure("exists", [[float(x is not None) for x in row] for row in spot.points])
        springs = [[x.spring for x in row] for row in points]
        self.springs = spring_figures(
            p, f"ground_{spot.number}" if spot.hot else "ground", springs, spot.group
        )


def _asked(p: StepProgram, spot: Spot) -> Call:
    """Returns the call that finds the heightfield near a spot's points: normal and distance of up to two
    contacts each."""
    points, R, pos = Points(p, spot), p.env("R", 9), p.env("pos", 3)
    at = [pos[k] + Vec3(*R[3 * k : 3 * k + 3]).dot(points.centre) for k in range(3)]
    names = ["wn0", "wn1", "wn2", "gap"]
    own = [f"wn_{spot.number}_{k}" for k in range(3)] + [f"gap_{spot.number}"]
    outputs = [p.variables_named(own, "chain") if spot.hot else p.variables_named(names, "slot")]
    shifts = [0]
    if spot.second >= 0:
        outputs.append(p.variables_named(names, "slot"))
        shifts.append(spot.second - (spot.group.start if spot.group else 0))
    return Call([*at, points.radius, points.exists], outputs, shifts, spot.asked)


def _touch(p: StepProgram, spot: Spot) -> None:
    """Computes which points of a spot touch the ground, and with what stiffness and reference."""
    points, R, pos = Points(p, spot), p.env("R", 9), p.env("pos", 3)
    frame, centre, radius, springs = points.frame, points.centre, points.radius, points.springs
    up, heightfield = Vec3(*R[6:]), p.layout.heightfield
    if heightfield:
        world = p.vector_of(spot, "wn")
        normal = Vec3(*(Vec3(R[k], R[3 + k], R[6 + k]).dot(world) for k in range(3)))
        gap, against = p.of_spot(spot, "gap"), (frame.rotation @ points.outward).dot(normal)
    else:
        # What does not depend on the point comes first: it is the same for all points of the link.
        down = frame.rotation.T @ up
        normal, gap = up, pos[2] + up.dot(frame.origin) + down.dot(points.local) - radius
        against = down.dot(points.outward)
    touching = (gap < 0.0) & (against <= 0.0) & (points.exists > 0.5)
    dist = where(touching, gap, 1.0)
    # Half way between the sphere's lowest point and the ground, as MuJoCo.
    point = centre - normal * (radius + 0.5 * dist)
    d = impedance(dist, springs)
    velocity = p.velocity(spot.level).at(point)
    aref = -(velocity * springs.b) - normal * (springs.k * d * dist)
    figures = vectors("r", point) | vectors("aref", aref) | (vectors("n", normal) if heightfield else {})
    D = stiffness(d, p.of_spot(spot, "iw"))
    if spot.group is None:
        named = {f"{name[:-1]}_{spot.number}_{name[-1]}": value for name, value in figures.items()}
        p.let("chain", {f"D_{spot.number}": where(touching, D, 0.0)} | named)
    else:
        p.collect(spot.group, touching, {"D": D, "level": spot.level, "foot": spot.foot} | figures)


def _feet(p: StepProgram) -> None:
    """Foot positions and velocities in the world, before the state moves on."""
    R, pos = p.env("R", 9), p.env("pos", 3)
    rows = [Vec3(*R[3 * k : 3 * k + 3]) for k in range(3)]
    out: dict[str, Expr] = {}
    for f, (row, level) in enumerate(zip(p.layout.feet, p.layout.foot_levels, strict=True)):
        feet = [p.d.feet[i] if i >= 0 else None for i in row]
        local = Vec3(
            *(p.param(f"foot{f}_{j}", [0.0 if x is None else x.centre[j] for x in feet]) for j in range(3))
        )
        turn, origin = p.variables_of(f"R{level}_", 9, "chain"), p.vector(f"p{level}_")
        centre = origin + Vec3(*(Vec3(*turn[3 * k : 3 * k + 3]).dot(local) for k in range(3)))
        velocity = p.velocity(level).at(centre)
        out |= vectors(f"fpos{f}_", [pos[k] + rows[k].dot(centre) for k in range(3)])
        out |= vectors(f"fvel{f}_", [r.dot(velocity) for r in rows])
    if out:
        p.let("chain", out)


def _foot_forces(p: StepProgram) -> None:
    R = p.env("R", 9)
    rows = [Vec3(*R[3 * k : 3 * k + 3]) for k in range(3)]
    out: dict[str, Expr] = {}
    for f in range(len(p.layout.feet)):
        out |= vectors(f"fforce{f}_", [row.dot(p.vector(f"ff{f}_")) for row in rows])
    if out:
        p.let("chain", out)


def build_integration(p: StepProgram) -> list[object]:
    """The implicit step as statements of their own: a kernel that only looks leaves them out."""
    body, p._open = p._open, [[]]
    p.part = "integration"
    dt = p.d.timestep
    M = p.mass_rows()
    H = [
        [M[i][j] + (p.variable(f"dd{i}", "chain") if i == j else 0.0) for j in range(i + 1)]
        for i in range(p.depth)
    ]
    gradient = [-(a + b) for a, b in zip(p.joints("tau"), p.joints("ft"), strict=True)]
    e = eliminate(H, p.couplings(), gradient)
    matrix, reduced, _ = e.reduction()
    wrench = p.variables_of("cw", 6, "chain")
    p.let(
        "chain",
        e.flat()
        | vectors("rm", matrix)
        | vectors("rg", [a + b for a, b in zip(reduced, wrench, strict=True)]),
    )
    p.sum([f"rm{i}" for i in range(21)] + [f"rg{i}" for i in range(6)])
    extra = [-p.variable(f"rm{i}_sum") for i in range(21)]
    g = [a - p.variable(f"rg{i}_sum") for i, a in enumerate(p.base_bias().flat())]
    p.let("env", vectors("a", solve(p.base_rows(extra), g).flat()))
    a = p.env("a", 6)
    p.let("chain", vectors("qi", p.eliminated().back(a)))
    free = p.variable("alive") <= 0.0  # no constraint: the solver has not run, and this is the warm start
    R = p.env("R", 9)
    vel = [v + dt * Vec3(*R[3 * k : 3 * k + 3]).dot(a[:3]) for k, v in enumerate(p.env("vel", 3))]
    ang = [w + dt * x for w, x in zip(p.env("ang", 3), a[3:], strict=True)]
    p.let(
        "env",
        vectors("vel", vel)
        | vectors("ang", ang)
        | vectors("pos", [x + dt * v for x, v in zip(p.env("pos", 3), vel, strict=True)])
        | vectors("quat", rotate(p.env("quat", 4), Vec3(*ang), dt))
        | vectors("acc", [where(free, new, old) for new, old in zip(a, p.env("acc", 6), strict=True)]),
    )
    qi = p.joints("qi")
    qd = [v + dt * x for v, x in zip(p.joints("qd"), qi, strict=True)]
    p.let(
        "chain",
        vectors("qd", qd)
        | vectors("q", [x + dt * v for x, v in zip(p.joints("q"), qd, strict=True)])
        | vectors("qa", [where(free, new, old) for new, old in zip(qi, p.joints("qa"), strict=True)]),
    )
    statements, p._open = p._open[0], body
    return list(statements)
