"""A trace as a video, through MuJoCo's offscreen renderer: the recorded states, not simulated again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.contract import SurefootError
from surefoot.robots import RobotSpec, Shape, Skeleton, make_skeleton
from surefoot.terrain import Atlas, TileId, mujoco_hfield

SIZE, SMALL = (960, 540), (480, 270)
"""Pixels of an .mp4, and of the formats that keep every frame as a picture."""
FORMATS = (".mp4", ".gif", ".webp", ".png")
MOST_HZ = 25.0
"""Frames per second."""
COLOURS = {"trunk": "3f7d9c", "leg": "8799a5", "foot": "2c3942", "front": "e07a1f", "nose": "e07a1f"}
COMMANDED, ACHIEVED, PUSHED = "4b5963", "0b6fb0", "c2281d"
"""The colours that the report has on light paper."""
UNCOLOURED = (0.5, 0.5, 0.5, 1.0)
"""What MuJoCo gives a geom that has no colour of its own."""
SUN = np.array([-0.42, -0.3, -0.85])
"""The way that its light goes."""
PUSH_S = 0.9
"""How long a push is shown."""


def write_video(trace: Mapping[str, Any], robot: RobotSpec, path: str | Path) -> int:
    """Writes the trace as .mp4 (needs imageio-ffmpeg), .gif, .webp or animated .png (need pillow), at its own
    speed; returns the number of frames. Refused with a sentence where there is no GL, or no encoder."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise SurefootError(f"A video can be {', '.join(FORMATS)}, not '{path.name}'; choose another ending.")
    control_hz = float(trace["control_hz"])
    every = max(1, round(control_hz / MOST_HZ))
    encode = _encoder(path, control_hz / every)
    images = list(frames(trace, robot, every, SIZE if path.suffix == ".mp4" else SMALL))
    path.parent.mkdir(parents=True, exist_ok=True)
    encode(images)
    return len(images)


def frames(
    trace: Mapping[str, Any], robot: RobotSpec, every: int = 2, size: tuple[int, int] = SIZE
) -> Iterator[np.ndarray]:
    """Yields images [H, W, 3] of one in `every` frames, seen from where the robot looks, a little aside."""
    model, shift = _scene(trace, robot, size)
    skeleton = make_skeleton(robot)
    added = _colour(model, skeleton)
    data = mujoco.MjData(model)
    joints = np.array([model.joint(j).qposadr[0] for j in robot.joints])
    base = int(model.jnt_qposadr[model.body_jntadr[model.body(robot.trunk).id]])
    try:
        renderer = mujoco.Renderer(model, size[1], size[0])
    except Exception as error:  # whatever the GL of this machine raises
        raise SurefootError(
            "There is no offscreen GL here for a video (EGL or OSMesa): set MUJOCO_GL=egl with a GPU driver "
            "or Mesa, or MUJOCO_GL=osmesa with libosmesa6; the trace itself needs none."
        ) from error
    height, flat = robot.stand_height_m, str(trace["terrain_class"]) == "flat"
    camera = mujoco.MjvCamera()
    camera.distance, camera.elevation = max(0.75, 5.2 * height), -17
    camera.azimuth = np.degrees(_yaw(trace["quaternion"][0])) + 249
    for t in range(0, len(trace["position"]), every):
        position = np.asarray(trace["position"][t], np.float64) + shift
        data.qpos[base : base + 3], data.qpos[base + 3 : base + 7] = position, trace["quaternion"][t]
        data.qpos[joints] = trace["joint_position"][t]
        model.light_pos[0] = position - 4 * SUN  # shadows reach only so far from the light
        mujoco.mj_forward(model, data)
        camera.lookat[:] = [*position[:2], 0.62 * height if flat else position[2] - 0.38 * height]
        renderer.update_scene(data, camera)
        for shape in added:
            _draw(renderer.scene, data, shape, skeleton)
        _arrows(renderer.scene, trace, t, position, height)
        yield renderer.render().copy()
    renderer.close()


def _colour(model: mujoco.MjModel, skeleton: Skeleton) -> tuple[Shape, ...]:
    """Colours the geoms that have no colour of their own, and returns what is drawn besides them: the rods
    that hold the legs together, and the nose."""
    geoms = [g for g in range(model.ngeom) if model.geom_rgba[g][3] and model.geom_bodyid[g]]
    for g, shape in zip(geoms, skeleton.shapes, strict=False):
        if model.geom_matid[g] < 0 and np.allclose(model.geom_rgba[g], UNCOLOURED):
            model.geom_rgba[g] = _rgba(_part(shape, skeleton))
    return (*skeleton.shapes[len(geoms) :], *((skeleton.nose,) if skeleton.nose else ()))


def _part(shape: Shape, skeleton: Skeleton) -> str:
    return COLOURS["front" if shape.part == "leg" and skeleton.is_front(shape) else shape.part]


def _rgba(colour: str) -> np.ndarray:
    return np.array([*(int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)), 1.0], np.float32)


def _draw(scene: mujoco.MjvScene, data: mujoco.MjData, shape: Shape, skeleton: Skeleton) -> None:
    """Adds a shape to the picture, where its body is."""
    kinds = {"capsule": mujoco.mjtGeom.mjGEOM_CAPSULE, "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID}
    geom, body = _next_geom(scene), shape.body + 1  # body 0 is the world
    if geom is None:
        return
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.array(shape.quaternion))
    of_body = data.xmat[body].reshape(3, 3)
    place = data.xpos[body] + of_body @ np.array(shape.position)
    size = np.array((*shape.size, 0.0, 0.0)[:3])
    mujoco.mjv_initGeom(
        geom,
        kinds[shape.kind],
        size,
        place,
        (of_body @ turn.reshape(3, 3)).flatten(),
        _rgba(_part(shape, skeleton)),
    )


