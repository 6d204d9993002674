"""What a learner is: what collection, the training loop and checkpoints ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from surefoot.learners.recall import Recall
from surefoot.rollout import RolloutBlock


@dataclass(frozen=True)
class PpoMetrics:
    """Holds what one update says about itself: means over its minibatches unless said otherwise."""

    first_ratio_error: float
    """Largest |ratio - 1| on the first minibatch, before any step: more than rounding means that collection
    and learning disagree about the policy."""
    kl: float
    kl_last_epoch: float
    clip_fraction: float
    value_loss: float
    policy_loss: float
    entropy: float
    std: float
    learning_rate: float
    grad_norm: float
    skipped_steps: int
    """Gradient steps left out because the gradient was not finite."""
    explained_variance: float


class BoundUpdate(Protocol):
    """An update of one learner on one block: buffers, and on CUDA a graph, made once and run many times."""

    def prepare(self) -> None:
        """Does what the first `run` would do before it learns, such as capturing a CUDA graph."""

    def run(self) -> None:
        """Learns from what the block holds now. Enqueued only: does not wait for the device."""


class Learner(Protocol):
    """Acts while a block is collected, learns from the block, and comes back exactly from its tensors.

    N environments, O observations, C critic observations, A actions. Nothing here waits for the device but
    `metrics()` without a record, `tensors` and `policy_tensors`.
    """

    # ---- acting

    def recall(self, block: RolloutBlock) -> Recall | None:
        """Returns who acts, with a memory of its own, while `block` is filled again and again, and goes with
        this block from the first call on; None where the policy has none, and the learner itself acts."""

    @property
    def log_std(self) -> Tensor:
        """[A] of the policy; always the same memory, so that recorded kernels may read it."""

    def mean(self, obs: Tensor) -> Tensor:
        """Returns the policy's mean actions [N, A] for observations [N, O], in the contract's units."""

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns actions [N, A], their means [N, A] and log probabilities [N], for observations [N, O] and
        standard normals [N, A]: action = mean + exp(log_std) * exploration, not clipped."""

    def value(self, critic: Tensor) -> Tensor:
        """Returns the values [B] of critic observations [B, C]."""

    # ---- learning

    @property
    def mirrors(self) -> bool:
        """Whether it learns from samples in their mirror image too."""

    def bind(self, block: RolloutBlock) -> BoundUpdate:
        """Returns the update on this block, made at the first call and kept until another block is bound."""

    def update(self, block: RolloutBlock) -> None:
        """Learns from a block whose advantages and returns are filled in: `bind(block).run()`."""

    def unbind(self) -> None:
        """Frees the buffers, and on CUDA the graph, of the block that is bound."""

    @property
    def record(self) -> Tensor:
        """What the last update left for `metrics`; always the same memory, which the next one overwrites."""

    def metrics(self, record: Tensor | None = None) -> PpoMetrics:
        """Returns what the last update says about itself, or the one that `record` was copied after."""

    # ---- exact resume

    @property
    def parameters(self) -> Tensor:
        """[P] all weights, flat: the same bits in every process of a group."""

    def tensors(self) -> dict[str, Tensor]:
        """Returns copies of all that `load` needs to go on bit for bit, by the names of a checkpoint."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes the state that `tensors` gave, in the memory that it has."""

    def policy_tensors(self) -> dict[str, Tensor]:
        """Returns the deterministic policy as a policy bundle has it, on the CPU."""
