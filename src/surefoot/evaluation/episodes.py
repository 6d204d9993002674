"""One pass: every environment runs its episode to its end under one policy, and leaves a row and a trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import BESIDE, Success
from surefoot.engines import rotation_of
from surefoot.env import FAULT_NAMES, NEVER, VecEnv
from surefoot.evaluation.labels import label
from surefoot.evaluation.metrics import episode_metrics
from surefoot.evaluation.progress import PassCounter
from surefoot.evaluation.recorder import TRACED, TrajectoryBuffer
from surefoot.evaluation.recovery import recoveries, recovery
from surefoot.evaluation.runner import EpisodeRunner, runner_for
from surefoot.policy import FixedBatch, Policy, first_state
from surefoot.runs import states_digest

JUDGED_BY = (
    *("windows_as_told", "stand_drift_m", "stand_turn_rad", "stand_speed_mps", "stand_joint_speed_radps"),
    *BESIDE,
)
"""Figures of a row that its trace repeats: labels are given by them, and what they are is defined once."""


@dataclass(frozen=True)
class RawEpisodes:
    """Holds a pass that is over, with the metrics of every episode. `labelled` adds recoveries, labels and
    digests, on the host alone, on any thread."""

    rows: dict[str, np.ndarray]
    frames: dict[str, np.ndarray]  # [T, N, ...]
    fixed: list[dict[str, np.ndarray]]
    dt: float
    seconds: float

    def labelled(self) -> Episodes:
        begun = time.perf_counter()
        episodes = Episodes(dict(self.rows), self.frames, self.fixed, 0.0)
        episodes.rows.update(_recoveries(episodes, self.dt))
        episodes.rows.update(_labels(episodes))
        digests = [states_digest(episodes.trace(i)) for i in range(len(self.fixed))]
        episodes.rows["states_digest"] = np.array(digests)
        return replace(episodes, seconds=self.seconds + time.perf_counter() - begun)


def joined(parts: list[RawEpisodes]) -> RawEpisodes:
    """Returns several batches of a pass as one. What follows an episode's end is never read, so the frames of
    a batch that ended sooner are filled up with zeros."""
    if len(parts) == 1:
        return parts[0]
    steps = max(len(p.frames["position"]) for p in parts)

    def whole(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.zeros((steps - len(x), *x.shape[1:]), x.dtype)])

    return RawEpisodes(
        {k: np.concatenate([p.rows[k] for p in parts]) for k in parts[0].rows},
        {k: np.concatenate([whole(p.frames[k]) for p in parts], 1) for k in parts[0].frames},
        [one for p in parts for one in p.fixed],
        parts[0].dt,
        sum(p.seconds for p in parts),
    )


@dataclass(frozen=True)
class Episodes:
    """Holds what a pass left: one row per episode, and everything that was observed of all of them."""

    rows: dict[str, np.ndarray]
    frames: dict[str, np.ndarray]  # [T, N, ...]
    fixed: list[dict[str, np.ndarray]]
    """Per episode: what does not change within it, for its trace."""
    seconds: float

    def trace(self, i: int) -> dict[str, np.ndarray]:
        """Returns episode `i` up to its end, self-contained."""
        steps = int(self.rows["steps"][i])
        states = {k: v[:steps, i] for k, v in self.frames.items()}
        end = {k: np.asarray(str(self.rows[k][i])) for k in ("reason", "label", "cause") if k in self.rows}
        return states | self.fixed[i] | {k: self.rows[k][i] for k in JUDGED_BY} | end


@torch.inference_mode()
def run_episodes(
    env: VecEnv,
    policy: Policy,
    terrain: Mapping[str, np.ndarray],
    rows: Tensor | None = None,
    runner: EpisodeRunner | None = None,
    counter: PassCounter | None = None,
) -> RawEpisodes:
    """Runs the episodes that `env` stands at the beginning of, whatever comes after their ends.

    `rows` are the places of these environments in the batch that inference is padded to (default: their
    own numbers); `terrain` names their ground, one entry per environment under class, level and key; `runner`
    is one made for `env` before; `counter` is told of every step (on a GPU, which runs on its own, of all of
    them at the end).
    """
    begun = time.perf_counter()
    n, steps = env.num_envs, env.sampler.episode_steps
    place = torch.arange(n, device=env.device) if rows is None else rows
    act = FixedBatch(policy, place)
    state = first_state(policy, env.script.family, env.script.member)
    fixed = _fixed(env, terrain)
    trajectory, run = TrajectoryBuffer(steps, env.device), runner or runner_for(env)
    run.begin()

    def step() -> Tensor:
        nonlocal state
        action, state = act(run.obs, state)
        frame = run.step(action)
        trajectory.add(frame)
        return frame["reason"] > 0

    if env.device.type == "cuda":

        def graph_state() -> list[Tensor]:
            return [*run.graph_state(), state]

        def set_graph_state(tensors: list[Tensor]) -> None:
            nonlocal state
            run.set_graph_state(tensors[:-1])
            state = tensors[-1]

        _repeat(step, graph_state, set_graph_state, steps)
        if counter is not None:
            counter.stepped(n * steps, 1.0)
    else:
        alive = torch.ones(n, dtype=torch.bool)
        for k in range(steps):
            alive &= ~step()
            if counter is not None:
                counter.stepped(n, (k + 1) / steps)
            if not bool(alive.any()):
                break
    frames = run.decode(trajectory.frames())
    metrics = episode_metrics(frames, env)
    traced = {k: frames[k].cpu().numpy() for k in TRACED}
    return RawEpisodes(metrics, traced, fixed, env.dt, time.perf_counter() - begun)


def _repeat(
    step: Callable[[], Any],
    graph_state: Callable[[], list[Tensor]],
    set_graph_state: Callable[[list[Tensor]], None],
    times: int,
) -> None:
    """Calls `step` `times` times: first as it is, then as one CUDA graph, which writes the state that a step
    hands to the next into the memory that it read its own from."""
    step()
    kept = [x.clone() for x in graph_state()]
    set_graph_state(kept)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
        for static, new in zip(kept, graph_state(), strict=True):
            static.copy_(new)
        set_graph_state(kept)
    for _ in range(times - 1):
        graph.replay()


def _fixed(env: VecEnv, terrain: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Returns start, pushes, parameters and limits of every episode, by the names of the trace layout."""
    c, n = env.contract, env.num_envs
    robot, script = env.engine.state(), env.script
    limit = env.const.torque_limit * env.parameters.strength[:, None]
    per = {
        "start_position": robot.position,
        "start_quaternion": robot.quaternion,
        "start_linear_velocity": (rotation_of(robot.quaternion) @ robot.linear_velocity[..., None])[..., 0],
        "start_angular_velocity": robot.angular_velocity,
        "start_joint_position": robot.joint_position,
        "torque_limit": limit,
        "noise_scale": script.noise_scale,
        "phase": script.phase,
        "family": script.family,
        "member": script.member,
        "episode": script.episode,
        **env.parameters.tensors(),
    }
    faults, zeros = env.sampler.faults, torch.zeros(n, device=env.device)
    per |= {name: zeros if faults is None else getattr(faults, k) for k, name in FAULT_NAMES.items()}
    columns = {k: v.cpu().numpy().copy() for k, v in per.items()} | {
        f"terrain_{k}": np.asarray(terrain[k]) for k in ("class", "level", "key")
    }
    common = {
        "control_hz": 1.0 / env.dt,
        "settle_s": c.success.settle_s,
        "velocity_limit": c.success.velocity_error_mps,
        "yaw_limit": c.success.yaw_error_radps,
        "episode_steps": env.sampler.episode_steps,
        **_limits(c.success),
    }
    origin = env.origins()
    when, kick = script.push_step.cpu().numpy(), script.push_velocity.cpu().numpy()
    out = []
    for i in range(n):
        due = when[i] < NEVER
        one = {k: v[i] for k, v in columns.items()} | {k: np.asarray(v) for k, v in common.items()}
        one |= {"push_step": when[i][due], "push_velocity": kick[i][due], "tile_origin": origin[i]}
        out.append(one)
    return out


