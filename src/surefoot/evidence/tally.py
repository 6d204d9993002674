"""Metrics of episodes: sums over the steps that each actually lived."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.env import VecEnv

GRAVITY = 9.81
AXES = ("vx", "vy", "wz")


def tally(frames: Mapping[str, np.ndarray], env: VecEnv) -> dict[str, np.ndarray]:
    """One row per episode of a film [T, N, ...] (see film.py) that begins with the episodes."""
    f, dt, success = frames, env.dt, env.contract.success
    limit = (env.const.torque_limit * env.parameters.strength[:, None]).cpu().numpy()
    over = f["reason"] > 0
    before: np.ndarray = np.cumsum(over, 0) - over  # ends in earlier steps
    live: np.ndarray = (before == 0).astype(np.float64)  # [T, N]
    settled = live * (f["age"] > round(success.settle_s / dt))
    done = np.concatenate([f["linear_velocity"][..., :2], f["angular_velocity"][..., 2:]], -1)
    asked = f["command"]
    off = np.abs(done - asked)
    each = {
        "steps": live,
        "settled": settled,
        "velocity": settled * np.linalg.norm((done - asked)[..., :2], axis=-1),
        "yaw": settled * off[..., 2],
        "work": live * np.abs(f["torque"] * f["joint_velocity"]).sum(-1) * dt,
        "distance": live * np.linalg.norm(done[..., :2], axis=-1) * dt,
        "saturated": live * (np.abs(f["torque"]) > np.float32(0.99) * limit).any(-1),
        "trunk": live * f["trunk_contact"],
        "slip": live * (np.linalg.norm(f["foot_velocity"][..., :2], axis=-1) * f["contact"]).sum(-1) * dt,
        "return": live * f["reward"],
    }
    for i, k in enumerate(AXES):
        each[k], each[f"asked_{k}"] = settled * done[..., i], settled * asked[..., i]
        each[f"error_{k}"] = settled * off[..., i]
    s = {k: _sum(x) for k, x in each.items()}
    terms = _sum(live[..., None] * f["terms"])
    tilt = np.arccos(np.clip(-f["gravity"][..., 2], -1, 1))
    first = np.argmax(over, 0)
    reasons = np.array(env.reasons)[f["reason"][first, np.arange(over.shape[1])]]
    fall = reasons != "timeout"
    with np.errstate(invalid="ignore", divide="ignore"):
        velocity, yaw = s["velocity"] / s["settled"], s["yaw"] / s["settled"]
        cot = s["work"] / (env.const.mass_kg * GRAVITY * s["distance"])
        means = {f"achieved_{k}": s[k] / s["settled"] for k in AXES}
        means |= {f"error_{k}": s[f"error_{k}"] / s["settled"] for k in AXES}
        along = sum(s[k] * s[f"asked_{k}"] for k in AXES)
        ratio = along / sum(s[f"asked_{k}"] ** 2 for k in AXES)
    good = (velocity < success.velocity_error_mps) & (yaw < success.yaw_error_radps)
    # A robot that hardly moves has no cost of transport; a faller before the settling time no velocity
    # error; a command to stand no ratio: NaN.
    cot[s["distance"] < 0.5] = np.nan
    return {
        "success": ~fall & good,
        "fall": fall,
        "reason": reasons,
        "steps": s["steps"].astype(np.int64),
        "lived_s": s["steps"] * dt,
        "velocity_error_mps": velocity,
        "yaw_error_radps": yaw,
        **means,
        "achieved_ratio": np.where(np.isfinite(ratio), ratio, np.nan),
        "cost_of_transport": cot,
        "work_j": s["work"],
        "distance_m": s["distance"],
        "torque_saturation": s["saturated"] / s["steps"],
        "trunk_contact": s["trunk"] / s["steps"],
        "foot_slip_m": s["slip"],
        "peak_tilt_rad": np.where(live > 0, tilt, 0.0).max(0),
        "return": s["return"],
        **{f"return.{n}": terms[:, i] for i, n in enumerate(env.reward_names)},
    }


def _sum(x: np.ndarray) -> np.ndarray:
    """Over time, one step after the other: the same bits for an episode alone and among others."""
    total: np.ndarray = np.cumsum(x, 0)[-1]
    return total
