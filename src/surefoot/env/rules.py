"""What a control step means: targets, ground, observations, rewards, ends, levels. Written once, for tensors
and for the symbols of the compiled environment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.engines import Parameters, RobotState
from surefoot.env.scenarios import Sampler, Script
from surefoot.tasks import Ground, Task, TaskState, View, advance
from surefoot.terrain import Atlas, HeightField

OBSERVATION_LIMIT = 10.0


@dataclass
class Outcome:
    """What a control step led to, before any reset; the names are those of `Step`."""

    view: View
    terms: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    reason: Tensor


class Rules:
    """Functions of what an environment holds and of a robot's state, pure and without branches on data, so
    that the compiled environment can call them with symbols and print what they return."""

    state: TaskState
    script: Script
    parameters: Parameters

    def __init__(
        self, task: Task, sampler: Sampler, atlas: Atlas | None, device: torch.device, dt: float
    ) -> None:
        self.task, self.sampler, self.contract = task, sampler, task.contract
        self.device, self.dt = device, dt
        self.const = task.constants(self.device, self.dt)
        c = task.contract
        self.reasons = ("alive", "timeout", *(t.name for t in c.terminations), "nonfinite")
        self.reward_names = tuple(t.name for t in c.rewards)
        self.height_field = HeightField.of(atlas, self.device) if atlas else None
        self.scan_points = torch.tensor(task.scan, device=self.device).view(-1, 2)
        terms = c.observation
        self._noise = torch.cat([torch.full((t.size,), t.noise) for t in terms]).to(self.device)
        self._scale = torch.cat([torch.full((t.size,), t.scale) for t in terms]).to(self.device)
        extra = torch.cat([torch.full((t.size,), t.scale) for t in c.privileged]).to(self.device)
        self._critic_scale = torch.cat([self._scale, extra])
        self._weights = torch.tensor(
            [t.weight * (1.0 if t.event else self.dt) for t in c.rewards], device=self.device
        )
        self._events = torch.tensor([float(t.event) for t in c.rewards], device=self.device)
        # The event term `fall`, where the contract has one: the terms module cannot know the terminations.
        self._fall = self._weights * torch.tensor(
            [float(n == "fall") for n in self.reward_names], device=self.device
        )

    @property
    def stratum(self) -> Tensor:
        """[N] int64, the stratum of the step to come."""
        return self.script.stratum.gather(1, self._segment()[:, None])[:, 0]

    # ---- acting

    def joint_targets(self, action: Tensor) -> Tensor:
        """Returns the servos' targets for actions [N, A]: rad, [N, A]."""
        targets = self.const.default_pose + self.contract.action.scale_rad * action
        prior = self.contract.prior
        if prior is None or prior.lift_rad == 0:  # a clock alone leaves the legs to the policy
            return targets
        moving = (self.state.command.abs().amax(1) > self.const.dead_zone).to(targets.dtype)
        lift = (
            torch.sin(2 * math.pi * (self.state.phase[:, None] + self.const.offsets)).clamp_min(0)
            * prior.lift_rad
        )
        lift = lift * moving[:, None]
        return targets + torch.stack([torch.zeros_like(lift), lift, -2 * lift], 2).view_as(targets)

    def pushes_due(self) -> Tensor:
        """Returns [N, P] bool: pushes that act before the coming step."""
        return self.script.push_step == self.state.age[:, None]

    def push_velocity(self, due: Tensor) -> Tensor:
        """Returns [N, 2] m/s, what those of `due` [N, P] add to the base's velocity in the world."""
        return (self.script.push_velocity * due[..., None]).sum(1)

    # ---- seeing

    def _segment(self) -> Tensor:
        return (self.state.age // self.sampler.segment_steps).clamp_max(self.script.commands.shape[1] - 1)

    def current_command(self) -> Tensor:
        """Returns [N, 3], the command of the coming step."""
        return self.script.commands.gather(1, self._segment()[:, None, None].expand(-1, 1, 3))[:, 0]

    def ground(self, robot: RobotState) -> Ground:
        """Returns what is under a robot: heights of trunk and feet above the ground, and the scan."""
        feet = robot.foot_position
        if self.height_field is None:
            return Ground(robot.position[:, 2], feet[..., 2], feet.new_empty(len(feet), 0))
        below = self.height_field.height(robot.position[:, :2])
        # Scan points turn with the robot's heading.
        w, x, y, z = robot.quaternion.unbind(1)
        yaw = torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        cos, sin = yaw.cos()[:, None], yaw.sin()[:, None]
        px, py = self.scan_points[:, 0], self.scan_points[:, 1]
        points = torch.stack([cos * px - sin * py, sin * px + cos * py], 2) + robot.position[:, None, :2]
        scan = self.height_field.height(points) - robot.position[:, 2:] + self.const.stand_height
        return Ground(
            robot.position[:, 2] - below, feet[..., 2] - self.height_field.height(feet[..., :2]), scan
        )

    def observation_terms(self, view: View) -> tuple[Tensor, Tensor]:
        """Returns observation terms [N, O] without noise, and what only the critic sees."""
        c, f = self.contract, self.task.terms
        clean = torch.cat([f[t.name](view) for t in c.observation], 1)
        return clean, torch.cat([f[t.name](view) for t in c.privileged], 1)

    def add_noise(self, clean: Tensor, uniforms: Tensor, noise_scale: Tensor) -> Tensor:
        """Returns the policy's observation [N, O]: noisy by draws [N, O] in [0, 1), scaled and limited."""
        noisy = clean + self._noise * (2 * uniforms - 1) * noise_scale[:, None]
        return (noisy * self._scale).clamp(-OBSERVATION_LIMIT, OBSERVATION_LIMIT)

    def critic_observation(self, clean: Tensor, extra: Tensor) -> Tensor:
        """Returns what the critic sees [N, C]: no noise, scaled and limited."""
        critic = torch.cat([clean, extra], 1) * self._critic_scale
        return critic.clamp(-OBSERVATION_LIMIT, OBSERVATION_LIMIT)

    # ---- rewards and ends

    def outcome(self, robot: RobotState, action: Tensor) -> Outcome:
        """Returns what a control step led to."""
        state = advance(self.state, robot, self.const, action)
        view = View(robot, state, self.parameters, self.ground(robot), self.const)
        terms, ends = self._rewards_and_ends(view)
        failed = robot.failed
        terminated = ends.any(1) | failed
        truncated = (state.age >= self.sampler.episode_steps) & ~terminated
        terms = terms + terminated[:, None] * self._fall
        reason = torch.where(ends.any(1), ends.to(torch.uint8).argmax(1) + 2, truncated.long())
        reason = torch.where(failed, len(self.reasons) - 1, reason).to(torch.uint8)
        return Outcome(view, terms, self._floor(terms), terminated, truncated, reason)

    def _rewards_and_ends(self, view: View) -> tuple[Tensor, Tensor]:
        """Weighted terms [N, R] and terminations [N, E]."""
        c, f = self.contract, self.task.terms
        terms = torch.stack([f[t.name](view, **t.params) for t in c.rewards], 1) * self._weights
        ends = torch.stack([f[t.name](view, **t.params) for t in c.terminations], 1)
        alive = ~view.robot.failed
        return terms * alive[:, None], ends & alive[:, None]

    def _floor(self, terms: Tensor) -> Tensor:
        """Returns rewards [N]: terms' sums, of which the steady ones are not allowed below the floor."""
        if self.contract.reward_floor is None:
            return terms.sum(1)
        steady = (terms * (1 - self._events)).sum(1).clamp_min(self.contract.reward_floor)
        return steady + (terms * self._events).sum(1)

    def step_progress(self, view: View) -> Tensor:
        """Returns [N, 2] of a control step, for the terrain curriculum: metres along the command, and
        commanded."""
        speed = view.task.command[:, :2].norm(dim=1)
        along = (view.robot.linear_velocity[:, :2] * view.task.command[:, :2]).sum(1) / speed.clamp_min(1e-6)
        return torch.stack([along, speed], 1) * self.dt

    # ---- terrain

    def next_level(self, level: Tensor, progress: Tensor, u: Tensor) -> Tensor:
        """Returns the level of the next episode [N]: one up after walking 70% of what was commanded, one down
        below 40%; past the top, anywhere (by the draw `u`)."""
        top = self.contract.terrain_levels
        walked, commanded = progress.unbind(1)
        enough = commanded > 1.0
        move = (enough & (walked > 0.7 * commanded)).long() - (enough & (walked < 0.4 * commanded)).long()
        level = level + move
        return torch.where(level >= top, (u * top).long(), level.clamp_min(0))

    def left_tile(self, xy: Tensor, tile: Tensor) -> tuple[Tensor, Tensor]:
        """Returns [N] whether positions [N, 2] are outside their tiles [N], and [N, 2] what brings them
        back."""
        assert self.height_field is not None
        offset = self.height_field.wrap(xy, tile) - xy
        return (offset.abs() > 0.5).any(1), offset


def resting(count: int, feet: int, pose: Tensor) -> RobotState:
    """Robots standing still in the default pose, marked as failed."""

    def zeros(*shape: int) -> Tensor:
        return pose.new_zeros(count, *shape)

    rest = RobotState(
        position=zeros(3),
        quaternion=zeros(4),
        linear_velocity=zeros(3),
        angular_velocity=zeros(3),
        gravity=zeros(3),
        joint_position=pose.expand(count, -1),
        joint_velocity=zeros(len(pose)),
        torque=zeros(len(pose)),
        foot_position=zeros(feet, 3),
        foot_velocity=zeros(feet, 3),
        foot_force=zeros(feet, 3),
        trunk_contact=zeros() > 0,
        failed=zeros() == 0,
    )
    rest.position[:, 2], rest.quaternion[:, 0], rest.gravity[:, 2] = 1.0, 1.0, -1.0
    return rest
