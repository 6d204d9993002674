"""Learners compared on two cores: trains all of them and keeps what came out, for tables.py.

    python benchmarks/learners.py                    # trot-flat, seeds 1 to 3; continues where it stopped
    python benchmarks/learners.py --read             # only what the finished runs say

A plain `surefoot compare-learners` with networks and epochs small enough for two cores. Only seeds that every
learner has finished are in the result. Writes learners.json and learners.svg here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from document import Block, table
from machines import device_name
from surefoot.artifacts import atomic_write, write_json
from surefoot.evidence.learners import LearnerComparison, LearnerFigures, compare_learners
from surefoot.reporting.learners import learner_chart
from surefoot.runs import RunFolder

HERE = Path(__file__).parent
FOUND, CHART = HERE / "learners.json", HERE / "learners.svg"
OPTIONS = (
    "trot-flat", "--updates", "200", "--hidden", "64", "64", "--epochs", "3", "--eval-families", "32",
    "--evaluate-every", "20", "--perturb", "push_1.0", "delay_60ms", "friction_0.3",
)  # fmt: skip


def machine() -> dict[str, Any]:
    return {
        "cpu": device_name(torch.device("cpu")),
        "cores": len(os.sched_getaffinity(0)),
        "platform": platform.platform(),
    }


def whole(folder: Path) -> list[RunFolder]:
    """Runs of the seeds that every learner has ended with."""
    runs = [RunFolder.open(p.parent) for p in sorted(folder.glob("*-seed*/run.json"))]
    ended = [r for r in runs if r.record.confirmation is not None or r.record.status == "failed"]
    learners = {r.record.learner for r in runs}
    seeds = [
        s
        for s in sorted({r.record.seeds.root for r in ended})
        if {r.record.learner for r in ended if r.record.seeds.root == s} == learners
    ]
    kept = [r for r in ended if r.record.seeds.root in seeds]
    return sorted(kept, key=lambda r: (r.record.learner != "ppo", r.record.learner, r.record.seeds.root))


def percent(x: float | None, otherwise: float) -> str:
    return f"{100 * (otherwise if x is None else x):.0f}"


def rate(of: LearnerFigures, column: str) -> str:
    f = of.columns[column]
    return f"{100 * f.value:.1f}% ({percent(f.low, 0)} to {percent(f.high, 1)})"


def span(f: Any, form: str, scale: float = 1.0) -> str:
    """A figure with its interval; nothing is smaller than 0 here."""
    if f.low is None or f.high is None or f.low == f.high:  # equal seeds bound nothing
        return form.format(f.value * scale)
    low, high = (form.format(max(x, 0.0) * scale) for x in (f.low, f.high))
    return f"{form.format(f.value * scale)} ({low} to {high})"


def tables(c: LearnerComparison) -> dict[str, str]:
    """What stands between the document's marks, by name."""
    columns = c.learners[0].column_names
    head = ["learner", *(name.replace("_", " ") for name in columns)]
    success = [[title(of), *(rate(of, name) for name in columns)] for of in c.learners]
    race = []
    for of in c.learners:
        r = of.reached
        by_seed = ", ".join("no" if s is None else f"{s / 1e6:.2f}M" for s in r.samples)
        minutes = ", ".join("no" if m is None else f"{m:.1f}" for m in r.minutes)
        mean = span(r.samples_figure, "{:.2f}M", 1e-6) if r.samples_figure else "-"
        speed = span(of.steps_per_second, "{:,.0f}")
        race.append([title(of), f"{r.seeds} of {r.of}", by_seed, mean, minutes, speed])
    seeds = ", ".join(map(str, c.learners[0].seeds))
    r = c.recipe
    about = (
        f"{c.task}, {c.samples:,} samples each ({c.updates} updates of {r.horizon} x {r.envs}), networks "
        f"{' x '.join(map(str, r.hidden))}, {r.epochs} epochs, training seeds {seeds}, stock timeouts; "
        f"{c.panel} with {r.eval_families} families, {c.half} half, construct `{c.construct_id[:12]}`."
    )
    reached = ["learner", "seeds", "samples, by seed", "mean (95%)", "minutes, by seed", "steps/s (95%)"]
    return {
        "about": about,
        "success": table(head, success),
        "race": table(reached, race),
        "verdict": verdict(c),
    }


def verdict(c: LearnerComparison) -> str:
    """Who got to 95%, in a sentence or two."""
    every = [of.learner for of in c.learners if of.reached.seeds == of.reached.of]
    some = [of.learner for of in c.learners if 0 < of.reached.seeds < of.reached.of]
    none = [of.learner for of in c.learners if of.reached.seeds == 0]
    parts = [
        f"by {', '.join(names)} {word}"
        for word, names in (("with every seed", every), ("with some seeds", some), ("with none", none))
        if names
    ]
    return f"Within {c.samples / 1e6:.2f} million samples 95% was reached {'; '.join(parts)}."


def title(of: LearnerFigures) -> str:
    return f"{of.learner} {of.version}" if of.version else of.learner


def _block(name: str) -> Block:
    def make() -> str:
        return tables(LearnerComparison.model_validate(json.loads(FOUND.read_text())["comparison"]))[name]

    return Block(make, (FOUND.name,))


def on_a_gpu() -> str:
    """The comparison on CUDA: speed, host syncs, and success for want of a verdict."""
    found = json.loads((HERE / "learners_h200.json").read_text())
    rows = []
    for of in found["learners"]:
        f = of["columns"]["nominal"]
        held = f"{100 * f['value']:.0f}% ({100 * f['low']:.0f} to {100 * f['high']:.0f})"
        name = f"{of['learner']} {of['version'] or ''}".strip()
        rows.append(
            [name, f"{of['steps_per_second']['value']:,.0f}", f"{of['host_syncs_per_step']:.1f}", held]
        )
    seeds = len(found["learners"][0]["seeds"])
    return table(
        ["learner", "training steps/s", "host syncs per control step", f"success, {seeds} seeds"], rows
    )


BLOCKS = {
    "learners": _block("about"),
    "learners success": _block("success"),
    "learners race": _block("race"),
    "learners verdict": _block("verdict"),
    "learners gpu": Block(on_a_gpu, ("learners_h200.json",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/learners"))
    parser.add_argument("--read", action="store_true", help="train nothing, read the runs that are there")
    args = parser.parse_args()
    if not args.read:
        options = [*OPTIONS, "--seeds", str(args.seeds), "--out", str(args.runs)]
        subprocess.run([sys.executable, "-m", "surefoot", "compare-learners", *options], check=True)
    comparison = compare_learners(whole(args.runs))
    write_json(
        FOUND,
        {
            "schema_version": 1,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "options": list(OPTIONS),
            "comparison": comparison,
        },
    )
    atomic_write(CHART, learner_chart(comparison).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
