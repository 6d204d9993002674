"""Claims about the robots: they weigh, stand and mirror as published, and so does a user's MJCF."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from surefoot.contract.errors import SurefootError
from surefoot.robots import ROBOTS, RobotSpec, anymal, go1, robot
from surefoot.robots.kinematics import foot_positions, lowest_point, posed
from surefoot.robots.mirror import other_side

Array = NDArray[np.float64]

SPECS = {name: make() for name, make in ROBOTS.items()}
MODELS = {name: spec.compile() for name, spec in SPECS.items()}

every = pytest.mark.parametrize("name", sorted(SPECS))


# -- figures ---------------------------------------------------------------------------------------


def test_masses_are_the_published_totals() -> None:
    # Unitree's links without the rotors, all links of ANYbotics' URDF; nominally 12 and about 50 kg.
    assert SPECS["go1"].mass_kg == pytest.approx(5.204 + 4 * (0.591 + 0.92 + 0.135862 + 0.06), abs=1e-4)
    assert SPECS["go1"].mass_kg == pytest.approx(12.0, rel=0.01)
    assert SPECS["anymal"].mass_kg == pytest.approx(52.135, abs=1e-3)
    assert SPECS["anymal"].mass_kg == pytest.approx(50.0, rel=0.05)
    # Chassis, two brackets in each coxa, bracket and servo in each femur and tibia; all links of the OP3.
    assert SPECS["hexapod"].mass_kg == pytest.approx(0.976 + 12 * 0.0244 + 12 * (0.0244 + 0.0546), abs=1e-4)
    assert SPECS["biped"].mass_kg == pytest.approx(1.95857 + 2 * 0.59445, abs=1e-4)


def test_limits_are_the_published_ones() -> None:
    dog, big = SPECS["go1"], SPECS["anymal"]
    assert (dog.joint_low[:3], dog.joint_high[:3]) == ((-0.863, -0.686, -2.818), (0.863, 4.501, -0.888))
    assert dog.torque_limit_nm == (23.7, 23.7, 35.55) * 4
    haa = {j: (low, high) for j, low, high in zip(big.joints, big.joint_low, big.joint_high, strict=True)}
    assert haa["LF_HAA"] == haa["LH_HAA"] == (-0.72, 0.49)
    assert haa["RF_HAA"] == haa["RH_HAA"] == (-0.49, 0.72)
    assert big.torque_limit_nm == (80.0,) * 12
    insect, person = SPECS["hexapod"], SPECS["biped"]
    assert (set(insect.joint_low), set(insect.joint_high)) == ({-2.618}, {2.618})
    assert (set(person.joint_low), set(person.joint_high)) == ({-1.885}, {1.885})
    assert insect.torque_limit_nm == (1.5,) * 18
    assert person.torque_limit_nm == (5.0,) * 12


def test_stand_height_is_where_the_feet_touch() -> None:
    # Go1 by hand: two links of 0.213 m at 0.9 rad from the vertical, and the foot's radius.
    assert SPECS["go1"].stand_height_m == pytest.approx(2 * 0.213 * np.cos(0.9) + 0.023, abs=1e-6)
    # Hexapod: the upright tibia less what the femur rises; its foot's sphere ends where the tibia ends.
    assert SPECS["hexapod"].stand_height_m == pytest.approx(0.133 - 0.065 * np.sin(0.35), abs=1e-6)
    for name, spec in SPECS.items():
        model = MODELS[name]
        data = posed(model, spec.trunk, spec.joints, spec.default_pose)
        lowest = [lowest_point(model, data, model.geom(foot).id) for foot in spec.feet]
        assert np.allclose(lowest, -spec.stand_height_m, atol=1e-6), "all feet touch"
        others = [g for g in range(model.ngeom) if model.geom(g).name not in spec.feet]
        assert min(lowest_point(model, data, g) for g in others) > max(lowest) + 0.02, "and nothing else does"


@pytest.mark.parametrize("roll", [20, 160])
@pytest.mark.parametrize("kind", ["sphere", "capsule", "cylinder", "ellipsoid", "box", "mesh"])
def test_lowest_point_agrees_with_contact(kind: str, roll: int) -> None:
    """MuJoCo's own collision finds the plane at the depth we computed, for a tilted geom of every kind."""
    mesh = '<asset><mesh name="m" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .1"/></asset>' if kind == "mesh" else ""
    shape = 'mesh="m"' if kind == "mesh" else 'size=".1 .2 .15"'
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco>{mesh}<worldbody><geom name="floor" type="plane" size="0 0 1"/>'
        f'<body pos="0 0 .01" euler="{roll} 35 50"><freejoint/>'
        f'<geom name="g" type="{kind}" {shape}/></body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    deepest = min(contact.dist for contact in data.contact)
    assert lowest_point(model, data, model.geom("g").id) == pytest.approx(deepest, abs=1e-5)


