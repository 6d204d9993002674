"""Audits: is a run what it says? Detectors read its files and probe its environments by intervention."""

from __future__ import annotations

from surefoot.audits.auditor import audit_run, check_exemptions
from surefoot.audits.detector import Detector
from surefoot.audits.registry import detectors

__all__ = ["Detector", "audit_run", "check_exemptions", "detectors"]
