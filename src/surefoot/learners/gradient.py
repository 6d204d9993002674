"""The gradient of an MLP by hand, in buffers made once: the chain rule as matrix products.

Autograd gives the same (a test holds them together) but keeps, allocates and revisits intermediate tensors,
and cannot be told where its results belong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from surefoot.compute.warp import Launch
from surefoot.learners.kernels import elu, elu_back
from surefoot.learners.networks import Layout, tf32


class Weights:
    """Holds an MLP's weights as its matrix products want them, views of a flat vector.

    On a CPU they are also kept transposed in memory, taken over by `refresh` once per step, which makes the
    forward pass a sixth faster.
    """

    def __init__(self, net: str, layers: Sequence[int], layout: Layout, flat: Tensor) -> None:
        self.weight = [layout.view(flat, f"{net}.{k}.weight") for k in layers]
        self.bias = [layout.view(flat, f"{net}.{k}.bias") for k in layers]
        self.inputs = self.weight[0].shape[1]
        self.transposed = [w.t() for w in self.weight]
        self._copied = flat.device.type == "cpu"
        if self._copied:
            self.transposed = [w.contiguous() for w in self.transposed]

    def refresh(self) -> None:
        if self._copied:
            for copy, original in zip(self.transposed, self.weight, strict=True):
                copy.copy_(original.t())


class Tape:
    """Does the forward and backward pass of one MLP on as many rows as `x` [rows, weights.inputs] has."""

    def __init__(
        self, weights: Weights, x: Tensor, gradient: Sequence[Tensor], sums: Tensor, columns: Sequence[int]
    ) -> None:
        """`gradient`: where those of the weights go, layer by layer. Those of the hidden layers' biases go to
        `sums` [groups of rows, :], from the columns given; that of the output layer's is not made here."""
        self._weights, self._weight_gradient = weights, gradient
        widths = [len(b) for b in weights.bias]
        out, self._back = ([x.new_zeros(len(x), w) for w in widths] for _ in range(2))
        self._inputs, self._hidden = [x, *out[:-1]], out[:-1]
        self.result = out[-1]  # [rows, outputs] of `forward`
        self.by_result = self._back[-1]  # [rows, outputs] that `backward` begins with
        cpu = x.device.type == "cpu"
        self._activate: list[Callable[[], object]] = [partial(nn.functional.elu_, h) for h in self._hidden]
        if cpu and x.dtype == torch.float32:
            self._activate = [Launch(elu, len(h), [h], h.device) for h in self._hidden]
        self._elu_back = [
            Launch(
                elu_back,
                len(sums) * (1 if cpu else h.shape[1]),
                [h.shape[1] if cpu else 1, h, by_h, column, sums],
                h.device,
            )
            for h, by_h, column in zip(self._hidden, self._back, columns, strict=False)
        ]

    def forward(self) -> None:
        """Computes `result` of x."""
        w = self._weights
        for k, activate in enumerate(self._activate):
            torch.addmm(w.bias[k], self._inputs[k], w.transposed[k], out=self._hidden[k])
            activate()
        with tf32(False, self.result.device):  # as networks.Output
            torch.addmm(w.bias[-1], self._inputs[-1], w.transposed[-1], out=self.result)

    def by_inputs(self, first: int, out: Tensor) -> None:
        """Computes, after `backward`, the derivatives by the inputs from column `first` on, [rows, some]."""
        weight = self._weights.weight[0][:, first : first + out.shape[1]]
        torch.mm(self._back[0], weight, out=out)

    def backward(self) -> None:
        """Computes the gradients of the weights, given `by_result`."""
        for k in reversed(range(len(self._back))):
            torch.mm(self._back[k].t(), self._inputs[k], out=self._weight_gradient[k])
            if k:
                torch.mm(self._back[k], self._weights.weight[k], out=self._back[k - 1])
                self._elu_back[k - 1]()
