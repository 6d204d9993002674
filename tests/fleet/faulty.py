"""Actors that go wrong, as real processes of a real fleet."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from surefoot.fleet.fragment import HEADER_BYTES, Buffer
from surefoot.fleet.on_ray.actor import FleetActor
from surefoot.fleet.on_ray.trainer import FleetTrainer


class Poisoner(FleetActor):
    """In actor 0's first incarnation the policy computes what is not a number. Actor 1's second fragment has
    a changed byte on its way, its third another schema."""

    def collect(self, key: Any, version: int, weights: Any) -> Buffer:
        if key.actor == 0 and key.incarnation == 0:
            weights = {k: v * float("nan") for k, v in weights.items()}
        buffer = super().collect(key, version, weights)
        if key.actor == 1 and key.sequence in (1, 2):
            buffer = np.array(buffer)
            buffer[HEADER_BYTES + 7 if key.sequence == 1 else 30] ^= 1
        return buffer


class Sluggish(FleetActor):
    """Actor 1 takes ten times as long for every fragment."""

    def collect(self, key: Any, version: int, weights: Any) -> Buffer:
        begun = time.perf_counter()
        buffer = super().collect(key, version, weights)
        if key.actor == 1:
            time.sleep(9 * (time.perf_counter() - begun))
        return buffer


class PoisonedTrainer(FleetTrainer):
    actor = Poisoner


class SluggishTrainer(FleetTrainer):
    actor = Sluggish
