"""Training: the one place where environment, learner, ledger, evaluation and checkpoints meet."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from surefoot.compiler import Untraceable
from surefoot.compute import SINGLE, ProcessGroup, Writer
from surefoot.contract import environment_seeds
from surefoot.env import EpisodeStats, TrainSampler, VecEnv, join_snapshots, part_of_snapshot
from surefoot.env.compiled import CompiledEnv
from surefoot.env.external import ExternalEnv, ExternalTask
from surefoot.learners import Ppo, symmetry
from surefoot.learners.libraries import LIBRARIES
from surefoot.policy import PolicyBundle, PolicyCard, external_card, policy_card
from surefoot.rollout import RolloutBlock
from surefoot.runs import (
    LibraryRecord,
    RunFolder,
    RunRecord,
    read_ledger,
    record_outcome,
    run_name,
    timestamp,
    versions,
)
from surefoot.terrain import Atlas
from surefoot.trackers import Tracker
from surefoot.training.batch import ledger_row
from surefoot.training.honesty import EVERY as HONESTY_EVERY
from surefoot.training.honesty import honesty_row
from surefoot.training.iteration import IterationResult, TrainingIteration
from surefoot.training.observers import Observer
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan
from surefoot.training.selection import Limits, Scored


class Trainer(Scored):
    """One run: built from a plan (anew) or from a run folder (resumed).

    Several processes train it together, each with its share of the environments; all of them go through the
    same updates, and the lead alone evaluates and writes. Without `select` nothing is scored while it trains
    and nothing is chosen: the result is the last policy.
    """

    def __init__(
        self,
        plan: Plan,
        run: RunFolder,
        resume: bool = False,
        select: bool = True,
        group: ProcessGroup = SINGLE,
    ) -> None:
        self.group, self._select, self._begun_at = group, select, 0
        with record_outcome(run, group.is_main and not resume):  # what cannot be resumed stays as it was
            with group.fail_together():
                super().__init__(plan, run, select and group.is_main)
                self._build()
                if resume:
                    self._resume()
            if not resume:
                self._save(best=True)

    def _build(self) -> None:
        plan, group = self.plan, self.group
        recipe, contract = plan.recipe, plan.task.contract
        device = torch.device(plan.device)
        part = group.env_range(recipe.envs)
        self.env = environments(plan, part)
        mirror = None
        if isinstance(plan, RobotPlan):
            mirror = symmetry(plan.task.contract, plan.task.robot, plan.task.scan, device)
        self.learner = Ppo(contract, recipe, mirror, plan.seeds, device, group=group)
        self.block = RolloutBlock.empty(
            recipe.horizon,
            len(part),
            contract.observation_size,
            contract.critic_size,
            contract.action.size,
            len(contract.rewards),
            device,
        )
        self.iteration = TrainingIteration(
            self.env,
            self.learner,
            self.block,
            recipe,
            strata=contract.strata.shape,
            action_clip=contract.action.clip,
            group=group,
        )
        self.overlaps = self.iteration.overlaps

    def train(self, limits: Limits, display: Observer, tracker: Tracker) -> None:
        """Collect, learn, record; evaluate and save at fixed intervals; stop at a limit or a signal.

        Where the device works on its own, an update is written down while the next one is under way; files
        are another thread's work everywhere.
        """
        # Signals are held off for longest: torchrun ends all who lost one, and that is to be written down.
        with self._signals(), record_outcome(self.run, self.group.is_main, self.figures):
            with Writer() as writer:
                self._loop(limits, display, tracker, writer)
            if not self.group.is_main:
                return
            if not self.stopped:
                self.chosen = self._choose()
        self.run.write_record(status="interrupted" if self.stopped else "finished", figures=self.figures())

    def _loop(self, limits: Limits, display: Observer, tracker: Tracker, writer: Writer) -> None:
        recipe, p = self.plan.recipe, self.progress

        def note(row: dict[str, Any], stats: EpisodeStats) -> None:
            if self.group.is_main:
                writer.do(partial(self._write, row, stats, tracker))
                display.show(dict(row), p.successes)  # the writer may have more to say in it

        self.iteration.prepare()
        waiting: IterationResult | None = None
        while not self._finished(limits):
            begun = time.perf_counter()
            number = p.update + 1
            self._syncs.before(number)
            turn = self.iteration.run(number, with_batch_stats=number % HONESTY_EVERY == 0)
            self._syncs.after(number)
            p.update = number
            if waiting is not None:
                note(*self._row(waiting))
            look = self._select and number % recipe.evaluate_every == 0
            save = number % recipe.checkpoint_every == 0
            waiting = turn
            if look or save or not self.iteration.overlaps:
                turn.wait()
            p.train_seconds += time.perf_counter() - begun
            if not self.startup:
                self._started()
                self._begun_at = number
            if look or save or not self.iteration.overlaps:
                waiting, (row, stats) = None, self._row(turn)
                best = self._evaluate(row, writer) if look else False
                note(row, stats)
                if best or save:
                    self._save(best, writer)
        if waiting is not None:
            note(*self._row(waiting))
        self._save(False, writer)

    def _write(self, row: dict[str, Any], stats: EpisodeStats, tracker: Tracker) -> None:
        """One update, into the run folder and the tracker; its episodes go into the table."""
        self.run.add_episodes(stats.ended, row["update"])
        self.run.save_failures(stats.failures, row["update"])
        self.run.ledger.append(row)
        tracker.log(row)

    def _finished(self, limits: Limits) -> bool:
        """The lead decides when a limit is reached; a signal to any process stops all."""
        if self.group.world == 1:
            return self.stopped is not None or self._reached(limits)
        flags = torch.tensor([int(self.group.is_main and self._reached(limits)), int(self.stopped or 0)])
        self.group.all_reduce_max_(flags)
        reached, number = flags.tolist()
        if number:
            self.stopped = signal.Signals(number)
        return bool(reached or number)

    def _row(self, turn: IterationResult) -> tuple[dict[str, Any], EpisodeStats]:
        """The ledger's row of a turn, for which it waits, and what all environments brought; for the lead."""
        turn.wait()
        plan, p, env = self.plan, self.progress, self.env
        own = self.iteration.episode_stats(turn)
        parts = self.group.gather_objects(own)
        if not parts:
            return {}, own
        stats = EpisodeStats.of(parts)
        row = ledger_row(
            turn.host["figures"],
            asdict(self.iteration.metrics(turn)),
            stats,
            update=turn.number,
            shape=plan.accounting.rollout_shape,
            reward_names=env.reward_names,
            reasons=env.reasons,
            families=plan.recipe.families,
            strata=plan.accounting.strata,
            seconds=turn.seconds | {"evaluation": 0.0},
            train_seconds=p.train_seconds,
            wall_seconds=p.train_seconds + p.evaluation_seconds,
            control_hz=plan.recipe.control_hz,
            epochs=plan.recipe.epochs,
            gradient_steps=plan.accounting.gradient_steps,
            buffer_bytes=self.block.bytes * self.group.world,
        )
        if "honesty" in turn.host:
            row |= honesty_row(turn.host["honesty"], plan.accounting.samples_per_update)
        if turn.number == self._begun_at:
            row |= self.startup
        return row, stats

    # ---- evaluation

    def policy(self) -> PolicyBundle:
        return PolicyBundle(self._card(), self.learner.policy_tensors())

    def _card(self) -> PolicyCard:
        r, task = self.plan.recipe, self.plan.task
        if isinstance(task, ExternalTask):
            return external_card(task.contract, r.control_hz, r.hidden, r.normalise)
        return policy_card(task.contract, task.robot, r.control_hz, r.hidden, r.normalise)

    def _evaluate(self, row: dict[str, Any], writer: Writer) -> bool:
        """Scores the current policy on the selection half, into the ledger row; true when it is the best so
        far. The lead does, while the others wait."""
        best = self._score(row, writer) if self.group.is_main else False
        return bool(self.group.broadcast_object(best))

    # ---- checkpoints

    def _save(self, best: bool, writer: Writer | None = None) -> None:
        """A checkpoint with the environments of all processes; written by `writer` if there is one."""
        own = {k: v.cpu() for k, v in self.env.snapshot().items()}
        weights = self.learner.state.parameters.cpu()
        parts = self.group.gather_objects((own, weights))
        if not parts:
            return
        if not all(torch.equal(w, weights) for _, w in parts):
            raise RuntimeError("the processes of this run have come to have different weights")
        save = partial(self.run.save_checkpoint, *self._checkpoint([e for e, _ in parts]), best=best)
        if writer is None:
            save()
        else:
            writer.do(save)

    def _checkpoint(
        self, environments: list[dict[str, torch.Tensor]]
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors, copies on the host, and what is said about them."""
        policy = self.policy()
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"env.{k}": v for k, v in join_snapshots(environments).items()}
        tensors |= {f"policy.{k}": v for k, v in policy.tensors.items()}
        return {k: v.cpu() for k, v in tensors.items()}, self._meta(policy)

    def _resume(self) -> None:
        found = self.run.load_checkpoint("latest")

        def under(prefix: str) -> dict[str, torch.Tensor]:
            return {k.removeprefix(prefix): v for k, v in found.tensors.items() if k.startswith(prefix)}

        self.learner.load(under("learner."))
        self.env.restore(part_of_snapshot(under("env."), self.group.env_range(self.plan.recipe.envs)))
        p, meta = self.progress, found.meta
        p.update, p.successes = int(meta["update"]), [float(s) for s in meta["successes"]]
        p.best, p.best_update = float(meta["best"]), int(meta["best_update"])
        if not self.group.is_main:
            return
        self.run.rewind(p.update)
        # A run killed in its first update has a checkpoint and no ledger yet.
        rows, _ = read_ledger(self.run.ledger.path)
        if rows:
            p.train_seconds = float(rows[-1]["train_seconds"])
            p.evaluation_seconds = float(rows[-1]["wall_seconds"]) - p.train_seconds
        self.run.write_record(status="running", confirmation=None, error=None, tracker_error=None)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM finish the update that is under way; a second Ctrl-C aborts it, but not under
        torchrun, which passes on what processes may have got already."""

        def stop(number: int, _: FrameType | None) -> None:
            if self.stopped is not None and self.group.world == 1:
                raise KeyboardInterrupt
            self.stopped = self.stopped or signal.Signals(number)

        before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)

    def close(self) -> None:
        self.iteration.close()
        self.env.close()
        super().close()


