"""Policy and value networks: plain MLPs, a state-independent standard deviation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


class Elu(nn.Module):
    """For acting: in place, and not differentiable. On a CPU as the larger of x and exp(min(x, 0)) - 1, which
    is the same, at half the cost of torch's, which takes the more exact and slower expm1."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return nn.functional.elu_(x)
        return torch.maximum(x, x.clamp(max=0.0).exp_().sub_(1.0), out=x)


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), Elu()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class ActorCritic(nn.Module):
    """A Gaussian policy on the observation and a value function on the privileged one, both normalised
    already."""

    def __init__(
        self, observation: int, critic: int, action: int, hidden: tuple[int, ...], init_std: float
    ) -> None:
        super().__init__()
        self.actor = mlp(observation, hidden, action)
        self.critic = mlp(critic, hidden, 1)
        self.log_std = nn.Parameter(torch.full((action,), math.log(init_std)))
        last = self.actor[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():  # first actions near the default pose
            last.weight.mul_(0.1)
            last.bias.zero_()

    def log_prob(self, mean: Tensor, action: Tensor) -> Tensor:
        """[B] log density of `action` [B, A] under N(mean, exp(log_std))."""
        z = (action - mean) * torch.exp(-self.log_std)
        return -(0.5 * z.square()).sum(1) - (self.log_std + LOG_ROOT_2PI).sum()


def flatten(module: nn.Module) -> Tensor:
    """Moves a module's parameters into one flat tensor, of which they become views."""
    parameters = list(module.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    at = 0
    for p in parameters:
        p.data = flat[at : at + p.numel()].view_as(p)
        at += p.numel()
    return flat


def init_networks(
    observation: int, critic: int, action: int, hidden: tuple[int, ...], init_std: float, seed: int
) -> ActorCritic:
    """Networks whose initial weights depend on `seed` alone; the global torch generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Gradients are made by hand (gradient.py).
        return ActorCritic(observation, critic, action, hidden, init_std).requires_grad_(False)
