"""VecEnv: engine + task + scenarios. Same-step auto-reset, true final observations, reasons, strata and
families."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import MAX_DELAY_S, Channel, Plant, SurefootError
from surefoot.engines import Engine, Parameters, RobotState, make_engine
from surefoot.env.base import EPISODES_APART, EpisodeStats, Step, Stepwise
from surefoot.env.faults import FaultySensors
from surefoot.env.log import EpisodeLog
from surefoot.env.rules import OBSERVATION_LIMIT, Rules, resting
from surefoot.env.scenarios import (
    Sampler,
    Script,
    content,
    first_levels,
    first_task_state,
    spread,
    staggered_ages,
)
from surefoot.keyed import Keyed, box_muller
from surefoot.tasks import Task, TaskState, View
from surefoot.terrain import Atlas

OWN = ("episode", "born", "level", "progress", "returns", "obs", "critic", "exploration")
"""Tensors of an environment's own that its future depends on."""


class VecEnv(Rules, Stepwise):
    """`sampler.count` environments. Without `auto_reset` ended environments keep running and keep saying
    so."""

    def __init__(
        self,
        task: Task,
        sampler: Sampler,
        plant: Plant,
        *,
        engine: str = "mujoco",
        atlas: Atlas | None = None,
        device: str = "cpu",
        auto_reset: bool = True,
        stagger: bool = True,
    ) -> None:
        self.num_envs = n = sampler.count
        self._longest_delay_s = max(MAX_DELAY_S, sampler.longest_delay_s)
        # Said only where it matters: engines of other packages need not know of delays.
        remembers = {} if self._longest_delay_s == MAX_DELAY_S else {"max_delay_s": self._longest_delay_s}
        self.engine: Engine = make_engine(
            engine, task.robot, plant, n, atlas=atlas, device=device, **remembers
        )
        super().__init__(task, sampler, atlas, self.engine.device, 1.0 / plant.control_hz)
        self.auto_reset = auto_reset
        self.masked = self.device.type == "cuda" and not auto_reset
        """Whether pushes, failures and ends of tiles are handled by masks, without asking the device if there
        are any: then steps can be captured in a CUDA graph."""
        self.seconds = 0.0
        """Wall-clock in this class, physics left out."""
        self.keyed = Keyed(sampler.seeds, self.device)
        tiles = atlas.tiles if atlas else ()
        self.log = EpisodeLog(self.reward_names, sampler.strata, tiles, task.contract.terrain_levels)
        self.faulty: FaultySensors | None = None
        """What observations pass through where the sampler's scenarios have faults."""
        zeros = torch.zeros(n, dtype=torch.int64, device=self.device)
        self.episode, self.level = zeros, zeros.clone()
        self.born = zeros.clone()
        """[N] age at which the episode began: not 0 where the first one is staggered."""
        self.progress = torch.zeros(n, 2, device=self.device)
        """[N, 2] metres walked along the command, metres commanded."""
        self.returns = torch.zeros(n, len(self.reward_names), device=self.device)
        """[N, R] sums of the running episodes' reward terms."""
        self._begin(stagger)

    def _begin(self, stagger: bool) -> None:
        n = self.num_envs
        if self.contract.terrain_levels > 1:
            self.level = first_levels(self.sampler, self.contract.terrain_levels, self.device)
        s = self.sampler.draw(torch.arange(n, device=self.device), self.episode, self.level)
        self.script: Script = s.script.clone()
        self.parameters: Parameters = s.parameters.clone()
        self.state = self._first_state(self.script)
        self.log.add_begun(s.script)
        self.engine.reset(torch.ones(n, dtype=torch.bool, device=self.device), s.start, s.parameters)
        if stagger:
            self.state.age = staggered_ages(self.sampler, self.device)
            self.born = self.state.age.clone()
            self.state.command = self.current_command()
        self.robot_state = robot = self.engine.state()
        view = View(robot, self.state, self.parameters, self.ground(robot), self.const)
        self.obs, self.critic, self.exploration = self.observe(view, self.script)
        self.faulty = None
        if self.sampler.faults is not None:
            terms, limit = self.contract.observation, OBSERVATION_LIMIT
            self.faulty = FaultySensors(self.sampler.faults, terms, limit, self.sampler.episode_steps)
            rows = torch.arange(n, device=self.device)
            self.obs = self.faulty.begin(self.keyed, _key(self.script), self.obs, rows)

    def _first_state(self, script: Script) -> TaskState:
        return first_task_state(script, len(self.task.robot.feet), self.contract.action.size)

    @torch.inference_mode()
    def restart(self, sampler: Sampler | None = None, *, stagger: bool = True) -> None:
        """Begins episode 0 again in all environments, of `sampler` if one is given (for the same task and
        count)."""
        self.sampler = sampler or self.sampler
        assert self.sampler.count == self.num_envs
        longest = self.sampler.longest_delay_s
        if longest > self._longest_delay_s:
            raise SurefootError(
                f"These environments remember actions for {self._longest_delay_s:g} s and the new scenarios "
                f"delay them by up to {longest:g} s; make new environments for them."
            )
        self.keyed = Keyed(self.sampler.seeds, self.device)
        for since_start in (self.episode, self.born, self.level, self.progress, self.returns):
            since_start.zero_()
        self.log.clear()
        self._begin(stagger)

    @torch.inference_mode()
    def begin_anew(self, begun: int) -> None:
        """Leaves all episodes and begins others, staggered as the first ones were. `begun`: how often that
        has happened before; no episode of then is drawn again."""
        for since_start in (self.born, self.level, self.progress, self.returns):
            since_start.zero_()
        self.episode.fill_(begun * EPISODES_APART)
        self.log.clear()
        self._begin(True)

    @torch.inference_mode()
    def reset_rows(self, mask: Tensor) -> None:
        """Environments in `mask` [N] bool leave their episode, wherever it stands, and begin their next one.

        The episode they leave is not in `log`.
        """
        for name in ("obs", "critic", "exploration"):  # the last Step shares them
            setattr(self, name, getattr(self, name).clone())
        self._reset(mask)

    @property
    def episode_steps(self) -> int:
        """Control steps after which an episode is truncated."""
        return self.sampler.episode_steps

    @property
    def physics_seconds(self) -> float:
        """Wall-clock in the engine."""
        return self.engine.seconds

    def age(self) -> Tensor:
        """Returns [N], the control steps that each episode has lasted; a copy."""
        return self.state.age.clone()

    def content(self) -> Tensor:
        """Returns [N, K], what was drawn for the episodes that run now."""
        return content(self.script, self.parameters)

    # ---- stepping

    @torch.inference_mode()
    def step(self, action: Tensor) -> Step:
        """Applies `action` [N, A] (clipped to the contract's range) for one control step."""
        begun, physics = time.perf_counter(), self.engine.seconds
        c, script = self.contract, self.script
        action = action.float().clamp(-c.action.clip, c.action.clip)
        stratum = self.stratum
        self._push()
        robot = self.engine.step(self.joint_targets(action))
        failed = robot.failed.clone()
        if self.masked or bool(failed.any()):
            if not self.masked:
                self._keep_failures(failed, failed & ~self.robot_state.failed)
            # Nothing computed from a failed row counts; a resting robot keeps it from spreading.
            rest = resting(1, len(self.task.robot.feet), self.const.default_pose)
            robot.blend(failed, rest)
            action = torch.where(failed[:, None], 0.0, action)  # it may be what made them fail
        result = self.outcome(robot, action)
        view, reason = result.view, result.reason
        self.state, self.robot_state = view.task, robot
        self.returns += result.terms
        if self.contract.terrain_levels > 1:
            self.progress += self.step_progress(view)
        # The command seen next is that of the next step's segment; the reward above used the one that was
        # followed.
        self.state = dataclasses.replace(self.state, command=self.current_command())
        ahead = dataclasses.replace(view, task=self.state)
        obs, critic, exploration = self.observe(ahead, script)
        obs = self.see(obs)
        self.obs, self.critic, self.exploration = obs, critic, exploration
        done = result.terminated | result.truncated
        if self.auto_reset and bool(done.any()):
            self._record(done, reason, view)
            self.obs, self.critic, self.exploration = obs.clone(), critic.clone(), exploration.clone()
            self._reset(done)
        if self.height_field is not None:
            self._wrap()
        self.seconds += time.perf_counter() - begun - (self.engine.seconds - physics)
        return Step(
            reward=result.reward,
            terms=result.terms,
            terminated=result.terminated,
            truncated=result.truncated,
            reason=reason,
            final_critic=critic,
            stratum=stratum,
            obs=self.obs,
            critic=self.critic,
            final_obs=obs,
            exploration=self.exploration,
            view=view,
        )

    def _push(self) -> None:
        due = self.pushes_due()
        mask = due.any(1)
        if self.masked or bool(mask.any()):
            self.engine.push(mask, self.push_velocity(due))

    def observe(self, view: View, script: Script) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the noisy observation, the clean one of the critic, and exploration normals for the coming
        step."""
        clean, extra = self.observation_terms(view)
        size, act = clean.shape[1], self.contract.action.size
        age = view.task.age
        wide, deep = -(-size // 4) * 4, -(-act // 4) * 4
        noise, u = self.keyed.uniforms_many(
            script.family,
            script.member,
            script.episode,
            [(Channel.OBSERVATION_NOISE, size, age * wide), (Channel.ACTION_NOISE, deep, age * deep)],
        )
        obs, critic = self.add_noise(clean, noise, script.noise_scale), self.critic_observation(clean, extra)
        return obs, critic, box_muller(u)[:, :act]

    def see(self, obs: Tensor) -> Tensor:
        """Returns `obs` [N, O] as faulty sensors show it; as it is where none are."""
        if self.faulty is None:
            return obs
        return self.faulty.see(self.keyed, _key(self.script), self.state.age, obs, self.obs)

    def graph_state(self) -> list[Tensor]:
        """Returns the tensors that a step replaces by new ones, and that the next step reads."""
        return [
            *self.state.tensors().values(),
            *self.robot_state.tensors().values(),
            self.obs,
            self.critic,
            self.exploration,
        ]

    def set_graph_state(self, tensors: Sequence[Tensor]) -> None:
        """Continues with `tensors`, in the order of `graph_state`."""
        at = iter(tensors)
        self.state = TaskState(**{k: next(at) for k in self.state.tensors()})
        self.robot_state = RobotState(**{k: next(at) for k in self.robot_state.tensors()})
        self.obs, self.critic, self.exploration = at

    # ---- resets

    def _reset(self, mask: Tensor) -> None:
        rows = mask.nonzero()[:, 0]
        # The last Step's view shares these and must go on showing what was before the reset.
        self.robot_state, self.state, self.parameters = (
            self.robot_state.clone(),
            self.state.clone(),
            self.parameters.clone(),
        )
        self._curriculum(rows)
        self.episode[rows] += 1
        s = self.sampler.draw(rows, self.episode[rows], self.level[rows])
        self.script.put(rows, s.script)
        self.parameters.put(rows, s.parameters)
        self.state.put(rows, self._first_state(s.script))
        self.born[rows] = 0
        self.returns[rows] = 0
        self.progress[rows] = 0
        self.engine.reset(mask, *spread(s, rows, self.num_envs))
        self.log.add_begun(s.script)
        # Only the rows that were reset are observed again.
        robot = self.engine.state(rows)
        self.robot_state.put(rows, robot)
        view = View(robot, self.state.take(rows), s.parameters, self.ground(robot), self.const)
        obs, critic, exploration = self.observe(view, s.script)
        if self.faulty is not None:
            obs = self.faulty.begin(self.keyed, _key(s.script), obs, rows)
        self.obs[rows], self.critic[rows], self.exploration[rows] = obs, critic, exploration

    def _curriculum(self, rows: Tensor) -> None:
        if self.contract.terrain_levels == 1:
            return
        script = self.script
        u = self.keyed.uniforms(
            script.family[rows], script.member[rows], self.episode[rows], Channel.TERRAIN, 1
        )
        self.level[rows] = self.next_level(self.level[rows], self.progress[rows], u[:, 0])

    def _wrap(self) -> None:
        """Terrain is periodic: a robot that leaves its tile continues on the other side of it."""
        out, offset = self.left_tile(self.robot_state.position[:, :2], self.script.tile)
        if self.masked or bool(out.any()):
            self.engine.translate(out, offset)
            self.robot_state = self.engine.state()

    # ---- bookkeeping

    def _record(self, done: Tensor, reason: Tensor, view: View) -> None:
        rows = done.nonzero()[:, 0]
        self.log.add_ended(
            self.script.take(rows),
            self.parameters.take(rows),
            steps=view.task.age[rows] - self.born[rows],
            reason=reason[rows],
            returns=self.returns[rows],
            progress=self.progress[rows],
        )

    def _keep_failures(self, failed: Tensor, new: Tensor) -> None:
        """Keeps what the newly failed environments failed from; without auto-reset a failed one fails on."""
        script, fresh = self.script.take(new), new[failed].cpu().numpy()
        if not fresh.any():
            return
        rows = {k: v.cpu().numpy()[fresh] for k, v in self.engine.failures().items()}
        rows |= {k: getattr(script, k).cpu().numpy() for k in ("family", "member", "episode")}
        rows["age"] = self.state.age[new].cpu().numpy()
        self.log.failures.append(rows)

    def origins(self) -> np.ndarray:
        """Returns [N, 2] world xy of the middle of each environment's tile; zeros on a plane."""
        if self.height_field is None:
            return np.zeros((self.num_envs, 2), np.float32)
        return self.height_field.origins[self.script.tile].cpu().numpy()

    def stats_tensors(self) -> dict[str, Tensor]:
        """Returns what `episode_stats` needs on the host; most of it is there already."""
        return {} if self.height_field is None else {"occupancy": self.log.occupancy(self.script.tile)}

    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        """Returns what happened since it was last called."""
        return self.log.take(host.get("occupancy"))

    # ---- exact resume

    def snapshot(self) -> dict[str, Tensor]:
        """Returns copies of all that the future of these environments depends on."""
        out = {f"engine.{k}": v for k, v in self.engine.snapshot().items()}
        for name, rows in (("script", self.script), ("task", self.state), ("parameters", self.parameters)):
            out |= {f"{name}.{k}": v.clone() for k, v in rows.tensors().items()}
        own = {k: getattr(self, k) for k in OWN}
        out |= {k: v.clone() for k, v in own.items()}
        return out | {"reset_counts": torch.from_numpy(self.log.reset_counts.copy())}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        def under(prefix: str) -> dict[str, Tensor]:
            # Copies: rows are written in place, and a snapshot may be restored again.
            return {
                k.removeprefix(prefix): v.to(self.device, copy=True)
                for k, v in snapshot.items()
                if k.startswith(prefix)
            }

        self.engine.restore(under("engine."))
        self.script, self.state = Script(**under("script.")), TaskState(**under("task."))
        self.parameters = Parameters(**under("parameters."))
        for k in OWN:
            setattr(self, k, snapshot[k].to(self.device, copy=True))
        self.log.reset_counts = snapshot["reset_counts"].cpu().numpy().copy()
        self.robot_state = self.engine.state()

    def close(self) -> None:
        self.engine.close()


def _key(script: Script) -> tuple[Tensor, Tensor, Tensor]:
    """Returns family, member and episode: what draws within an episode are addressed by."""
    return script.family, script.member, script.episode
