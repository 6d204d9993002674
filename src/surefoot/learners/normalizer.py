"""Running mean and variance of observations, frozen while a rollout is collected and learned from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.compute import SINGLE, ProcessGroup
from surefoot.compute.warp import Launch
from surefoot.learners.kernels import ROWS, moments, take_in
from surefoot.learners.symmetry import Reflection

EPSILON = 1e-3
"""Added to the standard deviation: inputs that hardly vary are not blown up."""


class Normalizer:
    """Normalises observations: y = (x - mean) / (std + EPSILON). With a reflection the statistics are those
    of the data and its mirror image. Its tensors keep their memory for life."""

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
        same = Reflection(torch.arange(size, device=device), torch.ones(size, device=device))
        self._mirror = reflection or same

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.scale()

    def scale(self) -> Tensor:
        """Returns what differences from the mean are multiplied by [size], in acting and in learning alike:
        dividing instead rounds otherwise."""
        return 1 / (self.var.sqrt() + EPSILON)

    @torch.no_grad()
    def update(self, x: Tensor, group: ProcessGroup = SINGLE) -> None:
        """Takes a batch [B, size] into account, of every process its own; beyond `window` samples old ones
        fade exponentially."""
        rows, size = x.shape
        columns = size if x.device.type == "cpu" else 1
        sums = x.new_empty(-(-rows // ROWS), 2 * size)
        Launch(moments, len(sums) * (size // columns), [columns, x, sums], x.device)()
        totals = torch.mv(sums.t(), sums.new_ones(len(sums)))
        base = x[0]
        if group.world > 1:
            base, totals, rows = self._together(base, totals, rows, group)
        mirror, count = self._mirror, self.count.view(1)
        inputs: list[Tensor | float] = [mirror.index, mirror.sign, rows, base, totals]
        inputs += [count, self.mean, self.var]
        Launch(take_in, size, inputs, x.device)()
        self.count.add_(rows).clamp_max_(self.window)

    def _together(
        self, base: Tensor, totals: Tensor, rows: int, group: ProcessGroup
    ) -> tuple[Tensor, Tensor, int]:
        """Returns the moments of all processes' batches, as differences from what all of them know: the mean
        so far."""
        first, square = totals.double().view(2, -1)
        apart = (base - self.mean).double()
        sums = torch.cat([first + rows * apart, square + 2 * apart * first + rows * apart * apart])
        group.all_reduce_sum_(sums)
        return self.mean.clone(), sums.float(), rows * group.world

    def tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
