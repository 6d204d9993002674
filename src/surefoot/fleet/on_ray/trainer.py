"""Training with a fleet: the training loop as it is, with the environments of many actors.

Where updates wait (`--sync`), the loop's own rollout, advantages and update are all there is. Where they do
not, experience comes from older policies, and is corrected for that once: values and advantages by V-trace
against the policy at the start of the update, which then is also what PPO's ratio is against. So the first
ratio is 1 at any lag, and nothing is corrected twice.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.artifacts import JsonLines
from surefoot.compute import SINGLE, Writer, cores
from surefoot.contract import SurefootError
from surefoot.env import EpisodeStats
from surefoot.fleet.books import FOLDER, USED
from surefoot.fleet.codecs import codec_of
from surefoot.fleet.on_ray.acting import weights_of
from surefoot.fleet.on_ray.actor import FleetActor, Order, order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.crew import Crew, Setting
from surefoot.fleet.on_ray.env import FleetEnv
from surefoot.fleet.on_ray.figures import FleetFigures
from surefoot.fleet.on_ray.placement import Places
from surefoot.fleet.on_ray.trial import Choice, choose, measure_inference
from surefoot.fleet.options import Correction, FleetOptions, Inference, check_alone
from surefoot.fleet.vtrace import Steps, vtrace
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder, read_ledger
from surefoot.trackers import Tracker
from surefoot.training import (
    UNOBSERVED,
    Clock,
    IterationResult,
    LedgerConstants,
    Limits,
    Observer,
    Plan,
    Trainer,
    TrainingIteration,
    block_statistics,
    collect,
)

RHO_BAR = 1.0
"""Ratios are cut here: what the policy does more often now counts no more than it did then."""


class FleetIteration(TrainingIteration):
    """The loop's body with a fleet."""

    env: FleetEnv
    learner: Ppo

    def begin(self, crew: Crew, used: JsonLines, correction: Correction | None) -> None:
        """Says whose fragments are learned from, where that is written down, and how an older policy's are
        corrected; None: there are none of an older policy."""
        self._crew, self._used, self._correction = crew, used, correction
        self.figures = FleetFigures(self.env, crew)
        self._number = 0

    def run(self, number: int, with_batch_stats: bool = False) -> IterationResult:
        """Runs iteration `number`, which begins with the policy after update `number` - 1."""
        self._number = number
        if self._crew.version != number - 1:
            self._crew.publish(number - 1, weights_of(self.learner))
        begun, waited = time.perf_counter(), self.env.waited
        result = super().run(number, with_batch_stats)
        weights = weights_of(self.learner)  # on a GPU that waits for the update
        self.figures.ended(time.perf_counter() - begun, self.env.waited - waited)
        if not self._crew.setting.sync:
            self._crew.publish(number, weights)
        return result

    def _collect(self) -> float:
        recipe, block = self.recipe, self.block
        inference = collect(self.env, self.learner, block, recipe.gamma, recipe.lam)
        begun = time.perf_counter()
        how, rho = self._correction, None
        lossy = codec_of(self._crew.setting.order.codec).lossy
        if how is not None or lossy or self.env.device.type != "cpu":
            rho = correct(self.learner, block, how or "none")
        self.figures.update(self._number - 1, rho if how == "vtrace" else None, RHO_BAR)
        for a in self.env.used:
            k = a.key
            self._used.append(
                {
                    "update": self._number,
                    "actor": k.actor,
                    "incarnation": k.incarnation,
                    "sequence": k.sequence,
                    "digest": a.fragment.header.digest.hex(),
                    "version": a.version,
                }
            )
        strata = int(torch.tensor(self._strata).prod())
        self._statistics = block_statistics(block, len(self.env.reasons), strata, self._clip, SINGLE)
        return inference + time.perf_counter() - begun


