"""Sentences on a second simulator: whose contact a figure on terrain is of, and how far others agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from surefoot.contract import BOX_WORLD, simulator

if TYPE_CHECKING:
    from surefoot.statistics import PanelSummary


def sim_to_sim(s: PanelSummary) -> Iterator[str]:
    """Yields whose contact figures on terrain are of, and how far other simulators agree with them."""
    from surefoot.statistics import percent

    if s.on_terrain:
        yield f"Figures on terrain are of {simulator(s.engine, True)}."
    for a in s.agreement:
        rank = "not measured" if a.rank_correlation is None else f"{a.rank_correlation:.2f}"
        contact = f" ({simulator(a.engine, True)})" if s.on_terrain else ""
        yield (
            f"Sim-to-sim, {a.engine}{contact} against {a.reference}: success agrees on "
            f"{percent(a.success_agreement)} of {a.n} scenarios, rank correlation of errors {rank}."
        )
        if a.engine == BOX_WORLD and a.terrain:
            by = [
                f"{cls} {percent(x.success_agreement)} ({percent(x.success)} there, "
                f"{percent(x.reference_success)} on {a.reference})"
                for cls, x in a.terrain.items()
            ]
            absent = sorted(set(s.terrain) - set(a.terrain))
            yield f"By class: {', '.join(by)}." + (f" Not in it: {', '.join(absent)}." if absent else "")
