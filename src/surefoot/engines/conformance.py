"""What every engine promises, as checks that any implementation can be put through.

    from surefoot.engines.conformance import CHECKS
    for check in CHECKS:
        check(lambda n: MyEngine(robot, plant, n))

`make(n)` builds an engine with n environments on ground that is level and at height 0 within 2 m of the
origin (a plane, or an atlas whose tile 0 is flat and at the origin). A check raises AssertionError with a
sentence that says which promise is broken. Checks compare an engine with itself, never with another
simulator, and build several engines each; the whole list takes about two seconds on native MuJoCo.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields, replace

import mujoco
import torch
from torch import Tensor

from surefoot.engines.protocol import Engine, Parameters, RobotState, Rows, Start
from surefoot.robots import kinematics

Make = Callable[[int], Engine]
Check = Callable[[Make], None]

GRAVITY = 9.81
ALOFT_M = 50.0
"""High enough to stay clear of the ground for every check that wants free flight."""


# ---- scaffolding, public because engines' own tests need it too


def standing(engine: Engine, height_m: float | None = None) -> Start:
    """All at rest in the default pose, level, the feet 5 mm above the ground or the trunk at `height_m`."""
    n, device = engine.num_envs, engine.device
    position = torch.zeros(n, 3, device=device)
    position[:, 2] = engine.robot.stand_height_m + 0.005 if height_m is None else height_m
    quaternion = torch.zeros(n, 4, device=device)
    quaternion[:, 0] = 1.0
    still, tile = torch.zeros(n, 3, device=device), torch.zeros(n, dtype=torch.int64, device=device)
    return Start(position, quaternion, still, still.clone(), default_targets(engine), tile)


def default_targets(engine: Engine) -> Tensor:
    pose = torch.tensor(engine.robot.default_pose, dtype=torch.float32, device=engine.device)
    return pose.repeat(engine.num_envs, 1)


def moving_targets(engine: Engine, step: int) -> Tensor:
    """Targets that swing about the default pose, different in every environment and joint."""
    rows = torch.arange(engine.num_envs, device=engine.device)[:, None]
    joints = torch.arange(len(engine.robot.joints), device=engine.device)[None]
    return default_targets(engine) + 0.3 * torch.sin(0.4 * step + 1.7 * joints + 0.9 * rows)


def mask_of(engine: Engine, rows: Sequence[int]) -> Tensor:
    mask = torch.zeros(engine.num_envs, dtype=torch.bool, device=engine.device)
    mask[list(rows)] = True
    return mask


def begin(engine: Engine, start: Start | None = None, parameters: Parameters | None = None) -> None:
    """Resets all environments, to standing with nominal parameters unless told otherwise."""
    everyone = mask_of(engine, range(engine.num_envs))
    nominal = Parameters.nominal(engine.num_envs, engine.device)
    engine.reset(everyone, start or standing(engine), parameters or nominal)


def run(engine: Engine, steps: int, first: int = 0, targets: Tensor | None = None) -> list[RobotState]:
    """Steps with moving targets, or with the same `targets` all along; the states in order."""
    issued = (moving_targets(engine, first + k) if targets is None else targets for k in range(steps))
    return [engine.step(t).clone() for t in issued]


def assert_same(a: Rows, b: Rows, promise: str, rows: Sequence[int] | None = None) -> None:
    """Fails with `promise` unless both records (or their `rows`) agree to the bit; NaN agrees with NaN."""
    if rows is not None:
        a, b = (x.take(torch.tensor(rows, device=next(iter(x.tensors().values())).device)) for x in (a, b))
    wrong = [f.name for f in fields(a) if not _same_bits(getattr(a, f.name), getattr(b, f.name))]
    _hold(not wrong, f"{promise}: {', '.join(wrong)} differ.")


def _same_bits(a: Tensor, b: Tensor) -> bool:
    raw = [x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*raw)


def _seconds(engine: Engine, seconds: float) -> int:
    return round(seconds * engine.plant.control_hz)


def _hold(condition: Tensor | bool, promise: str) -> None:
    """An assertion that python -O does not remove."""
    if not bool(torch.as_tensor(condition).all()):
        raise AssertionError(promise)


def _near(a: Tensor, b: Tensor | float, atol: float, promise: str) -> None:
    error = float((a - b).abs().max())
    _hold(error <= atol, f"{promise}; it is off by {error:.3g} (at most {atol:g} is allowed).")


def _vector(engine: Engine, *values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=engine.device)


def _to_world(state: RobotState) -> Tensor:
    """The base's linear velocity in the world frame, [N, 3]."""
    v, w, axis = state.linear_velocity, state.quaternion[:, :1], state.quaternion[:, 1:]
    across = torch.linalg.cross(axis, v)
    world: Tensor = v + 2 * w * across + 2 * torch.linalg.cross(axis, across)
    return world


