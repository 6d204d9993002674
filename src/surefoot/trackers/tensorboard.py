"""Writes TensorBoard event files to <run>/tensorboard; `tensorboard --logdir runs` shows them. They hold
float32: seven digits."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard.summary import text
from torch.utils.tensorboard.writer import FileWriter

from surefoot.trackers.tracker import numbers, words


class TensorBoard:
    """Shows one run there; see `Tracker`."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        events = folder / "tensorboard"
        shutil.rmtree(events, ignore_errors=True)
        self._writer = FileWriter(str(events), flush_secs=30)

    @staticmethod
    def check() -> None:
        """Needs nothing but its package."""

    def log(self, row: Mapping[str, Any]) -> None:
        step = int(row["samples"])
        # One event for all of a row: an event per number takes many times as long.
        values = [Summary.Value(tag=k, simple_value=v) for k, v in numbers(row).items()]
        self._writer.add_summary(Summary(value=values), step)
        for name, value in words(row).items():
            self._writer.add_summary(text(name, value), step)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._writer.close()
