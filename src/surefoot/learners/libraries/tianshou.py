"""Tianshou 2.0: its PPO, collector and on-policy trainer. Numpy on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, VectorEnvNormObs
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

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

Array = np.ndarray


def settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe by PPO's names."""
    return {
        "eps_clip": recipe.clip,
        "value_clip": recipe.value_clip is not None,
        "advantage_normalization": True,
        "recompute_advantage": False,
        "vf_coef": recipe.value_coefficient,
        "ent_coef": recipe.entropy,
        "max_grad_norm": recipe.max_grad_norm,
        "gae_lambda": recipe.lam,
        "gamma": recipe.gamma,
        "max_batchsize": recipe.samples_per_update,
        "return_scaling": False,
    }


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe)
    if recipe.target_kl is not None:
        out.append("the learning rate is constant: nothing follows the KL")
    if recipe.value_clip is not None and recipe.value_clip != recipe.clip:
        out.append(f"values are clipped at {recipe.clip:g}, as ratios are, not at {recipe.value_clip:g}")
    if recipe.normalise:
        out.append("the normaliser moves at every step, and what it gives is clipped at 10")
    return [*out, "advantages are normalised by minibatch"]


class Adapter(BaseVectorEnv):
    """Surefoot's environments as Tianshou sees environments: it asks for the reset of those that ended."""

    def __init__(self, env: LibraryEnv) -> None:
        # No call of the base class, which would make a worker for every environment.
        self._env, self._first = env, env.obs.cpu().numpy()
        self._spaces = env.spaces()
        self.env_num, self.is_async, self.is_closed = env.num_envs, False, False

    def __len__(self) -> int:
        return self.env_num

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        """The base class looks spaces up in here."""
        known = {"observation_space": self._spaces[0], "action_space": self._spaces[2]}
        return [known.get(key)] * self.env_num

    def reset(self, env_id: Any = None, **_: Any) -> tuple[Array, Array]:
        rows = np.arange(self.env_num) if env_id is None else np.asarray(env_id)
        return self._first[rows], self._infos(len(rows))

    def step(self, action: Any, id: Any = None) -> tuple[Array, Array, Array, Array, Array]:
        step = self._env.step(torch.as_tensor(action))
        self._first = step.obs.cpu().numpy()
        return (
            step.final_obs.cpu().numpy(),
            step.reward.cpu().numpy(),
            step.terminated.cpu().numpy(),
            step.truncated.cpu().numpy(),
            self._infos(self.env_num),
        )

    def seed(self, seed: Any = None) -> list[Any]:
        return [None] * self.env_num  # draws are keyed, and the key is the run's

    def close(self) -> None:
        """The run closes its environments itself."""

    @staticmethod
    def _infos(n: int) -> Array:
        return np.array([{} for _ in range(n)], dtype=object)


def gaussian(parameters: tuple[Tensor, Tensor]) -> Distribution:
    return Independent(Normal(*parameters), 1)


def network(inputs: int, hidden: Sequence[int]) -> Net:
    return Net(state_shape=inputs, hidden_sizes=list(hidden), activation=nn.ELU)


def train(session: AdapterSession) -> None:
    recipe, env, device = session.recipe, session.env, session.device
    torch.manual_seed(session.seed)
    np.random.seed(session.seed % 2**32)  # noqa: NPY002  Tianshou shuffles minibatches with it
    options = settings(recipe)
    optimiser = {"lr": recipe.learning_rate, "eps": recipe.adam_eps}
    session.begin(LibraryNotes(options | {"optim": optimiser}, differences(recipe)))
    observation, _, action = env.spaces()
    actor = ContinuousActorProbabilistic(
        preprocess_net=network(env.observations, recipe.hidden), action_shape=action.shape, unbounded=True
    ).to(device)
    torch.nn.init.constant_(actor.sigma_param, math.log(recipe.init_std))
    critic = ContinuousCritic(preprocess_net=network(env.observations, recipe.hidden)).to(device)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=gaussian,
        deterministic_eval=True,
        action_space=action,
        observation_space=observation,
        action_scaling=False,  # actions are in the contract's units, and the environment clips them
        action_bound_method=None,
    )
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(**optimiser), **options)
    venv: Any = Adapter(env)
    if recipe.normalise:
        venv = VectorEnvNormObs(venv)
    collector = Collector(algorithm, venv, VectorReplayBuffer(recipe.samples_per_update, env.num_envs))

    def act(obs: Tensor) -> Tensor:
        seen = obs.cpu().numpy()
        if recipe.normalise:
            seen = venv.obs_rms.norm(seen)
        with torch.no_grad():
            action = policy(Batch(obs=seen, info=Batch())).act
        return torch.as_tensor(policy.map_action(action)).to(obs.device)

    def export() -> Export:
        layers = mlp([*actor.preprocess.modules(), *actor.mu.modules()])
        if not recipe.normalise:
            return Export(normaliser(env.observations) | layers)
        rms = venv.obs_rms
        stats = torch.as_tensor(rms.mean), torch.as_tensor(np.sqrt(rms.var + rms.eps))
        return Export(normaliser(env.observations, *stats) | layers, rms.clip_max)

    def state() -> dict[str, Any]:
        out = {"algorithm": algorithm.state_dict()}
        if recipe.normalise:
            out["normalize"] = {
                k: torch.as_tensor(getattr(venv.obs_rms, k)) for k in ("mean", "var", "count")
            }
        return out

    trained, learn = Trained(act, export, state), algorithm.update

    def update(*args: Any, **kwargs: Any) -> Any:
        statistics = learn(*args, **kwargs)
        policy.is_within_training_step, before = False, policy.is_within_training_step
        session.updated(
            {
                "value_loss": statistics.vf_loss.mean,
                "policy_loss": statistics.actor_loss.mean,
                "entropy": statistics.ent_loss.mean,
                "std": float(actor.sigma_param.detach().exp().mean()),
                "learning_rate": recipe.learning_rate,
            },
            trained,
        )
        policy.is_within_training_step = before
        return statistics

    algorithm.update = update
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=FOREVER,
            epoch_num_steps=recipe.samples_per_update,
            collection_step_num_env_steps=recipe.samples_per_update,
            update_step_num_repetitions=recipe.epochs,
            batch_size=recipe.samples_per_update // recipe.minibatches,
            verbose=False,
            show_progress=False,
        )
    )
