"""Weights & Biases, an optional extra. With WANDB_MODE=offline nothing leaves the machine: files go to
<run>/wandb."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from surefoot.trackers import scalars


class WandB:
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._run = wandb.init(project="surefoot", name=folder.name, dir=str(folder), config=dict(config))

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(scalars(row), step=int(row["samples"]))

    def close(self) -> None:
        self._run.finish()
