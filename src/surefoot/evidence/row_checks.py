"""Whether the rows of a panel pass can be what they say: checks of a table against itself, against the
contract and against the panel. Nothing is simulated.

Each check yields a sentence for each thing that is wrong. None of them proves rows right: rows that were
made up with care pass all of them, and only a replay tells (`surefoot verify`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from surefoot.contract import (
    BOX_WORLD,
    NOMINAL,
    SENSORS,
    TRAINED,
    Column,
    Half,
    Panel,
    SeedPanel,
    SurefootError,
    TaskContract,
    column_at,
    find_perturbation,
    perturb_all,
)
from surefoot.runs import Result
from surefoot.statistics import split_columns, succeeded

Rows = Mapping[str, np.ndarray]
TOLERANCE = 1e-5
"""Relative: sums of single precision in another order."""
COPIED = 0.5
"""A column is a copy of the nominal one where more of its changed scenarios than this gave the same states
to the bit. Two that part at all never meet again; a push may come after the end of an episode."""


def check_outcomes(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """Falls follow from how episodes ended, success from falls and errors, labels from success."""
    t, contract = result.table, result.run.contract
    yield from _rows(t, t["fall"] != (t["reason"].astype(str) != "timeout"), "`fall` is not how they ended")
    right = succeeded(t, contract)
    yield from _rows(t, t["success"] != right, "`success` does not follow from their own errors and ends")
    if "label" in t:
        named = t["label"].astype(str) != ""
        yield from _rows(t, named == t["success"], "the failure label and `success` contradict each other")


def check_time(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """Seconds are steps times the control period, and an episode that ran out of time has all its steps."""
    t, contract, hz = result.table, result.run.contract, result.run.recipe.control_hz
    steps = t["steps"].astype(np.float64)
    yield from _rows(t, steps < 1, "they have no step")
    if isinstance(contract, TaskContract):
        yield from _rows(t, ~_close(t["lived_s"], steps / hz), "`lived_s` is not their steps' time")
    if isinstance(panel, Panel):
        whole, late = round(panel.episode_s * hz), t["reason"].astype(str) == "timeout"
        yield from _rows(t, (steps > whole) | (late & (steps != whole)), f"they are not of {whole} steps")


def check_sums(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """Figures of one episode that are sums or bounds of each other are so."""
    t = result.table
    terms = [v for k, v in t.items() if k.startswith("return.")]
    if terms:
        total = np.sum(terms, 0)
        scale = 1 + np.sum(np.abs(terms), 0)
        floored = getattr(result.run.contract, "reward_floor", None) is not None
        off = t["return"] - total
        wrong = (off < -TOLERANCE * scale) if floored else (np.abs(off) > TOLERANCE * scale)
        yield from _rows(t, wrong, "`return` is not the sum of its terms")
    if {"error_vx", "error_vy", "error_wz"} <= t.keys():
        x, y, wz = (t[f"error_{k}"].astype(np.float64) for k in ("vx", "vy", "wz"))
        velocity, yaw = t["velocity_error_mps"], t["yaw_error_radps"]
        both = np.isfinite(velocity) & np.isfinite(x)
        slack = TOLERANCE * (1 + np.abs(x) + np.abs(y))
        outside = (velocity < np.hypot(x, y) - slack) | (velocity > x + y + slack)
        yield from _rows(t, both & outside, "`velocity_error_mps` is not that of its axes")
        yield from _rows(t, ~_close(yaw, wz), "`yaw_error_radps` is not `error_wz`")
        for k, error in (("vx", x), ("vy", y), ("wz", wz)):
            mean = np.abs(t[f"achieved_{k}"] - t[f"command_{k}"])
            over = np.isfinite(mean) & (mean > error + TOLERANCE * (1 + mean))
            yield from _rows(t, over, f"`error_{k}` is below the error of the mean velocity")
    for name in ("torque_saturation", "trunk_contact"):
        share = t.get(name, np.zeros(0)).astype(np.float64)
        yield from _rows(t, (share < 0) | (share > 1), f"`{name}` is no share")
    if {"work_j", "distance_m"} <= t.keys():
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = t["work_j"] / (t["cost_of_transport"] * t["distance_m"])
        known = np.isfinite(weight)
        off = known & ~_close(weight, np.full(len(weight), np.median(weight[known]) if known.any() else 0))
        yield from _rows(t, off, "`cost_of_transport` is not of their work and distance")


def check_scenarios(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """Every column has every scenario of its half once, with the keys that the panel's seeds give."""
    if panel is None or "scenario" not in result.table:
        return
    seeds, scenarios = panel.seeds, panel.scenarios
    for column, engine, part in split_columns(result.table):
        name, there = f"{column} on {engine}", Counter(part["scenario"].tolist())
        numbers = _numbers(panel, result, part)
        twice = sum(c > 1 for c in there.values())
        missing, foreign = len(set(numbers) - set(there)), len(set(there) - set(numbers))
        if twice or missing or foreign:
            yield f"{name}: {missing} scenarios are missing, {twice} are there twice, {foreign} are foreign"
        known = np.array([0 <= s < len(scenarios) for s in part["scenario"].tolist()])
        own = {k: v[known] for k, v in part.items()}
        of = [scenarios[int(s)] for s in own["scenario"].tolist()]
        family, member = np.array([s.family for s in of]), np.array([s.member for s in of])
        if not len(of):
            continue
        keys = seeds.episode_key(family * seeds.envs_per_family + member, 0)
        right = np.array([f"{int(k):016x}" for k in keys])
        yield from _rows(own, own["key"].astype(str) != right, f"their key is not the panel's ({name})")
        other = (own["family"] != family) | (own["member"] != member)
        other |= own["half"].astype(str) != np.array([s.half for s in of])
        yield from _rows(own, other, f"family, member or half are not the panel's ({name})")


