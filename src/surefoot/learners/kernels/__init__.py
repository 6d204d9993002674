"""What PPO does besides matrix products, as Warp kernels: one source for CPU and CUDA.

`learners/ppo_reference.py` computes the same in plain torch: read that first. In the order of an update:
minibatch (keys, shuffle, gather), activation, loss, optimiser (norm, decision, Adam), normalise.

Warp reads the annotations as values, which is why they are not types and not strings here. Sums over samples
have a fixed order: those of GROUP samples are added where they arise, into a row of their own, and torch adds
the rows; no kernel here adds into memory that another one shares. Inner loops are C++ on plain pointers,
which a CPU's compiler turns into vector instructions: a third of the cost of Warp's indexing. Arrays must
therefore be contiguous.
"""

from surefoot.learners.kernels.activation import elu, elu_back
from surefoot.learners.kernels.loss import (
    CLIPPED,
    FOUND,
    KL,
    PLAIN,
    POLICY_LOSS,
    RATIO_ERROR,
    VALUE_LOSS,
    loss,
)
from surefoot.learners.kernels.minibatch import draw, draw_keys, gather
from surefoot.learners.kernels.normalise import ROWS, moments, take_in
from surefoot.learners.kernels.optimiser import COLUMNS, adam, decide, sum_squares
from surefoot.learners.kernels.source import GROUP

__all__ = [
    "CLIPPED",
    "COLUMNS",
    "FOUND",
    "GROUP",
    "KL",
    "PLAIN",
    "POLICY_LOSS",
    "RATIO_ERROR",
    "ROWS",
    "VALUE_LOSS",
    "adam",
    "decide",
    "draw",
    "draw_keys",
    "elu",
    "elu_back",
    "gather",
    "loss",
    "moments",
    "sum_squares",
    "take_in",
]