def environments(plan: Plan, part: range) -> VecEnv | CompiledEnv | ExternalEnv:
    """The environments `part` of a plan, as they are trained on."""
    if isinstance(plan, ExternalPlan):
        return ExternalEnv(plan.task, plan.seeds, part, plan.device)
    assert isinstance(plan, RobotPlan)
    contract, robot, atlas = plan.task.contract, plan.task.robot, plan.atlas()
    hz, device = plan.recipe.control_hz, torch.device(plan.device)
    return training_env(plan, TrainSampler(contract, robot, plan.seeds, hz, atlas, device, part), atlas)


def training_env(plan: RobotPlan, sampler: TrainSampler, atlas: Atlas | None) -> VecEnv | CompiledEnv:
    """Compiled where it can be: tasks trained with stride whose functions can be traced."""
    env = VecEnv(plan.task, sampler, plan.plant, engine=plan.engine, atlas=atlas, device=plan.device)
    if plan.engine != "stride" or plan.recipe.horizon >= sampler.episode_steps:
        return env
    try:
        return CompiledEnv(env)
    except Untraceable as reason:
        if sampler.first == 0:  # said once
            print(f"Environments run uncompiled, and so more slowly. {reason}", file=sys.stderr)
        return env


def library_record(plan: Plan) -> LibraryRecord | None:
    """What is known of a library before it is asked; its worker adds what it was told."""
    if plan.learner == "ppo":
        return None
    library = LIBRARIES[plan.learner]
    return LibraryRecord(
        name=library.name, version=library.version, timeouts=plan.timeouts, stock_timeouts=library.timeouts
    )


