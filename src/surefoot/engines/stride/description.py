"""What stride needs to know of a model: a floating trunk, chains of hinges on it, and points that may touch
the ground.

`describe` reads it from a compiled MjModel. What cannot be represented is refused by name, in one sentence
that says what to do; `CAPABILITIES` says the same as a table.

Every link has a frame of its own: its origin is the joint's anchor and its z axis the joint's axis.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import mujoco
import numpy as np

from surefoot.engines.stride.refusals import cannot, refuse_what_cannot_be_represented

Array = np.ndarray
MINIMP, MAXIMP, MINVAL = 1e-4, 0.9999, 1e-15  # mjMINIMP, mjMAXIMP, mjMINVAL
TOLERANCE = 1e-4
"""The strictest tolerance of the solver, whatever a plant asks for. Ten times more saves 3 to 5% of
the iterations and leaves some robots 1e-6 to 1e-5 m off after ten control steps: where rows change their zone
the step before the last is not yet quadratic. A tenth of it costs 2 to 4% more of them and brings robots at
rest nearer to MuJoCo."""
UNLIMITED = 1e9
"""rad: the limit of a joint that has none."""


@dataclass(frozen=True)
class Spring:
    """A soft constraint: reference stiffness k and damping b (MuJoCo's solref), impedance (solimp)."""

    k: float
    b: float
    low: float
    high: float
    width: float
    midpoint: float
    power: int


@dataclass(frozen=True)
class Link:
    """A hinge and the body that it moves. Vectors are in the link's frame unless said otherwise."""

    name: str
    dof: int  # address in qvel
    qpos: int
    rotation: Array  # [3, 3] from this frame at angle 0 to the parent's
    anchor: Array  # [3] origin of this frame, in the parent's
    mass: float
    com: Array
    inertia: Array  # [3, 3] about the centre of mass
    zero: float  # joint position at which the angle is 0
    armature: float
    damping: float
    stiffness: float
    spring_zero: float
    frictionloss: float
    low: float
    high: float
    limit: Spring
    friction: Spring
    kp: float
    kd: float
    torque_low: float
    torque_high: float


@dataclass(frozen=True)
class Point:
    """A sphere (of radius 0 at a box's corner) that may touch the ground."""

    chain: int  # -1 on the trunk
    level: int  # 0 is the trunk, 1 the first link
    foot: int  # index in feet, or -1
    centre: Array
    radius: float
    outward: Array
    """Points from the box's centre to the corner: only corners that look down touch. Zero elsewhere."""
    body: int  # index in `weights`
    spring: Spring


@dataclass(frozen=True)
class Foot:
    chain: int
    level: int
    centre: Array


@dataclass(frozen=True)
class Weights:
    """MuJoCo's inverse weights as functions of the trunk's mass: weight = constant + <S^-1, form>.

    S [6, 6] is what a trunk with all legs hanging on it weighs: `legs` plus the trunk's own spatial inertia,
    linear part first, in the trunk frame at the trunk's origin. That all dependence on the trunk is through
    S^-1 follows from the block inverse of the mass matrix.
    """

    legs: Array  # [6, 6]
    body_form: Array  # [B, 6, 6]; zero for the trunk, whose form depends on its centre of mass
    body_constant: Array  # [B]
    dof_form: Array  # [J, 6, 6] in the order of chains, then links
    dof_constant: Array  # [J]


@dataclass(frozen=True)
class Description:
    """One robot on its ground, complete: everything that the kernel is made from."""

    timestep: float
    gravity: Array
    impratio: float
    tolerance: float
    """The solver's tolerance, measured against `tolerance_scale`."""
    tolerance_scale: float
    """Mean inertia times degrees of freedom: MuJoCo measures a solver's improvement against it."""
    trunk_mass: float
    trunk_com: Array
    trunk_inertia: Array  # [3, 3] about its centre of mass
    fixed: Array
    """[6, 6] spatial inertia of bodies fixed to the trunk: a payload changes the trunk's own only."""
    chains: tuple[tuple[Link, ...], ...]
    points: tuple[Point, ...]
    feet: tuple[Foot, ...]
    weights: Weights
    names: tuple[str, ...] = field(default=())

    @property
    def depth(self) -> int:
        return max(len(c) for c in self.chains)

    @property
    def digest(self) -> str:
        def plain(x: Any) -> Any:
            return x.tolist() if isinstance(x, np.ndarray | np.generic) else str(x)

        return hashlib.sha256(json.dumps(asdict(self), default=plain, sort_keys=True).encode()).hexdigest()


def spring(solref: Array, solimp: Array, timestep: float, what: str) -> Spring:
    """MuJoCo's getsolparam and refsafe: a reference faster than two time steps is slowed down."""
    low, high = np.clip(solimp[:2], MINIMP, MAXIMP)
    width, midpoint = max(float(solimp[2]), 0.0), float(np.clip(solimp[3], MINIMP, MAXIMP))
    if low == high or width <= MINVAL:
        low = high = (low + high) / 2
        width = 1.0
    power = float(solimp[4])
    if power != round(power) or not 1 <= power <= 6:
        raise cannot(f"a solimp power of {power:g} in {what}", "make it a whole number from 1 to 6")
    if (solref[0] > 0) != (solref[1] > 0):
        raise cannot(f"mixed signs in solref of {what}", "give two positive or two negative numbers")
    if solref[0] > 0:
        time, ratio = max(float(solref[0]), 2 * timestep), float(solref[1])
        k, b = 1 / max(MINVAL, (high * time * ratio) ** 2), 2 / max(MINVAL, high * time)
    else:
        k, b = -float(solref[0]) / high**2, -float(solref[1]) / high
    return Spring(k, b, float(low), float(high), width, midpoint, int(power))


def describe(model: mujoco.MjModel, trunk: int, feet: Sequence[str] = ()) -> Description:
    """The description of the robot whose floating body is `trunk`; `feet` are names of its foot geoms."""
    refuse_what_cannot_be_represented(model, trunk)
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    base = int(model.jnt_qposadr[model.body_jntadr[trunk]])
    data.qpos[base : base + 7] = (0, 0, 0, 1, 0, 0, 0)  # the trunk's frame is the world's
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    place = _places(model, data, trunk)
    chains = tuple(
        tuple(_link(model, data, bodies, i, place) for i in range(len(bodies)))
        for bodies in _chains(model, trunk)
    )
    mass, com, inertia = _merged(model, data, [trunk], np.eye(3), np.zeros(3))
    fixed = spatial_inertia(*_merged(model, data, _welded(model, trunk)[1:], np.eye(3), np.zeros(3)))
    contact_bodies = [trunk]
    points = tuple(_points(model, data, trunk, place, list(feet), contact_bodies))
    at = {name: model.geom(name).id for name in feet}
    return Description(
        timestep=float(model.opt.timestep),
        gravity=model.opt.gravity.copy(),
        impratio=float(model.opt.impratio),
        tolerance=max(float(model.opt.tolerance), TOLERANCE),
        tolerance_scale=float(model.stat.meaninertia * max(1, model.nv)),
        trunk_mass=mass,
        trunk_com=com,
        trunk_inertia=inertia,
        fixed=fixed,
        chains=chains,
        points=points,
        feet=tuple(_foot(model, data, at[name], place) for name in feet),
        weights=_weights(model, data, trunk, contact_bodies, chains, mass, com, inertia),
        names=tuple(link.name for chain in chains for link in chain),
    )


@dataclass(frozen=True)
class _Place:
    """Where a body belongs: chain, level, and the frame of that link at zero angles (in the trunk's)."""

    chain: int
    level: int
    rotation: Array
    origin: Array


def _chains(model: mujoco.MjModel, trunk: int) -> list[list[int]]:
    """Bodies with a joint, chain by chain, from the trunk outwards."""
    owner: dict[int, int] = {trunk: -1}
    chains: list[list[int]] = []
    for body in range(trunk + 1, model.nbody):
        parent = int(model.body_parentid[body])
        if parent not in owner:
            continue
        owner[body] = owner[parent]
        if model.body_jntnum[body]:
            if owner[parent] == -1:
                owner[body] = len(chains)
                chains.append([])
            chains[owner[body]].append(body)
    return chains


def _welded(model: mujoco.MjModel, body: int) -> list[int]:
    """The body and those that are fixed to it."""
    out = [body]
    for b in range(body + 1, model.nbody):
        if model.body_parentid[b] in out and not model.body_jntnum[b]:
            out.append(b)
    return out


def _places(model: mujoco.MjModel, data: mujoco.MjData, trunk: int) -> dict[int, _Place]:
    place = dict.fromkeys(_welded(model, trunk), _Place(-1, 0, np.eye(3), np.zeros(3)))
    for c, bodies in enumerate(_chains(model, trunk)):
        for i, body in enumerate(bodies):
            joint = int(model.body_jntadr[body])
            frame = _frame_with_z(data.xaxis[joint])
            here = _Place(c, i + 1, frame, data.xanchor[joint].copy())
            place |= dict.fromkeys(_welded(model, body), here)
    return place


def _frame_with_z(axis: Array) -> Array:
    """A rotation whose third column is `axis`; a permutation where the axis is one of the coordinate axes."""
    z = axis / np.linalg.norm(axis)
    z[np.abs(z) < 1e-12] = 0.0
    first = np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3]
    x = first - z * (z @ first)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _merged(
    model: mujoco.MjModel, data: mujoco.MjData, bodies: list[int], rotation: Array, origin: Array
) -> tuple[float, Array, Array]:
    """Mass, centre of mass and inertia about it of bodies fixed to each other, in the given frame."""
    masses = model.body_mass[bodies]
    mass = float(masses.sum())
    centre = (masses[:, None] * data.xipos[bodies]).sum(0) / max(mass, 1e-30)
    inertia = np.zeros((3, 3))
    for b, m in zip(bodies, masses, strict=True):
        turn = data.ximat[b].reshape(3, 3)
        d = data.xipos[b] - centre
        inertia += turn @ np.diag(model.body_inertia[b]) @ turn.T + m * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, _tidy(rotation.T @ (centre - origin)), _tidy(rotation.T @ inertia @ rotation)


