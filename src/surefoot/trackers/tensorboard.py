"""TensorBoard event files in <run>/tensorboard; view them with `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from surefoot.trackers import scalars


class TensorBoard:
    def __init__(self, folder: Path) -> None:
        self._writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=30)

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in scalars(row).items():
            self._writer.add_scalar(name, value, int(row["samples"]))

    def close(self) -> None:
        self._writer.close()
