"""Metrics of episodes: sums over the steps before each one's end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from surefoot.env import VecEnv
from surefoot.evaluation.gait import foot_clearance, vibration
from surefoot.evaluation.sums import length, total
from surefoot.evaluation.windows import window_metrics
from surefoot.statistics import succeeds

GRAVITY = 9.81
AXES = ("vx", "vy", "wz")


def episode_metrics(frames: Mapping[str, Tensor], env: VecEnv) -> dict[str, np.ndarray]:
    """Returns a row per episode of recorded steps [T, N, ...] (recorder.py) that begin with the episodes."""
    f, dt, success = frames, env.dt, env.contract.success
    limit = env.const.torque_limit * env.parameters.strength[:, None]
    over = f["reason"] > 0
    live = (over.cumsum(0) - over.long() == 0).double()  # [T, N] no end in earlier steps
    settled = live * (f["age"] > round(success.settle_s / dt))
    done = torch.cat([f["linear_velocity"][..., :2], f["angular_velocity"][..., 2:]], -1)
    commanded = f["command"]
    off = (done - commanded).abs()
    each = {
        "steps": live,
        "settled": settled,
        "velocity": settled * length(done - commanded),
        "yaw": settled * off[..., 2],
        "work": live * (f["torque"] * f["joint_velocity"]).abs().sum(-1) * dt,
        "distance": live * length(done) * dt,
        "saturated": live * (f["torque"].abs() > 0.99 * limit).any(-1),
        "trunk": live * f["trunk_contact"],
        "slip": live * (length(f["foot_velocity"]) * f["contact"]).sum(-1) * dt,
        "return": live * f["reward"],
    }
    for i, k in enumerate(AXES):
        each[k], each[f"asked_{k}"] = settled * done[..., i], settled * commanded[..., i]
        each[f"error_{k}"] = settled * off[..., i]
    s = dict(zip(each, total(torch.stack(list(each.values()))).cpu().numpy(), strict=True))
    terms = total((live[..., None] * f["terms"]).movedim(-1, 0)).cpu().numpy()
    tilt = torch.acos((-f["gravity"][..., 2]).clamp(-1, 1))
    peak = torch.where(live > 0, tilt, 0.0).amax(0)
    first = f["reason"].gather(0, over.byte().argmax(0, keepdim=True))[0]
    reasons = np.array(env.reasons)[first.cpu().numpy()]
    fall = reasons != "timeout"
    with np.errstate(invalid="ignore", divide="ignore"):
        velocity, yaw = s["velocity"] / s["settled"], s["yaw"] / s["settled"]
        cot = s["work"] / (env.const.mass_kg * GRAVITY * s["distance"])
        means = {f"achieved_{k}": s[k] / s["settled"] for k in AXES}
        means |= {f"error_{k}": s[f"error_{k}"] / s["settled"] for k in AXES}
        along = sum(s[k] * s[f"asked_{k}"] for k in AXES)
        ratio = along / sum(s[f"asked_{k}"] ** 2 for k in AXES)
        slip = s["slip"] / s["distance"]
    # A robot that hardly moves has no cost of transport and no slip per metre; a faller before the settling
    # time no velocity error; a command to stand no ratio and no clearance: NaN.
    cot[s["distance"] < 0.5] = slip[s["distance"] < 0.5] = np.nan
    windows = window_metrics(f, live, env.script.push_step, env.contract, dt)
    clearance, swings = (x.cpu().numpy() for x in foot_clearance(f, live, dt))
    told_to_stand = np.isfinite(windows["stand_drift_m"])
    rows = {
        "fall": fall,
        "reason": reasons,
        "steps": s["steps"].astype(np.int64),
        "lived_s": s["steps"] * dt,
        "velocity_error_mps": velocity,
        "yaw_error_radps": yaw,
        **windows,
        **means,
        "achieved_ratio": np.where(np.isfinite(ratio), ratio, np.nan),
        "cost_of_transport": cot,
        "work_j": s["work"],
        "distance_m": s["distance"],
        "torque_saturation": s["saturated"] / s["steps"],
        "trunk_contact": s["trunk"] / s["steps"],
        "foot_slip_m": s["slip"],
        "foot_slip_per_m": slip,
        "foot_clearance_m": np.where(told_to_stand, np.nan, np.where(swings > 0, clearance, 0.0)),
        "vibration_radps": vibration(f, live, dt).cpu().numpy(),
        "peak_tilt_rad": peak.cpu().numpy(),
        "return": s["return"],
        **{f"return.{n}": terms[i] for i, n in enumerate(env.reward_names)},
    }
    return {"success": succeeds(rows, success)} | rows
