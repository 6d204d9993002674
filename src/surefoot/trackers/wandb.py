"""Shows runs in Weights & Biases, an optional extra. With WANDB_MODE=offline nothing leaves the machine:
files go to <run>/wandb."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from surefoot.contract import digest
from surefoot.trackers.tracker import numbers, words


class WandB:
    """Shows one run there; see `Tracker`."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        # The same run has the same id, also when it is shown again.
        same = digest([config["id"], config["created"]])[:16]
        shutil.rmtree(folder / "wandb", ignore_errors=True)
        # Neither the console nor the machine's load: nothing is to be found there only.
        settings = wandb.Settings(console="off", x_disable_stats=True)
        values, where = dict(config), str(folder)
        self._run = wandb.init(
            project="surefoot", name=folder.name, id=same, dir=where, config=values, settings=settings
        )

    @staticmethod
    def check() -> None:
        """Logs in: the server must know who asks, unless W&B was told to stay offline."""
        if wandb.setup().settings.mode not in ("offline", "dryrun", "disabled"):
            wandb.login()

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(numbers(row) | words(row), step=int(row["samples"]))

    def close(self) -> None:
        self._run.finish()
