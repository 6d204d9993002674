"""What stride can and cannot represent: a table to print, and refusals that name the thing and say what to
do."""

from __future__ import annotations

import mujoco
import numpy as np

from surefoot.contract import SurefootError

CAPABILITIES: tuple[tuple[str, str], ...] = (
    ("floating base with chains of hinges", "yes, any number of chains of any depths"),
    ("branching chains, ball and slide joints, a fixed base", "refused"),
    ("tendons, equality constraints, further free bodies, mocap bodies", "refused"),
    ("actuators", "position servos with force limits on joints; others are refused"),
    ("armature, damping, springs, dry friction and limits of joints", "yes; polynomial ones are refused"),
    ("gravity compensation, flags that change physics", "refused"),
    ("ground", "a level plane at height 0, or a heightfield; a second one is refused"),
    ("integrator", "implicitfast; others are refused"),
    ("friction cone", "elliptic with impratio; a pyramidal cone is simulated as the elliptic one"),
    ("solver", "Newton to the plant's tolerance (1e-4 at best); its limits of iterations are not used"),
    ("contact with a plane", "spheres, ends of capsules, corners of boxes; as MuJoCo"),
    ("contact with a heightfield", "the same points against the exact triangles; at most two per sphere"),
    ("edges and faces of boxes, sides of capsules on a heightfield", "not felt between the points"),
    ("self-collision", "ignored"),
    ("contact of meshes, cylinders and ellipsoids", "refused; use spheres, capsules or boxes"),
    ("contact margins and gaps, condim other than 3", "refused"),
    ("sensors", "those of RobotState only; others are ignored"),
    ("numbers", "float32"),
    ("friction, payload, centre of mass, strength, gains, delay per environment", "yes"),
)
"""(what, whether), for people."""


SEARCHES = ("filterparent", "midphase", "nativeccd", "multiccd", "island", "warmstart")
HARMLESS = {
    "disable": (*SEARCHES, "equality", "clampctrl", "eulerdamp", "sensor", "autoreset"),
    "enable": ("energy", "fwdinv", "invdiscrete"),
}
"""Flags of <option> that change nothing for a robot that is not refused."""


def cannot(what: str, do: str) -> SurefootError:
    return SurefootError(f"Stride cannot represent {what}; {do}, or use --engine mujoco.")


def refuse_what_cannot_be_represented(model: mujoco.MjModel, trunk: int) -> None:
    option = model.opt
    if int(option.integrator) != int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST):
        raise cannot("another integrator than implicitfast", "set integrator='implicitfast'")
    for count, what in (
        (model.ntendon, "tendons"),
        (model.neq, "equality constraints"),
        (model.nmocap, "mocap bodies"),
        (model.nflex, "flexible bodies"),
        (model.na, "actuators with a state"),
        (model.nplugin, "plugins"),
    ):
        if count:
            raise cannot(what, f"take the {count} of them out of the MJCF")
    if option.density or option.viscosity:
        raise cannot("a fluid", "set density and viscosity to 0")
    if option.noslip_iterations:
        raise cannot("the noslip solver", "set noslip_iterations to 0")
    _flags(option)
    for body in range(model.nbody):
        if model.body_gravcomp[body]:
            raise cannot(f"gravity compensation of '{model.body(body).name}'", "set gravcomp to 0")
    _joints(model, trunk)
    _actuators(model)
    _geoms(model, trunk)


def _flags(option: mujoco.MjOption) -> None:
    """Refuses flags that are not known to be harmless, a newer MuJoCo's too."""
    for way, bits in (("disable", mujoco.mjtDisableBit), ("enable", mujoco.mjtEnableBit)):
        left = int(getattr(option, f"{way}flags"))
        for name, bit in bits.__members__.items():
            flag = name.split("_", 1)[1].lower() if "_" in name else ""
            if flag and left & int(bit) and flag not in HARMLESS[way]:
                raise cannot(f"the flag {flag}='{way}'", "take it out of the MJCF")