def _turned(engine: Engine, axis: int, angle: float) -> Start:
    """Standing aloft, turned by `angle` about a world axis (0, 1 or 2)."""
    start = standing(engine, ALOFT_M)
    start.quaternion[:, 0] = math.cos(angle / 2)
    start.quaternion[:, 1 + axis] = math.sin(angle / 2)
    return start


# ---- what a state is


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
                _hold(is_shape == shape[name], f"{name} must be {shape[name]}, not {is_shape}.")
                _hold(tensor.dtype == dtype, f"{name} must be {dtype}, not {tensor.dtype}.")
                _hold(tensor.device.type == engine.device.type, f"{name} must be on {engine.device}.")


def check_gravity_is_seen_in_the_body_frame(make: Make) -> None:
    s, c = math.sin(0.5), math.cos(0.5)
    turned = {0: (0.0, -s, -c), 1: (s, 0.0, -c), 2: (0.0, 0.0, -1.0)}  # rolled, pitched, yawed by 0.5 rad
    with closing(make(2)) as engine:
        begin(engine)
        _near(engine.state().gravity, _vector(engine, 0, 0, -1), 1e-6, "Level means (0, 0, -1)")
        for axis, gravity in turned.items():
            begin(engine, _turned(engine, axis, 0.5))
            seen, expected = engine.state().gravity, _vector(engine, *gravity)
            _near(seen, expected, 1e-6, f"Gravity after turning about axis {axis}")


def check_velocities_are_in_the_body_frame(make: Make) -> None:
    with closing(make(2)) as engine:
        start = _turned(engine, 2, math.pi / 2)  # facing world +y, so world +x is to the right
        start.linear_velocity[:] = _vector(engine, 1, 2, 3)
        start.angular_velocity[:] = _vector(engine, 0.1, 0.2, 0.3)
        begin(engine, start)
        state = engine.state()
        _near(state.linear_velocity, _vector(engine, 2, -1, 3), 1e-5, "Body-frame linear velocity")
        _near(state.angular_velocity, start.angular_velocity, 1e-5, "Body-frame angular velocity")
        start = _turned(engine, 0, math.pi / 2)  # lying on its right side: the body's z points to world -y
        start.linear_velocity[:] = _vector(engine, 1, 2, 3)
        begin(engine, start)
        _near(engine.state().linear_velocity, _vector(engine, 1, 3, -2), 1e-5, "Velocity when rolled")


def check_velocities_move_the_robot(make: Make) -> None:
    """World velocity moves the position, and a body-frame rate turns about the body's own axis."""
    with closing(make(1)) as engine:
        start = standing(engine, ALOFT_M)
        start.linear_velocity[:] = _vector(engine, 1, -2, 0)
        begin(engine, start)
        period = 1.0 / engine.plant.control_hz
        moved = engine.step(default_targets(engine)).position - start.position
        expected = start.linear_velocity[0, :2] * period
        _near(
            moved[0, :2], expected, 0.04 * period, "A world velocity moves the base along the world's x and y"
        )
        fallen = -0.5 * GRAVITY * period**2
        # Integrators differ by half a physics step in the first metres of a fall.
        _near(moved[0, 2], fallen, -fallen + 1e-6, "A robot in the air falls freely")
        start = _turned(engine, 2, math.pi / 2)
        start.angular_velocity[:, 0] = 1.0
        begin(engine, start)
        gravity = engine.step(default_targets(engine)).gravity[0]
        _near(gravity[1], -math.sin(period), 0.2 * period, "A rate about the body's x rolls the robot")
        _near(gravity[0], 0.0, 0.1 * period, "A rate about the body's x does not pitch the robot")


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
            _near(a, b, 1e-6, f"After reset {name} is that of the start")
        _near(state.joint_velocity, 0.0, 0.0, "After reset joints are at rest")
        _near(state.torque, 0.0, 0.0, "After reset no torque has acted yet")
        between = state.foot_position.mean(1)
        _near(between[:, :2], start.position[:, :2], 0.1, "After reset the feet are below the robot")
        _hold(~state.failed, "A robot that was just reset has not failed.")