@every
def test_legs_are_in_order_from_the_front_right_before_left(name: str) -> None:
    spec, model = SPECS[name], MODELS[name]
    feet = foot_positions(model, spec.trunk, spec.joints, spec.feet, spec.default_pose)
    assert np.array_equal(np.sign(feet[:, 1]), [-1, 1] * (len(spec.feet) // 2))
    assert np.allclose(feet[0::2, 0], feet[1::2, 0], atol=1e-9)
    assert np.all(np.diff(feet[0::2, 0]) < -0.1), "each pair behind the one before"
    each = len(spec.joints) // len(spec.feet)
    for leg, foot in enumerate(spec.feet):  # the joints of leg i move foot i and no other
        for joint in range(each * leg, each * leg + each):
            pose = np.array(spec.default_pose)
            pose[joint] += 0.1
            moved = (
                np.abs(foot_positions(model, spec.trunk, spec.joints, spec.feet, pose) - feet).max(axis=1)
                > 1e-3
            )
            assert [f for f, m in zip(spec.feet, moved, strict=True) if m] == [foot]


@every
def test_the_robot_is_alone_and_touches_only_a_floor(name: str) -> None:
    model, joints = MODELS[name], len(SPECS[name].joints)
    assert model.nu == model.nsensor == model.nkey == 0
    assert (model.nq, model.nv) == (joints + 7, joints + 6)
    assert not np.any(model.geom_bodyid == 0)
    assert np.all(model.geom_contype == 1)
    assert np.all(model.geom_conaffinity == 0)
    assert np.all(model.geom_condim == 3)


# -- standing --------------------------------------------------------------------------------------


def on_a_plane(spec: RobotSpec) -> mujoco.MjModel:
    """The robot with PD position actuators on flat ground, as an engine would build it."""
    scene = spec.mjspec()
    scene.option.timestep = 0.005
    scene.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    scene.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    scene.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=0, conaffinity=1, priority=1
    )
    for joint, kp, kd, limit in zip(spec.joints, spec.kp, spec.kd, spec.torque_limit_nm, strict=True):
        actuator = scene.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=kp, kv=kd)
        actuator.forcerange = [-limit, limit]
    return scene.compile()


@every
def test_robot_stands_still_for_two_seconds(name: str) -> None:
    spec = SPECS[name]
    model = on_a_plane(spec)
    data = mujoco.MjData(model)
    data.qpos[:7] = (0, 0, spec.stand_height_m, 1, 0, 0, 0)
    for joint, angle in zip(spec.joints, spec.default_pose, strict=True):
        data.joint(joint).qpos[0] = angle
        data.actuator(joint).ctrl[0] = angle
    heights = []
    for _ in range(400):
        mujoco.mj_step(model, data)
        heights.append(float(data.qpos[2]))
    assert abs(heights[-1] / spec.stand_height_m - 1) < 0.15
    assert min(heights) > 0.8 * spec.stand_height_m, "nor did it dip while its weight came on the springs"
    assert data.body(spec.trunk).xmat.reshape(3, 3)[2, 2] > 0.99, "level"
    assert np.abs(data.qvel).max() < 0.02, "still"
    assert np.linalg.norm(data.qpos[:2]) < 0.05, "in place"
    feet = {model.geom(foot).id for foot in spec.feet}
    touching = {int(g) for contact in data.contact for g in contact.geom} - {model.geom("floor").id}
    assert touching == feet, "on its feet and nothing else"
    assert np.all(np.abs(data.actuator_force) < 0.75 * np.array(spec.torque_limit_nm)), "with torque to spare"


# -- mirror ----------------------------------------------------------------------------------------


def mirrored(spec: RobotSpec, pose: Array) -> Array:
    assert spec.joint_mirror is not None
    assert spec.joint_mirror_sign is not None
    return np.array(spec.joint_mirror_sign) * pose[list(spec.joint_mirror)]


def numbers(limit: float) -> st.SearchStrategy[Array]:
    """Enough for the robot with the most joints and its base; a robot takes the first of them."""
    most = max(len(spec.joints) for spec in SPECS.values()) + 6
    return st.lists(st.floats(-limit, limit), min_size=most, max_size=most).map(np.array)


