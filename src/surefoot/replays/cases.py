"""Failures found elsewhere, brought back into the batch: a case is what an episode was given, not what came
of it, and it can be played by many environments whose factors differ a little.

The layout is that of `traces/*.npz` (docs/reference/traces.md); the same names in a JSON object are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.artifacts import cannot_read, check_version, load_npz, parse
from surefoot.contract import Channel, SeedPlan, Split, SurefootError, TaskContract, uniform, words
from surefoot.engines import Parameters, Start
from surefoot.env import FAULT_NAMES, NEVER, Faults, Scenarios, Script
from surefoot.robots import RobotSpec
from surefoot.runs import STATES_VERSION
from surefoot.terrain import Atlas, TileId

JITTER = 0.5
"""Factors move by up to this share of their declared half range, to either side of the recorded value."""
HELP = "docs/reference/traces.md has the layout of a trace."
PARAMETERS: dict[str, Any] = {
    "friction": 0.8, "payload_kg": 0.0, "com_m": (0.0, 0.0, 0.0), "strength": 1.0, "kp_scale": 1.0,
    "kd_scale": 1.0, "delay_s": 0.0,
}  # fmt: skip
"""What a case is taken to have where it does not say."""


@dataclass(frozen=True)
class Case:
    """Holds what one episode was given."""

    name: str
    control_hz: float
    episode_steps: int
    command: np.ndarray  # [T, 3]; the last one holds on
    push_step: np.ndarray  # [P]
    push_velocity: np.ndarray  # [P, 2]
    start: dict[str, np.ndarray]
    """position relative to the middle of the tile, quaternion, linear_velocity (world), angular_velocity
    (body), joint_position."""
    tile: TileId
    parameters: dict[str, np.ndarray]
    noise_scale: float
    faults: dict[str, float]
    """What is wrong with the sensors, by the names of `Faults`."""
    phase: float
    address: tuple[int, int, int]
    """family, member, episode: the key that the sensor noise follows from."""
    label: str


def load_case(path: str | Path, robot: RobotSpec, contract: TaskContract) -> Case:
    """Reads a case from an npz or a JSON file; what is missing or of another shape is refused by name."""
    path = Path(path)
    raw = _json(path) if path.suffix == ".json" else load_npz(path)
    version = raw.get("schema_version")
    check_version(
        path,
        int(version) if isinstance(version, np.ndarray) and version.ndim == 0 else version,
        STATES_VERSION,
    )
    joints = len(robot.joints)

    def array(name: str, shape: tuple[int, ...], default: Any = None) -> np.ndarray:
        value = raw.get(name, default)
        try:
            out = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            out = np.full(1, np.nan)
        fits = value is not None and out.ndim == len(shape)
        if not fits or any(a not in (-1, b) for a, b in zip(shape, out.shape, strict=True)):
            want = " x ".join("any" if s == -1 else str(s) for s in shape) or "one number"
            raise SurefootError(f"'{path}': '{name}' is missing or not of shape {want}; " + HELP)
        if not np.isfinite(out).all():
            raise SurefootError(f"'{path}': '{name}' is not finite everywhere; " + HELP)
        return out

    hz = float(array("control_hz", ()))
    origin = array("tile_origin", (2,), (0.0, 0.0))
    position = array("start_position", (3,), (0.0, 0.0, robot.stand_height_m + 0.01))
    command = array("command", (-1, 3))
    length = int(array("episode_steps", (), max(len(command), round(10.0 * hz))))
    if not len(command) or hz <= 0 or length < 1:
        raise SurefootError(f"'{path}' has no command or no control rate; " + HELP)
    steps = array("push_step", (-1,), ())
    tile = TileId(
        str(raw.get("terrain_class", "flat")),
        int(array("terrain_level", (), 0)),
        int(array("terrain_key", (), 0)),
    )
    return Case(
        name=path.stem,
        control_hz=hz,
        episode_steps=length,
        command=command,
        push_step=steps.astype(np.int64),
        push_velocity=array("push_velocity", (len(steps), 2), np.zeros((0, 2))),
        start={
            "position": position - [*origin, 0.0],
            "quaternion": array("start_quaternion", (4,), (1.0, 0.0, 0.0, 0.0)),
            "linear_velocity": array("start_linear_velocity", (3,), (0.0, 0.0, 0.0)),
            "angular_velocity": array("start_angular_velocity", (3,), (0.0, 0.0, 0.0)),
            "joint_position": array("start_joint_position", (joints,), robot.default_pose),
        },
        tile=tile,
        parameters={k: array(k, np.shape(v), v) for k, v in PARAMETERS.items()},
        noise_scale=float(array("noise_scale", (), 1.0)),
        faults={k: float(array(name, (), 0.0)) for k, name in FAULT_NAMES.items()},
        phase=float(array("phase", (), 0.0)),
        address=(int(array("family", (), 0)), int(array("member", (), 0)), int(array("episode", (), 0))),
        label=str(raw.get("label", "")),
    )  # fmt: skip


def _json(path: Path) -> Mapping[str, Any]:
    try:
        value = parse(path.read_bytes())
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise SurefootError(f"'{path}' is not JSON ({error}); " + HELP) from error
    if not isinstance(value, dict):
        raise SurefootError(f"'{path}' should hold a JSON object; " + HELP)
    return value


class CaseSampler:
    """Draws the case as it was in environment 0, and in the others with its declared factors moved, by
    key."""

    strata = 1
    segment_steps = 1

    def __init__(
        self, case: Case, count: int, contract: TaskContract, seeds: SeedPlan, atlas: Atlas | None
    ) -> None:
        self.seeds, self.count, self.episode_steps = seeds, count, case.episode_steps
        self.numbers = torch.arange(count)
        n, steps = count, case.episode_steps
        self.faults = Faults.alike(n, **case.faults)
        move = _moves(case, count, contract, seeds)
        family, member, episode = case.address
        hold = np.concatenate(
            [case.command, np.repeat(case.command[-1:], max(0, steps - len(case.command)), 0)]
        )
        pushes = max(1, len(case.push_step))
        when, kick = np.full((n, pushes), NEVER), np.zeros((n, pushes, 2))
        for k, (at, v) in enumerate(zip(case.push_step, case.push_velocity, strict=True)):
            size = max(float(np.hypot(*v)), 1e-9)
            when[:, k] = at
            kick[:, k] = v * (np.maximum(size + move["push"], 0.0) / size)[:, None]

        def rows(x: Any, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.as_tensor(np.broadcast_to(x, (n, *np.shape(x))).copy(), dtype=dtype)

        whole = torch.int64
        script = Script(
            family=rows(family, whole),
            member=rows(member, whole),
            episode=rows(episode, whole) + torch.arange(n),  # other noise everywhere but in the first
            commands=rows(hold[:steps]),
            stratum=rows(np.zeros(steps), whole),
            push_step=torch.from_numpy(when),
            push_velocity=torch.from_numpy(kick.astype(np.float32)),
            noise_scale=torch.from_numpy(
                np.maximum(case.noise_scale + move["noise"], 0.0).astype(np.float32)
            ),
            phase=rows(case.phase),
            level=rows(case.tile.level, whole),
            tile=rows(0, whole),
        )
        position = case.start["position"] + (0.0 if atlas is None else np.array([*atlas.origins[0], 0.0]))
        start = Start(
            position=rows(position),
            quaternion=rows(case.start["quaternion"]),
            linear_velocity=rows(case.start["linear_velocity"]),
            angular_velocity=rows(case.start["angular_velocity"]),
            joint_position=rows(case.start["joint_position"])
            + torch.from_numpy(move["pose"].astype(np.float32)),
            tile=script.tile.clone(),
        )
        p, low = case.parameters, {"friction": 0.05, "strength": 0.05, "kp_scale": 0.05, "delay_s": 0.0}
        moved = {k: np.asarray(p[k]) + move[k] for k in PARAMETERS}
        moved = {k: np.maximum(v, low[k]) if k in low else v for k, v in moved.items()}
        parameters = Parameters(**{k: torch.from_numpy(v.astype(np.float32)) for k, v in moved.items()})
        self.longest_delay_s = float(parameters.delay_s.max())
        self._all = Scenarios(script, start, parameters)

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return self._all.take(rows)


def _moves(case: Case, count: int, contract: TaskContract, seeds: SeedPlan) -> dict[str, np.ndarray]:
    """Returns by how much each environment's factors differ from the case's; nothing in environment 0."""
    joints = len(case.start["joint_position"])
    one = dict.fromkeys(("friction", "payload", "strength", "delay", "noise", "push"), 1)
    sizes = one | {"com": 3, "gains": 2, "pose": joints}
    total = sum(sizes.values())
    family, member, episode = case.address
    split = Split[seeds.split.upper()].value
    u = uniform(words(seeds.root, split, family, member, episode + np.arange(count), Channel.JITTER, total))
    known = {f.name: f for f in contract.factors}
    out, first = {}, 0
    for name, size in sizes.items():
        low, high = known[name].train if name in known else (0.0, 0.0)
        moved = JITTER * (high - low) / 2 * (2.0 * u[:, first : first + size].astype(np.float64) - 1.0)
        moved[0] = 0.0
        out[name] = moved if size > 1 else moved[:, 0]
        first += size
    gains = out.pop("gains")
    names = {"payload": "payload_kg", "com": "com_m", "delay": "delay_s"}
    return {names.get(k, k): v for k, v in out.items()} | {"kp_scale": gains[:, 0], "kd_scale": gains[:, 1]}
