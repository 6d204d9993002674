"""Do the environments of a family teach the same? How much gradients of a block differ between environments,
and how much more between families than between environments that chance puts together."""

from __future__ import annotations

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.iterated import Iterated, iterated

ALIKE = 0.5
"""Intraclass correlation of gradients from which on the environments of a family, however many, are worth
fewer than two: their design effect is 1 + (m - 1) ICC (Kish 1965)."""
SHUFFLES = 400
CHUNK = 32
"""Outputs of a layer whose gradients are held at once."""
FEWEST = 4
"""Families below which their spread says nothing."""


def look(case: Case) -> list[Found]:
    """Compares minibatches of one family each with minibatches of as many environments of any."""
    it = iterated(case)[0]
    families = it.recipe.families
    envs = it.block["reward"].shape[1]
    members = envs // families
    if families < FEWEST or members < 2 or members * families != envs:
        raise NotApplicable("the probe has too few families, or one environment of each")
    gram = inner_products(it)
    pure = spread(gram, np.arange(envs) // members)
    numbers = case.numbers("gradients")
    mixed = np.array([spread(gram, numbers.permutation(envs) // members) for _ in range(SHUFFLES)])
    alike = (pure / mixed.mean() - 1) / (members - 1)
    p = (1 + int((mixed >= pure).sum())) / (1 + SHUFFLES)
    if alike < ALIKE:
        return []
    samples = it.block["reward"].size // envs * members
    scale = [noise_scale(gram, x, members) * samples for x in (float(mixed.mean()), pure)]
    return [
        Found(
            f"Gradients of the environments of a family are alike (intraclass correlation {alike:.2f}, by "
            f"chance so once in {1 / p:,.0f}): {members} of them are worth "
            f"{members / (1 + (members - 1) * alike):.1f}. The gradient noise scale is {_said(scale[0])} by "
            f"minibatches of any environments and {_said(scale[1])} by minibatches of one family."
        )
    ]


def inner_products(it: Iterated) -> np.ndarray:
    """Returns [N, N], the inner products of the environments' gradients of what PPO's first step maximises:
    advantages times log-probabilities, by the actor's weights and biases."""
    b, t = it.block, {k: v.double().numpy() for k, v in it.before.items()}
    advantage = b["advantage"].astype(np.float64)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    x = np.moveaxis(it.features, 1, 0)  # [N, T, inputs]
    layers = sorted({int(k.split(".")[2]) for k in t if k.startswith("networks.actor.")})
    inputs, slopes = [], []
    for k in layers:
        inputs.append(x)
        x = x @ t[f"networks.actor.{k}.weight"].T + t[f"networks.actor.{k}.bias"]
        slopes.append(np.where(x > 0, 1.0, np.exp(np.minimum(x, 0))))
        x = x if k == layers[-1] else np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    away = np.moveaxis(b["action"].astype(np.float64), 1, 0) - x
    back = away / np.exp(2 * t["networks.log_std"]) * advantage.T[..., None]  # [N, T, A]
    gram = np.zeros((len(x), len(x)))
    for k, layer in reversed(list(enumerate(layers))):
        by_bias = back.sum(1)
        gram += by_bias @ by_bias.T
        for first in range(0, back.shape[2], CHUNK):
            some = np.swapaxes(back[..., first : first + CHUNK], 1, 2) @ inputs[k]  # [N, CHUNK, I]
            by_weight = some.reshape(len(x), -1)
            gram += by_weight @ by_weight.T
        if k:
            back = back @ t[f"networks.actor.{layer}.weight"] * slopes[k - 1]
    return gram


def spread(gram: np.ndarray, group: np.ndarray) -> float:
    """Returns the trace of the covariance of the groups' mean gradients."""
    groups = int(group.max()) + 1
    share = np.zeros((groups, len(group)))
    share[group, np.arange(len(group))] = groups / len(group)
    own = share @ gram @ share.T
    return float((np.trace(own) - own.sum() / groups) / (groups - 1))


def noise_scale(gram: np.ndarray, of_groups: float, members: int) -> float:
    """Returns the gradient noise scale in groups: the trace of their gradients' covariance over the squared
    length of the true gradient (McCandlish et al. 2018, equation 2.9 and appendix A.1); infinite where
    nothing is left of it beside the noise."""
    groups = len(gram) / members
    signal = float(gram.mean()) - of_groups / groups
    return of_groups / signal if signal > 0 else float("inf")


def _said(scale: float) -> str:
    return f"{scale:,.0f} samples" if np.isfinite(scale) else "more samples than can be told"


DETECTORS = (
    Detector(
        name="gradient-noise",
        kind="behaviour",
        cause="batch",
        asks="Does every environment of a family teach something of its own?",
        statistic="gradients of the policy's loss by environment, of one block: the spread of their means by "
        "family against that of means over as many environments of any, 400 times; the gradient noise scale "
        "of either (McCandlish et al. 2018, arXiv:1812.06162)",
        threshold="an intraclass correlation of 0.5: from there on a family is worth fewer than two of its "
        "environments, however many it has (design effect, Kish 1965); a remark, not a test",
        means="Much of what minibatches average is the same again: the batch is smaller than it looks.",
        remedy="More families with fewer environments each; look for what the environments of one share.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
