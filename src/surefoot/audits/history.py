"""Does the record of episodes fit together? From their lengths follows what every environment did in every
step of training, and from that what the ledger has to say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.draws import held_environments, percent, slow_episodes
from surefoot.audits.slow_deal import Who, stratum
from surefoot.audits.slow_episodes import Columns, SlowEpisodes

TIMEOUT = 1
"""Number of the reason of episodes that ran out of time; 0 is of those that go on."""
ROUNDING = 1e-3
"""Allowed for means that were summed in single precision, relative to 1 + size."""
MOST_LOOKS = 200
"""Updates in which ages are compared, at most."""
MOST_EPISODES = 400_000
"""Runs of more episodes are not gone through: it would take too long."""
IN_STEP, AT_LEAST = 0.25, 12
"""Share of environments of equal age from which training was in lockstep (clean runs of 192: below 4%), if
they are so many."""


@dataclass(frozen=True)
class History:
    """Every episode of a run up to a checkpoint, one environment after the other, each in order."""

    who: Who
    begin: np.ndarray  # control steps of training before it
    end: np.ndarray  # control steps of training after its last one, up to now for those that run
    born: np.ndarray  # age at which it began
    reason: np.ndarray  # 0 for those that run
    columns: Columns  # as recorded, of those that ended; zeros for those that run
    steps: int  # of training
    horizon: int

    def update_of(self, step: np.ndarray) -> np.ndarray:
        """Returns the update in which the last of so many steps was taken; the first one where none was."""
        return np.asarray(np.maximum(-(-step // self.horizon), 1))


def history(case: Case) -> History:
    return case.once("history", lambda: _history(case))


def _history(case: Case) -> History:
    held, r = held_environments(case), case.record
    if r.collection or any(k.startswith("fleet.") for k in case.ledger[-1]):
        raise NotApplicable("a fleet collected it, whose fragments may be lost or late")
    update = int(case.run.load_checkpoint("latest").meta["update"])
    e = {k: v[case.episodes["update"] <= update] for k, v in case.episodes.items()} if case.episodes else {}
    envs, size = r.recipe.envs, r.seeds.envs_per_family
    count = len(e["steps"]) if e else 0
    if count > MOST_EPISODES:
        raise NotApplicable(f"it has {count} episodes, too many to go through")
    none = np.zeros(0, np.int64)
    own = np.arange(envs)
    env = np.concatenate([e["family"] * size + e["member"] if e else none, own]).astype(np.int64)
    episode = np.concatenate([e["episode"] if e else none, held["episode"]]).astype(np.int64)
    lived = np.concatenate([e["steps"] if e else none, held["task.age"] - held["born"]]).astype(np.int64)
    reason = np.concatenate([e["reason"] if e else none, np.zeros(envs)]).astype(np.int64)
    order = np.lexsort((np.arange(len(env)), episode, env))
    columns = {
        k: np.concatenate([v, np.zeros(envs, v.dtype)])[order] for k, v in e.items() if v.dtype.kind != "O"
    }
    env, episode, lived, reason = (x[order] for x in (env, episode, lived, reason))
    end = np.cumsum(lived)
    first = np.searchsorted(env, own)
    before = np.concatenate([[0], end])[first]
    end = end - before[env]
    slow = slow_episodes(case, r.seeds.root)
    who = Who(env // size, env % size, episode, size)
    born = np.zeros(len(env))
    born[first] = slow.first_age(who.take(first))
    return History(who, end - lived, end, born, reason, columns, update * r.recipe.horizon, r.recipe.horizon)


def look(case: Case) -> list[Found]:
    """Follows every environment through training, and counts the ledger again."""
    h, slow = history(case), slow_episodes(case, case.record.seeds.root)
    found = [*_whole(h), *_ages(case, h, slow), *_levels(h, slow)]
    return found or list(_ledger(case, h, slow)) + list(_lockstep(case, h))


def _whole(h: History) -> Iterator[Found]:
    """Every environment has had its episodes from the first on, and they fill its time."""
    env = h.who.env
    first = np.searchsorted(env, np.arange(env.max() + 1))
    number = np.arange(len(env)) - first[env]
    if (wrong := h.who.episode != number).any():
        again = (np.diff(env) == 0) & (np.diff(h.who.episode) == 0)
        text = "was recorded twice" if again.any() else "is missing or has another's number"
        yield Found(
            f"Of {np.unique(env[wrong]).size} environments an episode {text}: they are not numbered from the "
            "first on.",
            cause="batch" if again.any() else "bookkeeping",
        )
        return
    last = np.append(first[1:], len(env)) - 1
    wrong = h.end[last] != h.steps
    if wrong.any():
        example = int(h.end[last][wrong][0])
        yield Found(
            f"Episodes do not add up to the {h.steps} steps of training in {int(wrong.sum())} of {len(last)} "
            f"environments (one has lived {example})."
        )
    ended = h.reason > 0
    if "update" in h.columns and (h.columns["update"] != h.update_of(h.end))[ended].any():
        yield Found("Episodes are recorded in other updates than those that they ended in.")


def _ages(case: Case, h: History, slow: SlowEpisodes) -> Iterator[Found]:
    """First episodes begin at staggered ages; who runs out of time does so at the declared age."""
    age = h.born + h.end - h.begin
    timeout = h.reason == TIMEOUT
    wrong = np.where(timeout, age != slow.steps, age > slow.steps) & ~np.isnan(h.born)
    held = held_environments(case)
    running = np.flatnonzero(h.reason == 0)
    expected = h.born[running]
    wrong[running] |= ~np.isnan(expected) & (held["born"] != expected)
    first = h.who.episode == 0
    if (wrong & first).any():
        share = f"{percent(wrong[first])} of environments"
        text = f"First episodes did not begin at the staggered ages that are drawn for them, in {share}."
        yield Found(text, cause="batch")
    if (wrong & ~first).any():
        share = f"{int((wrong & ~first).sum())} of {int((~first).sum())} later episodes"
        together = np.bincount(h.end[wrong & ~first]).max()
        in_step = together >= max(AT_LEAST, IN_STEP * len(running))
        yield Found(
            f"Time did not run out at the declared {slow.steps} steps, in {share}; {together} ended at once.",
            cause="batch" if in_step else "termination",
        )


def _levels(h: History, slow: SlowEpisodes) -> Iterator[Found]:
    """Levels follow the rule of the curriculum, from episode to episode."""
    top = slow.contract.terrain_levels
    if top == 1 or "walked_m" not in h.columns:
        return
    level = h.columns["level"].astype(np.int64)
    walked, asked = (h.columns[k].astype(np.float64) for k in ("walked_m", "commanded_m"))
    after = slow.next_level(h.who, level, walked, asked)[:-1]
    follows = (np.diff(h.who.env) == 0) & (h.reason[1:] > 0) & ~np.isnan(after)
    if (wrong := follows & (level[1:] != after)).any():
        share = f"{int(wrong.sum())} of {int(follows.sum())} times"
        yield Found(
            f"Levels of terrain did not follow what was walked of what was commanded, {share}.",
            cause="randomisation",
        )
    first = (h.who.episode == 0) & (h.reason > 0)
    if (level[first] != h.who.env[first] % max(1, top // 2)).any():
        yield Found("First levels were not spread over the lower half of all.", cause="randomisation")


def _ledger(case: Case, h: History, slow: SlowEpisodes) -> Iterator[Found]:
    """Each row of the ledger is counted again from episodes."""
    updates = h.steps // h.horizon
    rows = {int(r["update"]): r for r in case.ledger if r["update"] <= updates}
    ended = h.reason > 0
    at = h.update_of(h.end)
    expected: dict[str, np.ndarray] = {}
    names = ("timeout", *(t.name for t in slow.contract.terminations), "nonfinite")
    for k, name in enumerate(names):
        expected[f"reset.{name}"] = np.bincount(at[h.reason == k + 1], minlength=updates + 1)
    count = np.bincount(at[ended], minlength=updates + 1)
    expected["episode.count"] = count
    lived = (h.end - h.begin)[ended].astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected["episode.steps"] = np.bincount(at[ended], lived, updates + 1) / count
        if "return" in h.columns:
            paid = h.columns["return"][ended].astype(np.float64)
            expected["episode.return"] = np.bincount(at[ended], paid, updates + 1) / count
    families = int(h.who.family.max()) + 1
    expected["family.resets"] = _table(at[ended], h.who.family[ended], updates, families)
    strata = math.prod(slow.contract.strata.shape)
    begun = stratum(slow.contract, h.who)
    expected["stratum.resets"] = _table(h.update_of(h.begin), begun, updates, strata)
    if not np.isnan(h.born).any():
        expected["stratum.samples"] = _samples(h, slow, strata, updates)
    for name, values in expected.items():
        off = [u for u, row in rows.items() if name in row and not _same(row[name], values[u])]
        if off:
            yield Found(
                f"The ledger's {name} is not what its episodes come to, in {len(off)} of {len(rows)} updates "
                f"(first {off[0]})."
            )


def _table(update: np.ndarray, cell: np.ndarray, updates: int, cells: int) -> np.ndarray:
    """Counts [updates + 1, cells]."""
    flat = np.bincount(update * cells + cell, minlength=(updates + 1) * cells)
    return flat[: (updates + 1) * cells].reshape(updates + 1, cells)


def _samples(h: History, slow: SlowEpisodes, strata: int, updates: int) -> np.ndarray:
    """Counts samples [updates + 1, strata]: an episode is in the stratum of its part, as its age says."""
    change = np.zeros((h.steps + 1, strata), np.int32)
    born = h.born.astype(np.int64)
    for k in range(slow.segments):
        last = slow.steps if k == slow.segments - 1 else (k + 1) * slow.segment
        begin = np.maximum(h.begin, h.begin + k * slow.segment - born)
        end = np.minimum(h.end, h.begin + last - born)
        some = end > begin
        cell = stratum(slow.contract, h.who.take(some), k)
        np.add.at(change, (begin[some], cell), 1)
        np.add.at(change, (end[some], cell), -1)
    lived = np.cumsum(change[:-1], 0).reshape(updates, h.horizon, strata).sum(1)
    return np.concatenate([np.zeros((1, strata), lived.dtype), lived])


def _same(said: Any, value: np.ndarray) -> bool:
    if said is None:
        return bool(np.isnan(value))
    said = np.asarray(said, np.float64)
    return said.shape == value.shape and bool((np.abs(said - value) <= ROUNDING * (1 + np.abs(value))).all())


def _lockstep(case: Case, h: History) -> Iterator[Found]:
    """Environments are of different ages, in the middle of every update."""
    begin, born = h.begin, h.born
    worst, when = 0.0, 0
    envs = case.record.recipe.envs
    updates = h.steps // h.horizon
    for update in np.unique(np.linspace(1, updates, min(updates, MOST_LOOKS)).astype(int)):
        now = (update - 1) * h.horizon + h.horizon // 2
        there = (begin <= now) & (h.end > now)
        age = now - begin[there] + born[there]
        most = np.unique(age, return_counts=True)[1].max() / envs if there.any() else 0.0
        worst, when = (most, update) if most > worst else (worst, when)
    if worst >= IN_STEP and worst * envs >= AT_LEAST:
        yield Found(
            f"{100 * worst:.0f}% of environments were equally old at once, in update {when}: they are reset "
            "in lockstep.",
            cause="batch",
        )


DETECTORS = (
    Detector(
        name="episode-history",
        kind="proof",
        cause="bookkeeping",
        asks="Do episodes fill every environment's time, begin staggered, and come to the ledger's rows?",
        statistic="every episode of every environment, laid out over the steps of training by their lengths "
        "and the checkpoint's running ones; ages, levels, resets and samples by stratum and family from that",
        threshold="none for counts; 0.1% for means in single precision; lockstep: a quarter (clean: 4%)",
        means="Episodes were lost, repeated, cut, synchronised or counted otherwise than they happened.",
        remedy="Compare resets and the episode log with the ledger's row of the first update that is named.",
        look=look,
        needs=("robot", "ppo", "ledger", "history"),
        short=True,
    ),
)
