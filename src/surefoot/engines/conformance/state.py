"""What a state is: shapes, frames, and what a reset shows."""

from __future__ import annotations

import math
from contextlib import closing

import torch

from surefoot.engines.conformance.scaffold import (
    ALOFT_M,
    GRAVITY,
    Check,
    Make,
    assert_same,
    begin,
    default_targets,
    hold,
    near,
    run,
    standing,
    turned_start,
    vector,
)


def check_state_has_the_declared_shapes_and_dtypes(make: Make) -> None:
    with closing(make(3)) as engine:
        begin(engine)
        joints, feet = len(engine.robot.joints), len(engine.robot.feet)
        shape: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("position", "linear_velocity", "angular_velocity", "gravity"), (3, 3)
        )
        shape |= dict.fromkeys(("joint_position", "joint_velocity", "torque"), (3, joints))
        shape |= dict.fromkeys(("foot_position", "foot_velocity", "foot_force"), (3, feet, 3))
        shape |= {"quaternion": (3, 4), "trunk_contact": (3,), "failed": (3,)}
        flags = ("trunk_contact", "failed")
        for state in (engine.state(), engine.step(default_targets(engine))):
            for name, tensor in state.tensors().items():
                dtype = torch.bool if name in flags else torch.float32
                is_shape = tuple(tensor.shape)
                hold(is_shape == shape[name], f"{name} must be {shape[name]}, not {is_shape}.")
                hold(tensor.dtype == dtype, f"{name} must be {dtype}, not {tensor.dtype}.")
                hold(tensor.device.type == engine.device.type, f"{name} must be on {engine.device}.")


def check_gravity_is_seen_in_the_body_frame(make: Make) -> None:
    s, c = math.sin(0.5), math.cos(0.5)
    turned = {0: (0.0, -s, -c), 1: (s, 0.0, -c), 2: (0.0, 0.0, -1.0)}  # rolled, pitched, yawed by 0.5 rad
    with closing(make(2)) as engine:
        begin(engine)
        near(engine.state().gravity, vector(engine, 0, 0, -1), 1e-6, "Level means (0, 0, -1)")
        for axis, gravity in turned.items():
            begin(engine, turned_start(engine, axis, 0.5))
            seen, expected = engine.state().gravity, vector(engine, *gravity)
            near(seen, expected, 1e-6, f"Gravity after turning about axis {axis}")


def check_velocities_are_in_the_body_frame(make: Make) -> None:
    with closing(make(2)) as engine:
        start = turned_start(engine, 2, math.pi / 2)  # facing world +y, so world +x is to the right
        start.linear_velocity[:] = vector(engine, 1, 2, 3)
        start.angular_velocity[:] = vector(engine, 0.1, 0.2, 0.3)
        begin(engine, start)
        state = engine.state()
        near(state.linear_velocity, vector(engine, 2, -1, 3), 1e-5, "Body-frame linear velocity")
        near(state.angular_velocity, start.angular_velocity, 1e-5, "Body-frame angular velocity")
        start = turned_start(
            engine, 0, math.pi / 2
        )  # lying on its right side: the body's z points to world -y
        start.linear_velocity[:] = vector(engine, 1, 2, 3)
        begin(engine, start)
        near(engine.state().linear_velocity, vector(engine, 1, 3, -2), 1e-5, "Velocity when rolled")


def check_velocities_move_the_robot(make: Make) -> None:
    """World velocity moves the position, and a body-frame rate turns about the body's own axis."""
    with closing(make(1)) as engine:
        start = standing(engine, ALOFT_M)
        start.linear_velocity[:] = vector(engine, 1, -2, 0)
        begin(engine, start)
        period = 1.0 / engine.plant.control_hz
        moved = engine.step(default_targets(engine)).position - start.position
        expected = start.linear_velocity[0, :2] * period
        near(
            moved[0, :2], expected, 0.04 * period, "A world velocity moves the base along the world's x and y"
        )
        fallen = -0.5 * GRAVITY * period**2
        # Integrators differ by half a physics step in the first metres of a fall.
        near(moved[0, 2], fallen, -fallen + 1e-6, "A robot in the air falls freely")
        start = turned_start(engine, 2, math.pi / 2)
        start.angular_velocity[:, 0] = 1.0
        begin(engine, start)
        gravity = engine.step(default_targets(engine)).gravity[0]
        near(gravity[1], -math.sin(period), 0.2 * period, "A rate about the body's x rolls the robot")
        near(gravity[0], 0.0, 0.1 * period, "A rate about the body's x does not pitch the robot")


def check_reset_shows_the_starting_state(make: Make) -> None:
    with closing(make(2)) as engine:
        begin(engine)
        run(engine, 3)
        start = standing(engine)
        start.position[:, 0] = torch.tensor([0.5, -0.25], device=engine.device)
        start.joint_position += 0.05
        begin(engine, start)
        state = engine.state()
        for name in ("position", "quaternion", "joint_position"):
            a, b = getattr(state, name), getattr(start, name)
            near(a, b, 1e-6, f"After reset {name} is that of the start")
        near(state.joint_velocity, 0.0, 0.0, "After reset joints are at rest")
        near(state.torque, 0.0, 0.0, "After reset no torque has acted yet")
        between = state.foot_position.mean(1)
        near(between[:, :2], start.position[:, :2], 0.1, "After reset the feet are below the robot")
        hold(~state.failed, "A robot that was just reset has not failed.")


def check_a_selection_of_rows_is_the_same_state(make: Make) -> None:
    with closing(make(4)) as engine:
        begin(engine)
        run(engine, 3)
        rows = torch.tensor([2, 0], device=engine.device)
        assert_same(engine.state(rows), engine.state().take(rows), "state(rows) is a selection of state()")


CHECKS: tuple[Check, ...] = (
    check_state_has_the_declared_shapes_and_dtypes,
    check_gravity_is_seen_in_the_body_frame,
    check_velocities_are_in_the_body_frame,
    check_velocities_move_the_robot,
    check_reset_shows_the_starting_state,
    check_a_selection_of_rows_is_the_same_state,
)
