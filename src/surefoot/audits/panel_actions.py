"""Were actions on the panel those of the policy that is handed out, for what it was declared to see?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.kept_episodes import Kept, kept_episodes
from surefoot.audits.slow_observations import slices
from surefoot.audits.slow_policy import SlowBundle
from surefoot.contract import NOMINAL
from surefoot.policy import read_policy

ROUNDING = 1e-4
"""Allowance for networks in single precision, relative to 1 + size; clean runs: below 1e-6."""
MOST = 0.9
"""Part of a gap's variance that a hypothesis must account for to be named."""

Policies = Mapping[str, SlowBundle]


def look(case: Case) -> list[Found]:
    """Works out every action of some kept episodes: from recorded states over observations, noise and faults
    to the network's output, and compares it with the action on record."""
    episodes = kept_episodes(case)
    if not episodes:
        raise NotApplicable("no trace of an episode that its policy played on a CPU was kept")
    policies = _policies(case, episodes)
    wrong = [e for e in episodes if off(e, expected(policies, e)).any()]
    if not wrong:
        return []
    columns = dict.fromkeys(e.column for e in wrong)
    share = 100 * np.mean([off(e, expected(policies, e)).any(1).mean() for e in wrong])
    text = (
        f"Actions of {len(wrong)} of {len(episodes)} kept episodes are not those of the policy for what it "
        f"was to see, in {share:.0f}% of their steps (columns: {', '.join(list(columns)[:4])})"
    )
    right = {e.column for e in episodes} - columns.keys()
    if NOMINAL in right:
        why = "the column's sensors are not as declared" if any(e.faulty for e in wrong) else "by column"
        return [Found(f"{text}: {why}.", cause="perturbation")]
    cause, why = _diagnosis(policies, wrong)
    return [Found(f"{text}: {why}.", cause=cause)]


def _policies(case: Case, episodes: list[Kept]) -> Policies:
    """Returns the bundles that the episodes were played with, by folder: those beside them, or the run's."""
    out = {}
    for folder in dict.fromkeys(e.folder for e in episodes):
        beside = folder / "policy.safetensors"
        bundle = read_policy(beside) if beside.is_file() else case.policy
        out[str(folder)] = SlowBundle(bundle.tensors, bundle.card.observation_clip, bundle.card.remembers)
    return out


def expected(policies: Policies, e: Kept, shown: np.ndarray | None = None) -> np.ndarray:
    """Returns actions [T, A] as they would be applied, for what is declared to be shown or for `shown`."""
    clip = e.contract.action.clip
    mean = policies[str(e.folder)].actions(e.shown() if shown is None else shown)
    return np.asarray(np.clip(mean, -clip, clip))


def off(e: Kept, action: np.ndarray) -> np.ndarray:
    """Returns where recorded actions [T, A] are not `action`."""
    return np.asarray(~(np.abs(e.action - action) <= ROUNDING * (1 + np.abs(action))))


def _diagnosis(policies: Policies, wrong: list[Kept]) -> tuple[str, str]:
    """Names the hypothesis that explains the recorded actions: one that gives them again, else one that fits
    what they differ by."""
    first = [e for e in wrong if e.column == NOMINAL][:3] or wrong[:3]
    names = [name for name, _ in _hypotheses(first[0])]
    for k, name in enumerate(names):
        hits = [~off(e, expected(policies, e, list(_hypotheses(e))[k][1])).any(1) for e in first]
        if np.mean(np.concatenate(hits)) > MOST:
            return "observation", name
    gap = [(e.action - expected(policies, e)) for e in first]
    late = [e.action[1:] - expected(policies, e)[:-1] for e in first]
    if np.mean([np.mean(np.abs(x) < ROUNDING) for x in late]) > MOST:
        return "action", "they are those of the step before"
    r = np.concatenate([x[1:] for x in gap]), np.concatenate([x[:-1] for x in gap])
    follows = abs(np.sum(r[0] * r[1])) / max(float(np.sum(r[1] ** 2)), 1e-30)
    if follows < 0.1:
        size = float(np.sqrt(np.mean(r[0] ** 2)))
        return "held-out", f"noise of size {size:.2g} that no step shares with the next is added to them"
    scaled = [_scale(expected(policies, e), e.action) for e in first]
    if min(fit for _, fit in scaled) > 1 - (1 - MOST) ** 2:
        return "action", f"they are {np.mean([s for s, _ in scaled]):.2f} times what the policy says"
    if min(_moved(policies, e) for e in first) > MOST:
        return "normaliser", "as if observations were shifted and scaled otherwise before the network"
    return "held-out", "another policy, or another observation"


def _scale(mean: np.ndarray, action: np.ndarray) -> tuple[float, float]:
    """Returns the factor between two sets of actions, and the part of the variance that it accounts for."""
    k = float(np.sum(mean * action) / max(float(np.sum(mean**2)), 1e-30))
    rest = float(np.sum((action - k * mean) ** 2) / max(float(np.sum(action**2)), 1e-30))
    return k, 1 - rest


def _hypotheses(e: Kept) -> Iterator[tuple[str, np.ndarray]]:
    """What might have been shown in place of what is declared."""
    yield "they follow from observations without noise", e.shown(noisy=0.0)
    yield "they follow from the observations of the step before", e.shown(late=1)
    yield "faults of sensors are not there", e.shown(faulty=False)
    right, quiet, late = e.shown(), e.shown(noisy=0.0), e.shown(late=1)
    for name, at in slices(e.contract.observation).items():
        for text, other in (
            (f"'{name}' has no noise", quiet),
            (f"'{name}' is seen a step late", late),
            (f"'{name}' has the opposite sign", -right),
            (f"'{name}' is not shown", 0 * right),
        ):
            shown = right.copy()
            shown[:, at] = other[:, at]
            yield text, shown


def _moved(policies: Policies, e: Kept) -> float:
    """Returns the part of the gap's variance, over at most 200 steps, that constant shifts and factors of the
    observations account for, to first order."""
    shown = e.shown()[:200]
    base = expected(policies, e, shown)
    step = 1e-4
    parts = []
    for k in range(shown.shape[1]):
        moved = shown.copy()
        moved[:, k] += step
        slope = (expected(policies, e, moved) - base) / step
        parts += [slope.ravel(), (slope * shown[:, k : k + 1]).ravel()]
    design, gap = np.stack(parts, 1), (e.action[:200] - base).ravel()
    if design.shape[0] < 3 * design.shape[1]:
        return 0.0
    rest = gap - design @ np.linalg.lstsq(design, gap, rcond=None)[0]
    return float(1 - np.sum(rest**2) / max(float(np.sum(gap**2)), 1e-30))


DETECTORS = (
    Detector(
        name="panel-actions",
        kind="proof",
        cause="held-out",
        asks="Were actions on the panel those of the policy that is handed out, without exploration, for "
        "observations with the declared frames, order, noise, faults and delay?",
        statistic="actions of kept episodes against a slow chain in double precision: recorded states, "
        "observations, noise and faults by their keys, the network of the policy file",
        threshold="1e-4 of 1 + size (clean runs: below 1e-6): rounding of single precision",
        means="The result is of another policy, or of other observations, than the run says.",
        remedy="Play an episode again with `replay --verify`; compare the policy file, the normaliser and "
        "the evaluator's observations with the contract.",
        look=look,
        needs=("robot",),
        short=True,
    ),
)
