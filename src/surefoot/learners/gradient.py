"""The gradient of an MLP by hand, in buffers made once: the chain rule as matrix products.

Autograd gives the same (a test holds them together) but keeps, allocates and revisits intermediate tensors,
and cannot be told where its results belong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from surefoot.launch import Launch
from surefoot.learners import kernels


class Weights:
    """An MLP's weights as its matrix products want them, taken over by `refresh` once per step.

    On a CPU they are also kept transposed in memory, which makes the forward pass a sixth faster; in another
    type than float32 they are copies of the float32 ones that the optimiser owns.
    """

    def __init__(self, net: nn.Sequential, dtype: torch.dtype) -> None:
        self._layers = [m for m in net if isinstance(m, nn.Linear)]
        self.weight: list[Tensor] = [layer.weight.detach() for layer in self._layers]
        self.bias: list[Tensor] = [layer.bias.detach() for layer in self._layers]
        self._copies: list[tuple[Tensor, Tensor]] = []
        if dtype != torch.float32:
            self.weight, self.bias = self._copied(self.weight, dtype), self._copied(self.bias, dtype)
        self.transposed = [w.t() for w in self.weight]
        if self.weight[0].device.type == "cpu":
            self.transposed = self._copied(self.transposed, dtype)

    def _copied(self, tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
        copies = [torch.empty(t.shape, dtype=dtype, device=t.device) for t in tensors]
        self._copies += zip(copies, tensors, strict=True)
        return copies

    def refresh(self) -> None:
        for mine, original in self._copies:
            mine.copy_(original)


class Tape:
    """Forward and backward pass of one MLP on `rows` rows."""

    def __init__(self, weights: Weights, rows: int, gradient: Sequence[Tensor]) -> None:
        """`gradient`: where the gradients of the weights and biases go, layer by layer."""
        self._weights, self._rows = weights, rows
        like = weights.weight[0]
        self._low = like.dtype != torch.float32
        widths = [len(b) for b in weights.bias]
        self._out, self._back = ([like.new_empty(rows, w) for w in widths] for _ in range(2))
        self._weight_gradient, self._bias_gradient = gradient[0::2], gradient[1::2]
        self.result = torch.zeros(rows, widths[-1], device=like.device)  # [rows, outputs] of `forward`
        self.by_result = torch.zeros_like(self.result)  # [rows, outputs] that `backward` begins with
        if not self._low:
            self._out[-1] = self.result
        self._activate = self._activations()

    def _activations(self) -> list[Callable[[], object]]:
        """An ELU in place for every hidden layer."""
        hidden = self._out[:-1]
        if self.result.device.type != "cpu" or self._low:
            return [partial(nn.functional.elu_, x) for x in hidden]
        return [Launch(kernels.elu, len(x), [x], x.device) for x in hidden]

    def cut(self, rows: int) -> Tape:
        """The same for the first `rows` rows only, in the same memory."""
        if rows == self._rows:
            return self
        mine = copy.copy(self)
        mine._rows = rows
        mine._out, mine._back = [x[:rows] for x in self._out], [x[:rows] for x in self._back]
        mine.result, mine.by_result = self.result[:rows], self.by_result[:rows]
        mine._activate = mine._activations()
        return mine

    def forward(self, x: Tensor) -> None:
        """x [rows, inputs] -> result."""
        w, last = self._weights, len(self._out) - 1
        self._inputs = [x.to(w.weight[0].dtype)]
        for k, out in enumerate(self._out):
            torch.addmm(w.bias[k], self._inputs[k], w.transposed[k], out=out)
            if k < last:
                self._activate[k]()
            self._inputs.append(out)
        if self._low:
            self.result.copy_(self._out[-1])

    def backward(self, add: bool) -> None:
        """The gradients given `by_result`, written, or added to what is there already."""
        gradient = self.by_result.to(self._out[0].dtype)
        for k in reversed(range(len(self._out))):
            x = self._inputs[k]
            if add:
                self._weight_gradient[k].addmm_(gradient.t(), x)
                self._bias_gradient[k].add_(gradient.sum(0))
            else:
                torch.mm(gradient.t(), x, out=self._weight_gradient[k])
                torch.sum(gradient, 0, out=self._bias_gradient[k])
            if k:
                gradient = torch.mm(gradient, self._weights.weight[k], out=self._back[k - 1])
                torch.ops.aten.elu_backward.grad_input(gradient, 1, 1, 1, True, x, grad_input=gradient)


def views(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """A flat tensor as tensors of the given shapes, one after the other."""
    return [p.view(s) for p, s in zip(torch.split(flat, [s.numel() for s in shapes]), shapes, strict=True)]
