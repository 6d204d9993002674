"""The plant: the simulated physics settings. The evaluation plant is fixed for everybody; training may use a
faster one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from surefoot.contract.model import Frozen

MAX_DELAY_S = 0.16
"""Delay of actions that engines remember targets for, unless a longer one is announced."""


class Plant(Frozen):
    """How physics is integrated between two control steps."""

    dt_s: float
    decimation: int
    """Physics steps per control step."""
    cone: Literal["pyramidal", "elliptic"]
    impratio: float
    """Frictional to normal constraint impedance; feet creep at 1 and hold at 10."""
    iterations: int
    """Most Newton iterations of the contact solver."""
    ls_iterations: int
    tolerance: float
    joint_dry_friction: bool
    """Whether the robot's joint dry friction (MJCF frictionloss) is simulated; it adds a constraint per
    joint."""
    heightfield: Literal["surface", "prisms"] | None = None
    """How native MuJoCo makes contact with a heightfield: by closest point on its triangles, as stride does,
    or with MuJoCo's own prisms, whose inner edges trip feet (docs/internals/engines.md). None on a plane; on
    a heightfield it means `surface`."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, make: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves `heightfield` out on a plane, whose digest is then what it was before there were two ways
        to touch one."""
        fields: dict[str, Any] = make(self)
        if self.heightfield is None:
            fields.pop("heightfield", None)
        return fields

    @property
    def control_hz(self) -> float:
        return 1.0 / (self.dt_s * self.decimation)


EVALUATION_PLANT = Plant(
    dt_s=0.005,
    decimation=4,
    cone="elliptic",
    impratio=10.0,
    iterations=50,
    ls_iterations=50,
    tolerance=1e-8,
    joint_dry_friction=True,
)
"""Native MuJoCo, converged: Newton stops by its tolerance, not by its iteration limit."""

TRAINING_PLANT = EVALUATION_PLANT.model_copy(update={"impratio": 1.0, "joint_dry_friction": False})
"""What stride trains on: the evaluation plant without what costs most. It learns in fewer samples than
coarser steps do, and not in more than the evaluation plant itself (docs/measurements/learning.md)."""

FAST_PLANT = Plant(
    dt_s=0.01,
    decimation=2,
    cone="pyramidal",
    impratio=1.0,
    iterations=4,
    ls_iterations=8,
    tolerance=1e-8,
    joint_dry_friction=False,
)
"""What native MuJoCo trains on: raw rollout is 3.2 times as fast as on the evaluation plant
(benchmarks/cpu_throughput.json, N = 512). Four iterations are not converged; on heightfields tasks use
eight."""
