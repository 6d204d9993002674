"""Running mean and variance of observations, frozen while a rollout is collected and learned from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.learners.symmetry import Reflection

EPSILON = 1e-3
"""Added to the standard deviation: inputs that hardly vary are not blown up."""


class Normalizer:
    """y = (x - mean) / (std + EPSILON). With a reflection the statistics are those of the data and its mirror
    image. Its tensors keep their memory for life."""

    def __init__(
        self,
        size: int,
        window: float,
        reflection: Reflection | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.mean = torch.zeros(size, device=device)
        self.var = torch.ones(size, device=device)
        self.count = torch.full((), 1e-4, dtype=torch.float64, device=device)
        self.window, self.reflection = window, reflection

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.scale()

    def scale(self) -> Tensor:
        """[size] by which differences from the mean are multiplied, in acting and in learning alike: dividing
        instead rounds otherwise."""
        return 1 / (self.var.sqrt() + EPSILON)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Takes a batch [B, size] into account; beyond `window` samples old ones fade exponentially."""
        mean = x.mean(0)
        var = (x - mean).square_().mean(0)  # a CPU's torch.var takes several times as long
        if self.reflection is not None:
            mirrored = self.reflection(mean)
            var = (var + var[self.reflection.index]) / 2 + ((mean - mirrored) / 2).square()
            mean = (mean + mirrored) / 2
        n = float(x.shape[0])
        total = self.count + n
        delta = mean - self.mean
        share = (n / total).to(self.mean.dtype)
        self.mean += delta * share
        self.var.copy_(self.var * (1 - share) + var * share + delta.square() * share * (1 - share))
        self.count.copy_(total.clamp_max(self.window))

    def tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, mine in self.tensors().items():
            mine.copy_(tensors[name])
