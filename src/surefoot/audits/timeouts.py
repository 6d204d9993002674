"""Are values bootstrapped where an episode runs out of time, and nowhere else? The run's own collection is
given a world of a few states, whose values are known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.forms import hold_size
from surefoot.env import Stepwise, Transition
from surefoot.rollout import RolloutBlock
from surefoot.training import collect

REWARDS = (2.0, -1.0, 0.5, 3.0)
"""What a step is paid in each state. The first two lead to each other for ever; of the others the first leads
to the second, and that to an end."""
STEPS, EPISODE = 8, 9
"""Steps of a rollout, and those after which time runs out: an odd number, so that no episode runs out of time
in the state that the next one begins in."""
ENVS = 4 * EPISODE
ROUNDING = 1e-3
"""Relative: single precision, enlarged by as many steps as a discount looks ahead; clean runs: below 1e-5."""


class FewStates(Stepwise):
    """Environments in those states; every other one is of the two states without an end."""

    def __init__(self) -> None:
        place = torch.arange(ENVS)
        self.ends = place % 2 == 1
        self.age = place // 2 % EPISODE
        self.state = torch.where(self.ends, 2 + self.age % 2, self.age % 2)
        self.exploration = torch.zeros(ENVS, 1)
        self._look()

    def _look(self) -> None:
        self.obs = self.critic = torch.eye(len(REWARDS))[self.state]

    def step(self, action: Tensor) -> Transition:
        """Leads to the next state, whatever is done."""
        reward = torch.tensor(REWARDS)[self.state]
        terminated = self.state == 3
        self.age, self.state = self.age + 1, self.state + 1 - 2 * (self.state % 2)
        truncated = ~terminated & (self.age >= EPISODE)
        self._look()
        final, over = self.critic, terminated | truncated
        self.state = torch.where(over, 2 * self.ends, self.state)
        self.age = torch.where(over, 0, self.age)
        self._look()
        return Transition(
            reward=reward,
            terms=reward[:, None],
            terminated=terminated,
            truncated=truncated,
            reason=(truncated + 2 * terminated).to(torch.uint8),
            final_critic=final,
            stratum=torch.zeros(ENVS, dtype=torch.int64),
        )


class Table:
    """An actor that does nothing, with a value for each state."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.log_std = torch.from_numpy(values.astype(np.float32)), torch.zeros(1)

    def mean(self, obs: Tensor) -> Tensor:
        return torch.zeros(len(obs), 1)

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.mean(obs), self.mean(obs), torch.zeros(len(obs))

    def value(self, critic: Tensor) -> Tensor:
        return critic @ self.values


def known(gamma: float) -> np.ndarray:
    """Returns the values of the states, by the sums of their discounted rewards."""
    a, b, c, d = REWARDS
    lasting = np.array([a + gamma * b, b + gamma * a]) / (1 - gamma**2)
    return np.array([*lasting, c + gamma * d, d])


def learned(gamma: float, lam: float) -> np.ndarray:
    """Returns the values that a critic comes to which learns the returns of the run's own collection. Those
    are affine in the values that it has, so that what stays as it is follows from five rollouts."""
    basis = np.eye(len(REWARDS))
    at_zero = _returns(np.zeros(len(REWARDS)), gamma, lam)
    slope = np.stack([_returns(e, gamma, lam) - at_zero for e in basis], 1)
    return np.asarray(np.linalg.solve(basis - slope, at_zero))


def _returns(values: np.ndarray, gamma: float, lam: float) -> np.ndarray:
    """Returns the mean return of samples in each state, where the critic has `values`."""
    block = RolloutBlock.empty(STEPS, ENVS, len(REWARDS), len(REWARDS), 1, 1)
    collect(FewStates(), Table(values), block, gamma, lam)
    hold_size("Returns of a rollout", block.returns, (STEPS, ENVS), "learning")
    state = block.critic.argmax(-1).numpy()
    returns = block.returns.double().numpy()
    return np.array([returns[state == s].mean() for s in range(len(REWARDS))])


def look(case: Case) -> list[Found]:
    """Compares what would be learned with what is known."""
    gamma, lam = case.record.recipe.gamma, case.record.recipe.lam
    if not gamma < 1:
        raise NotApplicable("its discount is 1: an endless episode has no value")
    right, there = known(gamma), learned(gamma, lam)
    wrong = ~(np.abs(there - right) <= ROUNDING * (1 + np.abs(right)))
    found = []
    for rows, where in ((slice(0, 2), "run out of time"), (slice(2, 4), "are terminated")):
        if wrong[rows].any():
            said, is_ = (", ".join(f"{x:.4g}" for x in v[rows]) for v in (there, right))
            text = f"Of two states whose episodes only {where} a critic comes to the values {said}, and not"
            found.append(Found(f"{text} to {is_}, which their rewards and the discount make."))
    return found


DETECTORS = (
    Detector(
        name="timeouts",
        kind="proof",
        cause="learning",
        asks="Does an episode that runs out of time go on in its value, and one that is terminated not?",
        statistic="the values that returns of the run's own collection lead a critic to, in two states that "
        "follow each other for ever and two that end, with the run's discounts and a time of nine steps, "
        "against the sums of discounted rewards",
        threshold="relative 1e-3: rounding of single precision, over as many steps as the discount looks "
        "ahead (clean runs: below 1e-5)",
        means="Time that runs out was learned as a fall, or the next episode's start as what followed.",
        remedy="Look at `collect` and at `gae`: what is in `next_value` where an episode was truncated.",
        look=look,
        needs=("ppo",),
        short=True,
    ),
)
