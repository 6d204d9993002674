"""An actor: a process with environments of its own that makes a fragment whenever it is asked for one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import surefoot
from surefoot.compute import ONE_CORE, prepare_torch
from surefoot.contract import ExternalContract, SurefootError
from surefoot.env import EpisodeStats, Finals, TrainingEnv, join_snapshots, part_of_snapshot
from surefoot.env.compiled import CompiledEnv
from surefoot.fleet.books import Diary
from surefoot.fleet.codecs import PLAIN, codec_of
from surefoot.fleet.fragment import Arrays, Buffer, Key, Schema, digest_of, pack
from surefoot.fleet.on_ray.acting import TiledPolicy, make_policy, take_weights
from surefoot.fleet.on_ray.inference import CentralPolicy
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.training import Plan, make_plan

BLOCK_FIELDS = ("action", "log_prob", "reward", "terminated", "truncated", "reason", "stratum")


@dataclass(frozen=True)
class Order:
    """What an actor is told once."""

    plan: dict[str, Any]
    """What its plan is made from, as `order_of` says."""
    contract_digest: str
    version: str
    """Surefoot's, at the learner."""
    run: bytes
    """Sixteen bytes that name the run."""
    diaries: str
    """Folder of the actors' own records."""
    codec: str = PLAIN
    tiled: bool = True
    """Whether policies act to the bit as in one process; updates that do not wait have no use for that."""


def order_of(plan: Plan, run: bytes, diaries: Path, codec: str = PLAIN, tiled: bool = True) -> Order:
    """Returns what the actors of a plan are told."""
    contract = plan.task.contract
    external = isinstance(contract, ExternalContract)
    made_from = {
        "task": plan.task_name,
        "overrides": plan.recipe.model_dump(),
        "seed": plan.seeds.root,
        "engine": plan.engine,
        "device": "cpu",
        "restored": True,
        "success_return": contract.success.return_at_least
        if isinstance(contract, ExternalContract)
        else None,
    }
    if external:
        del made_from["engine"]
    return Order(made_from, contract.digest, surefoot.__version__, run, str(diaries.resolve()), codec, tiled)


def check_version(order: Order) -> None:
    """Refuses a node that has another Surefoot than the learner."""
    if order.version != surefoot.__version__:
        raise SurefootError(
            f"The learner runs Surefoot {order.version} and a node of its fleet {surefoot.__version__}; "
            "install the same on both."
        )


@dataclass(frozen=True)
class Description:
    """What the learner's side must know of an actor's environments."""

    reasons: tuple[str, ...]
    reward_names: tuple[str, ...]
    episode_steps: int
    finals_of_all: bool
    """Whether finals have a row for every environment, as compiled ones have."""
    schema: Schema
    pid: int


class Half:
    """Environments that are in the air together, with who acts for them."""

    def __init__(self, plan: Plan, part: range, begun: int, policy: TiledPolicy | CentralPolicy) -> None:
        self.env: TrainingEnv = plan.environments(part, begun)
        self.policy = policy
        c = plan.task.contract
        self.shared = c.observation_size if isinstance(c, ExternalContract) else 0
        """Columns of a critic observation that are the observation: they are not sent twice."""
        self.content = 0 if self.shared else self.env.content().shape[1]
        """Columns of what tells episodes apart, which outside is what was seen last."""
        self.block = RolloutBlock.empty(
            plan.recipe.horizon, len(part), c.observation_size, c.critic_size, c.action.size, len(c.rewards)
        )

    @torch.inference_mode()
    def rollout(self) -> tuple[dict[str, Any], EpisodeStats]:
        """Takes T steps; returns the arrays of a fragment, and the episodes that ended."""
        age, before = self.env.age(), self.env.seconds + self.env.physics_seconds
        inference, finals = self.env.rollout(self.policy, self.block)
        stats = self.env.episode_stats(self.env.stats_tensors())
        b, kept = self.block, finals.step >= 0
        arrays: dict[str, Any] = {k: getattr(b, k) for k in BLOCK_FIELDS}
        arrays |= {
            "obs": torch.cat([b.obs, self.env.obs[None]]),
            "critic": torch.cat([b.critic, self.env.critic[None]])[..., self.shared :],
            "finals": Finals(*(x[kept] for x in finals)),
            "terms": b.terms.sum((0, 1), dtype=torch.float64),
            "age": age,
            "content": self.env.content()[:, : self.content].float(),
            "seconds": np.array([self.env.seconds + self.env.physics_seconds - before, inference]),
        }
        return arrays, stats


