"""Traces for the browser: MuJoCo turns each frame into body poses, the page only interpolates between them.

A trace travels as one binary block, base64 in the page: 16-bit poses of every body that carries a visible
shape, and the few signals that are plotted below the picture. A 10 s episode of a quadruped takes 120 kB.
"""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.artifacts import load_npz
from surefoot.contract import Panel, SurefootError, load_panel
from surefoot.report.figures import PanelFigures, RunFigures
from surefoot.robots import RobotSpec, robot
from surefoot.terrain import MARGIN_M, RESOLUTION_M, SIZE_M, tile

MOST = 16
"""Traces in one report; failures first."""
POSITION_UNIT_M = 0.0005
"""One step of a 16-bit position; it reaches 16 m from where the episode began, more is scaled."""

_SHAPES = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
}


@dataclass(frozen=True)
class Replay:
    """One episode, ready for the page."""

    stem: str
    column: str
    label: str
    cause: str
    success: bool | None
    caption: str
    data: dict[str, Any]
    """What replay.js reads."""


@dataclass(frozen=True)
class Replays:
    robot: dict[str, Any] | None
    """Shapes of the robot; None when the robot is not installed here."""
    episodes: tuple[Replay, ...]
    why_none: str


def read_replays(run: RunFigures, most: int = MOST) -> Replays:
    panel = run.panel
    files = sorted((panel.folder / "traces").glob("*.npz")) if panel else []
    if panel is None or not files:
        return Replays(None, (), "This run kept no trace of a confirmation episode.")
    spec = _robot(run)
    if spec is None:
        name = run.record.contract.robot
        return Replays(None, (), f"The robot '{name}' of this run is not installed here, so it is not drawn.")
    model = spec.compile()
    shapes = _shapes(model, spec)
    chosen = sorted((_row_of(f, panel), f) for f in files)
    chosen.sort(key=lambda rf: (_order(panel, rf[0]), rf[1].stem))
    held = _panel(run)
    episodes = tuple(
        _replay(file, row, panel, model, spec, shapes["bodies"], held, run) for row, file in chosen[:most]
    )
    return Replays(shapes, episodes, "")


def _row_of(file: Path, panel: PanelFigures) -> int:
    """The episode's row: named in the table's `trace` column, or by its number in older runs; -1 unknown."""
    if "trace" in panel.rows:
        found = np.flatnonzero(panel.rows["trace"] == file.stem)
        return int(found[0]) if len(found) else -1
    return int(file.stem) if file.stem.isdigit() and int(file.stem) < len(panel.rows["family"]) else -1


def _order(panel: PanelFigures, row: int) -> int:
    """Nominal failures, then perturbed ones, then nominal successes, then the rest."""
    if row < 0:
        return 9
    nominal = not panel.rows["perturbation"][row] and panel.rows["policy"][row] == "trained"
    failed = not bool(panel.rows["success"][row])
    trained = panel.rows["policy"][row] == "trained"
    return (0 if nominal else 1 if trained else 4) if failed else (2 if nominal else 3)


def _robot(run: RunFigures) -> RobotSpec | None:
    """The run's robot, if it is here and still the same one."""
    contract = run.record.contract
    spec: RobotSpec | None = None
    try:
        spec = robot(contract.robot)
    except SurefootError:
        spec = None
    if spec is None or spec.digest != contract.robot_digest:
        try:  # a task of another package brings its own robot
            from surefoot.tasks import task

            spec = task(run.record.task).robot
        except SurefootError:
            return None
    return spec if spec.digest == contract.robot_digest else None


def _panel(run: RunFigures) -> Panel | None:
    for name in (run.record.panel, run.record.contract.panel):
        try:
            return load_panel(name)
        except SurefootError:
            continue
    return None


