"""Did held-out episodes end when the contract says? From rows and kept traces, without a simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.kept_traces import Trace, traces
from surefoot.contract import TaskContract

NEAR, NEAR_RAD = 2e-4, 1e-3
"""Allowance for positions and quaternions in single precision: at a threshold, and of an angle."""
Rows = dict[str, np.ndarray]


def look(case: Case) -> list[Found]:
    """Reads every row of the confirmation, then its kept traces step by step."""
    contract = case.robot.task.contract
    functions = case.robot.task.terms
    ours = {
        t.name: t.params
        for t in contract.terminations
        if getattr(functions[t.name], "__module__", "") == "surefoot.tasks.terms"
    }
    table = case.result.table
    return [*_rows(table, ours, contract), *_traces(traces(case), ours)]


def _rows(t: Rows, ours: dict[str, dict[str, float]], contract: TaskContract) -> Iterator[Found]:
    """The greatest tilt of an episode, and how often its trunk touched the ground, say how it ended."""
    names, reason = [x.name for x in contract.terminations], t["reason"].astype(str)
    n = len(reason)

    def said(text: str, bad: np.ndarray, cause: str = "") -> Iterator[Found]:
        if bad.any():
            yield Found(f"{text}: {int(bad.sum())} of {n} held-out episodes.", cause=cause)

    fell = t["fall"].astype(bool)
    yield from said("They ended early and are not counted as falls", fell != (reason != "timeout"), "metric")
    yield from said("They fell and are counted as successes", fell & t["success"].astype(bool), "metric")
    known = np.isin(reason, ["timeout", *names, "nonfinite"])
    yield from said("They ended for reasons that the contract does not have", ~known)
    if "tilted" in ours:
        limit = float(np.arccos(np.clip(-ours["tilted"]["gravity_z"], -1, 1)))
        first = names.index("tilted") == 0
        peak = t["peak_tilt_rad"].astype(np.float64)
        over = (peak > limit + NEAR_RAD) & (reason != "tilted") & (first | np.isin(reason, ["timeout"]))
        yield from said(f"They tilted further than {limit:.3f} rad and did not end by it", over)
        yield from said(
            f"They ended as tilted and never tilted by {limit:.3f} rad",
            (reason == "tilted") & (peak < limit - NEAR_RAD),
        )
    if "trunk_contact" in ours and "trunk_contact" in t:
        touched = t["trunk_contact"].astype(np.float64) * t["steps"]
        before = names[: names.index("trunk_contact") + 1]
        yield from said(
            "Their trunks touched the ground and they did not end by it",
            (touched > 0.5) & ~np.isin(reason, before),
        )
        yield from said("Their trunks touched the ground more than once", touched > 1.5)
        yield from said(
            "They ended by trunk contact and touched nothing", (reason == "trunk_contact") & (touched < 0.5)
        )


def _traces(kept: list[Trace], ours: dict[str, dict[str, float]]) -> Iterator[Found]:
    """No step but the last one is past a threshold, and the last one is where the reason says."""
    wrong: dict[str, int] = {}
    for trace in kept:
        past = {}
        if "tilted" in ours:
            past["tilted"] = trace.gravity_z - ours["tilted"]["gravity_z"]
        if "sunk" in ours:
            past["sunk"] = ours["sunk"]["height_m"] - trace.above
        for name, by in past.items():
            texts = []
            if (by[:-1] > NEAR).any():
                texts.append(f"were past the threshold of '{name}' before their last step")
            if trace.reason == "timeout" and by[-1] > NEAR:
                texts.append(f"were past the threshold of '{name}' when they ran out of time")
            if trace.reason == name and by[-1] < -NEAR:
                texts.append(f"ended by '{name}' short of its threshold")
            for text in texts:
                wrong[text] = wrong.get(text, 0) + 1
        whole = int(trace.about["episode_steps"])
        if (trace.reason == "timeout") != (trace.steps == whole) and trace.reason == "timeout":
            text = f"ran out of time before {whole} steps"
            wrong[text] = wrong.get(text, 0) + 1
    for text, count in wrong.items():
        yield Found(f"{count} of {len(kept)} kept held-out episodes {text}.")


DETECTORS = (
    Detector(
        name="panel-ends",
        kind="proof",
        cause="termination",
        asks="Did held-out episodes end when the contract says, and for the reason that is given?",
        statistic="greatest tilt and trunk contact of every row against its reason; tilt and height above "
        "ground at every step of kept traces against thresholds",
        threshold="1e-3 rad, and 2e-4 at a threshold: single precision",
        means="Falls on the panel are not what the contract calls a fall: success and fall rate are of "
        "another task.",
        remedy="Compare the terminations of the panel's environments with the contract's.",
        look=look,
        needs=("confirmed", "robot"),
    ),
)
