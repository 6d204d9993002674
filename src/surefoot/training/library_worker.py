"""A run whose loop belongs to a library, in a process of its own:
`python -m surefoot.training.library_worker RUN LIMITS`.

The library calls, we record: ledger, evaluations and checkpoints go into the run folder as `Trainer` puts
them there. What is said on stdout is for `LibraryProcess` in the parent, a JSON object a line; what the
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
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from surefoot.artifacts import plain
from surefoot.compute import Writer, prepare_torch
from surefoot.contract import Timeouts
from surefoot.env import TrainSampler
from surefoot.learners import PpoMetrics
from surefoot.learners.libraries import LIBRARIES, LibraryEnv, LibraryNotes, Trained, TrainingDone
from surefoot.policy import PolicyBundle, policy_card
from surefoot.runs import RunFolder
from surefoot.training.batch import block_statistics, ledger_row
from surefoot.training.plan import RobotPlan
from surefoot.training.restore import restore_robot_plan
from surefoot.training.selection import Limits, Scored
from surefoot.training.trainer import training_env

TOLERANCE = 1e-3
"""Most that an exported policy's actions may differ from the library's own; rounding is 1e-6."""
SILENT = (*PpoMetrics.__dataclass_fields__,)
"""Figures of the learner; null where a library does not tell."""
UNKNOWN = ("mean", "std", "p01", "p99", "largest", "by_stratum")
"""Of advantages, which libraries keep to themselves."""


class Channel:
    """To and from the parent."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)  # what a library prints is for the log
        self._alone = False

    def send(self, **message: Any) -> None:
        try:
            os.write(self._out, (json.dumps(plain(message)) + "\n").encode())
        except BrokenPipeError:  # the parent is gone; what there is to say is in the run folder too
            self._alone = True

    def stop(self) -> signal.Signals | None:
        """The signal that the parent was stopped by; SIGTERM if it is gone."""
        if self._alone:
            return signal.SIGTERM
        if not select.select([0], [], [], 0)[0]:
            return None
        said = os.read(0, 64).decode().strip()
        return signal.Signals[said] if said else signal.SIGTERM


