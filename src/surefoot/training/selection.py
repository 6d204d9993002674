"""How a run is scored while it learns: the selection half, the best checkpoint, when to stop. The same for
every learner."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from surefoot.compute import SyncCount, Writer, process_seconds
from surefoot.compute.warp import compiled
from surefoot.contract import REFERENCE, Half, SurefootError
from surefoot.evaluation import ExternalEvaluator, PanelEvaluator, PendingResult
from surefoot.policy import PolicyBundle
from surefoot.runs import RunFolder
from surefoot.statistics import PanelResult, PanelSummary, PassInfo, summarise
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan


@dataclass(frozen=True)
class Limits:
    """When to stop, whichever comes first. At least one is set."""

    updates: int | None = None
    minutes: float | None = None
    """Of training; evaluation does not count."""
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


@dataclass
class Progress:
    """Where a run stands; all of it comes back on resume."""

    update: int = 0
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    successes: list[float] = field(default_factory=list)
    """Of every evaluation on the selection half so far."""
    best: float = -1.0
    best_update: int = 0


class Scored:
    """A run's progress, kept by whoever trains it. Without `select` nothing is scored while it trains and
    nothing is chosen: the result is the last policy."""

    def __init__(self, plan: Plan, run: RunFolder, select: bool = True) -> None:
        self.plan, self.run, self.progress, self.selects = plan, run, Progress(), select
        if select and not plan.panel.select("selection"):  # refused now, not in an hour
            raise SurefootError(f"Panel {plan.panel.name} has no scenario in its selection half.")
        self.overlaps = False
        """Whether training goes on while the writer works; if not, it waits, and the seconds of an evaluation
        are all that it takes."""
        self.stopped: signal.Signals | None = None
        self.startup: dict[str, float | int | None] = {}
        """Seconds from the start of this process to the end of its first update, and the kernel modules that
        it compiled for that; none of those: a warm start."""
        self.chosen = "latest"
        """The checkpoint that the run's result is stated on."""
        self._syncs = SyncCount(torch.device(plan.device), plan.recipe.horizon)

    @cached_property
    def selection(self) -> PanelEvaluator | ExternalEvaluator:
        """Laid out when it is first looked at, so that training begins without it."""
        return selection_half(self.plan)

    def policy(self) -> PolicyBundle:
        """The policy as it stands."""
        raise NotImplementedError

    def _started(self) -> None:
        """The first update of this process is done."""
        self.startup = {"seconds.startup": process_seconds(), "startup.compiled": compiled()}

    def _reached(self, limits: Limits) -> bool:
        p = self.progress
        if limits.updates is not None and p.update >= limits.updates:
            return True
        if limits.minutes is not None and p.train_seconds >= 60 * limits.minutes:
            return True
        return limits.until is not None and len(p.successes) > 1 and min(p.successes[-2:]) >= limits.until

    def _score(self, row: dict[str, Any], writer: Writer) -> bool:
        """Scores the current policy on the selection half, into the ledger row; true when it is the best so
        far. What the row says of it besides is known when the writer comes to write it."""
        p, begun = self.progress, time.perf_counter()
        policy = self.policy()
        seen = self.selection.evaluate_async(policy)
        writer.do(partial(self._keep, p.update, policy, seen, row))
        if not self.overlaps:
            writer.wait()
        spent = time.perf_counter() - begun
        p.evaluation_seconds += spent
        p.successes.append(seen.success)
        row |= {"evaluation.success": seen.success, "seconds.evaluation": spent}
        row |= {"wall_seconds": p.train_seconds + p.evaluation_seconds}
        if seen.success < p.best:
            return False
        p.best, p.best_update = seen.success, p.update
        return True

    def _keep(self, update: int, policy: PolicyBundle, seen: PendingResult, row: dict[str, Any]) -> None:
        """A look at the selection half: into the run folder, and into the ledger's row of its update."""
        result = seen.result()
        summary = panel_summary(
            self.plan, self.selection.half, result, result, f"update-{update}", policy.normaliser_digest
        )
        self.run.save_panel(f"selection-update-{update:06d}", summary, result, policy)
        keys = (
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
        row |= {f"evaluation.{k}": getattr(summary, k) for k in keys}

    def _choose(self) -> str:
        """The better of the best and the latest checkpoint on the selection half.

        A latest policy that the schedule left out is scored here. Its score stays out of the run's progress,
        so that a run stopped here and resumed later goes on as if it had not been stopped.
        """
        p, begun = self.progress, time.perf_counter()
        if not self.selects:
            return "latest"
        if p.update % self.plan.recipe.evaluate_every == 0 and p.successes:
            return "best"
        policy = self.policy()
        seen = self.selection.evaluate_async(policy)
        self._keep(p.update, policy, seen, {})
        p.evaluation_seconds += time.perf_counter() - begun
        return "latest" if seen.success >= p.best else "best"

    def _meta(self, policy: PolicyBundle) -> dict[str, Any]:
        """Of a checkpoint. No timing in it: two runs that did the same have the same one to the bit."""
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
        if "selection" in vars(self):
            self.selection.close()
        self.run.ledger.close()

    def figures(self) -> dict[str, float | int | None]:
        p, samples = self.progress, self.plan.accounting.samples_per_update * self.progress.update
        return {
            "updates": p.update,
            "samples": samples,
            "train_seconds": p.train_seconds,
            "evaluation_seconds": p.evaluation_seconds,
            "steps_per_second": samples / p.train_seconds if p.train_seconds else None,
            "best_selection_success": p.best if p.best >= 0 else None,
            "best_update": p.best_update,
            "chosen_update": p.best_update if self.chosen == "best" else p.update,
            "startup_seconds": self.startup.get("seconds.startup"),
            "startup_compiled": self.startup.get("startup.compiled"),
            "host_syncs_per_step": self._syncs.per_step,
        }


def selection_half(plan: Plan) -> PanelEvaluator | ExternalEvaluator:
    """Where a run is scored while it learns. On the evaluation plant, but on stride where training is:
    choosing may be fast, confirming is not."""
    if isinstance(plan, ExternalPlan):
        return ExternalEvaluator(plan.task, plan.panel, "selection", plan.device)
    assert isinstance(plan, RobotPlan)
    scored_on = "stride" if plan.engine == "stride" else REFERENCE
    near, hz = plan.device if scored_on == "stride" else "cpu", plan.recipe.control_hz
    return PanelEvaluator(plan.task, plan.panel, "selection", hz, engine=scored_on, device=near)


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
    info = PassInfo(
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        half=half,
        construct_id=plan.construct_id,
        training_id=plan.training_id,
        checkpoint=checkpoint,
        engine=str(headline.rows["engine"][0]),
        seconds=headline.seconds,
        steps=headline.steps,
        normaliser=normaliser,
        total_seconds=table.seconds if total_seconds is None else total_seconds,
        total_steps=table.steps,
    )
    return summarise(table.rows, plan.task.contract, info)
