"""Is the panel what its recipe says, are episodes those of its scenarios, and has nobody trained on them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.panel_traces import Traced, panel_called, traced
from surefoot.audits.slow_drawn import drawn_again
from surefoot.audits.slow_philox import ALL, EVAL, TRAIN, philox
from surefoot.contract import DrawnPanel, Panel, Scenario
from surefoot.evidence import passes_of
from surefoot.runs import load_pass, read_summary

ROUNDING = 1e-8
"""Figures of drawn scenarios have nine decimals, pushes' times two."""
SINGLE = 2e-6
"""What single precision keeps of a figure, relative, and of a place in a range."""
HALVES = ("selection", "confirmation")
MOST = 400
"""Scenarios of a half that are drawn again: its first ones."""
SPLITS = {"train": TRAIN, "eval": EVAL}


def panels_of(case: Case) -> list[Panel]:
    """Returns the panels that the run was chosen and confirmed on."""
    out: dict[str, Panel] = {}
    for folder in passes_of(case.run):
        s = read_summary(folder)
        out.setdefault(s.panel_digest, panel_called(case, s.panel, s.panel_digest))
    return list(out.values()) or [case.robot.panel]


# ---- the panel itself


def look_at_panel(case: Case) -> list[Found]:
    return [f for panel in panels_of(case) for f in _panel_faults(panel, case)]


def _panel_faults(panel: Panel, case: Case) -> Iterator[Found]:
    if panel.seeds.split != "eval":
        yield Found(f"Panel {panel.name} draws from the split {panel.seeds.split}.", cause="held-out")
    halves = {h: [s for s in panel.scenarios if s.half == h] for h in HALVES}
    values = {h: {content(s) for s in own} for h, own in halves.items()}
    shared = len(values["selection"] & values["confirmation"])
    if shared:
        yield Found(
            f"{shared} scenarios of panel {panel.name} are in both of its halves, by value.", cause="held-out"
        )
    families = {h: {s.family for s in own} for h, own in halves.items()}
    if families["selection"] & families["confirmation"]:
        yield Found(f"The halves of panel {panel.name} share seed families.", cause="held-out")
    for half, own in halves.items():
        twins = len(own) - len(values[half])
        if twins:
            yield Found(f"{twins} scenarios of the {half} half of panel {panel.name} are there twice.")
    if isinstance(panel, DrawnPanel):
        yield from _drawn_faults(panel, halves)


def content(s: Scenario) -> tuple[Any, ...]:
    """Returns all that a scenario holds, but for who it is."""
    pushes = tuple((p.time_s, p.vx_mps, p.vy_mps) for p in s.pushes)
    body = (s.friction, s.payload_kg, *s.com_m, s.strength, s.kp_scale, s.kd_scale, s.delay_s, s.noise_scale)
    return (*s.command, *body, pushes, s.terrain.cls, s.terrain.level, s.terrain.key)


def _drawn_faults(panel: DrawnPanel, halves: dict[str, list[Scenario]]) -> Iterator[Found]:
    for number, (half, own) in enumerate(halves.items()):
        right = drawn_again(panel, number, min(len(own), MOST))
        wrong: dict[str, list[int]] = {}
        for s, r in zip(own, right, strict=False):
            for name in differing(s, r):
                wrong.setdefault(name, []).append(s.family)
        if wrong:
            names = ", ".join(f"{k} in {len(v)}" for k, v in wrong.items())
            yield Found(
                f"Of {len(right)} scenarios of the {half} half, panel {panel.name} has others than its "
                f"recipe and root give: {names} (first: family {min(min(v) for v in wrong.values())}).",
                cause="held-out" if "family" in wrong else "panel-plant",
            )
    sizes = [len(own) for own in halves.values()]
    if sizes[0] != min(panel.draw.selection, sizes[1]):
        yield Found(
            f"The selection half of panel {panel.name} has {sizes[0]} scenarios, and its recipe gives it "
            f"{panel.draw.selection}, or as many as the other half."
        )
    if abs(panel.episode_s - panel.draw.episode_s) > ROUNDING:
        yield Found(
            f"Episodes of panel {panel.name} last {panel.episode_s:g} s, not {panel.draw.episode_s:g}."
        )


