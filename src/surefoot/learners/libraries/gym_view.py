"""The environments of a run as a Gymnasium vector environment: numpy in, numpy out, same-step autoreset."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from surefoot.learners.libraries.env import LibraryEnv

Array = NDArray[Any]


class LibraryVectorEnv(VectorEnv[Array, Array, Array]):
    """`infos["final_obs"]` [N, O] holds the last observation, without noise, of episodes that ran out of
    time; `infos["_final_obs"]` says whose."""

    def __init__(self, env: LibraryEnv) -> None:
        self.env, self.num_envs = env, env.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.single_observation_space, _, self.single_action_space = env.spaces()
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Returns what is seen now: seeds are the run's, and first episodes begin at staggered ages."""
        return self.env.obs.cpu().numpy(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        step = self.env.step(torch.from_numpy(np.asarray(actions, np.float32)))
        terminated, truncated = step.terminated.cpu().numpy(), step.truncated.cpu().numpy()
        infos = (
            {"final_obs": step.final_obs.cpu().numpy(), "_final_obs": truncated} if truncated.any() else {}
        )
        return step.obs.cpu().numpy(), step.reward.cpu().numpy(), terminated, truncated, infos
