"""What a task is made of: a contract, and one pure function per observation term, reward term and
termination.

Functions take a `View` and return a tensor with one row per environment, in a compilable subset: fixed
shapes, masks, no `.item()`, no `nonzero`, no branching on data. The contract names them and holds their
parameters and weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from surefoot.contract import REFERENCE, Panel, Plant, Recipe, SurefootError, TaskContract
from surefoot.engines import Parameters, RobotState, Rows
from surefoot.robots import RobotSpec
from surefoot.terrain import TileId


@dataclass
class TaskState(Rows):
    """What a task remembers between control steps. Reset by row."""

    age: Tensor  # [N] int64, control steps lived
    command: Tensor  # [N, 3] vx, vy (m/s), wz (rad/s), body frame
    action: Tensor  # [N, J] the action just applied, clipped
    previous_action: Tensor  # [N, J]
    phase: Tensor  # [N] of the gait clock, in periods
    contact: Tensor  # [N, F] bool
    air_time: Tensor  # [N, F] seconds since the foot last touched the ground
    landed: Tensor  # [N, F] air time ended by a touchdown in this step, else 0


@dataclass
class Ground(Rows):
    """Heights above the terrain."""

    base: Tensor  # [N] trunk origin above the ground below it
    feet: Tensor  # [N, F] foot centres above the ground below them
    scan: Tensor
    """[N, K] ground relative to the trunk's height at a grid of points around it; K = 0 on flat tasks"""


@dataclass(frozen=True)
class Constants:
    """The robot's fixed figures as tensors."""

    default_pose: Tensor  # [J]
    joint_low: Tensor  # [J]
    joint_high: Tensor  # [J]
    torque_limit: Tensor  # [J]
    stand_height: float
    mass_kg: float
    dt: float  # control period, s
    dead_zone: float
    clock_hz: float
    offsets: Tensor  # [F] gait clock offsets, zeros without a prior
    joints: tuple[str, ...]  # J names


@dataclass
class View:
    """All that a term may look at."""

    robot: RobotState
    task: TaskState
    params: Parameters
    ground: Ground
    const: Constants

    @property
    def moving(self) -> Tensor:
        """Returns 1 [N] where a motion is commanded, 0 where the command is to stand."""
        return (self.task.command.abs().amax(1) > self.const.dead_zone).to(torch.float32)

    def take(self, rows: Tensor) -> View:
        return View(
            self.robot.take(rows),
            self.task.take(rows),
            self.params.take(rows),
            self.ground.take(rows),
            self.const,
        )


Term = Callable[..., Tensor]
"""f(view, **params of the contract's term) -> Tensor"""


CUDA_RECIPE: dict[str, Any] = {
    "envs": 4096,
    "horizon": 24,
    "families": 128,
    "precision": "tf32",
    "evaluate_every": 20,
    "checkpoint_every": 100,
}
"""What differs on a GPU, unless a task says otherwise."""