def differing(s: Scenario, right: dict[str, Any]) -> list[str]:
    """Names what a scenario has otherwise than it was drawn."""
    own: dict[str, Any] = {k: getattr(s, k) for k in right if hasattr(s, k)}
    own |= {"ground": s.terrain.cls, "level": s.terrain.level, "key": s.terrain.key, "push": ()}
    if len(s.pushes) == 1:
        p = s.pushes[0]
        own["push"] = (p.time_s, p.vx_mps, p.vy_mps)
    out = []
    for name, told in right.items():
        if isinstance(told, list):
            there = np.ravel(np.asarray(own[name], np.float64))
            same = len(there) == len(told) and np.abs(there - told).max(initial=0.0) <= ROUNDING
        else:
            same = own[name] == told
        if not same:
            out.append(name)
    return out


# ---- what was played


def look_at_episodes(case: Case) -> list[Found]:
    """Compares what kept episodes were given with the panel's scenarios, shifted as their columns say."""
    wrong: dict[tuple[str, str], list[Traced]] = {}
    hz = case.robot.recipe.control_hz
    for t in traced(case):
        for name in given_otherwise(t, hz):
            wrong.setdefault((name, t.column.perturbation), []).append(t)
    return [
        Found(
            f"{len(ts)} kept episodes {f'of perturbation {kind!r} ' if kind else ''}were not given the "
            f"{name} of their scenario (first: {ts[0].name}).",
            cause="perturbation" if kind and (name, "") not in wrong else "panel-plant",
        )
        for (name, kind), ts in wrong.items()
        if not kind or (name, "") not in wrong
    ]


def given_otherwise(t: Traced, hz: float) -> Iterator[str]:
    """Names what an episode was given otherwise than its scenario and column say."""
    f, s, column = t.frames, t.scenario, t.column
    names = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale", "delay_s", "noise_scale")
    right: dict[str, Any] = {k: getattr(s, k) for k in names}
    right |= {"family": s.family, "member": s.member, "episode_steps": round(t.panel.episode_s * hz)}
    right |= {"push_step": [round(p.time_s * hz) for p in s.pushes]}
    right |= {"push_velocity": [(p.vx_mps, p.vy_mps) for p in s.pushes]}
    right |= {"terrain_level": s.terrain.level, "terrain_key": s.terrain.key}
    faults = {"dropout": "dropout", "bias": "sensor_bias", "stuck": "stuck_signals"}
    faults |= {"obs_delay": "sensor_delay_steps"}
    right |= {k: column.strength if column.perturbation == kind else 0.0 for kind, k in faults.items()}
    for name, value in right.items():
        if name not in f:  # of before traces said so
            continue
        there, told = np.ravel(f[name]).astype(np.float64), np.ravel(np.asarray(value, np.float64))
        if there.shape != told.shape or (np.abs(there - told) > SINGLE * (1 + np.abs(told))).any():
            yield name
    if (np.abs(f["command"] - np.asarray(s.command)) > SINGLE * 2).any():
        yield "command"
    if str(f["terrain_class"]) != s.terrain.cls:
        yield "ground"


# ---- who else used it


def look_for_leaks(case: Case) -> list[Found]:
    """Looks for the panel's draws in training, and for its episodes in both halves."""
    r = case.record
    out: list[Found] = []
    if r.seeds.split != "train":
        out.append(Found(f"Training draws from the split {r.seeds.split}."))
    for panel in panels_of(case):
        if panel.seeds.root == r.seeds.root and panel.seeds.split == r.seeds.split:
            out.append(Found(f"Training and panel {panel.name} draw from one root and split."))
        out += _trained_on(case, panel)
    return [*out, *_played_twice(case)]


