"""Is the ledger that of the whole run? Held to the episode table, to its own rates and seconds, to the latest
checkpoint and to run.json: by laws of conservation, over all updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.runs import waited

Row = Mapping[str, Any]
Law = Callable[[Case], Iterator[tuple[int, str]]]
"""Yields updates, and what is wrong in them."""
CLOSE = 1e-5
"""Relative: means of an update's episodes in single precision."""
KEPT = 1e-3
"""Part of a term's size over the whole run that sums in single precision may lose; clean runs: below 1e-5."""
FACTOR = 1.5
"""By which a gradient step may move the learning rate."""
STILL = 5
"""Updates in a row in which exploration does not move at all, which no optimiser leaves."""
NAMED = 6
SURE = 0.9
"""Part of a limit on the KL divergence below which a mean shows that no step was beyond it."""
WALKED = ("walked_m", "commanded_m")


def look(case: Case) -> list[Found]:
    """Checks every row against the others and against the episodes; one sentence for each kind of fault."""
    own = case.record.training_plant is not None and bool(case.episodes)
    fleet = any("fleet.issued" in row for row in case.ledger)
    lost = any(row.get("fleet.lost") or row.get("fleet.dropped") for row in case.ledger)
    laws: list[Law] = [shares, closing]
    laws += [episodes, terrain] if own else []
    laws += [] if fleet else [recipes, seconds]  # whose actors and updates overlap
    laws += [lives, conserved] if own and waited(case.record.collection) and not lost else []
    steps: list[Law] = [learning, exploration] if waited(case.record.collection) else [exploration]
    return [*_told(case, laws, ""), *_told(case, steps, "learning")]


def _told(case: Case, laws: list[Law], cause: str) -> Iterator[Found]:
    said: dict[str, list[int]] = {}
    for law in laws:
        for update, text in law(case):
            said.setdefault(text, []).append(update)
    for text, at in list(said.items())[:NAMED]:
        yield Found(f"{text} ({len(at)} updates, first {at[0]}).", cause=cause)


def _near(a: float | None, b: float | None, close: float = CLOSE) -> bool:
    if a is None or b is None:
        return a is None and b is None
    return math.isclose(a, b, rel_tol=close, abs_tol=close)


def recipes(case: Case) -> Iterator[tuple[int, str]]:
    """Figures that follow from the recipe alone."""
    r = case.record.recipe
    right = {
        "freshness.horizon_steps": r.horizon,
        "freshness.mean_age_steps": (r.horizon - 1) / 2,
        "freshness.epochs": r.epochs,
        "freshness.gradient_steps": r.epochs * r.minibatches,
    }
    for row in case.ledger:
        for name, value in right.items():
            if name in row and row[name] != value:
                yield int(row["update"]), f"{name} is not the recipe's"


def shares(case: Case) -> Iterator[tuple[int, str]]:
    """Shares are shares, sizes are not negative, and quantiles are in their order."""
    for row in case.ledger:
        yield from _shares(row, int(row["update"]))


def _shares(row: Row, u: int) -> Iterator[tuple[int, str]]:
    for name in ("action_clip_share", "clip_fraction"):
        if row.get(name) is not None and not 0 <= row[name] <= 1:
            yield u, f"{name} is no share"
    if (row.get("explained_variance") or 0) > 1 + CLOSE:
        yield u, "explained_variance is above 1"
    for name in ("grad_norm", "value_loss", "advantage.std", "advantage.largest"):
        if (row.get(name) or 0) < 0:
            yield u, f"{name} is negative"
    ranked = [row.get(f"advantage.{k}") for k in ("p01", "p99", "largest")]
    low, high, largest = (math.nan if x is None else float(x) for x in ranked)
    if low > high or high > largest * (1 + CLOSE) or low < -largest * (1 + CLOSE):
        yield u, "Quantiles of advantages are not in their order"


