# %% [markdown]
# A run from its plan to its verdict, cell by cell. Open it in an editor that knows `# %%` cells, or run it
# whole: python examples/notebook.py
#
# The settings below make it small enough to end in seconds, and too small to learn to walk: the verdict says
# so. `surefoot.train("walk-flat")` without them takes minutes and walks.

# %%
import numpy as np

import surefoot

TASK = "walk-flat"
SMALL = {"envs": 64, "families": 8, "eval_families": 4, "updates": 4, "evaluate_every": 2}

# %% [markdown]
# What would happen, before it does. Nothing is written but the file that is asked for.

# %%
plan = surefoot.plan(TASK, seed=3, perturb=("friction",), **SMALL)
print(plan)
plan.save("walk.json")

# %% [markdown]
# Train it: from the plan, from the file (on another machine, next year), or in one line.

# %%
run = surefoot.train(config="walk.json", out="runs/first")
print(run)
print(run.verdict, run.success)

# %%
other = surefoot.train(TASK, seed=4, perturb=("friction",), out="runs/second", **SMALL)
other = surefoot.resume(other, updates=6, perturb=("friction",))
print(other)

# %% [markdown]
# Its tables are pandas DataFrames (pyarrow Tables where pandas is not installed).

# %%
print(run.ledger[["update", "samples", "reward_per_step"]])
print(len(run.episodes), "training episodes,", len(run.held_out), "held-out ones")

# %% [markdown]
# Judge it further, and against another run.

# %%
evaluation = surefoot.evaluate(run, half="selection", perturb="none", baselines=False)
print(evaluation)
print(surefoot.compare(run, other))
print(surefoot.promote(other, run))
print(surefoot.postmortem(run))

# %%
scenario = int(run.held_out["scenario"][0])
print(surefoot.replay(run, scenario, verify=True))
print(surefoot.report(run, other, out="both.html"))

# %% [markdown]
# The policy by itself, as a robot would run it: numpy in, numpy out.

# %%
policy = surefoot.Policy.load("runs/first/policy.safetensors")
print(policy)
observation = np.zeros(sum(term.size for term in policy.card.observation), np.float32)
print(policy(observation))
