"""Actors that are killed one after the other while a fleet trains: how soon the rate is back, and its cost.

    python benchmarks/fleet_faults.py              two minutes; writes fleet_faults.json and .svg beside it
    python benchmarks/fleet_faults.py --cores 16

A fleet with an actor for each core trains walk-flat on native MuJoCo, and its updates do not wait. After some
seconds in which nobody is killed (the rate there is what all else is held to) some actor is killed with -9
every 15 s on up to four cores, every 3 s on more, for a minute.

`successor_s`: from a kill until what takes the actor's place has brought its first fragment. `back_s`: from a
kill until in the next two seconds nine tenths of the usual samples arrive; about 0 where one actor is less
than a tenth. `dip`: the part of the usual samples that was not learned from in that minute. At the end the
books are held to the actors' own files.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from machines import about, device_name, keep, kept
from surefoot.compute import cores, prepare_torch
from surefoot.fleet import FleetOptions
from surefoot.fleet.books import FOLDER, TRAINED, USED, read_diaries
from surefoot.fleet.on_ray import FleetTrainer
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.training import UNOBSERVED, Limits, begin_tracker, make_plan, new_run

OUT = Path(__file__).with_suffix(".json")
ENVS, FAMILIES = 32, 2
"""Of each actor."""
FEW_CORES = 4
WARM_S, WINDOW_S, BACK = 8.0, 2.0, 0.9
POLL_S = 0.05


@dataclass
class Watch:
    """What a fleet does while it is watched: samples that arrived and that were learned from, over time."""

    trainer: FleetTrainer
    cluster: Cluster
    quiet_s: float
    kills_s: float
    every_s: float
    times: list[float] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    kills: list[dict[str, Any]] = field(default_factory=list)
    begun = ended = 0.0
    """When the first was killed, and a minute later."""
    failure: BaseException | None = None

    def run(self) -> None:
        """Watches, kills, and ends the training."""
        try:
            self._run()
        except BaseException as error:  # whoever began the thread raises it
            self.failure = error
        finally:
            self.trainer.stopped = signal.SIGTERM

    def _run(self) -> None:
        dice = random.Random(1)
        while self.trainer.progress.update < 2:
            time.sleep(POLL_S)
        self._look(WARM_S + self.quiet_s)
        self.begun = time.monotonic()
        while time.monotonic() < self.begun + self.kills_s:
            self._kill(dice)
            left = self.begun + self.kills_s - time.monotonic()
            self._look(min(self.every_s, left))
        self.ended = time.monotonic()
        self._look(WINDOW_S)

    def _kill(self, dice: random.Random) -> None:
        while not (there := self._actors()):
            self._look(POLL_S)
        victim = dice.choice(there)
        before = [m.incarnation for m in self.trainer.crew.members]
        self.kills.append({"at": time.monotonic(), "before": before, "part": None, "successor_s": None})
        victim.kill()

    def _actors(self) -> list[psutil.Process]:
        """The actors' processes of this fleet's own Ray."""
        folder = self.cluster.folder or ""
        ours = [p for p in psutil.Process().children() if folder in " ".join(p.cmdline())]
        below = {c for p in ours for c in p.children(recursive=True)}
        return sorted((p for p in below if "ray::ActorProcess" in " ".join(p.cmdline())), key=lambda p: p.pid)

    def _look(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        size = self.trainer.plan.accounting.samples_per_update
        while time.monotonic() < until:
            now, members = time.monotonic(), self.trainer.crew.members
            self.times.append(now)
            self.arrived.append(sum(m.samples for m in members))
            self.learned.append(self.trainer.progress.update * size)
            for k in self.kills:
                if k["part"] is None:
                    changed = [m for m in members if m.incarnation != k["before"][m.number]]
                    if changed:
                        k["part"], k["samples"] = changed[0].number, changed[0].samples
                elif k["successor_s"] is None and members[k["part"]].samples > k["samples"]:
                    k["successor_s"] = now - k["at"]
            time.sleep(POLL_S)

    def rate(self, what: list[int], first: float, last: float) -> float:
        """Samples per second between two times."""
        there = np.interp([first, last], self.times, what)
        return float((there[1] - there[0]) / (last - first))

    def figures(self) -> dict[str, Any]:
        """What came of it."""
        usual = self.rate(self.arrived, self.begun - self.quiet_s, self.begun)
        learned = self.rate(self.learned, self.begun - self.quiet_s, self.begun)
        minute = self.rate(self.learned, self.begun, self.ended)
        rows = []
        for k in self.kills:
            later = [t for t in self.times if k["at"] <= t <= self.ended]
            back = [t for t in later if self.rate(self.arrived, t, t + WINDOW_S) >= BACK * usual]
            row = {"at_s": k["at"] - self.begun, "part": k["part"], "successor_s": k["successor_s"]}
            rows.append(row | {"back_s": max(0.0, back[0] - k["at"] - POLL_S) if back else None})
        ticks = np.arange(self.begun - self.quiet_s, self.ended, 0.5)
        line = [[float(t - self.begun), self.rate(self.arrived, t, t + 1.0)] for t in ticks[:-2]]
        return {
            "usual_per_s": usual,
            "learned_per_s": learned,
            "learned_per_s_while_killed": minute,
            "dip": 1 - minute / learned,
            **{name: _middle([r[name] for r in rows]) for name in ("successor_s", "back_s")},
            "kills": rows,
            "arrivals": line,
        }


def _middle(seconds: list[float | None]) -> dict[str, float | int | None]:
    """The median and the most of those that are known; what did not happen in time is not."""
    known = [s for s in seconds if s is not None]
    middle = statistics.median(known) if known else None
    return {"median": middle, "most": max(known, default=None), "known": len(known)}


def check(run: Path, crew: Any) -> dict[str, int]:
    """The books at the end, held to what actors wrote down themselves."""
    books, said = crew.books, read_diaries(run / FOLDER)
    used = [line for line in (run / FOLDER / USED).read_text().splitlines() if line]
    ends = {"issued": books.issued, "trained": books.ended[TRAINED], "dropped": books.dropped}
    ends |= {"lost": books.ended["lost"], "open": len(books.open), "written": len(said)}
    assert ends["issued"] == ends["trained"] + ends["dropped"] + ends["lost"]
    assert ends["trained"] + ends["dropped"] <= len(said) <= ends["issued"]
    assert len(set(used)) == len(used)
    return ends


def measure(args: argparse.Namespace, every_s: float) -> dict[str, Any]:
    """Trains with one actor per core and kills some of them."""
    n = args.cores
    usual = make_plan("walk-flat", engine="mujoco").recipe
    saved = usual.checkpoint_every * usual.envs // (ENVS * n)
    """Checkpoints are as many samples apart as in the task's own recipe: they wait for all actors."""
    overrides = {"envs": ENVS * n, "families": FAMILIES * n, "minibatches": 2, "checkpoint_every": saved}
    options = FleetOptions(actors=n, max_lag=1)
    plan = make_plan("walk-flat", engine="mujoco", overrides=overrides, collection=options.collection)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(plan, str(Path(folder) / "run"))
        cluster = Cluster(None, n + 1, 256 << 20)
        try:
            trainer = FleetTrainer(plan, run, options, select=False)
            crew, watch = trainer.crew, Watch(trainer, cluster, args.quiet_s, args.kills_s, every_s)
            thread = threading.Thread(target=watch.run, daemon=True)
            thread.start()
            try:
                trainer.train(Limits(1_000_000), UNOBSERVED, begin_tracker(run, "none", False, print))
            finally:
                trainer.close()
            thread.join()
        finally:
            cluster.close()
        if watch.failure is not None:
            raise watch.failure
        out = {"cores": n, "actors": n, "envs_per_actor": ENVS, "every_s": every_s, "for_s": args.kills_s}
        return out | watch.figures() | {"books": check(run.path, crew), "said": crew.refusals}


