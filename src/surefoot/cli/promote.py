"""`surefoot promote`: the decision, and the differences that it rests on."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import print_promotion


@dataclass(frozen=True)
class PromoteCommand:
    """Decide whether a candidate may replace a baseline run: only if it is better under held-out disturbances
    and on a second simulator, both at once, scenario by scenario, worse in no stratum, and works by itself.

    Both policies are evaluated on fresh scenarios, whose root seed is the digest of both checkpoints: nobody
    can have chosen on them, anybody can make them again. With --no-fresh the recorded confirmation half
    decides (no simulator is needed), and the k-th decision on it may err by 0.05 x 6 / (pi k)^2 only.

    Exit code 0: PROMOTE. 1: REJECT, it is shown to be worse or does not work. 3: INVALID, the two were not
    measured alike or the evidence is broken. 4: INCONCLUSIVE, nothing is shown; how many scenarios would show
    it is said.

    Example: surefoot promote runs/CANDIDATE --over runs/BASELINE

    Example (kept, with its lineage): surefoot promote runs/CANDIDATE runs/BASELINE --registry registry
    """

    candidate: Positional[str]
    """Run folder of the candidate."""
    baseline: Positional[str] = ""
    """Run folder of what it would replace; --over says the same."""
    over: str = ""
    """Run folder of what it would replace."""
    fresh: bool = True
    """Decide on the confirmation half that both runs have recorded."""
    scenarios: int | None = None
    """How many fresh scenarios (default: as many as the panel's confirmation half has)."""
    registry: str | None = None
    """Folder that keeps the decision, what it rests on and the promoted policy; see `surefoot registry`."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.evidence import promote_run
        from surefoot.printing import ConsoleObserver, make_console

        if bool(self.baseline) == bool(self.over):
            raise SurefootError(
                "Say once which run it would replace: `surefoot promote CANDIDATE --over BASELINE`."
            )
        two = self.candidate, self.baseline or self.over
        if self.fresh:
            from surefoot.experiments import promote_fresh

            observer = ConsoleObserver(make_console(stderr=True) if self.json else console)
            promotion = promote_fresh(
                *two, scenarios=self.scenarios, registry=self.registry, observer=observer
            )
        else:
            if self.scenarios is not None:
                raise SurefootError("Recorded rows have the scenarios that they have; leave out --scenarios.")
            promotion = promote_run(*two, registry=self.registry)
        if self.json:
            print(json.dumps(plain(promotion.as_json()), indent=2))
        else:
            print_promotion(console, promotion)
        return promotion.exit_status
