"""Do robots gain energy from nothing, fall as bodies fall, and stay above the ground?"""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.kept_traces import traces
from surefoot.audits.lived import NEVER, Arrays, edited, live
from surefoot.audits.whole_steps import everybody, ground_below, middles, put, robot_of

ALOFT_M, DROP_M = 3.0, 0.1
"""Heights above the ground, and above standing on it, that robots are dropped from."""
FLIGHT, DROP = 6, 40
"""Control steps in the air, and from the start until a robot stands."""
LANDED = 48
"""Environments whose energy is worked out step by step."""
GAINED, FINE_S = 0.03, 0.006
"""Share of a start's energy above the ground that integration may add, in physics steps no longer than this;
clean runs: none. Coarser plants do bounce from hard landings."""
FELL = 0.004
"""Share of g by which a falling centre of mass may be off; clean runs: below 0.0003."""
SUNK_M, STEPS_SUNK = 0.03, 3
"""Depth of feet's centres below the ground in as many control steps; clean runs: below 0.013 m."""


def look(case: Case) -> list[Found]:
    """Lets robots fly and land with servos that hold one pose, then looks at feet of held-out episodes."""
    found = [*_flight(case), *_landing(case)]
    if case.record.confirmation is not None:
        found += below(case)
    return found


class Body:
    """The robot alone in MuJoCo, in the body of one environment after the other."""

    def __init__(self, case: Case, parameters: Arrays) -> None:
        self.spec = robot_of(everybody(case))
        self.model = self.spec.compile()
        self.data = mujoco.MjData(self.model)
        self.trunk = self.model.body(self.spec.trunk).id
        self.base = int(self.model.body_jntadr[self.trunk])
        self.p = parameters
        m = self.model
        self._own = (
            m.body_mass[self.trunk],
            m.body_inertia[self.trunk].copy(),
            m.body_ipos[self.trunk].copy(),
        )
        joints = [m.joint(j) for j in self.spec.joints]
        self.q = [int(j.qposadr[0]) for j in joints]
        self.v = [int(j.dofadr[0]) for j in joints]

    def energy(self, robot: Arrays, e: int, target: np.ndarray) -> tuple[float, float]:
        """Returns the energy of environment `e`, with what its servos hold in their springs towards `target`,
        and the vertical velocity of its centre of mass."""
        m, d, p = self.model, self.data, self.p
        mass, inertia, at = self._own
        payload = float(p["payload_kg"][e])
        m.body_mass[self.trunk] = mass + payload
        m.body_subtreemass[[0, self.trunk]] = m.body_mass.sum()
        m.body_inertia[self.trunk] = inertia * (mass + payload) / mass
        m.body_ipos[self.trunk] = at + p["com_m"][e]
        q, v = int(m.jnt_qposadr[self.base]), int(m.jnt_dofadr[self.base])
        d.qpos[:] = m.qpos0
        d.qpos[q : q + 3], d.qpos[q + 3 : q + 7] = robot["position"][e], robot["quaternion"][e]
        d.qpos[self.q], d.qvel[self.v] = robot["joint_position"][e], robot["joint_velocity"][e]
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, robot["quaternion"][e].astype(np.float64))
        d.qvel[v : v + 3] = turn.reshape(3, 3) @ robot["linear_velocity"][e]
        d.qvel[v + 3 : v + 6] = robot["angular_velocity"][e]
        mujoco.mj_fwdPosition(m, d)
        mujoco.mj_fwdVelocity(m, d)
        mujoco.mj_energyPos(m, d)
        mujoco.mj_energyVel(m, d)
        mujoco.mj_subtreeVel(m, d)
        stiff = float(p["kp_scale"][e] * p["strength"][e]) * np.asarray(self.spec.kp)
        springs = 0.5 * float(stiff @ (target - robot["joint_position"][e]) ** 2)
        return float(d.energy.sum()) + springs, float(d.subtree_linvel[self.trunk, 2])


def _whose(case: Case, count: int) -> np.ndarray:
    n = everybody(case).num_envs
    return np.sort(case.numbers("mechanics").choice(n, min(n, count), replace=False))


