"""Evaluation: a policy plays held-out episodes, and every episode becomes a row."""

from __future__ import annotations

from surefoot.evaluation.episodes import Episodes, run_episodes
from surefoot.evaluation.evaluator import PanelEvaluator, PendingResult
from surefoot.evaluation.external import BASELINES, ExternalEvaluator, evaluate_seeds, external_baseline
from surefoot.evaluation.labels import CAUSES, LABELS, label
from surefoot.evaluation.passes import Passes, concatenate, engines_for, evaluate_panel
from surefoot.evaluation.progress import EvaluationProgress, Watch, unwatched

__all__ = [
    "BASELINES",
    "CAUSES",
    "LABELS",
    "Episodes",
    "EvaluationProgress",
    "ExternalEvaluator",
    "PanelEvaluator",
    "Passes",
    "PendingResult",
    "Watch",
    "concatenate",
    "engines_for",
    "evaluate_panel",
    "evaluate_seeds",
    "external_baseline",
    "label",
    "run_episodes",
    "unwatched",
]
