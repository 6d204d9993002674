"""A trace as a video, through MuJoCo's offscreen renderer: the recorded states, not simulated again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.contract import SurefootError
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas, TileId, mujoco_hfield

SIZE = (640, 400)
FORMATS = (".mp4", ".gif", ".webp", ".png")
VIDEO_HZ = 25.0


def write_video(trace: Mapping[str, Any], robot: RobotSpec, path: str | Path) -> int:
    """Writes the trace as .mp4 (needs imageio-ffmpeg), .gif, .webp or animated .png (need pillow); returns
    the number of frames. Refused with a sentence where there is no GL, or no encoder."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise SurefootError(f"A video can be {', '.join(FORMATS)}, not '{path.name}'; choose another ending.")
    encode = _encoder(path)
    images = list(frames(trace, robot))
    path.parent.mkdir(parents=True, exist_ok=True)
    encode(images)
    return len(images)


def frames(trace: Mapping[str, Any], robot: RobotSpec) -> Iterator[np.ndarray]:
    """Yields images [H, W, 3] at 25 Hz, seen from the robot's side."""
    model, shift = _scene(trace, robot)
    data = mujoco.MjData(model)
    joints = np.array([model.joint(j).qposadr[0] for j in robot.joints])
    base = int(model.jnt_qposadr[model.body_jntadr[model.body(robot.trunk).id]])
    try:
        renderer = mujoco.Renderer(model, SIZE[1], SIZE[0])
    except Exception as error:  # whatever the GL of this machine raises
        raise SurefootError(
            "There is no offscreen GL here for a video (EGL or OSMesa): set MUJOCO_GL=egl with a GPU driver "
            "or Mesa, or MUJOCO_GL=osmesa with libosmesa6; the trace itself needs none."
        ) from error
    camera = mujoco.MjvCamera()
    every = max(1, round(float(trace["control_hz"]) / VIDEO_HZ))
    for t in range(0, len(trace["position"]), every):
        position = np.asarray(trace["position"][t], np.float64) + shift
        data.qpos[base : base + 3], data.qpos[base + 3 : base + 7] = position, trace["quaternion"][t]
        data.qpos[joints] = trace["joint_position"][t]
        mujoco.mj_forward(model, data)
        camera.lookat[:] = [*position[:2], position[2] - 0.1]
        camera.distance, camera.elevation, camera.azimuth = 1.6, -18, 90
        renderer.update_scene(data, camera)
        yield renderer.render().copy()
    renderer.close()


def _scene(trace: Mapping[str, Any], robot: RobotSpec) -> tuple[mujoco.MjModel, np.ndarray]:
    """Returns the robot on its ground, and what to add to the trace's positions to stand there."""
    spec = robot.mjspec()
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
    spec.worldbody.add_light(pos=[0, -2, 4], dir=[0, 0.4, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
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
    return spec.compile(), shift


def _encoder(path: Path) -> Any:
    """Returns a function that writes images to `path`; refused before anything is rendered where it is
    missing."""
    try:
        if path.suffix == ".mp4":
            import imageio.v2 as imageio
            import imageio_ffmpeg  # noqa: F401

            return lambda images: imageio.mimwrite(path, images, fps=VIDEO_HZ, macro_block_size=1)
        from PIL import Image
    except ImportError as error:
        wanted = "imageio and imageio-ffmpeg" if path.suffix == ".mp4" else "pillow"
        raise SurefootError(
            f"A {path.suffix} needs {wanted}: pip install 'surefoot[video]', "
            f"or choose --video {path.stem}.{'gif' if path.suffix == '.mp4' else 'mp4'}."
        ) from error

    def write(images: list[np.ndarray]) -> None:
        first, *rest = [Image.fromarray(x) for x in images]
        first.save(path, save_all=True, append_images=rest, duration=round(1000 / VIDEO_HZ), loop=0)

    return write
