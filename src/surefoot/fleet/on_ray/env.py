"""The environments of a fleet, as the training loop knows environments: `FleetEnv`; and, without actors, what
reads fragments for it: `FragmentEnv`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import SurefootError
from surefoot.env import Actor, EpisodeStats, Finals
from surefoot.fleet.on_ray.acting import Tiles
from surefoot.fleet.on_ray.actor import Description
from surefoot.fleet.on_ray.crew import Arrived, Crew
from surefoot.rollout import RolloutBlock
from surefoot.training import Plan

STEPWISE = ("action", "log_prob", "reward", "terminated", "truncated", "reason", "stratum")


class FragmentEnv:
    """Environments that somebody else steps. A rollout is filled with fragments, one beside the other; what
    is asked of the environments speaks of those that the last rollout came from."""

    asynchronous = False
    physics_seconds = 0.0

    def __init__(
        self,
        plan: Plan,
        described: Description,
        envs: int,
        device: torch.device,
        take: Callable[[], list[Arrived]],
    ) -> None:
        """`take` waits for the fragments of one rollout of `envs` environments."""
        self.plan, self.description, self.device, self._take = plan, described, device, take
        d = described
        self.num_envs, self.contract = envs, plan.task.contract
        self.reasons, self.reward_names, self.episode_steps = d.reasons, d.reward_names, d.episode_steps
        c = self.contract
        self.obs = torch.zeros(self.num_envs, c.observation_size, device=device)
        self.critic = torch.zeros(self.num_envs, c.critic_size, device=device)
        self.seconds = 0.0
        """Wall-clock that the learner has waited for fragments and read them."""
        self.waited = 0.0
        """What it has waited of those."""
        self.used: list[Arrived] = []
        """The fragments of the last rollout."""
        self._age = torch.zeros(self.num_envs, dtype=torch.int64, device=device)
        self._content = torch.zeros(0)
        self._tiles = Tiles(range(self.num_envs), self.num_envs)

    def rollout(self, actor: Actor, block: RolloutBlock) -> tuple[float, Finals]:
        """Fills `block` with what actors did. Means are those of `actor`, computed in the tiles that they
        acted in; reward terms are the means of their fragments."""
        begun = time.perf_counter()
        self.used = self._take()
        self.waited += time.perf_counter() - begun
        at, finals = 0, []
        contents: list[Tensor] = []
        for used in self.used:
            a, h = used.fragment.arrays, used.fragment.header
            here = slice(at, at + h.envs)

            for name in STEPWISE:
                _write(getattr(block, name)[:, here], a[name])
            for name, ahead in (("obs", self.obs), ("critic", self.critic)):
                own = ahead.shape[-1] - a[name].shape[-1]  # the rest is the observation
                _write(getattr(block, name)[:, here, own:], a[name][:-1])
                _write(ahead[here, own:], a[name][-1])
                if own:
                    _write(block.critic[:, here, :own], a["obs"][:-1])
                    _write(self.critic[here, :own], a["obs"][-1])
            _write(
                block.terms[:, here],
                np.broadcast_to(a["terms"] / (h.horizon * h.envs), (h.horizon, h.envs, len(a["terms"]))),
            )
            _write(self._age[here], a["age"])
            again = sum(u.key.actor == used.key.actor for u in self.used[: len(contents)])
            last = a["content"] if a["content"].shape[1] else np.hstack([a["obs"][-1], a["critic"][-1]])
            content = _tensor(last)
            contents.append(torch.cat([content, torch.full((h.envs, 1), float(again))], 1))
            rows = (_tensor(a[k]) for k in ("final_step", "final_env", "final_critic"))
            step, env, critic = rows
            finals.append(Finals(step.long(), env.long() + at, critic))
            at += h.envs
        self._content = torch.cat(contents).to(self.device)
        self.seconds += time.perf_counter() - begun
        begun = time.perf_counter()
        for t in range(len(block.obs)):
            block.mean[t] = self._tiles(actor.mean, block.obs[t])
        return time.perf_counter() - begun, self._finals(finals)

    def _finals(self, parts: list[Finals]) -> Finals:
        """Joins finals in the order in which one process has them, or in its places: values are computed of
        all of them at once."""
        step, env, critic = (torch.cat(x) for x in zip(*parts, strict=True))
        if self.description.finals_of_all:
            steps = torch.full((self.num_envs,), -1, dtype=torch.int64)
            seen = torch.zeros(self.num_envs, critic.shape[1])
            steps[env], seen[env] = step, critic
            step, env, critic = steps, torch.arange(self.num_envs), seen
        else:
            order = torch.from_numpy(np.lexsort((env.numpy(), step.numpy())))
            step, env, critic = step[order], env[order], critic[order]
        return Finals(step.to(self.device), env.to(self.device), critic.to(self.device))

    def age(self) -> Tensor:
        """Returns the control steps that each episode had lasted at the start of its fragment. They are known
        when it is there: the next rollout writes them into this tensor."""
        return self._age

    def content(self) -> Tensor:
        """Returns [N, K + 1], what tells the episodes apart that ran at the end of each fragment, and which
        of its actor's fragments in the block it was: an episode that goes on is no copy of itself."""
        return self._content

    def stats_tensors(self) -> dict[str, Tensor]:
        """Returns nothing: fragments bring what is known of episodes."""
        return {}

    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        """Returns the episodes of the last rollout, in the order of steps and environments."""
        ended, at, failures = [], [], []
        terrain: dict[str, np.ndarray] = {}
        resets = np.zeros_like(self.used[0].fragment.arrays["resets"])
        start = 0
        for used in self.used:
            f = used.fragment
            columns = {k[6:]: v for k, v in f.extras.items() if k.startswith("ended.")}
            if columns:
                ended.append(columns)
                at.append(f.extras["ended_at"] + np.array([0, start]))
            failures += _failures(f.extras)
            for name, count in f.extras.items():
                if name.startswith("terrain."):
                    cls = name.removeprefix("terrain.")
                    terrain[cls] = terrain.get(cls, np.zeros_like(count)) + count
            resets = resets + f.arrays["resets"]
            start += f.header.envs
        joined = {k: np.concatenate([e[k] for e in ended]) for k in ended[0]} if ended else {}
        if ended:
            step, env = np.concatenate(at).T
            order = np.lexsort((env, step))
            joined = {k: v[order] for k, v in joined.items()}
        return EpisodeStats([joined] if ended else [], failures, resets, terrain)


