"""A Unitree Go1-class quadruped, 12 kg, from primitives.

Figures are from Unitree's own description (unitree_ros, robots/go1_description, xacro/const.xacro: masses,
centres of mass, inertias, link lengths, joint ranges, torque limits, collision boxes) unless a comment says
otherwise. Two departures, both deliberate:

- The twelve rotor links (0.089 kg each) are left out. With them the links add up to 13.1 kg, without them to
  12.03 kg; nominally it has 12 kg. What the rotors do to the motion, their reflected inertia, is the
  joints' armature.
- Whatever would make left and right differ (the trunk's centre of mass 2 mm to the left, calves not mirrored:
  at most 1.4 mm) is set to zero, so that the mirror image of a motion is a motion of the same robot.
"""

from __future__ import annotations

from surefoot.robots.spec import RobotSpec

# Policy order; (front/rear, left/right) signs of each leg. x is forward, y left, z up.
LEGS = (("FR", 1, -1), ("FL", 1, 1), ("RR", -1, -1), ("RL", -1, 1))

HIP_X, HIP_Y = 0.1881, 0.04675  # m, trunk centre to hip axis
THIGH_Y = 0.08  # m, hip axis to thigh axis, outwards
LINK = 0.213  # m, thigh and calf alike
FOOT_RADIUS = 0.023  # m, MuJoCo Menagerie's unitree_go1 (Unitree's simplified collision sphere has 0.020)

# Damping and dry friction are the least certain figures of any such model: Unitree's URDF gave 0.01 and 0.2
# in an earlier version and gives 0 and 0 now, Menagerie gives 1 to 2 (its actuators have no damping gain)
# and 0.2.
ARMATURE = 0.01  # kg m^2, Menagerie
DAMPING = 0.1  # N m s/rad, chosen between those
FRICTION_LOSS = 0.1  # N m, chosen between those

DEFAULT_POSE = (0.0, 0.9, -1.8)  # rad, Menagerie's "home" keyframe
TORQUE_LIMIT_NM = (23.7, 23.7, 35.55)  # the knee's linkage multiplies by 1.5
KP, KD = 35.0, 0.5  # N m/rad and N m s/rad, MuJoCo Playground's Go1 tasks

SOURCES = (
    "Unitree go1_description (unitree_ros): masses, inertias, lengths, joint ranges, torque limits; "
    "MuJoCo Menagerie unitree_go1: foot radius, armature, home pose; MuJoCo Playground: kp, kd; "
    "joint damping and dry friction chosen between the two descriptions; rotor links left out; "
    "made left-right symmetric."
)


def go1() -> RobotSpec:
    """Returns the Go1-class robot. Joints are named FR_hip, FR_thigh, FR_calf, ...; foot geoms FR_foot,
    ..."""
    names = [leg for leg, _, _ in LEGS]
    return RobotSpec.describe(
        name="go1",
        mjcf=_mjcf(),
        trunk="trunk",
        joints=[f"{leg}_{joint}" for leg in names for joint in ("hip", "thigh", "calf")],
        feet=[f"{leg}_foot" for leg in names],
        default_pose=DEFAULT_POSE * 4,
        kp=(KP,) * 12,
        kd=(KD,) * 12,
        torque_limit_nm=TORQUE_LIMIT_NM * 4,
        sources=SOURCES,
    )


def _mjcf() -> str:
    # The default class has a name: a floor added to this model must not inherit the robot's contact bits.
    return f"""\
<mujoco model="go1">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <default class="go1">
      <geom contype="1" conaffinity="0" condim="3"/>
      <joint armature="{ARMATURE}" damping="{DAMPING}" frictionloss="{FRICTION_LOSS}"/>
    </default>
  </default>
  <worldbody>
    <body name="trunk" childclass="go1">
      <freejoint name="root"/>
      <inertial mass="5.204" pos="0.0223 0 -0.0005"
        fullinertia="0.0168129 0.0630096 0.0716547 0 -0.000294529 0"/>
      <geom name="trunk" type="box" size="0.1881 0.04675 0.057"/>
{"".join(_leg(*leg) for leg in LEGS)}    </body>
  </worldbody>
</mujoco>
"""


def _leg(leg: str, x: int, y: int) -> str:
    """Returns one leg; x and y are the signs of its place, which mirror centres of mass and products of
    inertia.

    The calf is Unitree's calf (0.135862 kg) and foot (0.06 kg) in one body. Capsules stand for Unitree's
    collision boxes: the thigh's half thickness as radius, the calf stopping short of the foot so that the
    foot touches first.
    """
    return f"""\
      <body name="{leg}_hip" pos="{HIP_X * x} {HIP_Y * y} 0">
        <inertial mass="0.591" pos="{-0.005657 * x} {-0.008752 * y} -0.000102"
          fullinertia="0.000334008 0.000619101 0.000400576
                       {-1.08261e-05 * x * y} {1.29073e-06 * x} {1.64319e-06 * y}"/>
        <joint name="{leg}_hip" axis="1 0 0" range="-0.863 0.863"/>
        <body name="{leg}_thigh" pos="0 {THIGH_Y * y} 0">
          <inertial mass="0.92" pos="-0.003342 {-0.018054 * y} -0.033451"
            fullinertia="0.00443176 0.00448567 0.000740309 {5.74968e-05 * y} -0.000218457 {0.000572001 * y}"/>
          <joint name="{leg}_thigh" axis="0 1 0" range="-0.686 4.501"/>
          <geom name="{leg}_thigh" type="capsule" size="0.017" fromto="0 0 0 0 0 {-LINK}"/>
          <body name="{leg}_calf" pos="0 0 {-LINK}">
            <inertial mass="0.195862" pos="0.00429862 0 -0.146197"
              fullinertia="0.0014844 0.00149764 3.59858e-05 0 -1.77209e-05 0"/>
            <joint name="{leg}_calf" axis="0 1 0" range="-2.818 -0.888"/>
            <geom name="{leg}_calf" type="capsule" size="0.01" fromto="0 0 -0.02 0 0 -0.18"/>
            <geom name="{leg}_foot" type="sphere" size="{FOOT_RADIUS}" pos="0 0 {-LINK}"/>
          </body>
        </body>
      </body>
"""
