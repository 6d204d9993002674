"""StrideEngine keeps every engine's promises on every ground, and its own: shapes agree, threads do not show,
nothing spreads, and what it cannot represent it refuses by name."""

from __future__ import annotations

import re
import sys
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from lanes import EmulatedLanes
from other_robots import legged

from places import BENCHMARKS, ROOT
from surefoot.contract import EVALUATION_PLANT, FAST_PLANT, Plant, SurefootError
from surefoot.engines import Parameters, choose_engine, make_engine
from surefoot.engines.conformance import (
    CHECKS,
    Check,
    assert_same,
    begin,
    default_targets,
    mask_of,
    moving_targets,
    run,
    standing,
)
from surefoot.engines.scene import build_scene
from surefoot.engines.stride import CAPABILITIES, StrideEngine
from surefoot.engines.stride.description import describe
from surefoot.engines.stride.layout import lay_out
from surefoot.robots import RobotSpec, anymal, go1, robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import HELD_OUT, TRAINED, Atlas, TileId

sys.path.insert(0, str(BENCHMARKS))

from parity import STEP_BY_STEP, after_ten_control_steps

GO1 = go1()
FLAT = Atlas.build([TileId("flat", 0, 0)])
GROUNDS: dict[str, tuple[RobotSpec, Plant, Atlas | None, str]] = {
    "plane": (GO1, FAST_PLANT, None, "wide"),
    "evaluation": (GO1, EVALUATION_PLANT, None, "wide"),
    "atlas": (GO1, FAST_PLANT, FLAT, "wide"),
    "anymal": (anymal(), FAST_PLANT, None, "wide"),
    "solo": (GO1, EVALUATION_PLANT, None, "solo"),
}


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_stride_conforms(check: Check, ground: str) -> None:
    spec, plant, atlas, shape = GROUNDS[ground]
    check(lambda n: StrideEngine(spec, plant, n, atlas=atlas, threads=1, shape=shape))


@pytest.mark.parametrize("atlas", [None, Atlas.build([TileId("rough", 5, 0)])], ids=["plane", "rough"])
def test_any_number_of_threads_gives_the_same_bits(atlas: Atlas | None) -> None:
    engines = [StrideEngine(GO1, FAST_PLANT, 70, atlas=atlas, threads=k) for k in (1, 2, 3)]
    for engine in engines:
        begin(engine)
    one, two, three = (run(engine, 15) for engine in engines)
    for k in range(15):
        assert_same(one[k], two[k], f"two threads (step {k})")
        assert_same(one[k], three[k], f"three threads (step {k})")
    for engine in engines:
        engine.close()


SHAPES: dict[str, tuple[RobotSpec, Atlas | None, str]] = {
    "solo": (GO1, None, "solo"),
    "lanes": (GO1, None, "lanes"),
    "lanes on stairs": (GO1, Atlas.build([TileId("stairs_up", 6, 0)]), "lanes"),
    "lanes without a chain": (legged("six-by-three", (3,) * 6), None, "lanes"),  # two of eight
}


@pytest.mark.parametrize("case", SHAPES)
def test_every_shape_is_wide_to_rounding(case: str) -> None:
    spec, atlas, shape = SHAPES[case]
    n = 4
    make = EmulatedLanes if shape == "lanes" else StrideEngine
    other = make(spec, EVALUATION_PLANT, n, atlas=atlas, shape="solo", threads=1)
    wide = StrideEngine(spec, EVALUATION_PLANT, n, atlas=atlas, threads=1)
    for engine in (other, wide):
        start = standing(engine)
        start.quaternion[0] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # one on its back
        start.position[0, 2] = 0.06 + (0.0 if atlas is None else float(atlas.spawn_height[0]))
        start.position[:, :2] = 0.0 if atlas is None else torch.tensor(atlas.origins[0])
        begin(engine, start)
    touched = False
    for k in range(6):
        a, b = (engine.step(moving_targets(engine, k)) for engine in (other, wide))
        assert (a.position - b.position).abs().max() < 1e-6
        assert (a.quaternion - b.quaternion).abs().max() < 1e-5
        assert torch.equal(a.trunk_contact, b.trunk_contact)
        touched |= bool(b.trunk_contact[0])
    assert touched