@every
@settings(max_examples=50, deadline=None)
@given(pose=numbers(1.5))
def test_mirror_is_an_involution_and_mirrors_the_feet(name: str, pose: Array) -> None:
    spec, model = SPECS[name], MODELS[name]
    pose = pose[: len(spec.joints)]
    assert spec.foot_mirror is not None
    assert np.array_equal(mirrored(spec, mirrored(spec, pose)), pose)
    assert [spec.foot_mirror[i] for i in spec.foot_mirror] == list(range(len(spec.feet)))
    here = foot_positions(model, spec.trunk, spec.joints, spec.feet, pose)
    there = foot_positions(model, spec.trunk, spec.joints, spec.feet, mirrored(spec, pose))
    assert np.allclose(there, here[list(spec.foot_mirror)] * [1, -1, 1], atol=1e-9)


@every
@settings(max_examples=25, deadline=None)
@given(pose=numbers(1.5), speed=numbers(3.0))
def test_the_mirror_image_of_a_motion_is_a_motion(name: str, pose: Array, speed: Array) -> None:
    """Masses and inertias are mirrored too: a mirrored state accelerates as the original's mirror image."""
    spec, model = SPECS[name], MODELS[name]
    joints = len(spec.joints)
    pose, speed = pose[:joints], speed[: joints + 6]
    assert [model.joint(j + 1).name for j in range(joints)] == list(spec.joints)  # dof order is policy order
    base = np.array([1, -1, 1, -1, 1, -1])  # linear velocity, then angular velocity, which is a pseudovector

    def acceleration(q: Array, v: Array) -> Array:
        data = mujoco.MjData(model)
        data.qpos[3], data.qpos[7:], data.qvel[:] = 1.0, q, v
        mujoco.mj_forward(model, data)
        return np.array(data.qacc_smooth)

    def reflect(v: Array) -> Array:
        return np.concatenate([base * v[:6], mirrored(spec, v[6:])])

    a, b = acceleration(pose, speed), acceleration(mirrored(spec, pose), reflect(speed))
    assert np.allclose(reflect(a), b, rtol=1e-6, atol=1e-6 * np.abs(a).max())


@every
def test_joint_ranges_and_gains_are_mirrored(name: str) -> None:
    spec = SPECS[name]
    assert np.array_equal(mirrored(spec, np.array(spec.default_pose)), spec.default_pose)
    ends = [mirrored(spec, np.array(end)) for end in (spec.joint_low, spec.joint_high)]
    assert np.array_equal(np.minimum(*ends), spec.joint_low)
    assert np.array_equal(np.maximum(*ends), spec.joint_high)
    for figure in (spec.kp, spec.kd, spec.torque_limit_nm):
        assert [figure[i] for i in spec.joint_mirror or ()] == list(figure)


def test_sides_are_swapped_in_names() -> None:
    swapped = {
        "FR_hip": "FL_hip",
        "rl_calf": "rr_calf",
        "LF_HAA": "RF_HAA",
        "RH_KFE": "LH_KFE",
        "RM_coxa": "LM_coxa",
        "l_hip_yaw": "r_hip_yaw",
        "front_left_knee": "front_right_knee",
        "Left-hip": "Right-hip",
        "hip.R": "hip.L",
        "spine": "spine",
        "ROLL": "ROLL",
    }
    assert {name: other_side(name) for name in swapped} == swapped


# -- a user's MJCF ---------------------------------------------------------------------------------

FEET = SPECS["go1"].feet
POSE = SPECS["go1"].default_pose


