"""Plans: everything that is fixed before a run, and what can be done with it.

A plan holds the task with its overrides, the panel, the seeds, the engine and what they add up to. It makes
the environments that a run trains in, the evaluators that judge it and the card of its policy. A task of
Surefoot's own (`RobotPlan`) and an environment from outside (`ExternalPlan`) do each of these in their own
way, so callers never ask which of the two they have.
"""

from __future__ import annotations

import dataclasses
import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from surefoot.compiler import Untraceable
from surefoot.compute import memory_bytes
from surefoot.contract import (
    NOMINAL,
    TRAINED,
    Accounting,
    Column,
    Disjointness,
    Half,
    Panel,
    Plant,
    Recipe,
    SeedPanel,
    SeedPlan,
    SurefootError,
    Timeouts,
    columns,
    environment_seeds,
    evaluation_plant,
    load_panel,
    measurement_fields,
)
from surefoot.engines import engine_version
from surefoot.env import TrainingEnv, TrainSampler, VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.external import ExternalEnv, ExternalTask
from surefoot.evaluation import BASELINES as EXTERNAL_BASELINES
from surefoot.evaluation import (
    ExternalEvaluator,
    PanelEvaluator,
    Passes,
    Watch,
    code_digests,
    column_digest,
    engines_for,
    evaluate_panel,
    evaluate_seeds,
    external_baseline,
    unwatched,
)
from surefoot.learners import Symmetry, symmetry
from surefoot.learners.libraries import find_learner
from surefoot.policy import BASELINES, PREFIX, Policy, PolicyCard, baseline, external_card, policy_card
from surefoot.robots import save_skeleton
from surefoot.runs import LibraryRecord
from surefoot.statistics import PanelResult
from surefoot.tasks import BUILT_IN, Task
from surefoot.terrain import Atlas
from surefoot.training.checks import check_disjoint
from surefoot.training.identified import Identified

Evaluator = PanelEvaluator | ExternalEvaluator
PassResults = tuple[PanelResult, list[PanelResult]]
"""A whole table of episodes, and the passes over the panel that it is made of; the first is the headline."""


