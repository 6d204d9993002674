"""Every figure of a panel folder's summary.json, recomputed from its Parquet rows.

    python tests/recompute.py runs/<run>/panels/<panel>/confirmation

Written apart from Surefoot, on purpose: numpy for the arithmetic, pyarrow for the file, scipy only for the
quantiles of beta and t. Plain loops over families instead of the library's formulas.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

Rows = dict[str, np.ndarray]


def read(folder: Path) -> tuple[Rows, dict[str, Any]]:
    table = pq.read_table(folder / "episodes.parquet")
    rows = {name: np.array(table.column(name).to_pylist()) for name in table.column_names}
    return rows, json.loads((folder / "summary.json").read_text())


def groups(x: np.ndarray, family: np.ndarray) -> list[np.ndarray]:
    return [x[family == f] for f in sorted(set(family.tolist()))]


def correlation(parts: list[np.ndarray]) -> float:
    """ICC by analysis of variance, from mean squares."""
    n, k = sum(map(len, parts)), len(parts)
    if k == 1:
        return 1.0 if n > 1 else 0.0
    if n == k:
        return 0.0
    grand = sum(p.sum() for p in parts) / n
    between = sum(len(p) * (p.mean() - grand) ** 2 for p in parts) / (k - 1)
    within = sum(((p - p.mean()) ** 2).sum() for p in parts) / (n - k)
    size = (n - sum(len(p) ** 2 for p in parts) / n) / (k - 1)
    total = between + (size - 1) * within
    return 0.0 if total <= 1e-15 else min(max((between - within) / total, 0.0), 1.0)


def exact(share: float, n: float) -> tuple[float, float]:
    hits, misses = share * n, (1 - share) * n
    low = stats.beta.ppf(0.025, hits, misses + 1) if hits > 0 else 0.0
    high = stats.beta.ppf(0.975, hits + 1, misses) if misses > 0 else 1.0
    return float(low), float(high)


def recompute_rate(x: np.ndarray, family: np.ndarray) -> dict[str, float]:
    parts = groups(x.astype(float), family)
    n, squares = len(x), sum(len(p) ** 2 for p in parts)
    worth = n * n / squares

    def n_eff(alike: float, events: int) -> float:
        alike += (1 - alike) * 3 / (events + 4)
        value = n / (1 + (squares / n - 1) * alike)
        if len(parts) > 1:
            value *= (stats.t.ppf(0.975, n - 1) / stats.t.ppf(0.975, worth - 1)) ** 2
        return min(max(value, worth), n)

    hits = int(x.sum())
    mine, flawless = n_eff(correlation(parts), min(hits, n - hits)), n_eff(0.0, 0)
    low, high = exact(hits / n, mine)
    return {
        "value": hits / n,
        "low": min(low, exact(1.0, flawless)[0]),
        "high": max(high, exact(0.0, flawless)[1]),
        "n": n,
        "n_eff": mine,
        "families": len(parts),
        "few": False,
    }


ENDS = {
    "velocity_error_mps": 2.0,
    "yaw_error_radps": 6.0,
    "cost_of_transport": 20.0,
    "foot_slip_per_m": 20.0,
    "foot_clearance_m": 1.0,
    "vibration_radps": 20.0,
}
"""How large an episode's value can be; the least is 0."""


def recompute_mean(x: np.ndarray, family: np.ndarray, end: float) -> dict[str, Any]:
    x, family = x[np.isfinite(x)], family[np.isfinite(x)]
    parts = groups(x, family)
    n, k, mean = len(x), len(parts), x.mean()
    squares = sum(len(p) ** 2 for p in parts)
    out = {"value": mean, "n": n, "n_eff": n / (1 + (squares / n - 1) * correlation(parts)), "families": k}
    worth = n * n / squares
    out["few"] = worth < 28 - 1e-9
    if k == 1:
        return out | {"low": None, "high": None}
    variance = sum((len(p) / n * (p.mean() - mean)) ** 2 / (1 - len(p) / n) for p in parts)
    t = stats.t.ppf(0.975, worth - 1)
    low, high = mean - t * math.sqrt(variance), mean + t * math.sqrt(variance)
    if variance > 0:
        second = sum(len(p) * (p.mean() - mean) ** 2 for p in parts) / n
        third = sum(len(p) * (p.mean() - mean) ** 3 for p in parts) / n
        skewness, m = third / second**1.5, max(worth, 3)
        spread = math.sqrt(6 * m * (m - 1) / (m - 2) / (m + 1) / (m + 3))
        step = math.sqrt(variance) * (2 * t**2 + 1) / 6 / math.sqrt(worth)
        low -= step * max(0, spread - skewness)
        high += step * max(0, spread + skewness)
    if worth < 28 - 1e-9:
        unseen = 1 - 0.05 ** (1 / worth)
        low = min(low, mean - unseen * (mean - min(0.0, x.min())))
        high = max(high, mean + unseen * (max(end, x.max()) - mean))
    if worth >= 32 - 1e-9:
        bounds = bootstrap(parts, mean)
        low, high = min(low, bounds[0]), max(high, bounds[1])
    return out | {"low": low, "high": high}