def _shapes(model: mujoco.MjModel, spec: RobotSpec) -> dict[str, Any]:
    """Visible shapes by body. A mesh is drawn as its bounding box."""
    bodies: list[int] = []
    shapes = []
    trunk = model.body(spec.trunk).id
    feet = {model.geom(f).id for f in spec.feet}
    for g in range(model.ngeom):
        if model.geom_rgba[g][3] == 0:
            continue
        kind = _SHAPES.get(int(model.geom_type[g]))
        size, offset = model.geom_size[g].copy(), np.zeros(3)
        if kind is None:
            offset, size, kind = model.geom_aabb[g][:3], model.geom_aabb[g][3:], "box"
        body = int(model.geom_bodyid[g])
        if body not in bodies:
            bodies.append(body)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[g])
        place = model.geom_pos[g] + rotation.reshape(3, 3) @ offset
        shapes.append(
            {
                "body": bodies.index(body),
                "kind": kind,
                "size": [round(float(s), 5) for s in size],
                "position": [round(float(p), 5) for p in place],
                "quaternion": [round(float(q), 6) for q in model.geom_quat[g]],
                "part": "foot" if g in feet else "trunk" if body == trunk else "leg",
            }
        )
    shapes += _links(model, bodies, trunk, shapes)
    return {"bodies": bodies, "shapes": shapes, "height": spec.stand_height_m}


