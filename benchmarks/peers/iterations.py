"""How long an iteration of an RSL-RL runner takes, without its first few."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 3


def seconds_per_iteration(
    runner: Any, iterations: int, settle: Callable[[], None], spread: bool = False
) -> float:
    """Median over `iterations`, from the end of one update to the end of the next: collection, returns,
    update and what the runner does besides. `spread` begins episodes at random ages."""
    stamps: list[float] = []
    update = runner.alg.update

    def stamped() -> Any:
        result = update()
        settle()
        stamps.append(time.perf_counter())
        return result

    runner.alg.update = stamped
    runner.learn(num_learning_iterations=iterations + WARM_UP, init_at_random_ep_len=spread)
    return statistics.median(b - a for a, b in zip(stamps[WARM_UP - 1 :], stamps[WARM_UP:], strict=False))
