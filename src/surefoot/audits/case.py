"""A run as detectors see it: its files, its plan, its policy, and environments to probe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from surefoot.artifacts import load_npz, read_table
from surefoot.audits import forms
from surefoot.audits.detector import Misshapen, Needs, NotApplicable
from surefoot.contract import SeedPlan
from surefoot.env import TrainingEnv
from surefoot.policy import PolicyBundle
from surefoot.runs import Result, RunFolder, load_result, read_ledger, section, waited
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
            "ledger": (not self.rows, "its ledger is empty"),
            "episodes": (not any(self._episode_files), "no training episode was recorded"),
            "history": (self.broken_off, "not every step of its environments was learned from"),
        }
        return next((missing[n][1] for n in needs if missing[n][0]), "")

    @property
    def broken_off(self) -> bool:
        """Whether environments cannot be followed from the first step to the last: a fleet collected whose
        updates did not wait, or whose actors were replaced."""
        ended = ("fleet.lost", "fleet.dropped")
        return not waited(self.record.collection) or any(r.get(k) for r in self.rows[-1:] for k in ended)

    # ---- files

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the ledger as they stand there, whatever their form."""
        return read_ledger(self.run.ledger.path)[0]

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        """Rows of the ledger, one per update."""
        for fault in self.ledger_faults():
            raise Misshapen(f"{fault}.", "bookkeeping")
        return self.rows

    @property
    def old(self) -> bool:
        """Whether it is of before there were two ids: files of then may lack what came later."""
        return not self.record.measurement_id

    def ledger_faults(self) -> Iterator[str]:
        """Says in what rows of the ledger are misshapen."""
        r = self.record
        if self.old:
            return iter(())
        rewards = [t.name for t in getattr(r.contract, "rewards", ())] if r.training_plant else []
        return forms.ledger_faults(self.rows, rewards, len(r.strata), r.seeds.families)

    @property
    def _episode_files(self) -> list[Path]:
        return sorted((self.run.path / "episodes").glob("*.parquet"))

    @cached_property
    def recorded(self) -> dict[str, np.ndarray]:
        """Training episodes as they are recorded, whatever their form; empty where none were."""
        return read_table(self.run.path / "episodes") if self._episode_files else {}

    @cached_property
    def episodes(self) -> dict[str, np.ndarray]:
        """Training episodes as columns; empty where none were recorded."""
        if self.recorded and not self.old:
            forms.hold("The table of training episodes", self.recorded, self.episodes_form, "bookkeeping")
        return self.recorded

    @property
    def episodes_form(self) -> forms.Forms:
        """What columns training episodes have."""
        return forms.episodes_form(self.record.contract, robot=self.record.training_plant is not None)

    @cached_property
    def result(self) -> Result:
        """The confirmation: `result.table` has the rows of all columns, `result.rows` the nominal ones."""
        result = load_result(self.run)
        if not self.old:
            form = forms.rows_form(self.record.contract, robot=self.record.training_plant is not None)
            forms.hold("The table of held-out episodes", result.table, form, "metric")
        return result

    def trace(self, path: Path) -> dict[str, np.ndarray]:
        """Returns a kept episode of a panel, read once for all who ask: nobody writes into it."""
        return self.once(f"trace {path}", lambda: self._trace(path))

    def _trace(self, path: Path) -> dict[str, np.ndarray]:
        trace, task = load_npz(path), self.robot.task
        about, steps = forms.about_form(task.robot), forms.trace_form(task.contract, task.robot)
        if not self.old:
            forms.hold(f"The trace {path.name}", trace, about, "bookkeeping", lead=0)
            forms.hold(f"The trace {path.name}", trace, steps, "bookkeeping")
        return trace

    def tensors(self, name: str, part: str) -> dict[str, torch.Tensor]:
        """Returns a part of a checkpoint, `learner`, `policy` or `env`; empty where it has none. Of a learner
        or of environments that are not Surefoot's own the form is not known."""
        out, r = section(part, self.run.load_checkpoint(name).tensors), self.record
        own, what = r.learner == "ppo", f"The {part} of checkpoint '{name}'"
        if part == "learner" and own and "scalars" in out:
            moved = forms.moments_form(r.contract, r.recipe) if "adam.step" in out else {}
            forms.hold(what, out, forms.learner_form(r.contract, r.recipe) | moved, "learning", lead=0)
        elif part == "policy" and own and "mean" in out:
            forms.hold(
                what,
                out,
                forms.policy_form(r.contract, r.recipe.hidden, r.recipe.remembers),
                "held-out",
                lead=0,
            )
        elif part == "env" and any(k.startswith("script.") for k in out):
            self.hold_environments(what, out)
        return out

    def hold_environments(self, what: str, snapshot: Mapping[str, Any]) -> None:
        """Raises as a finding where training environments hold something of another form than declared."""
        plan = self.robot
        form = forms.snapshot_form(plan.task.contract, plan.task.robot, plan.recipe.control_hz)
        forms.hold_parts(what, snapshot, form)

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
        policy = load_policy(self.run, name)[1]
        form = forms.policy_form(self.record.contract, policy.card.hidden, policy.card.remembers)
        forms.hold("The policy", policy.tensors, form, "held-out", lead=0)
        return policy

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
            env = plan.environments(self.chosen(count).tolist())
            self._envs[count] = env
            if self.record.training_plant is not None:
                self._begun[count] = as_numpy(env.snapshot())
        if count in self._begun:
            self.hold_environments("What environments hold", self._begun[count])
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