def bootstrap(parts: list[np.ndarray], mean: float) -> tuple[float, float]:
    """Studentised, over families."""
    ratios, n, k = [], sum(map(len, parts)), len(parts)
    parts = sorted(parts, key=lambda p: (p.mean(), len(p)))
    rng = np.random.Generator(np.random.PCG64(20_260_101))
    for times in rng.multinomial(k, np.full(k, 1 / k), size=1000):
        drawn = [p for p, t in zip(parts, times, strict=True) for _ in range(t)]
        size = sum(map(len, drawn))
        m = sum(p.sum() for p in drawn) / size
        error = math.sqrt(k / (k - 1) * sum((p.sum() - m * len(p)) ** 2 for p in drawn)) / size
        if error > 0:
            ratios.append((m - mean) / error)
    error = math.sqrt(k / (k - 1) * sum((p.sum() - mean * len(p)) ** 2 for p in parts)) / n
    q = np.quantile(ratios, (0.025, 0.975))
    return mean - q[1] * error, mean - q[0] * error


def standard_error(parts: list[np.ndarray]) -> float:
    n = sum(map(len, parts))
    mean = sum(p.sum() for p in parts) / n
    return math.sqrt(sum((len(p) / n * (p.mean() - mean)) ** 2 / (1 - len(p) / n) for p in parts))


def recompute_iqm(x: np.ndarray, family: np.ndarray) -> dict[str, Any]:
    order = np.sort(x)
    n, cut = len(x), len(x) // 4
    kept = order[cut : n - cut]
    held = np.minimum(np.maximum(x, kept[0]), kept[-1])
    parts = groups(kept.mean() + (held - held.mean()) * n / len(kept), family)
    squares = sum(len(p) ** 2 for p in parts)
    worth = n * n / squares
    out = {
        "value": kept.mean(),
        "n": n,
        "n_eff": n / (1 + (squares / n - 1) * correlation(parts)),
        "families": len(parts),
        "few": False,
    }
    if worth < 1 - math.log2(0.05) - 1e-9:
        return out | {"low": None, "high": None, "few": True}
    t = stats.t.ppf(0.975, worth - 1)
    reach = standard_error(parts) * (t if worth >= 8 - 1e-9 else stats.t.ppf(0.975, worth / 2 - 1))
    low, high = kept.mean() - reach, kept.mean() + reach
    if worth >= 32 - 1e-9 and reach > 0:
        wide = recompute_mean(
            np.concatenate(parts), np.repeat(np.arange(len(parts)), list(map(len, parts))), 0.0
        )
        low, high = wide["low"], wide["high"]
    ranks = np.array([((x < v).sum() + (x <= v).sum()) / 2 / n for v in x])
    shift = t * standard_error(groups(2 * np.clip(ranks, 0.25, 0.75), family))

    def moved(by: float) -> float:
        """Mean of the quantile function from 1/4 + by to 3/4 + by, its steps one by one."""
        area = 0.0
        for i, v in enumerate(order):
            start = -math.inf if i == 0 else i / n
            stop = math.inf if i == n - 1 else (i + 1) / n
            area += v * max(0.0, min(stop, 0.75 + by) - max(start, 0.25 + by))
        return 2 * area

    return out | {"low": min(low, moved(-shift)), "high": max(high, moved(shift))}


def clusters(rows: Rows) -> list[np.ndarray]:
    """What rows may share: the family, and where families have several members, the command as well."""
    if "member" not in rows or rows["member"].max() == 0 or "command_vx" not in rows:
        return [rows["family"]]
    told = zip(*(rows[f"command_{k}"].tolist() for k in ("vx", "vy", "wz")), strict=True)
    known: dict[Any, int] = {}
    return [rows["family"], np.array([known.setdefault(c, len(known)) for c in told])]


