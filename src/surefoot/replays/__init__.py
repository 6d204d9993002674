"""Replays: an episode played again from its key or its trace."""

from __future__ import annotations

from surefoot.replays.episode import replay_episode, replay_family, replay_trace
from surefoot.replays.recorded import Verdict, find_recorded
from surefoot.replays.sample import NATURAL_RATE, ROWS, ColumnSample, Sample, replay_sample

__all__ = [
    "NATURAL_RATE",
    "ROWS",
    "ColumnSample",
    "Sample",
    "Verdict",
    "find_recorded",
    "replay_episode",
    "replay_family",
    "replay_sample",
    "replay_trace",
]
