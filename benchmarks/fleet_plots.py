"""Draws fleet_sizing.svg: a learner's share of work over its actors, as predicted, simulated and measured.

python benchmarks/fleet_plots.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from document import HERE
from fleet_sizing_tables import SIZING, compared, machines


def plot(entries: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for machine, entry in entries.items():
        for part, what in (("book", "a learner sized for it"), ("walk", "walk-flat's own learner")):
            pairs = sorted(
                ((p, r) for p, r in compared(entry) if p["part"] == part), key=lambda x: x[0]["actors"]
            )
            if not pairs:
                continue
            n = [p["actors"] for p, _ in pairs]
            (line,) = ax.plot(n, [p["utilisation"] for p, _ in pairs], "--", label=f"{what}: predicted")
            color = line.get_color()
            simulated = [p["simulated"]["busy"] for p, _ in pairs]
            ax.plot(n, simulated, ":", color=color, label=f"{what}: simulated")
            shares = [r["utilisation"] for _, r in pairs]
            low = [s - min(r["utilisations"]) for s, (_, r) in zip(shares, pairs, strict=True)]
            high = [max(r["utilisations"]) - s for s, (_, r) in zip(shares, pairs, strict=True)]
            ax.errorbar(n, shares, (low, high), fmt="o", color=color, capsize=3, label=f"{what}: {machine}")
    for share in (0.15, 0.85):
        ax.axhline(share, color="gray", linewidth=0.7)
    ax.set(xlabel="actors", ylabel="share of its time that the learner works", ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(f"Wrote {path}")


if __name__ == "__main__":
    plot(machines(SIZING), HERE / "fleet_sizing.svg")
