"""Central inference: one service acts for all actors, in batches, while each keeps two halves in the air.

A request is the observations of one half with the version of the policy that is to act; so a fragment has one
version throughout. The service waits for others until as many requests of a version are there as lately came
together, `enough` at most, or a deadline has passed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compute import prepare_torch
from surefoot.fleet.on_ray.acting import make_policy, take_weights
from surefoot.fleet.on_ray.placement import Places
from surefoot.learners import Ppo
from surefoot.training import make_plan

DEADLINE_S = 0.002
"""How long a request waits for others at most."""
LATELY = 64
"""Batches in which as many requests come together as will again: no more are waited for, but every so many
batches, for actors may have joined."""


class ServiceLost(Exception):
    """Raised in an actor whose inference service is gone."""


class InferenceService:
    """The policy of every version that an actor may still be at. Runs as a Ray actor whose methods share one
    thread and take turns where they wait."""

    def __init__(self, plan: dict[str, Any], enough: int, device: str = "cpu") -> None:
        prepare_torch()
        self._plan, self._enough, self._device = make_plan(**plan), enough, device
        self._policies: dict[int, Ppo] = {}
        self._waiting: dict[int, list[tuple[Tensor, asyncio.Future[Tensor]]]] = {}
        self._free: list[Ppo] = []
        self._together = deque([enough], maxlen=LATELY)
        """How many requests the last batches had."""
        self._batches = 0
        self._rows: list[int] = []
        self._missed = 0
        self._busy = 0.0

    async def publish(self, version: int, weights: Mapping[str, Tensor], needed: Collection[int]) -> None:
        """Takes a version of the policy in, and forgets those that are not `needed` any more: a slow actor
        may still be at one that is many versions old."""
        for old in [v for v in self._policies if v not in needed]:
            self._free.append(self._policies.pop(old))
        policy = self._free.pop() if self._free else make_policy(self._plan, self._device)
        take_weights(policy, weights)
        self._policies[version] = policy

    async def mean(self, version: int, obs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns mean actions [B, A] for observations [B, O]."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Tensor] = loop.create_future()
        waiting = self._waiting.setdefault(version, [])
        waiting.append((torch.from_numpy(np.array(obs)), future))
        if len(waiting) >= (max(self._together) if self._batches % LATELY else self._enough):
            self._answer(version)
        elif len(waiting) == 1:
            loop.call_later(DEADLINE_S, self._late, version, waiting)
        return (await future).numpy()

    def _late(self, version: int, waiting: list[Any]) -> None:
        if self._waiting.get(version) is waiting:
            self._missed += 1
            self._answer(version)

    @torch.inference_mode()
    def _answer(self, version: int) -> None:
        begun = time.perf_counter()
        requests = self._waiting.pop(version)
        self._together.append(len(requests))
        self._batches += 1
        seen = torch.cat([obs for obs, _ in requests])
        self._rows.append(len(seen))
        try:
            means = self._policies[version].mean(seen.to(self._device)).cpu()
        except Exception as error:  # whoever asked is told, and does not wait for ever
            for _, future in requests:
                future.set_exception(RuntimeError(f"no policy of version {version} could act: {error!r}"))
            return
        for mean, (_, future) in zip(
            torch.split(means, [len(o) for o, _ in requests]), requests, strict=True
        ):
            future.set_result(mean)
        self._busy += time.perf_counter() - begun

    async def take_figures(self) -> dict[str, float | int | None]:
        """Returns batches, their sizes, how often the deadline came first and the seconds that the service
        worked, since last asked."""
        rows, missed, busy = self._rows, self._missed, self._busy
        self._rows, self._missed, self._busy = [], 0, 0.0
        sizes = np.quantile(rows, (0.0, 0.5, 1.0), method="nearest") if rows else (None, None, None)
        return {
            "fleet.inference.batches": len(rows),
            "fleet.inference.rows": sum(rows) / len(rows) if rows else None,
            **{
                f"fleet.inference.rows.{name}": None if size is None else int(size)
                for name, size in zip(("min", "p50", "max"), sizes, strict=True)
            },
            "fleet.inference.deadline_misses": missed,
            "fleet.inference.deadline_share": missed / len(rows) if rows else None,
            "fleet.inference.busy_s": busy,
        }


def begin_service(ray: Any, places: Places, plan: dict[str, Any], enough: int) -> Any:
    """Begins a service that waits for `enough` requests; returns its handle. To ask it twice changes nothing:
    where Ray does not reach it for a moment, it tries again."""
    service = ray.remote(InferenceService).options(max_restarts=0, max_task_retries=3, **places.of_service())
    return service.remote(plan, enough, places.device)


class CentralPolicy:
    """Acts by asking the service for mean actions; exploration is the environments' own."""

    def __init__(self, service: Any, own: Ppo) -> None:
        self._service, self._own = service, own
        self.version = 0
        self._trips: list[float] = []

    @property
    def log_std(self) -> Tensor:
        return self._own.log_std

    def mean(self, obs: Tensor) -> Tensor:
        import ray

        begun = time.perf_counter()
        try:
            answer = ray.get(self._service.mean.remote(self.version, obs.numpy()))
        except ray.exceptions.RayActorError as error:
            raise ServiceLost(str(error).splitlines()[0]) from None
        self._trips.append(time.perf_counter() - begun)
        return torch.from_numpy(np.array(answer))

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        action = mean + self.log_std.exp() * exploration
        return action, mean, self._own.networks.log_prob(mean, action)

    def take_trips(self) -> list[float]:
        """Returns the seconds of each round trip since last asked."""
        trips, self._trips = self._trips, []
        return trips
