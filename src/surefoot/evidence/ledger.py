"""The ledger: one flat row per update, everything measured per step or episode actually lived."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from surefoot.learners import PpoMetrics
from surefoot.rollout import RolloutBlock

SCHEMA_VERSION = 1


def ledger_row(
    block: RolloutBlock,
    metrics: PpoMetrics,
    *,
    update: int,
    reward_names: Sequence[str],
    reasons: Sequence[str],
    action_clip: float,
    families: int,
    strata: int,
    resets: np.ndarray,
    ended: Sequence[Mapping[str, np.ndarray]],
    seconds: Mapping[str, float],
    train_seconds: float,
    wall_seconds: float,
    control_hz: float,
    epochs: int,
    gradient_steps: int,
) -> dict[str, Any]:
    """The row of one update. Keys are dotted names; lists are indexed by stratum or family."""
    horizon, envs = block.reward.shape
    samples = horizon * envs
    advantage = block.flat("advantage")
    low, high = torch.quantile(advantage, torch.tensor([0.01, 0.99], device=advantage.device)).tolist()
    stratum = block.flat("stratum")
    count = torch.bincount(stratum, minlength=strata)
    by_stratum = torch.bincount(stratum, weights=advantage.double(), minlength=strata) / count.clamp_min(1)
    reason = torch.bincount(block.flat("reason").long(), minlength=len(reasons)).tolist()
    terms = block.terms.mean((0, 1)).tolist()
    lengths = np.concatenate([e["steps"] for e in ended]) if ended else np.zeros(0)
    returns = np.concatenate([e["return"] for e in ended]) if ended else np.zeros(0)
    family = np.concatenate([e["family"] for e in ended]) if ended else np.zeros(0, np.int64)
    spent = seconds["physics"] + seconds["task"] + seconds["inference"] + seconds["learning"]
    row: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "update": update,
        "samples": update * samples,
        "robot_seconds": update * samples / control_hz,
        **{f"seconds.{k}": v for k, v in seconds.items()},
        "train_seconds": train_seconds,
        "wall_seconds": wall_seconds,
        "steps_per_second": samples / spent,
        "reward_per_step": float(block.reward.mean()),
        "episode.count": len(lengths),
        "episode.return": float(returns.mean()) if len(returns) else None,
        "episode.steps": float(lengths.mean()) if len(lengths) else None,
        **{f"reward.{n}": v for n, v in zip(reward_names, terms, strict=True)},
        **{f"reset.{n}": c for n, c in zip(reasons[1:], reason[1:], strict=True)},
        "stratum.resets": resets.tolist(),
        "stratum.samples": count.tolist(),
        "family.resets": np.bincount(family, minlength=families).tolist(),
        "family.samples": [samples // families] * families,
        "advantage.mean": float(advantage.mean()),
        "advantage.std": float(advantage.std()),
        "advantage.p01": low,
        "advantage.p99": high,
        "advantage.largest": float(advantage.abs().max()),
        "advantage.by_stratum": by_stratum.tolist(),
        "action_clip_share": float((block.action.abs() > action_clip).float().mean()),
        "freshness.horizon_steps": horizon,
        "freshness.mean_age_steps": (horizon - 1) / 2,
        "freshness.epochs": epochs,
        "freshness.gradient_steps": gradient_steps,
        "memory.buffer_bytes": block.bytes,
        "memory.peak_rss_bytes": peak_rss_bytes(),
    }
    return row | asdict(metrics)


TIMING = ("seconds.", "train_seconds", "wall_seconds", "steps_per_second", "memory.peak_rss_bytes")
"""Fields that differ between two runs that are otherwise the same to the bit."""


def without_timing(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: v for k, v in row.items() if not k.startswith(TIMING) and not k.startswith("evaluation.seconds")
    }


def peak_rss_bytes() -> int | None:
    """Peak resident memory of this process; None on Windows, where it is not measured."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
