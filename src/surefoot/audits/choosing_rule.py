"""Would the best checkpoint be chosen whatever the evaluations were? The run's own selection is told made-up
ones: in a short run all may be equal, and then files show nothing of the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.policy import PolicyBundle
from surefoot.training import CheckpointSelection, Progress

RUNS = 24
"""Made-up runs, of two to seven evaluations each."""


class Told(CheckpointSelection):
    """A selection whose evaluations are made up, and which writes nothing."""

    def __init__(self, case: Case, policy: PolicyBundle, successes: Sequence[float]) -> None:
        super().__init__(case.plan, case.run, Progress(), lambda: policy)
        made = iter(successes)
        self.evaluator = SimpleNamespace(evaluate_async=lambda *given: SimpleNamespace(success=next(made)))  # type: ignore[assignment]

    def save(self, *given: Any) -> None:
        """Saves nothing."""


def look(case: Case) -> list[Found]:
    """Compares what is kept and chosen with the highest success, the latest of equals."""
    numbers, policy = case.numbers("choosing-rule"), case.policy
    every, out = case.plan.recipe.evaluate_every, list[str]()
    for _ in range(RUNS):
        # Of few values, so that some are equal; failures of all kinds are among them.
        successes = numbers.choice([0.0, 0.25, 0.5, 0.75, 1.0], numbers.integers(3, 9)).tolist()
        out += list(_faults(case, policy, successes, every))
    return [Found(text) for text in dict.fromkeys(out)]


def _faults(case: Case, policy: PolicyBundle, successes: Sequence[float], every: int) -> Iterator[str]:
    *scheduled, last = successes
    selection, p = Told(case, policy, successes), Progress()
    selection.progress = p
    writer: Any = SimpleNamespace(do=lambda work: None, wait=lambda: None)
    right, at = -1.0, 0
    for k, success in enumerate(scheduled, 1):
        p.update = k * every
        best = selection.score({}, writer)
        if success >= right:
            right, at = success, p.update
        if best != (at == p.update):
            yield "Of evaluations on the selection half another than the best, the latest of equals, is kept."
        if (p.best, p.best_update) != (right, at) or p.successes != list(scheduled[:k]):
            yield "A run remembers another best evaluation than the one it had."
    if selection.choose() != "best":
        yield "Where the schedule scored the last policy it is scored once more, or the best is not chosen."
    if every > 1:
        p.update += 1
        chosen = selection.choose()
        if chosen != ("latest" if last >= p.best else "best"):
            yield "Of the best and the last policy the one with less success would be confirmed."


DETECTORS = (
    Detector(
        name="choosing-rule",
        kind="proof",
        cause="bookkeeping",
        asks="Is it the best checkpoint that is kept and confirmed, whatever its evaluations show?",
        statistic="what the run's selection keeps and chooses in 24 made-up runs of three to eight "
        "evaluations, the last one off schedule, against the highest success, the latest of equals",
        threshold="any difference: nothing is measured",
        means="The result may be stated on another policy than the one that the selection half chose.",
        remedy="Follow `score` and `choose` of the checkpoint selection with two evaluations by hand.",
        look=look,
        short=True,
    ),
)
