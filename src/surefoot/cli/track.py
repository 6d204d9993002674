"""`surefoot track`: a run that has ended, in a dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import say


@dataclass(frozen=True)
class TrackCommand:
    """Show a run's ledger in a dashboard, as `train --tracker` does while it trains.

    Example: surefoot track runs/RUN --tracker mlflow
    """

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    tracker: Literal["tensorboard", "wandb", "mlflow"] = "tensorboard"
    """Which one; what it was shown of this run before is replaced."""

    def run(self, console: Console) -> int:
        from surefoot.training import track_run

        run = track_run(self.run_folder, self.tracker)
        say(console, f"{self.tracker} has the ledger of {run.path}")
        return 0
