"""Parameters of an environment are what its physics has: delays, masses, friction, servos."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

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
    mask_of,
    near,
    run,
    standing,
    steps_in,
    vector,
)
from surefoot.engines.protocol import Parameters, RobotState


def check_a_delay_of_whole_control_steps_shifts_the_targets(make: Make) -> None:
    """A target issued k control steps earlier, with a delay of k, gives the same motion to the bit."""
    for control_steps in (1, 3):
        with closing(make(1)) as delayed, closing(make(1)) as prompt:
            parameters = Parameters.nominal(1, delayed.device)
            parameters.delay_s[:] = control_steps / delayed.plant.control_hz
            begin(delayed, parameters=parameters)
            begin(prompt)
            rest, moved = default_targets(prompt), default_targets(prompt) + 0.3
            for k in range(12):
                x = delayed.step(moved if k >= 4 - control_steps else rest)
                y = prompt.step(moved if k >= 4 else rest)
                assert_same(x, y, f"A delay postpones a target by {control_steps} control steps (step {k})")


def check_a_delay_counts_physics_steps(make: Make) -> None:
    """Each physics step of delay takes away motion, and one control step more is one control step later."""
    with closing(make(1)) as engine:
        dt, within = engine.plant.dt_s, engine.plant.decimation
    rows = within + 1  # delays of 0 .. decimation physics steps, and the same again one control step longer
    with closing(make(2 * rows)) as engine:
        delays = torch.arange(rows, device=engine.device)
        parameters = Parameters.nominal(2 * rows, engine.device)
        parameters.delay_s[:] = torch.cat([delays, delays + within]) * dt
        begin(engine, standing(engine, ALOFT_M), parameters)
        targets = default_targets(engine)
        before = engine.step(targets).joint_position[:rows].clone()  # legs settle a little in the air
        targets[rows:] += 0.3
        engine.step(targets)
        targets[:rows] += 0.3
        state = engine.step(targets)
        first, second = state.take(delays), state.take(delays + rows)
        assert_same(first, second, "A control step more of delay is a control step later")
        moved = (first.joint_position - before).abs().sum(1)
        hold(moved[:-1] > moved[1:] + 1e-4, "Every physics step of delay shortens the motion that follows.")


# ---- parameters


def check_parameters_are_read_back_from_the_model(make: Make) -> None:
    with closing(make(3)) as engine:
        ramp = torch.linspace(0.0, 1.0, 3, device=engine.device)
        delay = vector(engine, 0, 1, 3) * engine.plant.dt_s
        parameters = Parameters(
            friction=0.3 + ramp,
            payload_kg=0.1 * engine.robot.mass_kg * (2 * ramp - 1),
            com_m=0.04 * torch.stack([ramp, -ramp, ramp / 2], 1),
            strength=0.8 + 0.4 * ramp,
            kp_scale=1.2 - 0.4 * ramp,
            kd_scale=0.9 + 0.3 * ramp,
            delay_s=delay + 0.3 * engine.plant.dt_s,
        )
        begin(engine, parameters=parameters)
        expected = replace(parameters, delay_s=delay)  # rounded to whole physics steps
        for name, value in engine.parameters().tensors().items():
            near(value, getattr(expected, name), 1e-5, f"{name} is read back as it was set")


def _vary(
    make: Make,
    name: str,
    values: Sequence[float],
    seconds: float,
    *,
    aloft: bool = False,
    push: float = 0.0,
    offset: float = 0.0,
) -> list[RobotState]:
    """One environment per value of a parameter, holding the default pose plus `offset`; its states.

    With `push` the robots stand for half a second first, and are then pushed along x.
    """
    with closing(make(len(values))) as engine:
        parameters = Parameters.nominal(len(values), engine.device)
        column = parameters.com_m[:, 1] if name == "com_m" else getattr(parameters, name)
        column[:] = vector(engine, *values)
        begin(engine, standing(engine, ALOFT_M if aloft else None), parameters)
        targets = default_targets(engine)
        if push:
            run(engine, steps_in(engine, 0.5), targets=targets)
            engine.push(mask_of(engine, range(len(values))), vector(engine, push, 0).repeat(len(values), 1))
        return run(engine, steps_in(engine, seconds), targets=targets + offset)


def check_payload_weighs_on_the_feet(make: Make) -> None:
    states = _vary(make, "payload_kg", (0.0, 2.0), 2.0)
    height = states[-1].position[:, 2]
    hold(height[1] < 0.999 * height[0], "A robot with 2 kg more stands lower.")
    force = torch.stack([s.foot_force.sum(1)[:, 2] for s in states[len(states) // 2 :]]).mean(0)
    near(force[1] - force[0], 2.0 * GRAVITY, 4.0, "2 kg of payload weigh 19.6 N on the feet")


def check_centre_of_mass_loads_the_feet_below_it(make: Make) -> None:
    last = _vary(make, "com_m", (-0.05, 0.05), 1.0)[-1]
    left = last.foot_position[..., 1] > last.position[:, 1:2]
    share = (last.foot_force[..., 2] * left).sum(1) / last.foot_force[..., 2].sum(1)
    hold(share[1] > share[0] + 0.02, "Shifting the centre of mass to the left loads the left feet.")


def check_friction_holds_the_feet_of_a_pushed_robot(make: Make) -> None:
    states = _vary(make, "friction", (0.1, 1.0), 0.2, push=0.6)
    hold(~torch.stack([s.failed for s in states]), "A robot pushed on slippery ground does not fail.")
    slid = (states[-1].foot_position - states[0].foot_position)[..., 0].mean(1)
    hold(
        slid[0] > slid[1] + 0.01,
        f"A pushed robot's feet slip further on friction 0.1 than on 1.0, not {slid.tolist()} m.",
    )


def check_strength_scales_the_torque_limit(make: Make) -> None:
    with closing(make(1)) as engine:
        limit = vector(engine, *engine.robot.torque_limit_nm)
    far = 100.0  # rad: every servo at its limit
    torque = _vary(make, "strength", (0.5, 1.0), 0.02, aloft=True, offset=far)[0].torque
    atol = 1e-3 * float(limit.max())
    near(torque[0], 0.5 * limit, atol, "At strength 0.5 a servo gives half its torque limit")
    near(torque[1], limit, atol, "At strength 1 a servo gives its torque limit")
    torque = _vary(make, "strength", (0.5, 1.0), 0.02, aloft=True, offset=0.1)[0].torque.abs().sum(1)
    hold(torque[1] > 1.2 * torque[0], "Strength scales the torque below the limit too, not only the limit.")


def check_gains_stiffen_and_damp(make: Make) -> None:
    height = _vary(make, "kp_scale", (0.8, 1.5), 1.0)[-1].position[:, 2]
    hold(height[1] > 1.001 * height[0], "Stiffer servos (kp) sag less under the robot's weight.")
    states = _vary(make, "kd_scale", (0.5, 3.0), 0.1, aloft=True, offset=0.2)
    fastest = torch.stack([s.joint_velocity.abs().amax(1) for s in states]).amax(0)
    hold(fastest[1] < 0.9 * fastest[0], "More damped servos (kd) move more slowly.")


CHECKS: tuple[Check, ...] = (
    check_a_delay_of_whole_control_steps_shifts_the_targets,
    check_a_delay_counts_physics_steps,
    check_parameters_are_read_back_from_the_model,
    check_payload_weighs_on_the_feet,
    check_centre_of_mass_loads_the_feet_below_it,
    check_friction_holds_the_feet_of_a_pushed_robot,
    check_strength_scales_the_torque_limit,
    check_gains_stiffen_and_damp,
)
