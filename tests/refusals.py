"""What a refused command must look like: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Refused = Callable[..., str]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}
