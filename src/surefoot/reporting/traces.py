"""Makes traces ready for the browser: each frame becomes body poses, and the page interpolates between them.

The robot comes from the run's robot.json, so that no simulator is needed. A trace travels as one binary
block, base64 in the page: 16-bit poses of every body that carries a visible shape, and the few signals that
are plotted below the picture. A 10 s episode of a quadruped takes 120 kB; one of those that show how
the policy learned takes half of that.
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
from surefoot.contract import TRAINED, Panel, SurefootError, TaskContract, load_panel
from surefoot.reporting.figures import PanelFigures, Rows, RunFigures
from surefoot.reporting.web.poses import body_velocity, packed, packed_poses, robot_shapes, tilt_of
from surefoot.robots import SKELETON_FILE, RobotSpec, Skeleton, make_skeleton, robot
from surefoot.runs import RunRecord, read_rows, read_summary
from surefoot.statistics import watched
from surefoot.terrain import MARGIN_M, RESOLUTION_M, SIZE_M, tile

NO_TRACE = "This run kept no trace of a confirmation episode."
MOST = 20
"""Traces in one report: one of every label before the second of any."""
MOST_STOPS = 8
"""Evaluations of training that one report shows an episode of."""
MOST_COMMANDS = 12
"""Changes of the command that are marked; where there are more somebody steers all the time."""


@dataclass(frozen=True)
class Replay:
    """Holds one episode, ready for the page."""

    stem: str
    column: str
    label: str
    cause: str
    success: bool | None
    nominal: bool
    """Whether it shows the trained policy, undisturbed."""
    ahead_mps: float
    """How plainly its first command says to walk ahead."""
    identity: str
    """The numbers of its scenario, family and member, in words."""
    caption: str
    """What was asked of it, and how it ended."""
    data: dict[str, Any]
    """The data that replay.js reads."""


@dataclass(frozen=True)
class Stop:
    """Holds an episode of an evaluation while the policy learned, always of the same scenario."""

    update: int
    chosen: bool
    """Whether the run's result is stated on the policy of this update."""
    success: float
    """The share of all episodes of that evaluation that succeeded."""
    episodes: int
    replay: Replay


@dataclass(frozen=True)
class Replays:
    """Holds the episodes that a page shows."""

    robot: dict[str, Any] | None
    """The shapes of the robot; None where it cannot be drawn."""
    episodes: tuple[Replay, ...]
    why_none: str
    """The reason, in a sentence, where there are no episodes."""
    learning: tuple[Stop, ...] = ()
    """How the policy learned, evaluation by evaluation; empty in runs that kept nothing of it."""

    @property
    def data(self) -> dict[str, Any]:
        """Returns what replay.js reads: the robot, and all episodes, those of the evaluations last."""
        every = [*self.episodes, *(s.replay for s in self.learning)]
        return {"robot": self.robot, "episodes": [e.data for e in every]}


def read_replays(run: RunFigures, most: int = MOST, most_stops: int = MOST_STOPS) -> Replays:
    """Chooses episodes of the run's result among the traces that were kept, and some of how it learned."""
    panel = run.panel
    files = sorted((panel.folder / "traces").glob("*.npz")) if panel else []
    chosen = _choose([(_row_of(f, panel), f) for f in files], panel, most) if panel else []
    kept = [Kept(file, panel.rows, row) for row, file in chosen] if panel else []
    stops = _stops(run, most_stops)
    if not kept and not stops:
        return Replays(None, (), NO_TRACE)
    made = make_replays(run.folder, run.record, [*kept, *(k for *_, k in stops)])
    if made.robot is None:
        return made
    episodes, learned = made.episodes[: len(kept)], made.episodes[len(kept) :]
    final = run.record.figures.get("chosen_update")
    learning = tuple(
        Stop(update, update == final, float(k.rows["success"].mean()), len(k.rows["success"]), replay)
        for (update, k), replay in zip(stops, learned, strict=True)
    )
    return Replays(made.robot, episodes, "" if episodes else NO_TRACE, learning)


def _stops(run: RunFigures, most: int) -> list[tuple[int, Kept]]:
    """Returns the watched episode of evaluations of the selection half: the first, the last, that of the
    chosen policy, and others evenly in between. None where there are not two."""
    root = run.folder / "panels" / run.record.panel
    folders = {_update(f): f for f in root.glob("selection-update-*") if (f / "summary.json").is_file()}
    updates = sorted(u for u in folders if u is not None)
    places = np.linspace(0, len(updates) - 1, min(most, len(updates))).round().astype(int)
    wanted = {updates[k] for k in places}
    final = run.record.figures.get("chosen_update")
    if final in folders and final not in wanted:  # instead of its neighbour, but not of the first
        wanted -= {min(sorted(wanted)[1:], key=lambda u: abs(u - int(final or 0)), default=None)}
        wanted.add(int(final or 0))
    stops = []
    for update in sorted(wanted):
        rows = read_rows(folders[update], read_summary(folders[update]))
        if "trace" not in rows or "command_vx" not in rows or not len(rows["trace"]):
            continue
        row = watched(rows)
        file = folders[update] / "traces" / f"{rows['trace'][row]}.npz"
        if rows["trace"][row] and file.is_file():
            stops.append((update, Kept(file, rows, row, every=2)))
    return stops if len(stops) > 1 else []


def _update(folder: Path) -> int | None:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else None


