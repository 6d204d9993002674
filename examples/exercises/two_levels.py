"""Exercise 4: what more environments in a process do, and what more processes do.

python examples/exercises/two_levels.py                        # one process, more and more environments
python examples/exercises/two_levels.py runs/one runs/two      # the same run by one process and by two
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from surefoot.compute import prepare_torch
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder, read_ledger
from surefoot.training import collect, make_plan

COUNTS = ("samples", "episode.count", "stratum.samples", "family.resets")


def rollout_seconds(envs: int) -> float:
    """Returns the seconds of the quickest of ten rollouts of `walk-flat`: policy and physics alone."""
    plan = make_plan("walk-flat", overrides={"envs": envs})
    r, c = plan.recipe, plan.task.contract
    env = plan.environments(range(envs))
    learner = Ppo(c, r, plan.mirror(env.device), plan.seeds, env.device)
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(r.horizon, envs, *widths, env.device)
    took = []
    for _ in range(10):
        begun = time.perf_counter()
        collect(env, learner, block, r.gamma, r.lam)
        took.append(time.perf_counter() - begun)
    env.close()
    return min(took)


def more_environments() -> None:
    prepare_torch()
    print("environments   ms a rollout of 16 steps     steps/s")
    for envs in (32, 128, 512):
        took = rollout_seconds(envs)
        print(f"{envs:>12,} {1e3 * took:>26.1f} {16 * envs / took:>11,.0f}")


def more_processes(folders: list[Path]) -> None:
    records = [RunFolder.open(p).record for p in folders]
    ledgers = [read_ledger(p / "ledger.jsonl")[0] for p in folders]
    rates = [f"{rows[-1]['steps_per_second']:,.0f}" for rows in ledgers]
    table = [
        ("", [p.name for p in folders]),
        ("processes", [r.versions.get("processes", "1") for r in records]),
        ("environments in all", [str(r.recipe.envs) for r in records]),
        ("training id", [r.training_id[:8] for r in records]),
        ("samples in all", [f"{rows[-1]['samples']:,}" for rows in ledgers]),
        ("steps/s, last update", rates),
    ]
    for name, cells in table:
        print(f"{name:<24}" + "".join(f"{c:>12}" for c in cells))
    pairs = list(zip(*ledgers, strict=True))
    same = all(a[k] == b[k] for a, b in pairs for k in COUNTS)
    apart = [abs(a["kl"] / b["kl"] - 1) for a, b in pairs]
    print(f"\ncounts of every row: {'equal' if same else 'different'}")
    print(f"KL apart by {apart[0]:.0e} after the first update, by {apart[-1]:.0e} after the last")


if __name__ == "__main__":
    given = [Path(p) for p in sys.argv[1:]]
    more_processes(given) if given else more_environments()
