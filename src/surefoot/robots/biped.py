"""A ROBOTIS OP3-class biped, 3.1 kg, 0.5 m, with its arms hanging still, from primitives.

Figures are from MuJoCo Menagerie's robotis_op3 (op3.xml), which took masses, inertias and lengths from
ROBOTIS' own description and identified the servos (gains, damping, armature, dry friction, torque limit).
Joint ranges are ROBOTIS' (ROBOTIS-OP3-Common, robotis_op3_description). Departures, all deliberate:

- Head and arms are part of the torso: the arms hang down, and their links are added up into it (masses,
  centres of mass and inertias by the parallel axis theorem).
- Menagerie's joints have all of the damping, 1.084 N m s/rad. Here the servo's gain has 1.0 of it.
- A foot is one box, the wider of Menagerie's two (114 x 78 mm), and its corners touch the ground.
- Whatever would make left and right differ (the torso's centre of mass 0.1 mm to the left, products of
  inertia) is set to zero, so that the mirror image of a motion is a motion of the same robot.

Joint directions are ROBOTIS': hip pitch, knee and ankle pitch of the right leg turn the other way round than
those of the left.
"""

from __future__ import annotations

from surefoot.robots.spec import RobotSpec

SIDES = (("r", -1), ("l", 1))  # policy order, and the sign of y
JOINTS = ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ank_pitch", "ank_roll")

RANGE = 1.885  # rad, 0.6 pi for every joint
TORQUE_LIMIT_NM = 5.0
KP, KD = 21.1, 1.0  # N m/rad and N m s/rad
ARMATURE, DAMPING, FRICTION_LOSS = 0.045, 0.084, 0.03  # kg m^2, N m s/rad, N m

# rad, for the left leg; chosen: knees bent, soles level, the centre of mass above the middle of the feet.
CROUCH = (0.0, 0.0, -0.42, 0.9, 0.48, 0.0)

SOURCES = (
    "MuJoCo Menagerie robotis_op3: masses, inertias, lengths, foot, kp, damping, armature, dry friction, "
    "torque limit; ROBOTIS-OP3-Common: joint ranges; derived: head and hanging arms added to the torso; "
    "chosen: default pose, how servo and joint share the damping, shapes of torso and legs; "
    "made left-right symmetric."
)


def biped() -> RobotSpec:
    """Returns the OP3-class robot. Joints are named r_hip_yaw, ..., l_ank_roll; foot geoms r_foot, l_foot."""
    return RobotSpec.describe(
        name="biped",
        mjcf=_mjcf(),
        trunk="torso",
        joints=[f"{side}_{joint}" for side, _ in SIDES for joint in JOINTS],
        feet=[f"{side}_foot" for side, _ in SIDES],
        default_pose=[a * _turns(j, y) for _, y in SIDES for j, a in zip(JOINTS, CROUCH, strict=True)],
        kp=(KP,) * 12,
        kd=(KD,) * 12,
        torque_limit_nm=(TORQUE_LIMIT_NM,) * 12,
        sources=SOURCES,
    )


def _turns(joint: str, y: int) -> int:
    """Pitch joints of the two legs turn in opposite directions."""
    return y if joint in ("hip_pitch", "knee", "ank_pitch") else 1


def _mjcf() -> str:
    # The torso's box stands for body and hanging arms, the sphere for the head; sizes are chosen.
    # The default class has a name: a floor added to this model must not inherit the robot's contact bits.
    return f"""\
<mujoco model="biped">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <default class="biped">
      <geom contype="1" conaffinity="0" condim="3"/>
      <joint armature="{ARMATURE}" damping="{DAMPING}" frictionloss="{FRICTION_LOSS}"
        range="{-RANGE} {RANGE}"/>
    </default>
  </default>
  <worldbody>
    <body name="torso" childclass="biped">
      <freejoint name="root"/>
      <inertial mass="1.95857" pos="-0.00968 0 0.06854"
        fullinertia="0.01134147 0.0074432 0.00706444 0 -0.00031113 0"/>
      <geom name="torso" type="box" pos="-0.01 0 0.06" size="0.05 0.1 0.07"/>
      <geom name="head" type="sphere" pos="0.011 0 0.19" size="0.04"/>
{"".join(_leg(*side) for side in SIDES)}    </body>
  </worldbody>
</mujoco>
"""


def _leg(side: str, y: int) -> str:
    """Returns one leg; y is the sign by which Menagerie mirrors the left one. Thigh and shank are
    capsules."""
    return f"""\
      <body name="{side}_hip_yaw" pos="0 {0.035 * y} 0">
        <inertial mass="0.01181" pos="-0.00157 0 -0.00774" diaginertia="1.51e-06 4.3e-06 4.12e-06"/>
        <joint name="{side}_hip_yaw" axis="0 0 -1"/>
        <body name="{side}_hip_roll" pos="-0.024 0 -0.0285">
          <inertial mass="0.17886" pos="0.00388 {0.00028 * y} -0.01214"
            fullinertia="4.661e-05 0.0001252 0.0001086 {-1.01e-06 * y} -1.31e-06 {-6e-08 * y}"/>
          <joint name="{side}_hip_roll" axis="-1 0 0"/>
          <body name="{side}_hip_pitch" pos="0.0241 {0.019 * y} 0">
            <inertial mass="0.11543" pos="0.00059 {-0.01901 * y} -0.08408"
              fullinertia="0.000105 9.613e-05 2.493e-05 {-1e-08 * y} -7.1e-07 {3.53e-06 * y}"/>
            <joint name="{side}_hip_pitch" axis="0 {y} 0"/>
            <geom name="{side}_thigh" type="capsule" size="0.02"
              fromto="0 {-0.019 * y} -0.02 0 {-0.019 * y} -0.11015"/>
            <body name="{side}_knee" pos="0 0 -0.11015">
              <inertial mass="0.04015" pos="0 {-0.02151 * y} -0.055"
                diaginertia="3.715e-05 2.751e-05 1.511e-05"/>
              <joint name="{side}_knee" axis="0 {y} 0"/>
              <geom name="{side}_shank" type="capsule" size="0.02"
                fromto="0 {-0.019 * y} 0 0 {-0.019 * y} -0.08"/>
              <body name="{side}_ank_pitch" pos="0 0 -0.11">
                <inertial mass="0.17886" pos="-0.02022 {-0.01872 * y} 0.01214"
                  fullinertia="4.661e-05 0.0001252 0.0001086 {-1.01e-06 * y} 1.31e-06 {6e-08 * y}"/>
                <joint name="{side}_ank_pitch" axis="0 {-y} 0"/>
                <body name="{side}_ank_roll" pos="-0.0241 {-0.019 * y} 0">
                  <inertial mass="0.06934" pos="0.02373 {0.01037 * y} -0.0276"
                    fullinertia="4.034e-05 7.874e-05 0.0001158 {-1.9e-07 * y} 1.2e-07 {1.01e-06 * y}"/>
                  <joint name="{side}_ank_roll" axis="1 0 0"/>
                  <geom name="{side}_foot" type="box" pos="0.024 {0.0125 * y} -0.0265"
                    size="0.057 0.039 0.004"/>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
"""
