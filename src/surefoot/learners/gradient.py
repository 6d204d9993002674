"""The gradient of an MLP by hand, in buffers made once: the chain rule as matrix products.

Autograd gives the same (a test holds them together) but keeps, allocates and revisits intermediate tensors,
and cannot be told where its results belong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from surefoot.launch import Launch
from surefoot.learners import kernels


class Weights:
    """An MLP's weights as its matrix products want them, taken over by `refresh` once per step.

    On a CPU they are also kept transposed in memory, which makes the forward pass a sixth faster; in another
    type than float32 they are copies of the float32 ones that the optimiser owns. The first layer's have
    columns of zeros up to a multiple of `align` inputs: a GPU's tensor cores want rows that begin at
    multiples of 16 bytes.
    """

    def __init__(self, net: nn.Sequential, dtype: torch.dtype, align: int) -> None:
        layers = [m for m in net if isinstance(m, nn.Linear)]
        self.weight: list[Tensor] = [layer.weight.detach() for layer in layers]
        self.bias: list[Tensor] = [layer.bias.detach() for layer in layers]
        self._copies: list[Tensor] = []
        self._originals: list[Tensor] = []
        outputs, inputs = self.weight[0].shape
        self.inputs = -(-inputs // align) * align
        if self.inputs != inputs:
            wide = torch.zeros(outputs, self.inputs, device=self.weight[0].device)
            self._copies.append(wide[:, :inputs])
            self._originals.append(self.weight[0])
            self.weight[0] = wide
        if dtype != torch.float32:
            self.weight, self.bias = self._copied(self.weight, dtype), self._copied(self.bias, dtype)
        self.transposed = [w.t() for w in self.weight]
        if self.weight[0].device.type == "cpu":
            self.transposed = self._copied(self.transposed, dtype)

    def _copied(self, tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
        copies = [torch.empty(t.shape, dtype=dtype, device=t.device) for t in tensors]
        self._copies += copies
        self._originals += tensors
        return copies

    def refresh(self) -> None:
        for mine, original in zip(self._copies, self._originals, strict=True):
            mine.copy_(original)


class Tape:
    """Forward and backward pass of one MLP on `rows` rows."""

    def __init__(self, weights: Weights, rows: int, gradient: Sequence[Tensor]) -> None:
        """`gradient`: where the gradients of the weights and biases go, layer by layer."""
        self._weights = weights
        like = weights.weight[0]
        self._low = like.dtype != torch.float32
        widths = [len(b) for b in weights.bias]
        self._out, self._back = ([like.new_empty(rows, w) for w in widths] for _ in range(2))
        self._weight_gradient, self._bias_gradient = gradient[0::2], gradient[1::2]
        wide = weights.inputs != self._weight_gradient[0].shape[1]
        self._wide_gradient = torch.empty_like(like) if wide else None
        self.result = torch.zeros(rows, widths[-1], device=like.device)  # [rows, outputs] of `forward`
        self.by_result = torch.zeros_like(self.result)  # [rows, outputs] that `backward` begins with
        if not self._low:
            self._out[-1] = self.result
        hidden = self._out[:-1]
        self._activate: list[Callable[[], object]] = [partial(nn.functional.elu_, x) for x in hidden]
        if like.device.type == "cpu" and not self._low:
            self._activate = [Launch(kernels.elu, rows, [x], x.device) for x in hidden]

    def forward(self, x: Tensor) -> None:
        """x [rows, weights.inputs] -> result."""
        w, last = self._weights, len(self._out) - 1
        self._inputs = [x.to(w.weight[0].dtype)]
        for k, out in enumerate(self._out):
            torch.addmm(w.bias[k], self._inputs[k], w.transposed[k], out=out)
            if k < last:
                self._activate[k]()
            self._inputs.append(out)
        if self._low:
            self.result.copy_(self._out[-1])

    def backward(self) -> None:
        """The gradients, given `by_result`."""
        gradient = self.by_result.to(self._out[0].dtype)
        for k in reversed(range(len(self._out))):
            x = self._inputs[k]
            if k == 0 and self._wide_gradient is not None:
                torch.mm(gradient.t(), x, out=self._wide_gradient)
                mine = self._weight_gradient[0]
                mine.copy_(self._wide_gradient[:, : mine.shape[1]])
            else:
                torch.mm(gradient.t(), x, out=self._weight_gradient[k])
            torch.sum(gradient, 0, out=self._bias_gradient[k])
            if k:
                gradient = torch.mm(gradient, self._weights.weight[k], out=self._back[k - 1])
                torch.ops.aten.elu_backward.grad_input(gradient, 1, 1, 1, True, x, grad_input=gradient)


def views(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """A flat tensor as tensors of the given shapes, one after the other."""
    return [p.view(s) for p, s in zip(torch.split(flat, [s.numel() for s in shapes]), shapes, strict=True)]