SECOND: dict[str, dict[str, Any]] = {
    "a rounding away": {},
    "solo": {"shape": "solo"},
    "cuda": {"device": "cuda"},
}


@pytest.mark.parametrize("which", SECOND)
def test_after_ten_control_steps_only_feet_that_just_touch_tell_two_engines_apart(which: str) -> None:
    """Contact begins where a distance is below zero, with a force that does not begin at zero: to be a
    rounding above or below is to touch a physics step later or sooner, in MuJoCo as here. All other robots
    are within 1e-6 m, by any order of sums. Physics steps are looked at one by one."""
    if which == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    one = StrideEngine(GO1, STEP_BY_STEP, 1024)
    two = StrideEngine(GO1, STEP_BY_STEP, 1024, **SECOND[which])
    begin(one)
    begin(two)
    if which == "a rounding away":
        sign = np.random.default_rng(0).choice([-1, 0, 1], tuple(two.arrays.state.shape))
        two.arrays.state.mul_(1 + 1e-7 * torch.tensor(sign, dtype=torch.float32))
    away, grazed = after_ten_control_steps(one, two)
    assert away[~grazed].max() < 1e-6
    assert grazed.float().mean() < 0.05
    force = one.state().foot_force
    assert force.norm(dim=2).gt(0).any(1).float().mean() > 0.9, "they stand on the ground"


MOST_FAILURES = {"go1": 25, "anymal": 25, "hexapod": 25, "biped": 25}
"""In 128,000 steps of bang-bang, with room for other rounding; MuJoCo's own are in adversarial.json."""
GROUND_TILES = [TileId(name, 9, 0) for name in (*TRAINED, *HELD_OUT)]


HOSTILE = [("go1", "random"), *((name, "bang-bang") for name in ROBOTS)]


@pytest.mark.parametrize(("name", "kind"), HOSTILE, ids=[" ".join(x) for x in HOSTILE])
def test_ten_seconds_of_adversarial_actions_on_every_terrain_stay_finite(name: str, kind: str) -> None:
    """Random targets a radian about the pose fail nobody. Targets that jump between joint limits drive joints
    beyond 100 rad/s, in MuJoCo as here: those fail, are reset, and disturb nobody."""
    atlas, n = Atlas.build(GROUND_TILES), 256
    spec = robot(name)
    engine = StrideEngine(spec, FAST_PLANT, n, atlas=atlas)
    tiles = torch.arange(n) % len(GROUND_TILES)
    start = standing(engine)
    origins = torch.tensor(atlas.origins)
    start.tile[:], start.position[:, :2] = tiles, origins[tiles]
    start.position[:, 2] += torch.tensor(atlas.spawn_height)[tiles]
    begin(engine, start)
    rng = np.random.default_rng(0)
    low, high = torch.tensor(spec.joint_low), torch.tensor(spec.joint_high)
    pose, everyone, failures = default_targets(engine), torch.ones(n, dtype=torch.bool), 0
    shape, steps = tuple(pose.shape), round(10.0 * FAST_PLANT.control_hz)
    for k in range(steps):
        if kind == "bang-bang":
            targets = torch.where(torch.tensor(rng.random(shape) < 0.5), low, high)
        else:
            targets = pose + torch.tensor(rng.uniform(-1, 1, shape), dtype=torch.float32)
        state = engine.step(targets)
        for field, value in state.tensors().items():
            assert torch.isfinite(value).all(), f"{field} at step {k}"
        failures += int(state.failed.sum())
        if state.failed.any():
            engine.reset(state.failed, start, Parameters.nominal(n))
        if k % 25 == 0:
            engine.push(everyone, torch.tensor(rng.uniform(-2, 2, (n, 2)), dtype=torch.float32))
        xy = engine.state().position[:, :2] - origins[tiles]
        offset = -8.0 * torch.floor((xy + 4.0) / 8.0)
        engine.translate((offset != 0).any(1), offset)
    most = 0 if kind == "random" else MOST_FAILURES[name]
    assert failures <= most, f"{failures} failures in {n * steps} steps"
    # What stands between the corners of a trunk's box is not felt: a stone may reach into a trunk that lies
    # on it, but nobody falls through.
    end = engine.state().position.numpy()
    above = end[:, 2] - atlas.height(end[:, :2])
    assert above.min() > -0.35, "a robot fell through the ground"
    assert np.median(above) > 0.02
    engine.close()