def _tidy(x: Array) -> Array:
    """Rounding noise that stands for a zero or a one would keep it from being folded away."""
    scale = max(float(np.abs(x).max(initial=0.0)), 1e-30)
    x = np.where(np.abs(x) < 1e-13 * max(scale, 1e-3), 0.0, x)
    near = np.rint(x)
    return np.where((np.abs(x - near) < 1e-13) & (near != 0), near, x)


def _link(
    model: mujoco.MjModel, data: mujoco.MjData, bodies: list[int], i: int, place: dict[int, _Place]
) -> Link:
    body = bodies[i]
    here, joint = place[body], int(model.body_jntadr[body])
    parent = place[bodies[i - 1]] if i else _Place(-1, 0, np.eye(3), np.zeros(3))
    dof, qpos = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
    mass, com, inertia = _merged(model, data, _welded(model, body), here.rotation, here.origin)
    name, dt = model.joint(joint).name or f"joint {joint}", float(model.opt.timestep)
    low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-UNLIMITED, UNLIMITED)
    driven = [a for a in range(model.nu) if model.actuator_trnid[a, 0] == joint]
    kp = kd = 0.0
    torque = (-UNLIMITED, UNLIMITED)
    if driven:
        a = driven[0]
        kp, kd = float(model.actuator_gainprm[a, 0]), -float(model.actuator_biasprm[a, 2])
        if model.actuator_forcelimited[a]:
            torque = (float(model.actuator_forcerange[a, 0]), float(model.actuator_forcerange[a, 1]))
    return Link(
        name=name,
        dof=dof,
        qpos=qpos,
        rotation=_tidy(parent.rotation.T @ here.rotation),
        anchor=_tidy(parent.rotation.T @ (here.origin - parent.origin)),
        mass=mass,
        com=com,
        inertia=inertia,
        zero=float(model.qpos0[qpos]),
        armature=float(model.dof_armature[dof]),
        damping=float(model.dof_damping[dof]),
        stiffness=float(model.jnt_stiffness[joint]),
        spring_zero=float(model.qpos_spring[qpos]),
        frictionloss=float(model.dof_frictionloss[dof]),
        low=float(low),
        high=float(high),
        limit=spring(model.jnt_solref[joint], model.jnt_solimp[joint], dt, f"the limit of '{name}'"),
        friction=spring(model.dof_solref[dof], model.dof_solimp[dof], dt, f"the dry friction of '{name}'"),
        kp=kp,
        kd=kd,
        torque_low=torque[0],
        torque_high=torque[1],
    )


