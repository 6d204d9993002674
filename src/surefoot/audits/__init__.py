"""Audits: is a run what it says? Detectors read its files and probe its environments by intervention."""

from __future__ import annotations

from surefoot.audits.applies import LACKS, applies, by_area, needed
from surefoot.audits.auditor import audit_run, check_exemptions
from surefoot.audits.detector import CAUSES, Detector
from surefoot.audits.registry import detector, detectors

__all__ = [
    "CAUSES",
    "LACKS",
    "Detector",
    "applies",
    "audit_run",
    "by_area",
    "check_exemptions",
    "detector",
    "detectors",
    "needed",
]
