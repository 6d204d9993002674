"""The panel evaluator: all scenarios of a half in one batch, deterministic actions, metrics per episode from
one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from surefoot.contract import (
    PERTURBATIONS,
    REFERENCE,
    TRAINED,
    Column,
    Half,
    Panel,
    Plant,
    Scenario,
    SurefootError,
    applies,
    dropout_of,
    evaluation_plant,
    perturb_all,
)
from surefoot.env import PanelSampler, VecEnv
from surefoot.evaluation.episodes import RawEpisodes, run_episodes
from surefoot.evaluation.kept_traces import traces_to_keep
from surefoot.evaluation.progress import PassCounter, Watch, unwatched
from surefoot.evaluation.runner import EpisodeRunner, runner_for
from surefoot.policy import Policy, PolicyBundle
from surefoot.statistics import PanelResult, stratum_names, watched
from surefoot.tasks import Task
from surefoot.terrain import Atlas, TileId


@dataclass(frozen=True)
class PendingResult:
    """Holds the success of a pass that is over, and a function that makes its full result: on any thread, at
    any later time."""

    success: float
    result: Callable[[], PanelResult]


class PanelEvaluator:
    """A panel (or a half of it) laid out as environments on the evaluation plant; `run` may be called many
    times, for any column.

    `only` lays out some scenarios (numbers within the half) and leaves everything else as it is with all of
    them: the atlas, and the places in the batch that inference is padded to.
    """

    def __init__(
        self,
        task: Task,
        panel: Panel,
        half: Half,
        control_hz: float,
        *,
        engine: str = REFERENCE,
        plant: Plant | None = None,
        only: Sequence[int] | None = None,
        device: str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.task, self.panel, self.half, self.engine, self.control_hz = task, panel, half, engine, control_hz
        self._digest = panel.digest
        everything = panel.select(half)
        if not everything:
            raise SurefootError(f"Panel {panel.name} has no scenario in its {half} half; use another --half.")
        self.places = list(range(len(everything))) if only is None else list(only)
        self.scenarios = tuple(everything[i] for i in self.places)
        numbers = panel.numbers(half)
        self.numbers = np.array([numbers[i] for i in self.places])
        """[N] place of each scenario in the panel."""
        ids = _tiles(everything, panel)
        heightfield = task.on_heightfield(panel)
        self._atlas = Atlas.build(ids) if heightfield else None
        self.env = VecEnv(
            task,
            self._sampler(Column()),
            plant or evaluation_plant(control_hz, heightfield),
            engine=engine,
            atlas=self._atlas,
            device=device,
            auto_reset=False,
            stagger=False,
        )
        self._runners: dict[int, EpisodeRunner] = {}
        self._runner()  # compiled now, not in the first pass

    def _sampler(self, column: Column) -> PanelSampler:
        return PanelSampler(
            self.panel,
            perturb_all(self.scenarios, column),
            self.task.contract,
            self.task.robot,
            self.control_hz,
            self._atlas,
            dropout_of(column),
            self.device,
        )

    def run_episodes(
        self, policy: Policy, column: Column | None = None, counter: PassCounter | None = None
    ) -> RawEpisodes:
        """Runs every scenario of `column` once, to its end or its fall."""
        column = column or Column()
        self.env.restart(self._sampler(column), stagger=False)
        scenarios = perturb_all(self.scenarios, column)
        terrain = {
            "class": np.array([s.terrain.cls for s in scenarios]),
            "level": np.array([s.terrain.level for s in scenarios]),
            "key": np.array([s.terrain.key for s in scenarios]),
        }
        policy = policy.to(self.device) if isinstance(policy, PolicyBundle) else policy
        places = torch.tensor(self.places, device=self.device)
        return run_episodes(self.env, policy, terrain, places, self._runner(), counter)

    def _runner(self) -> EpisodeRunner:
        """Returns the runner that was made before; only a column with more pushes than the others needs
        another."""
        pushes = self.env.script.push_step.shape[1]
        if pushes not in self._runners:
            self._runners[pushes] = runner_for(self.env)
        return self._runners[pushes]

    def run(
        self,
        policy: Policy,
        column: Column | None = None,
        *,
        name: str = TRAINED,
        traces: bool = True,
        counter: PassCounter | None = None,
    ) -> PanelResult:
        """Runs one column: its rows, and the traces of typical and of telling episodes."""
        return self._result(self.run_episodes(policy, column, counter), column or Column(), name, traces)

    def evaluate_async(self, policy: Policy, watch: Watch = unwatched) -> PendingResult:
        """Runs the nominal column, as `run` does; labels and traces are made when the result is asked for."""
        counter = PassCounter(watch, 1)
        counter.begin(f"{Column().name} on {self.engine}")
        raw = self.run_episodes(policy, counter=counter)
        result = partial(self._result, raw, Column(), TRAINED, True)
        return PendingResult(float(raw.rows["success"].mean()), result)

    def _result(self, raw: RawEpisodes, column: Column, name: str, traces: bool) -> PanelResult:
        """Makes rows and traces; touches nothing that another pass changes."""
        episodes = raw.labelled()
        identity = self._identify(column, name)
        rows = identity | {"stratum": stratum_names(identity, self.task.contract)} | episodes.rows
        tag = rows["column"][0].replace(":", "-")
        tag = tag if self.engine == REFERENCE else f"{tag}-{self.engine}"
        own = name == TRAINED and not column.perturbation
        kept = traces_to_keep(rows, self._digest, [watched(rows)] if own else []) if traces else []
        stem = {i: f"{tag}-{self.numbers[i]:05d}" for i in kept}
        rows["trace"] = np.array([stem.get(i, "") for i in range(len(self.numbers))])
        names = {k: np.asarray(rows[k][0]) for k in ("column", "perturbation", "engine", "policy")}
        about = names | {"panel_digest": np.asarray(self._digest), "half": np.asarray(self.half)}
        # `strength` in a trace is that of the motors.
        about["perturbation_strength"] = rows["strength"][0]
        kept_traces = {
            s: episodes.trace(i) | about | {"scenario": rows["scenario"][i]} for i, s in stem.items()
        }
        steps = len(self.numbers) * len(episodes.frames["position"])
        return PanelResult(rows, kept_traces, episodes.seconds, steps)

    def _identify(self, column: Column, policy: str) -> dict[str, np.ndarray]:
        """Says which episode each row is of. Friction, payload and terrain are those of the column."""
        n, seeds = len(self.scenarios), self.panel.seeds
        s = perturb_all(self.scenarios, column)
        command = np.array([x.command for x in s])
        family, member = np.array([x.family for x in s]), np.array([x.member for x in s])
        keys = seeds.episode_key(family * seeds.envs_per_family + member, 0)
        shown = column.name if policy == TRAINED else f"baseline:{policy}"
        shown = shown if policy == TRAINED or not column.perturbation else f"{shown}:{column.name}"
        return {
            "column": np.array([shown] * n),
            "perturbation": np.array([column.perturbation] * n),
            "strength": np.full(n, column.strength),
            "engine": np.array([self.engine] * n),
            "device": np.array([self.device.type] * n),
            "policy": np.array([policy] * n),
            "scenario": self.numbers,
            "key": np.array([f"{int(k):016x}" for k in keys]),
            "family": family,
            "member": member,
            "half": np.array([x.half for x in s]),
            "command_vx": command[:, 0],
            "command_vy": command[:, 1],
            "command_wz": command[:, 2],
            "friction": np.array([x.friction for x in s]),
            "payload_kg": np.array([x.payload_kg for x in s]),
            "terrain": np.array([x.terrain.cls for x in s]),
            "level": np.array([x.terrain.level for x in s]),
        }

    def close(self) -> None:
        self.env.close()


def _tiles(scenarios: Sequence[Scenario], panel: Panel) -> list[TileId]:
    """Returns every tile that the panel or one of its terrain columns stands on: all have one atlas."""
    ids = {TileId(s.terrain.cls, s.terrain.level, s.terrain.key) for s in scenarios}
    for p in PERTURBATIONS:
        if p.terrain is not None and applies(p, panel):
            ids |= {TileId(p.terrain, int(x), s.terrain.key) for x in p.sweep for s in scenarios}
    return sorted(ids)
