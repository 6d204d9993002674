"""`surefoot compare`: differences with intervals, a forest by stratum, or why not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import print_comparison, print_looks, print_refusal

if TYPE_CHECKING:
    from surefoot.evidence import Compared

REFUSED = 3
"""Exit code where runs were not measured alike."""


@dataclass(frozen=True)
class CompareCommand:
    """Compare runs on the scenarios that they share: paired differences with intervals, by stratum.

    Every run is compared with the first. Runs that were not measured alike (another measurement id) are
    refused with exit code 3 and the fields that differ; training may differ in anything and is shown.

    Example: surefoot compare runs/A runs/B

    Example (on slippery ground): surefoot compare runs/A runs/B --column friction_0.3
    """

    run_folders: Positional[tuple[str, ...]]
    """Run folders, two or more; the first is A."""
    panel_half: str = "confirmation"
    """Which half: confirmation, selection or all (which needs `surefoot evaluate --half all` first)."""
    column: str = "nominal"
    """Which pass over the panel: nominal, or a perturbation such as friction_0.3."""
    shared_panel: bool = False
    """Where only the panel differs: compare on the scenarios that both have."""
    json: bool = False
    """Print one JSON list, an object per comparison."""

    def run(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.evidence import Refusal, compare_runs

        results = compare_runs(
            self.run_folders, half=self.panel_half, column=self.column, shared_panel=self.shared_panel
        )
        if self.json:
            print(json.dumps(plain([_json(r) for r in results]), indent=2))
        else:
            for r in results:
                if isinstance(r.outcome, Refusal):
                    print_refusal(console, r.a, r.b, r.outcome)
                else:
                    print_comparison(console, r.outcome)
            print_looks(console, results)
        return REFUSED if any(isinstance(r.outcome, Refusal) for r in results) else 0


def _json(compared: Compared) -> dict[str, Any]:
    from surefoot.evidence import Refusal

    outcome = compared.outcome
    if isinstance(outcome, Refusal):
        return {"b": compared.b, "comparable": False, **asdict(outcome)}
    look = asdict(compared.look) if compared.look is not None else None
    return {"comparable": True, **outcome.as_json(), "look": look}
