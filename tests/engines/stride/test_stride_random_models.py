"""Random robots through the numpy backend against MuJoCo: mass matrix, bias, contact forces, conservation.

Robots of one shape (chains, kinds of geoms) share a traced program, with their numbers as arrays, so hundreds
take seconds. Numbers that are constants fold away in a real robot's program: some are traced one by one.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from random_models import Shape, lowered, random_robot, random_states, targets_of

from surefoot.engines.stride.description import describe
from surefoot.engines.stride.layout import Layout, lay_out
from surefoot.engines.stride.numpy_backend import NumpyStep, inverse_weights
from surefoot.engines.stride.spatial import unpack

SHAPES, ROBOTS, STATES = 8, 32, 2
"""Of a test of hundreds: robots per shape, states per robot."""


def laid_out(model: mujoco.MjModel) -> Layout:
    return lay_out(describe(model, model.body("trunk").id), heightfield=False)


def compiled(seed: int, **options: bool) -> tuple[mujoco.MjModel, Layout, np.random.Generator]:
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(random_robot(rng, **options))
    return model, laid_out(model), rng


def robots_of_a_shape(
    seed: int, count: int, contacts: bool
) -> tuple[list[mujoco.MjModel], np.random.Generator]:
    rng = np.random.default_rng(seed)
    shape = Shape.random(rng)
    texts = [random_robot(rng, shape, contacts=contacts) for _ in range(count)]
    return [mujoco.MjModel.from_xml_string(text) for text in texts], rng


def full_matrix(layout: Layout, out: dict[str, np.ndarray], e: int, nv: int) -> np.ndarray:
    """The arrow as a dense matrix in MuJoCo's coordinates: linear part in the world."""
    M = np.zeros((nv, nv))
    mass, h = out["mass"][e], np.array([out[f"h{i}"][e] for i in range(3)])
    J = np.array([[float(x.value) for x in row] for row in unpack([out[f"J{i}"][e] for i in range(6)])])
    cross = np.array([[0, -h[2], h[1]], [h[2], 0, -h[0]], [-h[1], h[0], 0]])
    M[:6, :6] = np.block([[mass * np.eye(3), -cross], [cross, J]])
    for k in range(layout.chains):
        dofs = [row[k].dof for row in layout.links if row[k].dof >= 0]
        for i, a in enumerate(dofs):
            M[:6, a] = M[a, :6] = [out[f"F{i}_{c}"][k, e] for c in range(6)]
            for j in range(i + 1):
                M[a, dofs[j]] = M[dofs[j], a] = out[f"M{i * (i + 1) // 2 + j}"][k, e]
    turn = np.eye(nv)
    turn[:3, :3] = np.array([out[f"R{i}"][e] for i in range(9)]).reshape(3, 3)
    dense: np.ndarray = turn @ M @ turn.T
    return dense


def test_the_random_robots_have_any_number_of_chains_of_unequal_depths() -> None:
    found = [[len(c) for c in compiled(seed)[1].description.chains] for seed in range(40)]
    assert {len(depths) for depths in found} == {1, 2, 3, 4, 5}
    assert {d for depths in found for d in depths} == {1, 2, 3, 4, 5, 6}
    assert sum(len(set(depths)) > 1 for depths in found) > 20


def check_one_step(models: list[mujoco.MjModel], states: int, rng: np.random.Generator) -> int:
    """One step on the ground, at joint limits and with dry friction, of all robots in one program: mass
    matrix, forces, constraint forces, velocities and positions against MuJoCo's. Returns how many contacts
    there were."""
    friction = 0.7
    layouts = [laid_out(model) for model in models]
    datas = [mujoco.MjData(model) for model in models]
    qpos, qvel, control = [], [], []
    for model, data in zip(models, datas, strict=True):
        model.geom_friction[:, 0] = friction
        places, speeds = random_states(model, rng, states, (0.0, 0.0))
        qpos += [lowered(model, data, place) for place in places]
        qvel += list(speeds)
        order = [int(model.actuator_trnid[a, 0]) - 1 for a in range(model.nu)]
        control += [place[7:][order] + rng.uniform(-0.5, 0.5, model.nu) for place in qpos[-states:]]
    step = NumpyStep(*layouts)
    before, speed, aim = np.array(qpos), np.array(qvel), np.array(control)
    out = step(before, speed, targets_of(models[0], aim), friction=friction)
    moved, after = step.state(out, before, speed)
    contacts = 0
    for e in range(len(before)):
        model, data = models[e // states], datas[e // states]
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = before[e], speed[e], aim[e]
        mujoco.mj_forward(model, data)
        contacts += data.ncon
        dense = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, dense)
        np.testing.assert_allclose(
            full_matrix(layouts[0], out, e, model.nv), dense, atol=1e-10 * np.abs(dense).max()
        )
        R = np.array([out[f"R{i}"][e] for i in range(9)]).reshape(3, 3)
        # what the step applies: passive and actuator torque minus bias, which is mj_rne's
        forces = data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias
        mine, pushed = np.zeros(model.nv), np.zeros(model.nv)
        mine[:6] = [-out[f"fb{i}"][e] for i in range(6)]
        pushed[:6] = [out[f"cw{i}"][:, e].sum() for i in range(6)]
        for i, k, link in step.links:
            if link.dof >= 0:
                mine[link.dof], pushed[link.dof] = out[f"tau{i}"][k, e], out[f"ft{i}"][k, e]
        mine[:3], pushed[:3] = R @ mine[:3], R @ pushed[:3]
        np.testing.assert_allclose(mine, forces, atol=1e-9 * np.abs(forces).max())
        np.testing.assert_allclose(
            pushed, data.qfrc_constraint, atol=1e-4 * np.abs(data.qfrc_constraint).max() + 1e-9
        )
        mujoco.mj_step(model, data)
        change = np.abs(data.qvel - speed[e]).max()
        np.testing.assert_allclose(after[e], data.qvel, atol=1e-4 * change)
        np.testing.assert_allclose(moved[e], data.qpos, atol=1e-4 * change * model.opt.timestep + 1e-9)
    return contacts


