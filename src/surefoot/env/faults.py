"""What can be wrong with sensors: readings that are lost, an offset, a signal that sticks, readings that come
late. All of it follows from an episode's key, and acts between the noisy observation and the policy.

Sensors are the terms of an observation that have noise; commands, actions and the clock never leave the
controller and are always right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.contract import Channel, ObservationTerm
from surefoot.engines import Rows
from surefoot.keyed import Keyed

FAULT_NAMES = {
    "dropout": "dropout",
    "bias": "sensor_bias",
    "stuck": "stuck_signals",
    "delay": "sensor_delay_steps",
}
"""Field of `Faults` -> its name in a trace."""


@dataclass
class Faults(Rows):
    """What is wrong with the sensors of N environments; zeros: nothing."""

    dropout: Tensor  # [N] chance that a sensor's reading is lost in a step; the one before is seen again
    bias: Tensor  # [N] constant offsets reach so many half-widths of a sensor's noise, to either side
    stuck: Tensor  # [N] int64 signals (numbers of sensors) that freeze, each at a time of its own
    delay: Tensor  # [N] int64 control steps by which readings come late

    @classmethod
    def alike(cls, count: int, **strength: float) -> Faults | None:
        """Returns the same for all `count` environments; None where nothing is wrong."""
        if not any(strength.values()):
            return None
        whole = {"stuck": torch.int64, "delay": torch.int64}
        return cls(
            **{
                name: torch.full((count,), strength.get(name, 0.0)).to(whole.get(name, torch.float32))
                for name in FAULT_NAMES
            }
        )


class FaultySensors:
    """Remembers what faulty sensors need: offsets and times of the episodes, and the last readings."""

    def __init__(
        self, faults: Faults, terms: tuple[ObservationTerm, ...], limit: float, episode_steps: int
    ) -> None:
        self.faults, self._limit, self._steps = faults, limit, episode_steps
        device = faults.bias.device
        sizes = torch.tensor([t.size for t in terms])
        index = torch.tensor([k if t.noise > 0 else len(terms) for k, t in enumerate(terms)])
        self._term = index.repeat_interleave(sizes).to(device)  # [O]; len(terms) where there is no sensor
        self._terms = len(terms)
        self._sensor = self._term < len(terms)  # [O]
        width = torch.tensor([t.noise * t.scale for t in terms])
        self._width = width.repeat_interleave(sizes).to(device)
        n, size = len(faults.bias), len(self._term)
        self._offset = torch.zeros(n, size, device=device)
        self._frozen_from = torch.zeros(n, size, dtype=torch.int64, device=device)
        depth = 1 + int(faults.delay.max())
        self._readings = torch.zeros(depth, n, size, device=device)  # the latest first

    def begin(self, keyed: Keyed, key: tuple[Tensor, Tensor, Tensor], obs: Tensor, rows: Tensor) -> Tensor:
        """Begins the episodes `key` (family, member, episode) in environments `rows`; returns their first
        observation as it is seen."""
        f, size = self.faults.take(rows), len(self._term)
        u = keyed.uniforms(*key, Channel.BIAS, size)
        self._offset[rows] = f.bias[:, None] * self._width * (2 * u - 1)
        u = keyed.uniforms(*key, Channel.STUCK, 2 * size)
        chance = torch.where(self._sensor, u[:, :size], 2.0)
        rank = chance.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
        when = 1 + (u[:, size:] * self._steps).long()
        never = torch.full_like(when, torch.iinfo(torch.int64).max)
        self._frozen_from[rows] = torch.where(rank < f.stuck[:, None], when, never)
        first = (obs + self._offset[rows]).clamp(-self._limit, self._limit)
        self._readings[:, rows] = first
        return first

    def see(
        self, keyed: Keyed, key: tuple[Tensor, Tensor, Tensor], age: Tensor, obs: Tensor, last: Tensor
    ) -> Tensor:
        """Returns [N, O] what is seen of the observation `obs` in step `age`, where `last` was seen before
        it."""
        f, wide = self.faults, -(-self._terms // 4) * 4
        reading = torch.where(self._sensor, (obs + self._offset).clamp(-self._limit, self._limit), obs)
        self._readings[1:] = self._readings[:-1].clone()
        self._readings[0] = reading
        late = self._readings.gather(0, f.delay[None, :, None].expand(1, *obs.shape))[0]
        u = keyed.uniforms(*key, Channel.DROPOUT, wide, age * wide)
        lost = u[:, : self._terms] < f.dropout[:, None]
        lost = torch.cat([lost, torch.zeros_like(lost[:, :1])], 1)[:, self._term]
        held = lost | (age[:, None] >= self._frozen_from)
        return torch.where(held, last, torch.where(self._sensor, late, obs))
