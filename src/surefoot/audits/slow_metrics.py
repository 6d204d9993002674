"""Metrics of one held-out episode, from its trace and the contract: docs/reference/rows.md in numpy, one
episode at a time and in double precision. Nothing of `surefoot.evaluation` is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from surefoot.contract import Success, TaskContract, Windows

Trace = Mapping[str, Any]
Span = tuple[float, float]
"""A figure that rounding may move over a limit: from, to."""
EDGE = 1e-4
"""Relative: how near to a limit single precision may decide either way."""
GRAVITY = 9.81
SHORT_M, SWING_S, SMOOTH_S, RECOVERY_S = 0.5, 0.1, 0.1, 0.5
AXES = ("vx", "vy", "wz")


@dataclass(frozen=True)
class Rules:
    """What an episode is measured by."""

    contract: TaskContract
    control_hz: float
    mass_kg: float

    @property
    def success(self) -> Success:
        return self.contract.success

    @property
    def windows(self) -> Windows:
        return self.success.windows or Windows()

    def steps(self, seconds: float) -> int:
        return round(seconds * self.control_hz)


def array(trace: Trace, name: str) -> np.ndarray:
    return np.asarray(trace[name], np.float64)


def moved(trace: Trace) -> np.ndarray:
    """Returns [T, 3] forward, sideways and turning speeds."""
    return np.column_stack([array(trace, "linear_velocity")[:, :2], array(trace, "angular_velocity")[:, 2]])


def measured(trace: Trace, rules: Rules) -> dict[str, float | Span]:
    """Returns figures by the names of rows; NaN where nothing was measured."""
    hz, steps = rules.control_hz, len(array(trace, "position"))
    settled = slice(rules.steps(rules.success.settle_s), None)
    done, asked = moved(trace), array(trace, "command")
    off = np.abs(done - asked)[settled]
    out: dict[str, float | Span] = {"steps": steps, "lived_s": steps / hz}
    out["velocity_error_mps"] = mean(np.hypot(off[:, 0], off[:, 1]))
    out["yaw_error_radps"] = mean(off[:, 2])
    achieved, told = done[settled], asked[settled]
    for i, k in enumerate(AXES):
        out[f"error_{k}"] = mean(off[:, i])
        out[f"achieved_{k}"] = mean(achieved[:, i])
    size = float((told.mean(0) ** 2).sum()) if len(told) else 0.0
    out["achieved_ratio"] = float(achieved.mean(0) @ told.mean(0)) / size if size else math.nan
    out |= _effort(trace, rules)
    out |= _windows(trace, rules, _standing(trace, rules))
    up = 1 - 2 * (array(trace, "quaternion")[:, 1:3] ** 2).sum(1)
    tilt = float(np.arccos(np.clip(up, -1, 1)).max())
    out["peak_tilt_rad"] = (tilt - 2e-3, tilt + 2e-3)  # an angle whose cosine had single precision
    out["vibration_radps"] = _vibration(trace, rules)
    return out


def mean(x: np.ndarray) -> float:
    return float(x.mean()) if len(x) else math.nan


def _effort(trace: Trace, rules: Rules) -> dict[str, float | Span]:
    """Work, way, slip and torque."""
    dt, done = 1 / rules.control_hz, moved(trace)
    torque, limit = np.abs(array(trace, "torque")), array(trace, "torque_limit")
    work = float(np.abs(array(trace, "torque") * array(trace, "joint_velocity")).sum()) * dt
    metres = float(np.hypot(done[:, 0], done[:, 1]).sum()) * dt
    foot = array(trace, "foot_velocity")
    slid = float((np.hypot(foot[..., 0], foot[..., 1]) * array(trace, "contact")).sum()) * dt
    full = tuple(float((torque > 0.99 * limit * (1 + e)).any(1).mean()) for e in (EDGE, -EDGE))
    far = metres >= SHORT_M
    out: dict[str, float | Span] = {
        "work_j": work,
        "distance_m": metres,
        "foot_slip_m": slid,
        "torque_saturation": (full[0], full[1]),
    }
    if abs(metres - SHORT_M) > EDGE:
        out["cost_of_transport"] = work / (rules.mass_kg * GRAVITY * metres) if far else math.nan
        out["foot_slip_per_m"] = slid / metres if far else math.nan
    return out


def _standing(trace: Trace, rules: Rules) -> bool:
    """Says whether it was told to stand for as long as it counts; a faller before that was told nothing."""
    told = np.abs(array(trace, "command")[rules.steps(rules.success.settle_s) :])
    return bool(len(told)) and float(told.max()) <= rules.contract.command.dead_zone


def _windows(trace: Trace, rules: Rules, stands: bool) -> dict[str, float | Span]:
    w, still = rules.windows, rules.windows.standing
    first, width = rules.steps(rules.success.settle_s), max(1, rules.steps(w.length_s))
    done, asked = moved(trace), array(trace, "command")
    squares = _squares(trace, rules)
    pushes, after = np.asarray(trace["push_step"]), rules.steps(w.after_push_s)
    errors, turns, speeds, joints = [], [], [], []
    pushed: list[bool] = []
    as_told: list[Span] = []
    for begin in range(first, len(done) - width + 1, width):
        at = slice(begin, begin + width)
        gap, want = (done - asked)[at].mean(0), asked[at].mean(0)
        errors.append(math.hypot(gap[0], gap[1]))
        turns.append(abs(float(gap[2])))
        speeds.append(float(np.hypot(done[at, 0], done[at, 1]).mean()))
        joints.append(math.sqrt(float(squares[at].mean())))
        pushed.append(bool(((pushes >= begin - after) & (pushes < begin + width)).any()))
        if stands:
            pairs = [(speeds[-1], still.speed_mps), (joints[-1], still.joint_speed_radps)]
        else:
            pairs = [
                (errors[-1], max(w.velocity_mps, w.velocity_share * math.hypot(want[0], want[1]))),
                (turns[-1], max(w.yaw_radps, w.yaw_share * abs(float(want[2])))),
            ]
        low, high = (all(x <= limit * (1 + e) + e / 100 for x, limit in pairs) for e in (-EDGE, EDGE))
        as_told.append((float(low), float(high)))
    counts = np.array([not p for p in pushed], bool) if not all(pushed) else np.ones(len(pushed), bool)
    share = np.array(as_told).reshape(-1, 2)[counts].mean(0) if counts.any() else np.full(2, math.nan)
    out: dict[str, float | Span] = {
        "window_velocity_error_mps": _median(errors, counts),
        "window_yaw_error_radps": _median(turns, counts),
        "windows_as_told": (float(share[0]), float(share[1])) if rules.success.windows else math.nan,
    }
    world = _in_world(array(trace, "quaternion"), array(trace, "linear_velocity"))[first:]
    drift = np.abs(world.sum(0)) / rules.control_hz
    turned = abs(float(done[first:, 2].sum())) / rules.control_hz
    stood = {
        "stand_drift_m": math.hypot(drift[0], drift[1]),
        "stand_turn_rad": turned,
        "stand_speed_mps": _median(speeds, counts),
        "stand_joint_speed_radps": _median(joints, counts),
    }
    return out | {k: v if stands else math.nan for k, v in stood.items()}


def _median(x: list[float], counts: np.ndarray) -> float:
    return float(np.median(np.array(x)[counts])) if counts.any() else math.nan


def _squares(trace: Trace, rules: Rules) -> np.ndarray:
    """Returns [T] mean squares over joints of the speeds at the ends of steps and of the means over them."""
    moving = np.diff(array(trace, "joint_position"), axis=0) * rules.control_hz
    over = np.concatenate([[0.0], (moving**2).mean(1)])
    out: np.ndarray = ((array(trace, "joint_velocity") ** 2).mean(1) + over) / 2
    return out


def _in_world(quaternion: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Returns body-frame vectors [T, 3] in the world frame, by rotation matrices."""
    w, x, y, z = quaternion.T
    rows = [
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return np.column_stack([sum(a * b for a, b in zip(row, v.T, strict=True)) for row in rows])


def _vibration(trace: Trace, rules: Rules) -> float:
    """Joint speeds less their means over 0.1 s, root mean square: of both speeds that a step has."""
    half = max(1, round(SMOOTH_S * rules.control_hz / 2 - 0.5))
    ends = array(trace, "joint_velocity")[1:]
    over = np.diff(array(trace, "joint_position"), axis=0) * rules.control_hz
    if len(ends) <= 2 * half:
        return math.nan
    squares = []
    for x in (ends, over):
        around = sliding_window_view(x, 2 * half + 1, axis=0).mean(-1)
        squares.append(float(((x[half : len(x) - half] - around) ** 2).mean()))
    return math.sqrt(sum(squares) / 2)


def clearances(trace: Trace, rules: Rules) -> tuple[float, float]:
    """Returns the mean rise of swings of 0.1 s and more, and of those longer than that: which of the two
    counts one of 0.1 s decides is a matter of rounding."""
    if _standing(trace, rules):
        return math.nan, math.nan
    height, contact = array(trace, "foot_position")[..., 2], np.asarray(trace["contact"], bool)
    rises: list[tuple[int, float]] = []
    for foot in range(contact.shape[1]):
        touched = np.flatnonzero(contact[:, foot])
        for left, landed in itertools.pairwise(touched):
            path = height[left : landed + 1, foot]
            rises.append((int(landed - left - 1), max(0.0, float(path[:-1].max() - max(path[0], path[-1])))))
    need = SWING_S * rules.control_hz
    long = [r for steps, r in rises if steps >= need - 1e-6]
    longer = [r for steps, r in rises if steps > need + 1e-6]
    return tuple(sum(x) / len(x) if x else 0.0 for x in (long, longer))  # type: ignore[return-value]


def recoveries(trace: Trace, rules: Rules) -> list[Span]:
    """Returns the seconds from each push until the mean velocity over the next 0.5 s is within the success
    limits; a push has until the next one or the end. NaN: never."""
    error, width = moved(trace) - array(trace, "command"), max(1, rules.steps(RECOVERY_S))
    pushes = [int(p) for p in np.asarray(trace["push_step"]).tolist() if p < len(error)]

    def back(first: int, last: int, edge: float) -> float:
        if last - first < width:
            return math.nan
        gap = sliding_window_view(error[first:last], width, axis=0).mean(-1)
        near = np.hypot(gap[:, 0], gap[:, 1]) < rules.success.velocity_error_mps * (1 + edge)
        near &= np.abs(gap[:, 2]) < rules.success.yaw_error_radps * (1 + edge)
        return int(np.argmax(near)) / rules.control_hz if near.any() else math.nan

    ends = [*pushes[1:], len(error)][: len(pushes)]
    return [(back(a, b, EDGE), back(a, b, -EDGE)) for a, b in zip(pushes, ends, strict=True)]


def succeeded(row: Mapping[str, Any], rules: Rules) -> bool | None:
    """Applies the contract's rule to the figures of a row; None where one lies on a limit."""
    s, good, close = rules.success, str(row["reason"]) == "timeout", False

    def below(name: str, limit: float, known: bool = True) -> bool:
        """`known`: whether what was not measured fails."""
        nonlocal close
        x = float(row[name])
        close |= abs(x - limit) <= EDGE / 100 * (1 + abs(limit))
        return not known if math.isnan(x) else x < limit

    good &= below("velocity_error_mps", s.velocity_error_mps)
    good &= below("yaw_error_radps", s.yaw_error_radps)
    if s.windows is not None:
        share = float(row["windows_as_told"])
        good &= not math.isnan(share) and share >= s.windows.share
        good &= below("stand_drift_m", s.windows.standing.drift_m, known=False)
        good &= below("stand_turn_rad", s.windows.standing.turn_rad, known=False)
    for limit in s.limits:
        x = float(row[limit.metric])
        good &= math.isnan(x) or limit.low <= x <= limit.high
    return None if close else bool(good)
