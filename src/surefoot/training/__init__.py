"""Training: a plan, the loop that carries it out, and the evaluation of what it learned."""

from __future__ import annotations

from surefoot.training.batch import LedgerConstants, block_statistics, ledger_row
from surefoot.training.evaluate import EvaluateOptions, PassOptions, evaluate_policy, evaluate_run
from surefoot.training.honesty import EVERY, honesty_figures, honesty_row
from surefoot.training.iteration import IterationResult, TrainingIteration, collect
from surefoot.training.library_process import LibraryFailed, LibraryProcess
from surefoot.training.live import CHECKS as LIVE_CHECKS
from surefoot.training.looks import check_sequential, look
from surefoot.training.manifest import Manifest
from surefoot.training.measurements import Clock
from surefoot.training.observers import UNOBSERVED, EvaluationObserver, Observer, SessionObserver
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan
from surefoot.training.plan_makers import make_plan, robot_plan
from surefoot.training.restore import (
    check_resumable,
    load_policy,
    resolve_policy,
    restore_plan,
    restore_robot_plan,
)
from surefoot.training.resuming import standing
from surefoot.training.selection import CheckpointSelection, Limits, Progress, panel_summary
from surefoot.training.signals import Stopped, abort_signals
from surefoot.training.tracking import begin_tracker, track_audit, track_run
from surefoot.training.trainer import Trainer, new_run

__all__ = [
    "EVERY",
    "LIVE_CHECKS",
    "UNOBSERVED",
    "CheckpointSelection",
    "Clock",
    "EvaluateOptions",
    "EvaluationObserver",
    "ExternalPlan",
    "IterationResult",
    "LedgerConstants",
    "LibraryFailed",
    "LibraryProcess",
    "Limits",
    "Manifest",
    "Observer",
    "PassOptions",
    "Plan",
    "Progress",
    "RobotPlan",
    "SessionObserver",
    "Stopped",
    "Trainer",
    "TrainingIteration",
    "abort_signals",
    "begin_tracker",
    "block_statistics",
    "check_resumable",
    "check_sequential",
    "collect",
    "evaluate_policy",
    "evaluate_run",
    "honesty_figures",
    "honesty_row",
    "ledger_row",
    "load_policy",
    "look",
    "make_plan",
    "new_run",
    "panel_summary",
    "resolve_policy",
    "restore_plan",
    "restore_robot_plan",
    "robot_plan",
    "standing",
    "track_audit",
    "track_run",
]
