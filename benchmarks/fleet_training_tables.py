"""Tables of what a fleet's benchmarks measured: collecting, training beside RLlib, walking on two cores, and
lag that was imposed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from document import HERE, Block, measured, table
from surefoot.statistics import over_seeds
from surefoot.statistics.seeds import COLLAPSED_BELOW

Row = dict[str, Any]
HOW = {"vtrace": "corrected", "none": "uncorrected", "ratio": "PPO's ratio alone"}
PLOT = HERE / "fleet_staleness.svg"


def rows_of(name: str) -> list[Row]:
    rows: list[Row] = measured(name)["rows"]
    return rows


def groups(rows: Iterable[Row], *by: str) -> dict[tuple[Any, ...], list[Row]]:
    out: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        out.setdefault(tuple(r[k] for k in by), []).append(r)
    return out


def percent(x: float) -> str:
    return f"{100 * x:.1f}%"


def between(values: Sequence[float], said: Callable[[float], str]) -> str:
    """The median, with the ends."""
    if len(values) == 1:
        return said(values[0])
    return f"{said(statistics.median(values))} ({said(min(values))} to {said(max(values))})"


# ---- collecting


def collecting() -> str:
    rows = []
    for r in rows_of("fleet_collecting.json"):
        share = r["share"]
        rows.append(
            [
                f"`{r['task']}` on {r['engine']}",
                f"{r['envs']:,} x {r['horizon']}",
                f"{r['alone']['median']:,.0f}/s",
                f"{r['fleet']['median']:,.0f}/s",
                f"**{percent(share['median'])}** ({percent(share['least'])} to {percent(share['most'])})",
                str(len(share["rounds"])),
            ]
        )
    head = ["environments", "N x T", "two processes that never talk", "two actors, collecting only"]
    return table([*head, "share, median (least to most)", "rounds"], rows)


def with_learning() -> str:
    rows = []
    for r in rows_of("fleet_collecting.json"):
        for name, x in r.get("learning", {}).items():
            busy, lag = x.get("fleet.learner.utilisation"), x.get("fleet.lag.mean")
            row = [f"`{r['task']}` on {r['engine']}, {r['envs']:,} x {r['horizon']}", name]
            row += [f"{x['rate']:,.0f}/s", percent(x["rate"] / r["alone"]["median"])]
            rows.append([*row, "-" if busy is None else percent(busy), "-" if lag is None else f"{lag:.2f}"])
    head = ["environments", "who trains", "samples/s with learning", "of processes that never talk"]
    return table([*head, "learner at work", "lag, mean"], rows)


# ---- beside RLlib


def rllib() -> str:
    rows = []
    for (who,), runs in groups(rows_of("fleet_rllib.json"), "who").items():
        row = [who, between([r["samples_per_s"] for r in runs], lambda x: f"{x:,.0f}/s")]
        row += [between([r["process_seconds"] for r in runs], lambda x: f"{x:.0f} s")]
        row += [between([r["return"] for r in runs], lambda x: f"{x:,.0f}")]
        rows.append([*row, f"{max(r['samples'] for r in runs):,}", str(len(runs))])
    head = ["who", "samples/s", "whole process", "return after these samples", "samples", "seeds"]
    return table(head, rows)


# ---- walking


def walking() -> str:
    rows = []
    for r in rows_of("fleet_walk.json"):
        h, e, at = r["held_out"], r["mean_errors"], r["reached"]["mean_errors"]
        row = [f"`{r['task']}`", r["case"], str(r["seed"])]
        row += [f"{r['train_seconds']:.0f} s", f"{r['samples'] / 1e6:.2f} M", f"{r['steps_per_second']:,.0f}"]
        row += [f"{at['train_seconds']:.0f} s, {at['samples'] / 1e6:.2f} M" if at else "-"]
        row += [f"{percent(x['success'])} ({percent(x['low'])} up)" for x in (e, h)]
        rows.append([*row, r["verdict"], found(r["findings"])])
    head = ["task", "who collects", "seed", "training", "samples", "steps/s", "first at 95% by mean errors"]
    head += ["held out, by mean errors", "held out, today's rule", "verdict", "findings of the audit"]
    return table(head, rows)


def found(findings: list[Row]) -> str:
    named = [f"{f['detector']} ({f['kind']})" for f in findings]
    return ", ".join(dict.fromkeys(named)) or "none"


def walking_fleet() -> str:
    rows = []
    for r in rows_of("fleet_walk.json"):
        f = r["fleet"]
        if f is None:
            continue
        trip = f.get("fleet.inference.trip_ms.p50")
        row = [f"`{r['task']}`", r["case"], str(r["seed"])]
        row += [f"{f['fleet.lag.mean']:.2f}, {f['lag_most']:.0f}"]
        row += [percent(f[f"fleet.{k}"]) for k in ("corrected_share", "clipped_share", "dropped_share")]
        row += [percent(f["fleet.learner.utilisation"]), f"{f['fleet.bytes_per_transition']:.0f}"]
        rows.append([*row, "-" if trip is None else f"{trip:.1f}, {f['fleet.inference.trip_ms.p99']:.1f} ms"])
    head = ["task", "who collects", "seed", "lag: mean, most", "corrected", "cut", "dropped"]
    return table([*head, "learner at work", "bytes per transition", "round trip: median, 99%"], rows)


# ---- lag that is imposed


def typical(values: Sequence[float]) -> str:
    x = over_seeds(values)
    assert x is not None
    if x.low is None or x.high is None:
        return percent(x.value)
    return f"{percent(x.value)} ({percent(x.low)} to {percent(x.high)})"


def staleness() -> str:
    found = groups(rows_of("fleet_staleness.json"), "correction", "lag")
    fresh = {r["seed"]: r["held_out"]["success"] for r in found.get(("vtrace", 0), [])}
    rows = []
    for (how, lag), runs in found.items():
        success = [r["held_out"]["success"] for r in runs]
        cost = [r["held_out"]["success"] - fresh[r["seed"]] for r in runs if r["seed"] in fresh]
        row = [str(lag), HOW[how], typical(success), typical([r["mean_errors"]["success"] for r in runs])]
        row += ["-" if (how, lag) == ("vtrace", 0) else points(cost)]
        row += [f"{collapsed(success, list(fresh.values()))} of {len(runs)}"]
        row += [f"{statistics.median(r['return'] for r in runs):.1f}"]
        row += [percent(statistics.fmean(r["mean"]["fleet.clipped_share"] for r in runs))]
        rows.append([*row, f"{statistics.fmean(r['mean']['kl'] for r in runs):.4f}"])
    rows.sort(key=lambda r: (int(r[0]), list(HOW.values()).index(r[1])))
    head = ["lag", "", "held-out success, typical seed", "by mean errors", "against lag 0, corrected"]
    return table([*head, "collapsed", "return", "ratios cut", "KL of an update"], rows)


def collapsed(success: Sequence[float], fresh: Sequence[float]) -> int:
    """Seeds below half of the median without lag."""
    return sum(x < COLLAPSED_BELOW * statistics.median(fresh) for x in success) if fresh else 0


def points(differences: Sequence[float]) -> str:
    x = over_seeds(differences)
    if x is None:
        return "-"
    said = f"{100 * x.value:+.1f}"
    return said if x.low is None or x.high is None else f"{said} ({100 * x.low:+.1f} to {100 * x.high:+.1f})"


def saved() -> str:
    """What correction saves: the same seed at the same lag, corrected less uncorrected."""
    by = {(r["correction"], r["lag"], r["seed"]): r for r in rows_of("fleet_staleness.json")}
    rows = []
    for lag in sorted({lag for _, lag, _ in by}):
        row = [str(lag)]
        for name in ("held_out", "mean_errors"):
            gains = [
                x[name]["success"] - by["none", lag, seed][name]["success"]
                for (how, at, seed), x in by.items()
                if how == "vtrace" and at == lag and ("none", lag, seed) in by
            ]
            row.append(points(gains))
        rows.append(row)
    return table(["lag", "held-out success, points", "by mean errors, points"], rows)


def draw_staleness(path: Path = PLOT) -> bool:
    """Held-out success over lag, a point per seed; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fleet"
    from matplotlib import pyplot as plt

    found = groups(rows_of("fleet_staleness.json"), "correction", "lag")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    lags = sorted({lag for _, lag in found})
    for axis, (name, title) in zip(
        axes, (("held_out", "today's rule"), ("mean_errors", "by mean errors alone")), strict=True
    ):
        for k, how in enumerate(h for h in HOW if any(x == h for x, _ in found)):
            there = [lag for lag in lags if (how, lag) in found]
            color = f"C{k}"
            values = [[r[name]["success"] for r in found[how, lag]] for lag in there]
            at = [lags.index(lag) + 0.08 * (k - 0.5) for lag in there]
            axis.plot(at, [statistics.median(v) for v in values], marker="o", color=color, label=HOW[how])
            for x, v in zip(at, values, strict=True):
                axis.plot([x] * len(v), v, ".", color=color, alpha=0.4)
        axis.set(xlabel="lag, versions", ylabel="held-out success", ylim=(-0.02, 1.02), title=title)
        axis.set_xticks(range(len(lags)), [str(lag) for lag in lags])
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


MADE = {
    "fleet collecting": Block(collecting, ("fleet_collecting.json",)),
    "fleet learning": Block(with_learning, ("fleet_collecting.json",)),
    "fleet rllib": Block(rllib, ("fleet_rllib.json",)),
    "fleet walk": Block(walking, ("fleet_walk.json",)),
    "fleet walk figures": Block(walking_fleet, ("fleet_walk.json",)),
    "fleet staleness": Block(staleness, ("fleet_staleness.json",)),
    "fleet staleness saved": Block(saved, ("fleet_staleness.json",)),
}
BLOCKS = {name: b for name, b in MADE.items() if all((HERE / s).exists() for s in b.sources)}
"""Of what has been measured."""

if __name__ == "__main__":
    draw_staleness()
