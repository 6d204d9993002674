"""Runs that several files look at, trained once per session."""

from __future__ import annotations

import os
from pathlib import Path

# Before torch: waiting threads sleep. The machine runs other tests beside these.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import pytest

from tiny import surefoot


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six updates. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert (
        surefoot("train", "tiny:walk", "--updates", "6", "--out", folder, "--quiet", "--tracker", "none") == 0
    )
    return folder
