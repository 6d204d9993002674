"""Were environments as old as one another? Read from what batch honesty measured."""

from __future__ import annotations

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.history import AT_LEAST, IN_STEP


def look(case: Case) -> list[Found]:
    """Reads the share of equally old environments, every tenth update."""
    key = "honesty.lockstep"
    seen = [(int(r["update"]), float(r[key])) for r in case.ledger if r.get(key) is not None]
    if not seen:
        raise NotApplicable("its ledger has no look at lockstep: every tenth update has one")
    update, worst = max(seen, key=lambda pair: pair[1])
    envs = case.record.recipe.envs
    if worst < IN_STEP or worst * envs < AT_LEAST:
        return []
    share = f"{100 * worst:.0f}% of {envs} environments"
    return [Found(f"{share} were equally old through update {update}: they are reset in lockstep.")]


DETECTORS = (
    Detector(
        name="lockstep",
        kind="proof",
        cause="batch",
        asks="Did environments stand at different ages of their episodes?",
        statistic="largest group of equally old environments, the mean over an update, every tenth update",
        threshold="a quarter of all environments, and twelve (clean runs of 192: below 4%)",
        means="Environments end and begin together: the batch sees one part of an episode at a time.",
        remedy="Look at the ages that first episodes begin at, and at what ends episodes.",
        look=look,
        needs=("robot", "ledger"),
        short=True,
    ),
)
