"""Failure labels: rules over what an episode's trace shows, the first that holds gives the label.

A label says what was seen; its cause is the category to look into first. A failure that no rule explains is
`unknown`, never the likeliest guess. docs/reference/labels.md has the rules, the thresholds and
where they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from surefoot.contract import BESIDE

Trace = Mapping[str, Any]
Cause = Literal["perception", "state", "action", "timing", "reward", "evaluation", "unknown"]

CAUSES: dict[str, Cause] = {
    "non_finite": "evaluation",
    "tripped_at_start": "state",
    "fell_after_push": "timing",
    "stumbled_on_edge": "perception",
    "slipped": "state",
    "acted_late": "timing",
    "torque_saturated": "action",
    "marched": "reward",
    "trembled": "action",
    "stood_still": "reward",
    "oscillated_in_place": "reward",
    "wrong_direction": "perception",
    "drifted": "state",
    "off_course": "reward",
    "limit_broken": "reward",
    "unknown": "unknown",
}
"""Every label with the category of cause that it points to."""
LABELS = tuple(CAUSES)

START_S = 1.0
"""A fall this soon is one of the start: about two gait periods."""
PUSH_S = 2.0
"""A fall this soon after a push is its doing. Measured on a walk-flat run pushed at 1.5 m/s: its 15 falls
came 0.40 to 0.84 s after the push, and the slowest of 241 recoveries took 1.4 s."""
BEFORE_S = 0.5
"""How long before a fall begins its reason is looked for: about one gait period."""
TILT_RAD = 0.35
"""A fall begins when the trunk leans further than this for good: 20 degrees. The furthest lean in 256
successful episodes, pushes of 0.5 to 1 m/s included, was 0.27 rad."""
EDGE_RATIO = 2.0
"""Sideways to upward force of a foot beyond any friction of the columns (1.5): it hit something upright.
legged_gym's stumble penalty (Rudin et al., CoRL 2021) has 5, where it must not punish by mistake."""
EDGE_FORCE_N = 20.0
SLIP_MPS = 0.5
SLIP_S = 0.08
"""A loaded foot faster than SLIP_MPS for this long slides. Feet are that fast for a step or two whenever they
touch down or lift off; the longest such stretch in 256 successful episodes was 0.06 s."""
LOAD_N = 10.0
"""Upward force from which a foot carries weight."""
LATE_S = 0.04
"""Delay from a joint target to its effect from which it is late: two control steps at 50 Hz, twice what the
shipped tasks train on."""
SWING_RADPS, SWINGS, SWING_S = 3.0, 3, 1.5
"""The trunk swings where it rolls (or pitches) this fast so many times within SWING_S, each time the other
way: feedback that comes late drives the swing that it means to stop. Measured on a walk-flat and a trot-flat
run: ever in 5 of 255 and 0 of 199 successful episodes without delay, at the end of 87% and 89% of the falls
under 120 ms that nothing else explains."""
SATURATED = 0.5
"""Share of the steps looked at with a joint at 99% of its torque limit."""
STILL_SHARE = 0.2
"""Less than this share of the commanded motion is standing still."""
STILL_MPS, STILL_RADPS = 0.1, 0.1
"""Speeds below which a robot is where it was, whatever was asked."""
RESTLESS_RADPS = 2.0
"""Root mean square joint speed of a robot that moves its legs. Robots that hold their pose were below 0.25
rad/s, a trained policy above 4.5 rad/s, even when told to stand."""
ALONG = 0.7
"""Share of the commanded speed from which the command counts as followed; the rest is drift."""
DEAD_ZONE = 0.05
STEPS_HZ = 1.0
"""A robot marches that takes this many steps a second, all feet together; one that catches itself after a
push takes a few in all. Told to stand on walk-flat-v1, a walk-flat policy took 16 to 18 a second; a trot-flat
policy, which shook without lifting its feet, 0.25 at most."""
STEP_S = 0.1
"""A foot that leaves the ground for less has not stepped."""


def label(trace: Trace) -> tuple[str, Cause]:
    """The label of a failed episode and its cause. `trace` is what `traces/*.npz` holds."""
    name = _lasted(trace) if str(trace["reason"]) == "timeout" else _fell(trace)
    return name, CAUSES[name]


def _fell(t: Trace) -> str:
    if str(t["reason"]) == "nonfinite":
        return "non_finite"
    rules: tuple[tuple[str, Callable[[Trace], bool]], ...] = (
        ("tripped_at_start", tripped_at_start),
        ("fell_after_push", fell_after_push),
        ("stumbled_on_edge", stumbled_on_edge),
        ("slipped", slipped),
        ("acted_late", acted_late),
        ("torque_saturated", lambda t: saturated(t, before_fall(t))),
    )
    return next((name for name, holds in rules if holds(t)), "unknown")