class FleetEnv(FragmentEnv):
    """All environments of a fleet."""

    def __init__(self, plan: Plan, crew: Crew, device: torch.device) -> None:
        self.crew = crew
        super().__init__(plan, crew.description, plan.recipe.envs, device, self._of_crew)

    def _of_crew(self) -> list[Arrived]:
        crew = self.crew
        return crew.round() if crew.setting.sync else crew.fill(len(crew.members))

    def step_into(self, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        """Is refused: actors act, nobody else."""
        raise SurefootError("The environments of a fleet act by themselves; use Surefoot's own PPO.")

    def snapshot(self) -> dict[str, Tensor]:
        return self.crew.snapshot()

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Goes on from a snapshot, with any number of actors. Environments that cannot do that begin new
        episodes, and the crew's words say so."""
        if not self.crew.restore(snapshot):
            self.crew.refusals.append(
                f"The state of {self.contract.name} cannot be saved: all environments begin new episodes."
            )

    def close(self) -> None:
        self.crew.close()


def _write(into: Tensor, array: np.ndarray) -> None:
    """Writes an array where it belongs, without another copy where that is on the host."""
    if into.device.type == "cpu":
        np.copyto(into.numpy(), array, casting="unsafe")
    else:
        into.copy_(_tensor(array))


def _tensor(array: np.ndarray) -> Tensor:
    """Returns a tensor of its own: fragments lie in shared memory, and are only read."""
    return torch.from_numpy(np.array(array))


def _failures(extras: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Returns the states that engines failed from, a dict of columns for each group of them."""
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, column in extras.items():
        if name.startswith("failure."):
            _, number, field = name.split(".", 2)
            groups.setdefault(number, {})[field] = column
    return list(groups.values())