def users_file(folder: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    """The Go1 as users have it: with floor, light, another body, actuators, sensors and a keyframe."""
    spec = SPECS["go1"]
    actuators = "".join(
        f'<position joint="{j}" kp="100" forcerange="{-t} {t}"/>'
        for j, t in zip(spec.joints, spec.torque_limit_nm, strict=True)
    )
    qpos = " ".join(map(str, (1, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3, 1, 0, 0, 0, *spec.default_pose)))
    text = spec.mjcf.replace(
        "<worldbody>",
        '<asset><hfield name="hills" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody>'
        '<light pos="0 0 3"/><camera name="eye" pos="0 -2 1"/><geom name="floor" type="plane" size="0 0 .1"/>'
        '<geom type="hfield" hfield="hills"/>'
        '<body name="ball" pos="1 0 .1"><freejoint/><geom size=".1"/></body>',
    ).replace(
        "</mujoco>",
        f"<actuator>{actuators}</actuator><sensor><jointpos joint='FR_hip'/></sensor>"
        "<contact><pair geom1='floor' geom2='FR_foot'/></contact>"
        f"<keyframe><key name='home' qpos='{qpos}'/></keyframe></mujoco>",
    )
    path = folder / "scene.xml"
    path.write_text(change(text))
    return path


def edit(*replacements: tuple[str, str]) -> Callable[[str], str]:
    def change(text: str) -> str:
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        return text

    return change


def read(path: Path, **changes: Any) -> RobotSpec:
    arguments: dict[str, Any] = {"feet": FEET, "default_pose": POSE, "kp": 35.0, "kd": 0.5, "trunk": "trunk"}
    return RobotSpec.from_mjcf(path, **(arguments | changes))


def test_a_users_scene_becomes_the_robot_alone(tmp_path: Path) -> None:
    built_in, spec = SPECS["go1"], read(users_file(tmp_path), name="go1")
    same = set(RobotSpec.model_fields) - {"mjcf", "sources"}
    assert spec.model_dump(include=same) == built_in.model_dump(include=same)
    model, original = spec.compile(), MODELS["go1"]
    assert (model.nbody, model.ngeom, model.nq) == (original.nbody, original.ngeom, original.nq)
    assert (
        model.nu
        == model.nsensor
        == model.nkey
        == model.npair
        == model.nhfield
        == model.nlight
        == model.ncam
        == 0
    )
    assert np.allclose(model.body_inertia, original.body_inertia, rtol=1e-5)
    assert np.array_equal(model.geom_contype, original.geom_contype)


def test_the_trunk_starts_level_at_the_origin(tmp_path: Path) -> None:
    placed = 'name="trunk" pos="1 2 3" euler="0 0 3"'
    framed = users_file(
        tmp_path, edit(('<body name="trunk"', f'<frame pos="1 0 0" euler="0 1 0"><body {placed}'))
    )
    framed.write_text(framed.read_text().replace("</worldbody>", "</frame></worldbody>"))
    model = read(framed).compile()
    assert np.array_equal(model.qpos0[:7], (0, 0, 0, 1, 0, 0, 0))


def test_a_described_robot_describes_to_itself(tmp_path: Path) -> None:
    first = read(users_file(tmp_path), name="mine")
    (tmp_path / "again.xml").write_text(first.mjcf)
    second = read(tmp_path / "again.xml", name="mine", torque_limit_nm=first.torque_limit_nm)
    assert second.mjcf == first.mjcf


def test_values_by_name_and_by_order_agree(tmp_path: Path) -> None:
    joints, path = SPECS["go1"].joints, users_file(tmp_path)
    by_name = read(
        path, default_pose=dict(zip(joints, POSE, strict=True)), kp=dict.fromkeys(joints, 35), kd=[0.5] * 12
    )
    assert by_name == read(path)


def test_joint_order_can_be_chosen(tmp_path: Path) -> None:
    joints = SPECS["go1"].joints
    order = [*joints[3:6], *joints[:3], *joints[9:], *joints[6:9]]
    spec = read(users_file(tmp_path), joints=order, feet=("FL_foot", "FR_foot", "RL_foot", "RR_foot"))
    assert spec.joints == tuple(order)
    assert spec.joint_mirror == SPECS["go1"].joint_mirror


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("<position", "<motor gear='2'").replace('kp="100" forcerange', "ctrlrange"),
        lambda text: text.replace('kp="100" forcerange', "gear='2' kp='100' forcerange"),
    ],
)
def test_torque_limits_count_the_gear(tmp_path: Path, change: Callable[[str], str]) -> None:
    doubled = tuple(2 * t for t in SPECS["go1"].torque_limit_nm)
    assert read(users_file(tmp_path, change)).torque_limit_nm == pytest.approx(doubled)


def test_a_joints_own_force_limit_counts_and_does_not_linger(tmp_path: Path) -> None:
    spec = read(
        users_file(tmp_path, lambda text: text.replace("<joint arm", "<joint actuatorfrcrange='-9 9' arm"))
    )
    assert spec.torque_limit_nm == (9.0,) * 12
    assert not spec.compile().jnt_actfrclimited.any()


def test_self_collision_is_dropped_and_visual_geoms_stay_visual(tmp_path: Path) -> None:
    def change(text: str) -> str:
        text = text.replace('contype="1" conaffinity="0"', 'contype="1" conaffinity="1"')
        return text.replace(
            '<geom name="trunk"',
            '<geom name="shell" size=".1" contype="0" conaffinity="0"/><geom name="trunk"',
        )

    model = read(users_file(tmp_path, change)).compile()
    assert np.all(model.geom_conaffinity == 0)
    assert model.geom("shell").contype[0] == 0
    assert model.geom("FR_foot").contype[0] == 1


