"""`surefoot doctor`: what this machine has, what is missing, and what to type about it."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape

from surefoot.printing import plain_table, say

State = Literal["ok", "note", "missing"]
NEEDED = {
    "torch": "torch", "mujoco": "mujoco", "warp-lang": "warp", "gymnasium": "gymnasium",
}  # fmt: skip
"""What training needs and judging does not: pip's name -> what is imported."""
EXTRAS = {
    "wandb": ("wandb", "--tracker wandb"),
    "mlflow": ("mlflow", "--tracker mlflow"),
    "video": ("imageio", "replay --video"),
    "warp": ("mujoco_warp", "--engine mujoco-warp"),
    "rsl-rl": ("rsl_rl", "--learner rsl_rl"),
    "skrl": ("skrl", "--learner skrl"),
    "rl-games": ("rl_games", "--learner rl_games"),
    "sb3": ("stable_baselines3", "--learner sb3"),
    "tianshou": ("tianshou", "--learner tianshou"),
    "envpool": ("envpool", "train envpool:ID"),
    "pettingzoo": ("pettingzoo", "surefoot.zoo"),
    "sign": ("cryptography", "surefoot verify --sign, --key"),
    "mjlab": ("mjlab", "train mjlab:ID"),
    "fleet": ("ray", "train --actors M"),
}
"""An extra of this package -> what it installs, and what that is for."""
LEAST_FREE = 1e9
"""Bytes that a few runs with their traces and reports take."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `fix` says what to type, or what else helps."""

    name: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True)
class DoctorCommand:
    """Look at this machine: versions, cores, memory, GPU, caches, extras, disk. Writes nothing.

    Exit code 0: training works here. 1: something that it needs is missing, and what to do is said.

    Example: surefoot doctor
    """

    runs: str = "runs"
    """Folder that runs would be written to."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        findings = list(examine(Path(self.runs)))
        missing = [f for f in findings if f.state == "missing"]
        if self.json:
            found = [dataclasses.asdict(f) for f in findings]
            print(json.dumps({"training_works": not missing, "findings": found}, indent=2))
        else:
            print_findings(console, findings)
        return 1 if missing else 0


def print_findings(console: Console, findings: list[Finding]) -> None:
    styles = {"ok": "green", "note": "yellow", "missing": "red"}
    table = plain_table("This machine", "", "", "")
    table.show_header = False
    for f in findings:
        says = f"{f.found}; {f.fix}" if f.fix else f.found
        table.add_row(f.name, f"[{styles[f.state]}]{f.state}", escape(says))
    console.print(table, highlight=False)
    console.print()
    missing = [f for f in findings if f.state == "missing"]
    if not missing:
        say(console, "Training works here. Begin with: surefoot train trot-flat --until 0.95")
        return
    for fix in dict.fromkeys(f.fix for f in missing):
        what = "; ".join(f"{f.name}: {f.found}" for f in missing if f.fix == fix)
        say(console, f"Training does not work here. {what}. What to do: {fix}.")
    say(console, "Runs can be judged all the same: report, serve, compare, promote, postmortem, panel show.")


def examine(runs: Path) -> Iterator[Finding]:
    """Yields what is found of each thing that matters."""
    from surefoot import __version__

    yield Finding("surefoot", "ok", f"{__version__}, in {Path(__file__).parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    imports = {pip: _import(pip, module) for pip, module in NEEDED.items()}
    yield from imports.values()
    yield from _machine()
    yield _gpu(imports["torch"])
    yield _kernels(imports["warp-lang"])
    yield _disk(runs)
    for extra, (module, what) in EXTRAS.items():
        if not _found(module):
            yield Finding(
                f"extra {extra}", "note", f"for {what}: not installed", f"pip install 'surefoot[{extra}]'"
            )
        else:
            yield Finding(f"extra {extra}", "ok", f"for {what}: installed")


def _import(pip: str, module: str) -> Finding:
    """Really imports a package: one that is there may still be broken."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return Finding(pip, "missing", "not installed", "pip install surefoot")
    # Libraries that do not fit this system raise what they like: OSError, RuntimeError, AttributeError.
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Finding(pip, "missing", f"cannot be imported ({said})", f"pip install --force-reinstall {pip}")
    return Finding(pip, "ok", _version(pip))


def _found(module: str) -> bool:
    """Looks for an extra without importing it, which would take a minute for all of them."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # hidden by an import hook, or half imported
        return False


def _version(pip: str) -> str:
    try:
        return importlib.metadata.version(pip)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _machine() -> Iterator[Finding]:
    from surefoot.compute import cores

    yield Finding("cores", "ok", f"{cores()} that this process may use, of {os.cpu_count()}")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PAGE_SIZE")
        total = size * os.sysconf("SC_PHYS_PAGES")
        free = size * os.sysconf("SC_AVPHYS_PAGES")
        yield Finding("memory", "ok", f"{total / 1e9:.1f} GB, of which {free / 1e9:.1f} GB unused")


def _gpu(torch_found: Finding) -> Finding:
    if torch_found.state == "missing":
        return Finding("gpu", "note", "unknown without torch")
    import torch

    if not torch.cuda.is_available():
        built = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch has no CUDA"
        return Finding("gpu", "note", f"none that torch can use ({built})", "train with --device cpu")
    names = [torch.cuda.get_device_properties(k) for k in range(torch.cuda.device_count())]
    return Finding("gpu", "ok", ", ".join(f"{n.name} {n.total_memory / 1e9:.0f} GB" for n in names))


def _kernels(warp_found: Finding) -> Finding:
    """Warp brings its own compiler; what it made is kept, and a first run here takes longer without."""
    if warp_found.state == "missing":
        return Finding("kernel cache", "note", "unknown without warp-lang")
    from surefoot.compute.warp import kernel_cache

    folder = kernel_cache()
    files = [f for f in folder.rglob("*") if f.is_file()] if folder.is_dir() else []
    size = sum(f.stat().st_size for f in files)
    if not files:
        return Finding(
            "kernel cache", "note", f"{folder} is empty", "the first run here compiles for a minute"
        )
    fix = "" if _writable(folder) else "make it writable, or set WARP_CACHE_PATH to another"
    text = f"{folder}, {size / 1e6:.0f} MB in {len(files)} files; the compiler is Warp's own"
    return Finding("kernel cache", "note" if fix else "ok", text, fix)


def _disk(runs: Path) -> Finding:
    there = next(p for p in (runs.absolute(), *runs.absolute().parents) if p.exists())
    if not there.is_dir():
        return Finding("runs", "missing", f"{there} is a file", "choose another --out")
    if not _writable(there):
        return Finding("runs", "missing", f"{there} may not be written", "choose another --out")
    free = shutil.disk_usage(there).free
    text = f"{runs} can be written, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE:
        return Finding("runs", "note", text, f"make room: a few runs take {LEAST_FREE / 1e9:.0f} GB")
    return Finding("runs", "ok", text)


def _writable(folder: Path) -> bool:
    """Tries it: what the system says of permissions is not true of every file system."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