@torch.inference_mode()
def correct(learner: Ppo, block: RolloutBlock, how: Correction = "vtrace") -> Tensor:
    """Puts the policy as it is now into `block` as the one that acted, and returns the ratios [T, N] between
    the two. By "vtrace" advantages and returns are corrected for them; by "ratio" the block stays as it
    is."""
    recipe = learner.recipe
    mean = learner.mean(block.flat("obs"))
    now = learner.networks.log_prob(mean, block.flat("action")).view_as(block.log_prob)
    rho = (now - block.log_prob).exp()
    if how == "ratio":
        return rho
    block.mean.copy_(mean.view_as(block.mean))
    block.log_prob.copy_(now)
    if how == "vtrace":
        b = block
        steps = Steps(b.reward, b.value, b.next_value, b.terminated, b.truncated)
        made = vtrace(steps, rho, recipe.gamma, recipe.lam, RHO_BAR, 1.0)
        b.returns.copy_(made.target)
        b.advantage.copy_(made.advantage)
    return rho


class FleetTrainer(Trainer):
    """Trains one run with a fleet. What `Trainer` says holds; `fleet` is what was asked for."""

    actor: ClassVar[type[FleetActor]] = FleetActor
    """What runs in the processes of its actors."""

    def __init__(
        self,
        plan: Plan,
        run: RunFolder,
        fleet: FleetOptions,
        resume: bool = False,
        select: bool = True,
        clock: Clock | None = None,
        strict: bool = False,
    ) -> None:
        self._fleet = fleet
        self._cluster: Cluster | None = None
        self._crew: Crew | None = None
        self._seen = 0
        self._sized = False
        """Whether run.json says how large a transition is."""
        self._observer: Observer = UNOBSERVED
        try:
            super().__init__(plan, run, resume, select, clock=clock, strict=strict)
        except BaseException:
            self._end_fleet()
            raise

    def _build(self) -> None:
        plan, fleet = self.plan, self._fleet
        recipe, contract = plan.recipe, plan.task.contract
        check_alone(fleet, plan.learner, 1)
        parts = fleet.parts(recipe)
        folder = self.run.path / FOLDER
        folder.mkdir(exist_ok=True)
        self._used = JsonLines(folder / USED)
        order = order_of(plan, run_key(self.run.path), folder, fleet.codec, fleet.waits)
        lag = 0 if fleet.waits else fleet.lag
        store = plan.accounting.buffer_bytes * (lag + 3)
        room = min(len(parts), cores()) if fleet.elastic else len(parts) + 1
        self._cluster = cluster = Cluster(fleet.ray, room, store)
        if fleet.ray is not None:
            parts = fleet.parts(recipe, cluster.cores - (fleet.placement is not None))  # the learner's
        device = torch.device(plan.device)
        learner = Ppo(contract, recipe, plan.mirror(device), plan.seeds, device)
        self.learner = learner
        places = Places(self._cluster.ray, len(parts), fleet.placement, plan.device)
        inference, choice = self._inference(order, parts[: cluster.cores], places)
        central = inference == "central"
        setting = Setting(
            order,
            parts,
            lag,
            fleet.waits,
            central,
            folder,
            places,
            self.actor,
            fleet.elastic,
            fleet.imposed_lag or 0,
        )
        self._crew = crew = Crew(self._cluster, setting)
        crew.refusals += [words for words in (places.note(), choice and choice.why) if words]
        self.env = env = FleetEnv(plan, crew, device)
        self.block = RolloutBlock.empty(
            recipe.horizon,
            recipe.envs,
            contract.observation_size,
            contract.critic_size,
            contract.action.size,
            len(contract.rewards),
            device,
        )
        self.iteration = iteration = FleetIteration(
            env,
            learner,
            self.block,
            recipe,
            strata=contract.strata.shape,
            action_clip=contract.action.clip,
        )
        iteration.begin(crew, self._used, None if fleet.sync else fleet.correction)
        self._constants = LedgerConstants.of(plan, env, self.block.bytes)
        how = ", ".join(
            filter(None, ("synchronous" if fleet.sync else "", plan.collection, f"{inference} inference"))
        )
        many = "auto" if fleet.elastic else str(len(parts))
        said = {"actors": many, "fleet": how, "ray": str(cluster.ray.__version__)}
        was: dict[str, Any] = {"actors": "auto" if fleet.elastic else len(parts), "parts": len(parts)}
        was |= {"codec": fleet.codec, "inference": inference}
        was |= {} if choice is None else {"choice": choice.as_json()}
        record = self.run.record
        before = {} if fleet.inference in ("local", "central") else record.fleet
        self.run.write_record(versions=record.versions | said, fleet=before | was)

    def _inference(self, order: Order, parts: list[range], places: Places) -> tuple[Inference, Choice | None]:
        """Returns where the policy acts, and what was measured to choose that, where it is chosen now."""
        fleet = self._fleet
        if fleet.inference in ("local", "central"):
            return fleet.inference, None
        before: Inference | None = self.run.record.fleet.get("inference")
        if before is not None or fleet.inference is None:
            return before or "local", None
        assert self._cluster is not None
        assert isinstance(self.learner, Ppo)
        ways = measure_inference(self._cluster.ray, places, order, parts, weights_of(self.learner))
        choice = choose(*ways, len(parts), places.device, fleet.prices)
        return choice.inference, choice

    def _row(self, result: IterationResult) -> tuple[dict[str, Any], EpisodeStats]:
        row, stats = super()._row(result)
        assert isinstance(self.iteration, FleetIteration)
        for words in self.words():
            self._observer.note(words)
        row |= self.iteration.figures.row
        if not self._sized:
            sized = {"bytes_per_transition": row["fleet.bytes_per_transition"]}
            self.run.write_record(fleet=self.run.record.fleet | sized)
            self._sized = True
        return row | {"family.samples": self._family_samples()}, stats

    def _family_samples(self) -> list[int]:
        """Returns the samples of each seed family: fast actors give more of theirs."""
        assert isinstance(self.env, FleetEnv)
        samples = [0] * self.plan.recipe.families
        share = self.plan.accounting.envs_per_seed_family
        for used in self.env.used:
            part = self.env.crew.members[used.key.actor].part
            for family in range(part.start // share, part.stop // share):
                samples[family] += used.fragment.header.horizon * share
        return samples

    def _loop(self, limits: Limits, observer: Observer, tracker: Tracker, writer: Writer) -> None:
        self._observer = observer
        for words in self.words():
            observer.note(words)
        super()._loop(limits, observer, tracker, writer)

    def _resume(self) -> None:
        if self._fleet.imposed_lag:
            raise SurefootError("A run whose lag is imposed does not go on: older policies are not kept.")
        super()._resume()
        p, crew = self.progress, self._crew
        assert crew is not None
        self._used.keep(lambda row: int(row["update"]) <= p.update)
        rows = [r for r in read_ledger(self.run.ledger.path)[0] if int(r["update"]) == p.update]
        if rows and "fleet.issued" in rows[0]:
            crew.books.resume(rows[0])

    @property
    def crew(self) -> Crew:
        """The actors and their books."""
        assert self._crew is not None, "the fleet has ended"
        return self._crew

    def words(self) -> list[str]:
        """Returns what happened to actors and fragments since last asked, a sentence each."""
        said = self._crew.refusals[self._seen :] if self._crew is not None else []
        self._seen += len(said)
        return said

    def close(self) -> None:
        self.iteration.close()
        self._end_fleet()
        self.selection.close()
        self.run.ledger.close()
        self._used.close()

    def _end_fleet(self) -> None:
        if self._crew is not None:
            self._crew.close()
        elif self._cluster is not None:
            self._cluster.close()
        self._crew = self._cluster = None


def run_key(path: Path) -> bytes:
    """Returns sixteen bytes that name a run: fragments of another one are refused."""
    return hashlib.sha256(str(path.resolve()).encode()).digest()[:16]