def check_conditions(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """Commands, friction, payload and terrain are the panel's, shifted as the column says, and a column is
    called by what it shifts."""
    if not isinstance(panel, Panel) or "scenario" not in result.table:
        return
    for shown, engine, part in split_columns(result.table):
        kinds = {(str(p), float(s)) for p, s in zip(part["perturbation"], part["strength"], strict=True)}
        policies = set(part["policy"].astype(str))
        if len(kinds) != 1 or len(policies) != 1:
            yield f"{shown} on {engine}: rows of several perturbations or policies are called by one name"
            continue
        ((kind, strength),), (policy,) = kinds, policies
        try:
            named = column_at(find_perturbation(kind), strength) if kind else Column()
        except SurefootError:  # of a package that is not here: who has it can check
            continue
        name = named.name if policy == TRAINED else f"baseline:{policy}"
        name = f"{name}:{named.name}" if policy != TRAINED and kind else name
        if shown != name:
            yield f"{shown} on {engine}: by its rows this column is {name}"
        own = np.array([0 <= s < len(panel.scenarios) for s in part["scenario"].tolist()])
        rows = {k: v[own] for k, v in part.items()}
        of = perturb_all([panel.scenarios[int(s)] for s in rows["scenario"].tolist()], named)
        given = {f"command_{k}": [s.command[i] for s in of] for i, k in enumerate(("vx", "vy", "wz"))}
        given |= {"friction": [s.friction for s in of], "payload_kg": [s.payload_kg for s in of]}
        given |= {"level": [s.terrain.level for s in of]}
        for field, right in given.items():
            off = ~_close(rows[field], np.array(right, np.float64))
            yield from _rows(rows, off, f"`{field}` is not the panel's ({shown} on {engine})")
        ground = rows["terrain"].astype(str) != np.array([s.terrain.cls for s in of], str)
        yield from _rows(rows, ground, f"`terrain` is not the panel's ({shown} on {engine})")


def check_copies(result: Result, panel: Panel | SeedPanel | None) -> Iterator[str]:
    """No episode is another one under another name: states agree to the bit only where all else does."""
    t = result.table
    if not {"states_digest", "scenario"} <= t.keys() or not isinstance(result.run.contract, TaskContract):
        return
    nominal: dict[str, dict[int, str]] = {}
    for column, engine, part in split_columns(t):
        states = part["states_digest"].astype(str)
        again = len(states) - len(set(states.tolist()))
        if again:
            yield f"{column} on {engine}: {again} episodes are those of other scenarios to the bit"
        if column == NOMINAL:
            nominal[engine] = dict(zip(part["scenario"].tolist(), states.tolist(), strict=True))
    for column, engine, part in split_columns(t):
        if column == NOMINAL or str(part["policy"][0]) != TRAINED or engine not in nominal:
            continue
        changed = _changed(part, panel)
        same = sum(
            nominal[engine].get(s) == d
            for s, d, c in zip(
                part["scenario"].tolist(), part["states_digest"].tolist(), changed, strict=True
            )
            if c
        )
        if same > COPIED * max(1, int(changed.sum())):
            yield (
                f"{column} on {engine}: {same} of {int(changed.sum())} changed episodes are the nominal ones "
                "to the bit"
            )


CHECKS: dict[str, Callable[[Result, Panel | SeedPanel | None], Iterator[str]]] = {
    "outcomes": check_outcomes,
    "time": check_time,
    "sums": check_sums,
    "scenarios": check_scenarios,
    "conditions": check_conditions,
    "copies": check_copies,
}
"""Name -> check of rows, in the order in which they are told."""


def _changed(part: Rows, panel: Panel | SeedPanel | None) -> np.ndarray:
    """Returns which rows' scenarios the column changes; all of them where that is not known."""
    everything = np.ones(len(part["scenario"]), bool)
    kind, strength = str(part["perturbation"][0]), float(part["strength"][0])
    if not isinstance(panel, Panel) or kind in SENSORS:
        return everything & (strength > 0 if kind in SENSORS else True)
    try:
        known = find_perturbation(kind)
    except SurefootError:
        return everything & False
    of = [panel.scenarios[int(s)] for s in part["scenario"].tolist() if 0 <= s < len(panel.scenarios)]
    if len(of) != len(everything):
        return everything
    after = perturb_all(of, Column(name=kind, perturbation=known.name, strength=strength))
    return np.array([a != b for a, b in zip(of, after, strict=True)])


def _numbers(panel: Panel | SeedPanel, result: Result, part: Rows) -> tuple[int, ...]:
    """Returns the scenarios that a column must have."""
    half: Half = result.summary.half  # type: ignore[assignment]
    if not isinstance(panel, Panel):
        return tuple(s.family for s in panel.select(half))
    numbers = panel.numbers(half, perturbed=bool(str(part["perturbation"][0])))
    if str(part["engine"][0]) != BOX_WORLD:
        return numbers
    # It has no exact form of some classes of terrain: those are left out whole.
    classes = set(part["terrain"].astype(str).tolist())
    return tuple(k for k in numbers if panel.scenarios[k].terrain.cls in classes)


def _rows(rows: Rows, wrong: np.ndarray, says: str) -> Iterator[str]:
    """Says that `wrong` rows are wrong, and names the first; nothing where none is."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return
    i = int(np.flatnonzero(wrong)[0])
    scenario = f"scenario {rows['scenario'][i]}" if "scenario" in rows else f"row {i}"
    yield f"{count} of {len(wrong)} episodes: {says} (first: {rows['column'][i]}, {scenario})"


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.isclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
