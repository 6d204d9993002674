"""What each device gave, in one JSON under the device's name; what another gave before is kept."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def device_name(device: torch.device) -> str:
    """What results are filed under."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def commit() -> str | None:
    """The commit that is measured, with a + where files differ from it; None outside of a checkout."""
    words = ("git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*")
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def about(device: torch.device, quick: bool) -> dict[str, Any]:
    """When and with what it was measured."""
    return {
        "cuda": device.type == "cuda",
        "quick": quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in ("torch", "warp-lang", "mujoco", "numpy")},
    }


def kept(path: Path) -> dict[str, Any]:
    """By device."""
    entries: dict[str, Any] = json.loads(path.read_text())["machines"] if path.exists() else {}
    return entries


def keep(path: Path, device: torch.device, entry: dict[str, Any], schema_version: int) -> None:
    from surefoot.artifacts import write_json  # not above: mutants/run.py imports another surefoot than this

    machines = kept(path) | {device_name(device): entry}
    write_json(path, {"schema_version": schema_version, "machines": machines})
    print(f"Wrote {path}")
