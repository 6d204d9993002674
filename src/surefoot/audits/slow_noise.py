"""What sensors add to the truth, once more in numpy: noise by its key, and faults as they were drawn."""

from __future__ import annotations

import numpy as np

from surefoot.audits.slow_observations import LIMIT
from surefoot.audits.slow_philox import CHANNELS, philox, uniforms
from surefoot.contract import ObservationTerm, SeedPlan

Key = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Family, member and episode [N]: what draws within an episode are addressed by."""


def by_step(plan: SeedPlan, key: Key, channel: str, size: int, step: np.ndarray) -> np.ndarray:
    """Returns uniforms [N, size] of steps [N] of episodes: each step has whole blocks of four to itself."""
    blocks = -(-size // 4)
    family, member, episode = (np.broadcast_to(x, step.shape)[:, None] for x in key)
    block = step[:, None] * blocks + np.arange(blocks)
    address = (block, CHANNELS[channel] + 65536 * int(plan.split_number), member, episode)
    drawn = philox((plan.root, family), address).reshape(len(step), -1)[:, :size]
    return np.asarray((drawn >> np.uint64(8)).astype(np.float64) / 2**24)


def noise(plan: SeedPlan, key: Key, size: int, step: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Returns the noise [N, size] of observations in steps [N] of episodes, in half-widths; `strength` [N]
    multiplies."""
    u = by_step(plan, key, "observation noise", size, step)
    return np.asarray((2 * u - 1) * np.asarray(strength, np.float64)[:, None])


class SlowFaults:
    """What is wrong with the sensors of one episode: lost readings, offsets, signals that stick, delays."""

    def __init__(
        self,
        terms: tuple[ObservationTerm, ...],
        plan: SeedPlan,
        key: tuple[int, int, int],
        strength: dict[str, float],
        episode_steps: int,
    ) -> None:
        self.terms, self.strength = terms, strength
        self.plan, self.key = plan, (np.asarray(key[0]), np.asarray(key[1]), np.asarray(key[2]))
        address = (plan.root, int(plan.split_number), *key)
        sizes = [t.size for t in terms]
        self.term = np.repeat(np.arange(len(terms)), sizes)
        self.sensor = np.repeat([t.noise > 0 for t in terms], sizes)
        width = np.repeat([t.noise * t.scale for t in terms], sizes)
        size = len(self.term)
        u = uniforms(*address, "bias", size)[0]
        self.offset = strength["sensor_bias"] * width * (2 * u - 1)
        u = uniforms(*address, "stuck", 2 * size)[0]
        chosen = np.argsort(np.where(self.sensor, u[:size], 2.0), kind="stable")
        self.stuck_from = np.full(size, np.inf)
        for k in chosen[: round(strength["stuck_signals"])]:
            self.stuck_from[k] = 1 + np.floor(u[size + k] * episode_steps)

    def see(self, readings: np.ndarray) -> np.ndarray:
        """Returns what is seen [T, O] of the readings [T, O] of an episode's steps."""
        steps = len(readings)
        whole = np.clip(readings + self.offset, -LIMIT, LIMIT)
        late = np.maximum(np.arange(steps) - round(self.strength["sensor_delay_steps"]), 0)
        shown = np.where(self.sensor, whole[late], readings)
        u = by_step(self.plan, self.key, "dropout", len(self.terms), np.arange(steps))
        lost = (u < self.strength["dropout"])[:, self.term] & self.sensor
        for t in range(1, steps):
            held = lost[t] | (t >= self.stuck_from)
            shown[t] = np.where(held, shown[t - 1], shown[t])
        return shown
