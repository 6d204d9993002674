"""Does the ledger add up? Everything in it is counted twice by different paths; the counts must agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.runs import waited

SINGLE = 2e-4
"""Relative rounding of sums in single precision over a block."""


def look(case: Case) -> list[Found]:
    """Checks every row; says of each kind of fault in how many updates it is."""
    said: dict[str, list[int]] = {}
    for before, row in zip([None, *case.ledger[:-1]], case.ledger, strict=True):
        for text in _faults(case, row, before):
            said.setdefault(text, []).append(int(row["update"]))
    return [Found(f"{text} ({len(at)} updates, first {at[0]}).") for text, at in said.items()]


def _faults(case: Case, row: dict[str, Any], before: dict[str, Any] | None) -> Iterator[str]:
    r = case.record
    steps, envs = r.recipe.horizon, r.recipe.envs
    n = steps * envs
    if row["samples"] != n * row["update"]:
        yield "Samples are not updates times the rollout's"
    if abs(row["robot_seconds"] - row["samples"] / r.recipe.control_hz) > 1e-6 * row["robot_seconds"]:
        yield "Robot-seconds are not samples times the control period"
    for what in ("stratum.samples", "family.samples"):
        if row.get(what) and sum(row[what]) != n:
            yield f"{what} do not add up to the rollout's samples"
    per_family = row.get("family.samples") or []
    if len(set(per_family)) > 1 and waited(r.collection):  # fast actors give more of theirs
        yield "Families have different numbers of samples"
    resets = [v for k, v in row.items() if k.startswith("reset.") and isinstance(v, int)]
    first = envs if row["update"] == 1 else 0  # first episodes begin without a reset
    begun = sum(resets) + row.get("fleet.begun", first)
    for what in ("stratum.resets", "family.resets"):
        if row.get(what) and resets and sum(row[what]) not in (sum(resets), begun):
            yield f"{what} do not add up to the resets by reason"
    if row.get("episode.count") is not None and resets and row["episode.count"] != sum(resets):
        yield "Episodes that ended are not as many as resets"
    if r.training_plant is not None:
        yield from _rewards(case, row)
    if before is not None and _same(row, before):
        yield "A row repeats the figures of the row before it"


def _rewards(case: Case, row: dict[str, Any]) -> Iterator[str]:
    terms = {k.removeprefix("reward."): v for k, v in row.items() if k.startswith("reward.")}
    named = {t.name for t in getattr(case.record.contract, "rewards", ())}
    if set(terms) != named:
        yield "Reward terms in the ledger are not the contract's"
        return
    total, size = sum(terms.values()), sum(map(abs, terms.values()))
    paid = row["reward_per_step"]
    floor = getattr(case.record.contract, "reward_floor", None)
    if floor is None and abs(total - paid) > SINGLE * size + 1e-7:
        yield "Reward is not the sum of its terms"
    if floor is not None and paid < total - SINGLE * size - 1e-7:
        yield "Reward is below the sum of its terms, which a floor can only raise"


def _same(row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Tells whether two updates have the same measured figures, which no two rollouts have."""
    names = [k for k in row if k.startswith("reward.") or k in ("kl", "advantage.std", "grad_norm")]
    values = [(row[k], before.get(k)) for k in names if row[k] not in (0, None)]
    return len(values) > 2 and all(a == b for a, b in values)


def look_at_batch(case: Case) -> list[Found]:
    """Reads what batch honesty measured: copies of scenarios."""
    seen = [(r["update"], r.get("honesty.duplicate_scenarios")) for r in case.ledger]
    copied = [(int(u), int(d)) for u, d in seen if d]
    if not copied:
        return []
    most = max(d for _, d in copied)
    looked = sum(d is not None for _, d in seen)
    return [
        Found(
            f"Environments lived copies of one another's episodes: up to {most} of "
            f"{case.record.recipe.envs}, in {len(copied)} of {looked} looks."
        )
    ]


DETECTORS = (
    Detector(
        name="ledger-sums",
        kind="proof",
        cause="bookkeeping",
        asks="Does the ledger add up: samples, families, strata, resets, reward terms?",
        statistic="differences between counts of the same thing by different paths, in every row",
        threshold="none for counts; for rewards the rounding of single precision (2e-4 of their size)",
        means="The record of the run contradicts itself: something is counted twice, left out, or stale.",
        remedy="Look at the first update that is named: a term or a family that does not reach the ledger.",
        look=look,
        needs=("ppo", "ledger"),
        short=True,
    ),
    Detector(
        name="copied-scenarios",
        kind="proof",
        cause="batch",
        asks="Did environments live episodes of their own?",
        statistic="environments whose drawn content equals another's, every tenth update",
        threshold="none: two draws meet by a chance of about 2^-64",
        means="The batch is smaller than it looks; what is wrong in one environment is taught many times.",
        remedy="Look at how environments' keys are made from family, member and episode.",
        look=look_at_batch,
        needs=("ppo", "robot", "ledger"),
        short=True,
    ),
)