def _outside_versions(plan: Plan) -> dict[str, str]:
    return plan.task.contract.versions if isinstance(plan.task, ExternalTask) else {}


def new_run(plan: Plan, out: str | None, group: ProcessGroup = SINGLE) -> RunFolder:
    """Creates the run folder with run.json; nothing that exists is touched. Only the lead does."""
    task = plan.task.contract.name
    path = Path(out) if out else Path("runs") / run_name(task, plan.training_id, plan.seeds.root)
    per_family = plan.accounting.envs_per_seed_family
    firsts = range(0, plan.recipe.envs, per_family)
    given = (
        environment_seeds(plan.seeds, firsts)
        if isinstance(plan, ExternalPlan)
        else plan.seeds.episode_key(list(firsts), 0).tolist()
    )
    keys = {str(f): f"{key:016x}" for f, key in enumerate(given)}
    record = RunRecord(
        id=path.name,
        created=timestamp(),
        status="running",
        task=plan.task_name,
        contract=plan.task.contract,
        contract_digest=plan.task.contract.digest,
        recipe=plan.recipe,
        accounting=plan.accounting,
        seeds=plan.seeds,
        seed_set=keys,
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        panel_seeds=plan.panel.seeds,
        disjointness=plan.disjointness,
        strata=tuple(plan.task.contract.strata.labels()),
        training_plant=plan.plant,
        evaluation_plant=plan.evaluation,
        construct_id=plan.construct_id,
        training_id=plan.training_id,
        engine=plan.engine,
        learner=plan.learner,
        library=library_record(plan),
        device=plan.device,
        versions=versions()
        | _outside_versions(plan)
        | ({"processes": str(group.world)} if group.world > 1 else {}),
    )
    if not group.is_main:
        return RunFolder(path, record)
    return RunFolder.create(path, record, need_bytes=200_000_000 + 4 * plan.accounting.buffer_bytes)
