"""The worker that trains a run with a library, in a process of its own:
`python -m surefoot.training.library_worker RUN LIMITS`.

The library calls, Surefoot records: ledger, evaluations and checkpoints go into the run folder as `Trainer`
puts them there. Messages on stdout are for `LibraryProcess` in the parent, a JSON object a line; what the
library prints goes to the run's library.log. A line or an end on stdin means stop.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from surefoot.artifacts import plain
from surefoot.compute import Writer, prepare_torch, process_seconds
from surefoot.contract import Timeouts
from surefoot.env import EpisodeStats
from surefoot.evaluation import EvaluationProgress
from surefoot.learners import PpoMetrics
from surefoot.learners.libraries import LIBRARIES, LibraryEnv, LibraryNotes, Trained, TrainingDone
from surefoot.policy import PolicyBundle
from surefoot.runs import RunFolder
from surefoot.training.batch import LedgerConstants, block_statistics, ledger_row, write_update
from surefoot.training.live import LiveChecks
from surefoot.training.measurements import Clock, ProcessMeasurements
from surefoot.training.plan import RobotPlan
from surefoot.training.restore import restore_robot_plan
from surefoot.training.selection import CheckpointSelection, Limits, Progress

TOLERANCE = 1e-3
"""Most that an exported policy's actions may differ from the library's own; rounding is 1e-6."""
LEARNER_METRICS = (*PpoMetrics.__dataclass_fields__,)
"""What a row says of the learner; null where a library does not tell."""
UNKNOWN_ADVANTAGES = tuple(f"advantage.{k}" for k in ("mean", "std", "p01", "p99", "largest", "by_stratum"))
"""What a row says of advantages, which libraries keep to themselves."""


class Channel:
    """Sends messages to the parent, and hears from it when to stop."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)  # what a library prints is for the log
        self._orphaned, self._told = False, 0.0

    def send(self, **message: Any) -> None:
        try:
            os.write(self._out, (json.dumps(plain(message)) + "\n").encode())
        except BrokenPipeError:  # the parent is gone; what there is to say is in the run folder too
            self._orphaned = True

    def watch(self, progress: EvaluationProgress) -> None:
        """Sends how far an evaluation is, a few times a second."""
        now = time.perf_counter()
        if now - self._told > 0.25:
            self._told = now
            self.send(progress=asdict(progress))

    def stop(self) -> signal.Signals | None:
        """Returns the signal that the parent was stopped by; SIGTERM if it is gone."""
        if self._orphaned:
            return signal.SIGTERM
        if not select.select([0], [], [], 0)[0]:
            return None
        name = os.read(0, 64).decode().strip()
        return signal.Signals[name] if name else signal.SIGTERM


