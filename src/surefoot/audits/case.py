"""A run as detectors see it: its files, its plan, its policy, and environments to probe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from surefoot.artifacts import read_table
from surefoot.audits.detector import Needs, NotApplicable
from surefoot.contract import SeedPlan
from surefoot.env import TrainingEnv
from surefoot.policy import PolicyBundle
from surefoot.runs import Result, RunFolder, load_result, read_ledger, waited
from surefoot.training import Plan, RobotPlan, load_policy, restore_plan, restore_robot_plan

T = TypeVar("T")
PROBE_ENVS = 256
"""Environments of a probe, at most: all of a small run."""


class Case:
    """What detectors look at. Everything is loaded when it is first asked for, and kept. `seed` is of this
    audit alone: probes draw by it, so that a repetition with another seed is a fresh experiment."""

    def __init__(self, run: RunFolder, seed: int) -> None:
        self.run, self.record, self.seed = run, run.record, seed
        self._envs: dict[int, TrainingEnv] = {}
        self._begun: dict[int, dict[str, np.ndarray]] = {}
        self._once: dict[str, Any] = {}

    def fresh(self, seed: int) -> Case:
        """Returns the same run under other keys."""
        return Case(self.run, seed)

    def why_not(self, needs: tuple[Needs, ...]) -> str:
        """Says what a detector needs that this run does not have; "" where nothing is missing."""
        r = self.record
        missing: dict[Needs, tuple[bool, str]] = {
            "confirmed": (r.confirmation is None, "nothing was confirmed"),
            "robot": (r.training_plant is None, "its environments come from outside"),
            "ppo": (r.learner != "ppo", f"it was trained by {r.learner}, whose loop is its own"),
            "ledger": (not self.ledger, "its ledger is empty"),
            "episodes": (not self.episodes, "no training episode was recorded"),
            "history": (self.broken_off, "not every step of its environments was learned from"),
        }
        return next((missing[n][1] for n in needs if missing[n][0]), "")

    @property
    def broken_off(self) -> bool:
        """Whether environments cannot be followed from the first step to the last: a fleet collected whose
        updates did not wait, or whose actors were replaced."""
        ended = ("fleet.lost", "fleet.dropped")
        return not waited(self.record.collection) or any(r.get(k) for r in self.ledger[-1:] for k in ended)

    # ---- files

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        """Rows of the ledger, one per update."""
        return read_ledger(self.run.ledger.path)[0]

    @cached_property
    def episodes(self) -> dict[str, np.ndarray]:
        """Training episodes as columns; empty where none were recorded."""
        folder = self.run.path / "episodes"
        return read_table(folder) if any(folder.glob("*.parquet")) else {}

    @cached_property
    def result(self) -> Result:
        """The confirmation: `result.table` has the rows of all columns, `result.rows` the nominal ones."""
        return load_result(self.run)

    # ---- what can be run

    @cached_property
    def plan(self) -> Plan:
        """The plan that the run was started with, restored."""
        return restore_plan(self.run)

    @cached_property
    def robot(self) -> RobotPlan:
        """The plan of a run whose robot is known."""
        if self.record.training_plant is None:
            raise NotApplicable("its environments come from outside")
        return restore_robot_plan(self.run)

    @cached_property
    def policy(self) -> PolicyBundle:
        """The confirmed policy; the latest one where nothing was confirmed."""
        name = "confirmed" if self.record.confirmation is not None else "latest"
        return load_policy(self.run, name)[1]

    @property
    def probe_seeds(self) -> SeedPlan:
        """The seed plan of probes: the run's, from a root of this audit's own."""
        return self.plan.seeds.model_copy(update={"root": 2**31 + self.seed})

    def numbers(self, name: str) -> np.random.Generator:
        """Returns random numbers for one detector, by its name and this audit's seed."""
        return np.random.default_rng([self.seed, *name.encode()])

    def environments(self, count: int = PROBE_ENVS) -> TrainingEnv:
        """Returns those of `chosen(count)` as the run was trained in, on the CPU, with keys of this audit's
        own. They are shared by detectors: restore a snapshot before and leave them as you like."""
        if count not in self._envs:
            plan = dataclasses.replace(self.plan, seeds=self.probe_seeds, device="cpu")
            self._envs[count] = plan.environments(self.chosen(count).tolist())
            if self.record.training_plant is not None:
                self._begun[count] = as_numpy(self._envs[count].snapshot())
        return self._envs[count]

    @property
    def root(self) -> int:
        """Root seed of the probe's environments."""
        return self.probe_seeds.root

    def begun(self, count: int = PROBE_ENVS) -> dict[str, np.ndarray]:
        """Returns what a robot's environments were when they had just been made."""
        self.environments(count)
        return self._begun[count]

    def chosen(self, count: int = PROBE_ENVS) -> np.ndarray:
        """Returns which environments of the run are probed, in their order: all where there are no more than
        `count`, otherwise as many whole families as there is room for, by this audit's seed. Of families
        that are larger two are taken, and as many members of each."""
        seeds = self.record.seeds
        if seeds.envs <= count:
            return np.arange(seeds.envs)
        size = seeds.envs_per_family
        families, members = (count // size, size) if 2 * size <= count else (min(2, seeds.families), 0)
        members = members or min(size, count // families)
        g = self.numbers("chosen")
        family = np.sort(g.permutation(seeds.families)[:families])
        member = np.sort(np.stack([g.permutation(size)[:members] for _ in family]), 1)
        return np.asarray((family[:, None] * size + member).ravel())

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Returns what `make` made when `name` was first asked for: several detectors look at it."""
        if name not in self._once:
            self._once[name] = make()
        out: T = self._once[name]
        return out

    def made(self, name: str) -> Any:
        """Returns what was made under `name`; None where nobody has asked for it."""
        return self._once.get(name)

    def close(self) -> None:
        for env in self._envs.values():
            env.close()


def as_numpy(snapshot: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Returns a snapshot of environments as arrays."""
    return {k: v.cpu().numpy() for k, v in snapshot.items()}