def check_a_selection_of_rows_is_the_same_state(make: Make) -> None:
    with closing(make(4)) as engine:
        begin(engine)
        run(engine, 3)
        rows = torch.tensor([2, 0], device=engine.device)
        assert_same(engine.state(rows), engine.state().take(rows), "state(rows) is a selection of state()")


# ---- standing


def check_a_robot_stands_for_a_second(make: Make) -> None:
    with closing(make(2)) as engine:
        begin(engine)
        last = run(engine, _seconds(engine, 1.0), targets=default_targets(engine))[-1]
        height = engine.robot.stand_height_m
        down, low = last.failed | last.trunk_contact, last.position[:, 2] < 0.8 * height
        _hold(~down, "A robot told to hold its pose stands; this one fell within 1 s.")
        _hold(~low, f"A standing robot does not sag below 80% of its {height:.3f} m standing height.")
        _hold(
            last.gravity[:, 2] < -0.98,
            "A standing robot stays level; this one tilts by more than 11 degrees.",
        )
        _near(last.position[:, :2], 0.0, 0.1, "It stays where it is")


def check_feet_carry_the_weight(make: Make) -> None:
    with closing(make(1)) as engine:
        begin(engine)
        states = run(engine, _seconds(engine, 2.0), targets=default_targets(engine))[-_seconds(engine, 0.5) :]
        force = torch.stack([s.foot_force[0].sum(0) for s in states]).mean(0)
        weight = engine.robot.mass_kg * GRAVITY
        _near(force[2], weight, 0.05 * weight, "Standing feet carry the robot's weight, upwards")
        height, shape = states[-1].foot_position[0, :, 2], _vector(engine, *_foot_heights(engine))
        _near(height, shape, 0.004, "A standing foot's centre is as high as its shape reaches down")
        _hold(~states[-1].trunk_contact, "A standing robot's trunk does not touch the ground.")


def check_a_trunk_on_the_ground_is_in_contact(make: Make) -> None:
    with closing(make(2)) as engine:
        start = standing(engine)
        start.position[0, 2] = _back_height(engine) - 0.003
        start.quaternion[0] = _vector(engine, 0, 1, 0, 0)  # on its back
        begin(engine, start)
        # It may then come to lie on its legs; that it begins on its trunk holds for every robot.
        begun = engine.state().clone()
        states = [begun, *run(engine, _seconds(engine, 0.4), targets=default_targets(engine))]
        seen = torch.stack([s.trunk_contact for s in states])
        _hold(seen[:, 0].any(), "A robot dropped on its back touches the ground with its trunk.")
        _hold(~seen[:, 1], "A standing neighbour of a robot on its back is not reported with it.")


def _foot_heights(engine: Engine) -> list[float]:
    """How far each foot reaches below its centre in the default pose."""
    robot = engine.robot
    model = robot.compile()
    data = kinematics.posed(model, robot.trunk, robot.joints, robot.default_pose)
    feet = [model.geom(foot).id for foot in robot.feet]
    return [float(data.geom_xpos[f][2]) - kinematics.lowest_point(model, data, f) for f in feet]


def _back_height(engine: Engine) -> float:
    """Height of the trunk's origin above the ground that its back lies on."""
    robot = engine.robot
    model = robot.compile()
    data = kinematics.posed(model, robot.trunk, robot.joints, robot.default_pose)
    data.qpos[int(model.jnt_qposadr[model.body(robot.trunk).jntadr[0]]) + 3 :][:4] = (0, 1, 0, 0)
    mujoco.mj_kinematics(model, data)
    trunk = model.body(robot.trunk).id
    solid = [g for g in range(model.ngeom) if model.geom_bodyid[g] == trunk and model.geom_contype[g]]
    return -min(kinematics.lowest_point(model, data, g) for g in solid)


# ---- sameness


