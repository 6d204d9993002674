"""PPO in a single file, in CleanRL's spirit and by its conventions, on a Gymnasium vector environment.

Ours, not CleanRL's: the package of that name is a dump of scripts from 2021 that no longer imports. What is
CleanRL's are the choices: orthogonal weights, a normaliser that moves at every step and clips at 10,
advantages normalised by minibatch, a gradient clipped over both networks, and episodes that run out of time
taken for terminations. `--timeouts corrected` bootstraps those from their final observation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import Tensor, nn
from torch.distributions import Normal

from surefoot.contract import Recipe
from surefoot.learners.libraries.gym_view import LibraryVectorEnv
from surefoot.learners.libraries.session import (
    AdapterSession,
    Export,
    LibraryNotes,
    Trained,
    common,
    mlp,
    normaliser,
)

CLIP = 10.0
EPSILON = 1e-8


def layer(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def network(inputs: int, hidden: tuple[int, ...], outputs: int, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [layer(inputs, width), nn.ELU()]
        inputs = width
    return nn.Sequential(*layers, layer(inputs, outputs, gain))


class Agent(nn.Module):
    def __init__(self, observations: int, actions: int, recipe: Recipe) -> None:
        super().__init__()
        self.critic = network(observations, recipe.hidden, 1, 1.0)
        self.actor = network(observations, recipe.hidden, actions, 0.01)
        self.log_std = nn.Parameter(torch.full((actions,), math.log(recipe.init_std)))

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs)[:, 0]

    def distribution(self, obs: Tensor) -> Normal:
        return Normal(self.actor(obs), self.log_std.exp(), validate_args=False)


def differences(recipe: Recipe) -> list[str]:
    out = common(recipe)
    if recipe.target_kl is not None:
        out.append(
            "the learning rate is constant: an update ends after the epoch in which the KL passed target_kl"
        )
    if recipe.normalise:
        out.append(f"the normaliser moves at every step, and what it gives is clipped at {CLIP:g}")
    return [*out, "advantages are normalised by minibatch", "weights begin orthogonal, as CleanRL has them"]


def train(session: AdapterSession) -> None:
    recipe, device = session.recipe, torch.device(session.device)
    envs = LibraryVectorEnv(session.env)
    horizon, n = recipe.horizon, envs.num_envs
    size, act_size = session.env.observations, session.env.actions
    torch.manual_seed(session.seed)
    shuffle = np.random.default_rng(session.seed)
    session.begin(LibraryNotes({"corrected_timeouts": session.timeouts == "corrected"}, differences(recipe)))
    agent = Agent(size, act_size, recipe).to(device)
    optimiser = torch.optim.Adam(agent.parameters(), lr=recipe.learning_rate, eps=recipe.adam_eps)
    rms = RunningMeanStd(shape=(size,))

    def normal(obs: np.ndarray) -> Tensor:
        if recipe.normalise:
            obs = np.clip((obs - rms.mean) / np.sqrt(rms.var + EPSILON), -CLIP, CLIP)
        return torch.as_tensor(obs, dtype=torch.float32, device=device)

    def seen(obs: np.ndarray) -> Tensor:
        if recipe.normalise:
            rms.update(obs)
        return normal(obs)

    def act(obs: Tensor) -> Tensor:
        with torch.no_grad():
            return agent.actor(normal(obs.cpu().numpy()))

    def export() -> Export:
        if not recipe.normalise:
            return Export(normaliser(size) | mlp(agent.actor))
        stats = torch.as_tensor(rms.mean), torch.as_tensor(np.sqrt(rms.var + EPSILON))
        return Export(normaliser(size, *stats) | mlp(agent.actor), CLIP)

    def state() -> dict[str, Any]:
        figures = {k: torch.as_tensor(getattr(rms, k)) for k in ("mean", "var", "count")}
        return {"agent": agent.state_dict(), "optimizer": optimiser.state_dict(), "normalize": figures}

    trained = Trained(act, export, state)
    obs = torch.zeros(horizon, n, size, device=device)
    actions = torch.zeros(horizon, n, act_size, device=device)
    log_probs, rewards, dones, values = (torch.zeros(horizon, n, device=device) for _ in range(4))
    next_obs = seen(envs.reset(seed=session.seed)[0])
    while True:
        # ---- collect
        for step in range(horizon):
            obs[step] = next_obs
            with torch.no_grad():
                chosen = agent.distribution(next_obs)
                actions[step] = chosen.sample()
                log_probs[step] = chosen.log_prob(actions[step]).sum(1)
                values[step] = agent.value(next_obs)
            raw_obs, reward, terminated, truncated, infos = envs.step(actions[step].cpu().numpy())
            rewards[step] = torch.as_tensor(reward, device=device)
            dones[step] = torch.as_tensor(terminated | truncated, device=device)
            if session.timeouts == "corrected" and "final_obs" in infos:
                with torch.no_grad():
                    final = agent.value(normal(infos["final_obs"]))
                rewards[step] += recipe.gamma * final * torch.as_tensor(truncated, device=device)
            next_obs = seen(raw_obs)
        # ---- advantages
        with torch.no_grad():
            advantages, carried, following = torch.zeros_like(rewards), torch.zeros(n), agent.value(next_obs)
            carried = carried.to(device)
            for t in reversed(range(horizon)):
                alive = 1 - dones[t]
                delta = rewards[t] + recipe.gamma * following * alive - values[t]
                advantages[t] = carried = delta + recipe.gamma * recipe.lam * alive * carried
                following = values[t]
            returns = advantages + values
        # ---- learn
        flat = [x.flatten(0, 1) for x in (obs, actions, log_probs, advantages, returns, values)]
        batch, logged = horizon * n, []
        for _ in range(recipe.epochs):
            order = torch.as_tensor(shuffle.permutation(batch), device=device)
            kls: list[Tensor] = []
            for rows in order.chunk(recipe.minibatches):
                o, a, old, advantage, target, before = (x[rows] for x in flat)
                policy = agent.distribution(o)
                log_ratio = policy.log_prob(a).sum(1) - old
                ratio = log_ratio.exp()
                with torch.no_grad():
                    kls.append(((ratio - 1) - log_ratio).mean())
                    clipped = ((ratio - 1).abs() > recipe.clip).float().mean()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                bound = ratio.clamp(1 - recipe.clip, 1 + recipe.clip)
                policy_loss = torch.max(-advantage * ratio, -advantage * bound).mean()
                value = agent.value(o)
                value_loss = (value - target).pow(2)
                if recipe.value_clip is not None:
                    near = before + (value - before).clamp(-recipe.value_clip, recipe.value_clip)
                    value_loss = torch.max(value_loss, (near - target).pow(2))
                entropy = policy.entropy().sum(1).mean()
                loss = policy_loss - recipe.entropy * entropy
                loss = loss + recipe.value_coefficient * value_loss.mean()
                optimiser.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(agent.parameters(), recipe.max_grad_norm)
                optimiser.step()
                logged.append(
                    torch.stack([policy_loss, value_loss.mean(), entropy, clipped, norm, kls[-1]]).detach()
                )
            last_kl = float(torch.stack(kls).mean())
            if recipe.target_kl is not None and last_kl > recipe.target_kl:
                break
        mean = torch.stack(logged).mean(0).tolist()
        names = ("policy_loss", "value_loss", "entropy", "clip_fraction", "grad_norm", "kl")
        unexplained = (flat[4] - flat[5]).var() / flat[4].var()
        session.updated(
            dict(zip(names, mean, strict=True))
            | {
                "kl_last_epoch": last_kl,
                "std": float(agent.log_std.detach().exp().mean()),
                "learning_rate": recipe.learning_rate,
                "explained_variance": 1 - float(unexplained),
            },
            trained,
        )
