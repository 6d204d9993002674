"""What a fleet's owner spends on each fragment, over how many tickets are open: t(n) = a + c n.

    python benchmarks/fleet_owner.py     # half a minute; writes fleet_owner.json

The crew's thread waits for one of the open tickets (`ray.wait` over all of them), gives out tickets (it looks
at every actor), and looks for actors that hang (at every ticket). Timed on one real Ray, with n calls open to
an actor that does not answer and one answer that is there; the crew's own methods, with as many members.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from machines import about, keep
from surefoot.compute import cores
from surefoot.fleet.fragment import Key
from surefoot.fleet.on_ray import Cluster, fit
from surefoot.fleet.on_ray.crew import Crew

HERE = Path(__file__).parent
OPEN = (1, 10, 100, 1000, 10_000)


class Deaf:
    """An actor that answers nothing for a while."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def never(self) -> None:
        return None


def timed(do: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        do()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def costs(ray: Any, deaf: Any, size: int, repeats: int) -> dict[str, float]:
    """Seconds of what the crew does once per fragment, with `size` tickets open."""
    there = ray.put(np.zeros(1024, np.uint8))
    pending = {deaf.never.remote(): (Key(k, 0, 0), time.time()) for k in range(size)}
    crew: Any = SimpleNamespace(
        cluster=SimpleNamespace(ray=ray),
        setting=SimpleNamespace(lag=1),
        members=[SimpleNamespace(number=k) for k in range(size)],
        _pending=pending,
        _queue=[],
        _learning=False,
        _usual=[1.0] * 100,
    )

    def wait() -> None:
        ready, _ = ray.wait([*pending, there], num_returns=1, timeout=0.05)
        assert ready == [there]

    return {
        "wait_s": timed(wait, repeats),
        "ask_s": timed(deaf.never.remote, repeats),
        "get_s": timed(lambda: ray.get(there), repeats),
        "issue_s": timed(lambda: Crew._issue(crew, crew.members), repeats),
        "hang_s": timed(lambda: Crew._give_up(crew), repeats),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few tickets, to see that it runs")
    parser.add_argument("--out", type=Path, default=HERE / "fleet_owner.json")
    args = parser.parse_args()
    cpu = torch.device("cpu")
    load = os.getloadavg()[0]  # of others, before
    cluster = Cluster(None, 2, 0)
    ray = cluster.ray
    try:
        deaf = ray.remote(Deaf).options(num_cpus=1).remote()
        deaf.sleep.remote(600.0)
        rows = []
        for size in OPEN[:3] if args.quick else OPEN:
            rows.append({"open": size} | costs(ray, deaf, size, 5 if args.quick else 15))
            print(rows[-1], flush=True)
    finally:
        cluster.close()
    whole = [sum(v for k, v in r.items() if k != "open") for r in rows]
    curve = fit([r["open"] for r in rows], whole)
    entry = {
        **about(cpu, args.quick),
        "cores": cores(),
        "load": load,
        "rows": rows,
        "fragment": asdict(curve),
    }
    keep(args.out, cpu, entry, schema_version=1)
    print(f"{1e3 * curve.fixed:.2f} ms and {1e6 * curve.each:.2f} us for each open ticket")


if __name__ == "__main__":
    main()
