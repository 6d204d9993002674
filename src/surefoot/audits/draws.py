"""Did every environment draw its own episodes, each quantity by its key? All of them are drawn again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from surefoot.audits.case import Case, as_numpy
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.slow_deal import Who
from surefoot.audits.slow_episodes import Columns, SlowEpisodes
from surefoot.audits.slow_philox import EVAL, TRAIN
from surefoot.contract import TaskContract

ROUNDING, SAME = 2e-5, 1e-6
"""Allowed for draws relative to 1 + size (clean runs: below 3e-7 on a CPU; fast cosines of a GPU are wider),
and for values that are to be one and the same."""
MOST_EPISODES = 20_000
"""Recorded episodes that are drawn again, at most."""
LOOKED_AT = 24
"""Environments whose wrong draws are looked for elsewhere."""
EARLIER = 40
"""Episodes back that a repeated draw is looked for."""
NAMES = {
    "friction": "friction", "payload_kg": "payload", "com_m": "centre of mass", "strength": "strength",
    "kp_scale": "stiffness", "kd_scale": "damping", "delay_s": "delay", "push_step": "times of pushes",
    "push_velocity": "pushes", "noise_scale": "noise", "phase": "gait clock", "commands": "commands",
    "stratum": "strata",
}  # fmt: skip
FOR_LIFE = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale")
PANEL, OTHERS, EARLIER_ONES, NOWHERE = range(4)


def expected_of(episodes: SlowEpisodes, who: Who, names: Iterable[str]) -> Columns:
    """Returns what is drawn for episodes: the quantities `names` of scripts and parameters."""
    names, out = set(names), Columns()
    if names & set(FOR_LIFE):
        out |= episodes.for_life(who)
    if "delay_s" in names:
        out["delay_s"] = episodes.delay_s(who)
    if names - set(FOR_LIFE) - {"delay_s"}:
        out |= episodes.script(who)
    return out


def differs(said: np.ndarray, expected: np.ndarray, rounding: float = ROUNDING) -> np.ndarray:
    """Returns which rows [N] are not what is expected; where nothing is expected (NaN) all is well."""
    gap = np.abs(said.astype(np.float64) - expected)
    out = ~np.isnan(expected) & ~(gap <= rounding * (1 + np.abs(expected)))
    return np.asarray(out.reshape(len(out), -1).any(1))


def percent(rows: np.ndarray) -> str:
    """Returns the share of rows that are true, as text."""
    share = 100 * float(rows.mean())
    return f"{share:.0f}%" if share >= 10 else f"{share:.2g}%"


@dataclass(frozen=True)
class Drawn:
    """Quantities that environments have, and the addresses that they should be drawn from."""

    episodes: SlowEpisodes
    who: Who
    said: Columns
    panel: tuple[tuple[int, int], ...]
    """Root seeds and splits that are not the run's to draw from."""
    what: str
    """Names the rows."""

    def faults(self) -> list[Found]:
        """Says which quantities are not those of their keys, and whose they are instead."""
        expected = expected_of(self.episodes, self.who, self.said)
        wrong = {k: differs(v, expected[k]) for k, v in self.said.items()}
        wrong = {k: rows for k, rows in wrong.items() if rows.any()}
        if not wrong:
            return []
        whose = {k: self._whose(k, np.flatnonzero(rows)) for k, rows in wrong.items()}
        rows = np.any(list(wrong.values()), 0)
        share = f"{percent(rows)} of {len(rows)} {self.what}"
        what = ", ".join(NAMES[k] for k in wrong)
        found = set(whose.values())
        if PANEL in found:
            text = f"Draws are made from the seeds that the panel is held out by: {what}, in {share}."
            return [Found(text, cause="held-out")]
        if EARLIER_ONES in found:
            return [Found(f"Episodes repeat draws of earlier ones: {what}, in {share}.", cause="batch")]
        if OTHERS in found:
            text = f"Environments have draws of others instead of their own: {what}, in {share}."
            return [Found(text, cause="batch")]
        if set(wrong) == {"stratum"}:
            text = f"Strata are not those of what was dealt, in {share}: labels that batches are counted by."
            return [Found(text, cause="bookkeeping")]
        of_episode = [k for k in self.said if k not in (*FOR_LIFE, "stratum")]
        by_key = "stratum" in wrong or (len(of_episode) > 2 and all(k in wrong for k in of_episode))
        cause = "batch" if by_key else "randomisation"
        return [Found(f"Not drawn as declared, by their keys: {what}, in {share}.", cause=cause)]

    def _whose(self, name: str, rows: np.ndarray) -> int:
        """Says where wrong draws come from, as far as most of them tell."""
        rows = rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).astype(int)]
        who, said = self.who.take(rows), self.said[name][rows]
        for address in self.panel:
            theirs = expected_of(self.episodes.from_seeds(*address), who, (name,))[name]
            if (~differs(said, theirs)).mean() > 0.5:
                return PANEL
        if name == "stratum":
            return NOWHERE
        n = len(self.who.family)
        family, member = (np.tile(x, len(rows)) for x in (self.who.family, self.who.member))
        others = Who(family, member, np.repeat(who.episode, n), who.size)
        if self._mostly(name, said, others, who):
            return OTHERS
        if name in FOR_LIFE:
            return NOWHERE
        number = np.maximum(who.episode[:, None] - np.arange(1, EARLIER + 1), 0)
        earlier = Who(
            np.repeat(who.family, EARLIER), np.repeat(who.member, EARLIER), number.ravel(), who.size
        )
        return EARLIER_ONES if self._mostly(name, said, earlier, who) else NOWHERE

    def _mostly(self, name: str, said: np.ndarray, other: Who, who: Who) -> bool:
        """Tells whether most of `said` [M] is drawn for one of the addresses `other`, of which each has as
        many."""
        row = np.repeat(np.arange(len(said)), len(other.family) // len(said))
        same = ~differs(said[row], expected_of(self.episodes, other, (name,))[name])
        same &= (other.env != who.env[row]) | (other.episode != who.episode[row])
        return bool((np.bincount(row, same, len(said)) > 0).mean() > 0.5)


def not_the_runs(case: Case, root: int) -> tuple[tuple[int, int], ...]:
    """Returns (root, split) that held-out episodes are drawn from, where training draws from `root`."""
    panel = case.record.panel_seeds.root
    return tuple({(panel, EVAL), (panel, TRAIN), (root, EVAL)} - {(root, TRAIN)})


def held_environments(case: Case) -> Columns:
    """Returns what all environments of the run hold in its latest checkpoint."""
    held = case.tensors("latest", "env")
    if "script.commands" not in held:
        raise NotApplicable("its checkpoints have no environments")
    return as_numpy(held)


def own_numbers(case: Case, envs: np.ndarray, episode: np.ndarray) -> Who:
    size = case.record.seeds.envs_per_family
    return Who(envs // size, envs % size, episode, size)


def slow_episodes(case: Case, root: int) -> SlowEpisodes:
    contract = cast(TaskContract, case.record.contract)
    return SlowEpisodes(contract, case.record.recipe.control_hz, root, TRAIN)


def quantities(held: Columns) -> Columns:
    """Returns drawn quantities of a snapshot of environments, by their own names."""
    drawn = {k.partition(".")[2]: v for k, v in held.items() if k.startswith(("script.", "parameters."))}
    return {k: v for k, v in drawn.items() if k in NAMES}


def look(case: Case) -> list[Found]:
    """Draws again what the environments of the latest checkpoint hold, and what ended episodes recorded."""
    record, r = case.record, case.record.seeds
    if (r.root, r.split) == (record.panel_seeds.root, record.panel_seeds.split):
        text = f"The run and its panel draw from the same seeds: root {r.root}, split {r.split}."
        return [Found(text, cause="held-out")]
    if record.learner != "ppo" and not case.episodes:
        raise NotApplicable(f"it was trained by {record.learner}, and no training episode was recorded")
    found = [*(_held(case) if record.learner == "ppo" else ()), *_ended(case)]
    return [f for k, f in enumerate(found) if f.statement not in {g.statement for g in found[:k]}]


def _held(case: Case) -> Iterator[Found]:
    held = held_environments(case)
    who = own_numbers(case, np.arange(len(held["episode"])), held["episode"])
    for name in ("family", "member", "episode"):
        if (held[f"script.{name}"] != getattr(who, name)).any():
            yield Found(f"Environments do not draw by their own {name}.")
            return
    episodes = slow_episodes(case, case.record.seeds.root)
    if found := Drawn(
        episodes, who, quantities(held), not_the_runs(case, episodes.root), "environments"
    ).faults():
        yield from found
        return
    rows = np.arange(len(who.family))
    segment = np.minimum(held["task.age"] // episodes.segment, episodes.segments - 1)
    off = differs(held["task.command"], held["script.commands"][rows, segment])
    if off.any():
        share = f"{100 * off.mean():.0f}% of environments"
        yield Found(
            f"The command that is followed is not the one drawn for this part of an episode, in {share}."
        )
    copies = len(held["critic"]) - len(np.unique(held["critic"], axis=0))
    if copies:
        yield Found(f"{copies} environments are in the very state of another one.")


def _ended(case: Case) -> Iterator[Found]:
    """Episodes that were recorded had the parameters of their keys."""
    e = case.episodes
    if not e:
        return
    rows = np.arange(len(e["episode"]))
    if len(rows) > MOST_EPISODES:
        rows = np.sort(case.numbers("draws").choice(rows, MOST_EPISODES, replace=False))
    size = case.record.seeds.envs_per_family
    family, member, episode = (e[k][rows].astype(np.int64) for k in ("family", "member", "episode"))
    who = Who(family, member, episode, size)
    said = {k: e[k][rows] for k in ("friction", "payload_kg", "delay_s")}
    episodes = slow_episodes(case, case.record.seeds.root)
    yield from Drawn(episodes, who, said, not_the_runs(case, episodes.root), "recorded episodes").faults()


def look_at_panel(case: Case) -> list[Found]:
    """Looks for scenarios of the panel, by value, among what was trained on."""
    held, rows = held_environments(case), case.result.rows
    said = np.stack([held["parameters.friction"], held["parameters.payload_kg"]], 1)
    shared = 0
    for f, p in {(float(f), float(p)) for f, p in zip(rows["friction"], rows["payload_kg"], strict=True)}:
        shared += int((~differs(said, np.broadcast_to([f, p], said.shape), SAME)).sum())
    if not shared:
        return []
    return [Found(f"{shared} training environments have friction and payload of held-out scenarios.")]


DETECTORS = (
    Detector(
        name="draws",
        kind="proof",
        cause="batch",
        asks="Did every environment draw episodes of its own, each quantity by the key of the seed plan?",
        statistic="scripts and parameters of all environments in the latest checkpoint, and of ended "
        "episodes, drawn again by another cipher and another deal; what differs is looked for among draws of "
        "other environments, of earlier episodes and of the panel's seeds",
        threshold="2e-5 of 1 + a quantity's size: rounding of single precision (clean runs: below 3e-7)",
        means="Environments share or repeat episodes, or draw from seeds or ranges that are not declared.",
        remedy="Compare env/episodes.py and env/scenarios.py with the contract's factors and seed plan.",
        look=look,
        needs=("robot",),
        short=True,
    ),
    Detector(
        name="panel-scenarios",
        kind="proof",
        cause="held-out",
        asks="Was none of the panel's scenarios trained on?",
        statistic="training environments whose friction and payload are those of a scenario of the panel",
        threshold="none: chance would have to agree twice to 1e-6, for a thousand environments once in 1e6",
        means="Held-out success is not held out.",
        remedy="Look at where training gets its scenarios from.",
        look=look_at_panel,
        needs=("robot", "ppo", "confirmed"),
        short=True,
    ),
)