def learning(case: Case) -> Iterator[tuple[int, str]]:
    for row, before in zip(case.ledger, [None, *case.ledger[:-1]], strict=True):
        yield from _learning(case, row, before)


def _learning(case: Case, row: Row, before: Row | None) -> Iterator[tuple[int, str]]:
    """Learning rate and exploration keep the recipe's bounds, and move as gradient steps can move them."""
    r, u = case.record.recipe, int(row["update"])
    rate = row.get("learning_rate")
    if rate is None:
        return
    last = r.learning_rate if before is None else before["learning_rate"]
    if r.target_kl is None:
        if not _near(rate, r.learning_rate):
            yield u, "learning_rate is not the recipe's, which is constant"
        return
    if not r.min_learning_rate * (1 - CLOSE) <= rate <= r.max_learning_rate * (1 + CLOSE):
        yield u, "learning_rate is beyond the recipe's bounds"
        return
    steps, kl = r.epochs * r.minibatches, row.get("kl")
    highest = min(last * FACTOR**steps, r.max_learning_rate)
    lowest = max(last / FACTOR**steps, r.min_learning_rate)
    if not lowest * (1 - CLOSE) <= rate <= highest * (1 + CLOSE):
        yield u, "learning_rate moved further than an update's gradient steps can move it"
    elif kl is not None and kl * steps < r.target_kl / 2 * SURE and not _near(rate / highest, 1):
        yield u, "learning_rate did not rise where no step can have moved the policy far"
    elif kl is not None and kl * steps < 2 * r.target_kl * SURE and rate < last * (1 - CLOSE):
        yield u, "learning_rate fell where no step can have moved the policy too far"


def seconds(case: Case) -> Iterator[tuple[int, str]]:
    """Seconds add up, and rates are samples over them."""
    r, total = case.record.recipe, 0.0
    before: Row | None = None
    for row in case.ledger:
        u = int(row["update"])
        parts = [row.get(f"seconds.{k}") for k in ("environment", "inference", "learning")]
        spent = sum(p for p in parts if p is not None)
        if spent > 0 and not _near(row["steps_per_second"], r.envs * r.horizon / spent):
            yield u, "steps_per_second is not samples over the seconds of their update"
        total += row.get("seconds.evaluation") or 0.0
        if abs(row["wall_seconds"] - row["train_seconds"] - total) > 1e-3 + CLOSE * total:
            yield u, "wall_seconds are not those of training and of all evaluations so far"
            total = row["wall_seconds"] - row["train_seconds"]
        if before is not None:
            if row["train_seconds"] <= before["train_seconds"]:
                yield u, "train_seconds do not grow"
            grown = row["train_seconds"] - before["train_seconds"]
            known = case.record.device == "cpu" and None not in parts
            if known and 0 < grown < spent * (1 - CLOSE) - 1e-3:
                yield u, "train_seconds grow by less than the update took"
            if row["elapsed_seconds"] < before["elapsed_seconds"]:
                yield u, "elapsed_seconds do not grow"
        before = row


def episodes(case: Case) -> Iterator[tuple[int, str]]:
    """Counts and means of an update are those of the episodes that the table has of it."""
    e, r = case.episodes, case.record.recipe
    reasons = [k for k in case.ledger[0] if k.startswith("reset.")]
    terms = [v.astype(np.float64) for k, v in e.items() if k.startswith("return.")]
    if terms:
        total, size = np.sum(terms, 0), np.sum(np.abs(terms), 0)
        for u in e["update"][np.abs(e["return"] - total) > 1e-3 * (1 + size)][:1]:
            yield int(u), "An episode's return is not the sum of its terms"
    for row in case.ledger:
        u = int(row["update"])
        here = e["update"] == u
        steps, paid = e["steps"][here], e["return"][here].astype(np.float64)
        if row["episode.count"] != len(steps):
            yield u, "episode.count is not that of the episodes recorded"
            continue
        if len(steps) and not _near(row["episode.steps"], float(steps.mean())):
            yield u, "episode.steps is not the mean of the episodes recorded"
        scale = float(np.abs(paid).mean()) if len(paid) else 0.0
        if len(paid) and abs(row["episode.return"] - float(paid.mean())) > CLOSE * (1 + scale):
            yield u, "episode.return is not the mean of the episodes recorded"
        if not len(steps) and (row["episode.steps"] is not None or row["episode.return"] is not None):
            yield u, "Means are stated of no episode"
        ended = np.bincount(e["reason"][here].astype(int), minlength=len(reasons) + 1)[1:].tolist()
        if ended != [row[k] for k in reasons]:
            yield u, "Resets by reason are not the ends of the episodes recorded"
        if np.bincount(e["family"][here], minlength=r.families).tolist() != row["family.resets"]:
            yield u, "family.resets are not those of the episodes recorded"


