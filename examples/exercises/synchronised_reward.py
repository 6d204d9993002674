"""Exercise 3: plant a reward bug that hits all environments at once, and see which figures show it.

    python examples/exercises/synchronised_reward.py

Two short runs from the same seed. In the second one, `track_linear` is paid to every environment as
environment 0 earned it: an index forgotten in a batched reward. Everything else is the same. Planning refuses
such a term, so it is planted in a plan that was made without it. Both train on native MuJoCo, where terms are
functions of the whole batch.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from surefoot.learners import Ppo
from surefoot.robots import robot
from surefoot.rollout import RolloutBlock
from surefoot.runs import read_ledger
from surefoot.tasks import Task, View, velocity_task
from surefoot.trackers import NullTracker
from surefoot.training import UNOBSERVED, Limits, Plan, Trainer, collect, make_plan, new_run

UPDATES = 20
SMALL = {"envs": 32, "families": 8, "horizon": 16, "minibatches": 2, "epochs": 2, "hidden": (32, 32)}
SHOWN = ("track_linear", "track_yaw", "tilt", "torque")


def track_linear(v: View, width: float) -> Tensor:
    """As the task's own term was meant: each environment is paid for its own error."""
    error = v.task.command[:, :2] - v.robot.linear_velocity[:, :2]
    return (-error.square().sum(1) / width).exp()


def track_linear_of_one(v: View, width: float) -> Tensor:
    """The bug: `[:1]` too much, and everybody is paid for the error of environment 0."""
    paid = track_linear(v, width)
    return paid[:1].expand_as(paid)


def sound() -> Task:
    return velocity_task(
        "sound", robot=robot("go1"), panel="walk-flat-v2", terms={"track_linear": track_linear}
    )


def planned(name: str) -> Plan:
    """Returns the plan of the sound task, or the same with the bug in it."""
    plan = make_plan(f"{__name__}:sound", overrides=SMALL, engine="mujoco")
    if name == "sound":
        return plan
    terms = {**plan.task.terms, "track_linear": track_linear_of_one}
    return replace(plan, task=replace(plan.task, terms=terms))


def from_the_ledger(name: str) -> dict[str, float]:
    """Trains a short run and reads what its ledger says, update by update."""
    plan = planned(name)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(plan, f"{folder}/{name}")
        trainer = Trainer(plan, run, select=False)  # nothing is scored: this is about what training records
        trainer.train(Limits(updates=UPDATES), UNOBSERVED, NullTracker(run.path, {}))
        trainer.close()
        rows, _ = read_ledger(run.path / "ledger.jsonl")
    term = [r["reward.track_linear"] for r in rows]
    return {
        "reward.track_linear, mean over updates": statistics.fmean(term),
        "reward.track_linear, spread between updates": statistics.stdev(term),
        "reset.tilted + trunk_contact + sunk, all updates": sum(
            r["reset.tilted"] + r["reset.trunk_contact"] + r["reset.sunk"] for r in rows
        ),
        "explained_variance, last five updates": statistics.fmean(r["explained_variance"] for r in rows[-5:]),
        "honesty.n_eff_return, last look": rows[-1]["honesty.n_eff_return"],
    }


def shared_by_step(values: Tensor) -> float:
    """Returns the share of the variance of [T, N] values that lies between steps: near 0 where environments
    differ, 1 where all of them are paid alike at every step."""
    return float(values.mean(1).var(correction=0) / values.var(correction=0))


def by_term(name: str) -> dict[str, float]:
    """Collects one rollout block and returns that share for some reward terms."""
    plan = planned(name)
    r, c = plan.recipe, plan.task.contract
    env = plan.environments(range(r.envs))
    learner = Ppo(c, r, plan.mirror(env.device), plan.seeds, env.device)
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(r.horizon, r.envs, *widths, env.device)
    collect(env, learner, block, r.gamma, r.lam)
    env.close()
    names = [t.name for t in c.rewards]
    return {name: shared_by_step(block.terms[:, :, names.index(name)]) for name in SHOWN}


def show(title: str, ask: Callable[[str], dict[str, float]], form: str) -> None:
    tables = [ask("sound"), ask("synchronised")]
    print(f"{title:<50}{'sound':>10}{'planted':>10}")
    for name, value in tables[0].items():
        print(f"{name:<50}{value:>10{form}}{tables[1][name]:>10{form}}")
    print()


if __name__ == "__main__":
    show("What the ledger says", from_the_ledger, ".4g")
    show("Share of variance between steps, one block", by_term, ".2f")