class LibraryTrainer(Scored):
    """One run, as `Trainer` is for our own learner, and what an adapter is given (`AdapterSession`)."""

    def __init__(
        self, plan: RobotPlan, run: RunFolder, limits: Limits, channel: Channel, writer: Writer
    ) -> None:
        super().__init__(plan, run)
        self._writer = writer
        self.recipe, self.seed, self.device = plan.recipe, plan.seeds.root, plan.device
        self.timeouts: Timeouts = plan.timeouts
        self.folder = run.path / "library"
        self._limits, self._channel = limits, channel
        self._task = task = plan.task
        device, atlas = torch.device(plan.device), plan.atlas()
        sampler = TrainSampler(task.contract, task.robot, plan.seeds, self.recipe.control_hz, atlas, device)
        self.env = LibraryEnv(training_env(plan, sampler, atlas), self.recipe.horizon, self.recipe.gamma)
        self._trained: Trained | None = None
        self._begun, self._environment = 0.0, 0.0
        self.export_error = 0.0
        """Largest difference between the exported policy's actions and the library's own."""

    # ---- what an adapter calls

    def begin(self, about: LibraryNotes) -> None:
        told = {"settings": plain(about.settings), "differences": tuple(about.differences)}
        known = self.run.record.library
        assert known is not None
        record = known.model_copy(update=told)
        self.run.write_record(library=record)
        self._channel.send(library=record)

    def updated(self, metrics: Mapping[str, float | None], trained: Trained) -> None:
        if self.env.device.type == "cuda":
            torch.cuda.synchronize(self.env.device)
        now, p, recipe = time.perf_counter(), self.progress, self.recipe
        if self.env.steps != (p.update + 1) * recipe.horizon:
            raise RuntimeError(f"{self.env.steps} steps were taken for update {p.update + 1}")
        begun = self._begun or self.env.begun_at
        p.update += 1
        p.train_seconds += now - begun
        self._syncs.after(p.update)
        self._trained = trained
        row = self._row(metrics, begun, now)
        best = self._score(row, self._writer) if p.update % recipe.evaluate_every == 0 else False
        if not self.startup:
            self._started()
            row |= self.startup
        self._writer.do(partial(self.run.ledger.append, row))
        self._channel.send(row=row, successes=p.successes)
        if best or p.update % recipe.checkpoint_every == 0:
            self._checkpoint(best)
        self.stopped = self._channel.stop()
        if self.stopped or self._reached(self._limits):
            raise TrainingDone
        self._environment = self.env.seconds
        self._syncs.before(p.update + 1)
        self._begun = time.perf_counter()

    # ---- the run

    def finish(self) -> None:
        self._checkpoint(best=False)
        self._writer.wait()
        if not self.stopped:
            self.chosen = self._choose()
        status = "interrupted" if self.stopped else "finished"
        self.run.write_record(status=status, figures=self.figures())
        self._channel.send(chosen=self.chosen, stopped=self.stopped.name if self.stopped else None)

    def figures(self) -> dict[str, float | int | None]:
        return super().figures() | {"export_error": self.export_error}

    def policy(self) -> PolicyBundle:
        """The library's policy as a bundle, compared with the library itself on what it sees now, and on
        more than it ever sees: so that clipping is compared too."""
        assert self._trained is not None
        found, r, task = self._trained.export(), self.recipe, self._task
        card = policy_card(
            task.contract, task.robot, r.control_hz, r.hidden, r.normalise, found.observation_clip
        )
        bundle = PolicyBundle(card, found.tensors)
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

    def _row(self, metrics: Mapping[str, float | None], begun: float, now: float) -> dict[str, Any]:
        plan, p, env = self.plan, self.progress, self.env
        inner, block = env.env, env.block
        stats = inner.episode_stats({k: v.cpu() for k, v in inner.stats_tensors().items()})
        self._writer.do(partial(self.run.add_episodes, stats.ended, p.update))
        self._writer.do(partial(self.run.save_failures, stats.failures, p.update))
        rollout, spent = env.rolled_at - begun, env.seconds - self._environment
        cuda = env.device.type == "cuda"  # where the host's clock cannot tell the two apart
        seconds = {
            "environment": rollout if cuda else spent,
            "inference": None if cuda else rollout - spent,
            "learning": now - env.rolled_at,
            "evaluation": 0.0,
        }
        row = ledger_row(
            block_statistics(block, len(inner.reasons), plan.accounting.strata, env.clip),
            dict.fromkeys(SILENT) | dict(metrics),
            stats,
            update=p.update,
            shape=plan.accounting.rollout_shape,
            reward_names=inner.reward_names,
            reasons=inner.reasons,
            families=plan.recipe.families,
            strata=plan.accounting.strata,
            seconds=seconds,
            train_seconds=p.train_seconds,
            wall_seconds=p.train_seconds + p.evaluation_seconds,
            control_hz=plan.recipe.control_hz,
            epochs=plan.recipe.epochs,
            gradient_steps=plan.accounting.gradient_steps,
            buffer_bytes=block.bytes,
        )
        return row | dict.fromkeys(f"advantage.{k}" for k in UNKNOWN)

    def _checkpoint(self, best: bool) -> None:
        assert self._trained is not None
        policy = self.policy()
        tensors = {f"learner.{k}": v for k, v in flatten(self._trained.state()).items()}
        tensors |= {f"policy.{k}": v for k, v in policy.tensors.items()}
        copies = {k: v.to("cpu", copy=True) for k, v in tensors.items()}
        self._writer.do(partial(self.run.save_checkpoint, copies, self._meta(policy), best=best))

    def close(self) -> None:
        self.env.env.close()
        super().close()


@contextmanager
def full_precision() -> Iterator[None]:
    """Some libraries let matrix products on a GPU round to tf32; a panel's policy does not. What is compared
    is what they mean, not how they round."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def flatten(state: Any, name: str = "") -> dict[str, Tensor]:
    """Tensors and numbers of nested mappings and lists, by dotted names; words are left out."""
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
        said = f"{type(error).__name__}: {error}"
        run.write_record(status="failed", error=said)
        channel.send(error=said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
