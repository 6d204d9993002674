"""Statistics of differences and decisions are those of other code; a changed one is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_faults import findings, said

from surefoot.audits import decisions, slow_paired
from surefoot.statistics import LOOKS, Difference, decision_alpha, holm, median_interval, paired


def test_a_clean_run_has_nothing(tiny_run: Path) -> None:
    assert findings(tiny_run, "decisions") == []


@pytest.mark.parametrize("seed", range(3))
def test_both_codes_agree_on_random_pairs(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    assert [*decisions._differences(numbers), *decisions._several(numbers)] == []
    assert [*decisions._seeds(numbers), *decisions._looks(numbers)] == []


def test_they_agree_at_the_edges() -> None:
    same = np.zeros(6)
    for span in ((0.0, 1.0), (0.0, 2.0), (0.0, np.inf)):
        said, right = paired(same, same, range(6), span), slow_paired.paired(same, same, range(6), span)
        assert (said.low, said.high, said.p) == pytest.approx((right.low, right.high, right.p))
    assert holm([]) == slow_paired.adjusted([]) == []
    assert median_interval([1.0, 2.0])[:2] == slow_paired.median_ends([1.0, 2.0])
    assert slow_paired.share_of_decision(1) == pytest.approx(decision_alpha(1), rel=1e-8)


def narrower(right: Callable[..., Difference], *given: Any) -> Difference:
    d = right(*given)
    return replace(d, low=d.low + 0.02 * (d.high - d.low))


def fewer_hypotheses(right: Callable[..., list[float]], p: list[float]) -> list[float]:
    return [min(1.0, x * (len(p) - 1) / max(len(p), 1)) for x in right(p)]


def whole_error(right: Any, success: np.ndarray, number: int) -> Any:
    from surefoot.statistics import rate

    return replace(right(success, number), success=rate(success, np.arange(len(success)), 0.95))


@pytest.mark.parametrize(
    ("name", "fault", "says"),
    [
        ("paired", narrower, "'low' is"),
        ("paired", lambda right, *given: replace(right(*given), p=0.5 * right(*given).p), "'p' is"),
        ("holm", fewer_hypotheses, "Holm"),
        ("look_at", whole_error, "its part of 5%"),
        ("decision_alpha", lambda right, number: 0.05, "Decision 1"),
        ("median_interval", lambda right, values: (min(values), max(values), 0.95), "training seeds"),
    ],
)
def test_another_rule_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: Any, says: str
) -> None:
    right = getattr(decisions, name)
    monkeypatch.setattr(decisions, name, lambda *given: fault(right, *given))
    text = said(tiny_run, "decisions")
    assert says in text
    assert text.startswith("[statistics]")
    assert len(LOOKS) == 4
