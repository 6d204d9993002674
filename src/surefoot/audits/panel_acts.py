"""Do held-out policies act on what their scenarios and columns let them see, and on nothing else? The actions
of kept episodes are worked out again, from recorded states and the scenarios' own draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.panel_traces import Traced, traced
from surefoot.audits.second_evaluator import (
    BASELINE,
    NOISE,
    Sensors,
    act,
    clean,
    normals,
    phase_at,
    scaled,
    uniforms,
)
from surefoot.contract import TRAINED

ROUNDING = 5e-4
"""Actions (of which 1 is some tenths of a radian) may differ by this, and by as large a share of themselves:
clean runs showed 2.4e-5 at most, of a gait clock in single precision."""
SHOWN = {"angular_velocity", "gravity", "command", "joint_position", "joint_velocity", "last_action", "clock"}
"""Terms of observations that the second evaluator knows."""


def expected(case: Case, t: Traced) -> np.ndarray | None:
    """Returns the actions [T, A] that an episode must have had; None for a policy that is not known here."""
    contract, robot, hz = case.robot.task.contract, case.robot.task.robot, case.robot.recipe.control_hz
    shape, clip = t.frames["action"].shape, contract.action.clip
    if t.policy == "hold-pose":
        return np.zeros(shape)
    if t.policy == "random":
        wide = -(-shape[1] // 4) * 4
        drawn = normals(t.panel, t.scenario, BASELINE, wide * shape[0], 0).reshape(shape[0], wide)
        return limited(drawn[:, : shape[1]], clip)
    if t.policy != TRAINED or not t.confirmed:
        return None
    f, steps = t.frames, np.arange(shape[0])
    first = {
        "angular_velocity": f["start_angular_velocity"],
        "quaternion": f["start_quaternion"],
        "joint_position": f["start_joint_position"],
        "joint_velocity": np.zeros(shape[1]),
        "action": np.zeros(shape[1]),
    }
    before = {k: np.concatenate([v[None], f[k][:-1]]).astype(np.float64) for k, v in first.items()}
    phase = phase_at(steps, contract, hz)
    true = clean(before, before["action"], t.scenario, phase, robot, contract)
    wide = -(-true.shape[1] // 4) * 4
    u = uniforms(t.panel, t.scenario, NOISE, wide * shape[0]).reshape(shape[0], wide)[:, : true.shape[1]]
    obs = scaled(true, u, t.scenario.noise_scale, contract.observation)
    whole = round(t.panel.episode_s * hz)
    sensors = Sensors(t.panel, t.scenario, t.column, contract, whole)
    obs = np.stack([sensors.see(o, k) for k, o in enumerate(obs)])
    tensors = case.once("weights", lambda: {k: v.double().numpy() for k, v in case.policy.tensors.items()})
    return limited(act(case.policy.card, tensors, obs), clip)


def limited(actions: np.ndarray, clip: float) -> np.ndarray:
    out: np.ndarray = np.clip(actions, -clip, clip)
    return out


def acted_otherwise(case: Case) -> list[Found]:
    """Compares the actions of kept episodes with what the policy does on what they show."""
    contract = case.robot.task.contract
    unknown = {t.name for t in contract.observation} - SHOWN
    if unknown:
        raise NotApplicable(f"the second evaluator does not know {', '.join(sorted(unknown))}")
    looked, wrong = [], []
    for t in traced(case):
        right = expected(case, t)
        if right is None or str(t.row["reason"]) == "nonfinite":
            continue
        looked.append(t)
        gap = np.abs(t.frames["action"] - right)
        off = (gap > ROUNDING * (1 + np.abs(right))).any(1)
        if off.any():
            wrong.append((t, int(off.argmax()), int(off.sum()), float(gap.max())))
    if not looked:
        raise NotApplicable("no kept episode is of the confirmed policy")
    return _said(looked, wrong)


def _said(looked: Sequence[Traced], wrong: Sequence[tuple[Traced, int, int, float]]) -> list[Found]:
    """Returns a finding for undisturbed episodes, and one for each perturbation that they do not explain."""
    out = []
    plain = [w for w in wrong if not w[0].column.perturbation]
    for kind in sorted({w[0].column.perturbation for w in wrong}):
        if kind and plain:
            continue
        own = [w for w in wrong if w[0].column.perturbation == kind]
        called = f"of perturbation '{kind}'" if kind else "without perturbation"
        of = sum(t.column.perturbation == kind for t in looked)
        t, step, steps, gap = own[0]
        out.append(
            Found(
                f"In {len(own)} of {of} kept episodes {called} "
                f"actions are not what the policy does on what was to be seen; first: {t.name}, from step "
                f"{step}, in {steps} of {t.steps} steps, by up to {gap:.2g}.",
                cause="perturbation" if kind else "panel-plant",
            )
        )
    return out


DETECTORS = (
    Detector(
        name="panel-acts",
        kind="proof",
        cause="panel-plant",
        asks="Do held-out policies act on what scenarios and columns let them see, and on nothing else?",
        statistic="actions of kept episodes, against the confirmed weights on observations made again from "
        "recorded states, with the scenario's noise and the column's faults of sensors",
        threshold="5e-4 of an action: 20 times what single precision, of the gait clock above all, did on clean "
        "runs",
        means="The panel explores, shows something else than the contract says, moves the normaliser, or "
        "does not disturb sensors as its columns say; or its rows are of another policy.",
        remedy="Look at the first episode named: replay it, and compare what the policy sees there.",
        look=acted_otherwise,
        needs=("confirmed", "robot"),
    ),
)
