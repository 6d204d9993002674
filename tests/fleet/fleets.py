"""Training with a fleet, and what is held to its books afterwards."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from surefoot.fleet import FleetOptions
from surefoot.fleet.books import FOLDER, TRAINED, USED, read_diaries
from surefoot.fleet.fragment import Key
from surefoot.fleet.on_ray.trainer import FleetTrainer
from surefoot.runs import RunFolder, read_ledger
from surefoot.training import UNOBSERVED, Limits, Trainer, begin_tracker, make_plan, new_run

Meanwhile = Callable[[FleetTrainer], None]
"""What happens while a fleet trains, which ends with it."""
PATIENCE_S = 120


def train(trainer: Trainer, updates: int) -> None:
    run = trainer.run
    try:
        trainer.train(Limits(updates), UNOBSERVED, begin_tracker(run, "none", False, UNOBSERVED.note))
    finally:
        trainer.close()


def fleet(
    folder: Path,
    options: FleetOptions,
    updates: int,
    engine: str = "stride",
    kind: type[FleetTrainer] = FleetTrainer,
    meanwhile: Meanwhile | None = None,
) -> list[str]:
    """Trains with a fleet, in a folder that may be there already; returns what was said of its actors."""
    plan = make_plan("tiny:walk", engine=engine, collection=options.collection)
    there = folder.is_dir()
    run = RunFolder.open(folder) if there else new_run(plan, str(folder))
    trainer = kind(plan, run, options, resume=there, select=False)
    crew = trainer.crew
    if meanwhile is not None:
        threading.Thread(target=_until_done, args=(meanwhile, trainer), daemon=True).start()
    train(trainer, updates)
    arrived = crew.books.ended[TRAINED] + crew.books.dropped
    written = len(read_diaries(folder / FOLDER))
    assert crew.books.open == {}
    assert arrived <= written, "actors write a fragment down before they send it"
    assert there or written <= crew.books.issued, "and none that nobody asked for"
    return crew.refusals


def rows(run: Path) -> list[dict[str, Any]]:
    return read_ledger(run / "ledger.jsonl")[0]


def trained(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / FOLDER / USED).read_text().splitlines()]


def check_books(run: Path) -> None:
    """Every row's books balance, and every fragment that was trained stands in its actor's own file, once."""
    for r in rows(run):
        ends = ("trained", "dropped", "lost", "open")
        assert r["fleet.issued"] == sum(r[f"fleet.{k}"] for k in ends)
    used = trained(run)
    keys = [Key(u["actor"], u["incarnation"], u["sequence"]) for u in used]
    assert len(set(keys)) == len(keys), "nothing is trained twice"
    said = read_diaries(run / FOLDER)
    assert {k: said[k] for k in keys} == {k: u["digest"] for k, u in zip(keys, used, strict=True)}
    assert len({u["digest"] for u in used}) == len(used)
    assert len(used) == rows(run)[-1]["fleet.trained"]


def _until_done(meanwhile: Meanwhile, trainer: FleetTrainer) -> None:
    try:
        meanwhile(trainer)
    finally:
        trainer.stopped = signal.SIGTERM


def wait(until: Callable[[], bool]) -> bool:
    """Waits for what is to happen; returns whether it did."""
    end = time.monotonic() + PATIENCE_S
    while not until() and time.monotonic() < end:
        time.sleep(0.05)
    return until()


def processes(name: str) -> list[psutil.Process]:
    """Processes of what is called `name`, of the Ray that was begun here."""
    ours = psutil.Process().children(recursive=True)
    return [p for p in ours if any(w.startswith(f"ray::{name}") for w in words(p))]


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def listening(process: psutil.Process) -> set[str]:
    """The addresses that a process listens on, and its children."""
    out = set()
    try:
        for p in (process, *process.children(recursive=True)):
            named = "net_connections" if hasattr(p, "net_connections") else "connections"  # before psutil 6
            out |= {c.laddr.ip for c in getattr(p, named)("inet") if c.status == "LISTEN"}
    except psutil.Error:
        return out
    return out
