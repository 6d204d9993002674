"""The panel evaluator: all scenarios of a half in one batch, deterministic actions, metrics per episode from
one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from surefoot.contract import (
    REFERENCE,
    TRAINED,
    Column,
    Half,
    Panel,
    Plant,
    Scenario,
    SurefootError,
    beyond,
    perturb_all,
)
from surefoot.env import VecEnv
from surefoot.evaluation.episodes import RawEpisodes, joined
from surefoot.evaluation.kept_traces import traces_to_keep
from surefoot.evaluation.layout import Batch, Setting, grounded
from surefoot.evaluation.progress import PassCounter, Watch, unwatched
from surefoot.policy import Policy
from surefoot.statistics import PanelResult, stratum_names, watched
from surefoot.tasks import Task


@dataclass(frozen=True)
class PendingResult:
    """Holds the success of a pass that is over, and a function that makes its full result: on any thread, at
    any later time."""

    success: float
    result: Callable[[], PanelResult]


class PanelEvaluator:
    """A panel (or a half of it) laid out as environments on the evaluation plant; `run` may be called many
    times, for any column.

    The nominal column plays all scenarios, others those that the panel has for them. `only` plays some
    scenarios (numbers within the half), in every column, and leaves everything else as it is with all of
    them: the ground, and the places in the batch that inference is padded to.
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
        self.task, self.panel, self.half, self.engine = task, panel, half, engine
        self._digest = panel.digest
        self._numbers = panel.numbers(half)
        if not self._numbers:
            raise SurefootError(f"Panel {panel.name} has no scenario in its {half} half; use another --half.")
        self._only = None if only is None else list(only)
        self._setting = Setting(task, panel, half, control_hz, engine, self.device, plant)
        self._batches: dict[tuple[str, tuple[int, ...]], Batch] = {}
        self._lay_out(Column())  # compiled now, not in the first pass

    @property
    def env(self) -> VecEnv:
        """Returns the environments of the first batch."""
        return next(iter(self._batches.values())).env

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Returns what the nominal column plays."""
        return tuple(self.panel.scenarios[self._numbers[i]] for i in self._places(Column()))

    def _places(self, column: Column) -> list[int]:
        """Returns the scenarios that `column` plays, as numbers within the half."""
        if self._only is not None:
            return self._only
        played = set(self.panel.numbers(self.half, perturbed=bool(column.perturbation)))
        return [i for i, k in enumerate(self._numbers) if k in played]

    def _lay_out(self, column: Column) -> list[Batch]:
        """Returns the batches of a column, made when they are first needed."""
        chosen: dict[int, list[int]] = {}
        for place in self._places(column):
            chosen.setdefault(self._setting.batch_of(place), []).append(place)
        out = []
        for places in chosen.values():
            key = (column.name if grounded(column) else "", tuple(places))
            if self.panel.version == 1:
                key = ("", key[1])  # all its ground is one
            if key not in self._batches:
                self._batches[key] = Batch(self._setting, places, column)
            out.append(self._batches[key])
        return out

    def begin(self, column: Column) -> VecEnv:
        """Returns the environments of a column's first batch, at the beginning of their episodes."""
        batch = self._lay_out(column)[0]
        batch.begin(column)
        return batch.env

    def run_episodes(
        self, policy: Policy, column: Column | None = None, counter: PassCounter | None = None
    ) -> RawEpisodes:
        """Runs every scenario of `column` once, to its end or its fall."""
        column = column or Column()
        batches, played = self._lay_out(column), []
        for k, batch in enumerate(batches):
            if counter is not None:
                counter.batch(k, len(batches))
            played.append(batch.run_episodes(policy, column, counter))
        return joined(played)

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
        stem = {i: f"{tag}-{rows['scenario'][i]:05d}" for i in kept}
        rows["trace"] = np.array([stem.get(i, "") for i in range(len(rows["scenario"]))])
        names = {k: np.asarray(rows[k][0]) for k in ("column", "perturbation", "engine", "policy")}
        about = names | {"panel_digest": np.asarray(self._digest), "half": np.asarray(self.half)}
        # `strength` in a trace is that of the motors.
        about["perturbation_strength"] = rows["strength"][0]
        kept_traces = {
            s: episodes.trace(i) | about | {"scenario": rows["scenario"][i]} for i, s in stem.items()
        }
        steps = len(rows["scenario"]) * len(episodes.frames["position"])
        return PanelResult(rows, kept_traces, episodes.seconds, steps)

    def _identify(self, column: Column, policy: str) -> dict[str, np.ndarray]:
        """Says which episode each row is of. Friction, payload and terrain are those of the column."""
        numbers, seeds = [self._numbers[i] for i in self._places(column)], self.panel.seeds
        n, s = len(numbers), perturb_all([self.panel.scenarios[k] for k in numbers], column)
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
            "scenario": np.array(numbers),
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
            "beyond": np.array([",".join(beyond(x, self.task.contract)) for x in s]),
            "look": np.zeros(n, np.int64),
        }

    def close(self) -> None:
        for batch in self._batches.values():
            batch.env.close()
