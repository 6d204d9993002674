"""`surefoot size`: how many actors keep a learner busy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.contract import SurefootError
from surefoot.printing import plain_table

if TYPE_CHECKING:
    from surefoot.fleet import Sizing

WHO = {"network": "the link", "actors": "the actors", "learner": "the learner"}
UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


@dataclass(frozen=True)
class SizeCommand:
    """Say how many actors keep a learner busy, and what holds a fleet back: actors, the learner or the link.

    Example: surefoot size --calculate --batch 512 --learner-ms 8 --actor-rate 1000
    """

    calculate: bool = False
    """Compute it, in exact arithmetic, from the figures that are given."""
    batch: str | None = None
    """Transitions that the learner takes at a time (b)."""
    learner_ms: str | None = None
    """Milliseconds that it takes for them (t)."""
    actor_rate: str | None = None
    """Transitions that one actor makes per second (r)."""
    actors: int | None = None
    """Actors of the fleet (default: the fewest that keep the learner busy)."""
    bytes_per_transition: str | None = None
    """Bytes that a transition takes on its way to the learner."""
    link_gbytes: str | None = None
    """What the learner's link carries, in 10^9 bytes per second."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.fleet import calculate

        if not self.calculate:
            raise SurefootError("Give --calculate, with --batch, --learner-ms and --actor-rate.")
        needed = {"--batch": self.batch, "--learner-ms": self.learner_ms, "--actor-rate": self.actor_rate}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise SurefootError(f"--calculate needs {', '.join(missing)} too.")
        sized = calculate(
            self.batch or "",
            self.learner_ms or "",
            self.actor_rate or "",
            actors=self.actors,
            bytes_per_transition=self.bytes_per_transition,
            link_gbytes=self.link_gbytes,
        )
        if self.json:
            print(json.dumps(sized.as_json(), indent=2))
        else:
            print_sizing(console, sized)
        return 0


def print_sizing(console: Console, sized: Sizing) -> None:
    """Shows a fleet: its figures, and what binds."""
    table = plain_table("Fleet", "", "")
    table.show_header = False
    table.add_row("actors", f"{sized.actors:,}")
    table.add_row("the learner takes", f"{float(sized.demand_per_s):,.0f} transitions/s")
    table.add_row("the actors make", f"{float(sized.supply_per_s):,.0f} transitions/s")
    table.add_row("learned from", f"{float(sized.rate_per_s):,.0f} transitions/s")
    table.add_row("the learner works", f"{float(sized.learner_utilisation):.1%} of its time")
    if sized.bytes_per_s is not None and sized.bytes_per_s_per_actor is not None:
        each, all_of_them = _bytes(float(sized.bytes_per_s_per_actor)), _bytes(float(sized.bytes_per_s))
        table.add_row("bytes", f"{all_of_them}, {each} from each actor")
    if sized.network_actors is not None:
        table.add_row("the link carries", f"{sized.network_actors:,} actors")
    table.add_row("what binds", WHO[sized.binds])
    console.print(table)


def _bytes(per_second: float) -> str:
    scale, unit = next((u for u in UNITS if per_second >= u[0]), (1.0, "B/s"))
    return f"{per_second / scale:.3g} {unit}"