@dataclass(frozen=True)
class Kept:
    """Names a trace on disk, and its row in a table of episodes; -1: it has none."""

    file: Path
    rows: Rows
    row: int
    of: str = ""
    """The policy that it shows, where a page has several; said in front of the column."""
    every: int = 1
    """One frame of so many is shown."""


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
    """Chooses the traces to show: one of every label before the second of any; failures first, and of the
    successes those that walk ahead."""
    labels = panel.rows.get("label")
    ranked, seen = [], Counter[tuple[int, str]]()
    for row, file in sorted(files, key=lambda rf: (-_success_ahead(panel.rows, rf[0]), rf[1].stem)):
        group = (_order(panel, row), str(labels[row]) if labels is not None and row >= 0 else "")
        ranked.append((seen[group], *group, file.stem, row, file))
        seen[group] += 1
    kept = sorted(ranked, key=lambda r: r[:4])[:most]
    return [(r[4], r[5]) for r in sorted(kept, key=lambda r: (r[1], r[2], r[3]))]


def ahead(vx: float, vy: float, turn: float) -> float:
    """Returns how plainly a command says to walk ahead: its speed, less what is to go aside or turn."""
    return vx - abs(vy) - 0.5 * abs(turn)


def _success_ahead(rows: Rows, row: int) -> float:
    if row < 0 or "command_vx" not in rows or not rows["success"][row]:
        return 0.0
    return float(ahead(*(rows[f"command_{k}"][row] for k in ("vx", "vy", "wz"))))


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
    file, record, every = kept.file, _row(kept.rows, kept.row), kept.every
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
    shown = slice(0, frames, every)
    place, turn = skeleton.poses(
        local[shown], trace["quaternion"][shown], trace["joint_position"][shown].astype(float)
    )
    velocity = body_velocity(trace, position, hz)[shown]
    events = _events(trace, hz, frames)
    data: dict[str, Any] = {
        "id": file.stem,
        "hz": hz / every,
        "frames": len(place),
        **packed_poses(place[:, skeleton.drawn], turn[:, skeleton.drawn]),
        "signals": _signals(trace, velocity, shown, skeleton),
        "terrain": _terrain(trace, record, held),
        "events": events,
    }
    column = str(record.get("column", _text(trace, "column") or "nominal"))
    label = _text(trace, "label") or str(record.get("label") or "")
    return Replay(
        stem=file.stem,
        column=f"{kept.of} {column}" if kept.of else column,
        label=label,
        cause=_text(trace, "cause") or str(record.get("cause") or ""),
        success=bool(record["success"]) if record else None,
        nominal=bool(record) and not record["perturbation"] and record["policy"] == TRAINED,
        ahead_mps=ahead(*trace["command"][0].tolist()) if frames else 0.0,
        identity=_identity(record),
        caption=_caption(record, events),
        data=data,
    )


def _events(trace: dict[str, Any], hz: float, frames: int) -> list[dict[str, Any]]:
    """Returns what happens to the robot, in its order: pushes, and changes of the command."""
    events: list[dict[str, Any]] = []
    steps, kicks = trace.get("push_step", np.zeros(0)), trace.get("push_velocity", np.zeros((0, 2)))
    for step, kick in zip(np.atleast_1d(steps), np.reshape(kicks, (-1, 2)), strict=False):
        speed = float(np.hypot(*kick))
        if 0 <= step < frames and math.isfinite(speed) and speed > 0:
            v = [round(float(x), 4) for x in kick]
            events.append({"t": step / hz, "kind": "push", "v": v, "text": f"push {speed:.2g} m/s"})
    command = trace["command"][:frames].astype(float)
    changes = np.flatnonzero((np.abs(np.diff(command, axis=0)) > 1e-3).any(1)) + 1
    for step in changes if len(changes) <= MOST_COMMANDS else ():
        x, y, turn = command[step]
        text = f"command {x:.2g} m/s ahead, {y:.2g} left, {turn:.2g} rad/s".replace("-", "−")
        events.append({"t": step / hz, "kind": "command", "text": text})
    return sorted(({**e, "t": round(float(e["t"]), 4)} for e in events), key=lambda e: e["t"])


def _signals(trace: dict[str, Any], velocity: np.ndarray, shown: slice, robot: Skeleton) -> dict[str, Any]:
    """Returns what is plotted beside the picture, in thousandths: commands, velocities, tilt (degrees / 10),
    torque share."""
    command = trace["command"][shown].astype(float)
    tilt = np.degrees(tilt_of(trace["quaternion"][shown]))
    columns = [command[:, 0], velocity[:, 0], command[:, 1], velocity[:, 1], command[:, 2], velocity[:, 2]]
    columns.append(tilt / 10)
    if "torque" in trace:
        share = np.abs(trace["torque"][shown]) / np.array(robot.torque_limit_nm)
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


def _identity(r: dict[str, Any]) -> str:
    names = ("scenario", "family", "member")
    return ", ".join(f"{k} {r[k]}" for k in names if k in r)


def _caption(r: dict[str, Any], events: list[dict[str, Any]]) -> str:
    if not r:
        return "episode without a row in the table"
    parts = []
    if "command_vx" in r:
        parts.append(
            f"command {r['command_vx']:g} m/s ahead, {r['command_vy']:g} m/s left, {r['command_wz']:g} "
            f"rad/s turn"
        )
    if "friction" in r:
        parts.append(f"friction {r['friction']:g}, payload {r['payload_kg']:g} kg")
    parts += [f"{e['text']} at {e['t']:.1f} s" for e in events if e["kind"] == "push"][:3]
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
