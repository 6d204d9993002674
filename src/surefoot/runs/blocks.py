"""The rollout block that a run keeps: audit-block.npz, with its fields, keys of its draws, and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surefoot.artifacts import check_version, load_npz, save_npz
from surefoot.runs.folder import RunFolder, versions

BLOCK, BLOCK_VERSION = "audit-block.npz", 1
Source = Literal["training", "audit"]
"""training: the last block that the run learned from. audit: one that an audit lived, from the latest
checkpoint, with keys of its own."""


def save_block(run: RunFolder, arrays: Mapping[str, np.ndarray], source: Source) -> Path | None:
    """Keeps a block in place of the one before, and seals it. A block of training is never replaced by an
    audit's; returns None then."""
    path = run.path / BLOCK
    if source == "audit" and path.is_file() and load_block(run.path)[1]["source"] == "training":
        return None
    r = run.record
    about: dict[str, Any] = {"source": source, "run": r.id, "task": r.task, "engine": r.engine}
    about |= {"learner": r.learner, "contract_digest": r.contract_digest, "versions": versions()}
    text = np.asarray(json.dumps(about, sort_keys=True))
    save_npz(path, schema_version=BLOCK_VERSION, about=text, **arrays)
    run.seal("audited" if source == "audit" else "block", [path])
    return path


def load_block(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Reads a kept block: its arrays, and what is said about it."""
    path = folder / BLOCK
    arrays = load_npz(path)
    version = arrays.pop("schema_version", None)
    check_version(path, None if version is None else int(version), BLOCK_VERSION)
    return arrays, json.loads(str(arrays.pop("about")))
