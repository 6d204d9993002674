"""The open-loop trot once more, from its words: feet of one diagonal lift while those of the other push the
ground backwards, as fast as is commanded. How joints move feet is measured, by moving them."""

from __future__ import annotations

import mujoco
import numpy as np

from surefoot.contract import TaskContract
from surefoot.robots import RobotSpec

TROT_HZ, LIFT_M = 2.2, 0.05
"""Steps per second of each foot of a robot without a gait clock, and how far it is lifted."""
BY_RAD = 1e-5


def trot_actions(
    contract: TaskContract, robot: RobotSpec, control_hz: float, command: np.ndarray
) -> np.ndarray | None:
    """Returns the actions [T, A] that a trot takes under commands [T, 3]; None for legs of other joints than
    hip, thigh and calf."""
    feet, steps = len(robot.feet), len(command)
    if len(robot.joints) != 3 * feet:
        return None
    prior = contract.prior
    hz = prior.clock_hz if prior else TROT_HZ
    diagonal = prior.offsets if prior else [0.5 * (k in (1, 2)) for k in range(4)] * (feet // 4 + 1)
    place, reached = _legs(robot)
    out = np.zeros((steps, len(robot.joints)))
    for k in range(steps):
        vx, vy, wz = command[k].astype(float)
        if max(abs(vx), abs(vy), abs(wz)) <= contract.command.dead_zone:
            continue
        for f in range(feet):
            turn = 2 * np.pi * (k * hz / control_hz + diagonal[f])
            # It stands for half a period, and travels as far as the trunk does meanwhile.
            stride = np.array([vx - wz * place[f, 1], vy + wz * place[f, 0]]) / hz / 2
            up = 0.0 if prior else LIFT_M * max(np.sin(turn), 0.0)
            wanted = np.array([*(-np.cos(turn) * stride / 2), up])
            out[k] += np.linalg.pinv(reached[f], rcond=1e-3) @ wanted / contract.action.scale_rad
    return np.clip(out, -contract.action.clip, contract.action.clip)


def _legs(robot: RobotSpec) -> tuple[np.ndarray, np.ndarray]:
    """Returns where feet are in the default pose [F, 3], from the trunk, and how far each joint moves each of
    them [F, 3, J], per radian."""
    model = robot.compile()
    data = mujoco.MjData(model)
    at = [int(model.joint(j).qposadr[0]) for j in robot.joints]
    geoms = [model.geom(f).id for f in robot.feet]

    def feet(pose: np.ndarray) -> np.ndarray:
        data.qpos[at] = pose
        mujoco.mj_kinematics(model, data)
        return np.asarray(data.geom_xpos[geoms] - data.xpos[model.body(robot.trunk).id])

    pose = np.asarray(robot.default_pose, np.float64)
    moved = [(feet(pose + BY_RAD * e) - feet(pose - BY_RAD * e)) / (2 * BY_RAD) for e in np.eye(len(pose))]
    return feet(pose), np.stack(moved, -1)
