"""Legged robots that are not quadrupeds, made by rule."""

from __future__ import annotations

import math

from surefoot.robots import RobotSpec


def legged(name: str, depths: tuple[int, ...]) -> RobotSpec:
    """A trunk with one leg per entry, of that many joints, around its rim; legs end in spherical feet."""
    legs, joints, feet, pose = [], [], [], []
    for k, depth in enumerate(depths):
        angle = 2 * math.pi * (k + 0.5) / len(depths)
        text = f'<geom name="foot{k}" type="sphere" size="0.03" pos="0 0 {-0.4 / depth}"/>'
        for i in reversed(range(depth)):
            axis = ("1 0 0", "0 1 0", "0 1 0", "0 1 0", "1 0 0", "0 0.6 0.8")[i]
            place = f"0 0 {-0.4 / depth}" if i else f"{0.25 * math.cos(angle)} {0.25 * math.sin(angle)} 0"
            text = f"""
<body name="b{k}_{i}" pos="{place}">
  <inertial mass="0.6" pos="0.01 0.005 {-0.2 / depth}" fullinertia="0.002 0.0025 0.001 0.0001 0 0.0002"/>
  <joint name="j{k}_{i}" axis="{axis}" range="-1.2 1.2" armature="0.02" damping="0.2" frictionloss="0.1"/>
  <geom name="shell{k}_{i}" type="capsule" size="0.015" fromto="0 0 0 0 0 {-0.3 / depth}"/>
  {text}
</body>"""
            joints.append(f"j{k}_{i}")
            pose.append(0.1 if i % 2 else -0.1)
        legs.append(text)
        feet.append(f"foot{k}")
    order = sorted(range(len(joints)), key=lambda j: joints[j])
    return RobotSpec.describe(
        name=name,
        mjcf=f"""<mujoco model="{name}"><compiler angle="radian" autolimits="true"/>
<default><default class="r"><geom contype="1" conaffinity="0" condim="3"/></default></default>
<worldbody><body name="trunk" childclass="r"><freejoint name="root"/>
<inertial mass="6" pos="0.01 0 0.02" diaginertia="0.08 0.1 0.12"/>
<geom name="trunk" type="box" size="0.2 0.15 0.05"/>{"".join(legs)}</body></worldbody></mujoco>""",
        trunk="trunk",
        joints=[joints[j] for j in order],
        feet=feet,
        default_pose=[pose[j] for j in order],
        kp=[60.0] * len(joints),
        kd=[1.5] * len(joints),
        torque_limit_nm=[40.0] * len(joints),
        sources="made by rule",
    )
