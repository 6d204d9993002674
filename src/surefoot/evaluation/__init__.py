"""Evaluation: a policy plays held-out episodes, and every episode becomes a row."""

from __future__ import annotations

from surefoot.evaluation.code import code_digests, column_digest, external_digests
from surefoot.evaluation.episodes import Episodes, run_episodes
from surefoot.evaluation.evaluator import PanelEvaluator, PendingResult
from surefoot.evaluation.external import BASELINES, ExternalEvaluator, evaluate_seeds, external_baseline
from surefoot.evaluation.labels import CAUSES, LABELS, label
from surefoot.evaluation.metrics import episode_metrics
from surefoot.evaluation.passes import Passes, concatenate, engines_for, evaluate_panel, look_until_decided
from surefoot.evaluation.progress import EvaluationProgress, Watch, unwatched
from surefoot.evaluation.runner import runner_for

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
    "code_digests",
    "column_digest",
    "concatenate",
    "engines_for",
    "episode_metrics",
    "evaluate_panel",
    "evaluate_seeds",
    "external_baseline",
    "external_digests",
    "label",
    "look_until_decided",
    "run_episodes",
    "runner_for",
    "unwatched",
]
