"""The report: a run's artifacts as one page that explains itself, on disk or served."""

from __future__ import annotations

from surefoot.reporting.figures import read_run
from surefoot.reporting.learners import curves, differences, learner_chart, learner_page, outcomes
from surefoot.reporting.overview import bar, shown
from surefoot.reporting.page import document, page_header, write_report
from surefoot.reporting.players import viewer
from surefoot.reporting.serve import make_server
from surefoot.reporting.traces import Kept, Replays, make_replays
from surefoot.reporting.verdict import verdict

__all__ = [
    "Kept",
    "Replays",
    "bar",
    "curves",
    "differences",
    "document",
    "learner_chart",
    "learner_page",
    "make_replays",
    "make_server",
    "outcomes",
    "page_header",
    "read_run",
    "shown",
    "verdict",
    "viewer",
    "write_report",
]
