"""Random robots of the family that stride takes: any number of chains of any depths, any axes and offsets."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.robots import RobotSpec

GEOMS = {"sphere": "0.03", "capsule": "0.02 0.08", "box": "0.05 0.04 0.03"}


@dataclass(frozen=True)
class Shape:
    """What robots must have in common to share a program: chains, geoms, and the world."""

    geoms: list[list[str]]  # of every link, chain by chain
    trunk: str
    impratio: float
    gravity: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator) -> Shape:
        kinds = list(GEOMS)
        depths = rng.integers(1, 7, int(rng.integers(1, 6)))
        geoms = [[str(rng.choice(kinds)) for _ in range(depth)] for depth in depths]
        gravity = np.array([*rng.uniform(-1, 1, 2), -9.81])
        return cls(geoms, str(rng.choice(kinds)), float(rng.choice([1.0, 5.0])), gravity)


def numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(x)) for x in np.atleast_1d(values))


@dataclass(frozen=True)
class Servo:
    joint: str
    kp: float
    kd: float


TORQUE_NM = 12.0


def random_trunk(rng: np.random.Generator, shape: Shape, contacts: bool) -> tuple[str, list[Servo]]:
    """MJCF of the trunk with all chains on it; half of the robots have axes along coordinates."""
    aligned = bool(rng.random() < 0.5)
    bodies, servos = [], []
    for k, chain in enumerate(shape.geoms):
        text = ""
        for i in reversed(range(len(chain))):
            name = f"j{k}_{i}"
            axis = np.eye(3)[rng.integers(3)] * rng.choice([-1, 1]) if aligned else rng.normal(size=3)
            quat = np.array([1.0, 0, 0, 0]) if aligned else rng.normal(size=4)
            text = f"""
<body name="b{k}_{i}" pos="{numbers(rng.uniform(-0.3, 0.3, 3))}" quat="{numbers(quat)}">
  {inertial(rng, 1.0)}
  <joint name="{name}" axis="{numbers(axis)}" pos="{numbers(rng.uniform(-0.05, 0.05, 3))}"
    ref="{rng.uniform(-0.3, 0.3)}" range="{rng.uniform(-2, -0.3)} {rng.uniform(0.3, 2)}"
    armature="{rng.uniform(0, 0.05)}" damping="{rng.uniform(0, 0.5)}"
    stiffness="{rng.choice([0.0, 3.0])}" springref="0.1" frictionloss="{rng.choice([0.0, 0.2])}"/>
  {geom(rng, f"g{k}_{i}", chain[i]) if contacts else ""}
  {text}
</body>"""
            servos.append(Servo(name, rng.uniform(5, 40), rng.uniform(0, 1)))
        bodies.append(text)
    return (
        f"""
    <body name="trunk"><freejoint/>
      {inertial(rng, 5.0)}
      {geom(rng, "g_trunk", shape.trunk) if contacts else ""}
      <body name="fixed" pos="0.1 0 0.05" quat="0.9 0.1 0.2 0.3">{inertial(rng, 0.5)}</body>
      {"".join(bodies)}
    </body>""",
        servos,
    )


def random_robot(rng: np.random.Generator, shape: Shape | None = None, *, contacts: bool = True) -> str:
    """MJCF of a robot on a plane with servos."""
    shape = Shape.random(rng) if shape is None else shape
    trunk, servos = random_trunk(rng, shape, contacts)
    driven = [
        f'<position joint="{s.joint}" kp="{s.kp}" kv="{s.kd}" forcerange="{-TORQUE_NM} {TORQUE_NM}"/>'
        for s in servos
    ]
    return f"""
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <option integrator="implicitfast" cone="elliptic" impratio="{shape.impratio}" timestep="0.004"
    iterations="200" ls_iterations="200" tolerance="1e-13" gravity="{numbers(shape.gravity)}"/>
  <default><geom contype="1" conaffinity="0" condim="3"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" contype="0" conaffinity="1"/>
    {trunk}
  </worldbody>
  <actuator>{"".join(driven)}</actuator>
</mujoco>"""


def random_spec(seed: int) -> RobotSpec:
    """Such a robot as engines take it, its joints in an order of their own; the last geom of a chain is a
    foot, whatever it is."""
    rng = np.random.default_rng(seed)
    shape = Shape.random(rng)
    trunk, servos = random_trunk(rng, shape, contacts=True)
    rng.shuffle(servos)
    joints = [s.joint for s in servos]
    legs = sorted(range(len(shape.geoms)), key=lambda k: joints.index(f"j{k}_0"))
    return RobotSpec.describe(
        name=f"random-{seed}",
        mjcf=f"""<mujoco model="random-{seed}"><compiler angle="radian" autolimits="true"/>
<option gravity="{numbers(shape.gravity)}"/>
<default><geom contype="1" conaffinity="0" condim="3"/></default>
<worldbody>{trunk}</worldbody></mujoco>""",
        trunk="trunk",
        joints=joints,
        feet=[f"g{k}_{len(shape.geoms[k]) - 1}" for k in legs],
        default_pose=[0.0] * len(servos),
        kp=[s.kp for s in servos],
        kd=[s.kd for s in servos],
        torque_limit_nm=[TORQUE_NM] * len(servos),
        sources="drawn",
    )


def inertial(rng: np.random.Generator, mass: float) -> str:
    a, b = rng.uniform(0.5, 1.5, 2) * 0.01 * mass
    c = rng.uniform(abs(a - b) + 1e-4, a + b)  # the triangle inequality of inertias
    return (
        f'<inertial mass="{mass * rng.uniform(0.5, 1.5)}" pos="{numbers(rng.uniform(-0.1, 0.1, 3))}" '
        f'quat="{numbers(rng.normal(size=4))}" diaginertia="{a} {b} {c}"/>'
    )


def geom(rng: np.random.Generator, name: str, kind: str) -> str:
    return (
        f'<geom name="{name}" type="{kind}" size="{GEOMS[kind]}" pos="{numbers(rng.uniform(-0.1, 0.1, 3))}" '
        f'quat="{numbers(rng.normal(size=4))}" solref="{rng.uniform(0.01, 0.03)} {rng.uniform(0.7, 1.3)}"/>'
    )


def lowered(model: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray) -> np.ndarray:
    """Down to the ground until the lowest point is a few millimetres in, as in life."""
    data.qpos[:] = qpos
    for _ in range(60):
        mujoco.mj_fwdPosition(model, data)
        deepest = min((c.dist for c in data.contact), default=np.inf)
        if deepest < -1e-3:
            break
        data.qpos[2] -= 0.02 if not np.isfinite(deepest) else 0.004
    return data.qpos.copy()


def random_states(
    model: mujoco.MjModel, rng: np.random.Generator, count: int, height: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    qpos = np.tile(model.qpos0, (count, 1))
    qpos[:, :2] = rng.uniform(-1, 1, (count, 2))
    qpos[:, 2] = rng.uniform(*height, count)
    quat = rng.normal(size=(count, 4))
    qpos[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    qpos[:, 7:] += rng.uniform(-1, 1, (count, model.nq - 7))
    return qpos, rng.normal(size=(count, model.nv))


def targets_of(model: mujoco.MjModel, values: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of `values` [N, nu] by the name of the joint that each drives."""
    return {model.joint(int(model.actuator_trnid[a, 0])).name: values[:, a] for a in range(model.nu)}
