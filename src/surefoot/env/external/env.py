"""ExternalEnv: an external simulator as the trainer steps Surefoot's own environments. Same-step auto-reset,
true final observations, reasons, seeds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import ActionBox, Channel, ExternalContract, SeedPlan, SurefootError, environment_seeds
from surefoot.env.base import EPISODES_APART, EpisodeStats, Stepwise, Transition
from surefoot.env.external.source import Source
from surefoot.env.external.task import ExternalTask
from surefoot.keyed import Keyed, box_muller

REASONS = ("alive", "timeout", "terminated", "nonfinite")
ALIVE, TIMEOUT, TERMINATED, NONFINITE = range(4)


class ActionScale:
    """Turns a policy's actions into the simulator's."""

    def __init__(self, box: ActionBox, device: torch.device | str) -> None:
        self.clip = box.clip
        ones = torch.ones(box.size, dtype=torch.float64)
        low, high = -ones, ones
        if box.low is not None and box.high is not None:
            low, high = (torch.tensor(x, dtype=torch.float64) for x in (box.low, box.high))
        self._middle, self._half = (x.float().to(device) for x in ((high + low) / 2, (high - low) / 2))

    def __call__(self, action: Tensor) -> Tensor:
        """Returns [N, A]; with bounds -1 is the lowest and +1 the highest, without them actions stay as they
        are."""
        return self._middle + self._half * action.clamp(-self.clip, self.clip)


class ExternalEnv(Stepwise):
    """The environments `part` of a seed plan. First episodes are cut short at staggered ages, as timeouts
    (their last observation is bootstrapped from): environments that start together would end together."""

    reasons = REASONS

    def __init__(
        self,
        task: ExternalTask,
        seeds: SeedPlan,
        part: Sequence[int],
        device: str,
        stagger: bool = True,
        begun: int = 0,
    ) -> None:
        """`begun`: how often they have begun before; simulators get other seeds then, and exploration other
        draws."""
        c: ExternalContract = task.contract
        self.contract, self.num_envs, self.device = c, len(part), torch.device(device)
        self.reward_names = tuple(t.name for t in c.rewards)
        self.engine: Source = task.make(
            environment_seeds(seeds, [e + begun * seeds.envs for e in part]), device
        )
        """The simulator."""
        self.seconds = 0.0
        """Wall-clock in this class, the simulator left out."""
        self._scale = ActionScale(c.action, self.device)
        self._keyed = Keyed(seeds, self.device)
        n = self.num_envs
        self.family = torch.tensor(seeds.family_of(list(part)), device=self.device)
        self.member = torch.tensor(seeds.member_of(list(part)), device=self.device)
        self.episode, self._age = (torch.zeros(n, dtype=torch.int64, device=self.device) for _ in range(2))
        self.episode += begun * EPISODES_APART
        self.returns = torch.zeros(n, device=self.device)
        self._limit = torch.full((n,), c.episode_steps, device=self.device)
        if stagger and self.engine.restarts:
            u = torch.from_numpy(seeds.env_uniforms(list(part), Channel.AGE, 1)[:, 0]).to(self.device)
            self._limit = 1 + (u * c.episode_steps).long()
        self._ended: list[dict[str, np.ndarray]] = []
        self._resets = n
        self.critic, _ = _finite(self.engine.start())
        self.obs = self.critic[:, : c.observation_size]
        self.exploration = self._explore()

    @property
    def episode_steps(self) -> int:
        """Steps after which an episode is truncated."""
        return self.contract.episode_steps

    @property
    def physics_seconds(self) -> float:
        """Wall-clock in the simulator."""
        return self.engine.seconds

    def age(self) -> Tensor:
        """Returns [N], the steps that each episode has lasted; a copy."""
        return self._age.clone()

    def content(self) -> Tensor:
        """Returns [N, C], what tells one environment's episode from another's: what was seen last of it."""
        return self.critic

    def step(self, action: Tensor) -> Transition:
        """Applies `action` [N, A] (clipped to the contract's range) for one step."""
        begun, simulated = time.perf_counter(), self.engine.seconds
        moved = self.engine.step(self._scale(action))
        self._age += 1
        seen, bad = _finite(moved.seen)
        bad |= ~moved.reward.isfinite()
        reward = torch.where(bad, 0.0, moved.reward)
        terminated = moved.terminated | bad
        truncated = (moved.truncated | (self._age >= self._limit)) & ~terminated
        reason = torch.where(terminated, TERMINATED, torch.where(truncated, TIMEOUT, ALIVE))
        reason = torch.where(bad, NONFINITE, reason).to(torch.uint8)
        self.returns += reward
        self.critic = seen
        done = terminated | truncated
        if bool(done.any()):
            self._record(done, reason)
            rows = done.nonzero()[:, 0]
            self.critic = seen.clone()
            self.critic[rows] = _finite(self.engine.restart(rows))[0]
            self.episode[rows] += 1
            self._age[rows] = 0
            self.returns[rows] = 0
            self._limit[rows] = self.contract.episode_steps
            self._resets += len(rows)
        self.obs = self.critic[:, : self.contract.observation_size]
        self.exploration = self._explore()
        self.seconds += time.perf_counter() - begun - (self.engine.seconds - simulated)
        return Transition(
            reward=reward,
            terms=reward[:, None],
            terminated=terminated,
            truncated=truncated,
            reason=reason,
            final_critic=seen,
            stratum=torch.zeros_like(self._age),
        )

    def _explore(self) -> Tensor:
        """Returns [N, A] standard normals keyed to the coming step."""
        act = self.contract.action.size
        deep = -(-act // 4) * 4
        u = self._keyed.uniforms(
            self.family, self.member, self.episode, Channel.ACTION_NOISE, deep, self._age * deep
        )
        return box_muller(u)[:, :act]

    def _record(self, done: Tensor, reason: Tensor) -> None:
        """Columns as Surefoot's own environments have them; what only those know is nan."""
        rows = done.nonzero()[:, 0]
        unknown = torch.full((len(rows),), torch.nan)
        nothing = torch.zeros_like(rows)
        columns = {
            "family": self.family[rows],
            "member": self.member[rows],
            "episode": self.episode[rows],
            "stratum": nothing,
            "level": nothing,
            "steps": self._age[rows],
            "reason": reason[rows],
            "friction": unknown,
            "payload_kg": unknown,
            "delay_s": unknown,
            "return": self.returns[rows],
            "return.reward": self.returns[rows],
        }
        self._ended.append({k: v.cpu().numpy() for k, v in columns.items()})

    def stats_tensors(self) -> dict[str, Tensor]:
        """Returns nothing: episodes are known on the host."""
        return {}

    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        ended, self._ended = self._ended, []
        resets, self._resets = self._resets, 0
        return EpisodeStats(ended, [], np.array([resets]))

    def snapshot(self) -> dict[str, Tensor]:
        """Returns what a checkpoint says about the environments. The simulator's state is not in it: few can
        be asked for theirs."""
        return {"episode": self.episode.clone(), "age": self._age.clone()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        raise SurefootError(
            f"The state of {self.contract.name} cannot be saved, so its runs cannot be continued exactly; "
            "train anew with another --out."
        )

    def close(self) -> None:
        self.engine.close()


def _finite(seen: Tensor) -> tuple[Tensor, Tensor]:
    """Observations with zeros for what is not finite, and [N] in whose there was such a thing."""
    bad = ~seen.isfinite().all(1)
    return torch.nan_to_num(seen, nan=0.0, posinf=0.0, neginf=0.0), bad