def _limits(success: Success) -> dict[str, Any]:
    """Returns what a contract asks for beside the instantaneous errors; nothing where it does not."""
    limits: dict[str, Any] = {f"limit_{x.metric}": (x.low, x.high) for x in success.limits}
    if w := success.windows:
        limits |= {f"window_{k}": v for k, v in w.model_dump(exclude={"standing"}).items()}
        limits |= {f"standing_{k}": v for k, v in w.standing.model_dump().items()}
    return limits


def _recoveries(episodes: Episodes, dt: float) -> dict[str, np.ndarray]:
    """Returns `recovery_s` of the slowest push, whether it (and so every one) was recovered from, and each
    push's own in `recoveries_s`: seconds as text, in their order, nan for never."""
    each = [recoveries(episodes.trace(i), dt) for i in range(len(episodes.fixed))]
    slowest = [recovery(x) for x in each]
    return {
        "recovery_s": np.array([s for s, _ in slowest]),
        "recovered": np.array([ok for _, ok in slowest]),
        "recoveries_s": np.array([" ".join(f"{s:.3g}" for s in x) for x in each]),
    }


def _labels(episodes: Episodes) -> dict[str, np.ndarray]:
    failed = ~episodes.rows["success"]
    labels = [label(episodes.trace(i)) if failed[i] else ("", "") for i in range(len(failed))]
    return {"label": np.array([a for a, _ in labels]), "cause": np.array([b for _, b in labels])}
