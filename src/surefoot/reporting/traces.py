"""Makes traces ready for the browser: each frame becomes body poses, and the page interpolates between them.

The robot comes from the run's robot.json, so that no simulator is needed. A trace travels as one binary
block, base64 in the page: 16-bit poses of every body that carries a visible shape, and the few signals that
are plotted below the picture. A 10 s episode of a quadruped takes 120 kB.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import load_npz, read_json
from surefoot.compute import missing_package
from surefoot.contract import Panel, SurefootError, TaskContract, load_panel
from surefoot.reporting.figures import PanelFigures, Rows, RunFigures
from surefoot.reporting.web.poses import body_velocity, packed, packed_poses, robot_shapes, tilt_of
from surefoot.robots import SKELETON_FILE, RobotSpec, Skeleton, make_skeleton, robot
from surefoot.runs import RunRecord
from surefoot.terrain import MARGIN_M, RESOLUTION_M, SIZE_M, tile

MOST = 20
"""Traces in one report: one of every label before the second of any."""


@dataclass(frozen=True)
class Replay:
    """Holds one episode, ready for the page."""

    stem: str
    column: str
    label: str
    cause: str
    success: bool | None
    caption: str
    data: dict[str, Any]
    """The data that replay.js reads."""


@dataclass(frozen=True)
class Replays:
    """Holds the episodes that a page shows."""

    robot: dict[str, Any] | None
    """The shapes of the robot; None where it cannot be drawn."""
    episodes: tuple[Replay, ...]
    why_none: str
    """The reason, in a sentence, where there are no episodes."""


def read_replays(run: RunFigures, most: int = MOST) -> Replays:
    """Chooses episodes of the run's result among the traces that were kept."""
    panel = run.panel
    files = sorted((panel.folder / "traces").glob("*.npz")) if panel else []
    if panel is None or not files:
        return Replays(None, (), "This run kept no trace of a confirmation episode.")
    chosen = _choose([(_row_of(f, panel), f) for f in files], panel, most)
    return make_replays(run.folder, run.record, [Kept(file, panel.rows, row) for row, file in chosen])


@dataclass(frozen=True)
class Kept:
    """Names a trace on disk, and its row in a table of episodes; -1: it has none."""

    file: Path
    rows: Rows
    row: int
    of: str = ""
    """The policy that it shows, where a page has several; said in front of the column."""


def make_replays(folder: Path, record: RunRecord, kept: Sequence[Kept]) -> Replays:
    """Makes these traces of the run in `folder` ready for the page."""
    skeleton = _skeleton(folder, record)
    if isinstance(skeleton, str):
        return Replays(None, (), skeleton)
    held = _panel(record)
    episodes = tuple(_replay(k, skeleton, held, record) for k in kept)
    return Replays(robot_shapes(skeleton), episodes, "")


def _skeleton(folder: Path, record: RunRecord) -> Skeleton | str:
    """Returns the robot of a run as it is drawn, or the sentence that says why it cannot be."""
    contract, file = record.contract, folder / SKELETON_FILE
    if isinstance(contract, TaskContract) and file.is_file():
        skeleton = read_json(file, Skeleton)
        if skeleton.robot_digest == contract.robot_digest:
            return skeleton
        raise SurefootError(f"'{file}' is of another robot than this run's; restore it, or remove it.")
    try:  # a run from before there was such a file
        spec = _robot(record)
    except ImportError as error:
        package = missing_package(error)
        if package is None:
            raise
        return f"The replay of this older run needs {package[0]}: pip install {package[1]}."
    if spec is not None:
        return make_skeleton(spec)
    name = contract.robot if isinstance(contract, TaskContract) else contract.environment
    return f"The robot '{name}' of this run is not installed here, so it is not drawn."


def _row_of(file: Path, panel: PanelFigures) -> int:
    """Returns the episode's row, named in the table's `trace` column or by its number in older runs; -1 where
    it has none."""
    if "trace" in panel.rows:
        rows = np.flatnonzero(panel.rows["trace"] == file.stem)
        return int(rows[0]) if len(rows) else -1
    return int(file.stem) if file.stem.isdigit() and int(file.stem) < len(panel.rows["family"]) else -1


def _choose(files: list[tuple[int, Path]], panel: PanelFigures, most: int) -> list[tuple[int, Path]]:
    """Chooses the traces to show: one of every label before the second of any; failures first."""
    labels = panel.rows.get("label")
    ranked, seen = [], Counter[tuple[int, str]]()
    for row, file in sorted(files, key=lambda rf: rf[1].stem):
        group = (_order(panel, row), str(labels[row]) if labels is not None and row >= 0 else "")
        ranked.append((seen[group], *group, file.stem, row, file))
        seen[group] += 1
    kept = sorted(ranked, key=lambda r: r[:4])[:most]
    return [(r[4], r[5]) for r in sorted(kept, key=lambda r: (r[1], r[2], r[3]))]