def check_same_calls_give_the_same_bits(make: Make) -> None:
    with closing(make(3)) as a, closing(make(3)) as b:
        for engine in (a, b):
            begin(engine)
        for k, (x, y) in enumerate(zip(run(a, 20), run(b, 20), strict=True)):
            assert_same(x, y, f"Two engines given the same calls agree to the bit (step {k})")


def check_rows_do_not_depend_on_their_number(make: Make) -> None:
    with closing(make(1)) as alone, closing(make(8)) as among:
        for engine in (alone, among):
            begin(engine)
        for k, (x, y) in enumerate(zip(run(alone, 20), run(among, 20), strict=True)):
            assert_same(x, y, f"Environment 0 of 1 is environment 0 of 8 (step {k})", rows=[0])


def check_snapshot_and_restore_are_exact(make: Make) -> None:
    with closing(make(3)) as engine:
        parameters = Parameters.nominal(3, engine.device)
        parameters.payload_kg[1], parameters.friction[2] = 1.0, 0.5
        parameters.delay_s[:] = 1.5 / engine.plant.control_hz
        begin(engine, parameters=parameters)
        read = engine.parameters().clone()
        run(engine, 10)
        saved = engine.snapshot()
        here = engine.state().clone()
        future = run(engine, 10, first=10)
        begin(engine)  # other parameters, other delays: restore has to bring all of them back
        for attempt in ("first", "second"):  # the second finds out whether the first one used up the snapshot
            engine.restore(saved)
            assert_same(engine.state(), here, f"The {attempt} restore brings the state back")
            assert_same(engine.parameters(), read, "Restore brings the parameters back")
            for k, (x, y) in enumerate(zip(future, run(engine, 10, first=10), strict=True)):
                assert_same(x, y, f"The future after the {attempt} restore is the same to the bit (step {k})")


def check_reset_touches_only_the_masked_rows(make: Make) -> None:
    with closing(make(4)) as reset, closing(make(4)) as untouched:
        for engine in (reset, untouched):
            begin(engine)
            run(engine, 5)
        nominal = Parameters.nominal(4, reset.device)
        unread = Parameters(**{k: torch.full_like(v, math.nan) for k, v in nominal.tensors().items()})
        one = torch.tensor([1], device=reset.device)
        unread.put(one, nominal.take(one))
        reset.reset(mask_of(reset, [1]), standing(reset), unread)
        for k, (x, y) in enumerate(zip(run(reset, 10, first=5), run(untouched, 10, first=5), strict=True)):
            assert_same(x, y, f"Resetting environment 1 leaves the others alone (step {k})", rows=[0, 2, 3])


def check_reset_forgets_the_past(make: Make) -> None:
    with closing(make(2)) as used, closing(make(2)) as fresh:
        parameters = Parameters.nominal(2, used.device)
        parameters.payload_kg[:], parameters.com_m[:], parameters.kp_scale[:] = 1.0, 0.02, 1.2
        parameters.delay_s[:] = 2.0 / used.plant.control_hz
        begin(used, parameters=parameters)
        run(used, 5)
        nominal = Parameters.nominal(2, used.device)
        nominal.delay_s[:] = parameters.delay_s  # so that targets left in the delay line would show
        for engine in (used, fresh):
            begin(engine, parameters=nominal)
        for k, (x, y) in enumerate(zip(run(used, 10), run(fresh, 10), strict=True)):
            assert_same(x, y, f"A reset environment is like a new one (step {k})")


# ---- delay


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
        _hold(moved[:-1] > moved[1:] + 1e-4, "Every physics step of delay shortens the motion that follows.")


# ---- parameters


def check_parameters_are_read_back_from_the_model(make: Make) -> None:
    with closing(make(3)) as engine:
        ramp = torch.linspace(0.0, 1.0, 3, device=engine.device)
        delay = _vector(engine, 0, 1, 3) * engine.plant.dt_s
        asked = Parameters(
            friction=0.3 + ramp,
            payload_kg=0.1 * engine.robot.mass_kg * (2 * ramp - 1),
            com_m=0.04 * torch.stack([ramp, -ramp, ramp / 2], 1),
            strength=0.8 + 0.4 * ramp,
            kp_scale=1.2 - 0.4 * ramp,
            kd_scale=0.9 + 0.3 * ramp,
            delay_s=delay + 0.3 * engine.plant.dt_s,
        )
        begin(engine, parameters=asked)
        expected = replace(asked, delay_s=delay)  # rounded to whole physics steps
        for name, value in engine.parameters().tensors().items():
            _near(value, getattr(expected, name), 1e-5, f"{name} is read back as it was set")


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
        column[:] = _vector(engine, *values)
        begin(engine, standing(engine, ALOFT_M if aloft else None), parameters)
        targets = default_targets(engine)
        if push:
            run(engine, _seconds(engine, 0.5), targets=targets)
            engine.push(mask_of(engine, range(len(values))), _vector(engine, push, 0).repeat(len(values), 1))
        return run(engine, _seconds(engine, seconds), targets=targets + offset)


