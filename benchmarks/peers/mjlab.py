"""Environment and training steps per second of mjlab with RSL-RL, on its own Go1 task.

    PYTHONPATH=SITE python benchmarks/peers/mjlab.py --envs 4096        the last line is a JSON object

SITE holds mjlab 1.6.0 and what it needs; it wants another MuJoCo than Surefoot, so nothing of Surefoot is
imported here. Runs with mjlab's own settings (24 steps, 4 minibatches, 5 epochs, 512-256-128) and without a
log: writing one would only cost it time.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import json
import sys
import time
import types
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.pop(0)  # files in this folder have the names of what they import
sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.iterations import seconds_per_iteration

SIDE_SHOWS = ("IPython", "IPython.display", "wandb", "imageio_ffmpeg", "onnx")
"""Modules that mjlab imports for notebooks, trackers, videos and export; none is used here."""


def stand_in() -> None:
    """Empty modules for those that are not installed."""
    for name in SIDE_SHOWS:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module: Any = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.run, module.get_ipython, module.get_ffmpeg_exe = None, lambda: None, lambda: "ffmpeg"
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="Mjlab-Velocity-Flat-Unitree-Go1")
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=50, help="environment steps with random actions")
    parser.add_argument("--iterations", type=int, default=10, help="of training, after a few that warm up")
    args = parser.parse_args()
    stand_in()
    import mjlab.tasks  # noqa: F401  fills the registry
    import torch
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls
    from mjlab.utils.torch import configure_torch_backends

    configure_torch_backends()
    cuda = torch.cuda.is_available()
    device = "cuda:0" if cuda else "cpu"

    def settle() -> None:
        if cuda:
            torch.cuda.synchronize()

    begun = time.perf_counter()
    settings, recipe = load_env_cfg(args.task), load_rl_cfg(args.task)
    settings.scene.num_envs, settings.seed = args.envs, 1
    env = ManagerBasedRlEnv(cfg=settings, device=device)
    env.reset()
    action = torch.zeros(args.envs, env.action_manager.total_action_dim, device=device)
    for _ in range(min(10, args.steps)):
        env.step(action.uniform_(-1, 1))
    settle()
    built = time.perf_counter()
    for _ in range(args.steps):
        env.step(action.uniform_(-1, 1))
    settle()
    stepping = (time.perf_counter() - built) / args.steps
    make = load_runner_cls(args.task) or MjlabOnPolicyRunner
    wrapped = RslRlVecEnvWrapper(env, clip_actions=recipe.clip_actions)
    runner = make(wrapped, asdict(recipe), None, device)
    iteration = seconds_per_iteration(runner, args.iterations, settle, spread=True)
    samples = args.envs * recipe.num_steps_per_env
    entry = {
        "peer": "mjlab + RSL-RL",
        "task": args.task,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "versions": {p: version(p) for p in ("mjlab", "rsl-rl-lib", "mujoco", "mujoco-warp", "torch")},
        "envs": args.envs,
        "horizon": recipe.num_steps_per_env,
        "minibatches": recipe.algorithm.num_mini_batches,
        "epochs": recipe.algorithm.num_learning_epochs,
        "hidden": list(recipe.actor.hidden_dims),
        "build_seconds": round(built - begun, 1),
        "env_steps_per_second": round(args.envs / stepping),
        "iteration_ms": round(iteration * 1e3, 2),
        "steps_per_second": round(samples / iteration),
    }
    print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
