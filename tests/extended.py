"""A real run, extended by what an evaluation with perturbations, baselines, labels and batch audits writes.

The rows of the added columns are the run's own, with outcomes changed by a fixed rule: valid artifacts whose
figures mean nothing, to test how they are read and shown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import (
    JsonLines,
    atomic_write,
    load_npz,
    read_table,
    save_npz,
    table_meta,
    write_table,
)
from surefoot.contract import Column, perturb_all
from surefoot.runs import RunFolder, read_rows, read_summary
from surefoot.statistics import recount
from tiny import tiny_panel

COLUMNS = (
    ("nominal", "", 0.0, "stride", "trained", 0.0),
    ("noise_x2", "noise", 2.0, "stride", "trained", 0.04),
    ("delay_40ms", "delay", 0.04, "stride", "trained", 0.2),
    ("delay_120ms", "delay", 0.12, "stride", "trained", 0.85),
    ("friction_0.2", "friction", 0.2, "stride", "trained", 0.6),
    ("friction_0.3", "friction", 0.3, "stride", "trained", 0.3),
    ("friction_1.5", "friction", 1.5, "stride", "trained", 0.03),
    ("payload_+3kg", "payload", 3.0, "stride", "trained", 0.12),
    ("push_1.0", "push", 1.0, "stride", "trained", 0.06),
    ("push_1.5", "push", 1.5, "stride", "trained", 0.35),
    ("strength_0.8", "strength", 0.8, "stride", "trained", 0.1),
    ("dropout_0.1", "dropout", 0.1, "stride", "trained", 0.5),
    ("baseline:hold-pose", "", 0.0, "mujoco", "hold-pose", 0.94),
    ("baseline:random", "", 0.0, "mujoco", "random", 1.0),
    ("baseline:open-loop-trot", "", 0.0, "mujoco", "open-loop-trot", 0.9),
)
"""Column, perturbation, strength, engine, policy, and the share of successes that it turns into failures."""
LABELS = (
    ("fell after push", "timing"),
    ("slipped", "state"),
    ("drifted", "action"),
    ("<stood> & still", "reward"),
)


ADDED = (
    "label",
    "cause",
    "trace",
    "column",
    "perturbation",
    "strength",
    "engine",
    "policy",
    "scenario",
    "key",
)
SUMMARISED = ("columns", "transfer", "agreement", "beats_baselines", "labels", "causes")


def strip(run: Path) -> None:
    """Takes a run folder in place back to the first layout: one nominal column, no labels, no audits."""
    (run / "robot.json").unlink(missing_ok=True)
    folder = next((run / "panels").glob("*/confirmation"))
    path = folder / "episodes.parquet"
    rows, meta = nominal_rows(run), table_meta(path)
    traced = rows.get("trace")
    for file in (folder / "traces").glob("*.npz") if traced is not None else ():
        place = np.flatnonzero(traced == file.stem)
        if len(place):
            file.rename(file.with_name(f"{place[0]:05d}.npz"))
        else:
            file.unlink()
    write_table(path, {k: v for k, v in rows.items() if k not in ADDED}, 1, meta)
    summary = json.loads((folder / "summary.json").read_text())
    kept = {k: v for k, v in summary.items() if k not in SUMMARISED}
    _state(run, folder, kept)
    ledger = JsonLines(run / "ledger.jsonl").rows()
    old = [{k: v for k, v in r.items() if not k.startswith(("honesty.", "stratum_return."))} for r in ledger]
    _write_ledger(run / "ledger.jsonl", old)


def nominal_rows(run: Path) -> dict[str, np.ndarray]:
    """The rows of the run's own policy, undisturbed, on native MuJoCo."""
    rows = read_table(next((run / "panels").glob("*/confirmation")) / "episodes.parquet")
    if "column" not in rows:
        return rows
    mine = (rows["column"] == "nominal") & (rows["engine"] == "mujoco") & (rows["policy"] == "trained")
    return {k: v[mine] for k, v in rows.items()}


def extend(run: Path, nominal_success: float | None = None) -> None:
    """Extends the confirmation pass and the ledger of a stripped run folder in place. With
    `nominal_success` the nominal outcomes are set too, so that there is something to lose."""
    folder = next((run / "panels").glob("*/confirmation"))
    rows, meta = read_table(folder / "episodes.parquet"), table_meta(folder / "episodes.parquet")
    n = len(rows["family"])
    place = (np.arange(n) * 0.6180339887) % 1.0
    rows.pop("states_digest", None)  # nobody lived these episodes
    if nominal_success is not None:
        rows["success"] = place < nominal_success
        rows["fall"] = ~rows["success"] & (np.arange(n) % 2 == 0)
    tables = [_column(rows, "nominal", "", 0.0, "mujoco", "trained", 0.0, place)]
    tables += [_column(rows, *c, place) for c in COLUMNS]
    tables[0]["trace"] = np.array(
        [f"{i:05d}" if (folder / f"traces/{i:05d}.npz").exists() else "" for i in range(n)]
    )
    _failure_trace(folder, tables[7])
    joined = {k: np.concatenate([t[k] for t in tables]) for k in tables[0]}
    write_table(folder / "episodes.parquet", joined, 1, meta)
    restate(run)
    _ledger(run / "ledger.jsonl")


