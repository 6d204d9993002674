"""Sessions: from a plan to a run that has been trained, confirmed and audited."""

from __future__ import annotations

from surefoot.sessions.session import TrainedRun, TrainOptions, resume, train, train_planned

__all__ = ["TrainOptions", "TrainedRun", "resume", "train", "train_planned"]
