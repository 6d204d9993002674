"""The same task with a sparse reward: paid only while it does what counts as success, and for nothing else.

Called by its name with `+sparse` behind it (`trot-flat+sparse`). Everything but the reward stays, so the
construct id does, and its policies are judged beside those of the shaped reward.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from surefoot.contract import RewardTerm, source_digest
from surefoot.tasks.task import Task, View

SPARSE = "+sparse"


def on_target(v: View, velocity_error_mps: float, yaw_error_radps: float) -> Tensor:
    """1 where both errors of this step are below the limits that the means of an episode are held to."""
    far = (v.robot.linear_velocity[:, :2] - v.task.command[:, :2]).square().sum(1).sqrt()
    turn = (v.robot.angular_velocity[:, 2] - v.task.command[:, 2]).abs()
    return (far < velocity_error_mps).to(torch.float32) * (turn < yaw_error_radps).to(torch.float32)


def sparse(task: Task) -> Task:
    """`task` with one reward term, and no floor that it could need."""
    c = task.contract
    limits = {
        "velocity_error_mps": c.success.velocity_error_mps,
        "yaw_error_radps": c.success.yaw_error_radps,
    }
    term = RewardTerm(
        name="on_target", weight=1.0, params=limits, doc="1 while both errors are below the success limits"
    )
    changed = c.model_copy(update={"name": f"{c.name}{SPARSE}", "rewards": (term,)})
    terms = {n: f for n, f in task.terms.items() if n in changed.term_names} | {"on_target": on_target}
    changed = changed.model_copy(update={"source_digest": source_digest(terms)})
    return replace(task, contract=changed, terms=terms)