def _points(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    trunk: int,
    place: dict[int, _Place],
    feet: list[str],
    bodies: list[int],
) -> list[Point]:
    """Every sphere that may touch the ground; appends to `bodies` those whose inverse weights are needed."""
    out = []
    ground = [g for g in range(model.ngeom) if model.geom_bodyid[g] == 0]
    for g in range(model.ngeom):
        body = int(model.geom_bodyid[g])
        floor = [f for f in ground if _may_collide(model, f, g)]
        if body not in place or not floor:
            continue
        if body not in bodies:
            bodies.append(body)
        here, name = place[body], model.geom(g).name
        foot = feet.index(name) if name in feet else -1
        params = _mixed(model, floor[0], g)
        turn, centre = data.geom_xmat[g].reshape(3, 3), data.geom_xpos[g]
        for offset, radius, corner in _spheres(model, g):
            at = here.rotation.T @ (centre + turn @ offset - here.origin)
            outward = here.rotation.T @ turn @ offset * corner
            out.append(
                Point(
                    here.chain,
                    here.level,
                    foot,
                    _tidy(at),
                    radius,
                    _tidy(outward),
                    bodies.index(body),
                    params,
                )
            )
    return out


def _spheres(model: mujoco.MjModel, g: int) -> list[tuple[Array, float, float]]:
    """(offset from the geom's centre, radius, 1 at a box's corner) of the spheres that stand for a geom."""
    size, kind = model.geom_size[g], int(model.geom_type[g])
    if kind == int(mujoco.mjtGeom.mjGEOM_SPHERE):
        return [(np.zeros(3), float(size[0]), 0.0)]
    if kind == int(mujoco.mjtGeom.mjGEOM_CAPSULE):
        return [(np.array([0, 0, s * size[1]]), float(size[0]), 0.0) for s in (1, -1)]
    corners = [np.array([x, y, z]) * size for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)]
    return [(corner, 0.0, 1.0) for corner in corners]


