"""An episode of the second evaluator: lived with noise of its own, and what its row would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.audits.second_evaluator import (
    Frames,
    State,
    Weights,
    World,
    act,
    clean,
    in_force,
    phase_at,
    scaled,
    targets_of,
)
from surefoot.audits.slow_memory import SlowMemory
from surefoot.contract import Column, Scenario, TaskContract, Windows
from surefoot.robots import RobotSpec

FAULTS = ("dropout", "bias", "stuck", "obs_delay")
SATURATED = 0.99
"""Share of its limit from which on a torque is at it."""


@dataclass
class Episode:
    """One that is being lived."""

    world: World
    scenario: Scenario
    column: Column
    start: State
    steps: int
    """It lasts so many at most."""
    numbers: np.random.Generator
    """Its noise and its sensors' faults are drawn of these."""
    frames: list[Frames] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    reason: str = ""
    readings: list[np.ndarray] = field(default_factory=list)
    """What its sensors gave, first to last."""
    memory: SlowMemory | None = None
    """What its policy remembers, from its first step on."""

    def __post_init__(self) -> None:
        self.world.embody(self.scenario)
        self.world.put(self.start)
        self.targets = np.zeros((self.steps, len(self.start.joints)))
        self.offset: np.ndarray | float = 0.0
        self.sticks: np.ndarray | float = np.inf


@dataclass(frozen=True)
class Rules:
    """What all episodes share."""

    contract: TaskContract
    robot: RobotSpec
    control_hz: float
    episode_s: float
    weights: Weights
    noise: np.ndarray = field(init=False)  # [O]
    scale: np.ndarray = field(init=False)  # [O]

    def __post_init__(self) -> None:
        terms = self.contract.observation
        object.__setattr__(self, "noise", np.repeat([t.noise for t in terms], [t.size for t in terms]))
        object.__setattr__(self, "scale", np.repeat([t.scale for t in terms], [t.size for t in terms]))

    @property
    def steps(self) -> int:
        return round(self.episode_s * self.control_hz)


def live(episodes: Sequence[Episode], rules: Rules) -> None:
    """Lives all of them to their ends, in step."""
    for step in range(rules.steps):
        running = [e for e in episodes if not e.reason]
        if not running:
            return
        read = np.stack([remembered(e, see(e, step, rules), step, rules) for e in running])
        clip = rules.contract.action.clip
        for e, action in zip(running, np.clip(act(rules.weights, read), -clip, clip), strict=True):
            e.actions.append(action)
            advance(e, step, rules)


def remembered(e: Episode, obs: np.ndarray, step: int, rules: Rules) -> np.ndarray:
    """Returns what the policy's network reads of an observation [O] and of what it remembers."""
    w = rules.weights
    e.memory = e.memory or SlowMemory(w.memory)
    return e.memory.step(w.tensors, w.normal, obs, np.asarray(step == 0))


def see(e: Episode, step: int, rules: Rules) -> np.ndarray:
    """Returns what a policy is shown after `step` control steps."""
    c, terms = rules.contract, rules.contract.observation
    now = e.frames[-1] if e.frames else e.world.seen()
    action = e.actions[-1] if e.actions else np.zeros(c.action.size)
    phase = phase_at(step, c, rules.control_hz)
    true = clean(now, action, e.scenario, phase, rules.robot, c)
    obs = scaled(true, e.numbers.random(len(true)), e.scenario.noise_scale, rules.noise, rules.scale)
    kind, strength = e.column.perturbation, e.column.strength
    if kind not in FAULTS:
        return obs
    sizes, sensor = [t.size for t in terms], rules.noise > 0
    if step == 0 and kind == "bias":
        e.offset = strength * rules.noise * rules.scale * e.numbers.uniform(-1, 1, len(obs))
    if step == 0 and kind == "stuck":
        e.sticks = np.full(len(obs), np.inf)
        which = e.numbers.permutation(np.flatnonzero(sensor))[: int(strength)]
        e.sticks[which] = 1 + e.numbers.integers(0, rules.steps, len(which))
    e.readings.append(np.clip(obs + e.offset, -10.0, 10.0))
    if step == 0:
        return e.readings[-1]
    late = e.readings[max(0, step - int(strength))] if kind == "obs_delay" else e.readings[-1]
    lost = np.zeros(len(terms), bool)
    if kind == "dropout":
        lost = e.numbers.random(len(terms)) < strength
    held = np.repeat(lost, sizes) | (step >= e.sticks)
    if kind in ("dropout", "stuck"):  # what is seen instead is what was seen before
        e.readings[-1] = np.where(sensor & held, e.readings[-2], e.readings[-1])
        late = e.readings[-1]
    return np.where(sensor, late, obs)


