"""Whether a robot does what it is told from window to window (contract/success.py): mean velocities where it
is to move, rest where it is to stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import TaskContract, Windows
from surefoot.evaluation.sums import length, step_speeds, total


@dataclass(frozen=True)
class PerWindow:
    """Holds what N robots did in each window after the settling time, [windows, N]."""

    velocity_error: np.ndarray  # m/s, of the mean velocity
    yaw_error: np.ndarray  # rad/s, of the mean yaw rate
    follows: np.ndarray  # whether both are within the tolerances
    speed: np.ndarray  # m/s, mean of the trunk's
    joint_speed: np.ndarray  # rad/s, root mean square
    rests: np.ndarray  # whether both are within those of standing
    lived: np.ndarray  # whether the episode lasted to the window's end
    begins: np.ndarray  # [windows] first step of each
    width: int  # steps of a window


def per_window(frames: Mapping[str, Tensor], live: Tensor, contract: TaskContract, dt: float) -> PerWindow:
    """Cuts recorded steps [T, N, ...] into windows; `live` is 1 up to each episode's end."""
    rule = contract.success.windows or Windows()
    still = rule.standing
    first, width = round(contract.success.settle_s / dt), max(1, round(rule.length_s / dt))
    count = max(0, (len(live) - first) // width)
    done = torch.cat([frames["linear_velocity"][..., :2], frames["angular_velocity"][..., 2:]], -1)
    commanded = frames["command"]

    def means(x: Tensor) -> Tensor:  # [T, N] -> [windows, N]
        cut = x[first : first + count * width].double()
        return total(cut.reshape(count, width, x.shape[1])) / width

    each = [means(x) for x in ((done - commanded).unbind(-1) + commanded.unbind(-1))]
    speeds, moved = step_speeds(frames, dt)
    squares = (speeds.square().mean(-1) + moved.square().mean(-1)) / 2
    each += [means(length(done)), means(squares), means(live)]
    off_x, off_y, off_z, *asked, speed, joints, lived = torch.stack(each).cpu().numpy()
    off, yaw, joints = np.hypot(off_x, off_y), np.abs(off_z), np.sqrt(joints)
    follows = off <= np.maximum(rule.velocity_mps, rule.velocity_share * np.hypot(asked[0], asked[1]))
    follows &= yaw <= np.maximum(rule.yaw_radps, rule.yaw_share * np.abs(asked[2]))
    rests = (speed <= still.speed_mps) & (joints <= still.joint_speed_radps)
    begins = first + width * np.arange(count)
    return PerWindow(off, yaw, follows, speed, joints, rests, lived == 1.0, begins, width)


def window_metrics(
    frames: Mapping[str, Tensor], live: Tensor, push_step: Tensor, contract: TaskContract, dt: float
) -> dict[str, np.ndarray]:
    """Returns columns of rows: medians over the windows that count of each episode, the share of them that
    was as told (NaN where the contract has no rule for them), and how it stood (NaN where told to move).

    `push_step` [N, pushes] are the steps in which it was pushed. Windows that an end cut short never count;
    where every window is one of a push, all others do."""
    w, rule = per_window(frames, live, contract, dt), contract.success.windows or Windows()
    pushed = _pushed(w, round(rule.after_push_s / dt), push_step.cpu().numpy())
    counts = w.lived & (~pushed | (pushed | ~w.lived).all(0))
    stands, drift, turn = _standing(frames, live, contract, dt)
    as_told = np.where(stands, w.rests, w.follows) & counts
    with np.errstate(invalid="ignore"):
        share = as_told.sum(0) / counts.sum(0)

    def stood(x: np.ndarray) -> np.ndarray:
        return np.where(stands, x, np.nan)

    return {
        "window_velocity_error_mps": _median(w.velocity_error, counts),
        "window_yaw_error_radps": _median(w.yaw_error, counts),
        "windows_as_told": share if contract.success.windows else np.full_like(share, np.nan),
        "stand_drift_m": stood(drift),
        "stand_turn_rad": stood(turn),
        "stand_speed_mps": stood(_median(w.speed, counts)),
        "stand_joint_speed_radps": stood(_median(w.joint_speed, counts)),
    }


def _pushed(w: PerWindow, after: int, push_step: np.ndarray) -> np.ndarray:
    """Returns [windows, N] whether a push falls into a window or came within `after` steps before it."""
    when, begins = push_step[None], w.begins[:, None, None]
    return np.asarray(((when >= begins - after) & (when < begins + w.width)).any(-1))


def _standing(
    frames: Mapping[str, Tensor], live: Tensor, contract: TaskContract, dt: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns [N] whether each was told to stand for as long as it counts, how far it went (m) and turned
    (rad) meanwhile, from velocities: positions may be those of a periodic ground."""
    settled = live * (frames["age"] > round(contract.success.settle_s / dt))
    asked = torch.where(settled > 0, frames["command"].abs().amax(-1), 0.0).amax(0)
    stands = (asked <= contract.command.dead_zone) & (settled > 0).any(0)
    world = _turned(frames["quaternion"], frames["linear_velocity"])
    rates = [world[..., 0], world[..., 1], frames["angular_velocity"][..., 2]]
    x, y, turn = (total(torch.stack([settled * r for r in rates])) * dt).cpu().numpy()
    return stands.cpu().numpy(), np.hypot(x, y), np.abs(turn)


def _turned(quaternion: Tensor, vector: Tensor) -> Tensor:
    """Returns body-frame vectors [..., 3] in the world frame."""
    axis = quaternion[..., 1:]
    across = torch.linalg.cross(axis, vector)
    turned: Tensor = vector + 2 * (quaternion[..., :1] * across + torch.linalg.cross(axis, across))
    return turned


def _median(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns the median over the first axis of what is known; NaN where nothing is."""
    ranked, n = np.sort(np.where(known, x, np.inf), 0), known.sum(0)
    if not len(ranked):
        return np.full(x.shape[1], np.nan)
    low, high = (
        np.take_along_axis(ranked, k[None].clip(0, len(ranked) - 1), 0)[0] for k in ((n - 1) // 2, n // 2)
    )
    return np.where(n > 0, (low + high) / 2, np.nan)
