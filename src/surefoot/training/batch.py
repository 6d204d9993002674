"""The ledger's row of one update: everything is measured per step or episode that actually happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup
from surefoot.env import EpisodeStats, TrainingEnv
from surefoot.rollout import RolloutBlock
from surefoot.runs import LEDGER_VERSION, RunFolder
from surefoot.training.plan import Plan
from surefoot.training.selection import Progress

STATISTICS = ("reward", "mean", "std", "p01", "p99", "largest", "clipped")


def block_statistics(
    block: RolloutBlock, reasons: int, strata: int, action_clip: float, group: ProcessGroup = SINGLE
) -> Tensor:
    """Returns all that the ledger wants of a block as one vector, which `ledger_row` takes apart. Computed
    without asking the device; of all processes' blocks, where there are several."""
    advantages = group.gather(block.advantage, 1).flatten()
    ordered = advantages.sort().values
    spread = [
        advantages.mean(),
        advantages.std(),
        _quantile(ordered, 0.01),
        _quantile(ordered, 0.99),
        advantages.abs().max(),
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
    """Interpolates between the two values nearest to it, as torch.quantile does, which copies the share from
    the host."""
    at = share * (len(ordered) - 1)
    low = int(at)
    return torch.lerp(ordered[low], ordered[min(low + 1, len(ordered) - 1)], at - low)


@dataclass(frozen=True)
class LedgerConstants:
    """What is the same in every row of a run's ledger, or says how to read what is not."""

    rollout_shape: tuple[int, int]
    """Steps and environments of an update, of all processes."""
    reward_names: Sequence[str]
    reasons: Sequence[str]
    """Why an episode ended; the first: it has not."""
    families: int
    strata: int
    control_hz: float
    epochs: int
    gradient_steps: int
    buffer_bytes: int

    @classmethod
    def of(cls, plan: Plan, env: TrainingEnv, buffer_bytes: int) -> LedgerConstants:
        """Reads them from a plan and its environments; `buffer_bytes` are those of all rollout blocks."""
        return cls(
            rollout_shape=plan.accounting.rollout_shape,
            reward_names=env.reward_names,
            reasons=env.reasons,
            families=plan.recipe.families,
            strata=plan.accounting.strata,
            control_hz=plan.recipe.control_hz,
            epochs=plan.recipe.epochs,
            gradient_steps=plan.accounting.gradient_steps,
            buffer_bytes=buffer_bytes,
        )


def ledger_row(
    constants: LedgerConstants,
    update: int,
    statistics: Tensor,
    metrics: Mapping[str, float | int | None],
    stats: EpisodeStats,
    seconds: Mapping[str, float | None],
    progress: Progress,
) -> dict[str, Any]:
    """Returns the row of one update, from its `block_statistics`, what the learner says about itself
    (`metrics`), the episodes that ended, the seconds of its phases and where the run stands. Keys are dotted
    names; lists are indexed by stratum or family."""
    c, (horizon, envs) = constants, constants.rollout_shape
    samples = horizon * envs
    sizes = [len(STATISTICS), len(c.reward_names), len(c.reasons), c.strata, c.strata]
    single, terms, reason, count, by_stratum = torch.split(statistics.cpu(), sizes)
    f = dict(zip(STATISTICS, single.tolist(), strict=True))
    ended = stats.ended
    lengths = np.concatenate([e["steps"] for e in ended]) if ended else np.zeros(0)
    returns = np.concatenate([e["return"] for e in ended]) if ended else np.zeros(0)
    family = np.concatenate([e["family"] for e in ended]) if ended else np.zeros(0, np.int64)
    row: dict[str, Any] = {
        "schema_version": LEDGER_VERSION,
        "update": update,
        "samples": update * samples,
        "robot_seconds": update * samples / c.control_hz,
        **{f"seconds.{k}": v for k, v in seconds.items()},
        "train_seconds": progress.train_seconds,
        "wall_seconds": progress.wall_seconds,
        "steps_per_second": samples
        / sum(v for k, v in seconds.items() if v is not None and k != "evaluation"),
        "reward_per_step": f["reward"],
        "episode.count": len(lengths),
        "episode.return": float(returns.mean()) if len(returns) else None,
        "episode.steps": float(lengths.mean()) if len(lengths) else None,
        **{f"reward.{n}": v for n, v in zip(c.reward_names, terms.tolist(), strict=True)},
        **{f"reset.{n}": int(k) for n, k in zip(c.reasons[1:], reason.tolist()[1:], strict=True)},
        "stratum.resets": stats.resets.tolist(),
        "stratum.samples": [int(k) for k in count.tolist()],
        "family.resets": np.bincount(family, minlength=c.families).tolist(),
        "family.samples": [samples // c.families] * c.families,
        **{f"advantage.{k}": f[k] for k in ("mean", "std", "p01", "p99", "largest")},
        "advantage.by_stratum": (by_stratum / count.clamp_min(1)).tolist(),
        "action_clip_share": f["clipped"],
        "freshness.horizon_steps": horizon,
        "freshness.mean_age_steps": (horizon - 1) / 2,
        "freshness.epochs": c.epochs,
        "freshness.gradient_steps": c.gradient_steps,
        "memory.buffer_bytes": c.buffer_bytes,
        "memory.peak_rss_bytes": peak_rss_bytes(),
        "memory.peak_device_bytes": peak_device_bytes(),
    }
    return row | _terrain(stats) | dict(metrics)


def write_update(run: RunFolder, row: Mapping[str, Any], stats: EpisodeStats) -> None:
    """Writes one update into the run folder: its episodes, the states that engines failed from, and its row
    of the ledger."""
    run.add_episodes(stats.ended, row["update"])
    run.save_failures(stats.failures, row["update"])
    run.ledger.append(row)


def _terrain(stats: EpisodeStats) -> dict[str, Any]:
    """Returns what the row says by terrain class, in lists over levels: where environments stand, and the
    episodes that ended there."""
    row: dict[str, Any] = {}
    if not stats.terrain_occupancy:
        return row
    count = sum(stats.terrain_occupancy.values())
    row["terrain.level"] = _mean_level(np.asarray(count))
    names = ("terrain", "level", "reason", "walked_m", "commanded_m")
    ended = {k: np.concatenate([e[k] for e in stats.ended] or [np.zeros(0)]) for k in names}
    for name, standing in stats.terrain_occupancy.items():
        here = ended["terrain"] == name
        level, levels = ended["level"][here].astype(np.int64), len(standing)

        def by_level(weights: np.ndarray, level: np.ndarray = level, levels: int = levels) -> np.ndarray:
            return np.bincount(level, weights, minlength=levels)

        walked, commanded = (by_level(ended[k][here]) for k in ("walked_m", "commanded_m"))
        row |= {
            f"terrain.level.{name}": _mean_level(standing),
            f"terrain.envs.{name}": standing.tolist(),
            f"terrain.episodes.{name}": by_level(np.ones(len(level))).astype(int).tolist(),
            f"terrain.falls.{name}": by_level(ended["reason"][here] > 1).astype(int).tolist(),
            f"terrain.walked.{name}": [
                float(w / c) if c > 0 else None for w, c in zip(walked, commanded, strict=True)
            ],
        }
    return row


def _mean_level(count: np.ndarray) -> float | None:
    return float((count * np.arange(len(count))).sum() / count.sum()) if count.sum() else None


def peak_device_bytes() -> int | None:
    """Returns the most CUDA memory that torch has held; None without CUDA."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else None


def peak_rss_bytes() -> int | None:
    """Returns the peak resident memory of this process; None on Windows, where it is not measured."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
