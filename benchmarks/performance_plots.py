"""What gpu_training.py and time_to_walk.py measured, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def plot_training(machine: dict[str, Any], path: Path) -> bool:
    """Where an update's time goes, and rate and memory over N; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    names = [r["case"] for r in machine["table"]]
    before = [0.0] * len(names)
    for part in ("rollout", "advantages", "update", "logging"):
        took = [max(0.0, r["ms"][part]) for r in machine["table"]]
        left.barh(names, took, left=before, label=part)
        before = [a + b for a, b in zip(before, took, strict=True)]
    left.set(xlabel="milliseconds per update")
    left.tick_params(axis="y", labelsize="x-small")
    left.legend(fontsize="x-small")
    small = [r for r in machine["scaling"] if r.get("hidden") == machine["scaling"][0].get("hidden")]
    small = [r for r in small if "steps_per_second" in r]
    n = [r["envs"] for r in small]
    right.plot(n, [r["steps_per_second"] for r in small], marker="o", label="training steps/s")
    right.plot(n, [r["physics_steps_per_second"] for r in small], marker="o", label="physics alone, steps/s")
    if small:
        right.set(xscale="log", yscale="log", xlabel="environments")
    if small and small[0]["memory"]:
        other = right.twinx()
        used = [r["memory"]["peak_reserved_gib"] for r in small]
        other.plot(n, used, color="gray", linestyle="--", label="peak memory, GiB")
        other.set(yscale="log", ylabel="GiB")
        other.legend(loc="lower right", fontsize="x-small")
    right.legend(loc="upper left", fontsize="x-small")
    right.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def plot_walking(tasks: dict[str, Any], path: Path) -> bool:
    """Success over training seconds, a line per seed; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(tasks), figsize=(5.5 * len(tasks), 4), layout="constrained")
    for ax, (task, entry) in zip([axes] if len(tasks) == 1 else axes, tasks.items(), strict=True):
        for run in entry["runs"]:
            points = [(c["train_seconds"], c["success"]) for c in run["curve"]]
            ax.plot(*zip(*points, strict=True), marker=".", label=f"seed {run['seed']}")
        ax.axhline(entry["mark"], color="gray", linestyle="--")
        ax.set(xlabel="training seconds", ylabel="success on the selection half", title=task, ylim=(0, 1.02))
        ax.grid(alpha=0.3)
        ax.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def plot_terrain(tasks: dict[str, list[dict[str, Any]]], path: Path) -> bool:
    """Success by terrain class on native MuJoCo, a point per run; False where there is nothing to draw, or
    matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    if not tasks:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        len(tasks), 1, figsize=(8, 4 * len(tasks)), layout="constrained", squeeze=False
    )
    for ax, (task, runs) in zip(axes[:, 0], tasks.items(), strict=True):
        for run in runs:
            classes = run["classes"]["mujoco"]
            rates = [a / b for a, b in classes.values()]
            ax.plot(list(classes), rates, "o", alpha=0.6, label=f"seed {run['seed']}")
        seconds = max(run["figures"]["train_seconds"] for run in runs)
        title = f"{task}: {seconds:.0f} s of training, confirmed on native MuJoCo"
        ax.set(ylabel="success on the confirmation half", title=title, ylim=(-0.03, 1.03))
        ax.grid(alpha=0.3)
        ax.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True