class FleetActor:
    """Environments `part` of a run's, and the policy that acts in them. Runs as a Ray actor; nothing in it
    asks for Ray but central inference."""

    def __init__(
        self, order: Order, part: range, number: int, incarnation: int, begun: int, service: Any = None
    ) -> None:
        os.environ[ONE_CORE] = "1"
        prepare_torch()
        plan = make_plan(**order.plan)
        if plan.task.contract.digest != order.contract_digest:
            raise SurefootError(
                f"The contract of {plan.task_name} is another on a node of the fleet than at its learner; "
                "install the same versions on both."
            )
        self.plan, self.order, self.part = plan, order, part
        self.diary = Diary(Path(order.diaries), number, incarnation)
        self._ppo = make_policy(plan)
        self.halves = halves_of(plan, part, begun, self._ppo, service, order.tiled)
        self._fresh = True
        """Whether the environments have begun, and no fragment says so yet."""
        self._threads = threads_for(self.halves)

    def describe(self) -> Description:
        env, c = self.halves[0].env, self.plan.task.contract
        codec_of(self.order.codec).store("obs", env.obs.numpy())  # refused now, and not after a fragment
        sizes = {
            "observation": c.observation_size,
            "critic": c.critic_size,
            "shared": self.halves[0].shared,
            "action": c.action.size,
            "rewards": len(c.rewards),
            "strata": c.strata.count,
            "content": self.halves[0].content,
        }
        return Description(
            tuple(env.reasons),
            tuple(env.reward_names),
            env.episode_steps,
            isinstance(env, CompiledEnv),
            Schema.of(c.digest, sizes),
            os.getpid(),
        )

    def collect(self, key: Key, version: int, weights: Mapping[str, Tensor]) -> Buffer:
        """Makes the fragment of a ticket, with the policy of `version`."""
        begun = time.time()
        take_weights(self._ppo, weights)
        for half in self.halves:
            half.policy.version = version
        made = list(self._threads.map(Half.rollout, self.halves))
        arrays, extras = _joined([a for a, _ in made], [s for _, s in made])
        trips = [t for half in self.halves for t in half.policy.take_trips()]
        extras |= {"clock": np.array([begun, time.time()]), "trips": np.array(trips)}
        extras["begun"] = np.array([len(self.part) if self._fresh else 0])
        self._fresh = False
        if not hasattr(self, "_schema"):
            self._schema = self.describe().schema
        buffer = pack(self._schema, self.order.run, key, version, arrays, extras, self.order.codec)
        self.diary.write(key, digest_of(buffer))
        return buffer

    def snapshot(self) -> dict[str, Tensor]:
        """Returns all that the environments' future depends on."""
        return join_snapshots([half.env.snapshot() for half in self.halves])

    def restore(self, snapshot: Mapping[str, Tensor]) -> bool:
        """Goes on from a snapshot; returns whether that can be done."""
        at = 0
        for half in self.halves:
            part = range(at, at + half.env.num_envs)
            try:
                half.env.restore(part_of_snapshot(snapshot, part))
            except SurefootError:
                return False
            at = part.stop
        self._fresh = False
        return True

    def close(self) -> None:
        """Ends the threads, and what the environments have of their own."""
        self._threads.shutdown()
        for half in self.halves:
            half.env.close()


def halves_of(
    plan: Plan, part: range, begun: int, policy: Ppo, service: Any, tiled: bool = True
) -> list[Half]:
    """Returns an actor's environments: in one where its own policy acts, in two where a service does."""
    if service is None:
        return [Half(plan, part, begun, TiledPolicy(policy, part, plan.recipe.envs, tiled))]
    return [Half(plan, p, begun, CentralPolicy(service, policy)) for p in _halved(plan, part)]


def threads_for(halves: list[Half]) -> ThreadPoolExecutor:
    """Returns a thread for each of them."""
    return ThreadPoolExecutor(len(halves), initializer=torch.set_flush_denormal, initargs=(True,))


def _halved(plan: Plan, part: range) -> list[range]:
    """Splits an actor's environments in two of whole families, where it has two."""
    family = plan.accounting.envs_per_seed_family
    middle = part.start + len(part) // family // 2 * family
    return [p for p in (range(part.start, middle), range(middle, part.stop)) if len(p)]


def _joined(parts: list[dict[str, Any]], stats: list[EpisodeStats]) -> tuple[dict[str, Any], Arrays]:
    """Joins what happened in the halves of an actor, as one fragment's arrays and what has no fixed size."""
    out: dict[str, Any] = {}
    for name in (*BLOCK_FIELDS, "obs", "critic"):
        out[name] = torch.cat([p[name] for p in parts], 1).numpy()
    for name in ("age", "content"):
        out[name] = torch.cat([p[name] for p in parts]).numpy()
    starts = np.cumsum([0, *(p["reward"].shape[1] for p in parts)])
    finals = [p["finals"] for p in parts]
    out["final_step"] = torch.cat([f.step for f in finals]).numpy()
    out["final_env"] = np.concatenate([f.env.numpy() + s for f, s in zip(finals, starts, strict=False)])
    out["final_critic"] = torch.cat([f.critic for f in finals]).numpy()
    out["terms"] = sum(p["terms"] for p in parts).numpy()
    out["resets"] = np.sum([s.resets for s in stats], 0)
    extras: Arrays = {"seconds": np.sum([p["seconds"] for p in parts], 0)}
    ended, at = [], []
    for part, stat, start in zip(parts, stats, starts, strict=False):
        where = (part["terminated"] | part["truncated"]).nonzero().numpy()
        at.append(where + np.array([0, start]))
        ended += stat.ended
    extras["ended_at"] = np.concatenate(at)
    if ended:
        extras |= {f"ended.{k}": np.concatenate([e[k] for e in ended]) for k in ended[0]}
    for k, failure in enumerate(f for s in stats for f in s.failures):
        extras |= {f"failure.{k}.{name}": column for name, column in failure.items()}
    for stat in stats:
        for name, count in stat.terrain_occupancy.items():
            extras[f"terrain.{name}"] = extras.get(f"terrain.{name}", 0) + count
    return out, extras
