"""Evidence: decisions on files; may two runs be compared, which is better, what went wrong."""

from __future__ import annotations

from surefoot.contract import Field
from surefoot.evidence.compare import (
    Compared,
    Comparison,
    Refusal,
    compare,
    compare_runs,
    compare_sound,
    metrics_of,
    refusal_sentence,
)
from surefoot.evidence.constructs import construct_difference
from surefoot.evidence.improvement import Improvement, improvement
from surefoot.evidence.judgement import AUDIT_CHECK, Fault, Judgement, check_audited, check_sound, judgement
from surefoot.evidence.learners import TARGET, LearnerComparison, LearnerFigures, compare_learners, rows_of
from surefoot.evidence.look_back import as_text, look_back, write_postmortem
from surefoot.evidence.postmortem import MEANING, Postmortem, Sentence
from surefoot.evidence.promote import Promotion, check_promotable
from surefoot.evidence.promote_runs import contradictions, decide, promote_run
from surefoot.evidence.registry import Decision, Registry, open_registry
from surefoot.evidence.representatives import Case, representative_failures
from surefoot.evidence.sides import METRICS, Side, Stratum
from surefoot.evidence.verification import Check, outcome, passes_of, verify_files

__all__ = [
    "AUDIT_CHECK",
    "MEANING",
    "METRICS",
    "TARGET",
    "Case",
    "Check",
    "Compared",
    "Comparison",
    "Decision",
    "Fault",
    "Field",
    "Improvement",
    "Judgement",
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
    "check_audited",
    "check_promotable",
    "check_sound",
    "compare",
    "compare_learners",
    "compare_runs",
    "compare_sound",
    "construct_difference",
    "contradictions",
    "decide",
    "improvement",
    "judgement",
    "look_back",
    "metrics_of",
    "open_registry",
    "outcome",
    "passes_of",
    "promote_run",
    "refusal_sentence",
    "representative_failures",
    "rows_of",
    "verify_files",
    "write_postmortem",
]
