"""Replays: an episode played again from its key or its trace."""

from __future__ import annotations

from surefoot.replays.episode import replay_episode
from surefoot.replays.recorded import find_recorded

__all__ = [
    "find_recorded",
    "replay_episode",
]