def _order(panel: PanelFigures, row: int) -> int:
    """Ranks nominal failures first, then perturbed ones, then nominal successes, then the rest."""
    if row < 0:
        return 9
    nominal = not panel.rows["perturbation"][row] and panel.rows["policy"][row] == "trained"
    failed = not bool(panel.rows["success"][row])
    trained = panel.rows["policy"][row] == "trained"
    return (0 if nominal else 1 if trained else 4) if failed else (2 if nominal else 3)


def _robot(record: RunRecord) -> RobotSpec | None:
    """Returns the run's robot, if it is installed here and still the same one."""
    contract = record.contract
    if not isinstance(contract, TaskContract):
        return None
    spec: RobotSpec | None = None
    try:
        spec = robot(contract.robot)
    except SurefootError:
        spec = None
    if spec is None or spec.digest != contract.robot_digest:
        try:  # a task of another package brings its own robot
            from surefoot.tasks import task

            spec = task(record.task).robot
        except SurefootError:
            return None
    return spec if spec.digest == contract.robot_digest else None


def _panel(record: RunRecord) -> Panel | None:
    for name in (record.panel, record.contract.panel):
        try:
            return load_panel(name)
        except SurefootError:
            continue
    return None


def _replay(kept: Kept, skeleton: Skeleton, held: Panel | None, run: RunRecord) -> Replay:
    file, record = kept.file, _row(kept.rows, kept.row)
    trace = load_npz(file)
    need = ("position", "quaternion", "joint_position", "command")
    missing = [k for k in need if k not in trace]
    if missing:
        raise SurefootError(f"'{file}' is not a trace: it has no {', '.join(missing)}; evaluate again.")
    hz = _scalar(trace, "control_hz", run.recipe.control_hz)
    position = unwrapped(trace["position"].astype(float))
    origin = np.append(trace["tile_origin"][:2], 0.0) if "tile_origin" in trace else tile_origin(position)
    local = position - origin
    finite = np.isfinite(local).all(1) & np.isfinite(trace["joint_position"]).all(1)
    frames = int(np.argmin(finite)) if not finite.all() else len(local)  # up to the first broken frame
    place, turn = skeleton.poses(
        local[:frames], trace["quaternion"][:frames], trace["joint_position"][:frames].astype(float)
    )
    velocity = body_velocity(trace, position, hz)[:frames]
    terrain = _terrain(trace, record, held)
    data: dict[str, Any] = {
        "id": file.stem,
        "hz": hz,
        "frames": frames,
        **packed_poses(place[:, skeleton.drawn], turn[:, skeleton.drawn]),
        "signals": _signals(trace, velocity, frames, skeleton),
        "terrain": terrain,
    }
    column = str(record.get("column", _text(trace, "column") or "nominal"))
    label = _text(trace, "label") or str(record.get("label") or "")
    return Replay(
        stem=file.stem,
        column=f"{kept.of} {column}" if kept.of else column,
        label=label,
        cause=_text(trace, "cause") or str(record.get("cause") or ""),
        success=bool(record["success"]) if record else None,
        caption=_caption(record),
        data=data,
    )


def _signals(trace: dict[str, Any], velocity: np.ndarray, frames: int, robot: Skeleton) -> dict[str, Any]:
    """Returns what is plotted beside the picture, in thousandths: commands, velocities, tilt (degrees / 10),
    torque share."""
    command = trace["command"][:frames].astype(float)
    tilt = np.degrees(tilt_of(trace["quaternion"][:frames]))
    columns = [command[:, 0], velocity[:, 0], command[:, 1], velocity[:, 1], command[:, 2], velocity[:, 2]]
    columns.append(tilt / 10)
    if "torque" in trace:
        share = np.abs(trace["torque"][:frames]) / np.array(robot.torque_limit_nm)
        columns.append(share.max(1))
    table = np.clip(np.nan_to_num(np.stack(columns, 1)) * 1000, -32_000, 32_000)
    return {"torque": "torque" in trace, "data": packed(np.rint(table).astype(np.int16))}


def unwrapped(position: np.ndarray) -> np.ndarray:
    """Removes from positions the jumps of a whole tile that keep a robot on its periodic ground."""
    jump = np.diff(position[:, :2], axis=0, prepend=position[:1, :2])
    periods = np.where(np.isfinite(jump), np.rint(jump / SIZE_M), 0.0)
    out = position.copy()
    out[:, :2] -= SIZE_M * np.cumsum(periods, axis=0)
    return out


def tile_origin(position: np.ndarray) -> np.ndarray:
    """Returns the centre of the tile on which the episode began: tiles lie on a lattice, and robots start at
    a centre."""
    lattice = (SIZE_M + 2 * MARGIN_M + RESOLUTION_M) / 2
    start = position[0, :2] if len(position) and np.isfinite(position[0, :2]).all() else np.zeros(2)
    return np.append(np.rint(start / lattice) * lattice, 0.0)


def _terrain(trace: dict[str, Any], record: dict[str, Any], held: Panel | None) -> dict[str, Any]:
    """Returns the tile under the robot, as 16-bit heights in tenths of a millimetre; flat ground needs
    none."""
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


def _row(rows: Rows, row: int) -> dict[str, Any]:
    return {k: v[row] for k, v in rows.items()} if row >= 0 else {}


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
