"""The label of a failure once more, from its trace: the rules of docs/reference/labels.md in their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from surefoot.audits.slow_metrics import Rules, Trace, array, moved

CAUSES = {
    **dict.fromkeys(("non_finite",), "evaluation"),
    **dict.fromkeys(("tripped_at_start", "slipped", "drifted"), "state"),
    **dict.fromkeys(("fell_after_push", "acted_late"), "timing"),
    **dict.fromkeys(("stumbled_on_edge", "wrong_direction"), "perception"),
    **dict.fromkeys(("torque_saturated", "trembled"), "action"),
    **dict.fromkeys(
        ("marched", "oscillated_in_place", "stood_still", "off_course", "limit_broken"), "reward"
    ),
    "unknown": "unknown",
}


class Failure:
    """One failed episode. `edge` moves every limit by that share, to see whether rounding could decide."""

    def __init__(self, trace: Trace, row: Mapping[str, Any], rules: Rules, edge: float = 0.0) -> None:
        self.t, self.row, self.rules, self.more = trace, row, rules, 1 + edge
        self.hz, self.reason = rules.control_hz, str(row["reason"])
        self.steps = len(array(trace, "position"))

    def label(self) -> str:
        if self.reason != "timeout":
            return self.fell()
        if self.steps <= self.rules.steps(self.rules.success.settle_s):
            return "unknown"
        return self.lasted()

    # ---- falls

    def fell(self) -> str:
        if self.reason == "nonfinite":
            return "non_finite"
        if self.steps <= 1.0 * self.hz:
            return "tripped_at_start"
        pushes = np.asarray(self.t["push_step"]).tolist()
        if any(self.steps - 2.0 * self.hz <= p < self.steps for p in pushes):
            return "fell_after_push"
        before, force = self.before(), array(self.t, "foot_force")
        sideways = np.hypot(force[before, :, 0], force[before, :, 1])
        upright = sideways > 2.0 * self.more * np.abs(force[before, :, 2])
        if str(self.t["terrain_class"]) != "flat" and (upright & (sideways > 20.0 * self.more)).any():
            return "stumbled_on_edge"
        foot = array(self.t, "foot_velocity")[before]
        sliding = np.hypot(foot[..., 0], foot[..., 1]) > 0.5 * self.more
        sliding &= force[before, :, 2] > 10.0 * self.more
        if any(max(runs(x), default=0) >= max(1, round(0.08 * self.hz)) for x in sliding.T):
            return "slipped"
        if float(self.t["delay_s"]) >= 0.04 - 1e-9 and self.swings() >= 3:
            return "acted_late"
        return "torque_saturated" if self.saturated(before) else "unknown"

    def before(self) -> slice:
        """Returns the half second that ends where the trunk begins to lean for good."""
        q = array(self.t, "quaternion")
        lean = np.arccos(np.clip(1 - 2 * (q[:, 1] ** 2 + q[:, 2] ** 2), -1, 1))
        begin = self.steps
        while begin > 0 and lean[begin - 1] > 0.35 * self.more:
            begin -= 1
        first = max(0, begin - round(0.5 * self.hz))
        return slice(first, max(begin, first + 1))

    def swings(self) -> int:
        """Returns how often the trunk turns fast to either side by turns, in roll or in pitch."""
        late = array(self.t, "angular_velocity")[-round(1.5 * self.hz) :]
        sides = [[x > 0 for x in late[:, k] if abs(x) > 3.0 * self.more] for k in (0, 1)]
        return max(len(list(groupby(s))) for s in sides)

    def saturated(self, at: slice) -> bool:
        full = np.abs(array(self.t, "torque")[at]) > 0.99 * self.more * array(self.t, "torque_limit")
        share = float(full.any(1).mean()) if len(full) else 0.0
        return share >= 0.5

    # ---- episodes that lasted

    def lasted(self) -> str:
        settled = slice(self.rules.steps(self.rules.success.settle_s), None)
        done, want = moved(self.t)[settled].mean(0), array(self.t, "command")[settled].mean(0)
        speed, asked = math.hypot(done[0], done[1]), math.hypot(want[0], want[1])
        if self.stands and self.marches(settled):
            return "marched"
        still = self.rules.windows.standing
        if self.stands and float(self.row["stand_joint_speed_radps"]) > still.joint_speed_radps:
            return "trembled"
        slow = speed < max(0.1, 0.2 * asked) * self.more
        slow &= abs(done[2]) < max(0.1, 0.2 * abs(want[2])) * self.more
        restless = math.sqrt((array(self.t, "joint_velocity")[settled] ** 2).mean()) > 2.0 * self.more
        if slow and restless:
            return "oscillated_in_place"
        if slow and np.abs(want).max() > 0.05:
            return "stood_still"
        if self.saturated(settled):
            return "torque_saturated"
        away = done[:2] @ want[:2] < 0 and speed > 0.1 * self.more and asked > 0.1
        back = done[2] * want[2] < 0 and abs(done[2]) > 0.1 * self.more and abs(want[2]) > 0.1
        if away or back:
            return "wrong_direction"
        if self.drifts(done, want):
            return "drifted"
        if self.strays():
            return "off_course"
        broken = [
            x for x in self.rules.success.limits if not _within(float(self.row[x.metric]), x.low, x.high)
        ]
        return "limit_broken" if broken else "unknown"

    @property
    def stands(self) -> bool:
        asked = self.rules.success.windows is not None
        return asked and math.isfinite(float(self.row["stand_drift_m"]))

    def marches(self, at: slice) -> bool:
        contact, need = np.asarray(self.t["contact"], bool)[at], round(0.1 * self.hz)
        steps = sum(run >= need for foot in contact.T for run in runs(~foot))
        return steps >= 1.0 * len(contact) / self.hz

    def drifts(self, done: np.ndarray, want: np.ndarray) -> bool:
        if self.stands:
            still = self.rules.windows.standing
            limits = {"drift_m": still.drift_m, "turn_rad": still.turn_rad, "speed_mps": still.speed_mps}
            return any(float(self.row[f"stand_{k}"]) > x for k, x in limits.items())
        asked, s = math.hypot(want[0], want[1]), self.rules.success
        across, followed = math.hypot(done[0], done[1]), True
        if asked > 0.05:
            along = (done[0] * want[0] + done[1] * want[1]) / asked
            across = abs(done[0] * want[1] - done[1] * want[0]) / asked
            followed = along >= 0.7 * asked * self.more
        sideways, yaw = s.velocity_error_mps, s.yaw_error_radps
        if (w := s.windows) is not None:
            sideways = max(w.velocity_mps, w.velocity_share * asked)
            yaw = max(w.yaw_radps, w.yaw_share * abs(want[2]))
        beside = across > sideways * self.more or abs(done[2] - want[2]) > yaw * self.more
        return bool(followed and beside)

    def strays(self) -> bool:
        s = self.rules.success
        if s.windows is not None and not float(self.row["windows_as_told"]) >= s.windows.share:
            return True
        over = float(self.row["velocity_error_mps"]) >= s.velocity_error_mps
        return over or float(self.row["yaw_error_radps"]) >= s.yaw_error_radps


def _within(x: float, low: float, high: float) -> bool:
    return math.isnan(x) or low <= x <= high


def runs(flags: Sequence[bool] | np.ndarray) -> list[int]:
    """Returns the lengths of the runs of set flags."""
    return [len(list(run)) for flag, run in groupby(np.asarray(flags, bool).tolist()) if flag]
