"""Policy and value networks: plain MLPs, a state-independent standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from surefoot.contract import Memory

FORGETFUL = Memory()
LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


@contextmanager
def tf32(allowed: bool, device: torch.device) -> Iterator[None]:
    """Lets matrix products on CUDA read their factors as tf32, or whole."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if allowed else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


class Output(nn.Linear):
    """A last layer, never in tf32. Whether a product that may be in tf32 is, depends on its size, so the same
    few outputs of many rows would differ between acting and learning, and with them every ratio."""

    def forward(self, x: Tensor) -> Tensor:
        with tf32(False, x.device):
            return super().forward(x)


class Elu(nn.Module):
    """Computes ELU for acting: in place, and not differentiable. On a CPU it is the larger of x and
    exp(min(x, 0)) - 1, at half the cost of torch's, which takes the more exact and slower expm1."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return nn.functional.elu_(x)
        return torch.maximum(x, x.clamp(max=0.0).exp_().sub_(1.0), out=x)


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), Elu()]
        inputs = width
    return nn.Sequential(*layers, Output(inputs, outputs))


class Gru(nn.Module):
    """Weights of a gated recurrent unit, begun as torch's: gates reset, update and new. Biases are matrices
    of one column, so that their gradients are made as those of matrices are."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        shapes = {"input": inputs, "state": width, "input_bias": 1, "state_bias": 1}
        for name, columns in shapes.items():
            drawn = torch.empty(3 * width, columns).uniform_(-(width**-0.5), width**-0.5)
            self.register_parameter(name, nn.Parameter(drawn))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """Returns the states [N, H] after observations [N, O], both contiguous."""
        w = dict(self.named_parameters())
        biases = (w[f"{name}_bias"].reshape(-1) for name in ("input", "state"))
        return torch.gru_cell(x, state, w["input"], w["state"], *biases)


class ActorCritic(nn.Module):
    """A Gaussian policy on the observation and a value function on the privileged one, both normalised
    already. With a memory the policy reads what it remembers too."""

    def __init__(
        self,
        observation: int,
        critic: int,
        action: int,
        hidden: tuple[int, ...],
        init_std: float,
        memory: Memory = FORGETFUL,
    ) -> None:
        super().__init__()
        self.actor = mlp(memory.inputs(observation), hidden, action)
        self.critic = mlp(critic, hidden, 1)
        self.log_std = nn.Parameter(torch.full((action,), math.log(init_std)))
        last = self.actor[-1]
        assert isinstance(last, Output)
        with torch.no_grad():  # first actions near the default pose
            last.weight.mul_(0.1)
            last.bias.zero_()
        if memory.kind == "gru":
            self.memory = Gru(observation, memory.size)

    def log_prob(self, mean: Tensor, action: Tensor) -> Tensor:
        """Returns the log density [B] of `action` [B, A] under N(mean, exp(log_std))."""
        z = (action - mean) * torch.exp(-self.log_std)
        return -(0.5 * z.square()).sum(1) - (self.log_std + LOG_ROOT_2PI).sum()


class Layout:
    """Says where an actor-critic's parameters are in one flat vector: log_std, the output layers' biases, the
    hidden layers' biases, then the weights.

    Each begins at a multiple of `align` numbers, and rows of a first layer's are padded with zeros to
    one: a GPU's tensor cores want 16 bytes. Padding stays zero, because the inputs that belong to it are.
    """

    def __init__(self, nets: ActorCritic, align: int) -> None:
        shapes = {name: tuple(p.shape) for name, p in nets.named_parameters()}
        self._shapes = shapes

        def padded(n: int) -> int:
            return -(-n // align) * align

        vectors = [n for n in shapes if len(shapes[n]) == 1 and n != "log_std"]
        outputs = [[n for n in vectors if n.startswith(net)][-1] for net in ("actor", "critic")]
        self._at: dict[str, int] = {}
        at = 0
        for name in ("log_std", *outputs, *(n for n in vectors if n not in outputs)):
            self._at[name] = at
            at += padded(shapes[name][0])
        self.outputs = outputs
        """Names of the actor's and the critic's last bias."""
        self.matrices = at
        """Where the weights begin."""
        matrices = {n: s[1] for n, s in shapes.items() if len(s) == 2}
        self._width = {n: padded(w) if n.endswith(".0.weight") else w for n, w in matrices.items()}
        for name, width in self._width.items():
            self._at[name] = at
            at += padded(shapes[name][0] * width)
        self.size = at

    def at(self, name: str) -> int:
        return self._at[name]

    def view(self, flat: Tensor, name: str) -> Tensor:
        """Returns a view of a parameter, of a matrix with its padding: [outputs, padded inputs]."""
        rows, width = self._shapes[name][0], self._width.get(name, 1)
        x = flat[self._at[name] : self._at[name] + rows * width]
        return x.view(rows, width) if name in self._width else x

    def natural(self, flat: Tensor) -> Tensor:
        """Returns a copy of a flat vector in the order of `named_parameters` and without padding, the same on
        every device."""
        return torch.cat([self._own(flat, name).reshape(-1) for name in self._shapes])

    def restore(self, flat: Tensor, natural: Tensor) -> None:
        """Undoes `natural`."""
        parts = torch.split(natural, [math.prod(s) for s in self._shapes.values()])
        for name, part in zip(self._shapes, parts, strict=True):
            self._own(flat, name).copy_(part.view(self._shapes[name]))

    def _own(self, flat: Tensor, name: str) -> Tensor:
        x = self.view(flat, name)
        return x[:, : self._shapes[name][1]] if name in self._width else x


def flatten(nets: ActorCritic, layout: Layout) -> Tensor:
    """Moves the networks' parameters into one flat tensor, of which they become views."""
    flat = torch.zeros(layout.size, device=nets.log_std.device)
    layout.restore(flat, torch.cat([p.detach().reshape(-1) for p in nets.parameters()]))
    for name, p in nets.named_parameters():
        p.data = layout._own(flat, name)
    return flat


def init_networks(
    observation: int,
    critic: int,
    action: int,
    hidden: tuple[int, ...],
    init_std: float,
    seed: int,
    memory: Memory = FORGETFUL,
) -> ActorCritic:
    """Returns networks whose initial weights depend on `seed` alone; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Gradients are made by hand (gradient.py).
        return ActorCritic(observation, critic, action, hidden, init_std, memory).requires_grad_(False)