def lives(case: Case) -> Iterator[tuple[int, str]]:
    """An environment lives one episode after the other without a gap: the steps of those so far say in which
    update each ends."""
    e, r = case.episodes, case.record.recipe
    place = e["family"].astype(np.int64) * (r.envs // r.families) + e["member"]
    order = np.lexsort((e["episode"], place))
    place, number, steps, update = (x[order] for x in (place, e["episode"], e["steps"], e["update"]))
    first = np.concatenate([[True], place[1:] != place[:-1]])
    begins = np.flatnonzero(first)
    of = np.cumsum(first) - 1
    if (number != np.arange(len(number)) - begins[of]).any():
        at = np.flatnonzero(number != np.arange(len(number)) - begins[of])[0]
        yield int(update[at]), "Episodes of an environment are missing, or there twice"
        return
    lived = np.cumsum(steps)
    lived = lived - (lived[begins] - steps[begins])[of]
    wrong = -(-lived // r.horizon) != update
    for u in np.unique(update[wrong]):
        yield int(u), "Episodes did not last as long as the environment lived between their ends"
    whole = (
        round(case.record.contract.episode_s * r.control_hz)
        if hasattr(case.record.contract, "episode_s")
        else None
    )
    if whole is not None and (steps > whole).any():
        yield int(update[steps > whole][0]), "An episode lasted longer than episodes may"


def conserved(case: Case) -> Iterator[tuple[int, str]]:
    """What was paid by a term over all updates is in episodes that ended or that still run."""
    latest = case.run.load_checkpoint("latest")
    running = case.tensors("latest", "env").get("returns")
    rows = [row for row in case.ledger if row["update"] <= int(latest.meta["update"])]
    names = [k.removeprefix("reward.") for k in rows[0] if k.startswith("reward.")] if rows else []
    if running is None or running.shape[-1] != len(names) or rows[-1]["update"] != case.ledger[-1]["update"]:
        return
    if any(row.get("reset.nonfinite") for row in rows):
        return
    samples = case.record.recipe.envs * case.record.recipe.horizon
    for k, name in enumerate(names):
        column = case.episodes.get(f"return.{name}")
        if column is None:
            continue
        paid = samples * sum(row[f"reward.{name}"] for row in rows)
        size = samples * sum(abs(row[f"reward.{name}"]) for row in rows)
        there = float(column.astype(np.float64).sum()) + float(running[:, k].double().sum())
        if abs(paid - there) > KEPT * size + 1e-3:
            yield 0, f"What '{name}' paid in all is {paid:.5g} by the ledger and {there:.5g} by the episodes"


def terrain(case: Case) -> Iterator[tuple[int, str]]:
    """Counts by class and level are those of the episodes recorded."""
    e, envs = case.episodes, case.record.recipe.envs
    if "terrain" not in e:
        return
    for row in case.ledger:
        u = int(row["update"])
        standing = [v for k, v in row.items() if k.startswith("terrain.envs.")]
        if standing and sum(map(sum, standing)) != envs:
            yield u, "terrain.envs do not add up to the environments"
        for key in (k for k in row if k.startswith("terrain.episodes.")):
            cls = key.removeprefix("terrain.episodes.")
            here = (e["update"] == u) & (e["terrain"] == cls)
            level, levels = e["level"][here].astype(int), len(row[key])
            fell = e["reason"][here] > 1
            if np.bincount(level, minlength=levels).tolist() != row[key]:
                yield u, "terrain.episodes are not those recorded"
            if np.bincount(level[fell], minlength=levels).tolist() != row[f"terrain.falls.{cls}"]:
                yield u, "terrain.falls are not those recorded"
            for k, said in enumerate(row[f"terrain.walked.{cls}"]):
                own = here & (e["level"] == k)
                walked, asked = (float(e[x][own].astype(np.float64).sum()) for x in WALKED)
                if not _near(said, walked / asked if asked > 0 else None, 1e-4):
                    yield u, "terrain.walked are not those recorded"


def closing(case: Case) -> Iterator[tuple[int, str]]:
    """run.json says what the last row says; exploration moved."""
    f, rows = case.record.figures, case.ledger
    if case.record.status == "finished" and f:
        for name in ("samples", "train_seconds"):
            if f.get(name) is not None and not _near(float(f[name] or 0), float(rows[-1][name])):
                yield 0, f"{name} of run.json are not those of the ledger"
        if f.get("updates") is not None and f["updates"] != rows[-1]["update"]:
            yield 0, "updates of run.json are not those of the ledger"
        rate, spent = f.get("steps_per_second"), rows[-1]["train_seconds"]
        if rate is not None and not _near(float(rate), rows[-1]["samples"] / spent):
            yield 0, "steps_per_second of run.json is not samples over seconds"
        evaluated = rows[-1]["wall_seconds"] - spent
        if f.get("evaluation_seconds") is not None and float(f["evaluation_seconds"] or 0) < evaluated - 1e-3:
            yield 0, "evaluation_seconds of run.json are fewer than the ledger's"


def exploration(case: Case) -> Iterator[tuple[int, str]]:
    """Exploration moves, and its entropy is what its size can have."""
    r, before = case.record.recipe, None
    moved: list[float] = []
    steps, size = r.epochs * r.minibatches, case.record.contract.action.size
    for row in case.ledger:
        std, entropy = row.get("std"), row.get("entropy")
        if std is None or entropy is None:
            return
        if not r.min_std * (1 - CLOSE) <= std <= r.max_std * (1 + CLOSE):
            yield int(row["update"]), "std is beyond the recipe's bounds"
        most = 0.5 * math.log(2 * math.pi * math.e) + math.log(max(std, before or r.init_std))
        if entropy > size * (most + steps * r.max_learning_rate):  # as far as the steps between can go
            yield int(row["update"]), "entropy is above what exploration of this std can have"
        moved, before = [*moved, std][-STILL - 1 :], std
        at_end = any(_near(std, x) for x in (r.min_std, r.max_std))
        if len(moved) > STILL and len(set(moved)) == 1 and not at_end:
            yield int(row["update"]), f"Exploration did not move in {STILL} updates"


DETECTORS = (
    Detector(
        name="ledger-whole",
        kind="proof",
        cause="bookkeeping",
        asks="Is the ledger that of the whole run, episode for episode and second for second?",
        statistic="counts, means and ends of every update against the episode table; each environment's life "
        "against the updates that its episodes end in; what each term paid over the run against episodes "
        "ended and running; seconds and rates; learning rate and exploration against what steps can do",
        threshold="counts exactly; 1e-5 of means, 1e-3 of sums over the run: single precision; 1 ms",
        means="The record of training is not what happened: something is smoothed, late, left out or twice.",
        remedy="Look at the first update that is named, in training/batch.py and runs/folder.py.",
        look=look,
        needs=("ppo", "ledger"),
        short=True,
    ),
)
