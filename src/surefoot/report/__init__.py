"""The report: a run's artifacts as one page that explains itself, on disk or served."""

from __future__ import annotations

from surefoot.report.page import report_page
from surefoot.report.serve import make_server
from surefoot.report.write import write_report

__all__ = ["make_server", "report_page", "write_report"]