def advance(e: Episode, step: int, rules: Rules) -> None:
    """Makes a control step, and ends the episode where the contract does."""
    c, hz, s = rules.contract, rules.control_hz, e.scenario
    for p in s.pushes:
        if round(p.time_s * hz) == step:
            e.world.push(np.array([p.vx_mps, p.vy_mps]))
    phase = np.atleast_1d(phase_at(step, c, hz))
    e.targets[step] = targets_of(e.actions[-1][None], phase, s, rules.robot, c)[0]
    e.world.step(in_force(e.targets, step, s.delay_s, e.world.substeps, rules.robot.default_pose))
    e.frames.append(now := e.world.seen())
    if not np.isfinite(now["joint_velocity"]).all():
        e.reason = "nonfinite"
        return
    values = {
        "tilted": now["gravity"][2],
        "trunk_contact": float(now["trunk_contact"]),
        "sunk": -now["position"][2],
    }
    for end in c.terminations:
        limit = {"tilted": "gravity_z", "sunk": "height_m"}.get(end.name, "")
        most = end.params[limit] if limit else 0.5
        if values[end.name] > (-most if end.name == "sunk" else most):
            e.reason = end.name
            return
    e.reason = "timeout" if step + 1 == rules.steps else ""


def figures(e: Episode, rules: Rules) -> dict[str, float]:
    """Returns what a row says of an episode."""
    c, dt = rules.contract, 1 / rules.control_hz
    f = {k: np.stack([x[k] for x in e.frames]) for k in e.frames[0]}
    n, first = len(e.frames), round(c.success.settle_s / dt)
    done = np.concatenate([f["linear_velocity"][:, :2], f["angular_velocity"][:, 2:]], 1)
    off = done - np.asarray(e.scenario.command)
    speed, error = np.hypot(done[:, 0], done[:, 1]), np.hypot(off[:, 0], off[:, 1])
    limit = np.asarray(rules.robot.torque_limit_nm) * e.scenario.strength
    slip = (np.hypot(f["foot_velocity"][..., 0], f["foot_velocity"][..., 1]) * f["contact"]).sum()
    settled = n > first
    out = {
        "fall": float(e.reason != "timeout"),
        "lived_s": n * dt,
        "velocity_error_mps": float(error[first:].mean()) if settled else np.nan,
        "yaw_error_radps": float(np.abs(off[first:, 2]).mean()) if settled else np.nan,
        "windows_as_told": told(f, off, e, rules, done),
        "distance_m": float(speed.sum() * dt),
        "work_j": float(np.abs(f["torque"] * f["joint_velocity"]).sum() * dt),
        "torque_saturation": float((np.abs(f["torque"]) > SATURATED * limit).any(1).mean()),
        "foot_slip_m": float(slip * dt),
    }
    for i, k in enumerate(("vx", "vy", "wz")):
        out[f"achieved_{k}"] = float(done[first:, i].mean()) if settled else np.nan
    return out


def told(f: Frames, off: np.ndarray, e: Episode, rules: Rules, done: np.ndarray) -> float:
    """Returns the share of the windows after the settling time that were as told; NaN where none counts."""
    rule, hz = rules.contract.success.windows, rules.control_hz
    if rule is None:
        return float("nan")
    first, width = round(rules.contract.success.settle_s * hz), round(rule.length_s * hz)
    begins = list(range(first, len(off) - width + 1, width))
    after = round(rule.after_push_s * hz)
    pushes = [round(p.time_s * hz) for p in e.scenario.pushes]
    calm = [b for b in begins if not any(b - after <= p < b + width for p in pushes)]
    good = [as_told(f, off[b : b + width], slice(b, b + width), e, rules, rule, done) for b in calm or begins]
    return float(np.mean(good)) if good else float("nan")


def as_told(
    f: Frames, off: np.ndarray, at: slice, e: Episode, rules: Rules, rule: Windows, done: np.ndarray
) -> bool:
    command = np.abs(np.asarray(e.scenario.command))
    if command.max() > rules.contract.command.dead_zone:
        x, y, wz = np.abs(off.mean(0))
        near = np.hypot(x, y) <= max(rule.velocity_mps, rule.velocity_share * np.hypot(*command[:2]))
        return bool(near and wz <= max(rule.yaw_radps, rule.yaw_share * command[2]))
    q, still = f["joint_position"], rule.standing
    moved = np.diff(q, axis=0, prepend=q[:1])[at] * rules.control_hz
    joints = np.sqrt((np.mean(f["joint_velocity"][at] ** 2) + np.mean(moved**2)) / 2)
    speed = np.hypot(done[at, 0], done[at, 1]).mean()
    return bool(speed <= still.speed_mps and joints <= still.joint_speed_radps)
