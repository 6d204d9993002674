"""Is a row of the ledger what its block and episodes show? Counted again in numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import Iterated, iterated
from surefoot.audits.lived import robots

ROUNDING = 1e-3
"""Relative rounding of sums in single precision; as much of a figure's own scale."""


def look(case: Case) -> list[Found]:
    """Compares rows of two iterations, and their episodes, with what the blocks show."""
    contract = case.robot.task.contract
    names, reasons = [t.name for t in contract.rewards], robots(case).reasons
    strata = contract.strata.shape
    said: dict[str, str] = {}
    for it in iterated(case):
        expected = _counted(it, names, list(reasons), float(contract.action.clip))
        expected |= _honesty(it, it.recipe.families, strata)
        for key, value in expected.items():
            if key not in it.row or not _close(it.row[key], value):
                got = _short(it.row.get(key))
                said.setdefault(key, f"The ledger's {key} is {got} where it is {_short(value)}.")
        for text in _episodes(it, names):
            said.setdefault(text, text)
    return [Found(text) for text in said.values()]


def _counted(it: Iterated, names: list[str], reasons: list[str], clip: float) -> dict[str, Any]:
    b = it.block
    x = b["advantage"].astype(np.float64).ravel()
    stratum = b["stratum"].ravel()
    count = np.bincount(stratum, minlength=len(it.row["stratum.samples"]))
    sums = np.bincount(stratum, x, minlength=len(count))
    over = b["terminated"] | b["truncated"]
    length, returned = it.ended.get("steps", np.zeros(0)), it.ended.get("return", np.zeros(0))
    return {
        "reward_per_step": float(b["reward"].astype(np.float64).mean()),
        **{f"reward.{n}": float(b["terms"][..., k].astype(np.float64).mean()) for k, n in enumerate(names)},
        **{f"reset.{n}": int((b["reason"] == k).sum()) for k, n in enumerate(reasons) if k},
        "stratum.samples": count.tolist(),
        "episode.count": int(over.sum()),
        "episode.return": float(returned.mean()) if len(returned) else None,
        "episode.steps": float(length.mean()) if len(length) else None,
        "advantage.mean": float(x.mean()),
        "advantage.std": float(x.std(ddof=1)),
        "advantage.p01": float(np.quantile(x, 0.01)),
        "advantage.p99": float(np.quantile(x, 0.99)),
        "advantage.largest": float(np.abs(x).max()),
        "advantage.by_stratum": (sums / np.maximum(count, 1)).tolist(),
        "action_clip_share": float((np.abs(b["action"]) > clip).mean()),
        "samples": x.size * int(it.row["update"]),
    }


def _honesty(it: Iterated, families: int, strata: tuple[int, ...]) -> dict[str, Any]:
    """Lockstep, resets, coverage and what families are worth, each from its definition."""
    b = it.block
    over = b["terminated"] | b["truncated"]
    age, old = np.zeros(over.shape), it.start["task.age"].numpy().astype(float)
    for t in range(len(over)):
        age[t] = old
        old = np.where(over[t], 0.0, old + 1)
    per_step = over.sum(1).astype(float)
    count = np.bincount(b["stratum"].ravel(), minlength=math.prod(strata)).reshape(strata)
    hit = cells = 0
    for pair in combinations(range(len(strata)), min(2, len(strata))):
        table = count.sum(tuple(a for a in range(len(strata)) if a not in pair))
        hit, cells = hit + int((table > 0).sum()), cells + table.size
    out: dict[str, Any] = {
        "honesty.reset_sync_index": float(np.clip(_icc(age), 0, 1)),
        "honesty.lockstep": float(np.mean([_largest_group(row) for row in age])),
        "honesty.reset_fano": float(per_step.var(ddof=1) / per_step.mean()) if per_step.any() else None,
        "honesty.coverage_two_way": hit / cells,
        "honesty.n": over.size,
    }
    for name, key in (("returns", "return"), ("advantage", "advantage")):
        x = b[name].astype(np.float64)
        groups = x.reshape(len(x), families, -1).transpose(1, 0, 2).reshape(families, -1)
        icc = float(np.clip(_icc(groups), 0, 1)) if families > 1 else 1.0
        out[f"honesty.icc_{key}"] = icc
        out[f"honesty.n_eff_{key}"] = over.size / (1 + (groups.shape[1] - 1) * icc)
    return out


def _largest_group(ages: np.ndarray) -> float:
    """Returns how many have the age that most have, but one, as a share of all but one."""
    return float((np.unique(ages, return_counts=True)[1].max() - 1) / max(len(ages) - 1, 1))


def _icc(groups: np.ndarray) -> float:
    """Returns the intraclass correlation of groups [G, m], by the one-way analysis of variance."""
    g, m = groups.shape
    means = groups.mean(1)
    within = ((groups - means[:, None]) ** 2).sum() / max(g * (m - 1), 1)
    between = m * ((means - means.mean()) ** 2).sum() / max(g - 1, 1)
    return 1.0 if within == 0 else float((between - within) / (between + (m - 1) * within))


def _episodes(it: Iterated, names: list[str]) -> Iterator[str]:
    """Episodes that ended are recorded as they went: length, reason, and what they were paid by term."""
    b = it.block
    age = (it.start["task.age"] - it.start["born"]).numpy()
    paid = it.start["returns"].numpy().astype(np.float64)
    lengths, reasons, returns = [], [], []
    for t in range(len(b["reward"])):
        age, paid = age + 1, paid + b["terms"][t][:, : paid.shape[1]]
        over = b["terminated"][t] | b["truncated"][t]
        lengths += age[over].tolist()
        reasons += b["reason"][t][over].tolist()
        returns += paid[over].tolist()
        age, paid = np.where(over, 0, age), np.where(over[:, None], 0.0, paid)
    e = it.ended
    if sorted(lengths) != sorted(np.asarray(e.get("steps", [])).tolist()):
        yield "Recorded episodes are not as long as they were."
    if sorted(reasons) != sorted(np.asarray(e.get("reason", [])).tolist()):
        yield "Reasons of recorded episodes are not those that they ended by."
    if not returns or "steps" not in e:
        return
    expected = np.array(returns)
    for k, name in enumerate(names):
        own = np.sort(np.asarray(e.get(f"return.{name}", np.full(len(expected), np.nan)), np.float64))
        asked = np.sort(expected[:, k])
        if len(own) != len(asked) or not np.allclose(own, asked, rtol=1e-3, atol=1e-4):
            yield f"Recorded episodes are not paid by '{name}' what they were."


def _close(said: Any, value: Any) -> bool:
    if value is None or said is None:
        return said is None and value is None
    if isinstance(value, list):
        return len(said) == len(value) and all(_close(a, b) for a, b in zip(said, value, strict=True))
    return math.isclose(said, value, rel_tol=ROUNDING, abs_tol=1e-5)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_short(v) for v in value[:3])}, ...]"
    return "missing" if value is None else f"{value:.4g}"


DETECTORS = (
    Detector(
        name="ledger-rows",
        kind="proof",
        cause="bookkeeping",
        asks="Does a row of the ledger say what its rollout block and its episodes show?",
        statistic="figures of two rows, and length, reason and pay of the episodes that ended, counted again",
        threshold="0.1% of a figure: sums in single precision; counts exactly",
        means="The record of training is not what happened; figures that rest on it are void.",
        remedy="Compare training/batch.py, training/honesty.py and the environments' log with it.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
