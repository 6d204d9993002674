"""rl_games 1.6: its continuous A2C agent with PPO's losses; a central value network sees what our critic
sees."""

from __future__ import annotations

import math
from typing import Any

import torch
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner
from torch import Tensor

from surefoot.contract import Recipe
from surefoot.learners.libraries.env import LibraryEnv
from surefoot.learners.libraries.session import (
    FOREVER,
    AdapterSession,
    Export,
    LibraryNotes,
    Trained,
    common,
    mlp,
    normaliser,
)

CLIP = 5.0
"""The largest normalised observation; rl_games has it written into its code."""


def settings(recipe: Recipe, seed: int, device: str, folder: str) -> dict[str, Any]:
    """The recipe by rl_games' names."""
    network = {
        "units": list(recipe.hidden),
        "activation": recipe.activation,
        "initializer": {"name": "default"},
    }
    space = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": {"name": "default"},
        "sigma_init": {"name": "const_initializer", "val": math.log(recipe.init_std)},
        "fixed_sigma": True,
    }
    both = {
        "minibatch_size": recipe.samples_per_update // recipe.minibatches,
        "mini_epochs": recipe.epochs,
        "learning_rate": recipe.learning_rate,
        "clip_value": recipe.value_clip is not None,
        "e_clip": recipe.clip,
        "normalize_input": recipe.normalise,
        "truncate_grads": True,
        "grad_norm": recipe.max_grad_norm,
    }
    return {
        "seed": seed,
        "torch_threads": 0,
        "algo": {"name": "a2c_continuous"},
        "model": {"name": "continuous_a2c_logstd"},
        "network": {
            "name": "actor_critic",
            "separate": False,
            "space": {"continuous": space},
            "mlp": network,
        },
        "config": both
        | {
            "name": "rl_games",
            "full_experiment_name": "rl_games",
            "env_name": "surefoot",
            "train_dir": folder,
            "device": device,
            "num_actors": recipe.envs,
            "horizon_length": recipe.horizon,
            "seq_length": 1,
            "gamma": recipe.gamma,
            "tau": recipe.lam,
            "lr_schedule": "constant" if recipe.target_kl is None else "adaptive",
            "schedule_type": "legacy",
            "kl_threshold": recipe.target_kl,
            "entropy_coef": recipe.entropy,
            "critic_coef": recipe.value_coefficient,
            "use_experimental_cv": False,
            "bounds_loss_coef": 0.0,
            "clip_actions": False,
            "normalize_value": False,
            "normalize_advantage": True,
            "value_bootstrap": True,
            "reward_shaper": {"scale_value": 1.0},
            "torch_compile": False,
            "print_stats": False,
            "save_best_after": FOREVER,
            "save_frequency": 0,
            "max_epochs": -1,
            "central_value_config": both
            | {"network": {"name": "actor_critic", "central_value": True, "mlp": network}},
        },
    }


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe, critic=True)
    if recipe.target_kl is not None:
        out.append(
            "the policy's learning rate moves between 1e-06 and 0.01, by the KL from a sample's last "
            "minibatch rather than from its collection; the value network's is constant"
        )
    if recipe.value_clip is not None and recipe.value_clip != recipe.clip:
        out.append(f"values are clipped at {recipe.clip:g}, as ratios are, not at {recipe.value_clip:g}")
    if recipe.normalise:
        out.append(
            "the normaliser moves during an update's first epoch, so first ratios are not 1, and what it "
            f"gives is clipped at {CLIP:g}"
        )
    return [
        *out,
        "minibatches are the same environments in every epoch, never shuffled",
        f"Adam's epsilon is 1e-08, not {recipe.adam_eps:g}",
        "policy and value network have optimisers of their own; the value coefficient has no effect",
        "torch.compile, its clamp of actions to -1..1 and its loss on means outside of that are off",
    ]


class Adapter(IVecEnv):
    """Surefoot's environments as rl_games sees environments."""

    def __init__(self, env: LibraryEnv, corrected: bool) -> None:
        self._env, self._corrected = env, corrected
        self.algorithm: Any = None

    def reset(self) -> dict[str, Tensor]:
        return {"obs": self._env.obs, "states": self._env.critic}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        step = self._env.step(actions)
        seen, done = {"obs": step.obs, "states": step.critic}, step.done.to(torch.uint8)
        if not self._corrected:
            return seen, step.reward, done, {"time_outs": step.truncated}
        return seen, step.corrected(self._env.gamma, self._value), done, {}

    def _value(self, obs: Tensor, critic: Tensor) -> Tensor:
        return self.algorithm.get_values({"obs": obs, "states": critic})

    def get_env_info(self) -> dict[str, Any]:
        observation, state, action = self._env.spaces()
        return {"observation_space": observation, "state_space": state, "action_space": action, "agents": 1}


class Keeper(AlgoObserver):
    """Gets hold of the algorithm, which the runner keeps to itself."""

    algorithm: Any = None
    adapt: Any = None

    def after_init(self, algo: Any) -> None:
        self.algorithm = algo
        self.adapt(algo)


def train(session: AdapterSession) -> None:
    recipe, env = session.recipe, session.env
    options = settings(recipe, session.seed, session.device, str(session.folder))
    session.begin(LibraryNotes(options, differences(recipe)))
    adapter, keeper = Adapter(env, session.timeouts == "corrected"), Keeper()
    keeper.adapt = lambda algorithm: _watch(session, adapter, algorithm)
    runner = Runner(keeper)
    env_info = adapter.get_env_info()
    runner.load_config(options | {"config": options["config"] | {"vec_env": adapter, "env_info": env_info}})
    runner.run({"train": True})


def _watch(session: AdapterSession, adapter: Adapter, algorithm: Any) -> None:
    """Says after every update what there is to say about it."""
    recipe, env = session.recipe, session.env
    adapter.algorithm = algorithm
    losses: list[float] = []
    learn_values, write = algorithm.train_central_value, algorithm.write_stats

    def act(obs: Tensor) -> Tensor:
        blank = torch.zeros(len(obs), env.critics, device=obs.device)
        means = algorithm.get_action_values({"obs": obs, "states": blank})["mus"]
        return algorithm.preprocess_actions(means)

    def export() -> Export:
        model = algorithm.model
        layers = mlp([*model.a2c_network.actor_mlp, model.a2c_network.mu])
        if not recipe.normalise:
            return Export(normaliser(env.observations) | layers)
        n = model.running_mean_std
        std = (n.running_var.float() + 1e-5).sqrt()  # its epsilon, which a scripted module does not show
        return Export(normaliser(env.observations, n.running_mean, std) | layers, CLIP)

    def state() -> dict[str, Any]:
        weights: dict[str, Any] = algorithm.get_full_state_weights()
        return {
            k: weights[k] for k in ("model", "optimizer", "assymetric_vf_nets", "assymetric_vf_optimizer")
        }

    trained = Trained(act, export, state)

    def train_central_value() -> float:
        losses.append(learn_values())
        return losses[-1]

    def write_stats(*args: Any) -> None:
        write(*args)
        a_losses, entropies, last_rate = args[5], args[7], args[9]
        session.updated(
            {
                "value_loss": losses[-1],
                "policy_loss": float(torch.stack(a_losses).detach().mean()),
                "entropy": float(torch.stack(entropies).detach().mean()),
                "std": float(algorithm.model.a2c_network.sigma.detach().exp().mean()),
                "learning_rate": last_rate,
            },
            trained,
        )

    algorithm.train_central_value, algorithm.write_stats = train_central_value, write_stats