def _links(
    model: mujoco.MjModel, bodies: list[int], trunk: int, shapes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Thin rods from each body's joint to the next one's, so that a robot whose hips have no shape of their
    own still hangs together. They are drawn, never collided with."""
    round_ones = [s["size"][0] for s in shapes if s["kind"] in ("capsule", "sphere", "cylinder")]
    radius = 0.7 * min(round_ones, default=0.01)
    links = []
    for child in range(1, model.nbody):
        parent, offset = int(model.body_parentid[child]), model.body_pos[child]
        length = float(np.linalg.norm(offset))
        if parent == 0 or child == trunk or length < 2 * radius:
            continue
        if parent not in bodies:
            bodies.append(parent)
        quaternion = np.zeros(4)
        mujoco.mju_quatZ2Vec(quaternion, offset)
        links.append(
            {
                "body": bodies.index(parent),
                "kind": "capsule",
                "size": [round(radius, 5), round(length / 2, 5)],
                "position": [round(float(p) / 2, 5) for p in offset],
                "quaternion": [round(float(q), 6) for q in quaternion],
                "part": "leg",
            }
        )
    return links


def body_poses(
    model: mujoco.MjModel, spec: RobotSpec, position: Any, quaternion: Any, joints: Any, bodies: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Forward kinematics of every frame: positions [T, B, 3] and unit quaternions [T, B, 4] (w first)."""
    data = mujoco.MjData(model)
    base = int(model.jnt_qposadr[model.body_jntadr[model.body(spec.trunk).id]])
    address = [int(model.joint(j).qposadr[0]) for j in spec.joints]
    frames = len(position)
    place, turn = np.zeros((frames, len(bodies), 3)), np.zeros((frames, len(bodies), 4))
    for t in range(frames):
        data.qpos[base : base + 3] = position[t]
        data.qpos[base + 3 : base + 7] = quaternion[t]
        data.qpos[address] = joints[t]
        mujoco.mj_kinematics(model, data)
        place[t], turn[t] = data.xpos[bodies], data.xquat[bodies]
    return place, turn


def _replay(
    file: Path,
    row: int,
    panel: PanelFigures,
    model: mujoco.MjModel,
    spec: RobotSpec,
    bodies: list[int],
    held: Panel | None,
    run: RunFigures,
) -> Replay:
    trace = load_npz(file)
    need = ("position", "quaternion", "joint_position", "command")
    missing = [k for k in need if k not in trace]
    if missing:
        raise SurefootError(f"'{file}' is not a trace: it has no {', '.join(missing)}; evaluate again.")
    hz = _scalar(trace, "control_hz", run.record.recipe.control_hz)
    position = _unwrapped(trace["position"].astype(float))
    origin = _origin(position)
    local = position - origin
    finite = np.isfinite(local).all(1) & np.isfinite(trace["joint_position"]).all(1)
    frames = int(np.argmin(finite)) if not finite.all() else len(local)  # up to the first broken frame
    place, turn = body_poses(
        model, spec, local[:frames], trace["quaternion"][:frames], trace["joint_position"][:frames], bodies
    )
    velocity = body_velocity(trace, position, hz)[:frames]
    terrain = _terrain(trace, row, panel, held)
    record = _row(panel, row)
    data: dict[str, Any] = {
        "id": file.stem,
        "hz": hz,
        "frames": frames,
        **_poses(place, turn),
        "signals": _signals(trace, velocity, frames, spec),
        "terrain": terrain,
    }
    label = _text(trace, "label") or str(record.get("label") or "")
    return Replay(
        stem=file.stem,
        column=str(record.get("column", _text(trace, "column") or "nominal")),
        label=label,
        cause=_text(trace, "cause") or str(record.get("cause") or ""),
        success=bool(record["success"]) if record else None,
        caption=_caption(record),
        data=data,
    )


def _poses(place: np.ndarray, turn: np.ndarray) -> dict[str, Any]:
    """16-bit integers, delta-coded along time so that they deflate well."""
    unit = max(POSITION_UNIT_M, float(np.abs(place).max(initial=0.0)) / 32_000)
    # A quaternion and its negative are the same turn; neighbours in time get the same sign.
    for t in range(1, len(turn)):
        flip = np.sum(turn[t] * turn[t - 1], -1) < 0
        turn[t][flip] *= -1
    ints = np.concatenate([np.rint(place / unit), np.rint(turn * 32_000)], axis=2).astype(
        np.int16
    )  # [T, B, 7]
    return {"unit": unit, "poses": packed(ints)}


def packed(values: np.ndarray) -> str:
    """int16 [T, ...] as differences in time, columns together, deflated, base64."""
    flat = values.reshape(len(values), -1).astype(np.int16)
    delta = np.diff(flat, axis=0, prepend=np.zeros((1, flat.shape[1]), np.int16))
    raw = np.ascontiguousarray(delta.T).astype("<i2").tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpacked(text: str, frames: int) -> np.ndarray:
    """The inverse of `packed`: [frames, columns]."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i2")
    return np.cumsum(raw.reshape(-1, frames).T, axis=0, dtype=np.int16)


def _signals(trace: dict[str, Any], velocity: np.ndarray, frames: int, spec: RobotSpec) -> dict[str, Any]:
    """Plotted beside the picture, in thousandths: commands, velocities, tilt (degrees / 10), torque share."""
    command = trace["command"][:frames].astype(float)
    tilt = np.degrees(tilt_of(trace["quaternion"][:frames]))
    columns = [command[:, 0], velocity[:, 0], command[:, 1], velocity[:, 1], command[:, 2], velocity[:, 2]]
    columns.append(tilt / 10)
    if "torque" in trace:
        share = np.abs(trace["torque"][:frames]) / np.array(spec.torque_limit_nm)
        columns.append(share.max(1))
    table = np.clip(np.nan_to_num(np.stack(columns, 1)) * 1000, -32_000, 32_000)
    return {"torque": "torque" in trace, "data": packed(np.rint(table).astype(np.int16))}


def tilt_of(quaternion: np.ndarray) -> np.ndarray:
    """Angle between the trunk's z axis and the vertical, rad."""
    _, x, y, _ = np.moveaxis(quaternion.astype(float), -1, 0)
    return np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1))


