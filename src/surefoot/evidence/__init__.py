"""Evidence: the ledger, the run on disk, panel evaluation, statistics."""

from surefoot.evidence.columns import Agreement, ColumnSummary
from surefoot.evidence.evaluate import PanelEvaluator, PanelResult
from surefoot.evidence.figures import Figure, figure, headline, runs_figure
from surefoot.evidence.honesty import EVERY as HONESTY_EVERY
from surefoot.evidence.honesty import honesty_figures, honesty_row
from surefoot.evidence.labels import CAUSES, LABELS, label
from surefoot.evidence.ledger import block_figures, ledger_row, read_ledger, without_timing
from surefoot.evidence.passes import evaluate_panel
from surefoot.evidence.run import LibraryRecord, RunFolder, RunRecord, run_name, timestamp, versions
from surefoot.evidence.summary import PanelSummary, summarise

__all__ = [
    "CAUSES",
    "HONESTY_EVERY",
    "LABELS",
    "Agreement",
    "ColumnSummary",
    "Figure",
    "LibraryRecord",
    "PanelEvaluator",
    "PanelResult",
    "PanelSummary",
    "RunFolder",
    "RunRecord",
    "block_figures",
    "evaluate_panel",
    "figure",
    "headline",
    "honesty_figures",
    "honesty_row",
    "label",
    "ledger_row",
    "read_ledger",
    "run_name",
    "runs_figure",
    "summarise",
    "timestamp",
    "versions",
    "without_timing",
]