def _column(
    rows: dict[str, np.ndarray],
    name: str,
    kind: str,
    strength: float,
    engine: str,
    policy: str,
    lose: float,
    place: np.ndarray,
) -> dict[str, np.ndarray]:
    n = len(rows["family"])
    out = {k: v.copy() for k, v in rows.items()}
    lost = place * 0.999 < lose
    out["fall"] = out["fall"] | (lost & (np.arange(n) % 2 == 0))
    out["success"] = out["success"] & ~lost
    panel, seeds = tiny_panel(), tiny_panel().seeds
    numbers = panel.numbers("confirmation")[:n]
    of = perturb_all([panel.scenarios[k] for k in numbers], Column(perturbation=kind, strength=strength))
    out |= _outcomes(out, lose, place)
    chosen = [LABELS[i % len(LABELS)] if not s else ("", "") for i, s in enumerate(out["success"])]
    text = {"column": name, "perturbation": kind, "engine": engine, "policy": policy}
    return (
        out
        | {k: np.full(n, v) for k, v in text.items()}
        | {
            "strength": np.full(n, strength),
            "scenario": np.array(numbers),
            "key": np.array([f"{seeds.episode_key(s.family * 4 + s.member, 0):016x}" for s in of]),
            "friction": np.array([s.friction for s in of]),
            "payload_kg": np.array([s.payload_kg for s in of]),
            "label": np.array([c[0] for c in chosen]),
            "cause": np.array([c[1] for c in chosen]),
            "trace": np.full(n, "", dtype=object).astype(str),
        }
    )


def _outcomes(rows: dict[str, np.ndarray], lose: float, place: np.ndarray) -> dict[str, np.ndarray]:
    """What must be so of episodes that succeed and fall as `rows` say: ends, steps and errors."""
    steps = np.where(rows["fall"], 120, 150)
    velocity = np.where(rows["success"], 0.1 + 0.1 * place, 0.3 + 0.2 * place) * (1 + 0.1 * lose)
    axes = {f"achieved_{k}": rows[f"command_{k}"] for k in ("vx", "vy", "wz")}
    axes |= {"error_vx": velocity, "error_vy": 0 * velocity, "error_wz": velocity}
    return {
        "reason": np.where(rows["fall"], "tilted", "timeout"),
        "steps": steps,
        "lived_s": steps / 50,
        "velocity_error_mps": velocity,
        "yaw_error_radps": velocity,
        **({"windows_as_told": rows["success"].astype(float)} if "windows_as_told" in rows else {}),
        **{k: np.full(len(place), np.nan) for k in rows if k.startswith("stand_")},
        **{k: v for k, v in axes.items() if k in rows},
    }


def _failure_trace(folder: Path, table: dict[str, np.ndarray]) -> None:
    """A trace of a perturbed failure, in the fuller layout."""
    failed = int(np.flatnonzero(~table["success"])[0])
    old = load_npz(sorted((folder / "traces").glob("*.npz"))[0])
    steps = len(old["position"])
    stem = f"{table['column'][0]}-{failed:05d}"
    added = {
        "linear_velocity": np.tile(np.float32([0.5, 0.1, 0.0]), (steps, 1)),
        "angular_velocity": np.tile(np.float32([0.0, 0.0, 0.25]), (steps, 1)),
        "contact": np.zeros((steps, old["foot_position"].shape[1]), bool),
        "column": str(table["column"][0]),
        "scenario": int(table["scenario"][failed]),
        "label": str(table["label"][failed]),
        "cause": str(table["cause"][failed]),
        "control_hz": 50.0,
        "terrain_class": "stairs_up",
        "terrain_level": 3,
        "terrain_key": 7,
    }
    save_npz(folder / "traces" / f"{stem}.npz", **(old | added))
    table["trace"] = table["trace"].astype(object)
    table["trace"][failed] = stem
    table["trace"] = table["trace"].astype(str)


def restate(run: Path) -> None:
    """Restates every figure of a run from its rows, as a thorough forger would."""
    folder = next((run / "panels").glob("*/confirmation"))
    record = RunFolder.open(run).record
    stated = read_summary(folder)
    counted = recount(read_rows(folder, stated), record.contract, stated)
    _state(run, folder, counted.model_dump(mode="json"))


def _state(run: Path, folder: Path, summary: dict[str, Any]) -> None:
    """Writes a summary to where a run states it."""
    atomic_write(folder / "summary.json", json.dumps(summary).encode())
    record = json.loads((run / "run.json").read_text())
    atomic_write(run / "run.json", json.dumps(record | {"confirmation": summary}).encode())


def _ledger(path: Path) -> None:
    rows = JsonLines(path).rows()
    for i, row in enumerate(rows):
        if i % 2 == 0:
            row |= {
                "honesty.reset_sync_index": 0.3 / (i + 1),
                "honesty.reset_fano": 1.1,
                "honesty.duplicate_scenarios": 0,
                "honesty.coverage_two_way": 0.98,
                "honesty.n": 12288,
                "honesty.n_eff_return": 900 + i,
                "honesty.n_eff_advantage": 4000.0,
                "honesty.icc_return": 0.031,
                **{f"stratum_return.{k}": 0.01 * (k % 5) for k in range(len(row["stratum.resets"]))},
            }
    _write_ledger(path, rows)


def _write_ledger(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes a ledger anew, as it would have been written with these rows."""
    path.unlink()
    with JsonLines(path, chained=True) as lines:
        for row in rows:
            lines.append({k: v for k, v in row.items() if k != "chain"})
