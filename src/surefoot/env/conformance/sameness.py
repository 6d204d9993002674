"""The same seeds give the same bits: again, in a part of the environments, and after a restore."""

from __future__ import annotations

from contextlib import closing

import torch

from surefoot.contract import SurefootError
from surefoot.env.base import TrainingEnv
from surefoot.env.conformance.scaffold import ENVS, Check, Make, Rolled, assert_same, hold, roll, same_bits
from surefoot.env.snapshots import SUMMED


def check_same_seeds_give_the_same_bits(make: Make) -> None:
    with closing(make(range(ENVS))) as a, closing(make(range(ENVS))) as b:
        hold(same_bits(a.obs, b.obs), "Environments that are made alike begin alike.")
        hold(same_bits(a.content(), b.content()), "Environments that are made alike have the same episodes.")
        for k in range(2):
            assert_same(roll(a, 4.0), roll(b, 4.0), f"Two that are made alike agree to the bit (rollout {k})")


def check_a_part_is_that_of_the_whole(make: Make) -> None:
    """Environments of a plan are the same in a process of their own."""
    half = slice(ENVS // 2, ENVS)
    with closing(make(range(ENVS))) as whole, closing(make(range(half.start, half.stop))) as part:
        hold(part.num_envs == ENVS // 2, "A part has as many environments as its range.")
        hold(same_bits(whole.obs[half], part.obs), "A part begins as those environments of the whole.")
        hold(same_bits(whole.age()[half], part.age()), "A part is staggered as the whole is.")
        for k in range(2):
            promise = f"Environments of a part are those of the whole (rollout {k})"
            assert_same(roll(whole, 4.0), roll(part, 4.0), promise, half)


def check_snapshot_and_restore_are_exact(make: Make) -> None:
    """Environments can be restored, or refuse with a SurefootError."""
    with closing(make(range(ENVS))) as env:
        roll(env, 4.0)
        saved = env.snapshot()
        kept = {k: v.clone() for k, v in saved.items()}
        for name, rows in saved.items():
            hold(
                name in SUMMED or len(rows) == ENVS, f"A snapshot has one row per environment; not '{name}'."
            )
        future = [roll(env, 4.0) for _ in range(2)]
        hold(all(torch.equal(kept[k], v) for k, v in saved.items()), "A snapshot is a copy.")
        try:
            env.restore(saved)
        except SurefootError:
            return
        _continues(env, future, "restored")
        env.restore(saved)  # finds out whether the first one used up the snapshot
        _continues(env, future, "restored again")
    with closing(make(range(ENVS))) as other:
        other.restore(kept)
        _continues(other, future, "restored elsewhere")


def _continues(env: TrainingEnv, future: list[Rolled], what: str) -> None:
    for k, expected in enumerate(future):
        again = roll(env, 4.0)
        assert_same(expected, again, f"Environments that were {what} continue to the bit (rollout {k})")
        for a, b in zip(expected.stats.ended, again.stats.ended, strict=True):
            wrong = [name for name in a if not (a[name] == b[name]).all()]
            hold(
                not wrong,
                f"Environments that were {what} end their episodes alike: {', '.join(wrong)} differ.",
            )


CHECKS: tuple[Check, ...] = (
    check_same_seeds_give_the_same_bits,
    check_a_part_is_that_of_the_whole,
    check_snapshot_and_restore_are_exact,
)
