"""What a panel pass shows, counted once more from its rows, by the names of summary.json: the rules of
docs/reference/statistics.md and run-folder.md, and nothing of `surefoot.statistics`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from surefoot.audits import slow_statistics as slow
from surefoot.audits.slow_statistics import Figure

Rows = Mapping[str, np.ndarray]
ENDS = {
    "velocity_error_mps": (0.0, 2.0),
    "yaw_error_radps": (0.0, 6.0),
    "cost_of_transport": (0.0, 20.0),
    "foot_slip_per_m": (0.0, 20.0),
    "foot_clearance_m": (0.0, 1.0),
    "vibration_radps": (0.0, 20.0),
}
"""Means among the headline figures, and the range of an episode's value."""
HOLDS_AT = 0.8
LOOKS = 4


def confidence_of(rows: Rows) -> float:
    """Returns the confidence of each interval: of looks, what all of them together need."""
    looked = "look" in rows and int(np.max(rows["look"])) > 0
    return 1 - 0.05 / LOOKS if looked else 0.95


def shared(rows: Rows) -> tuple[str, list[list[Hashable]]]:
    """Returns what rows may share, by name and as one cluster or two."""
    family = rows["family"].tolist()
    if "member" not in rows or int(np.max(rows["member"])) <= 0:
        return "scenario", [family]
    if "command_vx" not in rows:
        return "family", [family]
    told = list(zip(*(rows[f"command_{k}"].tolist() for k in ("vx", "vy", "wz")), strict=True))
    return "family and command", [family, told]


def rate_of(rows: Rows, name: str, confidence: float) -> Figure:
    return slow.rate(np.asarray(rows[name], np.float64), rows["family"].tolist(), confidence)


def mean_of(rows: Rows, name: str, confidence: float) -> Figure | None:
    """Returns a mean over the episodes that have it; None where none has."""
    known = np.isfinite(np.asarray(rows[name], np.float64))
    if not known.any():
        return None
    part = {k: v[known] for k, v in rows.items()}
    x = np.asarray(part[name], np.float64)
    clusters = shared(rows)[1]
    kept = [[c for c, k in zip(by, known.tolist(), strict=True) if k] for by in clusters]
    if name == "return":
        return slow.widest(lambda by: slow.middle(x, by, confidence), kept)
    return slow.widest(lambda by: slow.mean(x, by, ENDS[name], confidence), kept)


def counts(rows: Rows, name: str) -> dict[str, int]:
    texts = [str(x) for x in rows[name].tolist()] if name in rows else []
    return {x: texts.count(x) for x in sorted(set(texts)) if x}


def split(rows: Rows) -> dict[tuple[str, str], Rows]:
    """Returns the rows of each column on each engine, in the order of the table."""
    names = list(zip(rows["column"].tolist(), rows["engine"].tolist(), strict=True))
    out: dict[tuple[str, str], Rows] = {}
    for name in dict.fromkeys(names):
        at = np.array([n == name for n in names])
        out[name] = {k: v[at] for k, v in rows.items()}
    return out


def _estimate(f: Figure, rows: Rows, confidence: float, unit: str) -> dict[str, Any]:
    out: dict[str, Any] = {"value": f.value, "n": f.n, "n_eff": f.n_eff, "few": f.few}
    out |= {"low": _end(f, f.low), "high": _end(f, f.high)}
    return out | {"families": f.families, "unit": unit, "confidence": confidence}


def _of_rates(rows: Rows, confidence: float) -> dict[str, Any]:
    success, fall = (rate_of(rows, k, confidence) for k in ("success", "fall"))
    return {
        "episodes": success.n,
        "effective_episodes": round(success.n_eff, 2),
        "success": success.value,
        "success_low": success.low,
        "success_high": success.high,
        "fall_rate": fall.value,
        "fall_low": fall.low,
        "fall_high": fall.high,
    }


def _plain(rows: Rows, name: str) -> float | None:
    if name not in rows:
        return None
    x = np.asarray(rows[name], np.float64)
    x = x[np.isfinite(x)]
    return math.fsum(x.tolist()) / len(x) if len(x) else None


def column(rows: Rows) -> dict[str, Any]:
    """Returns what the table of columns says of one of them."""
    confidence = confidence_of(rows)
    error = mean_of(rows, "velocity_error_mps", confidence)
    out = _of_rates(rows, confidence) | {
        "column": str(rows["column"][0]),
        "perturbation": str(rows["perturbation"][0]),
        "strength": float(rows["strength"][0]),
        "engine": str(rows["engine"][0]),
        "policy": str(rows["policy"][0]),
        "velocity_error_mps": error and error.value,
        "velocity_error_low": error and _end(error, error.low),
        "velocity_error_high": error and _end(error, error.high),
        "yaw_error_radps": _plain(rows, "yaw_error_radps"),
        "cost_of_transport": _plain(rows, "cost_of_transport"),
        "labels": counts(rows, "label"),
    }
    out["holds"] = out["success_low"] >= HOLDS_AT
    if "recovered" in rows:
        back = [bool(x) for x in rows["recovered"].tolist()]
        after = np.asarray(rows["recovery_s"], np.float64).tolist()
        pushed = [b for b, s in zip(back, after, strict=True) if not b or math.isfinite(s)]
        out["recovered"] = sum(pushed) / len(pushed) if pushed else None
        out["recovery_s"] = _plain(rows, "recovery_s")
    return out


