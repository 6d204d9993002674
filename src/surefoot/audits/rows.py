"""Do the columns of every row bear each other out, and name the scenario that was played?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.measured import Faults, agrees, rules_of
from surefoot.audits.passes import sampled
from surefoot.audits.slow_labels import CAUSES
from surefoot.audits.slow_metrics import GRAVITY, SHORT_M, Rules, succeeded
from surefoot.contract import Factor, Panel, Scenario, TaskContract
from surefoot.runs import read_rows, read_summary

Row = Mapping[str, Any]
Says = Iterator[tuple[str, str]]
SLACK = 1e-4
"""Relative: how far sums of single precision may go beyond a bound."""


def look(case: Case) -> list[Found]:
    """Checks every row of the confirmation and of the evaluations (of some, where there are many)."""
    rules, panel = rules_of(case), case.robot.panel
    panels = case.run.path / "panels" / case.record.panel
    found, seen = Faults(), 0
    for folder in [case.result.folder, *sampled(case, sorted(panels.glob("selection-update-*")))]:
        summary = read_summary(folder)
        rows = read_rows(folder, summary)
        own = panel if panel.digest == summary.panel_digest else None
        for row in _each(rows):
            seen += 1
            where = f"{folder.name}, {row['column']}, scenario {row['scenario']}"
            of_states = (
                () if str(row["reason"]) == "nonfinite" else (*bounds(row, rules), *shares(row, rules))
            )
            for what in (*outcome(row, rules), *of_states):
                found.add(what, where)
            if own is not None and str(row["perturbation"]) == "":
                for what in identity(row, own, rules.contract):
                    found.add(what, where)
        for what in _sets(rows, own, summary.half, folder):
            found.add(what, folder.name)
    return found.told(seen)


def _each(rows: Mapping[str, np.ndarray]) -> Iterator[Row]:
    names = list(rows)
    for values in zip(*(rows[k].tolist() for k in names), strict=True):
        yield dict(zip(names, values, strict=True))


def outcome(row: Row, rules: Rules) -> Says:
    """How it ended, whether that was a success, and what a failure is called."""
    reason, fell = str(row["reason"]), str(row["reason"]) != "timeout"
    if bool(row["fall"]) != fell:
        yield "fall", f"is {bool(row['fall'])} where they ended as {reason}"
    if reason not in {"timeout", "nonfinite", *(t.name for t in rules.contract.terminations)}:
        yield "reason", f"is {reason}, by which the contract ends no episode"
    right = succeeded(row, rules)
    if right is not None and bool(row["success"]) != right:
        yield "success", f"is {bool(row['success'])} against the contract's rule"
    label, cause = str(row["label"]), str(row["cause"])
    if (label == "") != bool(row["success"]):
        yield "label", f"is '{label}' where success is {bool(row['success'])}"
    if cause != CAUSES.get(label, ""):
        yield "cause", f"is '{cause}' of '{label}'"


def bounds(row: Row, rules: Rules) -> Says:
    """Figures that are sums, quotients or bounds of each other."""
    x = {k: float(v) for k, v in row.items() if isinstance(v, int | float)}
    yield from _same(row, "lived_s", x["steps"] / rules.control_hz)
    far = x["distance_m"] >= SHORT_M
    if abs(x["distance_m"] - SHORT_M) > SLACK:
        weight = rules.mass_kg * GRAVITY * x["distance_m"]
        yield from _same(row, "cost_of_transport", x["work_j"] / weight if far else math.nan)
        yield from _same(row, "foot_slip_per_m", x["foot_slip_m"] / x["distance_m"] if far else math.nan)
    told = [x[f"command_{k}"] for k in ("vx", "vy", "wz")]
    done = [x[f"achieved_{k}"] for k in ("vx", "vy", "wz")]
    off = [x[f"error_{k}"] for k in ("vx", "vy", "wz")]
    settled = x["steps"] > rules.steps(rules.success.settle_s)
    for name in ("velocity_error_mps", "yaw_error_radps", "achieved_vx", "error_vx"):
        if math.isfinite(x[name]) != settled:
            yield name, f"is {x[name]:.3g} of {row['steps']} steps, which may not be measured"
    if not settled:
        return
    size = sum(c * c for c in told)
    yield from _same(
        row,
        "achieved_ratio",
        sum(a * b for a, b in zip(done, told, strict=True)) / size if size else math.nan,
    )
    for k, a, c, e in zip(("vx", "vy", "wz"), done, told, off, strict=True):
        if e < abs(a - c) - SLACK * (1 + abs(a - c)):
            yield f"error_{k}", f"is {e:.4g}, below {abs(a - c):.4g}, the error of the mean"
    error, least, most = x["velocity_error_mps"], math.hypot(off[0], off[1]), off[0] + off[1]
    if not least - SLACK * (1 + least) <= error <= most + SLACK * (1 + most):
        yield "velocity_error_mps", f"is {error:.4g} where its axes give {least:.4g} to {most:.4g}"
    yield from _same(row, "yaw_error_radps", off[2])
    terms = [v for k, v in x.items() if k.startswith("return.")]
    total, scale = sum(terms), sum(map(abs, terms))
    floor = rules.contract.reward_floor
    low = x["return"] < total - SLACK * (1 + scale)
    if low or (floor is None and x["return"] > total + SLACK * (1 + scale)):
        yield "return", f"is {x['return']:.4g} where its terms add up to {total:.4g}"
    seconds = [float(s) for s in str(row["recoveries_s"]).split()]
    slowest = math.nan if any(map(math.isnan, seconds)) or not seconds else max(seconds)
    if not agrees(x["recovery_s"], slowest, 0.01):
        yield "recovery_s", f"is {x['recovery_s']:.3g} where pushes took {row['recoveries_s'] or 'none'}"
    if bool(row["recovered"]) == any(map(math.isnan, seconds)):
        yield "recovered", f"is {bool(row['recovered'])} where pushes took {row['recoveries_s'] or 'none'}"


def _same(row: Row, name: str, value: float) -> Says:
    if name in row and not agrees(float(row[name]), value):
        yield name, f"is {float(row[name]):.5g} where the rest of the row gives {value:.5g}"


def shares(row: Row, rules: Rules) -> Says:
    """Shares are of whole steps and whole windows; what is NaN was not asked."""
    steps = int(row["steps"])
    for name in ("torque_saturation", "trunk_contact"):
        count = float(row[name]) * steps
        if not (-1e-6 <= count <= steps + 1e-6 and abs(count - round(count)) < 1e-4 * steps + 1e-6):
            yield name, f"is {float(row[name]):.5g} of {steps} steps, which is no count of them"
    told = max(abs(float(row[f"command_{k}"])) for k in ("vx", "vy", "wz"))
    late = steps > rules.steps(rules.success.settle_s)
    stands = told <= rules.contract.command.dead_zone and late
    for name in ("stand_drift_m", "stand_turn_rad"):
        if math.isfinite(float(row[name])) != stands:
            yield name, f"is {float(row[name]):.4g} of a robot that was told {told:.3g}"
    if math.isfinite(float(row["foot_clearance_m"])) == stands:
        yield "foot_clearance_m", f"is {float(row['foot_clearance_m']):.4g} of a robot told {told:.3g}"
    w = rules.success.windows
    whole = (steps - rules.steps(rules.success.settle_s)) // rules.steps(rules.windows.length_s)
    if (w is not None and whole > 0) != math.isfinite(float(row["windows_as_told"])):
        yield "windows_as_told", f"is {float(row['windows_as_told']):.3g} of {max(0, whole)} whole windows"
    elif w is not None and whole > 0:
        share = float(row["windows_as_told"])
        if not any(abs(share * n - round(share * n)) < 1e-6 for n in range(1, whole + 1)):
            yield "windows_as_told", f"is {share:.4g}, no share of {whole} windows"


def identity(row: Row, panel: Panel, contract: TaskContract) -> Says:
    """A row of an unperturbed column has what its scenario has."""
    number = int(row["scenario"])
    if not 0 <= number < len(panel.scenarios):
        yield "scenario", f"is {number}, which the panel does not have"
        return
    s = panel.scenarios[number]
    given = {
        "family": s.family,
        "member": s.member,
        "friction": s.friction,
        "payload_kg": s.payload_kg,
        "level": s.terrain.level,
        **{f"command_{k}": x for k, x in zip(("vx", "vy", "wz"), s.command, strict=True)},
    }
    for name, value in given.items():
        if abs(float(row[name]) - value) > 1e-6:
            yield name, f"is {float(row[name]):.5g} where the scenario has {value:.5g}"
    if str(row["terrain"]) != s.terrain.cls or str(row["half"]) != s.half:
        yield "terrain", f"is {row['terrain']} ({row['half']}) where it is {s.terrain.cls} ({s.half})"
    if str(row["beyond"]) != (outside := beyond(s, contract)):
        yield "beyond", f"is '{row['beyond']}' where it is '{outside}'"
    if not any(x in str(row["stratum"]) for x in (stratum(s, contract, e) for e in (-1e-9, 1e-9))):
        yield "stratum", f"is '{row['stratum']}' where it is '{stratum(s, contract)}'"


def stratum(s: Scenario, contract: TaskContract, edge: float = 0.0) -> str:
    """Names the bins of friction, payload and command that a scenario is in; `edge` is added to what may lie
    between two of them."""
    bins = []
    for name, value in (("friction", s.friction), ("payload", s.payload_kg)):
        bins.append(f"{name} {_bin(contract.factor(name), value + edge)}")
    vx, vy, wz = (abs(x) > contract.command.dead_zone for x in s.command)
    way = "stand" if not (vx or vy or wz) else "sideways/turning"
    if vx:
        way = "forward" if s.command[0] > 0 else "backward"
    return " | ".join([*bins, f"command {way}"])


def _bin(factor: Factor, value: float) -> str:
    low, high = factor.train
    edges = [low + k * (high - low) / factor.bins for k in range(factor.bins + 1)]
    at = sum(value >= e for e in edges[1:-1])
    return f"{edges[at]:.3g}..{edges[at + 1]:.3g}"


def beyond(s: Scenario, contract: TaskContract) -> str:
    """Names the factors that a scenario has from outside of what is trained with, commas between them."""
    values: dict[str, tuple[float, ...]] = {
        "friction": (s.friction,),
        "payload": (s.payload_kg,),
        "com": s.com_m,
        "strength": (s.strength,),
        "gains": (s.kp_scale, s.kd_scale),
        "delay": (s.delay_s,),
        "noise": (s.noise_scale,),
        "push": tuple(math.hypot(p.vx_mps, p.vy_mps) for p in s.pushes),
        **{k: (x,) for k, x in zip(("vx", "vy", "wz"), s.command, strict=True)},
    }
    out: list[str] = []
    known: tuple[str, ...] = ("flat",)
    for f in contract.factors:
        low, high = f.train
        if any(x < low - 1e-6 or x > high + 1e-6 for x in values.get(f.name, ())):
            out.append(f.name)
        known = f.categories if f.name == "terrain" else known
    return ",".join(out if s.terrain.cls in known else [*out, "terrain"])


def _sets(rows: Mapping[str, np.ndarray], panel: Panel | None, half: str, folder: Path) -> Says:
    """Every column has scenarios of its half once, and the nominal one on its own engine all of them."""
    if panel is None:
        return
    mine = {k for k, s in enumerate(panel.scenarios) if half in ("all", s.half)}
    right = "confirmation" if folder.name == "confirmation" else "selection"
    if half != right:
        yield "half", f"is {half} where it is the {right} half that is played"
    names = list(zip(rows["column"].tolist(), rows["engine"].tolist(), strict=True))
    for name in dict.fromkeys(names):
        there = [int(s) for s, n in zip(rows["scenario"], names, strict=True) if n == name]
        if len(set(there)) < len(there) or set(there) - mine:
            yield "scenario", f"is there twice, or of another half, on {' on '.join(name)}"
        if name[0] == "nominal" and name[1] != "mujoco-boxes" and set(there) != mine:
            yield "scenario", f"is missing {len(mine - set(there))} of {len(mine)} on {' on '.join(name)}"


DETECTORS = (
    Detector(
        name="rows",
        kind="proof",
        cause="metric",
        asks="Do the columns of every held-out row bear each other out, and is it of the scenario it names?",
        statistic="outcomes, labels, quotients, bounds and shares of all rows of all passes, by other code",
        threshold="1e-4 of a figure: sums in single precision; counts and words exactly",
        means="Rows were measured, judged or written down wrongly.",
        remedy="Look at the column that is named: evaluation/metrics.py, statistics/success.py, labels.py.",
        look=look,
        needs=("confirmed", "robot"),
        short=True,
    ),
)
