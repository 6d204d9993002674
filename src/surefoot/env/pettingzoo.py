"""PettingZoo's view of a VecEnv: every robot is an agent of one ParallelEnv.

The robots do not meet, so this is for learners that share parameters between agents, and for tools that only
speak PettingZoo. An agent whose episode ends leaves, and comes back with the next `reset`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from surefoot.contract import SurefootError
from surefoot.env.gymnasium import Array, layout_of, reset_info, seed_families, spaces_of, step_info, to_numpy
from surefoot.tasks import task as find_task

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise SurefootError("PettingZoo is not installed; pip install 'surefoot[pettingzoo]'.") from error


class SurefootParallelEnv(ParallelEnv[str, Array, Array]):
    """`num_robots` training environments of a task as agents robot_0, robot_1, ..."""

    metadata = {"name": "surefoot_v0", "render_modes": [], "is_parallelizable": True}
    render_mode = None

    def __init__(
        self,
        task: str = "walk-flat",
        num_robots: int = 8,
        seed: int = 1,
        *,
        engine: str = "auto",
        device: str = "cpu",
    ) -> None:
        self.task = find_task(task)
        self._layout = layout_of(self.task, num_robots, seed_families(num_robots), engine, device)
        self.vec = self._layout.vec(self._layout.sampler(seed), auto_reset=False, stagger=False)
        self.possible_agents = [f"robot_{i}" for i in range(num_robots)]
        self.agents: list[str] = []
        spaces = [
            spaces_of(self.task.contract) for _ in self.possible_agents
        ]  # each its own: they are seeded
        self.observation_spaces = {a: s[0] for a, s in zip(self.possible_agents, spaces, strict=True)}
        self.action_spaces = {a: s[1] for a, s in zip(self.possible_agents, spaces, strict=True)}
        self._untouched = True

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Any]]]:
        """All robots come back. Episode 0 of the seed plan with root `seed`; without one every robot's next
        episode, at first episode 0 of the constructor's seed. There are no options."""
        if seed is not None:
            self.vec.restart(self._layout.sampler(seed), stagger=False)
        elif not self._untouched:
            self.vec.reset_rows(torch.ones(self.vec.num_envs, dtype=torch.bool, device=self.vec.device))
        self._untouched, self.agents = False, list(self.possible_agents)
        return self._of(to_numpy(self.vec.obs)), self._infos(reset_info(self.vec))

    def step(
        self, actions: dict[str, Array]
    ) -> tuple[
        dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Takes one control step of the robots that are still there; each of them needs an action."""
        missing = [a for a in self.agents if a not in actions]
        if missing:
            raise SurefootError(f"{missing[0]} has no action; give one to every agent in `agents`.")
        given = np.zeros((self.vec.num_envs, self.task.contract.action.size), np.float32)
        for agent in self.agents:
            given[self._row(agent)] = actions[agent]
        self._untouched = False
        step = self.vec.step(torch.from_numpy(given).to(self.vec.device))
        reward, terminated, truncated = (to_numpy(x) for x in (step.reward, step.terminated, step.truncated))
        out = (
            self._of(to_numpy(step.obs)),
            {a: float(reward[self._row(a)]) for a in self.agents},
            self._flags(terminated),
            self._flags(truncated),
            self._infos(step_info(self.vec, step)),
        )
        over = terminated | truncated
        self.agents = [a for a in self.agents if not over[self._row(a)]]
        return out

    def state(self) -> Array:
        """Returns [N, C], what a critic may see of all robots; also of those that have left."""
        return to_numpy(self.vec.critic)

    def render(self) -> None:
        return None

    def close(self) -> None:
        self.vec.close()

    def _row(self, agent: str) -> int:
        return int(agent.removeprefix("robot_"))

    def _of(self, rows: Array) -> dict[str, Array]:
        return {a: rows[self._row(a)] for a in self.agents}

    def _flags(self, flags: NDArray[np.bool_]) -> dict[str, bool]:
        return {a: bool(flags[self._row(a)]) for a in self.agents}

    def _infos(self, known: dict[str, Any]) -> dict[str, dict[str, Any]]:
        def at(values: dict[str, Any], i: int) -> dict[str, Any]:
            return {k: at(v, i) if isinstance(v, dict) else v[i] for k, v in values.items()}

        return {a: at(known, self._row(a)) for a in self.agents}
