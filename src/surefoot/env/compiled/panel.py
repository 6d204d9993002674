"""Episodes played to their ends by compiled kernels: `VecEnv` without resets, as panels have it.

A control step is four kernels (act, physics, task, observe) around whatever policy is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from surefoot.engines.stride import FAILED, TRUNK_CONTACT
from surefoot.env.compiled.env import Compiled
from surefoot.env.rules import resting
from surefoot.env.vec_env import VecEnv

STILL = -float("inf")
"""Logarithm of the exploration's size: a panel has no exploration."""


class CompiledPanel(Compiled):
    """An `EpisodeRunner` (see `surefoot.evaluation`) on the engine of `plain`, which does not reset
    itself."""

    def __init__(self, plain: VecEnv) -> None:
        assert not plain.auto_reset
        super().__init__(plain)
        n, c = self.num_envs, plain.contract

        def empty(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(n, *shape, dtype=kind, device=self.device)

        self._mean, action, log_prob = empty(c.action.size), empty(c.action.size), empty()
        log_std = torch.full((c.action.size,), STILL, device=self.device)
        self._reward, self._terms = empty(), empty(len(c.rewards))
        self._reason = empty(kind=torch.uint8)
        byte, whole = empty(kind=torch.uint8), empty(kind=torch.int32)
        e, a, m = self.engine, self.engine.arrays, self.memory
        rows = [m.rows[f"task.{k}"] for k in plain.state.tensors() if k != "age"]
        self._task = slice(rows[0].start, rows[-1].stop)
        acting = [m.real, m.whole, a.state, a.targets, self._mean, log_std, action, log_prob]
        outcome = [self._reward, self._terms, byte, byte.clone(), self._reason, empty(kind=torch.int64)]
        unused = [self.critic.clone(), whole, whole.clone(), empty(1), empty(1)]
        judging = [0, m.real, m.whole, a.state, a.outputs, a.flags, a.targets, a.staging]
        judging += [m.ground, a.mask, *outcome, *unused]
        seeing = [m.real, m.whole, a.state, a.outputs, a.flags, m.ground, self.obs, self.critic]
        act, task, observe = self._kernels
        self._live = [
            [self._launch(act, share, acting), e.step_launches[0][k], self._launch(task, share, judging)]
            for k, share in enumerate(e.shares)
        ]
        self._look = [[self._launch(observe, share, seeing)] for share in e.shares]
        self.begin()

    def begin(self) -> None:
        """Begins from where `plain` stands."""
        self.memory.take(self.plain)
        self.obs.copy_(self.plain.obs)
        self._first = {k: getattr(self.plain.state, k).clone() for k in ("command", "age")}

    def step(self, action: Tensor) -> dict[str, Tensor]:
        """Takes one control step; returns what to keep of it, for `decode`."""
        self._mean.copy_(action)
        self._run(self._live)
        n, a = self.num_envs, self.engine.arrays
        frame = {"outputs": a.outputs[:, :n].clone(), "flags": a.flags[:, :n].clone()}
        frame |= {"task": self.memory.real[self._task, :n].clone()}
        frame |= {"terms": self._terms, "reward": self._reward, "reason": self._reason}
        env = self.plain
        before = self.obs.clone() if env.faulty is not None else self.obs
        self._run(self._look)
        if env.faulty is not None:
            env.obs = before
            env.state = replace(env.state, age=self.memory.integers("age").long())
            self.obs.copy_(env.see(self.obs))
        return frame

    def decode(self, frames: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the quantities [T, N, ...] of what steps returned, by name."""
        y, flags = frames["outputs"], frames["flags"] != 0
        failed = flags[:, FAILED]
        steps, _, n = y.shape
        rest = self._resting()
        out: dict[str, Tensor] = {}
        for name, (first, count) in self.engine.buffers.outputs.at.items():
            x = y[:, first : first + count].movedim(1, 2)
            x = x.reshape(steps, n, -1, 3) if name.startswith("foot_") else x
            out[name] = torch.where(failed.reshape(steps, n, *(1,) * (x.ndim - 2)), rest[name], x)
        out["trunk_contact"] = flags[:, TRUNK_CONTACT] & ~failed
        for name in ("command", "action", "contact"):
            rows = self.memory.rows[f"task.{name}"]
            first = rows.start - self._task.start
            out[name] = frames["task"][:, first : first + rows.stop - rows.start].movedim(1, 2)
        # Remembered is the command of the step to come; the one followed is that of the frame before.
        out["command"] = torch.cat([self._first["command"][None], out["command"][:-1]])
        out["contact"] = out["contact"] > 0.5
        out["age"] = self._first["age"] + 1 + torch.arange(steps, device=self.device)[:, None]
        return out | {k: frames[k] for k in ("terms", "reward", "reason")}

    def _resting(self) -> dict[str, Tensor]:
        env = self.plain
        return resting(1, len(env.task.robot.feet), env.const.default_pose).tensors()

    def graph_state(self) -> list[Tensor]:
        """Returns nothing: all memory keeps its place."""
        return []

    def set_graph_state(self, tensors: list[Tensor]) -> None:
        assert not tensors
