"""How episodes begin: first levels and staggered ages of environments that are made, the task's memory at an
episode's start, and scenarios of some environments laid out for the engine."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel
from surefoot.engines import Parameters, Start
from surefoot.env.scenarios import Sampler, Scenarios, Script
from surefoot.tasks import TaskState


def first_levels(sampler: Sampler, levels: int, device: torch.device) -> Tensor:
    """Returns terrain levels [N] int64 of first episodes: spread over the lower half."""
    envs = sampler.first + torch.arange(sampler.count, device=device)
    return envs % max(1, levels // 2)


def staggered_ages(sampler: Sampler, device: torch.device) -> Tensor:
    """Returns ages [N] int64 at which first episodes begin: environments that start together would end
    together, and reset together for a long time."""
    env = sampler.first + np.arange(sampler.count)
    u = torch.from_numpy(sampler.seeds.env_uniforms(env, Channel.AGE, 1)[:, 0])
    return (u.to(device) * sampler.episode_steps).long()


def first_task_state(script: Script, feet: int, actions: int) -> TaskState:
    """Returns what the task remembers when episodes of `script` begin: no action yet, all feet down."""
    n = len(script.phase)
    return TaskState(
        age=torch.zeros_like(script.episode),
        command=script.commands[:, 0].clone(),
        action=script.phase.new_zeros(n, actions),
        previous_action=script.phase.new_zeros(n, actions),
        phase=script.phase.clone(),
        contact=torch.ones(n, feet, dtype=torch.bool, device=script.phase.device),
        air_time=script.phase.new_zeros(n, feet),
        landed=script.phase.new_zeros(n, feet),
    )


def spread(s: Scenarios, rows: Tensor, n: int) -> tuple[Start, Parameters]:
    """Returns starts and parameters of `rows` laid out over all `n` environments; the other rows are never
    read."""

    def over_all(record: dict[str, Tensor]) -> dict[str, Tensor]:
        out = {k: v.new_zeros((n, *v.shape[1:])) for k, v in record.items()}
        for k, v in record.items():
            out[k][rows] = v
        return out

    return Start(**over_all(s.start.tensors())), Parameters(**over_all(s.parameters.tensors()))