@dataclass(frozen=True)
class Plan(Identified):
    """A run that has not started. Subclasses say how its environments are made and judged."""

    task: Task | ExternalTask
    task_name: str
    recipe: Recipe
    panel: Panel | SeedPanel
    seeds: SeedPlan
    disjointness: Disjointness
    training_plant: Plant | None
    """None: physics is an outside simulator's."""
    evaluation_plant: Plant | None
    engine: str
    engine_reason: str
    """Why this engine, in a sentence."""
    device: str
    accounting: Accounting
    training_id: str
    learner: str = "ppo"
    timeouts: Timeouts = "stock"
    """How a library treats episodes that run out of time."""
    collection: str = ""
    """How experience is collected where that is another treatment than one process."""

    early_end: ClassVar[str]
    """What a summary calls the share of episodes that did not last."""
    motion_metrics: ClassVar[tuple[tuple[str, str, str], ...]]
    """(label, field of `PanelSummary`, unit) of how well a robot moved, for a summary."""

    def as_json(self) -> dict[str, Any]:
        """Returns the object that `surefoot plan --json` prints."""
        return {
            "task": self.task_name,
            **self.accounting.model_dump(mode="json"),
            "construct_id": self.construct_id,
            "measurement_id": self.measurement_id,
            "interface_id": self.interface_id,
            "training_id": self.training_id,
            "contract_digest": self.task.contract.digest,
            "panel": self.panel.name,
            "panel_digest": self.panel.digest,
            "seed": self.seeds.root,
            "disjoint": self.disjointness.disjoint,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "training_plant": self.training_plant.model_dump(mode="json") if self.training_plant else None,
            "device": self.device,
            "memory_bytes": memory_bytes(),
            "memory": self.recipe.remembers.plan(self.recipe.horizon),
            "learner": self.learner,
            "timeouts": self.timeouts,
            "stratum_names": self.task.contract.strata.labels(),
            "contract": self.task.contract.model_dump(mode="json"),
            "recipe": self.recipe.model_dump(mode="json"),
        }

    def panel_notes(self) -> list[str]:
        """Returns what a person should know about the panel that this plan is judged on."""
        return []

    def library_record(self) -> LibraryRecord | None:
        """Returns what is known of the learner's library before it trains; None for Surefoot's own PPO. Its
        worker adds the settings."""
        library = find_learner(self.learner)
        if library is None:
            return None
        return LibraryRecord(
            name=library.name,
            version=library.version,
            timeouts=self.timeouts,
            stock_timeouts=library.timeouts,
        )

    def seed_set(self) -> dict[str, str]:
        """Returns the first key of every seed family, in hexadecimal, as run.json states it."""
        first_of_family = range(0, self.recipe.envs, self.accounting.envs_per_seed_family)
        return {str(f): f"{key:016x}" for f, key in enumerate(self.first_keys(first_of_family))}

    # ---- training

    @property
    @abstractmethod
    def compiles(self) -> bool:
        """Whether kernels are compiled for a robot and plant that are new to this machine."""

    @abstractmethod
    def environments(self, part: Sequence[int], begun: int = 0) -> TrainingEnv:
        """Makes the environments `part` of the recipe's, in this order, as they are trained in. `begun`: how
        often they have begun before and were lost; no episode of then is drawn again."""

    @abstractmethod
    def mirror(self, device: torch.device) -> Symmetry | None:
        """Returns the left-right reflection of observations and actions; None where nothing tells it."""

    @abstractmethod
    def first_keys(self, envs: Sequence[int]) -> list[int]:
        """Returns what the first episodes of environments `envs` are drawn from."""

    @abstractmethod
    def simulator_versions(self) -> dict[str, str]:
        """Returns the versions of a simulator from outside, by package; those of Surefoot's own engines are
        among the versions of every run."""

    @abstractmethod
    def save_robot(self, folder: Path) -> None:
        """Keeps in a new run's folder what its episodes are drawn with; nothing where no robot is known."""

    @abstractmethod
    def policy_card(self) -> PolicyCard:
        """Returns how a policy of this plan is wired to its robot or simulator."""

    # ---- evaluation

    @abstractmethod
    def selection_evaluator(self) -> Evaluator:
        """Lays out the selection half, on which a run is scored while it learns."""

    @abstractmethod
    def columns(self, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
        """Returns the perturbation columns called `perturb`; unknown ones are refused."""

    @abstractmethod
    def judged_on(self, panel: str | None, engine: str, scenarios: int | None = None) -> Plan:
        """Returns the plan to evaluate with: on the panel called `panel` (None: its own), with `scenarios` to
        confirm on (None: as many as it has). An `engine` that cannot run it is refused."""

    @abstractmethod
    def baseline(self, name: str) -> Policy:
        """Returns the untrained policy called `name` (with or without `baseline:`)."""

    @abstractmethod
    def evaluate(
        self,
        policy: Policy,
        half: Half,
        columns: tuple[Column, ...] = (),
        *,
        engine: str = "auto",
        baselines: bool = True,
        name: str = TRAINED,
        watch: Watch = unwatched,
        first: PanelResult | None = None,
    ) -> PassResults:
        """Runs `policy` over a half of the panel: nominally, under `columns`, and beside the baselines.
        Rows call it `name`; `watch` is told how far it is. `first` is the headline where it was played
        before."""


@dataclass(frozen=True)
class RobotPlan(Plan):
    """A run on a task of Surefoot's own, whose robot and physics are known."""

    task: Task
    panel: Panel
    training_plant: Plant
    evaluation_plant: Plant

    early_end = "fall rate"
    motion_metrics = (
        ("velocity error", "velocity_error_mps", "m/s"),
        ("yaw-rate error", "yaw_error_radps", "rad/s"),
        ("energy", "cost_of_transport", "cost of transport"),
        ("foot slip", "foot_slip_per_m", "m per metre"),
        ("foot clearance", "foot_clearance_m", "m"),
        ("vibration", "vibration_radps", "rad/s"),
    )

    def atlas(self) -> Atlas | None:
        """Builds the terrain of the task; None for a flat floor."""
        return Atlas.build(self.task.tiles) if self.task.tiles else None

    @property
    def compiles(self) -> bool:
        return self.engine != "mujoco"

    def environments(self, part: Sequence[int], begun: int = 0) -> VecEnv | CompiledEnv:
        """Compiled where they can be: on stride, with functions that can be traced, and a rollout shorter
        than an episode."""
        task, atlas, device = self.task, self.atlas(), torch.device(self.device)
        hz = self.recipe.control_hz
        sampler = TrainSampler(task.contract, task.robot, self.seeds, hz, atlas, device, part)
        env = VecEnv(task, sampler, self.training_plant, engine=self.engine, atlas=atlas, device=self.device)
        if begun:
            env.begin_anew(begun)
        if self.engine != "stride" or self.recipe.horizon >= sampler.episode_steps:
            return env
        try:
            return CompiledEnv(env)
        except Untraceable as reason:
            if part[0] == 0:  # one process says so, not all
                print(f"Environments run uncompiled, and so more slowly. {reason}", file=sys.stderr)
            return env

    def mirror(self, device: torch.device) -> Symmetry | None:
        return symmetry(self.task.contract, self.task.robot, self.task.scan, device)

    def first_keys(self, envs: Sequence[int]) -> list[int]:
        keys: list[int] = self.seeds.episode_key(list(envs), 0).tolist()
        return keys

    def simulator_versions(self) -> dict[str, str]:
        return {}

    def save_robot(self, folder: Path) -> None:
        save_skeleton(self.task.robot, folder)

    def policy_card(self, observation_clip: float | None = None) -> PolicyCard:
        """Returns the card of the robot. `observation_clip`: where a library clips what it normalised."""
        task, r = self.task, self.recipe
        return policy_card(
            task.contract, task.robot, r.control_hz, r.hidden, r.normalise, observation_clip, r.memory
        )

    def engine_version(self, engine: str) -> str:
        return engine_version(engine, self.evaluation_plant.heightfield is not None)

    def column_digest(self, column: Column) -> str:
        return column_digest(self.panel, column)

    def selection_evaluator(self) -> PanelEvaluator:
        """Measures on the evaluation plant, but on stride where training is: choosing may be fast, confirming
        is not."""
        engine, device = ("stride", self.device) if self.engine == "stride" else ("mujoco", "cpu")
        hz = self.recipe.control_hz
        return PanelEvaluator(self.task, self.panel, "selection", hz, engine=engine, device=device)

    def columns(self, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
        return columns(self.panel, perturb, sweep)

    def on_panel(self, panel: Panel) -> RobotPlan:
        """Returns the same run judged on another panel, which must be held out from it too; another
        construct."""
        check_disjoint(self.seeds, panel)
        plant = evaluation_plant(self.recipe.control_hz, self.task.on_heightfield(panel))
        code = code_digests(self.task, panel, plant)
        measured = measurement_fields(self.task.contract, panel.name, panel.digest, plant, code)
        return dataclasses.replace(self, panel=panel, evaluation_plant=plant, measurement=measured)

    def judged_on(self, panel: str | None, engine: str, scenarios: int | None = None) -> RobotPlan:
        plan = self if panel is None else self.on_panel(load_panel(panel))
        if scenarios is not None and plan.panel.with_scenarios(scenarios) is not plan.panel:
            plan = plan.on_panel(plan.panel.with_scenarios(scenarios))
        engines_for(engine, plan.task, plan.panel, plan.recipe.control_hz)
        return plan

    def panel_notes(self) -> list[str]:
        name = self.panel.name.partition("+")[0]
        own, kind = self.task.contract, name.rpartition("-v")[0]  # of any version
        made = (make().contract for make in BUILT_IN.values())
        theirs = [c for c in made if c.panel.rpartition("-v")[0] == kind]
        if not theirs or own.panel == name or own.robot in {c.robot for c in theirs}:
            return []
        return [
            f"{name} is the panel of {theirs[0].name}, for robot {theirs[0].robot}; this run's robot is "
            f"{own.robot}. Its commands, payloads and pushes are meant for the other one."
        ]

    def baseline(self, name: str) -> Policy:
        task = self.task
        return baseline(name, task.contract, task.robot, self.recipe.control_hz, self.panel.seeds)

    def evaluate(
        self,
        policy: Policy,
        half: Half,
        columns: tuple[Column, ...] = (),
        *,
        engine: str = "auto",
        baselines: bool = True,
        name: str = TRAINED,
        watch: Watch = unwatched,
        first: PanelResult | None = None,
    ) -> PassResults:
        return evaluate_panel(
            self.task,
            self.panel,
            half,
            self.recipe.control_hz,
            policy,
            Passes(engine, columns, BASELINES if baselines else (), first),
            name=name,
            watch=watch,
        )


@dataclass(frozen=True)
class ExternalPlan(Plan):
    """A run on an environment from outside: its own simulator, a panel of held-out seeds, no
    perturbations."""

    task: ExternalTask
    panel: SeedPanel

    early_end = "ended early"
    motion_metrics = ()
    compiles = False

    def environments(self, part: Sequence[int], begun: int = 0) -> ExternalEnv:
        return ExternalEnv(self.task, self.seeds, part, self.device, begun=begun)

    def mirror(self, device: torch.device) -> None:
        return None

    def first_keys(self, envs: Sequence[int]) -> list[int]:
        """Returns the seeds that the simulator is given."""
        return environment_seeds(self.seeds, envs)

    def simulator_versions(self) -> dict[str, str]:
        return self.task.contract.versions

    def save_robot(self, folder: Path) -> None:
        return None

    def policy_card(self) -> PolicyCard:
        r = self.recipe
        return external_card(self.task.contract, r.control_hz, r.hidden, r.normalise, r.memory)

    def engine_version(self, engine: str) -> str:
        """The environment's versions are in its contract."""
        return ""

    def column_digest(self, column: Column) -> str:
        return ""

    def selection_evaluator(self) -> ExternalEvaluator:
        return ExternalEvaluator(self.task, self.panel, "selection", self.device)

    def columns(self, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
        """Nothing outside can be perturbed: `all` is nothing there."""
        named = [p for p in perturb if p not in ("all", "none", NOMINAL)]
        if named or sweep:
            raise SurefootError(
                f"{self.task_name} comes from outside and cannot be perturbed; leave out "
                f"{'--perturb ' + ' '.join(named) if named else '--sweep'}."
            )
        return ()

    def judged_on(self, panel: str | None, engine: str, scenarios: int | None = None) -> ExternalPlan:
        if panel is not None or scenarios is not None or engine not in ("auto", self.engine):
            raise SurefootError(
                f"{self.task_name} comes from outside and has one panel of seeds and its own simulator; "
                "leave out --panel and --engine, and --scenarios."
            )
        return self

    def baseline(self, name: str) -> Policy:
        return external_baseline(name.removeprefix(PREFIX), self.task, self.panel)

    def evaluate(
        self,
        policy: Policy,
        half: Half,
        columns: tuple[Column, ...] = (),
        *,
        engine: str = "auto",
        baselines: bool = True,
        name: str = TRAINED,
        watch: Watch = unwatched,
        first: PanelResult | None = None,
    ) -> PassResults:
        return evaluate_seeds(
            self.task,
            self.panel,
            half,
            policy,
            baselines=EXTERNAL_BASELINES if baselines else (),
            name=name,
            device=self.device,
            watch=watch,
        )
