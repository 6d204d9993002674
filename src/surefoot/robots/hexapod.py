"""A Trossen PhantomX-class hexapod, 2.2 kg, eighteen AX-12A servos, from primitives.

Published figures: where the legs are, how far they turn and what chassis and brackets weigh are those of the
PhantomX description (HumaRobotics, phantomx_description, urdf/phantomx_urdf.xacro); lengths of coxa, femur
and tibia those of its Phoenix firmware (52, 65, 133 mm); servos those of ROBOTIS' e-Manual for the AX-12A.

Derived, because the description has nothing to be used:

- It weighs a leg's links without their servos. Here femur and tibia have one servo (54.6 g) each beside their
  bracket (24.4 g), the coxa two brackets; the coxa's servo is part of the chassis' 0.976 kg. No battery.
- Its inertias are far too large (6 kg m^2 for a chassis of 1 kg). Here they are those of uniform boxes.
- Gains follow from the servo. Its compliance slope is taken to give full torque at 32 steps of 0.29 degrees
  (a servo can be set to other slopes):
  kp = 1.5 N m / 0.162 rad. Torque falls to zero at the no-load speed: kd = 1.5 N m / 6.18 rad/s.
"""

from __future__ import annotations

import math

from surefoot.robots.spec import RobotSpec

# Policy order, from the front, right before left: name, place of the coxa axis (m), heading of the leg (deg).
LEGS = (
    ("RF", 0.1248, -0.06164, -45),
    ("LF", 0.1248, 0.06164, 45),
    ("RM", 0.0, -0.1034, -90),
    ("LM", 0.0, 0.1034, 90),
    ("RH", -0.1248, -0.06164, -135),
    ("LH", -0.1248, 0.06164, 135),
)

COXA, FEMUR, TIBIA = 0.052, 0.065, 0.133  # m
FOOT_RADIUS = 0.008  # m, chosen: the tip of the tibia

CHASSIS_KG, BRACKET_KG, SERVO_KG = 0.976, 0.0244, 0.0546
TORQUE_LIMIT_NM = 1.5  # stall, at 12 V
KP, KD = 9.3, 0.24  # N m/rad and N m s/rad, see above
RANGE = 2.618  # rad, the servo's 300 degrees

# Nobody publishes these for the AX-12A. Menagerie's ROBOTIS OP3 has 0.045 kg m^2 at a gear ratio of 353:1;
# with the same rotor 254:1 would give 0.023, and this motor is smaller.
ARMATURE = 0.01  # kg m^2, chosen
DAMPING = 0.01  # N m s/rad, chosen: nearly all of it is the motor's, in kd
FRICTION_LOSS = 0.03  # N m, Menagerie's OP3

# rad; chosen: the femur 20 degrees up, the tibia upright (pi/2 + 0.35).
DEFAULT_POSE = (0.0, -0.35, 1.9208)

SOURCES = (
    "HumaRobotics phantomx_description: places and headings of the legs, joint ranges, masses of chassis and "
    "brackets; Phoenix firmware for the PhantomX: lengths of coxa, femur and tibia; ROBOTIS e-Manual AX-12A: "
    "servo mass, torque limit; derived: inertias (uniform boxes), kp (compliance slope), kd (no-load speed); "
    "MuJoCo Menagerie robotis_op3: dry friction; chosen: armature, joint damping, foot radius, default pose."
)


def hexapod() -> RobotSpec:
    """Returns the PhantomX-class robot. Joints are named RF_coxa, RF_femur, RF_tibia, ...; foot geoms
    RF_foot, ..."""
    names = [leg for leg, *_ in LEGS]
    return RobotSpec.describe(
        name="hexapod",
        mjcf=_mjcf(),
        trunk="chassis",
        joints=[f"{leg}_{joint}" for leg in names for joint in ("coxa", "femur", "tibia")],
        feet=[f"{leg}_foot" for leg in names],
        default_pose=DEFAULT_POSE * 6,
        kp=(KP,) * 18,
        kd=(KD,) * 18,
        torque_limit_nm=(TORQUE_LIMIT_NM,) * 18,
        sources=SOURCES,
    )


def _mjcf() -> str:
    # The chassis' box reaches the axes of the corner legs and is as high as a servo: 250 x 123 x 50 mm.
    # The default class has a name: a floor added to this model must not inherit the robot's contact bits.
    return f"""\
<mujoco model="hexapod">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <default class="hexapod">
      <geom contype="1" conaffinity="0" condim="3"/>
      <joint armature="{ARMATURE}" damping="{DAMPING}" frictionloss="{FRICTION_LOSS}"
        range="{-RANGE} {RANGE}"/>
    </default>
  </default>
  <worldbody>
    <body name="chassis" childclass="hexapod">
      <freejoint name="root"/>
      {_box(CHASSIS_KG, (0.0, 0.0, 0.0), (0.25, 0.123, 0.05))}
      <geom name="chassis" type="box" size="0.125 0.0615 0.025"/>
{"".join(_leg(*leg) for leg in LEGS)}    </body>
  </worldbody>
</mujoco>
"""


def _leg(leg: str, x: float, y: float, heading_deg: int) -> str:
    """Returns one leg, in a frame whose x axis points outwards: femur and tibia turn downwards about its y
    axis.

    The tibia's servo is at its upper end, so its centre of mass is nearer to the knee than to the foot: the
    servo's own, weighed with a bracket in the middle of the link. Capsules have half a servo's width.
    """
    tibia_com = BRACKET_KG / (BRACKET_KG + SERVO_KG) * TIBIA / 2
    return f"""\
      <body name="{leg}_coxa" pos="{x} {y} 0" quat="{_yaw(heading_deg)}">
        {_box(2 * BRACKET_KG, (COXA / 2, 0.0, 0.0), (COXA, 0.03, 0.03))}
        <joint name="{leg}_coxa" axis="0 0 1"/>
        <body name="{leg}_femur" pos="{COXA} 0 0">
          {_box(BRACKET_KG + SERVO_KG, (FEMUR / 2, 0.0, 0.0), (FEMUR, 0.04, 0.032))}
          <joint name="{leg}_femur" axis="0 1 0"/>
          <geom name="{leg}_femur" type="capsule" size="0.016" fromto="0 0 0 {FEMUR} 0 0"/>
          <body name="{leg}_tibia" pos="{FEMUR} 0 0">
            {_box(BRACKET_KG + SERVO_KG, (tibia_com, 0.0, 0.0), (TIBIA, 0.032, 0.032))}
            <joint name="{leg}_tibia" axis="0 1 0"/>
            <geom name="{leg}_tibia" type="capsule" size="0.006" fromto="0.02 0 0 0.1 0 0"/>
            <geom name="{leg}_foot" type="sphere" size="{FOOT_RADIUS}" pos="{TIBIA - FOOT_RADIUS} 0 0"/>
          </body>
        </body>
      </body>
"""


def _yaw(degrees: int) -> str:
    half = math.radians(degrees) / 2
    return f"{math.cos(half):.12f} 0 0 {math.sin(half):.12f}"


def _box(mass: float, centre: tuple[float, float, float], size: tuple[float, float, float]) -> str:
    """Returns the inertial of a uniform box."""
    x, y, z = (s * s for s in size)
    inertia = " ".join(f"{mass * s / 12:.6g}" for s in (y + z, x + z, x + y))
    place = " ".join(f"{c:.6g}" for c in centre)
    return f'<inertial mass="{mass:.6g}" pos="{place}" diaginertia="{inertia}"/>'
