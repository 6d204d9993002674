"""Ways to forge a run: each changes the files of a copy. Those that restate write every figure anew from the
changed rows, with Surefoot's own code, as a thorough forger would. For forgeries.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import JsonLines, load_npz, read_table, save_npz, table_meta, write_json, write_table
from surefoot.contract import digest, measurement_fields, recorded_code
from surefoot.runs import RunFolder, load_checkpoint, read_rows, read_summary, save_checkpoint
from surefoot.statistics import recount, succeeded

Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Forgery:
    """A way to forge `run`; `other` is an honest run of the same task to take things from."""

    name: str
    edit: Callable[[Path, Path], None]


def folder(run: Path) -> Path:
    return next((run / "panels").glob("*/confirmation"))


def rows_of(run: Path) -> Rows:
    return read_table(folder(run) / "episodes.parquet")


def write_rows(run: Path, rows: Rows, **meta: str) -> None:
    path = folder(run) / "episodes.parquet"
    write_table(path, rows, 2, table_meta(path) | meta)


def restate(run: Path, **changes: Any) -> None:
    """Summary and record as the rows and `changes` have them."""
    record = RunFolder.open(run).record
    stated = read_summary(folder(run)).model_copy(update=changes)
    counted = recount(read_rows(folder(run), stated), record.contract, stated)
    write_json(folder(run) / "summary.json", counted)
    change_json(run / "run.json", lambda r: r | {"confirmation": counted.model_dump(mode="json")})


def change_json(path: Path, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    write_json(path, change(json.loads(path.read_text())))


def nominal(rows: Rows) -> np.ndarray:
    return np.asarray(rows["column"] == "nominal")


def better(rows: Rows, at: np.ndarray) -> Rows:
    """Rows that succeed where `at`, with every figure of theirs in keeping with it."""
    out = {k: v.copy() for k, v in rows.items()}
    for k in ("vx", "vy", "wz"):
        out[f"achieved_{k}"][at] = out[f"command_{k}"][at]
        out[f"error_{k}"][at] = 0.05
    out["velocity_error_mps"][at], out["yaw_error_radps"][at] = 0.08, 0.05
    for name in (n for n in out if n.startswith("stand_")):
        out[name][at & np.isfinite(out[name])] = 0.0
    out["windows_as_told"][at] = 1.0
    out["success"][at], out["fall"][at] = True, False
    out["reason"][at], out["label"][at], out["cause"][at] = "timeout", "", ""
    longest = rows["steps"].max()
    out["lived_s"][at] = longest * (rows["lived_s"] / rows["steps"])[at]
    out["steps"][at] = longest
    return out


# ---- rows and figures


def rows_alone(run: Path, other: Path) -> None:
    rows = rows_of(run)
    at = nominal(rows)
    rows["success"][at] = True
    for name in ("velocity_error_mps", "yaw_error_radps"):
        rows[name][at] /= 2
    write_rows(run, rows)


def rows_restated(run: Path, other: Path) -> None:
    rows_alone(run, other)
    restate(run)


def rows_with_care(run: Path, other: Path) -> None:
    rows = rows_of(run)
    write_rows(run, better(rows, nominal(rows)))
    restate(run)


def summary_alone(run: Path, other: Path) -> None:
    def lie(s: dict[str, Any]) -> dict[str, Any]:
        columns = [c | {"holds": True} for c in s["columns"]]
        held = [c["column"] for c in columns if c["perturbation"]]
        said = {"transfer": held, "beats_baselines": True, "safety_held": True, "columns": columns}
        return s | said | {"agreement": [a | {"success_agreement": 1.0} for a in s["agreement"]]}

    change_json(folder(run) / "summary.json", lie)


def unsafe_rows(run: Path, other: Path) -> None:
    rows = rows_of(run)
    rows["torque_saturation"][:] = 0.5
    rows["success"][rows["policy"] == "hold-pose"] = True
    write_rows(run, rows)


def record_figures(run: Path, other: Path) -> None:
    def lie(r: dict[str, Any]) -> dict[str, Any]:
        figures = r["figures"] | {"samples": 10 * r["figures"]["samples"], "train_seconds": 0.01}
        return r | {"figures": figures}

    change_json(run / "run.json", lie)


def record_versions(run: Path, other: Path) -> None:
    change_json(run / "run.json", lambda r: r | {"versions": r["versions"] | {"mujoco": "2.3.0"}})


def record_dates(run: Path, other: Path) -> None:
    change_json(run / "run.json", lambda r: r | {"created": "2020-01-01T00:00:00+00:00"})


def one_row(run: Path, other: Path) -> None:
    rows = rows_of(run)
    at = np.zeros(len(rows["success"]), bool)
    at[np.flatnonzero((rows["column"] == "push_1.5") & ~rows["success"])[0]] = True
    write_rows(run, better(rows, at))
    restate(run)


def rows_deleted(run: Path, other: Path) -> None:
    rows = rows_of(run)
    keep = rows["success"] | (np.arange(len(rows["success"])) % 4 > 0)
    write_rows(run, {k: v[keep] for k, v in rows.items()})
    restate(run)


def column_deleted(run: Path, other: Path) -> None:
    rows = rows_of(run)
    keep = rows["column"] != "push_1.5"
    write_rows(run, {k: v[keep] for k, v in rows.items()})
    restate(run)


def rows_duplicated(run: Path, other: Path) -> None:
    rows = rows_of(run)
    keep = np.concatenate([np.arange(len(rows["success"])), np.flatnonzero(nominal(rows))[:2]])
    write_rows(run, {k: v[keep] for k, v in rows.items()})
    restate(run)


def column_copied(run: Path, other: Path) -> None:
    """The nominal rows under the name of a perturbation, its conditions included."""
    rows = rows_of(run)
    on = rows["engine"] == "stride"
    source = np.flatnonzero(nominal(rows) & on)
    target = np.flatnonzero((rows["column"] == "delay_120ms") & on)
    kept = ("column", "perturbation", "strength", "trace")
    for name, values in rows.items():
        if name not in kept:
            values[target] = values[source]
    write_rows(run, rows)
    restate(run)


def easier_scenarios(run: Path, other: Path) -> None:
    rows = rows_of(run)
    for name in ("command_vx", "command_vy", "command_wz"):
        rows[name] = np.zeros(len(rows[name]))
        rows[name.replace("command", "achieved")] = np.zeros(len(rows[name]))
    write_rows(run, rows)
    restate(run)


def other_keys(run: Path, other: Path) -> None:
    rows = rows_of(run)
    rows["key"] = np.array([f"{int(k, 16) ^ 1:016x}" for k in rows["key"]])
    write_rows(run, rows)


def foreign_rows(run: Path, other: Path) -> None:
    """Rows, traces and figures of another run, under this one's checkpoint."""
    place, mine = folder(run), read_summary(folder(run))
    shutil.rmtree(place)
    shutil.copytree(folder(other), place)
    change_json(place / "summary.json", lambda s: s | {"checkpoint": mine.checkpoint})
    write_rows(run, rows_of(run), checkpoint=mine.checkpoint)
    restate(run, checkpoint=mine.checkpoint, normaliser=mine.normaliser)


