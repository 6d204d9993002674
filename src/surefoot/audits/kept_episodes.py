"""Episodes of panels that kept their traces, with what the policy was shown in them worked out anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.declared import as_long
from surefoot.audits.detector import NotApplicable
from surefoot.audits.slow_noise import SlowFaults, noise
from surefoot.audits.slow_observations import SLOW, Sight, clean, seen
from surefoot.contract import NOMINAL, TRAINED, Panel, TaskContract
from surefoot.runs import read_rows, read_summary
from surefoot.training import RobotPlan

PER_COLUMN = 1
"""Traces that are looked at of each perturbed column, by the audit's seed; of nominal columns more."""
NOMINAL_ONES = 12


@dataclass(frozen=True)
class Kept:
    """One episode of a trained policy. Rows are steps: what was shown before each, and what was done."""

    name: str
    folder: Path
    column: str
    faulty: bool
    truth: np.ndarray  # [T, O] without noise, in the terms' own units
    noise: np.ndarray  # [T, O] in half-widths
    faults: SlowFaults
    contract: TaskContract
    action: np.ndarray  # [T, A] as applied
    command: np.ndarray  # [T, 3]

    def shown(self, *, noisy: float = 1.0, late: int = 0, faulty: bool = True) -> np.ndarray:
        """Returns what the policy saw [T, O]: as declared, or under another hypothesis."""
        readings = seen(self.truth, self.contract.observation, noisy * self.noise)
        shown = self.faults.see(readings) if faulty and self.faulty else readings
        return shown[np.maximum(np.arange(len(shown)) - late, 0)]


def own_terms(plan: RobotPlan) -> frozenset[str]:
    """Returns the observation terms that are Surefoot's own, which the slow ones are twins of."""
    return frozenset(
        n for n in SLOW if getattr(plan.task.terms.get(n), "__module__", "") == "surefoot.tasks.terms"
    )


def kept_episodes(case: Case) -> list[Kept]:
    """Returns some episodes of the trained policy on the CPU, of the confirmation and of the last evaluation
    of the selection half."""
    return case.once("kept episodes", lambda: list(_kept(case)))


def _folders(case: Case) -> list[Path]:
    panels = case.run.path / "panels" / case.record.panel
    made = sorted(panels.glob("selection-update-*/summary.json"))[-1:]
    own = [panels / "confirmation" / "summary.json"] if case.record.confirmation is not None else []
    return [p.parent for p in (*own, *made) if p.is_file()]


def _kept(case: Case) -> Iterator[Kept]:
    plan, g = case.robot, case.numbers("kept-episodes")
    foreign = [t.name for t in plan.task.contract.observation if t.name not in own_terms(plan)]
    if foreign:
        raise NotApplicable(f"its observations {', '.join(foreign)} are not Surefoot's own")
    for folder in _folders(case):
        summary = read_summary(folder)
        panel = as_long(case, summary.panel, summary.panel_digest)
        if panel is None:
            continue
        rows = read_rows(folder, summary)
        there = (rows["trace"] != "") & (rows["policy"] == TRAINED) & (rows["device"] == "cpu")
        for column in dict.fromkeys(rows["column"][there].tolist()):
            chosen = np.flatnonzero(there & (rows["column"] == column))
            most = NOMINAL_ONES if column == NOMINAL else PER_COLUMN
            for i in np.sort(g.permutation(chosen)[:most]):
                path = folder / "traces" / f"{rows['trace'][i]}.npz"
                yield _read(plan, panel, folder, column, path.stem, case.trace(path))


def _read(
    plan: RobotPlan, panel: Panel, folder: Path, column: str, name: str, trace: dict[str, np.ndarray]
) -> Kept:
    contract, steps = plan.task.contract, len(trace["position"])
    steps -= str(trace["reason"]) == "nonfinite"  # a failed step's action is void
    sight = sight_of(plan, trace, steps)
    known = own_terms(plan)
    key = tuple(np.asarray(trace[k]) for k in ("family", "member", "episode"))
    strength = {k: float(trace[k]) for k in ("dropout", "sensor_bias", "stuck_signals", "sensor_delay_steps")}
    at = np.arange(steps)
    scale = np.full(steps, trace["noise_scale"])
    own = (int(key[0]), int(key[1]), int(key[2]))
    return Kept(
        name,
        folder,
        column,
        any(strength.values()),
        clean(sight, contract.observation, known),
        noise(panel.seeds, key, contract.observation_size, at, scale),  # type: ignore[arg-type]
        SlowFaults(contract.observation, panel.seeds, own, strength, int(trace["episode_steps"])),
        contract,
        trace["action"][:steps].astype(np.float64),
        trace["command"][:steps].astype(np.float64),
    )


def sight_of(plan: RobotPlan, trace: dict[str, np.ndarray], steps: int) -> Sight:
    """Returns what there was to see before each of an episode's first `steps` steps: the start, then what
    each step led to."""
    contract, spec = plan.task.contract, plan.task.robot
    still = np.zeros(len(spec.joints))
    first = {
        "quaternion": trace["start_quaternion"],
        "angular_velocity": trace["start_angular_velocity"],
        "joint_position": trace["start_joint_position"],
        "joint_velocity": still,
    }
    robot = {k: np.concatenate([v[None], trace[k][: steps - 1]]) for k, v in first.items()}
    action = np.concatenate([still[None], trace["action"][: steps - 1]])
    phase = np.empty(steps, np.float32)  # added up as the controller does, in single precision
    now, period = np.float32(trace["phase"]), 1 / float(trace["control_hz"])
    turn = np.float32((contract.prior.clock_hz if contract.prior else 0.0) * period)
    for t in range(steps):
        phase[t], now = now, (now + turn) % np.float32(1)
    blank = np.zeros((steps, len(spec.feet)))
    command = trace["command"][:steps].astype(np.float64)
    return Sight(contract, spec, robot, command, action, phase.astype(np.float64), blank, blank, {})