@pytest.mark.parametrize("flip", [False, True])
def test_mirror_is_found_without_telling_names(tmp_path: Path, flip: bool) -> None:
    """Names that say nothing fall back on geometry; an axis the other way round changes the sign."""

    def change(text: str) -> str:
        for old, new in (("FR_", "alpha_"), ("FL_", "beta_"), ("RR_", "gamma_"), ("RL_", "delta_")):
            text = text.replace(old, new)
        front, back = text.split('<joint name="beta_hip"')
        return front + '<joint name="beta_hip"' + (back.replace("1 0 0", "-1 0 0", 1) if flip else back)

    feet = ("alpha_foot", "beta_foot", "gamma_foot", "delta_foot")
    spec = read(users_file(tmp_path, change), feet=feet)
    assert spec.joint_mirror == SPECS["go1"].joint_mirror
    signs = list(SPECS["go1"].joint_mirror_sign or ())
    if flip:
        signs[0] = signs[3] = 1.0
    assert spec.joint_mirror_sign == tuple(signs)


@pytest.mark.parametrize(
    ("change", "pose"),
    [
        (
            lambda text: text.replace('name="FR_calf" pos="0 0 -0.213"', 'name="FR_calf" pos="0 0 -0.25"'),
            POSE,
        ),
        (lambda text: text, (0.1, *POSE[1:])),
    ],
    ids=["one longer leg", "crooked default pose"],
)
def test_no_mirror_is_claimed_for_an_asymmetric_robot(
    tmp_path: Path, change: Callable[[str], str], pose: tuple[float, ...]
) -> None:
    spec = read(users_file(tmp_path, change), default_pose=pose)
    assert spec.joint_mirror is spec.joint_mirror_sign is spec.foot_mirror is None


TETRAHEDRON = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def with_mesh(folder: Path) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "shell.obj").write_text(TETRAHEDRON)

    def change(text: str) -> str:
        text = text.replace("<compiler", '<compiler meshdir="parts"').replace(
            "<asset>", '<asset><mesh file="shell.obj"/>'
        )
        return text.replace('<geom name="trunk"', '<geom type="mesh" mesh="shell"/><geom name="trunk"')

    return users_file(folder, change)


def test_meshes_are_found_hashed_and_watched(tmp_path: Path) -> None:
    here, there = read(with_mesh(tmp_path / "a")), read(with_mesh(tmp_path / "b"))
    assert here.compile().nmesh == 1
    assert [file for file, _ in here.assets] == ["parts/shell.obj"]
    assert RobotSpec.model_validate_json(here.model_dump_json()).compile().nmesh == 1
    assert here.assets_dir != there.assets_dir
    assert here.digest == there.digest, "the folder does not count"
    (tmp_path / "a" / "parts" / "shell.obj").write_text(TETRAHEDRON.replace("v 0 0 .1", "v 0 0 .2"))
    assert read(tmp_path / "a" / "scene.xml").digest != there.digest, "the content does"
    with pytest.raises(SurefootError, match="not the one robot 'go1' was described with"):
        here.compile()
    (tmp_path / "b" / "parts" / "shell.obj").unlink()
    with pytest.raises(SurefootError, match="cannot be read"):
        there.compile()


# -- what is missing is named ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"feet": ("FR_foot", "toe")}, r"named 'toe'.*it has: FR_thigh, FR_calf, FR_foot.*Feet are geoms"),
        ({"feet": FEET[::-1]}, r"not in the order of the legs.*FR_foot, FL_foot, RR_foot, RL_foot"),
        ({"feet": ("FR_foot", "FR_foot")}, "named twice"),
        ({"feet": ()}, "no foot"),
        ({"joints": ("FR_hip", "elbow")}, r"no hinge joint 'elbow'; it has: FR_hip, FR_thigh"),
        ({"joints": SPECS["go1"].joints[:11]}, r"not among the robot's joints: RL_calf"),
        ({"trunk": "torso"}, r"no body 'torso'; it has: ball, trunk, FR_hip"),
        (
            {"trunk": "FR_hip"},
            r"no free joint on 'FR_hip'; it has: a free joint on 'ball', a free joint on 'trunk'",
        ),
        ({"trunk": None}, r"several bodies with a free joint.*ball, trunk"),
        ({"kp": {"FR_hip": 3.0}}, "kp has no value for: FR_thigh"),
        (
            {"kd": dict.fromkeys((*SPECS["go1"].joints, "tail"), 1.0)},
            r"no joint \(kd names it\) 'tail'; it has",
        ),
        ({"default_pose": POSE[:11]}, "default_pose has 11 values for 12 joints"),
        ({"default_pose": (2.0, *POSE[1:])}, r"'FR_hip' at 2 rad, outside its range -0.863 to 0.863"),
        ({"kp": 0.0}, "kp of joint 'FR_hip' is 0"),
        ({"kd": -1.0}, "kd of joint 'FR_hip' is -1"),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SurefootError, match=says):
        read(users_file(tmp_path), **changes)