def body_velocity(trace: dict[str, Any], position: np.ndarray, hz: float) -> np.ndarray:
    """Forward, sideways and turning velocity in the trunk's frame [T, 3]; from the positions where the trace
    has no velocities."""
    if "linear_velocity" in trace and "angular_velocity" in trace:
        both = (trace["linear_velocity"][:, :2], trace["angular_velocity"][:, 2:3])
        return np.concatenate(both, axis=1).astype(float)
    w, x, y, z = np.moveaxis(trace["quaternion"].astype(float), -1, 0)
    step = np.gradient(position, axis=0) * hz if len(position) > 1 else np.zeros_like(position)
    vx = (
        step[:, 0] * (1 - 2 * (y * y + z * z))
        + step[:, 1] * 2 * (x * y + w * z)
        + step[:, 2] * 2 * (x * z - w * y)
    )
    vy = (
        step[:, 0] * 2 * (x * y - w * z)
        + step[:, 1] * (1 - 2 * (x * x + z * z))
        + step[:, 2] * 2 * (y * z + w * x)
    )
    yaw = np.unwrap(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    wz = np.gradient(yaw) * hz if len(yaw) > 1 else np.zeros_like(yaw)
    return np.stack([vx, vy, wz], 1)


def _unwrapped(position: np.ndarray) -> np.ndarray:
    """Positions without the jumps of a whole tile that keep a robot on its periodic ground."""
    jump = np.diff(position[:, :2], axis=0, prepend=position[:1, :2])
    periods = np.where(np.isfinite(jump), np.rint(jump / SIZE_M), 0.0)
    out = position.copy()
    out[:, :2] -= SIZE_M * np.cumsum(periods, axis=0)
    return out


def _origin(position: np.ndarray) -> np.ndarray:
    """Centre of the tile on which the episode began: tiles lie on a lattice, and robots start at a centre."""
    lattice = (SIZE_M + 2 * MARGIN_M + RESOLUTION_M) / 2
    start = position[0, :2] if len(position) and np.isfinite(position[0, :2]).all() else np.zeros(2)
    return np.append(np.rint(start / lattice) * lattice, 0.0)


def _terrain(trace: dict[str, Any], row: int, panel: PanelFigures, held: Panel | None) -> dict[str, Any]:
    """The tile under the robot, as 16-bit heights in tenths of a millimetre; flat ground needs none."""
    record = _row(panel, row)
    cls = _text(trace, "terrain_class") or _text(trace, "terrain") or str(record.get("terrain", "flat"))
    level = int(_scalar(trace, "terrain_level", _scalar(trace, "level", float(record.get("level", 0) or 0))))
    key: int | None = None
    for name in ("terrain_key", "tile_key"):
        if name in trace:
            key = int(trace[name])
    if key is None and held is not None and record:
        same = [s for s in held.scenarios if (s.family, s.member) == (record["family"], record["member"])]
        key = same[0].terrain.key if same else None
    if cls == "flat":
        return {"cls": "flat"}
    if key is None:
        return {"cls": cls, "missing": True}
    try:
        heights = tile(cls, level, key)
    except SurefootError:  # a terrain class of a package that is not installed here
        return {"cls": cls, "missing": True}
    ints = np.rint(np.asarray(heights, float) * 10_000).astype(np.int16)
    return {"cls": cls, "level": level, "side": len(ints), "size": SIZE_M, "heights": packed(ints)}


def _row(panel: PanelFigures, row: int) -> dict[str, Any]:
    return {k: v[row] for k, v in panel.rows.items()} if row >= 0 else {}


def _caption(r: dict[str, Any]) -> str:
    if not r:
        return "episode without a row in the table"
    parts = [f"family {r['family']}, member {r.get('member', '?')}"]
    if "command_vx" in r:
        parts.append(
            f"command {r['command_vx']:g} m/s ahead, {r['command_vy']:g} m/s left, {r['command_wz']:g} "
            f"rad/s turn"
        )
    if "friction" in r:
        parts.append(f"friction {r['friction']:g}, payload {r['payload_kg']:g} kg")
    if r.get("terrain", "flat") != "flat":
        parts.append(f"{str(r['terrain']).replace('_', ' ')} level {r['level']}")
    parts.append(
        f"ended by {str(r['reason']).replace('_', ' ')} after {r['lived_s']:g} s" if "lived_s" in r else ""
    )
    return "; ".join(p for p in parts if p).replace("-", "−")


def _text(trace: dict[str, Any], name: str) -> str:
    return str(trace[name]) if name in trace and trace[name].ndim == 0 else ""


def _scalar(trace: dict[str, Any], name: str, default: float) -> float:
    try:
        value = float(trace[name]) if name in trace else default
    except (TypeError, ValueError):
        return default
    return value if math.isfinite(value) else default