@pytest.mark.parametrize("seed", range(SHAPES))
def test_one_step_of_hundreds_of_robots_is_mujocos(seed: int) -> None:
    models, rng = robots_of_a_shape(seed, ROBOTS, contacts=True)
    assert check_one_step(models, STATES, rng) > ROBOTS


@pytest.mark.parametrize("seed", range(6))
def test_one_step_of_a_robot_whose_constants_fold_is_mujocos(seed: int) -> None:
    model, _, rng = compiled(100 + seed)
    assert check_one_step([model], 8, rng) > 0


def test_inverse_weights_are_mujocos_for_any_payload() -> None:
    for seed in range(60):
        model, layout, rng = compiled(seed)
        d, trunk = layout.description, model.body("trunk").id
        mass, shift = float(rng.uniform(0.5, 2.0)), rng.uniform(-0.1, 0.1, 3)
        total, com = d.trunk_mass * mass, d.trunk_com + shift
        model.body_mass[trunk] *= mass
        model.body_inertia[trunk] *= mass
        model.body_ipos[trunk] += shift
        mujoco.mj_setConst(model, mujoco.MjData(model))
        bodies, dofs = inverse_weights(d, np.array([total]), com[None])
        np.testing.assert_allclose(
            dofs[0], model.dof_invweight0[[link.dof for chain in d.chains for link in chain]], rtol=1e-8
        )
        assert bodies[0, 0] == pytest.approx(model.body_invweight0[trunk, 0], rel=1e-8)
        for name in {model.geom(g).bodyid[0] for g in range(model.ngeom)} - {0, trunk}:
            assert np.abs(bodies[0] / model.body_invweight0[name, 0] - 1).min() < 1e-8


def free(model: mujoco.MjModel) -> None:
    """Nothing acts on the robot but gravity."""
    for figure in (model.dof_damping, model.dof_frictionloss, model.jnt_stiffness):
        figure[:] = 0.0
    model.actuator_gainprm[:], model.actuator_biasprm[:] = 0.0, 0.0
    model.jnt_limited[:] = 0
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)


def conserved(model: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    """Linear momentum, angular momentum about the centre of mass, energy."""
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    mujoco.mj_energyPos(model, data)
    mujoco.mj_energyVel(model, data)
    mujoco.mj_subtreeVel(model, data)
    momentum = data.subtree_linvel[1] * model.body_subtreemass[1]
    return np.array([*momentum, *data.subtree_angmom[1], data.energy.sum()])


@pytest.mark.parametrize("seed", range(SHAPES))
def test_accelerations_of_hundreds_of_robots_in_flight_conserve_momentum_and_energy(seed: int) -> None:
    """Central differences along the motion that the step's acceleration begins: gravity alone changes
    momentum, and nothing changes energy or angular momentum."""
    models, rng = robots_of_a_shape(50 + seed, ROBOTS, contacts=False)
    for model in models:
        free(model)
    qpos, qvel = (
        np.concatenate(x) for x in zip(*(random_states(m, rng, 1, (3.0, 4.0)) for m in models), strict=True)
    )
    qvel *= 3
    step = NumpyStep(*map(laid_out, models))
    _, after = step.state(step(qpos, qvel, targets_of(models[0], qpos[:, 7:])), qpos, qvel)
    h = 1e-4
    for e, model in enumerate(models):
        data = mujoco.MjData(model)
        acceleration = (after[e] - qvel[e]) / model.opt.timestep
        ends = []
        for t in (-h, h):
            place, speed = qpos[e].copy(), qvel[e] + t * acceleration
            mujoco.mj_integratePos(model, place, qvel[e] + t / 2 * acceleration, t)
            ends.append(conserved(model, data, place, speed))
        rate = (ends[1] - ends[0]) / (2 * h)
        weight = model.body_subtreemass[1] * model.opt.gravity
        now = np.abs(conserved(model, data, qpos[e], qvel[e]))
        # of what would change in a second if it turned with the trunk
        turning = np.linalg.norm(qvel[e, 3:6])
        np.testing.assert_allclose(rate[:3], weight, atol=1e-5 * turning * now[:3].max())
        np.testing.assert_allclose(rate[3:6], 0.0, atol=1e-5 * turning * now[3:6].max())
        assert abs(rate[6]) < 1e-5 * turning * now[6]


@pytest.mark.parametrize("seed", range(6))
def test_fifty_steps_of_free_flight_conserve_momentum_and_energy(seed: int) -> None:
    model, _, rng = compiled(seed, contacts=False)
    model.opt.timestep, model.opt.gravity[:] = 2e-4, 0.0
    free(model)
    step, data = NumpyStep(laid_out(model)), mujoco.MjData(model)
    qpos, qvel = random_states(model, rng, 1, (1.0, 1.0))

    before = conserved(model, data, qpos[0], qvel[0])
    start = qvel.copy()
    for _ in range(50):
        qpos, qvel = step.state(step(qpos, qvel, targets_of(model, qpos[:, 7:])), qpos, qvel)
    after = conserved(model, data, qpos[0], qvel[0])
    assert np.abs(qvel - start).max() > 1e-3, "nothing moved"
    np.testing.assert_allclose(after, before, atol=2e-3 * np.abs(before).max())
    assert np.linalg.norm(after[:3] - before[:3]) < 2e-3 * np.linalg.norm(before[:3])
