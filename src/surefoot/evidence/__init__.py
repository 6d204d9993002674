"""Evidence: the ledger, the run on disk, panel evaluation, statistics."""

from surefoot.evidence.evaluate import PanelEvaluator, PanelResult
from surefoot.evidence.ledger import ledger_row, without_timing
from surefoot.evidence.run import RunFolder, RunRecord, run_name, timestamp, versions
from surefoot.evidence.summary import PanelSummary, summarise

__all__ = [
    "PanelEvaluator",
    "PanelResult",
    "PanelSummary",
    "RunFolder",
    "RunRecord",
    "ledger_row",
    "run_name",
    "summarise",
    "timestamp",
    "versions",
    "without_timing",
]
