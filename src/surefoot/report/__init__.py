"""The report: a run's artifacts as one page that explains itself, on disk or served."""

from __future__ import annotations

from surefoot.report.page import report_page
from surefoot.report.write import write_report

__all__ = ["report_page", "write_report"]
