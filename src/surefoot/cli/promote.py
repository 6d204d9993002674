"""`surefoot promote`: the decision, and the differences that it rests on."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.compare import REFUSED
from surefoot.cli.parser import Positional
from surefoot.printing import print_promotion

NOT_PROMOTED = 1


@dataclass(frozen=True)
class PromoteCommand:
    """Decide whether a candidate may replace a baseline run: only if it is better under held-out disturbances
    and on a second simulator, both at once, scenario by scenario, and works by itself.

    Exit code 0: promoted. 1: not promoted. 3: not measured alike.

    Example: surefoot promote runs/CANDIDATE runs/BASELINE
    """

    candidate: Positional[str]
    """Run folder of the candidate."""
    baseline: Positional[str]
    """Run folder of what it would replace."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.evidence import promote_run

        promotion = promote_run(self.candidate, self.baseline)
        if self.json:
            print(json.dumps(plain(promotion.as_json()), indent=2))
        else:
            print_promotion(console, promotion)
        if promotion.differs:
            return REFUSED
        return 0 if promotion.promoted else NOT_PROMOTED
