"""Where every number of every environment is: rows of a few arrays [rows, environments].

Columns are environments, so that neighbours in memory are neighbours in a SIMD register or a warp.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.compiler import Rows
from surefoot.engines.stride.layout import Layout
from surefoot.engines.stride.step import CHAIN_STATE, PARAMETERS, STATE


@dataclass(frozen=True)
class Buffers:
    """state: what goes from step to step. parameters: what a reset sets. outputs: RobotState.
    staging: columns of what a reset is told, one row per environment."""

    state: Rows
    parameters: Rows
    outputs: Rows
    staging: Rows
    joints: int


def arrange(layout: Layout, joints: int, feet: int) -> Buffers:
    size = layout.depth * layout.chains
    state, parameters, outputs, staging = Rows(), Rows(), Rows(), Rows()
    for name, count in STATE.items():
        state.add(name, count)
    for name in CHAIN_STATE:
        state.add(name, size)
    for name, count in PARAMETERS.items():
        parameters.add(name, count)
    parameters.add("com", 3)
    parameters.add("origin", 2)
    parameters.add("body_weight", len(layout.description.weights.body_constant))
    parameters.add("dof_weight", size)
    for name, count in (
        ("position", 3),
        ("quaternion", 4),
        ("linear_velocity", 3),
        ("angular_velocity", 3),
        ("gravity", 3),
        ("joint_position", joints),
        ("joint_velocity", joints),
        ("torque", joints),
        ("foot_position", 3 * feet),
        ("foot_velocity", 3 * feet),
        ("foot_force", 3 * feet),
    ):
        outputs.add(name, count)
    for name, count in (
        ("position", 3),
        ("quaternion", 4),
        ("linear_velocity", 3),
        ("angular_velocity", 3),
        ("joint_position", joints),
        ("friction", 1),
        ("payload_kg", 1),
        ("com_m", 3),
        ("strength", 1),
        ("kp_scale", 1),
        ("kd_scale", 1),
        ("delay_s", 1),
        ("tile", 1),
    ):
        staging.add(name, count)
    return Buffers(state, parameters, outputs, staging, joints)