def _flight(case: Case) -> Iterator[Found]:
    """A centre of mass in the air falls at g, while the robot turns and its legs keep their pose."""
    env, dt = everybody(case), 1.0 / case.robot.recipe.control_hz
    home = env.snapshot()
    calm = edited(home, script__push_step=NEVER, task__age=10, task__command=0.0, script__commands=0.0)
    middle = middles(env, home)
    numbers, n = case.numbers("flight"), env.num_envs
    height = ground_below(case, env, middle) + ALOFT_M
    put(env, calm, position=np.column_stack([middle, height]), angular_velocity=numbers.normal(0, 1, (n, 3)))
    still = torch.zeros(n, env.contract.action.size)
    steps = live(env, lambda t: still, FLIGHT)
    env.restore(home)
    body = Body(case, {k[11:]: v.numpy() for k, v in home.items() if k.startswith("parameters.")})
    alive = np.all([s.going for s in steps], 0)
    target = np.asarray(body.spec.default_pose)
    chosen = [e for e in _whose(case, n) if alive[e]]
    speed = np.array([[body.energy(s.robot, e, target)[1] for e in chosen] for s in (steps[0], steps[-1])])
    g = -(speed[1] - speed[0]) / (dt * (FLIGHT - 1))
    bad = ~(np.abs(g / -float(body.model.opt.gravity[2]) - 1) <= FELL)
    if bad.any():
        text = (
            f"In the air {int(bad.sum())} of {len(chosen)} robots do not fall at g: {g[bad].mean():.2f} m/s2."
        )
        yield Found(text)


def _landing(case: Case) -> Iterator[Found]:
    """A robot that is dropped, with servos that hold one pose, never has more energy than it began with."""
    env = everybody(case)
    home = env.snapshot()
    calm = edited(home, script__push_step=NEVER, task__age=10, task__command=0.0, script__commands=0.0)
    middle, spec = middles(env, home), robot_of(env)
    floor = ground_below(case, env, middle)
    put(env, calm, position=np.column_stack([middle, floor + spec.stand_height_m + DROP_M]))
    still = torch.zeros(env.num_envs, env.contract.action.size)
    steps = live(env, lambda t: still, DROP)
    env.restore(home)
    alive = np.all([s.going for s in steps], 0)
    if case.robot.training_plant.dt_s <= FINE_S:
        body = Body(case, {k[11:]: v.numpy() for k, v in home.items() if k.startswith("parameters.")})
        chosen = [e for e in _whose(case, LANDED) if alive[e]]
        gained = sum(_gains(body, [s.robot for s in steps], e) for e in chosen)
        if gained:
            text = f"{gained} of {len(chosen)} robots that hold a pose have more energy than they began with."
            yield Found(text)
    feet = steps[-1].robot["foot_position"].astype(np.float64)
    below = ground_below(case, env, feet[..., :2].reshape(-1, 2)).reshape(feet.shape[:2])
    depth = (below - feet[..., 2]).max(1)
    if (bad := alive & (depth > SUNK_M)).any():
        deepest = 100 * depth[bad].max()
        text = f"Feet of {int(bad.sum())} of {int(alive.sum())} standing robots are {deepest:.0f} cm"
        yield Found(f"{text} in the ground.")


def _gains(body: Body, states: list[Arrays], e: int) -> bool:
    """Says whether environment `e` ever has more energy than at first, up to where a torque was limited."""
    spec = body.spec
    target = np.asarray(spec.default_pose)
    most = 0.95 * np.asarray(spec.torque_limit_nm) * body.p["strength"][e]
    begun = body.energy(states[0], e, target)[0]
    weight = -float(body.model.opt.gravity[2]) * float(body.model.body_mass.sum())
    allowed = begun + GAINED * weight * (spec.stand_height_m + DROP_M)
    for k, robot in enumerate(states):
        if (np.abs(robot["torque"][e]) > most).any():
            return False
        if k % 2 and body.energy(robot, e, target)[0] > allowed:
            return True
    return False


def below(case: Case) -> Iterator[Found]:
    """Looks for feet of held-out episodes that stay in the ground."""
    kept = traces(case)
    deep = [np.sort(t.feet_above.min(1))[:STEPS_SUNK][-1] for t in kept if t.steps >= STEPS_SUNK]
    bad = [d for d in deep if d < -SUNK_M]
    if bad:
        text = f"In {len(bad)} of {len(deep)} kept held-out episodes feet are up to {-100 * min(bad):.0f} cm"
        yield Found(f"{text} in the ground.", cause="panel-plant")


DETECTORS = (
    Detector(
        name="mechanics",
        kind="proof",
        cause="physics",
        asks="Do robots fall as bodies fall, gain no energy from nothing, and stay above the ground?",
        statistic="vertical acceleration of the centre of mass in flight, all environments; energy of robots "
        "that hold a pose and are dropped, motion, height and servos' springs together; depth of feet, there "
        "and in kept held-out episodes; masses and energies by MuJoCo from the robot's own model",
        threshold="0.4% of g (clean runs: 0.03%), 3% of a start's energy (clean runs: none), 3 cm (1.3 cm)",
        means="The simulator makes or loses what bodies cannot: a policy may live off that.",
        remedy="Compare time step, gravity, masses and contact with the engine's conformance checks.",
        look=look,
        needs=("robot",),
    ),
)
