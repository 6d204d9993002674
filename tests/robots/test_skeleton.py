"""A skeleton moves as MuJoCo moves the robot, is drawn where its geoms are, and is refused when damaged."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_robots import read, with_mesh

from surefoot.artifacts import read_json
from surefoot.contract import SurefootError
from surefoot.robots import ROBOTS, RobotSpec, Skeleton, make_skeleton, robot, save_skeleton
from surefoot.robots.kinematics import Array

SPECS = {name: robot(name) for name in ROBOTS}
ODD = """<mujoco model="odd"><compiler angle="radian" autolimits="true"/>
<worldbody><body name="trunk" pos="0.1 0.2 0.3" quat="0.5 0.5 -0.5 0.5"><freejoint/><geom size="0.1"/>
  <body name="mast" pos="0 0 0.1" euler="0.3 0.2 -0.4"><geom type="cylinder" size="0.02 0.1"/>
    <body name="arm" pos="0.1 0 0.1"><geom type="ellipsoid" size="0.05 0.04 0.03" rgba="1 1 1 0"/>
      <joint name="roll" axis="1 0.5 0" pos="0.02 0.01 0" ref="0.3" range="-2 2"/>
      <joint name="pitch" axis="0 1 0.2" pos="0 0.03 -0.01" range="-2 2"/>
      <body name="hand" pos="0.1 0 0"><geom name="hand" type="box" size="0.02 0.03 0.01" euler="0.1 0.2 0.3"/>
        <joint name="yaw" axis="0 0 -1" pos="-0.01 0 0.02" ref="-0.7" range="-2 2"/>
      </body></body></body>
  <body name="leg" pos="0 0.1 0" quat="0.6 0 0.8 0"><joint name="hip" axis="0 1 0" range="-2 2"/>
    <geom name="leg" type="capsule" size="0.01 0.1" pos="0 0 -0.1"/></body>
</body></worldbody></mujoco>"""
"""Two joints on one body, references, anchors, a welded body; joints are taken in another order than here."""


def odd() -> RobotSpec:
    joints = ("pitch", "hip", "yaw", "roll")
    return RobotSpec.describe(
        name="odd", mjcf=ODD, trunk="trunk", joints=joints, feet=("leg", "hand"), default_pose=(0.1,) * 4,
        kp=(10.0,) * 4, kd=(0.5,) * 4, torque_limit_nm=(5.0,) * 4, sources="made up",
    )  # fmt: skip


def motion(spec: RobotSpec, seed: int, frames: int = 5) -> tuple[Array, Array, Array]:
    """Random places, turns (of any length) and angles well beyond the joints' ranges."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-4, 4, (frames, len(spec.joints)))
    return rng.normal(size=(frames, 3)), rng.normal(size=(frames, 4)), angles


def hold_to_mujoco(spec: RobotSpec, seed: int) -> None:
    model, skeleton = spec.compile(), make_skeleton(spec)
    position, quaternion, angles = motion(spec, seed)
    place, turn = skeleton.poses(position, quaternion, angles)
    data = mujoco.MjData(model)
    base = int(model.jnt_qposadr[model.body_jntadr[model.body(spec.trunk).id]])
    for t in range(len(position)):
        data.qpos[base : base + 7] = np.append(position[t], quaternion[t])
        data.qpos[[model.joint(j).qposadr[0] for j in spec.joints]] = angles[t]
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(place[t], data.xpos[1:], rtol=0, atol=1e-6)
        np.testing.assert_allclose(np.abs(np.sum(turn[t] * data.xquat[1:], 1)), 1, rtol=0, atol=1e-6)
        drawn = [g for g in range(model.ngeom) if model.geom_rgba[g][3] > 0]
        for g, shape in zip(drawn, skeleton.shapes, strict=False):  # the rods come after the geoms
            rotation, offset = np.zeros(9), np.zeros(3)
            mujoco.mju_quat2Mat(rotation, turn[t, shape.body])
            if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH:
                offset = data.geom_xmat[g].reshape(3, 3) @ model.geom_aabb[g][:3]
            at = place[t, shape.body] + rotation.reshape(3, 3) @ np.array(shape.position)
            np.testing.assert_allclose(at, data.geom_xpos[g] + offset, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", sorted(ROBOTS))
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_built_in_robots_move_as_in_mujoco(name: str, seed: int) -> None:
    hold_to_mujoco(SPECS[name], seed)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_odd_tree_moves_as_in_mujoco(seed: int) -> None:
    hold_to_mujoco(odd(), seed)


def test_a_robot_with_a_mesh_moves_as_in_mujoco(tmp_path: Path) -> None:
    hold_to_mujoco(read(with_mesh(tmp_path / "a")), 3)


def test_no_turn_at_all_is_level_as_in_mujoco() -> None:
    skeleton = make_skeleton(SPECS["go1"])
    _, turn = skeleton.poses(np.zeros((1, 3)), np.zeros((1, 4)), np.zeros((1, 12)))
    assert turn[0, skeleton.trunk].tolist() == [1, 0, 0, 0]


def test_the_file_is_the_robot(tmp_path: Path) -> None:
    save_skeleton(odd(), tmp_path)
    found = read_json(tmp_path / "robot.json", Skeleton)
    assert found == make_skeleton(odd())
    assert found.robot_digest == odd().digest
    assert [j.name for j in found.joints] == ["pitch", "hip", "yaw", "roll"]
    assert "ellipsoid" not in {s.kind for s in found.shapes}, "what is invisible is not drawn"
    assert {s.part for s in found.shapes} == {"foot", "trunk", "leg"}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("trunk",), 99, "a body or joint that is not there"),
        (("bodies", 0, "parent"), 3, "a body or joint that is not there, or not yet"),
        (("bodies", 1, "parent"), -1, "a body or joint that is not there"),
        (("bodies", 1, "joints"), [12], "a body or joint that is not there"),
        (("shapes", 0, "body"), 13, "a body or joint that is not there"),
        (("torque_limit_nm",), [1.0], "one torque limit per joint"),
        (("schema_version",), 2, "upgrade Surefoot"),
        (("shapes", 0, "kind"), "teapot", "kind"),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, path: tuple[str | int, ...], value: object, says: str
) -> None:
    save_skeleton(SPECS["go1"], tmp_path)
    file = tmp_path / "robot.json"
    whole = json.loads(file.read_text())
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(whole))
    with pytest.raises(SurefootError, match=says):
        read_json(file, Skeleton)


@pytest.mark.parametrize(("name", "front_legs"), [("go1", 2), ("anymal", 2), ("hexapod", 2), ("biped", 0)])
def test_front_and_rear_are_told_apart(name: str, front_legs: int) -> None:
    """The nose is ahead of the trunk, and as many feet are in front as the robot has front legs."""
    skeleton = make_skeleton(SPECS[name])
    feet = [s for s in skeleton.shapes if s.part == "foot"]
    assert sum(skeleton.is_front(s) for s in feet) == front_legs
    assert skeleton.nose is not None
    trunk = [s for s in skeleton.shapes if s.part == "trunk"]
    assert all(skeleton.nose.position[0] > s.position[0] for s in trunk)
    bare = skeleton.model_copy(update={"shapes": ()})
    assert bare.nose is None