def _trained_on(case: Case, panel: Panel) -> Iterator[Found]:
    """Yields a finding where recorded training episodes have the numbers that the panel's root and split give
    them."""
    e, contract = case.episodes, case.robot.task.contract
    quantities = {"delay": ("delay_s", 6), "payload": ("payload_kg", 2), "friction": ("friction", 1)}
    levels = {f.name: f.level for f in contract.factors}
    for name, (column, channel) in quantities.items():
        if column not in e or name not in levels:
            continue
        low, high = contract.factor(name).train
        if not high > low:
            continue
        bins = contract.factor(name).bins if name in contract.stratify else 1
        inside = (e[column].astype(np.float64) - low) / (high - low) * bins
        level = levels[name]
        every = np.full(len(inside), ALL)
        member = every if level == "family" else e["member"]
        family, own = e["family"], e["episode"] if level == "episode" else every
        where = (0, channel + 65536 * SPLITS.get(panel.seeds.split, EVAL), member, own)
        u = (philox((panel.seeds.root, family), where)[..., 0] >> np.uint64(8)).astype(np.float64) / 2**24
        same = np.abs((inside - u + 0.5) % 1 - 0.5) < SINGLE
        if same.sum() >= max(3, 0.02 * len(same)):
            yield Found(
                f"In {int(same.sum())} of {len(same)} training episodes {name} was drawn from the root and "
                f"split of panel {panel.name}: training saw what is held out."
            )


def _played_twice(case: Case) -> Iterator[Found]:
    """Yields a finding where episodes of the two halves are the same to the bit."""
    halves: dict[str, dict[str, str]] = {}
    for folder in passes_of(case.run):
        t = load_pass(case.run, folder).table
        if "states_digest" not in t:
            continue
        for half, states in zip(t["half"].astype(str), t["states_digest"].astype(str), strict=True):
            halves.setdefault(half, {})[states] = folder.name
    both = set(halves.get("selection", ())) & set(halves.get("confirmation", ()))
    if both:
        yield Found(f"{len(both)} held-out episodes were played in both halves, to the bit.")


def look_through_training(case: Case) -> list[Found]:
    if not passes_of(case.run):
        raise NotApplicable("nothing was evaluated on a panel")
    return look_for_leaks(case)


DETECTORS = (
    Detector(
        name="panel-drawn",
        kind="proof",
        cause="panel-plant",
        asks="Is the panel what its recipe and root give, without twins, and are its halves apart?",
        statistic="every figure of its scenarios, drawn again by a slow twin; scenarios that are there twice",
        threshold="1e-8: figures are rounded to nine decimals",
        means="What was played is not the panel that the run names, or one half tells of the other.",
        remedy="Make the panel again with `surefoot panel make`, and compare its digest.",
        look=look_at_panel,
        needs=("robot",),
        short=True,
    ),
    Detector(
        name="panel-given",
        kind="proof",
        cause="panel-plant",
        asks="Were held-out episodes given what their scenarios and columns say?",
        statistic="body, friction, delay, noise, pushes, command, ground, faults and length of kept episodes",
        threshold="rounding of single precision",
        means="Rows are of other scenarios, or of other columns, than they say.",
        remedy="Compare the trace that is named with its scenario in the panel's file.",
        look=look_at_episodes,
        needs=("confirmed", "robot"),
        short=True,
    ),
    Detector(
        name="panel-unseen",
        kind="proof",
        cause="held-out",
        asks="Has nobody trained on the panel, and chosen on what confirms?",
        statistic="training episodes whose friction, payload or delay are those that the panel's root and "
        "split give to their address; episodes of both halves that are the same",
        threshold="2% of the episodes, and 3: by chance one value in 250,000 agrees",
        means="The result is not of held-out scenarios.",
        remedy="Train with another root seed and split; look at what gives environments their seeds.",
        look=look_through_training,
        needs=("robot",),
        short=True,
    ),
)
