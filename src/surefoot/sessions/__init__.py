"""Sessions: from a plan to a run that has been trained, confirmed and audited."""

from __future__ import annotations

from surefoot.sessions.options import ResumeOptions, TrainedRun, TrainOptions
from surefoot.sessions.session import resume, train, train_planned

__all__ = ["ResumeOptions", "TrainOptions", "TrainedRun", "resume", "train", "train_planned"]
