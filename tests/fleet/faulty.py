"""Actors that go wrong, as real processes of a real fleet."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from surefoot.fleet.fragment import HEADER_BYTES, Buffer
from surefoot.fleet.on_ray.actor import FleetActor
from surefoot.fleet.on_ray.trainer import FleetTrainer


class Poisoner(FleetActor):
    """Actor 1 sends, of its first fragments, the second with a changed byte and the third with another
    schema."""

    def collect(self, key: Any, version: int, weights: Any) -> Buffer:
        buffer = super().collect(key, version, weights)
        if (key.actor, key.incarnation) == (1, 0) and key.sequence in (1, 2):
            buffer = np.array(buffer)
            buffer[HEADER_BYTES + 7 if key.sequence == 1 else 30] ^= 1
        return buffer


class Unfinished(FleetActor):
    """Actor 0 computes what is not a number, in each of its first incarnation's fragments."""

    def collect(self, key: Any, version: int, weights: Any) -> Buffer:
        if key.actor == 0 and key.incarnation == 0:
            weights = {k: v * float("nan") for k, v in weights.items()}
        return super().collect(key, version, weights)


class Sluggish(FleetActor):
    """Actor 1 takes half a second longer for every fragment."""

    def collect(self, key: Any, version: int, weights: Any) -> Buffer:
        time.sleep(0.5 if key.actor == 1 else 0.0)
        return super().collect(key, version, weights)


class PoisonedTrainer(FleetTrainer):
    actor = Poisoner


class UnfinishedTrainer(FleetTrainer):
    actor = Unfinished


class SluggishTrainer(FleetTrainer):
    actor = Sluggish
