"""Is every sample of a block learned from, once in each epoch? The shuffle is made again from its key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.forms import hold_size
from surefoot.audits.iterated import learner_of, learning
from surefoot.audits.slow_philox import INIT, words
from surefoot.contract import Recipe
from surefoot.rollout import RolloutBlock, with_memory

WORD = 2**32 - 1
FIRST, STEPS = 5, 12
"""Update that is looked at first, and steps of its block."""


def mixed(x: np.ndarray) -> np.ndarray:
    """Returns 32-bit numbers scrambled by Wellons' lowbias32; products wrap around."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return np.asarray(x ^ (x >> np.uint32(16)))


def shuffled(size: int, keys: np.ndarray) -> np.ndarray:
    """Returns the permutation of 0 .. size - 1 that four keys give: a Feistel network of eight rounds on as
    many bits as `size` needs, entered again with whatever comes out too large."""
    bits = max(2, (size - 1).bit_length())
    low = np.uint32(bits // 2)
    masks = [np.uint32((1 << n) - 1) for n in (bits - bits // 2, bits // 2)]
    out = np.arange(size, dtype=np.uint32)
    todo = np.arange(size)
    while len(todo):
        halves = [out[todo] >> low, out[todo] & masks[1]]
        for r in range(8):
            key = np.uint32((int(keys[r % 4]) + r * 0x9E3779B9) & WORD)
            halves[r % 2] ^= mixed(halves[1 - r % 2] ^ key) & masks[r % 2]
        out[todo] = halves[0] << low | halves[1]
        todo = todo[out[todo] >= size]
    return out.astype(np.int64)


def look(case: Case) -> list[Found]:
    """Looks at the minibatches of two updates in a row."""
    contract, samples = case.plan.task.contract, {}
    learner = learner_of(case, case.seed)
    recipe = learner.recipe
    envs = 8 * recipe.minibatches
    widths = (contract.observation_size, contract.critic_size, contract.action.size)
    with learning():
        block = RolloutBlock.empty(STEPS, envs, *widths, len(contract.rewards))
        block = with_memory(block, recipe.remembers, learner.mirrors)
        g = case.numbers("minibatches")
        for name in ("obs", "critic", "action", "mean", "advantage", "returns"):
            x = block.flat(name)
            x.copy_(torch.from_numpy(g.normal(size=tuple(x.shape)).astype(np.float32)))
        learner.state.clock[0] = FIRST
        for update in (FIRST, FIRST + 1):
            learner.update(block)
            samples[update] = learner.bind(block).picks.numpy().copy()
    learner.unbind()
    each = (recipe.epochs * recipe.minibatches, STEPS * envs // recipe.minibatches)
    for picks in samples.values():
        hold_size("Minibatches of an update, and the samples in each,", picks, each)
    size = STEPS * envs
    if recipe.remembers.kind == "gru":  # whole sequences, one after the other
        if any(broken(picks, envs) for picks in samples.values()):
            return [Found("Samples of a minibatch are not whole sequences, step after step.")]
        samples, size = {k: x[:, ::STEPS] for k, x in samples.items()}, envs
    return list(_faults(samples, recipe, case.seed, size, learner.symmetry is not None))


def broken(picks: np.ndarray, envs: int) -> bool:
    """Returns whether `picks` [minibatches, samples] have anything but all steps of some environments."""
    by_sequence = picks.reshape(len(picks), -1, STEPS)
    return bool((by_sequence != by_sequence[..., :1] + 2 * envs * np.arange(STEPS)).any())


def _faults(
    picked: dict[int, np.ndarray], recipe: Recipe, root: int, size: int, mirrors: bool
) -> Iterator[Found]:
    """`picked` by update: [epochs x minibatches, samples], twice a sample's number, one more if mirrored."""
    for update, picks in picked.items():
        by_epoch = picks.reshape(recipe.epochs, -1)
        for epoch, order in enumerate(by_epoch):
            sample, mirrored = order >> 1, order & 1
            times = np.bincount(sample, minlength=size)
            if len(times) > size or (times != 1).any():
                never = int((times == 0).sum())
                yield Found(
                    f"An epoch does not take every sample once: {never} of {size} never, some up to "
                    f"{times.max()} times."
                )
                return
            keys = words(root, INIT, 0, 0, update, "shuffle", 4, first=4 * epoch)[0]
            if (sample != shuffled(size, keys)).any():
                again = any((sample == o >> 1).all() for o in by_epoch[:epoch])
                text = (
                    "Epochs repeat one order of samples" if again else "Samples are not in their key's order"
                )
                yield Found(f"{text} (update {update}, epoch {epoch}).")
                return
            key = int(words(root, INIT, 0, 0, update, "mirror", 4, first=4 * epoch)[0, 0])
            half = mixed(np.arange(size, dtype=np.uint32) ^ np.uint32(key)) >> np.uint32(31)
            if (mirrored[np.argsort(sample)] != (half if mirrors else 0)).any():
                share = f"{100 * mirrored.mean():.0f}% of the samples"
                yield Found(f"An epoch mirrors {share}, and not those that its key and the recipe say.")
                return


DETECTORS = (
    Detector(
        name="minibatches",
        kind="proof",
        cause="learning",
        asks="Does each epoch take every sample of a block once, in its own order, a keyed half mirrored?",
        statistic="samples in the minibatches of two updates, against permutations made by another cipher",
        threshold="none: whole numbers",
        means="Part of the batch is not learned from, or learned from more often than the recipe says.",
        remedy="Compare learners/kernels/minibatch.py with the reference's `epoch_order`.",
        look=look,
        needs=("ppo",),
    ),
)
