"""Evidence: decisions on files; may two runs be compared, which is better, what went wrong."""

from __future__ import annotations

from surefoot.contract import Field
from surefoot.evidence.compare import (
    Compared,
    Comparison,
    Refusal,
    compare,
    compare_runs,
    metrics_of,
    refusal_sentence,
)
from surefoot.evidence.constructs import construct_difference
from surefoot.evidence.learners import TARGET, LearnerComparison, LearnerFigures, compare_learners, rows_of
from surefoot.evidence.look_back import as_text, look_back, write_postmortem
from surefoot.evidence.postmortem import MEANING, Postmortem, Sentence
from surefoot.evidence.promote import Promotion, check_promotable
from surefoot.evidence.promote_runs import decide, promote_run
from surefoot.evidence.registry import Decision, Registry, open_registry
from surefoot.evidence.representatives import Case, representative_failures
from surefoot.evidence.sides import METRICS, Side, Stratum

__all__ = [
    "MEANING",
    "METRICS",
    "TARGET",
    "Case",
    "Compared",
    "Comparison",
    "Decision",
    "Field",
    "LearnerComparison",
    "LearnerFigures",
    "Postmortem",
    "Promotion",
    "Refusal",
    "Registry",
    "Sentence",
    "Side",
    "Stratum",
    "as_text",
    "check_promotable",
    "compare",
    "compare_learners",
    "compare_runs",
    "construct_difference",
    "decide",
    "look_back",
    "metrics_of",
    "open_registry",
    "promote_run",
    "refusal_sentence",
    "representative_failures",
    "rows_of",
    "write_postmortem",
]