def _end(f: Figure, x: float) -> float | tuple[float, float] | None:
    """Returns an end of an interval, as a range where rounding may move it; None where there is none."""
    if not math.isfinite(x):
        return None
    return (x - f.slack, x + f.slack) if f.slack else x


def agreement(native: Rows, other: Rows) -> dict[str, Any] | None:
    """Returns how far two engines agree on the scenarios that both played; None without any."""
    place = {k: i for i, k in enumerate(native["key"].tolist())}
    both = [(place[k], j) for j, k in enumerate(other["key"].tolist()) if k in place]
    if not both:
        return None

    def of(pairs: list[tuple[int, int]]) -> dict[str, Any]:
        a, b = (np.array(x) for x in zip(*pairs, strict=True))
        errors = [np.asarray(r["velocity_error_mps"], np.float64)[at] for r, at in ((native, a), (other, b))]
        same = [bool(native["success"][i]) == bool(other["success"][j]) for i, j in pairs]
        rank = slow.rank_correlation(*errors)
        return {"success_agreement": sum(same) / len(same), "rank_correlation": rank, "n": len(same)}

    ground = [str(native["terrain"][i]) for i, _ in both]
    by_class = {}
    for cls in sorted(set(ground)) if len(set(ground)) > 1 else ():
        here = [p for p, g in zip(both, ground, strict=True) if g == cls]
        by_class[cls] = of(here) | {
            "success": sum(bool(other["success"][j]) for _, j in here) / len(here),
            "reference_success": sum(bool(native["success"][i]) for i, _ in here) / len(here),
        }
    names = {"engine": str(other["engine"][0]), "reference": str(native["engine"][0])}
    return of(both) | names | {"terrain": by_class}


def summary(rows: Rows, engine: str, safety: tuple[str, float] | None) -> dict[str, Any]:
    """Returns every figure of a summary. `engine` is the headline column's, `safety` the name and the limit
    of a share of steps."""
    parts = split(rows)
    own = {e: p for (c, e), p in parts.items() if c == "nominal" and str(p["policy"][0]) == "trained"}
    head = own.get(engine, next(iter(parts.values())))
    confidence, unit = confidence_of(head), shared(head)[0]
    columns = [column(p) for p in parts.values()]
    out = _of_rates(head, confidence) | {
        "families": len(set(head["family"].tolist())),
        "end_reasons": counts(head, "reason"),
        "labels": counts(head, "label"),
        "causes": counts(head, "cause"),
        "look": int(np.max(head["look"])) if "look" in head else 0,
        "confidence": confidence,
        "columns": columns,
    }
    out |= {k: _plain(head, k) for k in ("velocity_error_mps", "yaw_error_radps", "cost_of_transport")}
    out["torque_saturation"] = _share(head, "torque_saturation")
    unsafe = _share(head, safety[0]) if safety else None
    out["safety_held"] = None if safety is None or unsafe is None else unsafe <= safety[1]
    out["terrain"] = dict(_terrain(head, confidence))
    out["success_by_terrain"] = {k: f["value"] for k, f in out["terrain"].items()}
    one = unit if unit == "scenario" else "family"
    figures = {k: _estimate(rate_of(head, k, confidence), head, confidence, one) for k in ("success", "fall")}
    for name in (*ENDS, "return"):
        found = mean_of(head, name, confidence) if name in head else None
        if found is not None:
            shown = "return_iqm" if name == "return" else name
            figures[shown] = _estimate(found, head, confidence, unit)
    out["figures"] = figures
    held = [c["column"] for c in columns if c["holds"] and c["perturbation"] and c["policy"] == "trained"]
    held += [f"terrain:{cls}" for cls, f in out["terrain"].items() if f["low"] >= HOLDS_AT]
    out["transfer"] = list(dict.fromkeys(held))
    native = own.get("mujoco")
    others = [p for e, p in own.items() if e != "mujoco"]
    found_all = [agreement(native, p) for p in others] if native is not None else []
    out["agreement"] = [a for a in found_all if a is not None]
    out["beats_baselines"] = _beaten(columns)
    return out


def _share(rows: Rows, name: str) -> float | None:
    """Returns a share of all steps that were lived."""
    pairs = [(float(x), int(n)) for x, n in zip(rows[name], rows["steps"], strict=True) if math.isfinite(x)]
    return math.fsum(x * n for x, n in pairs) / sum(n for _, n in pairs) if pairs else None


def _terrain(rows: Rows, confidence: float) -> Iterator[tuple[str, dict[str, Any]]]:
    for cls in sorted({str(c) for c in rows["terrain"].tolist()} - {""}):
        here = np.array([str(c) == cls for c in rows["terrain"].tolist()])
        part = {k: v[here] for k, v in rows.items()}
        alone = len(set(part["family"].tolist())) == len(part["family"])
        yield (
            cls,
            _estimate(
                rate_of(part, "success", confidence), part, confidence, "scenario" if alone else "family"
            ),
        )


def _beaten(columns: list[dict[str, Any]]) -> bool | None:
    """Says whether success lies above that of every baseline, interval by interval, on the same engine."""
    mine = {c["engine"]: c for c in columns if c["policy"] == "trained" and c["column"] == "nominal"}
    against = [c for c in columns if c["policy"] != "trained" and not c["perturbation"]]
    if not mine or not against:
        return None
    first = next(iter(mine.values()))
    return all(mine.get(c["engine"], first)["success_low"] > c["success_high"] for c in against)
