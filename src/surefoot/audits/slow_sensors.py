"""Faulty sensors once more, in numpy and one environment at a time, from what columns say of them."""

from __future__ import annotations

import numpy as np

from surefoot.audits.declared import Declared
from surefoot.contract import Channel, SeedPlan, TaskContract
from surefoot.env import OBSERVATION_LIMIT


def as_seen(
    right: np.ndarray, d: Declared, age: np.ndarray, contract: TaskContract, seeds: SeedPlan, steps: int
) -> np.ndarray:
    """Returns [T + 1, O] what is seen of the observations `right` of one episode: at its beginning, then
    after steps that make it `age` [T + 1] old. Offsets, times and losses are drawn by the episode's key."""
    terms = contract.observation
    noise = np.repeat([t.noise * t.scale for t in terms], [t.size for t in terms])
    term = np.repeat(np.arange(len(terms)), [t.size for t in terms])
    sensor, size = noise > 0, len(noise)
    env = d.family * seeds.envs_per_family + d.member
    offset = np.zeros(size)
    if "bias" in d.faults:
        u = seeds.uniforms(env, 0, Channel.BIAS, size).astype(np.float64)
        offset = d.faults["bias"] * noise * (2 * u - 1)
    frozen_from = np.full(size, np.inf)
    if "stuck" in d.faults:
        u = seeds.uniforms(env, 0, Channel.STUCK, 2 * size).astype(np.float64)
        order = np.argsort(np.where(sensor, u[:size], 2.0), kind="stable")[: int(d.faults["stuck"])]
        frozen_from[order] = 1 + np.floor(u[size:][order] * steps)
    late = int(d.faults.get("obs_delay", 0))
    reading = [np.where(sensor, _limited(o + offset), o) for o in right]
    seen = [_limited(right[0] + offset)]
    reading[0] = seen[0]
    wide = -(-len(terms) // 4) * 4
    for t in range(1, len(right)):
        lost = np.zeros(len(terms), bool)
        if "dropout" in d.faults:
            drawn = seeds.uniforms(env, 0, Channel.DROPOUT, wide, int(age[t]) * wide)
            lost = drawn[: len(terms)] < np.float32(d.faults["dropout"])
        held = sensor & (lost[term] | (age[t] >= frozen_from))
        now = np.where(sensor, reading[max(0, t - late)], right[t])
        seen.append(np.where(held, seen[-1], now))
    return np.stack(seen)


def _limited(x: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.clip(x, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
    return out