class LibraryTrainer:
    """Trains one run with a library, as `Trainer` does with Surefoot's own learner.

    The loop is the library's: its adapter is given this object (`AdapterSession`), steps `env`, and calls
    `updated` after every update, which records, evaluates and saves as `Trainer` does and raises
    `TrainingDone` at a limit or a signal.
    """

    def __init__(
        self, plan: RobotPlan, run: RunFolder, limits: Limits, channel: Channel, writer: Writer
    ) -> None:
        self.plan, self.run = plan, run
        clock = Clock(process_seconds() or 0.0)
        self.progress, self.measurements = Progress(), ProcessMeasurements(plan, clock)
        self.selection = CheckpointSelection(plan, run, self.progress, self.policy)
        self.stopped: signal.Signals | None = None
        self.chosen = "latest"
        self.recipe, self.seed, self.device = plan.recipe, plan.seeds.root, plan.device
        self.timeouts: Timeouts = plan.timeouts
        self.folder = run.path / "library"
        environments = plan.environments(range(self.recipe.envs))
        self.env = LibraryEnv(environments, self.recipe.horizon, self.recipe.gamma)
        self.export_error = 0.0
        """Largest difference between the exported policy's actions and the library's own."""
        self._limits, self._channel, self._writer = limits, channel, writer
        self._constants = LedgerConstants.of(plan, environments, self.env.block.bytes)
        self._live = LiveChecks(plan, environments.episode_steps)
        self._trained: Trained | None = None
        self._begun, self._environment = 0.0, 0.0

    # ---- what an adapter calls

    def begin(self, about: LibraryNotes) -> None:
        """Records the library's settings, and what it does otherwise than the recipe says."""
        known = self.run.record.library
        assert known is not None
        notes = {"settings": plain(about.settings), "differences": tuple(about.differences)}
        record = known.model_copy(update=notes)
        self.run.write_record(library=record, limits=asdict(self._limits))
        self._channel.send(library=record)

    def updated(self, metrics: Mapping[str, float | None], trained: Trained) -> None:
        """Records the update that the library has just made; evaluates and saves at fixed intervals."""
        if self.env.device.type == "cuda":
            torch.cuda.synchronize(self.env.device)
        now, p, recipe = time.perf_counter(), self.progress, self.recipe
        if self.env.steps != (p.update + 1) * recipe.horizon:
            raise RuntimeError(f"{self.env.steps} steps were taken for update {p.update + 1}")
        begun = self._begun or self.env.begun_at
        p.update += 1
        p.train_seconds += now - begun
        self.measurements.clock.ready(ago=now - begun)
        self.measurements.syncs.after(p.update)
        self._trained = trained
        row, stats = self._row(metrics, begun, now)
        evaluates = p.update % recipe.evaluate_every == 0
        best = self.selection.score(row, self._writer, watch=self._channel.watch) if evaluates else False
        self.measurements.updated(p.update)
        row |= self.measurements.startup(p.update) | {"elapsed_seconds": self.measurements.clock.elapsed()}
        self._live.look(row)
        self._writer.do(partial(write_update, self.run, row, stats))
        self._channel.send(row=row, successes=p.successes)
        if best or p.update % recipe.checkpoint_every == 0:
            self._save(best)
        self.stopped = self._channel.stop()
        if self.stopped or self._limits.reached(p):
            raise TrainingDone
        self._environment = self.env.seconds
        self.measurements.syncs.before(p.update + 1)
        self._begun = time.perf_counter()

    # ---- the run

    def finish(self) -> None:
        """Saves the last policy, chooses the checkpoint that the result is stated on, and says which."""
        self._save(best=False)
        self._writer.wait()
        if not self.stopped:
            self.chosen = self.selection.choose(self._channel.watch)
        status = "interrupted" if self.stopped else "unconfirmed"
        self.run.write_record(status=status, figures=self.figures())
        self._channel.send(chosen=self.chosen, stopped=self.stopped.name if self.stopped else None)

    def figures(self) -> dict[str, float | int | None]:
        """Returns the run's figures so far, as run.json has them."""
        figures = self.measurements.figures(self.plan, self.progress, self.chosen)
        return figures | {"export_error": self.export_error}

    def policy(self) -> PolicyBundle:
        """Returns the library's policy as a bundle, compared with the library itself on what it sees now, and
        on more than it ever sees: so that clipping is compared too."""
        assert self._trained is not None
        exported = self._trained.export()
        bundle = PolicyBundle(self.plan.policy_card(exported.observation_clip), exported.tensors)
        for obs in (self.env.obs, 20 * self.env.obs):
            limit = self.env.clip  # of the environment, which clips what a panel's policy says as well
            with full_precision():
                theirs = self._trained.act(obs).detach().cpu().clamp(-limit, limit)
            ours, _ = bundle(obs.cpu(), torch.zeros(len(obs), 0))
            self.export_error = max(
                self.export_error, float((ours.clamp(-limit, limit) - theirs).abs().max())
            )
        if not self.export_error <= TOLERANCE:
            raise RuntimeError(f"the exported policy acts otherwise than the library: {self.export_error:g}")
        return bundle

    def _row(
        self, metrics: Mapping[str, float | None], begun: float, now: float
    ) -> tuple[dict[str, Any], EpisodeStats]:
        """Returns the ledger's row of the update that ran from `begun` to `now`, and its episode
        statistics."""
        env, inner = self.env, self.env.env
        stats = inner.episode_stats({k: v.cpu() for k, v in inner.stats_tensors().items()})
        rollout, spent = env.rolled_at - begun, env.seconds - self._environment
        cuda = env.device.type == "cuda"  # where the host's clock cannot tell the two apart
        seconds = {
            "environment": rollout if cuda else spent,
            "inference": None if cuda else rollout - spent,
            "learning": now - env.rolled_at,
            "evaluation": 0.0,
        }
        row = ledger_row(
            self._constants,
            self.progress.update,
            block_statistics(env.block, len(inner.reasons), self._constants.strata, env.clip),
            dict.fromkeys(LEARNER_METRICS) | dict(metrics),
            stats,
            seconds,
            self.progress,
        )
        return row | dict.fromkeys(UNKNOWN_ADVANTAGES), stats

    def _save(self, best: bool) -> None:
        """Saves a checkpoint; the writer writes it."""
        assert self._trained is not None
        policy = self.policy()
        tensors = {f"learner.{k}": v for k, v in flatten(self._trained.state()).items()}
        tensors |= {f"policy.{k}": v for k, v in policy.tensors.items()}
        copies = {k: v.to("cpu", copy=True) for k, v in tensors.items()}
        meta = self.selection.checkpoint_meta(policy)
        self._writer.do(partial(self.run.save_checkpoint, copies, meta, best=best))

    def close(self) -> None:
        self.env.env.close()
        self.selection.close()
        self.run.ledger.close()


@contextmanager
def full_precision() -> Iterator[None]:
    """Computes matrix products in float32 within the block. Some libraries let them round to tf32 on a GPU; a
    panel's policy does not. What is compared is what they mean, not how they round."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def flatten(state: Any, name: str = "") -> dict[str, Tensor]:
    """Returns the tensors and numbers of nested mappings and lists by dotted names; words are left out."""
    if isinstance(state, Tensor):
        return {name: state.detach()}
    if isinstance(state, bool | int | float):
        return {name: torch.tensor(float(state), dtype=torch.float64)}
    parts = state.items() if isinstance(state, Mapping) else enumerate(state) if _many(state) else ()
    out: dict[str, Tensor] = {}
    for key, part in parts:
        out |= flatten(part, f"{name}.{key}" if name else str(key))
    return out


def _many(state: Any) -> bool:
    return isinstance(state, list | tuple)


def main(folder: str, limits: str) -> int:
    """Trains the run in `folder` until `limits` (JSON) are reached; returns the exit code."""
    channel = Channel()
    run = RunFolder.open(folder)
    try:
        prepare_torch()
        plan = restore_robot_plan(run)
        with Writer() as writer:
            trainer = LibraryTrainer(plan, run, Limits(**json.loads(limits)), channel, writer)
            trainer.folder.mkdir()
            adapter = importlib.import_module(LIBRARIES[plan.learner].adapter)
            try:
                adapter.train(trainer)
                raise RuntimeError("the library stopped of its own accord")
            except TrainingDone:
                trainer.finish()
        trainer.close()
        if not any(Path(trainer.folder).iterdir()):
            trainer.folder.rmdir()
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
        run.write_record(status="failed", error=reason)
        channel.send(error=reason)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