def plot(machines: dict[str, Any], path: Path) -> bool:
    """Samples that arrive per second, of the usual ones, and the kills; a panel per row. False where
    matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    rows = [(name, row) for name, entry in machines.items() for row in entry["rows"]]
    figure, axes = plt.subplots(
        len(rows), 1, figsize=(9, 2.6 * len(rows)), layout="constrained", squeeze=False
    )
    for ax, (name, row) in zip(axes[:, 0], rows, strict=True):
        t, rate = np.array(row["arrivals"]).T
        ax.plot(t, rate / row["usual_per_s"], linewidth=1)
        for kill in row["kills"]:
            ax.axvline(kill["at_s"], color="tab:red", alpha=0.4, linewidth=0.8)
        ax.axhline(1, color="gray", linestyle="--", linewidth=0.8)
        title = f"{name}: {row['actors']} actors, one killed every {row['every_s']:g} s (red)"
        ax.set_title(title, fontsize="small")
        ax.set(xlabel="seconds since the first kill", ylabel="arrivals / usual", ylim=(0, None))
        ax.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=cores(), help="actors, one for each")
    parser.add_argument("--every-s", type=float, help="seconds between two kills")
    parser.add_argument("--quiet-s", type=float, default=25.0, help="seconds before the first")
    parser.add_argument("--kills-s", type=float, default=60.0, help="seconds in which some are killed")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each")
    args = parser.parse_args()
    if args.quick:
        args.quiet_s, args.kills_s, args.every_s = 5.0, 16.0, args.every_s or 8.0
    every_s = args.every_s or (15.0 if args.cores <= FEW_CORES else 3.0)
    prepare_torch()
    device = torch.device("cpu")
    load = psutil.getloadavg()[0]
    row = measure(args, every_s) | {"load_before": load}
    others = kept(args.out).get(device_name(device), {}).get("rows", [])
    rows = sorted([r for r in others if r["cores"] != args.cores] + [row], key=lambda r: r["cores"])
    keep(args.out, device, about(device, args.quick) | {"rows": rows}, 1)
    print(
        f"{row['learned_per_s']:,.0f} samples/s, {row['learned_per_s_while_killed']:,.0f} while actors were "
        f"killed (dip {row['dip']:.0%}); successor's first fragment after {row['successor_s']}, rate back "
        f"after {row['back_s']}; books {row['books']}",
        flush=True,
    )
    plot(kept(args.out), args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
