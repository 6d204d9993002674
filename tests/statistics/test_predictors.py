"""Which column orders runs as the second simulator does."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.statistics import predictors

SCENARIOS = 20


def run(**success: int) -> dict[str, np.ndarray]:
    """Rows of a run, `column__engine=successes`; the box world has only the first ten scenarios."""
    parts = []
    for name, count in success.items():
        column, engine = name.replace("_boxes", "_mujoco-boxes").split("__")
        n = 10 if engine == "mujoco-boxes" else SCENARIOS
        parts.append(
            {
                "column": np.array([column] * n),
                "engine": np.array([engine] * n),
                "policy": np.array(["trained"] * n),
                "terrain": np.array(["stairs_up"] * n),
                "scenario": np.arange(n),
                "success": np.arange(n) < count,
            }
        )
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


RUNS = [
    run(nominal__boxes=2, nominal__mujoco=3, nominal__stride=9, push__stride=12),
    run(nominal__boxes=4, nominal__mujoco=5, nominal__stride=8, push__stride=14),
    run(nominal__boxes=6, nominal__mujoco=7, nominal__stride=7, push__stride=16),
    run(nominal__boxes=8, nominal__mujoco=9, nominal__stride=6, push__stride=18),
]


def test_columns_are_ranked_by_how_they_order_runs() -> None:
    best, worst, unknown = predictors(RUNS, ["stride"] * 4)
    assert (best.column, best.engine, best.second, best.runs) == ("nominal", "mujoco", "mujoco-boxes", 4)
    assert best.rank_correlation == pytest.approx(1.0)
    assert best.without_one == pytest.approx((1.0, 1.0))
    assert (worst.engine, worst.rank_correlation) == ("stride", pytest.approx(-1.0))
    # On the ten scenarios of the box world all are flawless there; what happens elsewhere does not count.
    assert (unknown.column, unknown.rank_correlation, unknown.without_one) == ("push", None, None)


def test_only_columns_that_all_runs_have_are_ranked() -> None:
    more = run(nominal__boxes=9, nominal__mujoco=9)
    assert [p.engine for p in predictors([*RUNS, more], ["stride"] * 5)] == ["mujoco"]


def test_nothing_is_predicted_without_a_second_simulator() -> None:
    alone = [run(nominal__stride=k) for k in (3, 6, 9)]
    assert predictors(alone, ["stride"] * 3) == ()
