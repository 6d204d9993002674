"""Observation terms, reward terms and terminations of velocity tracking. Rewards return magnitudes; weights
carry the sign."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surefoot.tasks.task import View

# ---- observation: what the robot's own sensors give


def angular_velocity(v: View) -> Tensor:
    return v.robot.angular_velocity


def gravity(v: View) -> Tensor:
    return v.robot.gravity


def command(v: View) -> Tensor:
    return v.task.command


def joint_position(v: View) -> Tensor:
    """Offset from the default pose."""
    return v.robot.joint_position - v.const.default_pose


def joint_velocity(v: View) -> Tensor:
    return v.robot.joint_velocity


def last_action(v: View) -> Tensor:
    return v.task.action


def clock(v: View) -> Tensor:
    """Sine and cosine of the gait clock; zero when standing."""
    angle = 2 * math.pi * v.task.phase
    return torch.stack([angle.sin(), angle.cos()], 1) * v.moving[:, None]


# ---- privileged: only the critic sees these


def linear_velocity(v: View) -> Tensor:
    return v.robot.linear_velocity


def contact(v: View) -> Tensor:
    return v.task.contact.to(torch.float32)


def friction(v: View) -> Tensor:
    return v.params.friction[:, None]


def payload(v: View) -> Tensor:
    return v.params.payload_kg[:, None]


def com(v: View) -> Tensor:
    return v.params.com_m


def actuation(v: View) -> Tensor:
    """Strength and gains as offsets from nominal, and the delay."""
    p = v.params
    return torch.stack([p.strength - 1, p.kp_scale - 1, p.kd_scale - 1, p.delay_s], 1)


def height(v: View) -> Tensor:
    return v.ground.base[:, None] - v.const.stand_height


def air_time(v: View) -> Tensor:
    return v.task.air_time


def foot_height(v: View) -> Tensor:
    return v.ground.feet


def height_scan(v: View) -> Tensor:
    return v.ground.scan


# ---- reward


def _linear_error(v: View) -> Tensor:
    return (v.robot.linear_velocity[:, :2] - v.task.command[:, :2]).square().sum(1)


def _yaw_error(v: View) -> Tensor:
    return v.robot.angular_velocity[:, 2] - v.task.command[:, 2]


def track_linear(v: View, width: float) -> Tensor:
    return torch.exp(-_linear_error(v) / width)


def track_yaw(v: View, width: float) -> Tensor:
    return torch.exp(-_yaw_error(v).square() / width)


def linear_error(v: View) -> Tensor:
    return _linear_error(v).sqrt()


def yaw_error(v: View) -> Tensor:
    return _yaw_error(v).abs()


def vertical_velocity(v: View) -> Tensor:
    return v.robot.linear_velocity[:, 2].square()


def roll_pitch_rate(v: View) -> Tensor:
    return v.robot.angular_velocity[:, :2].square().sum(1)


def tilt(v: View) -> Tensor:
    return v.robot.gravity[:, :2].square().sum(1)


def torque(v: View) -> Tensor:
    return v.robot.torque.square().sum(1)


def action_rate(v: View) -> Tensor:
    return (v.task.action - v.task.previous_action).square().sum(1)


def pose(v: View, hip: float, thigh: float, calf: float) -> Tensor:
    """Squared offset from the default pose, by joint of the leg."""
    offset = v.robot.joint_position - v.const.default_pose
    square = offset.view(len(offset), -1, 3).square()
    return (hip * square[..., 0] + thigh * square[..., 1] + calf * square[..., 2]).sum(1)


def posture(v: View, **weights: float) -> Tensor:
    """Squared offset from the default pose, by how the joints' names end: `knee=0.1` weighs both knees."""
    square = (v.robot.joint_position - v.const.default_pose).square()
    total = torch.zeros_like(v.task.phase)
    for ending, weight in weights.items():
        for k, joint in enumerate(v.const.joints):
            if joint.endswith(ending):
                total = total + weight * square[:, k]
    return total


def stand_still(v: View) -> Tensor:
    return (v.robot.joint_position - v.const.default_pose).abs().sum(1) * (1 - v.moving)


def slip(v: View) -> Tensor:
    """Squared horizontal speed of feet on the ground."""
    return (v.robot.foot_velocity[..., :2].square().sum(2) * v.task.contact).sum(1)


def joint_limits(v: View, margin: float) -> Tensor:
    q = v.robot.joint_position
    low, high = v.const.joint_low + margin, v.const.joint_high - margin
    return ((low - q).clamp_min(0) + (q - high).clamp_min(0)).sum(1)


def torque_limits(v: View, share: float) -> Tensor:
    """By how much torques exceed `share` of their limits, as shares of them, added up."""
    return (v.robot.torque.abs() / v.const.torque_limit - share).clamp_min(0).sum(1)


def air(v: View, threshold: float, most: float) -> Tensor:
    """Per touchdown: how much longer than `threshold` seconds the foot was in the air; negative for
    shuffling."""
    landed = v.task.landed
    gain = (landed.clamp_max(most) - threshold) * (landed > 0)
    return gain.sum(1) * v.moving / v.const.dt


def swing(v: View, threshold: float, most: float) -> Tensor:
    """As `air`, for touchdowns while another foot was standing and still is: steps count, hops do not."""
    landed = v.task.landed
    gain = (landed.clamp_max(most) - threshold) * (landed > 0)
    stood = (v.task.contact & (landed == 0)).any(1)
    return gain.sum(1) * stood * v.moving / v.const.dt


def single_support(v: View, most: float) -> Tensor:
    """1 while one foot stands and no other has been in the air for longer than `most` seconds; told to stand
    still, while all feet do."""
    down = v.task.contact.to(torch.float32).sum(1)
    stepping = (down == 1) & (v.task.air_time.amax(1) <= most)
    return torch.where(v.moving > 0, stepping, v.task.contact.all(1)).to(torch.float32)


def trunk_height(v: View) -> Tensor:
    """Squared offset from the stand height, as a share of it."""
    return (v.ground.base / v.const.stand_height - 1).square()


def gait(v: View) -> Tensor:
    """Share of feet whose contact matches the gait clock (on the ground in the second half of their
    period)."""
    swing = torch.sin(2 * math.pi * (v.task.phase[:, None] + v.const.offsets)) > 0
    wanted = ~swing | (v.moving[:, None] == 0)
    return (v.task.contact == wanted).to(torch.float32).mean(1)


def fall(v: View) -> Tensor:
    """The event of ending early; filled in by the environment, which knows the terminations."""
    return torch.zeros_like(v.task.phase)


# ---- terminations: bool [N]


def tilted(v: View, gravity_z: float) -> Tensor:
    return v.robot.gravity[:, 2] > gravity_z


def trunk_contact(v: View) -> Tensor:
    return v.robot.trunk_contact


def sunk(v: View, height_m: float) -> Tensor:
    return v.ground.base < height_m
