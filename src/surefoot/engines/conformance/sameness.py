"""The same calls give the same bits, whoever else is there and whatever was before."""

from __future__ import annotations

import math
from contextlib import closing

import torch

from surefoot.engines.conformance.scaffold import Check, Make, assert_same, begin, mask_of, run, standing
from surefoot.engines.protocol import Parameters


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


CHECKS: tuple[Check, ...] = (
    check_same_calls_give_the_same_bits,
    check_rows_do_not_depend_on_their_number,
    check_snapshot_and_restore_are_exact,
    check_reset_touches_only_the_masked_rows,
    check_reset_forgets_the_past,
)
