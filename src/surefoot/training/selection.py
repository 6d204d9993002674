"""How a run is scored while it learns, which of its checkpoints is chosen, and when it stops. The same for
every learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from surefoot.compute import Writer
from surefoot.contract import Column, Half, SurefootError, digest
from surefoot.evaluation import PendingResult, Watch, unwatched
from surefoot.policy import PolicyBundle
from surefoot.runs import RunFolder
from surefoot.statistics import PanelResult, PanelSummary, PassInfo, summarise
from surefoot.training.plan import Evaluator, Plan

SUMMARISED = (
    "success",
    "success_low",
    "success_high",
    "fall_rate",
    "velocity_error_mps",
    "yaw_error_radps",
    "cost_of_transport",
    "episodes",
    "effective_episodes",
    "end_reasons",
    "engine",
)
"""Fields of an evaluation's summary that the ledger repeats as `evaluation.*`."""


@dataclass
class Progress:
    """Where a run stands; all of it comes back on resume."""

    update: int = 0
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    successes: list[float] = field(default_factory=list)
    """Success of every evaluation on the selection half so far."""
    best: float = -1.0
    best_update: int = 0

    @property
    def wall_seconds(self) -> float:
        """Seconds of training and evaluation."""
        return self.train_seconds + self.evaluation_seconds

    def load(self, meta: Mapping[str, Any]) -> None:
        """Takes up where the checkpoint with `meta` stood, but for the seconds, which it does not hold."""
        self.update, self.successes = int(meta["update"]), [float(s) for s in meta["successes"]]
        self.best, self.best_update = float(meta["best"]), int(meta["best_update"])

    def load_seconds(self, row: Mapping[str, Any]) -> None:
        """Takes the seconds from the ledger's row of the update that it stands at."""
        self.train_seconds = float(row["train_seconds"])
        self.evaluation_seconds = float(row["wall_seconds"]) - self.train_seconds


@dataclass(frozen=True)
class Limits:
    """When to stop, whichever comes first. At least one is set."""

    updates: int | None = None
    minutes: float | None = None
    """Minutes of training; evaluation does not count."""
    until: float | None = None
    """Success that two consecutive evaluations on the selection half must reach."""

    def __post_init__(self) -> None:
        if self.updates is not None and self.updates < 1:
            raise SurefootError(f"--updates is {self.updates}; use 1 or more.")
        if self.minutes is not None and not self.minutes > 0:
            raise SurefootError(f"--minutes is {self.minutes:g}; use a positive number.")
        if self.until is not None and not 0 < self.until <= 1:
            raise SurefootError(
                f"--until is {self.until:g}; use a success rate above 0 and up to 1, e.g. 0.95."
            )

    def reached(self, p: Progress) -> bool:
        """Tells whether a run that stands at `p` is to stop."""
        return bool(self.reason(p))

    def reason(self, p: Progress) -> str:
        """Says which limit a run that stands at `p` has reached; "" where none is."""
        if self.updates is not None and p.update >= self.updates:
            return f"is already at update {p.update}, and --updates is {self.updates}"
        if self.minutes is not None and p.train_seconds >= 60 * self.minutes:
            return f"has trained for {p.train_seconds / 60:.2f} minutes, and --minutes is {self.minutes:g}"
        if self.until is not None and len(p.successes) > 1 and min(p.successes[-2:]) >= self.until:
            last = " and ".join(f"{100 * s:.1f}%" for s in p.successes[-2:])
            return f"has reached {last} in its last two evaluations, and --until is {self.until:g}"
        return ""


