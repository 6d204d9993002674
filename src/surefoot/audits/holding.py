"""Is a robot that holds its default pose paid more in training than the policy is?"""

from __future__ import annotations

import math

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.lived import edited, live, robots
from surefoot.audits.panel_behaviour import ASKED_MPS
from surefoot.audits.training_behaviour import LONG

STEPS = 40
"""Control steps of either, from the same states in the same episodes: most falls take fewer."""
FEWEST = 7
"""Families with somebody who is told to walk, below which no p reaches a hundredth."""


def look(case: Case) -> list[Found]:
    """Pays both in environments that are told to walk, from the beginning of the same episodes."""
    if len(case.ledger) < LONG:
        raise NotApplicable(f"it has fewer than {LONG} updates")
    env, policy = robots(case), case.policy
    kept = env.snapshot()
    told = np.hypot(*kept["script.commands"][:, 0, :2].double().numpy().T) >= ASKED_MPS
    family = kept["script.family"].numpy()
    if len(np.unique(family[told])) < FEWEST:
        raise NotApplicable(f"fewer than {FEWEST} families of the probe are told to walk")
    env.restore(edited(kept, task__age=env.episode_steps - 1))
    still = torch.zeros(env.num_envs, env.contract.action.size)
    live(env, lambda t: still, 1)  # and all of them begin anew
    start = env.snapshot()
    told = np.hypot(*start["script.commands"][:, 0, :2].double().numpy().T) >= ASKED_MPS
    paid = {}
    for name in ("policy", "pose"):
        env.restore(start)
        total = np.zeros(env.num_envs)
        for _ in range(STEPS):
            action = still if name == "pose" else policy(env.obs, env.obs[:, :0])[0]
            total += live(env, lambda t, a=action: a, 1)[0].outcome["reward"]  # type: ignore[misc]
        paid[name] = total / STEPS
    env.restore(kept)
    return dominated(paid["policy"][told], paid["pose"][told], family[told])


def dominated(policy: np.ndarray, pose: np.ndarray, family: np.ndarray) -> list[Found]:
    """Says whether holding the pose is paid more, by the signs of families [M] as tosses of a coin."""
    more = pose - policy
    signs = np.array([np.sign(more[family == f].mean()) for f in np.unique(family)])
    n, hits = int((signs != 0).sum()), int((signs > 0).sum())
    p = sum(math.comb(n, k) for k in range(hits, n + 1)) / 2**n
    if more.mean() <= 0:
        return []
    text = (
        f"Told to walk, a robot that holds its default pose is paid {pose.mean():.3g} a step in training and "
        f"the policy {policy.mean():.3g}: more in {hits} of {n} families."
    )
    return [Found(text, p)]


DETECTORS = (
    Detector(
        name="hold-pose",
        kind="behaviour",
        cause="behaviour",
        asks="Is the policy paid more in training than a robot that holds its default pose?",
        statistic="reward per step of either over 40 control steps of training environments that are told to "
        "walk at 0.3 m/s and more, from the beginning of the same episodes; families in which holding is "
        "paid more, of runs of 100 updates and more",
        threshold="sign test over families at the common error rate; the mean must agree",
        means="Standing pays better than what was learned: the reward asks for less than the task, or "
        "nothing was learned.",
        remedy="Compare the terms of both: what does walking cost that following the command does not pay?",
        look=look,
        needs=("robot", "ledger"),
    ),
)
