"""Runs the peers in processes of their own: they need packages that Surefoot does not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def peer(name: str, path: str | None, options: tuple[str, ...], most_seconds: float) -> dict[str, Any]:
    """What a peer's script prints as its last line, or why there is nothing."""
    if path is None:
        return {"not_measured": "not installed here; give --peer-site"}
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    env = os.environ | {"PYTHONPATH": path, "MUJOCO_GL": "disable"}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=most_seconds)
    except subprocess.TimeoutExpired:
        return {"not_measured": f"not done after {most_seconds:.0f} s"}
    if done.returncode:
        errors = done.stderr.strip().splitlines()
        return {"not_measured": errors[-1] if errors else f"exit code {done.returncode}"}
    entry: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return entry


def peers(site: str | None, options: tuple[str, ...], end: float) -> dict[str, Any]:
    """RSL-RL on our environments first: it needs no other simulator and takes less time."""
    here = os.pathsep.join(p for p in sys.path if p and Path(p) != HERE.parent)
    ours = here if importlib.util.find_spec("rsl_rl") else f"{here}{os.pathsep}{site}" if site else None
    out = {}
    for name, path in (("rsl_rl", ours), ("mjlab", site)):
        out[name] = peer(name, path, options, max(1.0, end - time.perf_counter()))
        print(f"{name}: {out[name]}", flush=True)
    return out