def _may_collide(model: mujoco.MjModel, a: int, b: int) -> bool:
    return bool(
        model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a]
    )


def _mixed(model: mujoco.MjModel, a: int, b: int) -> Spring:
    """MuJoCo's mj_contactParam: the higher priority wins, else both are mixed by solmix."""
    first, second = model.geom_priority[a], model.geom_priority[b]
    if first != second:
        mix = 1.0 if first > second else 0.0
    else:
        ma, mb = model.geom_solmix[a], model.geom_solmix[b]
        mix = 0.5 if ma + mb < 2 * MINVAL else ma / (ma + mb)
    ra, rb = model.geom_solref[a], model.geom_solref[b]
    direct = first == second and (ra[0] <= 0 or rb[0] <= 0)
    solref = np.minimum(ra, rb) if direct else mix * ra + (1 - mix) * rb
    solimp = mix * model.geom_solimp[a] + (1 - mix) * model.geom_solimp[b]
    return spring(solref, solimp, float(model.opt.timestep), f"the contact of '{model.geom(b).name}'")


def _foot(model: mujoco.MjModel, data: mujoco.MjData, g: int, place: dict[int, _Place]) -> Foot:
    here = place[int(model.geom_bodyid[g])]
    return Foot(here.chain, here.level, _tidy(here.rotation.T @ (data.geom_xpos[g] - here.origin)))


def spatial_inertia(mass: float, com: Array, inertia: Array) -> Array:
    """[6, 6] at the origin, linear part first."""
    c = np.array([[0, -com[2], com[1]], [com[2], 0, -com[0]], [-com[1], com[0], 0]])
    return np.block([[mass * np.eye(3), -mass * c], [mass * c, inertia - mass * c @ c]])


def _weights(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    trunk: int,
    bodies: list[int],
    chains: tuple[tuple[Link, ...], ...],
    mass: float,
    com: Array,
    inertia: Array,
) -> Weights:
    """Computes the weights from the block inverse of M = [[B, F], [F', L]] with S = B - F L^-1 F'."""
    mujoco.mj_crb(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    base = int(model.jnt_dofadr[model.body_jntadr[trunk]]) + np.arange(6)
    legs = np.array([link.dof for chain in chains for link in chain])
    inverse = np.linalg.inv(full[np.ix_(legs, legs)])
    couple = full[np.ix_(base, legs)]
    hanging = full[np.ix_(base, base)] - couple @ inverse @ couple.T
    forms, constants = [np.zeros((6, 6))], [0.0]
    for body in bodies[1:]:
        jac = np.zeros((3, model.nv))
        mujoco.mj_jacBodyCom(model, data, jac, None, body)
        reach = jac[:, base] - jac[:, legs] @ inverse @ couple.T
        forms.append(reach.T @ reach / 3)
        constants.append(float(np.trace(jac[:, legs] @ inverse @ jac[:, legs].T)) / 3)
    reach = inverse @ couple.T  # [J, 6]
    return Weights(
        legs=hanging - spatial_inertia(mass, com, inertia),
        body_form=np.array(forms),
        body_constant=np.array(constants),
        dof_form=np.einsum("ja,jb->jab", reach, reach),
        dof_constant=np.diag(inverse).copy(),
    )