class CheckpointSelection:
    """Scores the policies of a run on the selection half of its panel, and chooses a checkpoint by that.

    A part of every trainer. `policy` gives the policy as it stands, `progress` is the trainer's. Where it is
    not `enabled` nothing is scored and nothing is chosen: the result is the last policy.
    """

    def __init__(
        self,
        plan: Plan,
        run: RunFolder,
        progress: Progress,
        policy: Callable[[], PolicyBundle],
        enabled: bool = True,
    ) -> None:
        if enabled and not plan.panel.select("selection"):  # refused now, not in an hour
            raise SurefootError(f"Panel {plan.panel.name} has no scenario in its selection half.")
        self.plan, self.run, self.progress, self.policy = plan, run, progress, policy
        self.enabled = enabled

    @cached_property
    def evaluator(self) -> Evaluator:
        """The selection half, laid out when it is first needed, so that training begins without it."""
        return self.plan.selection_evaluator()

    def score(
        self, row: dict[str, Any], writer: Writer, overlaps: bool = False, watch: Watch = unwatched
    ) -> bool:
        """Scores the current policy, into the ledger's `row`; returns whether it is the best so far. The rest
        of what the row says of it is added when `writer` saves the result. Where training goes on meanwhile
        (`overlaps`) nobody waits for that; if not, the seconds of an evaluation are all that it takes.
        `watch` is told how far it is."""
        p, begun = self.progress, time.perf_counter()
        policy = self.policy()
        result = self.evaluator.evaluate_async(policy, watch)
        writer.do(partial(self.save, p.update, policy, result, row))
        if not overlaps:
            writer.wait()
        spent = time.perf_counter() - begun
        p.evaluation_seconds += spent
        p.successes.append(result.success)
        row |= {"evaluation.success": result.success, "seconds.evaluation": spent}
        row |= {"wall_seconds": p.wall_seconds}
        if result.success < p.best:
            return False
        p.best, p.best_update = result.success, p.update
        return True

    def save(self, update: int, policy: PolicyBundle, pending: PendingResult, row: dict[str, Any]) -> None:
        """Writes an evaluation into the run folder, and its summary into the ledger's row of its update."""
        result = pending.result()
        summary = panel_summary(
            self.plan, self.evaluator.half, result, result, f"update-{update}", policy.normaliser_digest
        )
        self.run.save_panel(f"selection-update-{update:06d}", summary, result, policy)
        row |= {f"evaluation.{k}": getattr(summary, k) for k in SUMMARISED}

    def choose(self, watch: Watch = unwatched) -> str:
        """Returns the better of the best and the latest checkpoint.

        A latest policy that the schedule left out is scored here. Its score stays out of the run's progress,
        so that a run stopped here and resumed later goes on as if it had not been stopped.
        """
        p, begun = self.progress, time.perf_counter()
        if not self.enabled:
            return "latest"
        if p.update % self.plan.recipe.evaluate_every == 0 and p.successes:
            return "best"
        policy = self.policy()
        result = self.evaluator.evaluate_async(policy, watch)
        self.save(p.update, policy, result, {})
        p.evaluation_seconds += time.perf_counter() - begun
        return "latest" if result.success >= p.best else "best"

    def checkpoint_meta(self, policy: PolicyBundle) -> dict[str, Any]:
        """Returns what a checkpoint says about itself. No timing in it: two runs that did the same have the
        same one to the bit."""
        p = self.progress
        return {
            "update": p.update,
            "contract_digest": self.plan.task.contract.digest,
            "policy": policy.meta(),
            "normaliser_digest": policy.normaliser_digest,
            "successes": list(p.successes),
            "best": p.best,
            "best_update": p.best_update,
        }

    def close(self) -> None:
        if "evaluator" in vars(self):
            self.evaluator.close()


def panel_summary(
    plan: Plan,
    half: Half,
    table: PanelResult,
    headline: PanelResult,
    checkpoint: str,
    normaliser: str = "",
    total_seconds: float | None = None,
) -> PanelSummary:
    """Summarises `table`, all passes of one policy over the plan's panel, of which `headline` is the first.
    `total_seconds` is the wall-clock of all; that of the passes unless said otherwise."""
    engine = str(headline.rows["engine"][0])
    engines = dict.fromkeys(table.rows["engine"].astype(str).tolist())
    info = PassInfo(
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        half=half,
        construct_id=digest(plan.measured_on(engine)),
        measurement=plan.measured_on(engine),
        interface_id=plan.interface_id,
        engines={e: plan.engine_version(e) for e in engines},
        shifts=_shifts(plan, table.rows),
        training_id=plan.training_id,
        checkpoint=checkpoint,
        engine=engine,
        seconds=headline.seconds,
        steps=headline.steps,
        normaliser=normaliser,
        total_seconds=table.seconds if total_seconds is None else total_seconds,
        total_steps=table.steps,
    )
    return summarise(table.rows, plan.task.contract, info)


def _shifts(plan: Plan, rows: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digest of what every column of a table makes of the panel."""
    named = (rows[k].tolist() for k in ("column", "perturbation", "strength"))
    found = dict.fromkeys(zip(*named, strict=True))
    return {c: plan.column_digest(Column(name=c, perturbation=kind, strength=x)) for c, kind, x in found}
