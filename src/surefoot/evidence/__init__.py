"""Evidence: decisions on files; may two runs be compared, which is better, what went wrong."""

from __future__ import annotations

from surefoot.evidence.compare import (
    Comparison,
    Field,
    Refusal,
    compare,
    construct_difference,
    metrics_of,
    refusal_sentence,
)
from surefoot.evidence.learners import TARGET, LearnerComparison, LearnerFigures, compare_learners, rows_of
from surefoot.evidence.look_back import as_text, look_back, write_postmortem
from surefoot.evidence.postmortem import MEANING, Postmortem, Sentence
from surefoot.evidence.promote import METRICS, Promotion, Side, promote
from surefoot.evidence.representatives import Case, representative_failures

__all__ = [
    "MEANING",
    "METRICS",
    "TARGET",
    "Case",
    "Comparison",
    "Field",
    "LearnerComparison",
    "LearnerFigures",
    "Postmortem",
    "Promotion",
    "Refusal",
    "Sentence",
    "Side",
    "as_text",
    "compare",
    "compare_learners",
    "construct_difference",
    "look_back",
    "metrics_of",
    "promote",
    "refusal_sentence",
    "representative_failures",
    "rows_of",
    "write_postmortem",
]
