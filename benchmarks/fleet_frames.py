"""Real rendered frames, as an agent that learns from pixels sees them: 84 x 84, gray, the last four stacked.

An environment of Gymnasium's is rendered step by step under random actions; `stream` says which one could be
rendered here. Rewards and ends are the environment's own.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE, STACK = 84, 4
SOURCES = ("ALE/Breakout-v5", "HalfCheetah-v5", "LunarLander-v3", "CartPole-v1")
"""What is tried, in this order: an Atari game, MuJoCo in three dimensions, and drawings in two."""


def gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """84 x 84 of a picture, each pixel the mean of those that it stands for."""
    small = Image.fromarray(picture).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, np.uint8)


def make(name: str) -> Any:
    import gymnasium

    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if name.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
    return gymnasium.make(name, render_mode="rgb_array")


def can_render(name: str) -> str:
    """ "" where an environment can be rendered here, else why not."""
    try:
        env = make(name)
        env.reset(seed=1)
        gray(env.render())
        env.close()
    except Exception as error:  # of whatever kind: libraries of several are asked for
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def stream(name: str, steps: int, envs: int, warm: int = 50) -> dict[str, NDArray[Any]]:
    """`obs` [steps + 1, envs, 4 x 84 x 84] as bytes, with `reward`, `terminated`, `truncated` [steps, envs]
    and `action` [steps, envs, 1]; the first `warm` steps are left out, so that all is in motion."""
    planes = np.zeros((steps + 1, envs, STACK, SIDE, SIDE), np.uint8)
    reward = np.zeros((steps, envs), np.float32)
    ended = np.zeros((2, steps, envs), np.uint8)
    action = np.zeros((steps, envs, 1), np.float32)
    for e in range(envs):
        env = make(name)
        env.action_space.seed(e)
        env.reset(seed=e)
        last = [gray(env.render())] * STACK
        for t in range(-warm, steps + 1):
            if t >= 0:
                planes[t, e] = last
            if t == steps:
                break
            chosen = env.action_space.sample()
            _, gained, done, late, _ = env.step(chosen)
            if t >= 0:
                reward[t, e], ended[:, t, e] = gained, (done, late and not done)
                action[t, e, 0] = float(np.ravel(chosen)[0])
            if done or late:
                env.reset()
            new = gray(env.render())
            last = [new] * STACK if done or late else [*last[1:], new]
        env.close()
    obs = planes.reshape(steps + 1, envs, -1)
    return {"obs": obs, "reward": reward, "terminated": ended[0], "truncated": ended[1], "action": action}
