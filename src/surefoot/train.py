"""Training: the one place where environment, learner, ledger, evaluation and checkpoints meet."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from surefoot.cores import process_seconds
from surefoot.cycle import Cycle, Turn
from surefoot.display import Display
from surefoot.env import VecEnv
from surefoot.evidence import (
    HONESTY_EVERY,
    LibraryRecord,
    RunFolder,
    RunRecord,
    honesty_row,
    ledger_row,
    run_name,
    timestamp,
    versions,
)
from surefoot.fused import FusedEnv, Untraceable
from surefoot.learners import Ppo, symmetry
from surefoot.learners.libraries import LIBRARIES
from surefoot.plan import Plan
from surefoot.policy import PolicyBundle, PolicyCard, policy_card
from surefoot.rollout import RolloutBlock
from surefoot.scenarios import TrainSampler
from surefoot.scoring import Limits, Scored
from surefoot.terrain import Atlas
from surefoot.trackers import Tracker


class Trainer(Scored):
    """One run: built from a plan (anew) or from a run folder (resumed)."""

    def __init__(self, plan: Plan, run: RunFolder, resume: bool = False) -> None:
        super().__init__(plan, run)
        recipe, contract = plan.recipe, plan.task.contract
        device = torch.device(plan.device)
        atlas = plan.atlas()
        sampler = TrainSampler(contract, plan.task.robot, plan.seeds, recipe.control_hz, atlas, device)
        self.env = training_env(plan, sampler, atlas)
        mirror = symmetry(contract, plan.task.robot, plan.task.scan, device)
        self.learner = Ppo(contract, recipe, mirror, plan.seeds, device)
        self.block = RolloutBlock.empty(
            recipe.horizon,
            recipe.envs,
            contract.observation_size,
            contract.critic_size,
            contract.action.size,
            len(contract.rewards),
            device,
        )
        self.cycle = Cycle(
            self.env,
            self.learner,
            self.block,
            recipe,
            strata=contract.strata.shape,
            action_clip=contract.action.clip,
        )
        if resume:
            self._resume()
        else:
            self._checkpoint(best=True)

    def train(self, limits: Limits, display: Display, tracker: Tracker) -> None:
        """Collect, learn, record; evaluate and save at fixed intervals; stop at a limit or a signal.

        Where the device works on its own, an update is written down while the next one is under way.
        """
        recipe, p = self.plan.recipe, self.progress
        self.cycle.prepare()
        waiting: Turn | None = None
        with self._signals():
            while not self._finished(limits):
                begun = time.perf_counter()
                number = p.update + 1
                self._syncs.before(number)
                turn = self.cycle.run(number, honest=number % HONESTY_EVERY == 0)
                self._syncs.after(number)
                p.update = number
                if waiting is not None:
                    self._note(self._row(waiting), display, tracker)
                look, save = number % recipe.evaluate_every == 0, number % recipe.checkpoint_every == 0
                waiting = turn
                if look or save or not self.cycle.overlaps:
                    turn.wait()
                p.train_seconds += time.perf_counter() - begun
                if self.startup_seconds is None:
                    self.startup_seconds = process_seconds()
                if look or save or not self.cycle.overlaps:
                    waiting, row = None, self._row(turn)
                    best = self._evaluate(row) if look else False
                    self._note(row, display, tracker)
                    if best or save:
                        self._checkpoint(best)
            if waiting is not None:
                self._note(self._row(waiting), display, tracker)
        self._checkpoint(best=False)
        if not self.stopped:
            self.chosen = self._choose()
        self.run.write_record(status="interrupted" if self.stopped else "finished", figures=self.figures())

    def _note(self, row: dict[str, Any], display: Display, tracker: Tracker) -> None:
        self.run.ledger.append(row)
        tracker.log(row)
        display.show(row, self.progress.successes)

    def _row(self, turn: Turn) -> dict[str, Any]:
        """The ledger's row of a turn, for which it waits; its episodes go into the table."""
        turn.wait()
        plan, p, env = self.plan, self.progress, self.env
        harvest = self.cycle.harvest(turn)
        self.run.add_episodes(harvest.ended, turn.number)
        self.run.save_failures(harvest.failures, turn.number)
        row = ledger_row(
            turn.host["figures"],
            asdict(self.cycle.metrics(turn)),
            harvest,
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
            buffer_bytes=self.block.bytes,
        )
        if "honesty" in turn.host:
            row |= honesty_row(turn.host["honesty"], plan.accounting.samples_per_update)
        return row

    def policy(self) -> PolicyBundle:
        return PolicyBundle(self._card(), self.learner.policy_tensors())

    def _card(self) -> PolicyCard:
        r = self.plan.recipe
        return policy_card(self.plan.task.contract, self.plan.task.robot, r.control_hz, r.hidden, r.normalise)

    # ---- checkpoints

    def _checkpoint(self, best: bool) -> None:
        p = self.progress
        policy = self.policy()
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"env.{k}": v for k, v in self.env.snapshot().items()}
        tensors |= {f"policy.{k}": v for k, v in policy.tensors.items()}
        # No timing in here: two runs that did the same have the same checkpoint to the bit.
        meta = {
            "update": p.update,
            "contract_digest": self.plan.task.contract.digest,
            "policy": policy.meta(),
            "normaliser_digest": policy.normaliser_digest,
            "successes": p.successes,
            "best": p.best,
            "best_update": p.best_update,
        }
        self.run.save_checkpoint(tensors, meta, best=best)

    def _resume(self) -> None:
        found = self.run.load_checkpoint("latest")

        def under(prefix: str) -> dict[str, torch.Tensor]:
            return {k.removeprefix(prefix): v for k, v in found.tensors.items() if k.startswith(prefix)}

        self.learner.load(under("learner."))
        self.env.restore(under("env."))
        p, meta = self.progress, found.meta
        p.update, p.successes = int(meta["update"]), [float(s) for s in meta["successes"]]
        p.best, p.best_update = float(meta["best"]), int(meta["best_update"])
        self.run.rewind(p.update)
        # A run killed in its first update has a checkpoint and no ledger yet.
        rows = self.run.ledger.rows() if self.run.ledger.path.exists() else []
        if rows:
            p.train_seconds = float(rows[-1]["train_seconds"])
            p.evaluation_seconds = float(rows[-1]["wall_seconds"]) - p.train_seconds
        self.run.write_record(status="running", confirmation=None)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM finish the update that is under way; a second Ctrl-C aborts it."""

        def stop(number: int, _: FrameType | None) -> None:
            if self.stopped is not None:
                raise KeyboardInterrupt
            self.stopped = signal.Signals(number)

        before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)

    def close(self) -> None:
        self.env.close()
        self.selection.close()
        self.run.ledger.close()


def training_env(plan: Plan, sampler: TrainSampler, atlas: Atlas | None) -> VecEnv | FusedEnv:
    """Compiled where it can be: tasks on a plane, trained with stride, whose functions can be traced."""
    env = VecEnv(plan.task, sampler, plan.plant, engine=plan.engine, atlas=atlas, device=plan.device)
    if plan.engine != "stride" or atlas is not None or plan.recipe.horizon >= sampler.episode_steps:
        return env
    try:
        return FusedEnv(env)
    except Untraceable as reason:
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


def new_run(plan: Plan, out: str | None) -> RunFolder:
    """Creates the run folder with run.json; nothing that exists is touched."""
    task = plan.task.contract.name
    path = Path(out) if out else Path("runs") / run_name(task, plan.training_id, plan.seeds.root)
    per_family = plan.accounting.envs_per_seed_family
    keys = {
        str(f): f"{int(plan.seeds.episode_key(f * per_family, 0)):016x}" for f in range(plan.recipe.families)
    }
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
        versions=versions(),
    )
    return RunFolder.create(path, record, need_bytes=200_000_000 + 4 * plan.accounting.buffer_bytes)