def test_a_nan_in_the_state_fails_its_row_alone_and_keeps_what_was() -> None:
    engine = StrideEngine(GO1, FAST_PLANT, 20, threads=1)
    begin(engine)
    run(engine, 3)
    engine.arrays.state[4, 7] = float("nan")
    state = engine.step(default_targets(engine))
    assert state.failed.nonzero()[:, 0].tolist() == [7]
    assert all(torch.isfinite(v).all() for v in state.tensors().values())
    assert engine.step(default_targets(engine)).failed[7], "a failed row rests until it is reset"
    engine.reset(mask_of(engine, [7]), standing(engine), Parameters.nominal(20))
    assert not engine.step(default_targets(engine)).failed.any()


def test_a_view_is_the_memory_and_a_state_is_a_copy() -> None:
    engine = StrideEngine(GO1, FAST_PLANT, 4, threads=1)
    begin(engine)
    view, state = engine.view(), engine.state()
    engine.step(moving_targets(engine, 1))
    assert torch.equal(view.joint_position, engine.state().joint_position)
    assert not torch.equal(view.joint_position, state.joint_position)
    assert (
        view.joint_position.untyped_storage().data_ptr() == engine.arrays.outputs.untyped_storage().data_ptr()
    )


def test_the_registry_knows_stride() -> None:
    engine = make_engine("stride", GO1, FAST_PLANT, 2)
    assert isinstance(engine, StrideEngine)
    with pytest.raises(SurefootError, match=r"lanes.*does not run"):
        StrideEngine(GO1, FAST_PLANT, 2, shape="lanes")
    with pytest.raises(SurefootError, match="no shape"):
        StrideEngine(GO1, FAST_PLANT, 2, shape="round")


def test_a_flat_heightfield_is_a_plane() -> None:
    plane, field = (StrideEngine(GO1, EVALUATION_PLANT, 16, atlas=a, threads=1) for a in (None, FLAT))
    for engine in (plane, field):
        begin(engine)
    for k in range(25):
        a, b = (engine.step(moving_targets(engine, k)) for engine in (plane, field))
    assert (a.position - b.position).abs().max() < 2e-5
    assert (a.foot_force - b.foot_force).abs().median() < 1e-2


# ---- refusals

FINE = """
<mujoco><compiler angle="radian"/><option integrator="implicitfast"/>
<asset><mesh name="wedge" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.1"/></asset>
<worldbody><geom type="plane" size="0 0 1"/>
<body name="trunk"><freejoint/><geom type="sphere" size="0.1"/>
<body name="leg"><joint name="hip"/><geom name="shin" type="capsule" size="0.02 0.1"/><!--more--></body>
</body><!--world--></worldbody>
<actuator><position joint="hip" kp="3"/></actuator><!--end--></mujoco>"""

