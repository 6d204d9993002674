"""RSL-RL 5.5: its on-policy runner and PPO. Observations are a TensorDict, the critic sees what ours sees."""

from __future__ import annotations

import copy
from typing import Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
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


def settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe by RSL-RL's names."""
    model = {
        "class_name": "MLPModel",
        "hidden_dims": list(recipe.hidden),
        "activation": recipe.activation,
        "obs_normalization": recipe.normalise,
    }
    noise = {
        "class_name": "GaussianDistribution",
        "init_std": recipe.init_std,
        "std_type": "log",
        "std_range": [recipe.min_std, recipe.max_std],
    }
    return {
        "num_steps_per_env": recipe.horizon,
        "save_interval": FOREVER,
        "check_for_nan": False,  # waits for the device at every step; the environment ends what is not finite
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": model | {"distribution_cfg": noise},
        "critic": dict(model),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": recipe.epochs,
            "num_mini_batches": recipe.minibatches,
            "clip_param": recipe.clip,
            "gamma": recipe.gamma,
            "lam": recipe.lam,
            "value_loss_coef": recipe.value_coefficient,
            "entropy_coef": recipe.entropy,
            "learning_rate": recipe.learning_rate,
            "max_grad_norm": recipe.max_grad_norm,
            "use_clipped_value_loss": recipe.value_clip is not None,
            "schedule": "fixed" if recipe.target_kl is None else "adaptive",
            "desired_kl": recipe.target_kl,
            "rnd_cfg": None,
            "symmetry_cfg": None,
        },
    }


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe, std_range=True, critic=True)
    if recipe.target_kl is not None:
        out.append(
            f"the learning rate moves between 1e-05 and 0.01, not {recipe.min_learning_rate:g} and "
            f"{recipe.max_learning_rate:g}"
        )
    if recipe.value_clip is not None and recipe.value_clip != recipe.clip:
        out.append(f"values are clipped at {recipe.clip:g}, as ratios are, not at {recipe.value_clip:g}")
    return [
        *out,
        f"Adam's epsilon is 1e-08, not {recipe.adam_eps:g}",
        "gradients of actor and critic are clipped apart",
        "its own symmetry augmentation, which doubles every minibatch, is off",
    ]


class Adapter(VecEnv):
    """Surefoot's environments as RSL-RL sees environments."""

    def __init__(self, env: LibraryEnv, corrected: bool) -> None:
        self._env, self._corrected = env, corrected
        self.cfg: dict[str, Any] = {}
        self.num_envs, self.num_actions, self.device = env.num_envs, env.actions, env.device
        self.max_episode_length = env.episode_steps
        self.critic: Any = None

    @property
    def episode_length_buf(self) -> Tensor:
        return self._env.env.age()

    def get_observations(self) -> TensorDict:
        return self._observed(self._env.obs, self._env.critic)

    def _observed(self, obs: Tensor, critic: Tensor) -> TensorDict:
        return TensorDict({"actor": obs, "critic": critic}, batch_size=[len(obs)])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        step = self._env.step(actions)
        seen, done = self._observed(step.obs, step.critic), step.done.long()
        if not self._corrected:
            return seen, step.reward, done, {"time_outs": step.truncated}
        reward = step.corrected(self._env.gamma, lambda o, c: self.critic(self._observed(o, c)))
        return seen, reward, done, {}


def train(session: AdapterSession) -> None:
    recipe, env = session.recipe, session.env
    torch.manual_seed(session.seed)
    options = settings(recipe)
    session.begin(LibraryNotes(options, differences(recipe)))
    adapter = Adapter(env, session.timeouts == "corrected")
    runner = OnPolicyRunner(adapter, copy.deepcopy(options), None, session.device)  # which edits it
    algorithm = runner.alg
    adapter.critic = algorithm.critic
    actor = algorithm.get_policy()

    def act(obs: Tensor) -> Tensor:
        blank = torch.zeros(len(obs), env.critics, device=obs.device)
        return actor(TensorDict({"actor": obs, "critic": blank}, batch_size=[len(obs)]))

    def export() -> Export:
        n = actor.obs_normalizer
        stats = (n._mean, n._std + n.eps) if recipe.normalise else (None, None)
        return Export(normaliser(env.observations, *stats) | mlp(actor.mlp))

    trained, learn = Trained(act, export, algorithm.save), algorithm.update

    def update() -> dict[str, float]:
        losses: dict[str, float] = learn()
        session.updated(
            {
                "value_loss": losses["value"],
                "policy_loss": losses["surrogate"],
                "entropy": losses["entropy"],
                "std": float(actor.output_std.detach().mean()),
                "learning_rate": algorithm.learning_rate,
            },
            trained,
        )
        return losses

    algorithm.update = update
    runner.learn(num_learning_iterations=FOREVER)