def _arrows(scene: mujoco.MjvScene, trace: Mapping[str, Any], t: int, at: np.ndarray, height: float) -> None:
    """Adds the commanded and the actual velocity above the trunk, and a push while it is fresh."""
    yaw, width = _yaw(trace["quaternion"][t]), 0.04 * height
    ahead = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)], [0.0, 0.0]])
    up = np.array([0.0, 0.0, height])
    above = at + 0.75 * up
    pairs = [(COMMANDED, trace["command"][t], above + 0.1 * up)]
    if "linear_velocity" in trace:
        pairs.append((ACHIEVED, trace["linear_velocity"][t], above))
    for colour, velocity, start in pairs:
        _arrow(scene, start, start + 1.5 * height * ahead @ np.asarray(velocity[:2], float), width, colour)
    hz = float(trace["control_hz"])
    for step, kick in zip(trace.get("push_step", ()), trace.get("push_velocity", ()), strict=False):
        speed = float(np.hypot(*kick))
        if speed > 0 and 0 <= t - step <= PUSH_S * hz:
            way = np.array([*kick, 0.0], float)
            tip = at + 0.3 * up - 0.3 * height * way / speed
            _arrow(scene, tip - 3.0 * height * way, tip, 1.5 * width, PUSHED)


def _arrow(scene: mujoco.MjvScene, start: np.ndarray, end: np.ndarray, width: float, colour: str) -> None:
    geom = _next_geom(scene) if np.linalg.norm(end - start) > 2 * width else None
    if geom is None:
        return
    arrow = mujoco.mjtGeom.mjGEOM_ARROW
    mujoco.mjv_initGeom(geom, arrow, np.zeros(3), np.zeros(3), np.eye(3).flatten(), _rgba(colour))
    mujoco.mjv_connector(geom, arrow, width, start, end)


def _next_geom(scene: mujoco.MjvScene) -> Any:
    """Returns the next free geom of the picture; None where it is full."""
    if scene.ngeom >= scene.maxgeom:
        return None
    scene.ngeom += 1
    return scene.geoms[scene.ngeom - 1]


def _yaw(quaternion: np.ndarray) -> float:
    w, x, y, z = (float(v) for v in quaternion)
    return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def _scene(
    trace: Mapping[str, Any], robot: RobotSpec, size: tuple[int, int]
) -> tuple[mujoco.MjModel, np.ndarray]:
    """Returns the robot on its ground, and what to add to the trace's positions to stand there."""
    spec = robot.mjspec()
    spec.visual.global_.offwidth, spec.visual.global_.offheight = size
    spec.visual.quality.shadowsize = 2048 if str(trace["terrain_class"]) == "flat" else 4096
    spec.visual.headlight.diffuse, spec.visual.headlight.ambient = [0.25] * 3, [0.35] * 3
    spec.add_texture(
        name="sf_sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.92, 0.95, 0.98], rgb2=[0.75, 0.82, 0.9], width=256, height=256,
    )  # fmt: skip
    spec.add_texture(
        name="sf_grid", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.82, 0.84, 0.86], rgb2=[0.72, 0.75, 0.78], width=256, height=256,
    )  # fmt: skip
    material = spec.add_material(name="sf_grid", texrepeat=[2, 2], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "sf_grid"
    spec.worldbody.add_light(pos=[0, 0, 4], dir=SUN, type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    shift = np.zeros(3)
    if str(trace["terrain_class"]) == "flat":
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05], material="sf_grid")
    else:
        tile = TileId(str(trace["terrain_class"]), int(trace["terrain_level"]), int(trace["terrain_key"]))
        atlas = Atlas.build([tile])
        field = mujoco_hfield(atlas)
        spec.add_hfield(
            name="sf_ground",
            nrow=field["nrow"],
            ncol=field["ncol"],
            size=field["size"],
            userdata=field["userdata"],
        )
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="sf_ground", pos=field["pos"], material="sf_grid"
        )
        shift[:2] = atlas.origins[0] - np.asarray(trace["tile_origin"])
    model = spec.compile()
    # How far shadows reach: where it is less than the picture shows, their edge is seen on the ground.
    model.stat.extent = max(float(model.stat.extent), 7 * robot.stand_height_m)
    return model, shift


def _encoder(path: Path, hz: float) -> Any:
    """Returns a function that writes images to `path`; refused before anything is rendered where it is
    missing."""
    try:
        if path.suffix == ".mp4":
            import imageio.v2 as imageio
            import imageio_ffmpeg  # noqa: F401

            return lambda images: imageio.mimwrite(path, images, fps=hz, macro_block_size=1)
        from PIL import Image
    except ImportError as error:
        wanted = "imageio and imageio-ffmpeg" if path.suffix == ".mp4" else "pillow"
        raise SurefootError(
            f"A {path.suffix} needs {wanted}: pip install 'surefoot[video]', "
            f"or choose --video {path.stem}.{'gif' if path.suffix == '.mp4' else 'mp4'}."
        ) from error

    def write(images: list[np.ndarray]) -> None:
        first, *rest = [Image.fromarray(x) for x in images]
        first.save(path, save_all=True, append_images=rest, duration=round(1000 / hz), loop=0)

    return write
