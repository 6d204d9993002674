"""Says which detectors apply to which runs: it follows from what each of them needs."""

from __future__ import annotations

from collections.abc import Iterable

from surefoot.audits.detector import Detector, Needs

LACKS: dict[str, frozenset[Needs]] = {
    "own PPO": frozenset(),
    "a library": frozenset({"ppo"}),
    "from outside": frozenset({"robot"}),
    "a fleet": frozenset(),
    "a fleet that does not wait": frozenset({"history"}),
}
"""Kinds of runs: what detectors may need that a run of this kind never has. Each may lack more where it has
not come far enough: a run that was not confirmed, or has no episodes yet."""
NEEDS: dict[Needs, str] = {
    "confirmed": "a confirmed policy",
    "robot": "a robot of Surefoot's own environments",
    "ppo": "Surefoot's own PPO",
    "ledger": "a ledger with rows",
    "episodes": "recorded training episodes",
    "history": "environments that are followed from the first step to the last",
}
"""What a detector may need of a run, in words."""
AREAS: dict[str, tuple[str, ...]] = {
    "Batch": ("batch",),
    "Randomisation": ("randomisation", "physics"),
    "Reward, reset and termination": ("reward", "reset", "termination"),
    "Observation and action": ("observation", "action"),
    "Learning": ("learning", "normaliser"),
    "Held-out": ("held-out", "panel-plant", "perturbation", "metric", "statistics"),
    "Files": ("bookkeeping",),
    "Behaviour": ("behaviour",),
}
"""What detectors look at: the causes that each area has."""


def applies(detector: Detector, kind: str) -> bool:
    """Returns whether a detector has something to look at in runs of a kind."""
    return not LACKS[kind] & set(detector.needs)


def needed(detector: Detector) -> str:
    """Says what a detector needs of a run."""
    return ", ".join(NEEDS[n] for n in detector.needs) or "any run"


def area(detector: Detector) -> str:
    """Returns what a detector looks at; one on the behaviour looks at that, whatever its cause."""
    if detector.kind == "behaviour":
        return "Behaviour"
    return next(name for name, causes in AREAS.items() if detector.cause in causes)


def by_area(every: Iterable[Detector]) -> dict[str, list[Detector]]:
    """Returns detectors by what they look at, in the order of `AREAS`; areas that have none are left out."""
    out: dict[str, list[Detector]] = {name: [] for name in AREAS}
    for detector in every:
        out[area(detector)].append(detector)
    return {name: of for name, of in out.items() if of}