def _joints(model: mujoco.MjModel, trunk: int) -> None:
    kinds = mujoco.mjtJoint
    adr = int(model.body_jntadr[trunk])
    if model.body_jntnum[trunk] != 1 or int(model.jnt_type[adr]) != int(kinds.mjJNT_FREE):
        raise cannot("a base that does not float", "give the trunk one <freejoint/>")
    children: dict[int, int] = {}
    for j in range(model.njnt):
        name, body = model.joint(j).name or f"number {j}", int(model.jnt_bodyid[j])
        kind = int(model.jnt_type[j])
        if j == adr:
            continue
        if kind == int(kinds.mjJNT_FREE):
            raise cannot(f"a second free body ('{model.body(body).name}')", "take it out of the MJCF")
        if kind != int(kinds.mjJNT_HINGE):
            joint_type = "ball" if kind == int(kinds.mjJNT_BALL) else "slide"
            raise cannot(f"the {joint_type} joint '{name}'", "replace it by hinges")
        if model.body_jntnum[body] > 1:
            raise cannot(
                f"several joints on body '{model.body(body).name}'", "put a body between each two of them"
            )
        if model.jnt_margin[j]:
            raise cannot(f"the limit margin of joint '{name}'", "set it to 0")
        if model.jnt_actfrclimited[j]:
            raise cannot(
                f"actuatorfrcrange of joint '{name}'", "put the limit into the actuator's forcerange instead"
            )
        parent = int(model.body_parentid[body])
        while parent != trunk and parent != 0 and not model.body_jntnum[parent]:
            parent = int(model.body_parentid[parent])
        if parent == 0:
            raise cannot(f"joint '{name}' that is not on the robot", "take it out of the MJCF")
        if parent != trunk:
            if parent in children:
                raise cannot(
                    f"a chain that branches at '{model.body(parent).name}'", "lock one of its branches"
                )
            children[parent] = body
    free = int(model.jnt_dofadr[adr])
    for names, what in (("jnt_stiffnesspoly", "stiffness"), ("dof_dampingpoly", "damping")):
        if np.any(getattr(model, names, 0)):
            raise cannot(f"polynomial {what} of joints", "give one number")
    if model.jnt_stiffness[adr]:
        raise cannot("stiffness of the free joint", "set it to 0")
    for values, what in (
        (model.dof_damping, "damping"),
        (model.dof_frictionloss, "dry friction"),
        (model.dof_armature, "armature"),
    ):
        if values[free : free + 6].any():
            raise cannot(f"{what} of the free joint", "set it to 0")
    if model.njnt < 2:
        raise cannot("a robot without joints", "give it at least one hinge")


def _actuators(model: mujoco.MjModel) -> None:
    seen: set[int] = set()
    for a in range(model.nu):
        name = model.actuator(a).name or f"number {a}"
        if int(model.actuator_trntype[a]) != int(mujoco.mjtTrn.mjTRN_JOINT):
            raise cannot(f"actuator '{name}', which drives no joint", "take it out")
        gain, bias = model.actuator_gainprm[a], model.actuator_biasprm[a]
        servo = (
            int(model.actuator_gaintype[a]) == int(mujoco.mjtGain.mjGAIN_FIXED)
            and int(model.actuator_biastype[a]) == int(mujoco.mjtBias.mjBIAS_AFFINE)
            and bias[0] == 0
            and bias[1] == -gain[0]
            and model.actuator_gear[a, 0] == 1
            and not model.actuator_ctrllimited[a]
        )
        if not servo:
            raise cannot(f"actuator '{name}'", "make it a <position> servo with gear 1 and no ctrlrange")
        joint = int(model.actuator_trnid[a, 0])
        if joint in seen:
            raise cannot(f"a second actuator ('{name}') on one joint", "take one of them out")
        seen.add(joint)


def _geoms(model: mujoco.MjModel, trunk: int) -> None:
    kinds = mujoco.mjtGeom
    known = (int(kinds.mjGEOM_SPHERE), int(kinds.mjGEOM_CAPSULE), int(kinds.mjGEOM_BOX))
    ground: list[int] = []
    for g in range(model.ngeom):
        if not (model.geom_contype[g] or model.geom_conaffinity[g]):
            continue
        name = model.geom(g).name or f"number {g}"
        if model.geom_condim[g] != 3:
            raise cannot(f"condim {model.geom_condim[g]} of geom '{name}'", "set condim to 3")
        if model.geom_margin[g] or model.geom_gap[g]:
            raise cannot(f"the contact margin or gap of geom '{name}'", "set both to 0")
        if model.geom_bodyid[g] == 0:
            if int(model.geom_type[g]) not in (int(kinds.mjGEOM_PLANE), int(kinds.mjGEOM_HFIELD)):
                raise cannot(
                    f"geom '{name}' as ground", "make the ground a plane at height 0 or a heightfield"
                )
            if model.geom_type[g] == int(kinds.mjGEOM_PLANE) and not _level(model, g):
                raise cannot(f"the ground '{name}', raised or tilted", "lay it level at height 0")
            if ground:
                raise cannot(f"a second ground ('{name}')", "take one of them out of the MJCF")
            ground.append(g)
        elif int(model.geom_type[g]) not in known:
            kind = kinds(int(model.geom_type[g])).name.removeprefix("mjGEOM_").lower()
            raise cannot(f"contact of the {kind} '{name}'", "replace it by spheres, capsules or boxes")


def _level(model: mujoco.MjModel, plane: int) -> bool:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[plane])
    return bool(model.geom_pos[plane, 2] == 0 and turn[8] == 1)