# ---- the contract


def limit_widened(run: Path, other: Path) -> None:
    """Success below 1.3 m/s, in contract and rows; the construct id stays as it was."""
    record = RunFolder.open(run).record
    wide = record.contract.success.model_copy(update={"velocity_error_mps": 1.3, "yaw_error_radps": 3.0})
    contract = record.contract.model_copy(update={"success": wide})
    change_json(
        run / "run.json",
        lambda r: r | {"contract": contract.model_dump(mode="json"), "contract_digest": contract.digest},
    )
    rows = rows_of(run)
    rows["success"] = succeeded(rows, contract)
    for name in ("label", "cause"):
        rows[name][rows["success"]] = ""
        rows[name][~rows["success"] & (rows[name] == "")] = "off_course"
    write_rows(run, rows)
    restate(run)


def limit_widened_everywhere(run: Path, other: Path) -> None:
    """The same, and ids, policies and checkpoints are made anew to fit."""
    limit_widened(run, other)
    record = RunFolder.open(run).record
    code = recorded_code(record.measurement, record.interface)
    measured = measurement_fields(
        record.contract, record.panel, record.panel_digest, record.evaluation_plant, code
    )
    ids = {"construct_id": digest(measured), "measurement_id": digest(measured)}
    change_json(run / "run.json", lambda r: r | ids | {"measurement": measured})
    checkpoint = ""
    for path in [*(run / "checkpoints").glob("*.safetensors"), run / "policy.safetensors"]:
        loaded = load_checkpoint(path)
        meta = json.loads(json.dumps(loaded.meta).replace(_old_digest(loaded.meta), record.contract_digest))
        made = save_checkpoint(path, loaded.tensors, meta)
        checkpoint = made if path.stem == "confirmed" else checkpoint
    write_rows(run, rows_of(run), checkpoint=checkpoint, **ids)
    change_json(
        folder(run) / "summary.json", lambda s: s | ids | {"measurement": measured, "checkpoint": checkpoint}
    )
    restate(run)


