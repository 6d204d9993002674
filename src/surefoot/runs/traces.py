"""What a trace on disk must be for its row: the digest of an episode's states."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

STATES = ("position", "quaternion", "joint_position")
"""What an episode's digest is taken of, at every step before its end."""


def states_digest(trace: Mapping[str, np.ndarray]) -> str:
    """Returns 16 hex digits of the SHA-256 of every state of an episode: equal only if they agree to the
    bit."""
    sha = hashlib.sha256()
    for k in STATES:
        sha.update(np.ascontiguousarray(trace[k], "<f4").tobytes())
    return sha.hexdigest()[:16]