def _lasted(t: Trace) -> str:
    settled = slice(round(float(t["settle_s"]) * float(t["control_hz"])), None)
    if not len(t["command"][settled]):
        return "unknown"
    rules: tuple[tuple[str, Callable[[Trace, slice], bool]], ...] = (
        ("marched", marched),
        ("trembled", trembled),
        ("oscillated_in_place", oscillated_in_place),
        ("stood_still", stood_still),
        ("torque_saturated", saturated),
        ("wrong_direction", wrong_direction),
        ("drifted", drifted),
        ("off_course", off_course),
        ("limit_broken", limit_broken),
    )
    return next((name for name, holds in rules if holds(t, settled)), "unknown")


# ---- falls


def tripped_at_start(t: Trace) -> bool:
    return bool(len(t["position"]) <= START_S * float(t["control_hz"]))


def fell_after_push(t: Trace) -> bool:
    """A push came within PUSH_S before the end."""
    end, pushes = len(t["position"]), np.asarray(t["push_step"])
    return bool(((pushes < end) & (pushes >= end - PUSH_S * float(t["control_hz"]))).any())


def stumbled_on_edge(t: Trace) -> bool:
    """Off flat ground, a foot met a force that only an upright face can give."""
    if str(t["terrain_class"]) == "flat":
        return False
    force = np.asarray(t["foot_force"])[before_fall(t)]
    sideways, upward = np.linalg.norm(force[..., :2], axis=-1), np.abs(force[..., 2])
    return bool(((sideways > EDGE_RATIO * upward) & (sideways > EDGE_FORCE_N)).any())


def slipped(t: Trace) -> bool:
    """A foot that carries weight slid for SLIP_S on end before the trunk leaned."""
    at, hz = before_fall(t), float(t["control_hz"])
    speed = np.linalg.norm(np.asarray(t["foot_velocity"])[at][..., :2], axis=-1)
    sliding = (speed > SLIP_MPS) & (np.asarray(t["foot_force"])[at][..., 2] > LOAD_N)
    need = max(1, round(SLIP_S * hz))
    return any(_longest(foot) >= need for foot in sliding.T)


def acted_late(t: Trace) -> bool:
    """Joint targets took effect late, and the trunk swung to and fro until it fell."""
    if float(t["delay_s"]) < LATE_S - 1e-9:
        return False
    rates = np.asarray(t["angular_velocity"])[-round(SWING_S * float(t["control_hz"])) :, :2]
    return any(_swings(rate) >= SWINGS for rate in rates.T)


def _swings(rate: np.ndarray) -> int:
    """How often `rate` exceeds SWING_RADPS in turn to either side."""
    side = np.sign(rate[np.abs(rate) > SWING_RADPS])
    return int(len(side) > 0) + int(np.count_nonzero(np.diff(side)))


def before_fall(t: Trace) -> slice:
    """The steps of BEFORE_S that end where the trunk begins to lean for good."""
    lean = tilt(t) > TILT_RAD
    upright = np.flatnonzero(~lean)
    onset = int(upright[-1]) + 1 if len(upright) else 0
    first = max(0, onset - round(BEFORE_S * float(t["control_hz"])))
    return slice(first, max(onset, first + 1))


def tilt(t: Trace) -> np.ndarray:
    """[T] angle of the trunk's z axis to the vertical."""
    _, x, y, _ = np.asarray(t["quaternion"], np.float64).T
    return np.asarray(np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1)))


def saturated(t: Trace, at: slice) -> bool:
    torque = np.abs(np.asarray(t["torque"])[at])
    full = (torque > 0.99 * np.asarray(t["torque_limit"])).any(1)
    return bool(len(full) and full.mean() >= SATURATED)


def _longest(flags: np.ndarray) -> int:
    return max(_runs(flags), default=0)


def _stretches(flags: np.ndarray, need: int) -> int:
    """How many runs of at least `need` flags there are."""
    return sum(run >= need for run in _runs(flags))


