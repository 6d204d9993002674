"""Draws a run: frames of held-out episodes from their traces, and the learning curve. Writes one PNG.

    MUJOCO_GL=osmesa python benchmarks/filmstrip.py runs/<run> --out docs/walk.png

Needs an offscreen GL for MuJoCo (EGL or OSMesa: Debian's libosmesa6). The frames are the recorded states, not
a re-run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import mujoco
import numpy as np

from surefoot.artifacts import JsonLines, load_npz, read_table
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines.scene import build_scene
from surefoot.robots import robot
from surefoot.runs import RunFolder

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def frames(
    trace: dict[str, np.ndarray], name: str, steps: list[int], size: tuple[int, int]
) -> list[np.ndarray]:
    """Images of the trace at `steps`, seen from the robot's side."""
    spec = robot(name).mjspec()
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.92, 0.95, 0.98], rgb2=[0.75, 0.82, 0.9], width=256, height=256,
    )  # fmt: skip
    spec.add_texture(
        name="grid", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.82, 0.84, 0.86], rgb2=[0.72, 0.75, 0.78], width=256, height=256,
    )  # fmt: skip
    material = spec.add_material(name="grid", texrepeat=[2, 2], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "grid"
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05], material="grid")
    spec.worldbody.add_light(pos=[0, -2, 4], dir=[0, 0.4, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    for geom in spec.geoms:
        if geom.type != mujoco.mjtGeom.mjGEOM_PLANE:
            geom.rgba = (
                [0.2, 0.25, 0.32, 1] if geom.type == mujoco.mjtGeom.mjGEOM_BOX else [0.85, 0.45, 0.15, 1]
            )
    model = spec.compile()
    data = mujoco.MjData(model)
    scene = build_scene(robot(name), EVALUATION_PLANT)
    renderer = mujoco.Renderer(model, size[1], size[0])
    camera = mujoco.MjvCamera()
    out = []
    for t in steps:
        data.qpos[scene.base_qpos : scene.base_qpos + 3] = trace["position"][t]
        data.qpos[scene.base_qpos + 3 : scene.base_qpos + 7] = trace["quaternion"][t]
        data.qpos[scene.qpos] = trace["joint_position"][t]
        mujoco.mj_forward(model, data)
        w, x, y, z = trace["quaternion"][t]
        heading = np.degrees(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
        camera.lookat[:] = [*trace["position"][t][:2], 0.2]
        camera.distance, camera.elevation, camera.azimuth = 1.15, -12, heading + 90
        renderer.update_scene(data, camera)
        out.append(renderer.render().copy())
    renderer.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("walk.png"))
    parser.add_argument("--episode", type=int, help="scenario whose trace to draw (default: fastest forward)")
    parser.add_argument("--every", type=int, default=4, help="control steps between frames")
    options = parser.parse_args()
    run = RunFolder.open(options.run)
    folder = run.path / "panels" / run.record.panel / "confirmation"
    rows = read_table(folder / "episodes.parquet")
    nominal = (rows["column"] == "nominal") & (rows["engine"] == "mujoco")
    rows = {k: v[nominal] for k, v in rows.items()}
    traces = np.flatnonzero(rows["trace"] != "")
    chosen = (
        int(np.flatnonzero(rows["scenario"] == options.episode)[0])
        if options.episode is not None
        else max(traces, key=lambda i: rows["command_vx"][i])
    )
    trace = load_npz(folder / "traces" / f"{rows['trace'][chosen]}.npz")
    start = min(300, len(trace["position"]) - 6 * options.every - 1)
    steps = [start + k * options.every for k in range(6)]
    images = frames(trace, run.record.contract.robot, steps, (420, 330))
    figure = plt.figure(figsize=(13, 4.4), dpi=110)
    top = figure.add_gridspec(1, 6, top=0.97, bottom=0.56, wspace=0.03)
    bottom = figure.add_gridspec(1, 2, top=0.5, bottom=0.1, wspace=0.16)
    for k, image in enumerate(images):
        axis = figure.add_subplot(top[0, k])
        axis.imshow(image)
        axis.set_axis_off()
        axis.set_title(f"{steps[k] * 0.02:.2f} s", fontsize=9, color="#555")
    _curve(figure.add_subplot(bottom[0, 0]), run)
    _tracking(figure.add_subplot(bottom[0, 1]), rows)
    figure.savefig(options.out, bbox_inches="tight")
    print(options.out)


def _curve(axis: plt.Axes, run: RunFolder) -> None:
    rows = [r for r in JsonLines(run.path / "ledger.jsonl").rows() if "evaluation.success" in r]
    seconds = [r["train_seconds"] for r in rows]
    success = [100 * r["evaluation.success"] for r in rows]
    low = [100 * r["evaluation.success_low"] for r in rows]
    high = [100 * r["evaluation.success_high"] for r in rows]
    axis.fill_between(seconds, low, high, color="#d9731a", alpha=0.2, linewidth=0)
    axis.plot(seconds, success, "o-", color="#d9731a", markersize=4)
    axis.set(
        xlabel="training seconds, two CPU cores", ylabel="held-out success, %", ylim=(0, 102), xlim=(0, None)
    )
    axis.grid(alpha=0.3)


def _tracking(axis: plt.Axes, rows: dict[str, np.ndarray]) -> None:
    axis.plot([-1.1, 1.1], [-1.1, 1.1], color="#999", linewidth=1)
    for name, colour in (("vx", "#1a6fd9"), ("wz", "#2a9d5c"), ("vy", "#9d2a7c")):
        axis.plot(rows[f"command_{name}"], rows[f"achieved_{name}"], ".", color=colour, alpha=0.5, label=name)
    axis.set(xlabel="commanded, m/s or rad/s", ylabel="achieved")
    axis.legend(fontsize=8, frameon=False)
    axis.grid(alpha=0.3)


if __name__ == "__main__":
    main()
