"""Do the rows of perturbed columns tell of other episodes than the nominal column's?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.declared import FACTORS, columns_of, declared, judged_on
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.twin import Arrays
from surefoot.contract import Column

MOVES = ("friction", "payload", "strength", "delay")
"""What acts on physics from an episode's first step on."""
FEW = 0.9
"""Share of a sensor column's episodes that may be the nominal ones to the bit: faults may come late."""
Rows = dict[tuple[str, str], tuple[Column, np.ndarray]]


def look(case: Case) -> list[Found]:
    """Compares the digests of episodes' states between columns, and what rows say with what is declared."""
    table = case.result.table
    every: Rows = {}
    for (name, engine), column in columns_of(table).items():
        of = (table["column"] == name) & (table["engine"] == engine) & (table["policy"] == "trained")
        every[name, engine] = (column, np.flatnonzero(of))
    if not any(column.perturbation for column, _ in every.values()):
        raise NotApplicable("no perturbed column was played")
    return [*_copies(case, table, every), *_said(case, table, every)]


def _copies(case: Case, table: Arrays, every: Rows) -> Iterator[Found]:
    """No episode of a column is another column's to the bit, where the column moved its scenario."""
    copies: dict[str, str] = {}
    deaf: dict[str, str] = {}
    heard = False
    for (name, engine), (column, rows) in every.items():
        if not column.perturbation or ("nominal", engine) not in every:
            continue
        nominal = every["nominal", engine][1]
        digest = dict(zip(table["scenario"][nominal].tolist(), table["states_digest"][nominal], strict=True))
        moved = np.array([_moved(case, table, i, column) for i in rows], bool)
        same = np.array([digest.get(int(table["scenario"][i])) == table["states_digest"][i] for i in rows])
        count, of = int((same & moved).sum()), int(moved.sum())
        if column.perturbation in (*MOVES, "push"):
            copies |= {name: f"{name} ({count} of {of})"} if count else {}
        elif count > FEW * of:
            deaf[name] = f"{name} ({count} of {of})"
        else:
            heard |= of > 0
    copies |= deaf if heard else {}  # a policy that hears nothing does the same whatever is seen
    if copies:
        yield Found(f"Columns hold episodes of the nominal column, to the bit: {', '.join(copies.values())}.")


def _moved(case: Case, table: Arrays, i: int, column: Column) -> bool:
    """Returns whether a column makes an episode another before it ends."""
    hz, steps = case.record.recipe.control_hz, int(table["steps"][i])
    panel = judged_on(case)
    scenario = panel.scenarios[int(table["scenario"][i])]
    was, now = declared(scenario, Column(), hz), declared(scenario, column, hz)
    if column.perturbation == "push":
        first = min((k for k, _, _ in now.pushes), default=1 << 30)
        return was.pushes != now.pushes and steps > first + 1
    if column.perturbation == "delay":  # whole physics steps
        before, after = (np.rint(float(d.parameters["delay_s"]) / 0.005) for d in (was, now))
        return bool(before != after)
    if column.perturbation in MOVES:
        field = FACTORS[column.perturbation]
        return bool(was.parameters[field] != now.parameters[field])
    # A signal sticks at some time of the whole episode; the others are soon different.
    return steps > (0.8 * panel.episode_s * hz if column.perturbation == "stuck" else 25)


def _said(case: Case, table: Arrays, every: Rows) -> Iterator[Found]:
    """Rows say the friction, payload, ground and command that their column has."""
    hz, panel = case.record.recipe.control_hz, judged_on(case)
    wrong: dict[str, set[str]] = {}
    for (name, _), (column, rows) in every.items():
        told = [declared(panel.scenarios[int(k)], column, hz) for k in table["scenario"][rows]]
        say: dict[str, list[float]] = {
            "friction": [float(d.parameters["friction"]) for d in told],
            "payload_kg": [float(d.parameters["payload_kg"]) for d in told],
            "command_vx": [d.command[0] for d in told],
            "command_vy": [d.command[1] for d in told],
            "command_wz": [d.command[2] for d in told],
            "level": [d.ground.level for d in told],
        }
        for field, values in say.items():
            if not np.allclose(
                table[field][rows].astype(float), np.array(values, float), rtol=1e-5, atol=1e-6
            ):
                wrong.setdefault(field, set()).add(name)
    for field, names in wrong.items():
        cause = "held-out" if "nominal" in names else "perturbation"
        text = f"Rows of {', '.join(sorted(names))} state another '{field}' than panel and column declare."
        yield Found(text, cause=cause)


DETECTORS = (
    Detector(
        name="column-rows",
        kind="proof",
        cause="perturbation",
        asks="Are the episodes of perturbed columns others than the nominal ones, under what is declared?",
        statistic="digests of all states of every episode, between columns of one engine; friction, payload, "
        "command and level of every row against panel and column",
        threshold="exact: no equal episode where friction, payload, strength or delay moved or a push acted; "
        "of noise and faults at most nine in ten, where any of them is heard",
        means="A column's robustness is the nominal column's, or was measured under something else.",
        remedy="Look at `perturb`, and at which scenarios the column's pass is given.",
        look=look,
        needs=("robot", "confirmed"),
        short=True,
    ),
)