def _runs(flags: np.ndarray) -> list[int]:
    """Lengths of the runs of set flags, in their order."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(flags, np.int8), [0]])))
    return [int(run) for run in edges[1::2] - edges[::2]]


# ---- episodes that lasted


def achieved(t: Trace, at: slice) -> np.ndarray:
    """Mean vx, vy, wz in the body frame."""
    linear, angular = np.asarray(t["linear_velocity"])[at], np.asarray(t["angular_velocity"])[at]
    return np.array([linear[:, 0].mean(), linear[:, 1].mean(), angular[:, 2].mean()], np.float64)


def asked(t: Trace, at: slice) -> np.ndarray:
    return np.asarray(np.asarray(t["command"], np.float64)[at].mean(0))


def in_place(t: Trace, at: slice) -> bool:
    """Whether it moved less than a fifth of what was commanded, or than anybody would call moving."""
    done, want = achieved(t, at), asked(t, at)
    slow = np.hypot(*done[:2]) < max(STILL_MPS, STILL_SHARE * float(np.hypot(*want[:2])))
    unturned = abs(done[2]) < max(STILL_RADPS, STILL_SHARE * abs(float(want[2])))
    return bool(slow and unturned)


def restless(t: Trace, at: slice) -> bool:
    speed = np.asarray(t["joint_velocity"], np.float64)[at]
    return bool(np.sqrt((speed**2).mean()) > RESTLESS_RADPS)


def told_to_stand(t: Trace) -> bool:
    """Whether standing was asked, by a contract that says what standing is."""
    return "standing_drift_m" in t and bool(np.isfinite(t["stand_drift_m"]))


def marched(t: Trace, at: slice) -> bool:
    """Told to stand, it stepped on the spot."""
    if not told_to_stand(t):
        return False
    contact, need = np.asarray(t["contact"], bool)[at], round(STEP_S * float(t["control_hz"]))
    steps = sum(_stretches(~foot, need) for foot in contact.T)
    return steps >= STEPS_HZ * len(contact) / float(t["control_hz"])


def trembled(t: Trace, at: slice) -> bool:
    """Told to stand, its feet stood and its joints did not rest."""
    return told_to_stand(t) and float(t["stand_joint_speed_radps"]) > float(t["standing_joint_speed_radps"])


def oscillated_in_place(t: Trace, at: slice) -> bool:
    return in_place(t, at) and restless(t, at)


def stood_still(t: Trace, at: slice) -> bool:
    return in_place(t, at) and not restless(t, at) and bool(np.abs(asked(t, at)).max() > DEAD_ZONE)


def wrong_direction(t: Trace, at: slice) -> bool:
    """Whether it went (or turned) the other way."""
    done, want = achieved(t, at), asked(t, at)
    away = float(done[:2] @ want[:2]) < 0 and np.hypot(*done[:2]) > STILL_MPS < np.hypot(*want[:2])
    back = done[2] * want[2] < 0 and abs(done[2]) > STILL_RADPS < abs(want[2])
    return bool(away or back)


def drifted(t: Trace, at: slice) -> bool:
    """Whether it did what was commanded, and on top of it moved sideways or turned by more than the limit."""
    done, want = achieved(t, at), asked(t, at)
    size = float(np.hypot(*want[:2]))
    if size > DEAD_ZONE:
        along = float(done[:2] @ want[:2]) / size
        across = abs(float(done[0] * want[1] - done[1] * want[0])) / size
        followed = along >= ALONG * size
    else:
        across, followed = float(np.hypot(*done[:2])), True
    turned = abs(float(done[2] - want[2]))
    if told_to_stand(t):
        far, round_ = (float(t[f"stand_{k}"]) > float(t[f"standing_{k}"]) for k in ("drift_m", "turn_rad"))
        return far or round_ or float(t["stand_speed_mps"]) > float(t["standing_speed_mps"])
    sideways, yaw = float(t["velocity_limit"]), float(t["yaw_limit"])
    if "window_share" in t:
        sideways = max(float(t["window_velocity_mps"]), float(t["window_velocity_share"]) * size)
        yaw = max(float(t["window_yaw_radps"]), float(t["window_yaw_share"]) * abs(float(want[2])))
    return bool(followed and (across > sideways or turned > yaw))


def off_course(t: Trace, at: slice) -> bool:
    """Whether it lasted, and its mean errors, or too many of its windows, were beyond those of a success."""
    if "window_share" in t and not float(t["windows_as_told"]) >= float(t["window_share"]):
        return True
    command = np.asarray(t["command"], np.float64)[at]
    linear = np.asarray(t["linear_velocity"], np.float64)[at, :2]
    velocity = np.linalg.norm(linear - command[:, :2], axis=1).mean()
    yaw = np.abs(np.asarray(t["angular_velocity"], np.float64)[at, 2] - command[:, 2]).mean()
    return bool(velocity >= float(t["velocity_limit"]) or yaw >= float(t["yaw_limit"]))


def limit_broken(t: Trace, at: slice) -> bool:
    """Whether a limit that the task declares (of slip, clearance, vibration, energy) was broken."""
    limits = {k: np.asarray(t[f"limit_{k}"]) for k in BESIDE if f"limit_{k}" in t}
    return any(float(t[k]) < low or float(t[k]) > high for k, (low, high) in limits.items())
