"""What a row of the ledger says of the fleet that an update came from."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from torch import Tensor

from surefoot.fleet.on_ray.crew import Arrived, Crew
from surefoot.fleet.on_ray.env import FleetEnv

UNCORRECTED = 1e-3
"""Ratios this near to 1 leave a sample as it is: both policies are the same but for rounding."""


def freshness(used: list[Arrived], version: int, now: float) -> dict[str, Any]:
    """Returns how old the fragments of an update are: in versions, and in seconds by where they spent them.
    The clocks are those of the actors' machines and of this one."""
    lag = np.array([version - a.version for a in used], np.float64)
    clock = np.array([a.fragment.extras["clock"] for a in used])
    issued = np.array([a.issued for a in used])
    arrived = np.array([a.arrived for a in used])
    return {
        "fleet.lag.min": float(lag.min()),
        "fleet.lag.mean": float(lag.mean()),
        "fleet.lag.p95": float(np.quantile(lag, 0.95)),
        "fleet.lag.max": float(lag.max()),
        "fleet.age_s": float((now - clock.mean(1)).mean()),
        "fleet.age_s.broadcast": float((clock[:, 0] - issued).mean()),
        "fleet.age_s.collecting": float((clock[:, 1] - clock[:, 0]).mean()),
        "fleet.age_s.transport": float((arrived - clock[:, 1]).mean()),
        "fleet.age_s.queue": float((now - arrived).mean()),
    }


def correction(rho: Tensor | None, rho_bar: float) -> dict[str, float]:
    """Returns the shares of an update's samples that were corrected for, and whose ratio was cut; without
    ratios nothing was."""
    if rho is None:
        return {"fleet.corrected_share": 0.0, "fleet.clipped_share": 0.0}
    return {
        "fleet.corrected_share": float(((rho - 1).abs() > UNCORRECTED).float().mean()),
        "fleet.clipped_share": float((rho > rho_bar * (1 + UNCORRECTED)).float().mean()),
    }


class FleetFigures:
    """Takes what a row says of the fleet while its update is made."""

    def __init__(self, env: FleetEnv, crew: Crew) -> None:
        self._env, self._crew = env, crew
        self._dropped = crew.books.dropped
        self.row: dict[str, Any] = {}

    def update(self, version: int, rho: Tensor | None, rho_bar: float) -> None:
        """Takes the figures of the update that begins with the policy of `version`."""
        env, crew = self._env, self._crew
        now, used = time.time(), env.used
        dropped = crew.books.dropped
        since = dropped - self._dropped
        self._dropped = dropped
        parts = len(crew.members)
        samples = np.zeros(parts, np.int64)
        for a in used:
            samples[a.key.actor] += a.fragment.header.horizon * a.fragment.header.envs
        trips = np.concatenate([a.fragment.extras["trips"] for a in used])
        having = crew.actors
        row: dict[str, Any] = {
            "fleet.actors": len({k for k in having if k is not None}),
            "fleet.alive": crew.alive,
            "fleet.parts": parts,
            "fleet.actor.by_part": having,
            "fleet.joined": 0 if crew.roster is None else crew.roster.joined,
            "fleet.left": 0 if crew.roster is None else crew.roster.left,
            **crew.books.row(),
        }
        row |= freshness(used, version, now) | correction(rho, rho_bar)
        row |= {
            "fleet.dropped_share": since / (since + len(used)),
            "fleet.samples.by_actor": samples.tolist(),
            "fleet.rate.by_actor": [m.samples / m.seconds if m.seconds else None for m in crew.members],
            "fleet.replaced": crew.replaced,
            "fleet.begun": int(sum(a.fragment.extras["begun"][0] for a in used)),
            "fleet.codec": crew.setting.order.codec,
            "fleet.bytes": sum(a.fragment.nbytes for a in used),
            "fleet.bytes_per_transition": float(np.mean([a.fragment.bytes_per_transition for a in used])),
            "fleet.read_s": env.seconds - env.waited,
        }
        if len(trips):
            row |= {
                "fleet.inference.trip_ms.p50": 1e3 * float(np.quantile(trips, 0.5)),
                "fleet.inference.trip_ms.p99": 1e3 * float(np.quantile(trips, 0.99)),
            }
        self.row = row | crew.service_figures()

    def ended(self, spent: float, idle: float) -> None:
        """Takes the seconds of an iteration, and those of them that the learner waited for data."""
        self.row |= {
            "fleet.learner.waiting_s": idle,
            "fleet.learner.busy_s": spent - idle,
            "fleet.learner.utilisation": (spent - idle) / spent,
        }
