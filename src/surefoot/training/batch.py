"""What the ledger says of one update: everything measured per step or episode actually lived."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup
from surefoot.env import EpisodeStats
from surefoot.rollout import RolloutBlock
from surefoot.runs import LEDGER_VERSION

FIGURES = ("reward", "mean", "std", "p01", "p99", "largest", "clipped")


def block_statistics(
    block: RolloutBlock, reasons: int, strata: int, action_clip: float, group: ProcessGroup = SINGLE
) -> Tensor:
    """All that the ledger wants of a block, as one vector that is computed without asking the device; of all
    processes' blocks, where there are several."""
    everyone = group.gather(block.advantage, 1).flatten()
    ordered = everyone.sort().values
    spread = [
        everyone.mean(),
        everyone.std(),
        _quantile(ordered, 0.01),
        _quantile(ordered, 0.99),
        everyone.abs().max(),
    ]
    clipped = (block.action.abs() > action_clip).float().mean()
    means = torch.cat([torch.stack([block.reward.mean(), clipped]), block.terms.mean((0, 1))])
    # Sums of masks: binning by index would add floats in any order, or ask for the largest index.
    advantage = block.flat("advantage")
    member = block.flat("stratum")[:, None] == torch.arange(strata, device=advantage.device)
    by_stratum = torch.where(member, advantage[:, None], 0.0).sum(0, dtype=torch.float64)
    reason = block.flat("reason")[:, None] == torch.arange(reasons, device=advantage.device)
    parts = [means.double() / group.world, reason.sum(0), member.sum(0), by_stratum]
    summed = torch.cat([x.to(torch.float64) for x in parts])
    group.all_reduce_sum_(summed)
    return torch.cat([summed[:1], torch.stack(spread).double(), summed[1:]])


def _quantile(ordered: Tensor, share: float) -> Tensor:
    """Between the two values nearest to it, as torch.quantile, which copies the share from the host."""
    at = share * (len(ordered) - 1)
    low = int(at)
    return torch.lerp(ordered[low], ordered[min(low + 1, len(ordered) - 1)], at - low)


def ledger_row(
    figures: Tensor,
    metrics: Mapping[str, float | int | None],
    stats: EpisodeStats,
    *,
    update: int,
    shape: tuple[int, int],
    reward_names: Sequence[str],
    reasons: Sequence[str],
    families: int,
    strata: int,
    seconds: Mapping[str, float | None],
    train_seconds: float,
    wall_seconds: float,
    control_hz: float,
    epochs: int,
    gradient_steps: int,
    buffer_bytes: int,
) -> dict[str, Any]:
    """The row of one update, from its `block_statistics` and what the learner says about itself (`metrics`).
    Keys are dotted names; lists are indexed by stratum or family."""
    horizon, envs = shape
    samples = horizon * envs
    sizes = [len(FIGURES), len(reward_names), len(reasons), strata, strata]
    single, terms, reason, count, by_stratum = torch.split(figures.cpu(), sizes)
    f = dict(zip(FIGURES, single.tolist(), strict=True))
    ended = stats.ended
    lengths = np.concatenate([e["steps"] for e in ended]) if ended else np.zeros(0)
    returns = np.concatenate([e["return"] for e in ended]) if ended else np.zeros(0)
    family = np.concatenate([e["family"] for e in ended]) if ended else np.zeros(0, np.int64)
    row: dict[str, Any] = {
        "schema_version": LEDGER_VERSION,
        "update": update,
        "samples": update * samples,
        "robot_seconds": update * samples / control_hz,
        **{f"seconds.{k}": v for k, v in seconds.items()},
        "train_seconds": train_seconds,
        "wall_seconds": wall_seconds,
        "steps_per_second": samples
        / sum(v for k, v in seconds.items() if v is not None and k != "evaluation"),
        "reward_per_step": f["reward"],
        "episode.count": len(lengths),
        "episode.return": float(returns.mean()) if len(returns) else None,
        "episode.steps": float(lengths.mean()) if len(lengths) else None,
        **{f"reward.{n}": v for n, v in zip(reward_names, terms.tolist(), strict=True)},
        **{f"reset.{n}": int(c) for n, c in zip(reasons[1:], reason.tolist()[1:], strict=True)},
        "stratum.resets": stats.resets.tolist(),
        "stratum.samples": [int(c) for c in count.tolist()],
        "family.resets": np.bincount(family, minlength=families).tolist(),
        "family.samples": [samples // families] * families,
        **{f"advantage.{k}": f[k] for k in ("mean", "std", "p01", "p99", "largest")},
        "advantage.by_stratum": (by_stratum / count.clamp_min(1)).tolist(),
        "action_clip_share": f["clipped"],
        "freshness.horizon_steps": horizon,
        "freshness.mean_age_steps": (horizon - 1) / 2,
        "freshness.epochs": epochs,
        "freshness.gradient_steps": gradient_steps,
        "memory.buffer_bytes": buffer_bytes,
        "memory.peak_rss_bytes": peak_rss_bytes(),
        "memory.peak_device_bytes": peak_device_bytes(),
    }
    return row | _terrain(stats) | dict(metrics)


def _terrain(stats: EpisodeStats) -> dict[str, Any]:
    """By terrain class, lists over levels: where environments stand, and the episodes that ended there."""
    row: dict[str, Any] = {}
    if not stats.terrain_occupancy:
        return row
    count = sum(stats.terrain_occupancy.values())
    row["terrain.level"] = _mean_level(np.asarray(count))
    names = ("terrain", "level", "reason", "walked_m", "commanded_m")
    ended = {k: np.concatenate([e[k] for e in stats.ended] or [np.zeros(0)]) for k in names}
    for name, standing in stats.terrain_occupancy.items():
        mine = ended["terrain"] == name
        level, levels = ended["level"][mine].astype(np.int64), len(standing)

        def by_level(weights: np.ndarray, level: np.ndarray = level, levels: int = levels) -> np.ndarray:
            return np.bincount(level, weights, minlength=levels)

        walked, asked = (by_level(ended[k][mine]) for k in ("walked_m", "commanded_m"))
        row |= {
            f"terrain.level.{name}": _mean_level(standing),
            f"terrain.envs.{name}": standing.tolist(),
            f"terrain.episodes.{name}": by_level(np.ones(len(level))).astype(int).tolist(),
            f"terrain.falls.{name}": by_level(ended["reason"][mine] > 1).astype(int).tolist(),
            f"terrain.walked.{name}": [
                float(w / a) if a > 0 else None for w, a in zip(walked, asked, strict=True)
            ],
        }
    return row


def _mean_level(count: np.ndarray) -> float | None:
    return float((count * np.arange(len(count))).sum() / count.sum()) if count.sum() else None


def peak_device_bytes() -> int | None:
    """Most CUDA memory that torch has held; None without CUDA."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else None


def peak_rss_bytes() -> int | None:
    """Peak resident memory of this process; None on Windows, where it is not measured."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