def _old_digest(meta: Mapping[str, Any]) -> str:
    return str(meta["policy"]["contract_digest"])


def contract_alone(run: Path, other: Path) -> None:
    def lie(r: dict[str, Any]) -> dict[str, Any]:
        r["contract"]["success"]["velocity_error_mps"] = 0.1
        return r

    change_json(run / "run.json", lie)


# ---- policies, traces, pages, ledger


def policy_swapped(run: Path, other: Path) -> None:
    shutil.copy(other / "policy.safetensors", run / "policy.safetensors")


def checkpoint_swapped(run: Path, other: Path) -> None:
    name = "checkpoints/confirmed.safetensors"
    shutil.copy(other / name, run / name)


def traces_swapped(run: Path, other: Path) -> None:
    traces = sorted((folder(run) / "traces").glob("nominal-0*.npz"))
    first, second = (load_npz(p) for p in traces[:2])
    save_npz(traces[0], **second)
    save_npz(traces[1], **first)


def page_edited(run: Path, other: Path) -> None:
    path = run / "report.html"
    path.write_text(path.read_text().replace("Failing", "Reliable"))


def ledger_edited(run: Path, other: Path) -> None:
    path = run / "ledger.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace('"reward_per_step":', '"reward_per_step":1')
    path.write_text("\n".join(lines) + "\n")


def ledger_line_removed(run: Path, other: Path) -> None:
    path = run / "ledger.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:2] + lines[3:]) + "\n")


def ledger_lines_swapped(run: Path, other: Path) -> None:
    path = run / "ledger.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[3], lines[2], *lines[4:]]) + "\n")


def ledger_unlinked(run: Path, other: Path) -> None:
    """A ledger that looks as if it had been written before there were chains."""
    path = run / "ledger.jsonl"
    rows = JsonLines(path).rows()
    path.unlink()
    with JsonLines(path) as lines:
        for row in rows:
            lines.append({k: v for k, v in row.items() if k != "chain"} | {"reward_per_step": 9.0})


def ledger_cut(run: Path, other: Path) -> None:
    path = run / "ledger.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")


def ledger_made_anew(run: Path, other: Path) -> None:
    """A ledger whose chain is whole and whose returns are another's."""
    path = run / "ledger.jsonl"
    rows = JsonLines(path).rows()
    path.unlink()
    lines = JsonLines(path, chained=True)
    for row in rows:
        lines.append({k: v for k, v in row.items() if k != "chain"} | {"reward_per_step": 9.0})
    lines.close()


FORGERIES = (
    Forgery("all nominal rows made successes, errors halved", rows_alone),
    Forgery("the same, every figure restated", rows_restated),
    Forgery("the same, every metric of a row in keeping", rows_with_care),
    Forgery("summary.json: holds, transfer, agreement, baselines, safety", summary_alone),
    Forgery("rows with torque at its limit and hold-pose at 100%", unsafe_rows),
    Forgery("run.json: samples and seconds", record_figures),
    Forgery("run.json: version of MuJoCo", record_versions),
    Forgery("run.json: date", record_dates),
    Forgery("one row of one column, with care", one_row),
    Forgery("failed rows deleted", rows_deleted),
    Forgery("a column deleted everywhere", column_deleted),
    Forgery("rows duplicated", rows_duplicated),
    Forgery("nominal rows as a perturbed column", column_copied),
    Forgery("commands of rows made easier", easier_scenarios),
    Forgery("keys (seeds) of rows changed", other_keys),
    Forgery("rows and traces of another run", foreign_rows),
    Forgery("the contract's limit in run.json alone", contract_alone),
    Forgery("a wider success limit, construct id kept", limit_widened),
    Forgery("a wider success limit in every file and id", limit_widened_everywhere),
    Forgery("policy.safetensors of another run", policy_swapped),
    Forgery("confirmed.safetensors of another run", checkpoint_swapped),
    Forgery("traces swapped", traces_swapped),
    Forgery("report.html edited", page_edited),
    Forgery("a line of the ledger edited", ledger_edited),
    Forgery("a line of the ledger removed", ledger_line_removed),
    Forgery("two lines of the ledger swapped", ledger_lines_swapped),
    Forgery("the ledger's chain taken out, its figures changed", ledger_unlinked),
    Forgery("the ledger's last lines cut", ledger_cut),
    Forgery("the ledger made anew, its chain too", ledger_made_anew),
)