no_free_joint = edit(
    ("<freejoint/>", ""), ('<freejoint name="root"/>', ""), ("<keyframe>", "<!--"), ("</keyframe>", "-->")
)
no_joint_name = edit(
    ('<joint name="FR_hip"', "<joint"),
    ('<position joint="FR_hip"', '<position joint="FR_thigh"'),
    ("<jointpos joint='FR_hip'/>", ""),
)


@pytest.mark.parametrize(
    ("change", "trunk", "says"),
    [
        (edit(('range="-2.818 -0.888"', "")), "trunk", "no range for joint 'FR_calf'"),
        (edit(("forcerange", "ctrlrange")), "trunk", r"no torque limit for: FR_hip.*torque_limit_nm"),
        (no_free_joint, None, r"No body .* has a free joint.*bodies are: ball, trunk, FR_hip"),
        (no_joint_name, "trunk", r"hinge joints without a name"),
        (lambda text: text[:200], "trunk", r"MuJoCo cannot load .*scene.xml"),
        (edit(("<asset>", '<asset><mesh file="gone.stl"/>')), "trunk", r"cannot load .*gone.stl"),
    ],
    ids=["range", "torque limit", "free joint", "joint name", "XML", "mesh"],
)
def test_what_a_file_lacks_is_named(
    tmp_path: Path, change: Callable[[str], str], trunk: str | None, says: str
) -> None:
    with pytest.raises(SurefootError, match=says):
        read(users_file(tmp_path, change), trunk=trunk)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match=r"There is no MJCF file '.*dog.xml'"):
        read(tmp_path / "dog.xml")


# -- identity and registry -------------------------------------------------------------------------


def test_digest_is_stable_and_changes_with_any_figure() -> None:
    spec = go1()
    assert spec.digest == go1().digest == RobotSpec.model_validate_json(spec.model_dump_json()).digest
    changes: dict[str, Any] = {
        "kp": (36.0, *spec.kp[1:]),
        "default_pose": (0.01, *spec.default_pose[1:]),
        "torque_limit_nm": (24.0, *spec.torque_limit_nm[1:]),
        "mjcf": spec.mjcf.replace('mass="5.204"', 'mass="5.205"'),
        "feet": spec.feet[::-1],
    }
    digests = {spec.model_copy(update={field: value}).digest for field, value in changes.items()}
    assert len({spec.digest, anymal().digest, *digests}) == len(changes) + 2
    assert spec.model_copy(update={"sources": "hearsay"}).digest == spec.digest, "prose is no figure"


def test_robots_are_found_by_name() -> None:
    assert robot("go1") == SPECS["go1"]
    assert {name: robot(name).name for name in SPECS} == {name: name for name in SPECS}
    with pytest.raises(SurefootError, match="There is no robot 'go2'; did you mean 'go1'"):
        robot("go2")


def test_another_package_can_bring_a_robot(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kennel")
    module.dog = lambda: SPECS["go1"].model_copy(update={"name": "dog"})  # type: ignore[attr-defined]
    module.cat = 9  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kennel", module)
    points = [EntryPoint(n, f"kennel:{n}", "surefoot.robots") for n in ("dog", "cat", "cow")]
    points.append(EntryPoint("go1", "kennel:dog", "surefoot.robots"))
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: points if group == "surefoot.robots" else []
    )
    assert robot("dog").name == robot("kennel:dog").name == "dog"
    assert robot("go1").name == "go1", "a built-in name is not replaced"
    with pytest.raises(SurefootError, match="gave a int"):
        robot("cat")
    for absent in ("cow", "kennel:cow", "nowhere.at.all:dog"):
        with pytest.raises(SurefootError, match="cannot be loaded"):
            robot(absent)
