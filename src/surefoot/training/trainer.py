"""Training: the one place where environment, learner, ledger, evaluation and checkpoints meet."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from surefoot.compute import SINGLE, ProcessGroup, Writer
from surefoot.env import EpisodeStats, join_snapshots, part_of_snapshot
from surefoot.learners import Learner, Ppo
from surefoot.policy import PolicyBundle
from surefoot.rollout import RolloutBlock, with_memory
from surefoot.runs import (
    Closing,
    RunFolder,
    RunRecord,
    record_outcome,
    run_name,
    save_block,
    section,
    timestamp,
    versions,
)
from surefoot.trackers import Tracker
from surefoot.training.batch import LedgerConstants, ledger_row, write_update
from surefoot.training.blocks import kept_block
from surefoot.training.honesty import EVERY as HONESTY_EVERY
from surefoot.training.honesty import honesty_row
from surefoot.training.iteration import IterationResult, TrainingIteration
from surefoot.training.live import LiveChecks
from surefoot.training.measurements import Clock, ProcessMeasurements
from surefoot.training.observers import Observer
from surefoot.training.plan import Plan
from surefoot.training.resuming import Standing, confirmed, standing
from surefoot.training.selection import CheckpointSelection, Limits, Progress
from surefoot.training.signals import stop_signals


class Trainer:
    """Trains one run: built from a plan (anew) or from a run folder (resumed).

    How the pieces fit: the plan makes the environments `env`; a `TrainingIteration` fills the rollout `block`
    with what they and the `learner` do, adds advantages, and updates the learner. `ledger_row` states what it
    measured, a `CheckpointSelection` scores the policy on the selection half and remembers the best, and a
    `Writer` puts rows, results and checkpoints into the run folder while training goes on. `progress` is
    where the run stands, `measurements` what this process alone has measured.

    Several processes train a run together, each with its share of the environments. All of them go through
    the same updates, and the main process alone evaluates and writes. Without `select` nothing is scored
    while it trains and nothing is chosen: the result is the last policy. With `strict` it ends at the first
    thing that live checks find.
    """

    def __init__(
        self,
        plan: Plan,
        run: RunFolder,
        resume: bool = False,
        select: bool = True,
        group: ProcessGroup = SINGLE,
        clock: Clock | None = None,
        strict: bool = False,
    ) -> None:
        self.plan, self.run, self.group, self._select = plan, run, group, select
        self.progress, self.measurements = Progress(), ProcessMeasurements(plan, clock)
        self.stopped: signal.Signals | None = None
        self.resumed: Standing | None = None
        """Where a resumed run took up."""
        self.chosen = "latest"
        """The checkpoint that the run's result is stated on."""
        with record_outcome(run, group.is_main and not resume):  # what cannot be resumed stays as it was
            with group.fail_together():
                self.selection = CheckpointSelection(
                    plan, run, self.progress, self.policy, enabled=select and group.is_main
                )
                self._build()
                self.live = LiveChecks(plan, self.env.episode_steps, strict)
                if resume:
                    self._resume()
            if not resume:
                self._save(best=True)

    def _build(self) -> None:
        plan, group = self.plan, self.group
        recipe, contract = plan.recipe, plan.task.contract
        device = torch.device(plan.device)
        part = group.env_range(recipe.envs)
        self.env = plan.environments(part)
        self.learner: Learner = Ppo(contract, recipe, plan.mirror(device), plan.seeds, device, group=group)
        block = RolloutBlock.empty(
            recipe.horizon,
            len(part),
            contract.observation_size,
            contract.critic_size,
            contract.action.size,
            len(contract.rewards),
            device,
        )
        self.block = with_memory(block, recipe.remembers, self.learner.mirrors)
        self.iteration = TrainingIteration(
            self.env,
            self.learner,
            self.block,
            recipe,
            strata=contract.strata.shape,
            action_clip=contract.action.clip,
            group=group,
        )
        self._constants = LedgerConstants.of(plan, self.env, self.block.bytes * group.world)

    def policy(self) -> PolicyBundle:
        """Returns a copy of the policy as it stands."""
        return PolicyBundle(self.plan.policy_card(), self.learner.policy_tensors())

    def figures(self) -> dict[str, float | int | None]:
        """Returns the run's figures so far, as run.json has them."""
        return self.measurements.figures(self.plan, self.progress, self.chosen)

    @property
    def found(self) -> str:
        """What `strict` ended training for; empty: nothing."""
        return self.live.stop

    # ---- the loop

    def train(self, limits: Limits, observer: Observer, tracker: Tracker) -> None:
        """Trains until a limit is reached or a signal comes, then chooses the checkpoint that the result is
        stated on."""
        if self.group.is_main:
            self.run.write_record(limits=asdict(limits))
        # A second Ctrl-C aborts the update, but not under torchrun, which passes on what processes may have
        # got already. Signals are held off for longest: torchrun ends all who lost one, and that is to be
        # written down.
        with (
            stop_signals(self._stop, abort=self.group.world == 1),
            record_outcome(self.run, self.group.is_main, self.figures),
        ):
            with Writer() as writer:
                self._loop(limits, observer, tracker, writer)
            if not self.group.is_main:
                return
            if not self.stopped and not self.found:
                with observer.evaluating("scoring the last policy") as watch:
                    self.chosen = self.selection.choose(watch)
            self._end()

    def _end(self) -> None:
        """Records what the run is when its loop has ended. Where nothing is chosen nothing is confirmed."""
        r = self.run.record
        if self.stopped and r.confirmation is not None and r.confirmed_after == self.progress.update:
            self.run.write_record(status="finished")  # as it was: no update was made since
            return
        broke = self.stopped or self.found
        status = "interrupted" if broke else "unconfirmed" if self._select else "finished"
        self.run.write_record(status=status, error=self.found or None, figures=self.figures())

    def _loop(self, limits: Limits, observer: Observer, tracker: Tracker, writer: Writer) -> None:
        """Collects, learns and records; evaluates and saves at fixed intervals.

        Where the device works on its own (`iteration.overlaps`), an update is recorded while the next one is
        under way; files are the writer's work everywhere.
        """
        recipe, p = self.plan.recipe, self.progress

        def record(row: dict[str, Any], stats: EpisodeStats) -> None:
            if self.group.is_main:
                for finding in self.live.look(row):
                    observer.note(str(finding))
                writer.do(partial(self._write, row, stats, tracker))
                observer.show(dict(row), p.successes)  # a copy: the writer may have more to say in it

        self.iteration.prepare()
        self.measurements.clock.ready()
        unrecorded: IterationResult | None = None
        while not self._finished(limits):
            begun, number = time.perf_counter(), p.update + 1
            evaluates = self._select and number % recipe.evaluate_every == 0
            saves = number % recipe.checkpoint_every == 0
            waits = evaluates or saves or not self.iteration.overlaps

            result = self._iterate(number)  # collect, advantages, update
            p.update = number
            if unrecorded is not None:
                record(*self._row(unrecorded))
            unrecorded = result
            if waits:
                result.wait()
            p.train_seconds += time.perf_counter() - begun
            self.measurements.updated(number)

            if waits:
                unrecorded, (row, stats) = None, self._row(result)
                best = self._evaluate(row, writer, observer) if evaluates else False
                record(row, stats)
                if best or saves:
                    self._save(best, writer)
        if unrecorded is not None:
            record(*self._row(unrecorded))
        self._save(False, writer)

    def _iterate(self, number: int) -> IterationResult:
        syncs = self.measurements.syncs
        syncs.before(number)
        result = self.iteration.run(number, with_batch_stats=number % HONESTY_EVERY == 0)
        syncs.after(number)
        return result

    def _finished(self, limits: Limits) -> bool:
        """Tells whether to stop. The main process decides when a limit is reached; a signal to any process
        stops all."""
        if self.group.world == 1:
            return self.stopped is not None or bool(self.found) or limits.reached(self.progress)
        reached = self.group.is_main and (bool(self.found) or limits.reached(self.progress))
        flags = torch.tensor([int(reached), int(self.stopped or 0)])
        self.group.all_reduce_max_(flags)
        reached, number = flags.tolist()
        if number:
            self.stopped = signal.Signals(number)
        return bool(reached or number)

    def _stop(self, received: signal.Signals) -> None:
        self.stopped = self.stopped or received

    # ---- the ledger

    def _row(self, result: IterationResult) -> tuple[dict[str, Any], EpisodeStats]:
        """Returns the ledger's row of an iteration, for which it waits, and the episode statistics of all
        processes. In other processes than the main one the row is empty."""
        result.wait()
        of_process = self.iteration.episode_stats(result)
        parts = self.group.gather_objects(of_process)
        if not parts:
            return {}, of_process
        stats = EpisodeStats.of(parts)
        row = ledger_row(
            self._constants,
            result.number,
            result.host["figures"],
            asdict(self.iteration.metrics(result)),
            stats,
            result.seconds | {"evaluation": 0.0},
            self.progress,
        )
        if "honesty" in result.host:
            row |= honesty_row(result.host["honesty"], self.plan.accounting.samples_per_update)
        row["elapsed_seconds"] = self.measurements.clock.elapsed()
        return row | self.measurements.startup(result.number), stats

    def _write(self, row: dict[str, Any], stats: EpisodeStats, tracker: Tracker) -> None:
        write_update(self.run, row, stats)
        tracker.log(row)

    def _evaluate(self, row: dict[str, Any], writer: Writer, observer: Observer) -> bool:
        """Scores the current policy, into the ledger's row; returns whether it is the best so far. The main
        process does, while the others wait."""
        best = False
        if self.group.is_main:
            with observer.evaluating(f"scoring update {self.progress.update}") as watch:
                best = self.selection.score(row, writer, self.iteration.overlaps, watch)
        return bool(self.group.broadcast_object(best))

    # ---- checkpoints

    def _save(self, best: bool, writer: Writer | None = None) -> None:
        """Saves a checkpoint with the environments of all processes; written by `writer` if there is one."""
        snapshot = {k: v.cpu() for k, v in self.iteration.snapshot().items()}
        weights = self.learner.parameters.cpu()
        parts = self.group.gather_objects((snapshot, weights))
        if not parts:
            return
        if not all(torch.equal(w, weights) for _, w in parts):
            raise RuntimeError("the processes of this run have come to have different weights")
        tensors, meta = self._checkpoint([s for s, _ in parts])
        self.live.saved(tensors, self.progress.update)
        save = partial(self.run.save_checkpoint, tensors, meta, best=best)
        if writer is None:
            save()
        else:
            writer.do(save)

    def _checkpoint(
        self, snapshots: list[dict[str, torch.Tensor]]
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Returns the tensors of a checkpoint, copied to the host, and its meta."""
        policy = self.policy()
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"env.{k}": v for k, v in join_snapshots(snapshots).items()}
        tensors |= {f"policy.{k}": v for k, v in policy.tensors.items()}
        return {k: v.cpu() for k, v in tensors.items()}, self.selection.checkpoint_meta(policy)

    def _resume(self) -> None:
        """Takes up where the latest checkpoint stood whose rows are all in the ledger; what the run folder
        has beyond that is dropped."""
        self.resumed, p = standing(self.run), self.progress
        latest = self.resumed.checkpoint
        self.learner.load(section("learner", latest.tensors))
        part = self.group.env_range(self.plan.recipe.envs)
        self.iteration.restore(part_of_snapshot(section("env", latest.tensors), part))
        vars(p).update(vars(self.resumed.progress))
        if not self.group.is_main:
            return
        self.measurements.clock.resume(self.run.record.figures, self.resumed.elapsed)
        self.run.rewind(p.update)
        self.run.write_record(status="running", error=None, tracker_error=None, **confirmed(self.run.record))

    def keep_block(self) -> None:
        """Keeps the last rollout block in the run folder, with the keys of its environments. Several
        processes keep that of the main one."""
        part = self.group.env_range(self.plan.recipe.envs)
        block = kept_block(self.block, self.env, self.plan.seeds, part, self.progress.update)
        if self.group.is_main:
            save_block(self.run, block, source="training")

    def close(self) -> None:
        self.iteration.close()
        self.env.close()
        self.selection.close()
        self.run.ledger.close()


def new_run(
    plan: Plan, out: str | None, group: ProcessGroup = SINGLE, closing: Closing | None = None
) -> RunFolder:
    """Creates the run folder with run.json; nothing that exists is touched. Only the main process writes.
    `closing`: how the run is to be judged at its end, also when it goes on."""
    contract = plan.task.contract
    path = Path(out) if out else Path("runs") / run_name(contract.name, plan.training_id, plan.seeds.root)
    processes = {"processes": str(group.world)} if group.world > 1 else {}
    record = RunRecord(
        id=path.name,
        created=timestamp(),
        status="running",
        task=plan.task_name,
        contract=contract,
        contract_digest=contract.digest,
        recipe=plan.recipe,
        accounting=plan.accounting,
        seeds=plan.seeds,
        seed_set=plan.seed_set(),
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        panel_seeds=plan.panel.seeds,
        disjointness=plan.disjointness,
        strata=tuple(contract.strata.labels()),
        training_plant=plan.training_plant,
        evaluation_plant=plan.evaluation_plant,
        construct_id=plan.construct_id,
        measurement_id=plan.measurement_id,
        interface_id=plan.interface_id,
        measurement=plan.measurement,
        interface=plan.interface,
        manifest=plan.manifest,
        training_id=plan.training_id,
        engine=plan.engine,
        learner=plan.learner,
        collection=plan.collection,
        library=plan.library_record(),
        device=plan.device,
        versions=versions() | plan.simulator_versions() | processes,
        closing=closing,
    )
    if not group.is_main:
        return RunFolder(path, record)
    need = 200_000_000 + 4 * plan.accounting.buffer_bytes
    run = RunFolder.create(path, record, need, numbered=out is None)
    plan.save_robot(run.path)
    return run
