"""What others do to a robot, and what happens when its physics fails."""

from __future__ import annotations

import math
from contextlib import closing

import torch

from surefoot.engines.conformance.scaffold import (
    Check,
    Make,
    assert_same,
    begin,
    hold,
    mask_of,
    moving_targets,
    near,
    run,
    standing,
    to_world,
    turned_start,
    vector,
)
from surefoot.engines.protocol import Parameters


def check_a_push_adds_just_that_velocity(make: Make) -> None:
    with closing(make(3)) as engine:
        begin(engine, turned_start(engine, 2, math.pi / 2))
        run(engine, 3)
        before = engine.state().clone()
        engine.push(mask_of(engine, [1]), vector(engine, 0.5, -0.25).repeat(3, 1))
        after = engine.state()
        gain = to_world(after) - to_world(before)
        near(gain[1], vector(engine, 0.5, -0.25, 0), 1e-5, "A push adds its velocity in the world frame")
        for name in ("position", "quaternion", "angular_velocity", "joint_position", "joint_velocity"):
            hold(torch.equal(getattr(after, name), getattr(before, name)), f"A push changes no {name}.")
        assert_same(after, before, "A push leaves the environments outside its mask alone", rows=[0, 2])


def check_translate_moves_xy_only(make: Make) -> None:
    with closing(make(3)) as engine:
        begin(engine)
        run(engine, 5)
        before = engine.state().clone()
        offset = vector(engine, 0.5, -0.25)
        engine.translate(mask_of(engine, [1]), offset.repeat(3, 1))
        after = engine.state()
        for name, new in after.tensors().items():
            old = getattr(before, name)
            if name in ("position", "foot_position"):
                near(
                    new[1, ..., :2] - old[1, ..., :2], offset, 1e-5, f"Translating moves {name} by the offset"
                )
                new, old = new[..., 2], old[..., 2]
            hold(torch.equal(new, old), f"Translating changes no {name}, apart from xy.")
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
        hold(
            failed == [1, 2, 3],
            f"NaN targets, a push of 1e6 m/s and infinite targets fail 1, 2, 3: {failed}.",
        )
        kept = [len(v) for v in broken.failures().values()]
        hold(set(kept) == {3}, f"failures() keeps one row for each of the three that failed, not {kept}.")
        assert_same(x, y, "A failing environment does not disturb the others", rows=[0, 4])
        broken.reset(mask_of(broken, [1, 2, 3]), standing(broken), Parameters.nominal(5, broken.device))
        hold(~broken.state().failed, "A reset ends a failure.")
        for k, (x, y) in enumerate(zip(run(broken, 10, first=4), run(sound, 10, first=4), strict=True)):
            assert_same(x, y, f"A failure does not disturb the others later on (step {k})", rows=[0, 4])
            hold(~x.failed, "Environments that were reset after a failure run on.")


def check_physics_takes_time(make: Make) -> None:
    with closing(make(1)) as engine:
        begin(engine)
        before = engine.seconds
        run(engine, 2)
        hold(engine.seconds > before, "`seconds` counts the wall-clock spent in physics.")


CHECKS: tuple[Check, ...] = (
    check_a_push_adds_just_that_velocity,
    check_translate_moves_xy_only,
    check_failure_is_flagged_and_contained,
    check_physics_takes_time,
)
