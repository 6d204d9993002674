"""skrl 2.1: its PPO agent and sequential trainer. The critic sees what ours sees, as skrl's `states`."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium.spaces import Box
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import Wrapper
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import Tensor, nn

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


def settings(recipe: Recipe, folder: str) -> dict[str, Any]:
    """The recipe by PPO_CFG's names."""
    kl = recipe.target_kl
    return {
        "rollouts": recipe.horizon,
        "learning_epochs": recipe.epochs,
        "mini_batches": recipe.minibatches,
        "discount_factor": recipe.gamma,
        "gae_lambda": recipe.lam,
        "learning_rate": recipe.learning_rate,
        "learning_rate_scheduler_kwargs": {}
        if kl is None
        else {"kl_threshold": kl, "min_lr": recipe.min_learning_rate, "max_lr": recipe.max_learning_rate},
        "grad_norm_clip": recipe.max_grad_norm,
        "ratio_clip": recipe.clip,
        "value_clip": recipe.value_clip or 0.0,
        "entropy_loss_scale": recipe.entropy,
        "value_loss_scale": recipe.value_coefficient,
        "kl_threshold": 0.0,
        "time_limit_bootstrap": False,
        "experiment": {"directory": folder, "write_interval": 0, "checkpoint_interval": 0},
    }


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe, std_range=True, critic=True)
    if recipe.target_kl is not None:
        out.append("the learning rate moves once per epoch, by an estimate of the KL from ratios")
    if recipe.normalise:
        out.append(
            "the normaliser moves during an update's first epoch, so first ratios are not 1, and what it "
            "gives is clipped at 5"
        )
    return [*out, f"Adam's epsilon is 1e-08, not {recipe.adam_eps:g}"]


class Adapter(Wrapper):
    """Surefoot's environments as skrl sees environments. Rewards are fresh tensors: skrl writes into them."""

    def __init__(self, env: LibraryEnv, corrected: bool) -> None:
        super().__init__(env)
        self._library, self._corrected = env, corrected
        self._spaces = env.spaces()
        self.value: Any = None

    num_envs = property(lambda self: self._library.num_envs)
    observation_space = property(lambda self: self._spaces[0])
    state_space = property(lambda self: self._spaces[1])
    action_space = property(lambda self: self._spaces[2])

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        return self._library.obs, {}

    def state(self) -> Tensor:
        return self._library.critic

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        step = self._library.step(actions)
        reward, terminated, truncated = step.reward, step.terminated, step.truncated
        if self._corrected:
            reward = step.corrected(self._library.gamma, self.value)
            terminated, truncated = step.done, torch.zeros_like(truncated)
        return step.obs, reward[:, None], terminated[:, None], truncated[:, None], {}

    def render(self, *_: Any, **__: Any) -> None:
        """Nothing is rendered."""

    def close(self) -> None:
        """The run closes its environments itself."""


def network(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ELU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class Policy(GaussianMixin, Model):
    def __init__(self, spaces: tuple[Box, Box, Box], recipe: Recipe, device: str) -> None:
        observation, state, action = spaces
        Model.__init__(
            self, observation_space=observation, state_space=state, action_space=action, device=device
        )
        low, high = math.log(recipe.min_std), math.log(recipe.max_std)
        GaussianMixin.__init__(self, clip_log_std=True, min_log_std=low, max_log_std=high)
        self.net = network(observation.shape[0], recipe.hidden, action.shape[0])
        self.log_std = nn.Parameter(torch.full(action.shape, math.log(recipe.init_std)))

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    def __init__(self, spaces: tuple[Box, Box, Box], recipe: Recipe, device: str) -> None:
        observation, state, action = spaces
        Model.__init__(
            self, observation_space=observation, state_space=state, action_space=action, device=device
        )
        DeterministicMixin.__init__(self)
        self.net = network(state.shape[0], recipe.hidden, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        return self.net(inputs["states"]), {}


def train(session: AdapterSession) -> None:
    recipe, env, device = session.recipe, session.env, session.device
    set_seed(session.seed)
    options = settings(recipe, str(session.folder))
    session.begin(LibraryNotes(options, differences(recipe)))
    adapter, spaces = Adapter(env, session.timeouts == "corrected"), env.spaces()
    config = PPO_CFG(**options)
    if recipe.target_kl is not None:
        config.learning_rate_scheduler = KLAdaptiveLR
    if recipe.normalise:
        config.observation_preprocessor = config.state_preprocessor = RunningStandardScaler
        config.observation_preprocessor_kwargs = {"size": spaces[0], "device": device}
        config.state_preprocessor_kwargs = {"size": spaces[1], "device": device}
    agent = PPO(
        models={
            "policy": Policy(spaces, recipe, device).to(device),
            "value": Value(spaces, recipe, device).to(device),
        },
        memory=RandomMemory(memory_size=recipe.horizon, num_envs=env.num_envs, device=device),
        observation_space=spaces[0],
        state_space=spaces[1],
        action_space=spaces[2],
        device=device,
        cfg=config,
    )
    policy, scaler = agent.policy, agent._observation_preprocessor

    def value(_: Tensor, critic: Tensor) -> Tensor:
        inputs = {"states": agent._state_preprocessor(critic)}
        return agent._value_preprocessor(agent.value.act(inputs, role="value")[0], inverse=True)

    def act(obs: Tensor) -> Tensor:
        return policy.act({"observations": scaler(obs)}, role="policy")[1]["mean_actions"]

    def export() -> Export:
        if not recipe.normalise:
            return Export(normaliser(env.observations) | mlp(policy.net))
        std = scaler.running_variance.float().sqrt() + scaler.epsilon
        stats = normaliser(env.observations, scaler.running_mean, std)
        return Export(stats | mlp(policy.net), scaler.clip_threshold)

    def state() -> dict[str, Any]:
        return {k: m.state_dict() for k, m in agent.checkpoint_modules.items()}

    adapter.value = value
    trained, learn = Trained(act, export, state), agent.update

    def update(*, timestep: int, timesteps: int) -> None:
        learn(timestep=timestep, timesteps=timesteps)
        logged = {k: float(v[-1]) for k, v in agent.tracking_data.items() if v}
        agent.tracking_data.clear()  # nobody else reads it
        entropy = logged.get("Loss / Entropy loss")
        session.updated(
            {
                "value_loss": logged["Loss / Value loss"] / (recipe.value_coefficient or 1.0),
                "policy_loss": logged["Loss / Policy loss"],
                "entropy": None if entropy is None else -entropy / recipe.entropy,
                "std": logged["Policy / Standard deviation"],
                "learning_rate": agent.optimizer.param_groups[0]["lr"],
            },
            trained,
        )

    agent.update = update
    trainer = SequentialTrainer(
        env=adapter,
        agents=agent,
        cfg={
            "timesteps": FOREVER,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    )
    trainer.train()
