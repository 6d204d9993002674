"""Evaluation: a policy plays held-out episodes, and every episode becomes a row."""

from __future__ import annotations

from surefoot.evaluation.episodes import STATES, Played, play, states_digest
from surefoot.evaluation.evaluator import Glance, PanelEvaluator
from surefoot.evaluation.external import BASELINES, SeedEvaluator, evaluate_seeds, outside_baseline
from surefoot.evaluation.labels import CAUSES, LABELS, label
from surefoot.evaluation.passes import engines_for, evaluate_panel, joined

__all__ = [
    "BASELINES",
    "CAUSES",
    "LABELS",
    "STATES",
    "Glance",
    "PanelEvaluator",
    "Played",
    "SeedEvaluator",
    "engines_for",
    "evaluate_panel",
    "evaluate_seeds",
    "joined",
    "label",
    "outside_baseline",
    "play",
    "states_digest",
]
