"""Training steps per second of RSL-RL on Surefoot's own compiled environments.

    PYTHONPATH=src:SITE python benchmarks/peers/rsl_rl.py --envs 4096   the last line is a JSON object

RSL-RL samples the actions and learns; a step of all environments is what Surefoot's trainer uses (on CUDA
one graph per step). Networks, minibatches and epochs as in the table; tf32 matrix products; no log.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.pop(0)  # files in this folder have the names of what they import
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor

from machines import device_name
from peers.iterations import seconds_per_iteration
from surefoot.compute.cores import prepare_torch
from surefoot.env.compiled import CompiledEnv
from surefoot.rollout import RolloutBlock
from surefoot.training.plan_makers import make_plan
from training_loop import Loop, captured, seconds, settle

NO_NOISE = -50.0
"""Logarithm of a standard deviation that no action feels: exploration is RSL-RL's."""


class Given:
    """An actor whose mean is the action that somebody else has chosen."""

    def __init__(self, env: CompiledEnv) -> None:
        size = env.contract.action.size
        self.action = torch.zeros(env.num_envs, size, device=env.device)
        self.log_std = torch.full((size,), NO_NOISE, device=env.device)

    def mean(self, obs: Tensor) -> Tensor:
        return self.action


class Adapter(VecEnv):
    """Surefoot's environments as RSL-RL sees environments: a step is a rollout of one."""

    def __init__(self, env: CompiledEnv) -> None:
        c = env.contract
        self._env, self._actor = env, Given(env)
        widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
        self._block = RolloutBlock.empty(1, env.num_envs, *widths, env.device)
        self.num_envs, self.num_actions, self.device = env.num_envs, c.action.size, env.device
        self.max_episode_length, self.cfg = env.sampler.episode_steps, {}
        self._play = captured(self._step, env.device)

    @torch.inference_mode()
    def _step(self) -> None:
        self._env.rollout(self._actor, self._block)

    @property
    def episode_length_buf(self) -> Tensor:
        return self._env.age()

    def get_observations(self) -> TensorDict:
        """Copies: the runner keeps them until after the next step."""
        seen = {"actor": self._env.obs.clone(), "critic": self._env.critic.clone()}
        return TensorDict(seen, batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        self._actor.action.copy_(actions)
        self._play()
        b = self._block
        done = (b.terminated[0] | b.truncated[0]).long()
        return self.get_observations(), b.reward[0].clone(), done, {"time_outs": b.truncated[0].clone()}


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """RSL-RL's own defaults but for the sizes; normalised observations, as mjlab has them."""
    model = {
        "class_name": "MLPModel",
        "hidden_dims": args.hidden,
        "activation": "elu",
        "obs_normalization": True,
    }
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    return {
        "num_steps_per_env": args.horizon,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": model | {"distribution_cfg": noise},
        "critic": dict(model),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": args.epochs,
            "num_mini_batches": args.minibatches,
            "rnd_cfg": None,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="walk-flat")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, nargs="+", default=[512, 256, 128])
    parser.add_argument("--steps", type=int, default=50, help="environment steps with random actions")
    parser.add_argument("--iterations", type=int, default=20, help="of training, after a few that warm up")
    args = parser.parse_args()
    if args.device == "cpu":
        prepare_torch()
    torch.set_float32_matmul_precision("high")
    sizes = {k: getattr(args, k) for k in ("envs", "horizon", "minibatches", "epochs")}
    plan = make_plan(args.task, overrides=sizes, engine="stride", device=args.device)
    env = Adapter(Loop(plan).env)
    device = torch.device(args.device)
    random = torch.zeros(args.envs, env.num_actions, device=device)

    def step() -> None:
        env.step(random.uniform_(-1, 1))

    step()
    stepping = seconds(step, args.steps, device) / args.steps
    runner = OnPolicyRunner(env, settings(args), None, args.device)
    iteration = seconds_per_iteration(runner, args.iterations, lambda: settle(device))
    entry = {
        "peer": "RSL-RL on Surefoot's environments",
        "task": args.task,
        "device": device_name(device),
        "versions": {p: version(p) for p in ("rsl-rl-lib", "torch")},
        **sizes,
        "hidden": args.hidden,
        "env_steps_per_second": round(args.envs / stepping),
        "iteration_ms": round(iteration * 1e3, 2),
        "steps_per_second": round(args.envs * args.horizon / iteration),
    }
    print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
