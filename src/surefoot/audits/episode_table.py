"""Can the training episodes of a run be what their table says? Read, without a simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.slow_ends import reasons_of
from surefoot.contract import Channel, TaskContract

ROUNDING = 1e-4
"""Relative allowance for sums in single precision, and as much of the sum of their sizes."""
Table = dict[str, np.ndarray]


def look(case: Case) -> list[Found]:
    """Reads every training episode of the run."""
    e, seeds = case.episodes, case.record.seeds
    env = e["family"].astype(np.int64) * seeds.envs_per_family + e["member"]
    order = np.lexsort((e["episode"], env))
    e, env = {k: v[order] for k, v in e.items()}, env[order]
    whole = not case.broken_off  # else episodes are missing that were lived, and not learned from
    found = [*(_numbered(e, env) if whole else []), *_reasons(case, e)]
    contract = case.record.contract
    if isinstance(contract, TaskContract):
        found += _lengths(case, e, env, contract) if whole else []
        found += _paid(case, e, contract)
    return found


def _numbered(e: Table, env: np.ndarray) -> Iterator[Found]:
    """Every environment ends its episodes in their order, from the first one on."""
    number = e["episode"].astype(np.int64)
    first = np.r_[True, env[1:] != env[:-1]]
    right = np.where(first, 0, np.r_[0, number[:-1] + 1])
    if (bad := number != right).any():
        text = f"Episodes are missing or recorded twice in {len(np.unique(env[bad]))} environments."
        yield Found(text)


def _reasons(case: Case, e: Table) -> Iterator[Found]:
    """As many episodes are recorded by each reason as the ledger counts, in every update; of a run that was
    cut off, up to the last update that has any."""
    rows = case.ledger
    if case.record.status != "finished":
        rows = [row for row in rows if row["update"] <= e["update"].max()]
    names = [k.removeprefix("reset.") for k in (rows[0] if rows else {}) if k.startswith("reset.")]
    updates = np.array([int(row["update"]) for row in rows])
    for k, name in enumerate(names, 1):
        counted = np.array([int(row.get(f"reset.{name}") or 0) for row in rows])
        mine = e["update"][e["reason"].astype(np.int64) == k].astype(np.int64)
        recorded = np.bincount(mine, minlength=int(updates.max()) + 1)[updates]
        if (bad := counted != recorded).any():
            text = f"The ledger counts {counted.sum()} ends by '{name}' and {recorded.sum()} are recorded: "
            yield Found(f"{text}{int(bad.sum())} updates differ, first {updates[bad][0]}.")


def _lengths(case: Case, e: Table, env: np.ndarray, contract: TaskContract) -> Iterator[Found]:
    """Episodes that ran out of time lived all of it, first ones from the age at which they began, and none is
    longer; each ends in the update that it is recorded in, after all steps of those before it."""
    r, names, n = case.record, reasons_of(contract), len(env)
    whole = round(contract.episode_s * r.recipe.control_hz)
    u = r.seeds.env_uniforms(env, Channel.AGE, 1)[:, 0].astype(np.float32)
    born = np.where(e["episode"] == 0, np.floor(u * np.float32(whole)), 0).astype(np.int64)
    steps = e["steps"].astype(np.int64)
    length, late = steps + born, e["reason"] == names.index("timeout")
    if (bad := late & (length != whole)).any():
        text = (
            f"Episodes ran out of time after other than {whole} steps: {int(bad.sum())} of {int(late.sum())}."
        )
        yield Found(text, cause="termination")
    if (bad := ~late & ((length > whole) | (steps < 1))).any():
        text = f"Episodes lasted longer than their {whole} steps: {int(bad.sum())} of {n}."
        yield Found(text, cause="termination")
    if r.learner != "ppo":
        return  # a library may take steps that no update counts
    first = np.r_[True, env[1:] != env[:-1]]
    total = np.cumsum(steps)
    before = np.maximum.accumulate(np.where(first, total - steps, 0))
    ends, horizon = total - before, r.recipe.horizon
    if (bad := (ends - 1) // horizon + 1 != e["update"]).any():
        text = f"Episodes end in other updates than their steps add up to: {int(bad.sum())} of {n},"
        yield Found(f"{text} in {len(np.unique(env[bad]))} of {r.seeds.envs} environments.")


def _paid(case: Case, e: Table, contract: TaskContract) -> Iterator[Found]:
    """Returns are the sums of their terms; terms of ours have their sign and their most, and a fall is paid
    once to who fell."""
    dt = 1.0 / case.record.recipe.control_hz
    functions = case.robot.task.terms
    terms = {
        t.name: e[f"return.{t.name}"].astype(np.float64) for t in contract.rewards if f"return.{t.name}" in e
    }
    if len(terms) == len(contract.rewards):
        total, size = sum(terms.values()), sum(np.abs(x) for x in terms.values())
        bad = ~(np.abs(e["return"] - total) <= ROUNDING * (1 + size))
        if bad.any():
            yield Found(f"Recorded returns are not the sums of their terms, in {int(bad.sum())} episodes.")
    fell = e["reason"] >= 2
    steps = e["steps"].astype(np.float64)
    for t in contract.rewards:
        value = terms.get(t.name)
        if value is None or getattr(functions[t.name], "__module__", "") != "surefoot.tasks.terms":
            continue
        if t.event and t.name == "fall":
            bad = ~(np.abs(value - t.weight * fell) <= ROUNDING * (1 + abs(t.weight)))
            if bad.any():
                text = (
                    f"'fall' was paid other than {t.weight:g} to fallers alone, in {int(bad.sum())} episodes."
                )
                yield Found(text, cause="reward")
        if t.name in BOUNDED:
            low, high = sorted((0.0, t.weight * dt))
            slack = ROUNDING * (1 + steps * abs(t.weight) * dt)
            bad = (value < low * steps - slack) | (value > high * steps + slack)
            if bad.any():
                text = f"'{t.name}' was paid more than it can be, or with another sign,"
                yield Found(f"{text} in {int(bad.sum())} episodes.", cause="reward")
        elif t.name in SIGNED and (bad := value * np.sign(t.weight) < -ROUNDING).any():
            text = f"'{t.name}' was paid with another sign than the contract's, in {int(bad.sum())} episodes."
            yield Found(text, cause="reward")


BOUNDED = ("track_linear", "track_yaw", "gait", "single_support")
"""Terms of ours that lie between 0 and 1."""
SIGNED = (
    *("linear_error", "yaw_error", "vertical_velocity", "roll_pitch_rate", "tilt", "torque", "action_rate"),
    *("pose", "posture", "stand_still", "slip", "joint_limits", "torque_limits", "trunk_height"),
)
"""Terms of ours that are never below 0."""

DETECTORS = (
    Detector(
        name="episode-table",
        kind="proof",
        cause="bookkeeping",
        asks="Can the run's training episodes be what they say: numbers, lengths, reasons, pay?",
        statistic="every recorded episode: numbered without gaps, as long as its reason says, as many by "
        "reason as the ledger counts, all steps in some episode, returns the sums of terms of their signs",
        threshold="none for counts; for returns the rounding of single precision (1e-4)",
        means="Episodes are missing, cut at another time, ended for another reason, or paid otherwise.",
        remedy="Look at the first environment that is named, then at episode ends and at the log.",
        look=look,
        needs=("episodes", "ledger"),
        short=True,
    ),
)
