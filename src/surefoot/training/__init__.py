"""Training: from a plan to a run that has been confirmed."""

from __future__ import annotations

from surefoot.training.batch import block_statistics, ledger_row
from surefoot.training.evaluate import EvaluateOptions, PassOptions, evaluate_policy, evaluate_run
from surefoot.training.honesty import EVERY, honesty_figures, honesty_row
from surefoot.training.iteration import collect
from surefoot.training.looks import check_sequential
from surefoot.training.manifest import Manifest
from surefoot.training.observers import UNOBSERVED, EvaluationObserver, Observer, SessionObserver
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan
from surefoot.training.plan_makers import make_plan, robot_plan
from surefoot.training.restore import load_policy, resolve_policy, restore_plan, restore_robot_plan
from surefoot.training.selection import Limits, Progress, panel_summary
from surefoot.training.session import TrainedRun, TrainOptions, resume, train, train_planned
from surefoot.training.tracking import track_run
from surefoot.training.trainer import Trainer, new_run

__all__ = [
    "EVERY",
    "UNOBSERVED",
    "EvaluateOptions",
    "EvaluationObserver",
    "ExternalPlan",
    "Limits",
    "Manifest",
    "Observer",
    "PassOptions",
    "Plan",
    "Progress",
    "RobotPlan",
    "SessionObserver",
    "TrainOptions",
    "TrainedRun",
    "Trainer",
    "block_statistics",
    "check_sequential",
    "collect",
    "evaluate_policy",
    "evaluate_run",
    "honesty_figures",
    "honesty_row",
    "ledger_row",
    "load_policy",
    "make_plan",
    "new_run",
    "panel_summary",
    "resolve_policy",
    "restore_plan",
    "restore_robot_plan",
    "resume",
    "robot_plan",
    "track_run",
    "train",
    "train_planned",
]
