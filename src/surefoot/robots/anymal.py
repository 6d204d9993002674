"""An ANYbotics ANYmal C-class quadruped, 52 kg, from primitives.

Figures are from ANYbotics' own description (anymal_c_simple_description, urdf/anymal.urdf) unless a comment
says otherwise. Its fixed links are added up into the body they hang on (masses, centres of mass and inertias
by the parallel axis theorem): the base's 26.37 kg include battery, shells, cameras, lidar and the four hip
drives. What would make left and right differ (the base's centre of mass 0.2 mm to the right, a drive's
products of inertia) is set to zero, so that the mirror image of a motion is a motion of the same robot.

Joint directions are the URDF's as seen from the trunk: every HAA turns about +x, every HFE and KFE about +y.
"""

from __future__ import annotations

from surefoot.robots.spec import RobotSpec

# ANYbotics' names in policy order FR FL RR RL; signs of each leg's place. x is forward, y left, z up.
LEGS = (("RF", 1, -1), ("LF", 1, 1), ("RH", -1, -1), ("LH", -1, 1))

FOOT_RADIUS = 0.03  # m
TORQUE_LIMIT_NM = 80.0

# The URDF sets the drives' losses to zero and says nothing of their inertia.
ARMATURE = 0.1  # kg m^2, set in ETH's PACE example (pace-sim2real, simulated ANYmal D); not a measurement
DAMPING = 1.0  # N m s/rad, MuJoCo Menagerie's anybotics_anymal_c
FRICTION_LOSS = 0.1  # N m, Menagerie

# Pose and kd are those of legged_gym's ANYmal C (anymal_c_rough_config.py), knees inwards; kp is Menagerie's.
# A foot stands 0.2 m outside its HAA axis, so only friction keeps the legs from splaying: the weight's torque
# grows as they splay (128 N at 0.5 m) and eats most of legged_gym's 80 N m/rad, two thirds of 100.
FORE_POSE, HIND_POSE = (0.0, 0.4, -0.8), (0.0, -0.4, 0.8)  # rad
KP, KD = 100.0, 2.0  # N m/rad and N m s/rad

SOURCES = (
    "ANYbotics anymal_c_simple_description: masses, inertias, lengths, joint ranges, torque limit, foot "
    "radius; legged_gym ANYmal C: default pose, kd; MuJoCo Menagerie anybotics_anymal_c: kp, joint damping, "
    "dry friction; pace-sim2real: armature; made left-right symmetric."
)


def anymal() -> RobotSpec:
    """Returns the ANYmal C-class robot. Joints are named RF_HAA, RF_HFE, RF_KFE, ...; foot geoms RF_FOOT,
    ..."""
    return RobotSpec.describe(
        name="anymal",
        mjcf=_mjcf(),
        trunk="base",
        joints=[f"{leg}_{joint}" for leg, _, _ in LEGS for joint in ("HAA", "HFE", "KFE")],
        feet=[f"{leg}_FOOT" for leg, _, _ in LEGS],
        default_pose=[angle for _, x, _ in LEGS for angle in (FORE_POSE if x > 0 else HIND_POSE)],
        kp=(KP,) * 12,
        kd=(KD,) * 12,
        torque_limit_nm=(TORQUE_LIMIT_NM,) * 12,
        sources=SOURCES,
    )


def _mjcf() -> str:
    # The trunk's box bounds the URDF's boxes and cylinders of base and faces: 1.049 x 0.32 x 0.18 m.
    # The default class has a name: a floor added to this model must not inherit the robot's contact bits.
    return f"""\
<mujoco model="anymal">
  <compiler angle="radian" autolimits="true"/>
  <default>
    <default class="anymal">
      <geom contype="1" conaffinity="0" condim="3"/>
      <joint armature="{ARMATURE}" damping="{DAMPING}" frictionloss="{FRICTION_LOSS}"/>
    </default>
  </default>
  <worldbody>
    <body name="base" childclass="anymal">
      <freejoint name="root"/>
      <inertial mass="26.37317" pos="-0.01779 0 0.0085"
        fullinertia="0.216712 1.785162 1.833699 0 0.058933 0"/>
      <geom name="base" type="box" size="0.5245 0.16 0.09"/>
{"".join(_leg(*leg) for leg in LEGS)}    </body>
  </worldbody>
</mujoco>
"""


def _leg(leg: str, x: int, y: int) -> str:
    """Returns one leg; x and y are the signs of its place, by which the URDF mirrors the left fore leg.

    HAA turns 0.49 rad outwards and 0.72 inwards; HFE and KFE one and a half turns either way, so on this
    robot joint limits forbid little. The thigh capsule has the knee drive's radius, the shank capsule is the
    tube above the foot.
    """
    haa_range = "-0.72 0.49" if y > 0 else "-0.49 0.72"
    return f"""\
      <body name="{leg}_HIP" pos="{0.2999 * x} {0.104 * y} 0">
        <inertial mass="2.781" pos="{0.05671 * x} {0.01739 * y} -0.00046"
          fullinertia="0.003296 0.004939 0.005834 0 0 {0.000136 * y}"/>
        <joint name="{leg}_HAA" axis="1 0 0" range="{haa_range}"/>
        <body name="{leg}_THIGH" pos="{0.0599 * x} {0.08381 * y} 0">
          <inertial mass="3.071" pos="0 {0.03081 * y} -0.2457"
            fullinertia="0.029904 0.029564 0.004861 0 0 {0.004142 * y}"/>
          <joint name="{leg}_HFE" axis="0 1 0" range="-9.42478 9.42478"/>
          <geom name="{leg}_THIGH" type="capsule" size="0.05"
            fromto="0 {0.03 * y} -0.05 0 {0.03 * y} -0.285"/>
          <body name="{leg}_SHANK" pos="0 {0.1003 * y} -0.285">
            <inertial mass="0.58842" pos="{0.06125 * x} {0.00546 * y} -0.08066"
              fullinertia="0.00881 0.010161 0.00155 {5.4e-05 * x * y} {0.001819 * x} {-2.3e-05 * y}"/>
            <joint name="{leg}_KFE" axis="0 1 0" range="-9.42478 9.42478"/>
            <geom name="{leg}_SHANK" type="capsule" size="0.0175"
              fromto="{0.08795 * x} {0.01305 * y} -0.03 {0.08795 * x} {0.01305 * y} -0.28"/>
            <geom name="{leg}_FOOT" type="sphere" size="{FOOT_RADIUS}"
              pos="{0.08795 * x} {0.01305 * y} -0.31547"/>
          </body>
        </body>
      </body>
"""
