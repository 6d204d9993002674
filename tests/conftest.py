"""Runs that several files look at, trained once per session."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Before torch: one thread per operation, as the command line sets it. The machine runs other tests beside
# these.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines say that they have AMX and forbid it, and bf16 on the CPU then ends in oneDNN.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch

from extended import extend, strip
from tiny import surefoot


@pytest.fixture(autouse=True)
def _numbers_as_they_are() -> None:
    """Commands round denormal numbers to zero for the rest of their process; tests may want those."""
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six updates. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert (
        surefoot("train", "tiny:walk", "--updates", "6", "--out", folder, "--quiet", "--tracker", "none") == 0
    )
    return folder


@pytest.fixture(scope="session")
def plain_run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run as the first version left it: nothing but nominal episodes. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    shutil.copytree(tiny_run, folder)
    strip(folder)
    return folder


@pytest.fixture(scope="session")
def extended_run(plain_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That run with perturbations, baselines, labels and batch audits. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("extended") / "run <b>&"
    shutil.copytree(plain_run, folder)
    extend(folder, nominal_success=0.8)
    return folder
