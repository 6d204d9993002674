"""Trackers show the ledger in other people's dashboards. All that a row says goes there, and nothing goes
there that is not in a row; the ledger stays the record. A tracker's package is imported when it is asked
for."""

from __future__ import annotations

from surefoot.trackers.registry import TRACKERS, check_tracker, make_tracker
from surefoot.trackers.tracker import FailSafeTracker, NullTracker, Tracker

__all__ = ["TRACKERS", "FailSafeTracker", "NullTracker", "Tracker", "check_tracker", "make_tracker"]