@dataclass(frozen=True)
class Task:
    """A contract bound to its functions, its robot and the defaults that it trains with."""

    contract: TaskContract
    robot: RobotSpec
    recipe: Recipe
    plant: Plant
    """Training plant; its dt follows from the recipe's control rate and decimation."""
    terms: Mapping[str, Term]
    """Every function that the contract names, by name."""
    native: Plant | None = None
    """A cheaper training plant for native MuJoCo, which would take several times as long on `plant`."""
    tiles: tuple[TileId, ...] = ()
    """Terrain trained on; empty means a plane."""
    scan: tuple[tuple[float, float], ...] = ()
    """Points (x, y) in the heading frame at which the critic sees the ground."""
    until: float = 0.98
    """`train` stops when two consecutive evaluations on the selection half reach this success, unless told
    otherwise."""
    cuda: Mapping[str, Any] = field(default_factory=lambda: CUDA_RECIPE)
    """What the recipe changes on a GPU."""
    minutes: float = 6.0
    """`train` stops after this many minutes of training at the latest, unless told otherwise."""
    cuda_minutes: float | None = None
    """The same on a GPU; None: as many."""

    def on_heightfield(self, panel: Panel) -> bool:
        """Returns whether the ground of this task on `panel` is a heightfield, and not a plane."""
        return bool(self.tiles) or any(s.terrain.cls != "flat" for s in panel.scenarios)

    def __post_init__(self) -> None:
        c = self.contract
        missing = [n for n in c.term_names if n not in self.terms]
        if missing:
            raise SurefootError(
                f"Task '{c.name}' names {', '.join(missing)} without a function; add it to its terms."
            )
        self._check_tiles()
        params = [(t.name, t.params) for t in c.rewards] + [(t.name, t.params) for t in c.terminations]
        for name, values in params:
            try:
                inspect.signature(self.terms[name]).bind(None, **values)
            except TypeError as error:
                raise SurefootError(
                    f"Task '{c.name}': the parameters of '{name}' do not fit its function ({error}); "
                    "mend either."
                ) from error

    def _check_tiles(self) -> None:
        """Checks that every class that is dealt has a tile at every level."""
        if not self.tiles:
            return
        c, existing = self.contract, {(t.cls, t.level) for t in self.tiles}
        if "terrain" not in c.stratify:
            raise SurefootError(f"Task '{c.name}' has tiles; stratify the factor 'terrain' to deal them.")
        for name in c.factor("terrain").categories:
            for level in range(c.terrain_levels):
                if (name, level) not in existing:
                    raise SurefootError(
                        f"Task '{c.name}' trains on '{name}' but has no tile of it at level {level}; "
                        f"add TileId('{name}', {level}, 0)."
                    )

    def on(self, engine: str) -> Task:
        """Returns the task as it is trained on `engine`: native MuJoCo takes the cheaper plant."""
        if engine != REFERENCE or self.native is None:
            return self
        recipe = self.recipe.model_copy(update={"decimation": self.native.decimation})
        return replace(self, recipe=recipe, plant=self.native)

    def recipe_on(self, device: str) -> Recipe:
        """Returns the recipe that the task trains with there: a GPU has room for thousands of
        environments."""
        if torch.device(device).type != "cuda":
            return self.recipe
        return self.recipe.model_copy(update=dict(self.cuda))

    def minutes_on(self, device: str) -> float:
        cuda = torch.device(device).type == "cuda"
        return self.cuda_minutes if cuda and self.cuda_minutes is not None else self.minutes

    def constants(self, device: torch.device, dt: float) -> Constants:
        def tensor(x: tuple[float, ...]) -> Tensor:
            return torch.tensor(x, dtype=torch.float32, device=device)

        r, prior = self.robot, self.contract.prior
        return Constants(
            tensor(r.default_pose),
            tensor(r.joint_low),
            tensor(r.joint_high),
            tensor(r.torque_limit_nm),
            r.stand_height_m,
            r.mass_kg,
            dt,
            self.contract.command.dead_zone,
            prior.clock_hz if prior else 0.0,
            tensor(prior.offsets if prior else (0.0,) * len(r.feet)),
            r.joints,
        )


def advance(task: TaskState, robot: RobotState, const: Constants, action: Tensor) -> TaskState:
    """Returns the task's memory after a control step in which `action` was applied and `robot` resulted."""
    contact = (
        robot.foot_force[..., 2] > 1.0
    )  # N: above MuJoCo's contact noise, far below any load-bearing step
    landed = task.air_time * (contact & ~task.contact)
    return TaskState(
        age=task.age + 1,
        command=task.command,
        action=action,
        previous_action=task.action,
        phase=(task.phase + const.clock_hz * const.dt) % 1.0,
        contact=contact,
        air_time=(task.air_time + const.dt) * ~contact,
        landed=landed,
    )