def widest(statistic: Any, x: np.ndarray, rows: Rows, *end: float) -> dict[str, Any]:
    """A mean with the interval that holds for either of them."""
    found = [statistic(x, by, *end) for by in clusters(rows)]
    ends = {k: [f[k] for f in found] for k in ("low", "high", "n_eff", "few")}
    return found[0] | {
        "low": None if None in ends["low"] else min(ends["low"]),
        "high": None if None in ends["high"] else max(ends["high"]),
        "n_eff": min(ends["n_eff"]),
        "few": any(ends["few"]),
    }


def recompute(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(as written, as recomputed) under the same dotted names."""
    rows, summary = read(folder)
    columns = summary.get("columns", [])
    nominal = select(rows, "nominal", summary["engine"])
    written: dict[str, Any] = {}
    found: dict[str, Any] = {}
    kinds = {
        "success": ("success", recompute_rate),
        "fall": ("fall", recompute_rate),
        **{name: (name, recompute_mean) for name in ENDS if name in nominal},
        "return_iqm": ("return", recompute_iqm),
    }
    for name, (column, statistic) in kinds.items():
        measured, end = np.isfinite(nominal[column]).any(), [ENDS[column]] if column in ENDS else []
        again = None
        if measured and statistic is recompute_rate:
            again = recompute_rate(nominal[column], nominal["family"])
        elif measured:
            again = widest(statistic, nominal[column], nominal, *end)
        for key in ("value", "low", "high", "n", "n_eff", "families", "few"):
            written[f"figures.{name}.{key}"] = summary["figures"].get(name, {}).get(key)
            found[f"figures.{name}.{key}"] = again and again[key]
    for prefix, part, figures in [("", nominal, summary)] + [
        (f"columns.{c['column']}.{c['engine']}.", select(rows, c["column"], c["engine"]), c) for c in columns
    ]:
        again = headline(part) | (of_column(part) if "column" in figures else {})
        for key, value in again.items():
            if key in figures:
                written[prefix + key], found[prefix + key] = figures[key], value
        if "column" in figures:
            for key in figures.keys() - again.keys() - DECLARED:
                written[prefix + key], found[prefix + key] = figures[key], "no rule"
    for cls, f in summary.get("terrain", {}).items():
        at = nominal["terrain"] == cls
        written[f"terrain.{cls}"] = f
        family = nominal["family"][at]
        unit = "scenario" if len(set(family.tolist())) == len(family) else "family"
        again = recompute_rate(nominal["success"][at], family)
        again |= {"unit": unit, "confidence": 0.95}
        found[f"terrain.{cls}"] = {k: v for k, v in again.items() if k in f}  # older files do not say
    if columns:
        again = conclusions(rows, columns, nominal, summary)
        written |= {k: summary[k] for k in again}
        found |= again
    return written, found


DECLARED = {"column", "perturbation", "strength", "unit", "trained", "source", "shift", "engine", "policy"}
"""What a column says that does not follow from its rows, or is one of their own values."""


def of_column(rows: Rows) -> dict[str, Any]:
    success = recompute_rate(rows["success"], rows["family"])
    known = np.isfinite(rows["velocity_error_mps"]).any()
    error = {"low": None, "high": None}
    if known:
        error = widest(recompute_mean, rows["velocity_error_mps"], rows, 2.0)
    pushed = np.isfinite(rows["recovery_s"]) | ~rows["recovered"]
    seconds = rows["recovery_s"][np.isfinite(rows["recovery_s"])]
    return {
        "velocity_error_low": error["low"],
        "velocity_error_high": error["high"],
        "recovered": rows["recovered"][pushed].mean() if pushed.any() else None,
        "recovery_s": seconds.mean() if len(seconds) else None,
        "holds": success["low"] >= 0.8,
        "labels": counts(rows["label"]),
    }


def counts(texts: np.ndarray) -> dict[str, int]:
    return {x: int((texts == x).sum()) for x in sorted(set(texts.tolist())) if x}


def conclusions(rows: Rows, columns: list[Any], nominal: Rows, summary: dict[str, Any]) -> dict[str, Any]:
    """Labels and causes, transfer tags, baselines beaten, agreement between engines."""
    parts = {(c["column"], c["engine"]): select(rows, c["column"], c["engine"]) for c in columns}
    rates = {k: recompute_rate(p["success"], p["family"]) for k, p in parts.items()}
    own = [k for k, p in parts.items() if p["policy"][0] == "trained"]
    tags = [k[0] for k in own if parts[k]["perturbation"][0] and rates[k]["low"] >= 0.8]
    for cls in sorted(set(nominal["terrain"].tolist())):
        at = nominal["terrain"] == cls
        if recompute_rate(nominal["success"][at], nominal["family"][at])["low"] >= 0.8:
            tags.append(f"terrain:{cls}")
    against = [k for k, p in parts.items() if p["policy"][0] != "trained" and not p["perturbation"][0]]
    mine = {k[1]: rates[k] for k in own if k[0] == "nominal"}
    beats = None
    if mine and against:
        first = next(iter(mine.values()))
        beats = all(mine.get(k[1], first)["low"] > rates[k]["high"] for k in against)
    native, agreement = parts.get(("nominal", "mujoco")), []
    for engine in mine:
        if native is None or engine == "mujoco":
            continue
        agreed = {"kind": "sim-to-sim", "engine": engine, "reference": "mujoco"}
        agreed |= engines_agree(native, parts["nominal", engine])
        said = next((a for a in summary.get("agreement", ()) if a["engine"] == engine), agreed)
        agreement.append({k: v for k, v in agreed.items() if k in said or k != "terrain"})  # before classes
    out = {"labels": counts(nominal["label"]), "causes": counts(nominal["cause"])}
    return out | {"transfer": list(dict.fromkeys(tags)), "beats_baselines": beats, "agreement": agreement}


def engines_agree(native: Rows, other: Rows) -> dict[str, Any]:
    """Two engines on the scenarios that both have, in all and by terrain class."""
    place = {s: i for i, s in enumerate(native["scenario"].tolist())}
    mine = [place[s] for s in other["scenario"].tolist()]
    classes = sorted(set(other["terrain"].tolist()))

    def of(at: np.ndarray) -> dict[str, Any]:
        pair = [native["velocity_error_mps"][mine][at], other["velocity_error_mps"][at]]
        known = np.isfinite(pair[0]) & np.isfinite(pair[1])
        flat = known.sum() < 3 or any(np.ptp(x[known]) == 0 for x in pair)
        same = native["success"][mine][at] == other["success"][at]
        rank = None if flat else stats.spearmanr(pair[0][known], pair[1][known]).statistic
        return {"success_agreement": same.mean(), "rank_correlation": rank, "n": int(at.sum())}

    terrain = {}
    for cls in classes if len(classes) > 1 else ():
        at = other["terrain"] == cls
        both = {
            "success": other["success"][at].mean(),
            "reference_success": native["success"][mine][at].mean(),
        }
        terrain[cls] = of(at) | both
    return of(np.ones(len(mine), bool)) | {"terrain": terrain}


def select(rows: Rows, column: str, engine: str) -> Rows:
    if "column" not in rows:
        return rows
    mine = (rows["column"] == column) & (rows["engine"] == engine)
    return {k: v[mine] for k, v in rows.items()}


def headline(rows: Rows) -> dict[str, Any]:
    family = rows["family"]
    success, fall = recompute_rate(rows["success"], family), recompute_rate(rows["fall"], family)
    out: dict[str, Any] = {
        "episodes": len(family),
        "effective_episodes": round(success["n_eff"], 2),
        "families": len(set(family.tolist())),
        "success": success["value"],
        "success_low": success["low"],
        "success_high": success["high"],
        "fall_rate": fall["value"],
        "fall_low": fall["low"],
        "fall_high": fall["high"],
        "torque_saturation": (rows["torque_saturation"] * rows["steps"]).sum() / rows["steps"].sum(),
        "end_reasons": {r: int((rows["reason"] == r).sum()) for r in sorted(set(rows["reason"].tolist()))},
        "success_by_terrain": {
            t: rows["success"][rows["terrain"] == t].mean() for t in sorted(set(rows["terrain"].tolist()))
        },
    }
    for name in ("velocity_error_mps", "yaw_error_radps", "cost_of_transport"):
        finite = rows[name][np.isfinite(rows[name])]
        out[name] = finite.mean() if len(finite) else None
    return out


def differences(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Figures that do not agree to nine digits: (written, recomputed)."""
    written, found = recompute(folder)
    return {k: (written[k], found[k]) for k in written if not same(written[k], found[k])}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, int | float) and isinstance(b, int | float | np.generic):
        return math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-9)
    return bool(a == b)


if __name__ == "__main__":
    wrong = differences(Path(sys.argv[1]))
    print(wrong or "every figure agrees")
    sys.exit(bool(wrong))