def check_payload_weighs_on_the_feet(make: Make) -> None:
    states = _vary(make, "payload_kg", (0.0, 2.0), 2.0)
    height = states[-1].position[:, 2]
    _hold(height[1] < 0.999 * height[0], "A robot with 2 kg more stands lower.")
    force = torch.stack([s.foot_force.sum(1)[:, 2] for s in states[len(states) // 2 :]]).mean(0)
    _near(force[1] - force[0], 2.0 * GRAVITY, 4.0, "2 kg of payload weigh 19.6 N on the feet")


def check_centre_of_mass_loads_the_feet_below_it(make: Make) -> None:
    last = _vary(make, "com_m", (-0.05, 0.05), 1.0)[-1]
    left = last.foot_position[..., 1] > last.position[:, 1:2]
    share = (last.foot_force[..., 2] * left).sum(1) / last.foot_force[..., 2].sum(1)
    _hold(share[1] > share[0] + 0.02, "Shifting the centre of mass to the left loads the left feet.")


def check_friction_holds_the_feet_of_a_pushed_robot(make: Make) -> None:
    states = _vary(make, "friction", (0.1, 1.0), 0.2, push=0.6)
    _hold(~torch.stack([s.failed for s in states]), "A robot pushed on slippery ground does not fail.")
    slid = (states[-1].foot_position - states[0].foot_position)[..., 0].mean(1)
    _hold(
        slid[0] > slid[1] + 0.01,
        f"A pushed robot's feet slip further on friction 0.1 than on 1.0, not {slid.tolist()} m.",
    )


def check_strength_scales_the_torque_limit(make: Make) -> None:
    with closing(make(1)) as engine:
        limit = _vector(engine, *engine.robot.torque_limit_nm)
    far = 100.0  # rad: every servo at its limit
    torque = _vary(make, "strength", (0.5, 1.0), 0.02, aloft=True, offset=far)[0].torque
    atol = 1e-3 * float(limit.max())
    _near(torque[0], 0.5 * limit, atol, "At strength 0.5 a servo gives half its torque limit")
    _near(torque[1], limit, atol, "At strength 1 a servo gives its torque limit")
    torque = _vary(make, "strength", (0.5, 1.0), 0.02, aloft=True, offset=0.1)[0].torque.abs().sum(1)
    _hold(torque[1] > 1.2 * torque[0], "Strength scales the torque below the limit too, not only the limit.")


def check_gains_stiffen_and_damp(make: Make) -> None:
    height = _vary(make, "kp_scale", (0.8, 1.5), 1.0)[-1].position[:, 2]
    _hold(height[1] > 1.001 * height[0], "Stiffer servos (kp) sag less under the robot's weight.")
    states = _vary(make, "kd_scale", (0.5, 3.0), 0.1, aloft=True, offset=0.2)
    fastest = torch.stack([s.joint_velocity.abs().amax(1) for s in states]).amax(0)
    _hold(fastest[1] < 0.9 * fastest[0], "More damped servos (kd) move more slowly.")


# ---- what others do to a robot


def check_a_push_adds_just_that_velocity(make: Make) -> None:
    with closing(make(3)) as engine:
        begin(engine, _turned(engine, 2, math.pi / 2))
        run(engine, 3)
        before = engine.state().clone()
        engine.push(mask_of(engine, [1]), _vector(engine, 0.5, -0.25).repeat(3, 1))
        after = engine.state()
        gain = _to_world(after) - _to_world(before)
        _near(gain[1], _vector(engine, 0.5, -0.25, 0), 1e-5, "A push adds its velocity in the world frame")
        for name in ("position", "quaternion", "angular_velocity", "joint_position", "joint_velocity"):
            _hold(torch.equal(getattr(after, name), getattr(before, name)), f"A push changes no {name}.")
        assert_same(after, before, "A push leaves the environments outside its mask alone", rows=[0, 2])


def check_translate_moves_xy_only(make: Make) -> None:
    with closing(make(3)) as engine:
        begin(engine)
        run(engine, 5)
        before = engine.state().clone()
        offset = _vector(engine, 0.5, -0.25)
        engine.translate(mask_of(engine, [1]), offset.repeat(3, 1))
        after = engine.state()
        for name, new in after.tensors().items():
            old = getattr(before, name)
            if name in ("position", "foot_position"):
                _near(
                    new[1, ..., :2] - old[1, ..., :2], offset, 1e-5, f"Translating moves {name} by the offset"
                )
                new, old = new[..., 2], old[..., 2]
            _hold(torch.equal(new, old), f"Translating changes no {name}, apart from xy.")
        assert_same(after, before, "Translating leaves the environments outside its mask alone", rows=[0, 2])


# ---- failure


def check_failure_is_flagged_and_contained(make: Make) -> None:
    with closing(make(5)) as broken, closing(make(5)) as sound:
        parameters = Parameters.nominal(5, broken.device)
        # A bad target fails the step that issues it, not the one in which it would act.
        parameters.delay_s[3] = 2.0 / broken.plant.control_hz
        for engine in (broken, sound):
            begin(engine, parameters=parameters)
            run(engine, 3)
        targets = moving_targets(broken, 3)
        targets[1], targets[3] = math.nan, math.inf
        broken.push(mask_of(broken, [2]), torch.full((5, 2), 1e6, device=broken.device))  # m/s
        x, y = broken.step(targets).clone(), sound.step(moving_targets(sound, 3)).clone()
        failed = x.failed.nonzero()[:, 0].tolist()
        _hold(
            failed == [1, 2, 3],
            f"NaN targets, a push of 1e6 m/s and infinite targets fail 1, 2, 3: {failed}.",
        )
        kept = [len(v) for v in broken.failures().values()]
        _hold(set(kept) == {3}, f"failures() keeps one row for each of the three that failed, not {kept}.")
        assert_same(x, y, "A failing environment does not disturb the others", rows=[0, 4])
        broken.reset(mask_of(broken, [1, 2, 3]), standing(broken), Parameters.nominal(5, broken.device))
        _hold(~broken.state().failed, "A reset ends a failure.")
        for k, (x, y) in enumerate(zip(run(broken, 10, first=4), run(sound, 10, first=4), strict=True)):
            assert_same(x, y, f"A failure does not disturb the others later on (step {k})", rows=[0, 4])
            _hold(~x.failed, "Environments that were reset after a failure run on.")


def check_physics_takes_time(make: Make) -> None:
    with closing(make(1)) as engine:
        begin(engine)
        before = engine.seconds
        run(engine, 2)
        _hold(engine.seconds > before, "`seconds` counts the wall-clock spent in physics.")


CHECKS: tuple[Check, ...] = (
    check_state_has_the_declared_shapes_and_dtypes,
    check_gravity_is_seen_in_the_body_frame,
    check_velocities_are_in_the_body_frame,
    check_velocities_move_the_robot,
    check_reset_shows_the_starting_state,
    check_a_selection_of_rows_is_the_same_state,
    check_a_robot_stands_for_a_second,
    check_feet_carry_the_weight,
    check_a_trunk_on_the_ground_is_in_contact,
    check_same_calls_give_the_same_bits,
    check_rows_do_not_depend_on_their_number,
    check_snapshot_and_restore_are_exact,
    check_reset_touches_only_the_masked_rows,
    check_reset_forgets_the_past,
    check_a_delay_of_whole_control_steps_shifts_the_targets,
    check_a_delay_counts_physics_steps,
    check_parameters_are_read_back_from_the_model,
    check_payload_weighs_on_the_feet,
    check_centre_of_mass_loads_the_feet_below_it,
    check_friction_holds_the_feet_of_a_pushed_robot,
    check_strength_scales_the_torque_limit,
    check_gains_stiffen_and_damp,
    check_a_push_adds_just_that_velocity,
    check_translate_moves_xy_only,
    check_failure_is_flagged_and_contained,
    check_physics_takes_time,
)
