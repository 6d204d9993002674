"""Stable-Baselines3 2.9: its PPO behind VecNormalize, whose figures live outside the model. Numpy on the
host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from surefoot.contract import Recipe
from surefoot.learners.libraries.env import LibraryEnv, LibraryStep
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

CLIP = 10.0
"""The largest normalised observation, which is VecNormalize's own default."""


def settings(recipe: Recipe, seed: int, device: str) -> dict[str, Any]:
    """The recipe by PPO's names."""
    return {
        "n_steps": recipe.horizon,
        "batch_size": recipe.samples_per_update // recipe.minibatches,
        "n_epochs": recipe.epochs,
        "learning_rate": recipe.learning_rate,
        "gamma": recipe.gamma,
        "gae_lambda": recipe.lam,
        "clip_range": recipe.clip,
        "clip_range_vf": recipe.value_clip,
        "ent_coef": recipe.entropy,
        "vf_coef": recipe.value_coefficient,
        "max_grad_norm": recipe.max_grad_norm,
        "target_kl": recipe.target_kl,
        "seed": seed,
        "device": device,
        "policy_kwargs": {
            "net_arch": {"pi": list(recipe.hidden), "vf": list(recipe.hidden)},
            "log_std_init": math.log(recipe.init_std),
            "optimizer_kwargs": {"eps": recipe.adam_eps},
        },
    }


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe)
    if recipe.target_kl is not None:
        out.append(
            "the learning rate is constant: target_kl ends an update's epochs above 1.5 times its value "
            "instead of moving the rate"
        )
    if recipe.normalise:
        out.append(f"the normaliser moves at every step, and what it gives is clipped at {CLIP:g}")
    return [*out, "advantages are normalised by minibatch", "weights begin orthogonal, as SB3 has them"]


class Adapter(VecEnv):
    """Surefoot's environments as Stable-Baselines3 sees environments."""

    def __init__(self, env: LibraryEnv) -> None:
        self._env = env
        self._step: LibraryStep | None = None
        observation, _, action = env.spaces()
        super().__init__(env.num_envs, observation, action)

    def reset(self) -> np.ndarray:
        return self._env.obs.cpu().numpy()

    def step_async(self, actions: np.ndarray) -> None:
        self._step = self._env.step(torch.from_numpy(actions))

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        step = self._step
        assert step is not None
        infos: list[dict[str, Any]] = [{}] * self.num_envs  # one for all that have nothing to say
        final, truncated = step.final_obs.cpu().numpy(), step.truncated.cpu().numpy()
        for k in np.flatnonzero(truncated):  # nobody reads the last observation of a fall
            infos[k] = {"terminal_observation": final[k], "TimeLimit.truncated": True}
        return step.obs.cpu().numpy(), step.reward.cpu().numpy(), step.done.cpu().numpy(), infos

    def close(self) -> None:
        """The run closes its environments itself."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs  # only render_mode is ever asked for

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the environments have no attributes to set")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError("the environments have no methods to call")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs


class Hook(BaseCallback):
    """A rollout begins when the update before it is done."""

    def __init__(self, session: AdapterSession, trained: Trained) -> None:
        super().__init__()
        self.session, self.trained = session, trained

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps == 0:
            return
        logged: dict[str, float] = {
            k: float(v) for k, v in self.logger.name_to_value.items() if "train/" in k
        }
        self.session.updated(
            {
                "kl_last_epoch": logged["train/approx_kl"],
                "clip_fraction": logged["train/clip_fraction"],
                "value_loss": logged["train/value_loss"],
                "policy_loss": logged["train/policy_gradient_loss"],
                "entropy": -logged["train/entropy_loss"],
                "std": logged["train/std"],
                "learning_rate": logged["train/learning_rate"],
                "explained_variance": logged["train/explained_variance"],
            },
            self.trained,
        )


def train(session: AdapterSession) -> None:
    recipe, env = session.recipe, session.env
    options = settings(recipe, session.seed, session.device)
    session.begin(
        LibraryNotes(
            options | {"vec_normalize": {"norm_reward": False, "clip_obs": CLIP}}, differences(recipe)
        )
    )
    normal = VecNormalize(Adapter(env), norm_obs=recipe.normalise, norm_reward=False, clip_obs=CLIP)
    kwargs = options | {"policy_kwargs": options["policy_kwargs"] | {"activation_fn": nn.ELU}}
    model = PPO("MlpPolicy", normal, verbose=0, **kwargs)

    def act(obs: Tensor) -> Tensor:
        action, _ = model.predict(normal.normalize_obs(obs.cpu().numpy()), deterministic=True)
        return torch.from_numpy(action).to(obs.device)

    def export() -> Export:
        p = model.policy
        layers = mlp([*p.mlp_extractor.policy_net, p.action_net])
        if not recipe.normalise:
            return Export(normaliser(env.observations) | layers)
        mean, var = normal.obs_rms.mean, normal.obs_rms.var
        stats = torch.from_numpy(mean), torch.from_numpy(np.sqrt(var + normal.epsilon))
        return Export(normaliser(env.observations, *stats) | layers, CLIP)

    def state() -> dict[str, Any]:
        out = {"policy": model.policy.state_dict(), "optimizer": model.policy.optimizer.state_dict()}
        if recipe.normalise:
            rms: Any = normal.obs_rms
            out["normalize"] = {k: torch.as_tensor(getattr(rms, k)) for k in ("mean", "var", "count")}
        return out

    model.learn(FOREVER * recipe.samples_per_update, callback=Hook(session, Trained(act, export, state)))
