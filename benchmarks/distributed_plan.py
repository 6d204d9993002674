"""What several GPUs would give, on paper: one GPU's measured times, assumed links. tables.py puts it into the
documents.

Nothing here was measured with more than one GPU. A collective takes its latency and the bytes that a ring
sends; all of them are counted as if nothing else went on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from document import Block, table
from gpu_training import HERE, Case, Sizes
from performance_tables import MISSING, on_gpu
from surefoot.learners.kernels import FOUND
from surefoot.learners.networks import Layout, init_networks
from surefoot.learners.update import ALIGN, room
from surefoot.tasks import task

SMALL = 8
"""Sums of a few numbers per update: advantages' spread, two normalisers, two variances, the largest ratio
error, samples left out, the ledger's figures."""


@dataclass(frozen=True)
class Link:
    """Between neighbours of a ring; assumed."""

    name: str
    gbyte_per_second: float
    latency_us: float

    def sum_ms(self, size: float, world: int) -> float:
        return self.latency_us / 1e3 + 2 * (world - 1) / world * size / self.gbyte_per_second / 1e6

    def gather_ms(self, size: float, world: int) -> float:
        return self.latency_us / 1e3 + (world - 1) * size / self.gbyte_per_second / 1e6


LINKS = (
    Link("NVLink", 300, 20),
    Link("100 Gb/s Ethernet", 10, 60),
    Link("10 Gb/s Ethernet", 1, 100),
)
WORLDS = (2, 8)
CASES = [c for c in Sizes().table if c.goal and c.precision == "tf32"]


def gradient_bytes(hidden: tuple[int, ...]) -> int:
    c = task("walk-flat").contract
    nets = init_networks(c.observation_size, c.critic_size, c.action.size, hidden, 1.0, 0)
    return 4 * (FOUND + Layout(nets, ALIGN).size)


def traffic() -> str:
    rows = []
    for case in CASES:
        size, steps = gradient_bytes(case.hidden), case.minibatches * case.epochs
        advantages = 4 * case.envs * case.horizon
        rows.append(
            [
                str(case),
                f"{size / 1e6:.2f} MB",
                f"{steps}",
                f"{steps * size / 1e6:.1f} MB",
                f"{advantages / 1e6:.2f} MB",
            ]
        )
    return table(("per process and update", "gradient", "times", "in all", "advantages, gathered"), rows)


def scaling() -> str:
    _, machine = on_gpu(HERE / "gpu_training.json")
    measured = {r["case"]: r for r in machine.get("table", [])}
    rows = []
    for case in CASES:
        ms = measured.get(str(case), {}).get("ms")
        for world in WORLDS:
            cells = [paper(case, ms, world, link) if ms else MISSING for link in LINKS]
            rows.append([str(case), f"{world}", *cells])
    return table(("on every GPU", "GPUs", *(link.name for link in LINKS)), rows)


def paper(case: Case, ms: dict[str, float], world: int, link: Link) -> str:
    """Training steps/s of all GPUs, and the share of so many single ones."""
    samples, minibatches = case.envs * case.horizon, case.minibatches
    total = samples * world
    padding = room(total // minibatches, total, world) / (samples / minibatches) - 1
    steps, gradient = minibatches * case.epochs, gradient_bytes(case.hidden)
    together = steps * link.sum_ms(gradient, world) + SMALL * link.sum_ms(1e3, world)
    together += link.gather_ms(4 * samples, world)
    whole = ms["loop"] + padding * ms["update"] + together
    return f"{total / whole / 1e3:.1f}M, {100 * ms['loop'] / whole:.0f}%"


BLOCKS = {"traffic": Block(traffic), "on paper": Block(scaling, ("gpu_training.json",))}
