"""An iteration lived again: the run's own learner collects and learns in a probe's environments, and what it
collected is kept with the states of the learner before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.audits import forms
from surefoot.audits.case import Case
from surefoot.audits.lived import Lived, edited, live, robots
from surefoot.audits.slow_memory import SlowMemory
from surefoot.audits.slow_policy import SlowPolicy
from surefoot.audits.whole_steps import Env, ground_below, middles, put_some
from surefoot.contract import Recipe
from surefoot.learners import Ppo, PpoMetrics
from surefoot.rollout import RolloutBlock, with_memory
from surefoot.training import LedgerConstants, Progress, TrainingIteration, honesty_row, ledger_row

Arrays = dict[str, np.ndarray]
ALOFT_M = 1.5
FASTEST = 60.0
"""rad/s; faster than that no robot turns."""


@dataclass(frozen=True)
class Iterated:
    """One iteration: what it collected, the learner's tensors around it, and what it said of itself."""

    block: Arrays  # [T, N, ...] by field
    steps: list[Lived]  # the same actions, taken one by one from the same states
    start: dict[str, Tensor]  # snapshot of the environments before it
    before: dict[str, Tensor]  # of the learner
    after: dict[str, Tensor]
    policy: SlowPolicy  # as it was before
    features: np.ndarray  # [T, N, inputs] what its layers were to read of the block's observations
    metrics: PpoMetrics
    row: dict[str, Any]  # of the ledger
    ended: Arrays  # episodes that ended in it, as they are recorded
    recipe: Recipe  # of the run, with the families and minibatches that the probe's environments make


MOST_EPOCHS = 6
"""After hundreds of gradient steps rounding has grown to what looks like another update. How many steps the
run took is asked of its files."""


def learner_of(case: Case, root: int) -> Ppo:
    """Returns a learner as the run's, in single precision on the CPU, with keys of `root`, for fewer epochs
    where the run has many."""
    plan = case.plan
    epochs = min(plan.recipe.epochs, MOST_EPOCHS)
    recipe = plan.recipe.model_copy(update={"precision": "fp32", "epochs": epochs})
    device = torch.device("cpu")
    seeds = plan.seeds.model_copy(update={"root": root})
    with learning():
        return Ppo(plan.task.contract, recipe, plan.mirror(device), seeds, device)


@contextmanager
def learning() -> Iterator[None]:
    """Makes and changes tensors that a learner's threads may change too: those know of no inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def copied(learner: Ppo) -> dict[str, Tensor]:
    """Returns copies of all that a learner is."""
    return {k: v.clone() for k, v in learner.tensors().items()}


def iterated(case: Case) -> list[Iterated]:
    """Returns two iterations in a row from the run's latest checkpoint, made once for all who ask. In the
    first one every second episode runs out of time, each at another step, and every fourth robot tumbles."""
    return case.once("iterated", lambda: _iterated(case))


def _tumble(case: Case, env: Env, snapshot: dict[str, Tensor], horizon: int) -> None:
    """Restores a snapshot with every fourth robot in the air, turning over, each at another step."""
    task, n = case.robot.task, env.num_envs
    params = {t.name: t.params for t in task.contract.terminations}
    edge = np.arccos(np.clip(-params.get("tilted", {}).get("gravity_z", -0.5), -1, 1))
    step = (np.arange(n) // 4) % max(1, horizon - 2) + 0.5
    turn = np.zeros((n, 3))
    turn[:, 0] = np.minimum(edge * case.plan.recipe.control_hz / step, FASTEST)
    at = middles(env, snapshot)
    high = ground_below(case, env, at) + ALOFT_M
    who = torch.arange(n) % 4 == 1
    put_some(env, snapshot, who, position=np.column_stack([at, high]), angular_velocity=turn)


def _iterated(case: Case) -> list[Iterated]:
    env, plan = robots(case), case.robot
    learner = learner_of(case, case.seed)
    learner.load(case.tensors("latest", "learner"))
    families = len(set(plan.seeds.family_of(case.chosen()).tolist()))
    samples = learner.recipe.horizon * env.num_envs
    learner.recipe = recipe = learner.recipe.model_copy(
        update={"families": families, "minibatches": math.gcd(learner.recipe.minibatches, samples)}
    )
    contract = plan.task.contract
    sizes = (contract.observation_size, contract.critic_size, contract.action.size, len(contract.rewards))
    with learning():
        block = RolloutBlock.empty(recipe.horizon, env.num_envs, *sizes)
        block = with_memory(block, recipe.remembers, learner.mirrors)
    iteration = TrainingIteration(
        env, learner, block, recipe, strata=contract.strata.shape, action_clip=contract.action.clip
    )
    constants = replace(LedgerConstants.of(plan, env, 0), rollout_shape=(recipe.horizon, env.num_envs))
    kept = env.snapshot()
    age = kept["task.age"].clone()
    age[::2] = env.episode_steps - 1 - torch.arange(len(age[::2])) % (recipe.horizon - 1)
    _tumble(case, env, edited(kept, task__age=age), recipe.horizon)
    env.episode_stats(
        {k: v.clone() for k, v in env.stats_tensors().items()}
    )  # what ended before is forgotten
    out: list[Iterated] = []
    memory, begins = SlowMemory(recipe.remembers), np.ones((1, env.num_envs), bool)
    for number in (1, 2):
        start, before = env.snapshot(), copied(learner)
        with learning():
            result = iteration.run(number, with_batch_stats=True)
        result.wait()
        stats = iteration.episode_stats(result)
        said = asdict(iteration.metrics(result))
        row = ledger_row(
            constants, number, result.host["figures"], said, stats, result.seconds, Progress(number)
        )
        row |= honesty_row(result.host["honesty"], block.reward.numel())
        after, held = copied(learner), env.snapshot()
        arrays = {f.name: getattr(block, f.name).numpy().copy() for f in fields(block)}
        actions = torch.from_numpy(arrays["action"])
        env.restore(start)
        steps = live(env, lambda t, a=actions: a[t], recipe.horizon)  # type: ignore[misc]
        env.episode_stats({k: v.clone() for k, v in env.stats_tensors().items()})
        env.restore(held)
        names = stats.ended[0].keys() if stats.ended else ()
        ended = {k: np.concatenate([e[k] for e in stats.ended]) for k in names}
        forms.hold("A rollout block", arrays, forms.block_form(contract), "batch", lead=2)
        forms.hold("A learner", after, forms.learner_form(contract, recipe), "learning", lead=0)
        if ended:
            own = {k: v for k, v in case.episodes_form.items() if k != "update"}
            forms.hold("A record of episodes that ended", ended, own, "bookkeeping")
        policy = SlowPolicy(before, recipe.normalise)
        begins = np.concatenate([begins[-1:], arrays["terminated"] | arrays["truncated"]])
        features = policy.features(memory, arrays["obs"], begins[:-1])
        metrics = iteration.metrics(result)
        out.append(
            Iterated(arrays, steps, start, before, after, policy, features, metrics, row, ended, recipe)
        )
    iteration.close()
    env.restore(kept)
    return out