BROKEN = {
    "tendons": ("<!--end-->", '<tendon><fixed><joint joint="hip" coef="1"/></fixed></tendon>'),
    "equality": ("<!--end-->", '<equality><weld body1="leg" body2="trunk"/></equality>'),
    "free body": ("<!--world-->", '<body name="ball"><freejoint/><geom size="0.1"/></body>'),
    "ball joint": ("<!--more-->", '<body><joint type="ball"/><geom size="0.1"/></body>'),
    "slide joint": ("<!--more-->", '<body><joint type="slide"/><geom size="0.1"/></body>'),
    "branches": (
        "<!--more-->",
        "<body><joint/><geom size='.1'/></body><body><joint/><geom size='.1'/></body>",
    ),
    "mesh": ("<!--more-->", '<geom type="mesh" mesh="wedge"/>'),
    "mocap": ("<!--world-->", '<body name="hand" mocap="true"/>'),
    "cylinder": ("<!--more-->", '<geom type="cylinder" size="0.1 0.1"/>'),
    "ellipsoid": ("<!--more-->", '<geom type="ellipsoid" size="0.1 0.1 0.2"/>'),
    "condim": ("<!--more-->", '<geom condim="6" size="0.1"/>'),
    "margin": ("<!--more-->", '<geom margin="0.01" size="0.1"/>'),
    "actuator": ('<position joint="hip" kp="3"/>', '<motor joint="hip"/>'),
    "integrator": ('integrator="implicitfast"', 'integrator="Euler"'),
    "fluid": ("<option ", '<option density="1.2" '),
    "several joints": ('<joint name="hip"/>', '<joint name="hip"/><joint axis="1 0 0"/>'),
    "ground": ("<!--world-->", '<geom type="box" size="1 1 1"/>'),
    "does not float": ("<freejoint/>", '<joint name="root"/>'),
    "flag gravity='disable'": ("<asset>", '<option><flag gravity="disable"/></option><asset>'),
    "flag override='enable'": ("<asset>", '<option><flag override="enable"/></option><asset>'),
    "gravity compensation of 'trunk'": ('<body name="trunk">', '<body name="trunk" gravcomp="1">'),
    "gravity compensation of 'hat'": (
        "</body><!--world-->",
        '<body name="hat" gravcomp="1"><geom size="0.1"/></body></body>',
    ),
    "polynomial stiffness": ('name="hip"', 'name="hip" stiffness="1 2 3"'),
    "polynomial damping": ('name="hip"', 'name="hip" damping="1 2 3"'),
    "stiffness of the free joint": ("<freejoint/>", '<joint type="free" stiffness="5"/>'),
    "raised or tilted": ('<geom type="plane"', '<geom name="floor" type="plane" pos="0 0 0.1"'),
    "tilted": ('<geom type="plane"', '<geom name="floor" type="plane" euler="0.1 0 0"'),
    "second ground": ("<!--world-->", '<geom type="plane" size="0 0 1"/>'),
    "solimp power": ('name="hip"', 'name="hip" solimplimit="0.9 0.95 0.001 0.5 2.5"'),
    "mixed signs": ('name="hip"', 'name="hip" solreflimit="-0.02 1"'),
}


def described(xml: str) -> object:
    model = mujoco.MjModel.from_xml_string(xml)
    return describe(model, model.body("trunk").id)


def test_a_plain_model_is_described() -> None:
    described(FINE)


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_represented_is_refused_by_name(what: str) -> None:
    old, new = BROKEN[what]
    assert old in FINE
    with pytest.raises(SurefootError) as refusal:
        described(FINE.replace(old, new))
    said = str(refusal.value)
    assert what in said, said
    assert re.search(r"; .*or use --engine mujoco\.$", said), said
    assert "\n" not in said


IGNORED = {
    "self-collision": (
        "</body><!--world-->",
        '<body name="other" pos="0.1 0 0"><joint/><geom type="capsule" size="0.02 0.1"/></body></body>',
    ),
    "sensors": ("<!--end-->", '<sensor><gyro site="imu"/></sensor>'),
}


