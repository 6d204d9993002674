"""The same physics step in float64 by numpy: slow, and needs no compiler. For tests and for reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.compiler import Function, Watch, nobody, run
from surefoot.engines.stride.description import Description, spatial_inertia
from surefoot.engines.stride.layout import Layout, stack
from surefoot.engines.stride.step import StepProgram, build_integration, build_step


def inverse_weights(d: Description, mass: np.ndarray, com: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's inverse weights of contact bodies [N, B] and joints [N, J], for trunks of `mass` and `com`.

    The trunk's inertia scales with its mass.
    """
    bodies, dofs = [], []
    for m, c in zip(mass, com, strict=True):
        S = d.weights.legs + spatial_inertia(m, c, d.trunk_inertia * (m / d.trunk_mass))
        inverse = np.linalg.inv(S)
        body = d.weights.body_constant + np.einsum("bij,ij->b", d.weights.body_form, inverse)
        reach = spatial_inertia(1.0, c, np.zeros((3, 3)))[:3]  # velocity of the trunk's centre of mass
        body[0] = np.trace(reach @ inverse @ reach.T) / 3
        bodies.append(body)
        dofs.append(d.weights.dof_constant + np.einsum("jab,ab->j", d.weights.dof_form, inverse))
    return np.array(bodies), np.array(dofs)


class NumpyStep:
    """Steps [N] robots in MuJoCo's coordinates: qpos [N, nq], qvel [N, nv], joint targets [N, K * depth].

    Different robots of one shape share a program: the first N / M environments are of the first, and so on.
    """

    def __init__(self, *layouts: Layout, functions: Mapping[str, Function] | None = None) -> None:
        self.layout = layout = layouts[0]
        self.robots = [x.description for x in layouts]
        self.program: StepProgram = build_step(stack(layouts) if len(layouts) > 1 else layout)
        self.program.body = [*self.program.body, *build_integration(self.program)]
        self.functions = functions or {}
        self.watch: Watch = nobody
        self.links = [(i, k, row[k]) for i, row in enumerate(layout.links) for k in range(layout.chains)]

    def __call__(
        self,
        qpos: np.ndarray,
        qvel: np.ndarray,
        targets: Mapping[str, np.ndarray],
        warm: Mapping[str, np.ndarray] | None = None,
        *,
        base: tuple[int, int] = (0, 0),
        friction: float | np.ndarray = 0.8,
        mass: np.ndarray | None = None,
        com: np.ndarray | None = None,
    ) -> dict[str, Any]:
        """Variables after a step. `targets` by joint name; `base` addresses the free joint."""
        n, K, D = len(qpos), self.layout.chains, self.layout.depth
        b, v = base
        each = n // len(self.robots)
        robots = [d for d in self.robots for _ in range(each)]
        mass = np.array([d.trunk_mass for d in robots]) if mass is None else mass
        com = np.stack([d.trunk_com for d in robots]) if com is None else com
        parts = [slice(i * each, (i + 1) * each) for i in range(len(self.robots))]
        weights_of = [inverse_weights(d, mass[s], com[s]) for d, s in zip(self.robots, parts, strict=True)]
        bodies, dofs = (np.concatenate(x) for x in zip(*weights_of, strict=True))
        values: dict[str, Any] = {"mu": np.broadcast_to(friction, n), "awake": np.ones(n)}
        values |= dict.fromkeys(("kp", "kd", "strength"), np.ones(n))
        for i in range(3):
            values |= {f"pos{i}": qpos[:, b + i], f"vel{i}": qvel[:, v + i], f"ang{i}": qvel[:, v + 3 + i]}
        values |= {f"quat{i}": qpos[:, b + 3 + i] for i in range(4)}
        own = np.stack(
            [
                d.fixed + spatial_inertia(m, c, d.trunk_inertia * (m / d.trunk_mass))
                for d, m, c in zip(robots, mass, com, strict=True)
            ]
        )
        values["m0"] = own[:, 0, 0]
        values |= {f"h0_{k}": own[:, 3 + i, j] for k, (i, j) in enumerate(((2, 1), (0, 2), (1, 0)))}
        own = own[:, 3:, 3:]
        places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
        values |= {f"J0_{k}": own[:, i, j] for k, (i, j) in enumerate(places)}
        for name in ("q", "qd", "target", "dofw"):
            values |= {f"{name}{i}": np.zeros((K, n)) for i in range(D)}
        order = {name: j for j, name in enumerate(self.robots[0].names)}
        for i, k, link in self.links:
            if link.dof < 0:
                values[f"dofw{i}"][k] = 1.0
                continue
            values[f"q{i}"][k], values[f"qd{i}"][k] = qpos[:, link.qpos], qvel[:, link.dof]
            values[f"target{i}"][k], values[f"dofw{i}"][k] = targets[link.name], dofs[:, order[link.name]]
        weights = np.ones((max(self.layout.slot_count, 1), K, n))
        for spot in self.layout.spots:
            figures = bodies[:, spot.bodies].transpose(1, 2, 0)
            if spot.group is None:
                values[f"iw_{spot.number}"] = figures[0]
            else:
                weights[spot.group.start : spot.group.stop] = figures
        values["iw"] = weights
        known = self.program.variables
        values = {k: x for k, x in (values | dict(warm or {})).items() if k in known}
        return run(self.program, values, self.functions, self.watch)

    def state(
        self, out: Mapping[str, Any], qpos: np.ndarray, qvel: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """qpos and qvel after the step, from what the call returned (base at address 0)."""
        qpos, qvel = qpos.copy(), qvel.copy()
        for i in range(3):
            qpos[:, i], qvel[:, i], qvel[:, 3 + i] = out[f"pos{i}"], out[f"vel{i}"], out[f"ang{i}"]
        for i in range(4):
            qpos[:, 3 + i] = out[f"quat{i}"]
        for i, k, link in self.links:
            if link.dof >= 0:
                qpos[:, link.qpos], qvel[:, link.dof] = out[f"q{i}"][k], out[f"qd{i}"][k]
        return qpos, qvel
