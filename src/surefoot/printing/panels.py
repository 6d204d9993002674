"""What a panel can show, and what of it lies beyond training, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.contract import Panel, SeedPanel, TaskContract


def beyond_shares(panel: Panel, contract: TaskContract) -> dict[str, float]:
    """Returns by factor the share of a panel's confirmation half that lies outside its training range."""
    from surefoot.contract import beyond

    half = panel.select("confirmation")
    counts = Counter(name for s in half for name in beyond(s, contract))
    return {name: n / len(half) for name, n in counts.items()}


def values_there(panel: Panel) -> dict[str, tuple[float, float]]:
    """Returns by factor the least and the most that any scenario to confirm on has: what there is, not what
    it was drawn from."""
    from surefoot.contract import seen_ranges

    return seen_ranges(panel.select("confirmation"))


def power_rows(panel: Panel | SeedPanel) -> tuple[tuple[str, str], ...]:
    """Says what a panel of independent scenarios can show; nothing of one whose scenarios come in
    families."""
    from surefoot.contract import DrawnPanel
    from surefoot.statistics import HOLDS_AT, RELIABLE_AT, smallest_true_rate

    if not isinstance(panel, DrawnPanel):
        return ()

    def earned(n: int, at: float) -> str:
        least = smallest_true_rate(n, at)
        return "cannot be shown" if least is None else f"from a true {100 * least:.1f}%"

    n, columns = (len(panel.select("confirmation", perturbed=p)) for p in (False, True))
    reliable = f"Reliable (interval from {RELIABLE_AT:.0%} up): {earned(n, RELIABLE_AT)}"
    classes = Counter(s.terrain.cls for s in panel.select("confirmation"))
    holds = f"holds ({HOLDS_AT:.0%} up): {earned(columns, HOLDS_AT)} on a column of {columns}"
    if len(classes) > 1:
        least = min(classes.values())
        holds += f", {earned(least, HOLDS_AT)} on a terrain class of {least}"
    return (("can show", f"{reliable}; {holds}; each with a chance of 80%"),)
