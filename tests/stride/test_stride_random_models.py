"""Random robots through the numpy backend against MuJoCo: mass matrix, bias, contact forces, conservation."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_models import random_robot, random_states, targets_of

from surefoot.engines.stride.algebra import unpack
from surefoot.engines.stride.description import describe
from surefoot.engines.stride.layout import Layout, lay_out
from surefoot.engines.stride.numpy_backend import NumpyStep, inverse_weights

SEEDS = st.integers(0, 2**32 - 1)
EASY = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def compiled(seed: int, **options: bool) -> tuple[mujoco.MjModel, Layout, np.random.Generator]:
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(random_robot(rng, **options))
    return model, lay_out(describe(model, model.body("trunk").id), heightfield=False), rng


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


@settings(EASY, max_examples=40)
@given(SEEDS)
def test_mass_matrix_and_bias_are_mujocos(seed: int) -> None:
    model, layout, rng = compiled(seed, contacts=False)
    qpos, qvel = random_states(model, rng, 4, (3.0, 4.0))
    qvel *= 3
    step = NumpyStep(layout)
    control = rng.uniform(-1, 1, (4, model.nu))
    out = step(qpos, qvel, targets_of(model, control))
    data = mujoco.MjData(model)
    for e in range(4):
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[e], qvel[e], control[e]
        mujoco.mj_forward(model, data)
        expected = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, expected)
        found = full_matrix(layout, out, e, model.nv)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        # forces that the step applies: passive and actuator torque minus bias
        forces = data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias
        R = np.array([out[f"R{i}"][e] for i in range(9)]).reshape(3, 3)
        base = -np.array([out[f"fb{i}"][e] for i in range(6)])
        base[:3] = R @ base[:3]
        scale = np.abs(forces).max()
        np.testing.assert_allclose(base, forces[:6], atol=1e-9 * scale)
        for i, k, link in step.links:
            if link.dof >= 0:
                np.testing.assert_allclose(out[f"tau{i}"][k, e], forces[link.dof], atol=1e-9 * scale)


@EASY
@given(SEEDS)
def test_inverse_weights_are_mujocos_for_any_payload(seed: int) -> None:
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


@settings(EASY, max_examples=24)
@given(SEEDS)
def test_one_step_with_contacts_limits_and_friction_is_mujocos(seed: int) -> None:
    model, layout, rng = compiled(seed)
    count = 8
    qpos, qvel = random_states(model, rng, count, (0.0, 0.0))
    data = mujoco.MjData(model)
    # Down to the ground until the lowest point is a few millimetres in, as in life.
    for e in range(count):
        data.qpos[:] = qpos[e]
        for _ in range(60):
            mujoco.mj_forward(model, data)
            deepest = min((c.dist for c in data.contact), default=np.inf)
            if deepest < -1e-3:
                break
            data.qpos[2] -= 0.02 if not np.isfinite(deepest) else 0.004
        qpos[e] = data.qpos
    targets = qpos[:, 7:] + rng.uniform(-0.5, 0.5, (count, model.nu))
    order = [int(model.actuator_trnid[a, 0]) - 1 for a in range(model.nu)]
    control = targets[:, order]
    friction = 0.7
    model.geom_friction[:, 0] = friction
    step = NumpyStep(layout)
    out = step(qpos, qvel, targets_of(model, control), friction=friction)
    moved, speed = step.state(out, qpos, qvel)
    for e in range(count):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[e], qvel[e], control[e]
        mujoco.mj_step(model, data)
        change = np.abs(data.qvel - qvel[e]).max()
        np.testing.assert_allclose(speed[e], data.qvel, atol=1e-4 * change)
        np.testing.assert_allclose(moved[e], data.qpos, atol=1e-4 * change * model.opt.timestep + 1e-9)
        # forces of all constraints: the ground's on the whole robot, and what every joint feels
        R = np.array([out[f"R{i}"][e] for i in range(9)]).reshape(3, 3)
        pushed = np.zeros(model.nv)
        pushed[:6] = [out[f"cw{i}"][:, e].sum() for i in range(6)]
        pushed[:3] = R @ pushed[:3]
        for i, k, link in step.links:
            if link.dof >= 0:
                pushed[link.dof] = out[f"ft{i}"][k, e]
        np.testing.assert_allclose(
            pushed, data.qfrc_constraint, atol=1e-4 * np.abs(data.qfrc_constraint).max() + 1e-9
        )


@pytest.mark.parametrize("seed", range(6))
def test_free_flight_conserves_momentum_and_energy(seed: int) -> None:
    model, _, rng = compiled(seed, contacts=False)
    model.opt.timestep, model.opt.gravity[:] = 2e-4, 0.0
    for figure in (model.dof_damping, model.dof_frictionloss, model.jnt_stiffness):
        figure[:] = 0.0
    model.actuator_gainprm[:], model.actuator_biasprm[:] = 0.0, 0.0
    model.jnt_limited[:] = 0
    layout = lay_out(describe(model, model.body("trunk").id), heightfield=False)
    step, data = NumpyStep(layout), mujoco.MjData(model)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    qpos, qvel = random_states(model, rng, 1, (1.0, 1.0))

    def conserved() -> np.ndarray:
        data.qpos[:], data.qvel[:] = qpos[0], qvel[0]
        mujoco.mj_forward(model, data)
        mujoco.mj_subtreeVel(model, data)
        return np.array([*data.subtree_linvel[1], *data.subtree_angmom[1], data.energy.sum()])

    before = conserved()
    start = qvel.copy()
    for _ in range(50):
        qpos, qvel = step.state(step(qpos, qvel, targets_of(model, qpos[:, 7:])), qpos, qvel)
    after = conserved()
    assert np.abs(qvel - start).max() > 1e-3, "nothing moved"
    np.testing.assert_allclose(after, before, atol=2e-3 * np.abs(before).max())
    assert np.linalg.norm(after[:3] - before[:3]) < 2e-3 * np.linalg.norm(before[:3])
