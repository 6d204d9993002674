"""`surefoot evaluate`: what a run's policy can do on held-out scenarios."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional


@dataclass(frozen=True)
class EvaluateCommand:
    """Evaluate a run's policy on a held-out panel: one pass a column, deterministic actions, every episode a
    row on disk.

    Columns are the panel's own scenarios, with the same keys, under a perturbation; baselines run on the same
    panel.

    Example: surefoot evaluate runs/RUN --perturb friction delay_60ms

    Example (both halves of the panel): surefoot evaluate runs/RUN --half all
    """

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    panel: str | None = None
    """Panel name or file (default: the task's)."""
    half: str = "confirmation"
    """Which half: confirmation, selection (the one that training looked at) or all."""
    engine: str = "auto"
    """auto: the nominal column on mujoco, the others on the fastest engine that can take the robot. Another
    name: all columns on it, and how far its nominal column agrees with mujoco's (sim-to-sim)."""
    checkpoint: str = "confirmed"
    """confirmed (what the run's result is stated on), best, latest, a checkpoint file of this run, or a
    baseline: baseline:hold-pose, baseline:random, baseline:open-loop-trot."""
    perturb: tuple[str, ...] = ("all",)
    """all, none, perturbations (noise, delay in s, friction, payload in kg, push in m/s, strength, and of
    sensors dropout, bias, stuck, obs_delay; on terrain: curbs, stones) or columns at any
    strength (friction_0.25, delay_60ms, payload_+2kg)."""
    sweep: bool = False
    """Every declared strength of the chosen perturbations, for curves of success against strength."""
    baselines: bool = True
    """Leave out the baselines: hold-pose, random and open-loop-trot on the same panel."""
    scenarios: int | None = None
    """Scenarios to confirm on (default: as many as the run was planned with); a longer list begins with the
    shorter one."""
    sequential: bool = False
    """Look at 1, 2, 4 and 8 times the panel's scenarios, and stop when the verdict is decided; the intervals
    allow for all looks."""
    json: bool = False
    """Print the summary as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.printing import ConsoleObserver, make_console, print_summary
        from surefoot.training import EvaluateOptions, evaluate_run

        evaluated = evaluate_run(
            self.run_folder,
            EvaluateOptions(
                panel=self.panel,
                half=self.half,
                engine=self.engine,
                checkpoint=self.checkpoint,
                perturb=self.perturb,
                sweep=self.sweep,
                baselines=self.baselines,
                scenarios=self.scenarios,
                sequential=self.sequential,
            ),
            ConsoleObserver(make_console(stderr=True) if self.json else console),
        )
        if self.json:
            print(json.dumps(evaluated.summary.model_dump(mode="json"), indent=2))
        else:
            print_summary(console, evaluated.plan, evaluated.run, evaluated.folder, training=False)
        return 0