@pytest.mark.parametrize("what", IGNORED)
def test_what_is_ignored_is_described_and_the_table_says_so(what: str) -> None:
    old, new = IGNORED[what]
    assert old in FINE
    with_site = FINE.replace(
        '<body name="trunk"><freejoint/>', '<body name="trunk"><freejoint/><site name="imu"/>'
    )
    described(with_site.replace(old, new))
    assert "ignored" in dict(CAPABILITIES)[what]


def test_the_capability_table_names_what_is_refused() -> None:
    said = " ".join(what for what, whether in CAPABILITIES if "refused" in whether)
    names = ("branching chains", "ball", "slide", "tendons", "equality", "free bodies", "meshes", "margins")
    assert all(name in said for name in names), said


ON_TERRAIN = EVALUATION_PLANT.model_copy(update={"heightfield": "surface"})


def with_joints(spec: RobotSpec, old: str, new: str) -> RobotSpec:
    assert old in spec.mjcf
    return spec.model_copy(update={"mjcf": spec.mjcf.replace(old, new)})


def test_links_that_pad_a_chain_have_the_powers_of_the_others() -> None:
    uneven = with_joints(
        legged("uneven", (2, 3)), 'damping="0.2"', 'damping="0.2" solimplimit="0.9 0.95 0.001 0.5 4"'
    )
    scene = build_scene(uneven, EVALUATION_PLANT)
    links = lay_out(describe(scene.model, scene.trunk, uneven.feet), False).links
    assert {link.limit.power for row in links for link in row} == {4}
    assert choose_engine("auto", uneven, EVALUATION_PLANT, "cpu")[0] == "stride"


def test_auto_leaves_to_mujoco_what_only_the_layout_refuses() -> None:
    biped = legged("two", (2, 2))
    stout = with_joints(biped, 'size="0.03"', 'size="0.12"')
    assert choose_engine("auto", stout, EVALUATION_PLANT, "cpu")[0] == "stride"
    name, why = choose_engine("auto", stout, ON_TERRAIN, "cpu")
    assert name == "mujoco"
    assert "radius 0.12" in why
    mixed = with_joints(biped, 'name="j0_1"', 'name="j0_1" solimplimit="0.9 0.95 0.001 0.5 3"')
    name, why = choose_engine("auto", mixed, EVALUATION_PLANT, "cpu")
    assert name == "mujoco"
    assert "several solimp powers" in why
    seated = biped.model_copy(update={"feet": ("foot0", "trunk")})
    name, why = choose_engine("auto", seated, EVALUATION_PLANT, "cpu")
    assert name == "mujoco"
    assert "foot on the trunk" in why


def test_the_tolerance_is_the_plants_as_far_as_float32_reaches() -> None:
    def tolerance(asked: float) -> float:
        scene = build_scene(GO1, EVALUATION_PLANT.model_copy(update={"tolerance": asked}))
        return describe(scene.model, scene.trunk, GO1.feet).tolerance

    assert tolerance(1e-2) == 1e-2
    assert tolerance(1e-8) == tolerance(EVALUATION_PLANT.tolerance) == 1e-4


def test_a_looser_tolerance_is_a_coarser_step() -> None:
    strict, loose = (
        StrideEngine(GO1, EVALUATION_PLANT.model_copy(update={"tolerance": t}), 64, threads=1)
        for t in (1e-8, 1.0)
    )
    for engine in (strict, loose):
        begin(engine)
    for k in range(10):
        a, b = (engine.step(moving_targets(engine, k)) for engine in (strict, loose))
    apart = (a.position - b.position).norm(dim=1)
    assert 1e-6 < float(apart.max()) < 1e-2


def test_the_docs_have_the_capability_table() -> None:
    page = (ROOT / "docs" / "internals" / "engines.md").read_text()
    assert "\n".join(f"| {what} | {whether} |" for what, whether in CAPABILITIES) in page
