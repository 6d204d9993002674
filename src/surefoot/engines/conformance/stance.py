"""A robot that is told to hold its pose stands, on its feet."""

from __future__ import annotations

from contextlib import closing

import mujoco
import torch

from surefoot.engines.conformance.scaffold import (
    GRAVITY,
    Check,
    Make,
    begin,
    default_targets,
    hold,
    near,
    run,
    standing,
    steps_in,
    vector,
)
from surefoot.engines.protocol import Engine
from surefoot.robots import lowest_point, posed


def check_a_robot_stands_for_a_second(make: Make) -> None:
    with closing(make(2)) as engine:
        begin(engine)
        last = run(engine, steps_in(engine, 1.0), targets=default_targets(engine))[-1]
        height = engine.robot.stand_height_m
        down, low = last.failed | last.trunk_contact, last.position[:, 2] < 0.8 * height
        hold(~down, "A robot told to hold its pose stands; this one fell within 1 s.")
        hold(~low, f"A standing robot does not sag below 80% of its {height:.3f} m standing height.")
        hold(
            last.gravity[:, 2] < -0.98,
            "A standing robot stays level; this one tilts by more than 11 degrees.",
        )
        near(last.position[:, :2], 0.0, 0.1, "It stays where it is")


def check_feet_carry_the_weight(make: Make) -> None:
    with closing(make(1)) as engine:
        begin(engine)
        states = run(engine, steps_in(engine, 2.0), targets=default_targets(engine))[-steps_in(engine, 0.5) :]
        force = torch.stack([s.foot_force[0].sum(0) for s in states]).mean(0)
        weight = engine.robot.mass_kg * GRAVITY
        near(force[2], weight, 0.05 * weight, "Standing feet carry the robot's weight, upwards")
        height, shape = states[-1].foot_position[0, :, 2], vector(engine, *_foot_heights(engine))
        near(height, shape, 0.004, "A standing foot's centre is as high as its shape reaches down")
        hold(~states[-1].trunk_contact, "A standing robot's trunk does not touch the ground.")


def check_a_trunk_on_the_ground_is_in_contact(make: Make) -> None:
    with closing(make(2)) as engine:
        start = standing(engine)
        start.position[0, 2] = _back_height(engine) - 0.003
        start.quaternion[0] = vector(engine, 0, 1, 0, 0)  # on its back
        begin(engine, start)
        # It may then come to lie on its legs; that it begins on its trunk holds for every robot.
        begun = engine.state().clone()
        states = [begun, *run(engine, steps_in(engine, 0.4), targets=default_targets(engine))]
        seen = torch.stack([s.trunk_contact for s in states])
        hold(seen[:, 0].any(), "A robot dropped on its back touches the ground with its trunk.")
        hold(~seen[:, 1], "A standing neighbour of a robot on its back is not reported with it.")


def _foot_heights(engine: Engine) -> list[float]:
    """How far each foot reaches below its centre in the default pose."""
    robot = engine.robot
    model = robot.compile()
    data = posed(model, robot.trunk, robot.joints, robot.default_pose)
    feet = [model.geom(foot).id for foot in robot.feet]
    return [float(data.geom_xpos[f][2]) - lowest_point(model, data, f) for f in feet]


def _back_height(engine: Engine) -> float:
    """Height of the trunk's origin above the ground that its back lies on."""
    robot = engine.robot
    model = robot.compile()
    data = posed(model, robot.trunk, robot.joints, robot.default_pose)
    data.qpos[int(model.jnt_qposadr[model.body(robot.trunk).jntadr[0]]) + 3 :][:4] = (0, 1, 0, 0)
    mujoco.mj_kinematics(model, data)
    trunk = model.body(robot.trunk).id
    solid = [g for g in range(model.ngeom) if model.geom_bodyid[g] == trunk and model.geom_contype[g]]
    return -min(lowest_point(model, data, g) for g in solid)


CHECKS: tuple[Check, ...] = (
    check_a_robot_stands_for_a_second,
    check_feet_carry_the_weight,
    check_a_trunk_on_the_ground_is_in_contact,
)
