"""The task contract: what a task promises, frozen before training. Pure data; the functions live in
tasks/."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, field_validator, model_serializer

from surefoot.contract.factors import Factor, Strata
from surefoot.contract.model import Frozen
from surefoot.contract.success import Success

Mirror = Literal["scalar", "vector", "pseudovector", "command", "joints", "feet", "grid", "clock"]
"""How a term changes when the world is reflected left to right (y -> -y). `clock` changes sign: the two
diagonal pairs of a trot, or the two legs of a biped, swap, half a period apart."""


class ObservationTerm(Frozen):
    """One named slice of the observation vector."""

    name: str
    size: int
    unit: str
    noise: float = 0.0
    """Half-width of the uniform noise added in training and on panels, in the term's unit."""
    scale: float = 1.0
    """Multiplied after noise, before the learned normaliser."""
    mirror: Mirror = "scalar"


class ActionSpec(Frozen):
    """Joint position targets: default pose + scale x action (+ the prior's lift), action clipped to
    +-clip."""

    size: int
    scale_rad: float
    clip: float


class ActionBox(Frozen):
    """Bounds the actions of an environment from outside. An action is clipped to +-clip; in a bounded space
    -1 then means `low` and +1 `high`, an unbounded one gets it as it is."""

    size: int
    clip: float
    low: tuple[float, ...] | None
    """None: the space has no bounds."""
    high: tuple[float, ...] | None


class RewardTerm(Frozen):
    name: str
    weight: float
    """Per second of robot time; multiplied by the control period. For `event` terms: per event."""
    params: dict[str, float] = {}
    event: bool = False
    """Added once when it happens, after the per-step sum has been floored."""
    doc: str = ""


class Termination(Frozen):
    name: str
    params: dict[str, float] = {}
    doc: str = ""


class Safety(Frozen):
    """The one safety constraint: the share of steps on which `name` happens stays below `limit`."""

    name: Literal["torque_saturation", "trunk_contact"] = "torque_saturation"
    limit: float = 0.02
    doc: str = "share of steps with any joint torque at its limit"


class Prior(Frozen):
    """Knowledge about the gait that the policy is handed: a clock it observes and a scripted lift it acts on
    top of."""

    clock_hz: float
    offsets: tuple[float, ...]
    """Phase of each foot, in periods."""
    lift_rad: float
    """Thigh +lift and calf -2 x lift at mid-swing, on legs of hip, thigh and calf; 0: a clock alone."""


class CommandSpec(Frozen):
    """What the commanded velocity means and how it is drawn in training."""

    resample_s: float = 5.0
    gain: float = 1.15
    """Draws are clipped gain x U(-1, 1), so that the corners of the range are trained on and not only
    approached."""
    dead_zone: float = 0.05
    """Commands smaller than this in every component mean: stand still."""


class Contract(Frozen):
    """What any contract says, whoever simulates: all that learners, rollouts and the ledger need."""

    schema_version: int = 1
    name: str
    observation: tuple[ObservationTerm, ...]
    privileged: tuple[ObservationTerm, ...]
    """What the critic sees in addition; never available to the policy."""
    action: ActionSpec | ActionBox
    rewards: tuple[RewardTerm, ...]
    terminations: tuple[Termination, ...]
    panel: str
    exempt: dict[str, str] = {}
    """Detectors that audits of this task leave out, each with its reason, which stands beside the verdict."""

    @field_validator("exempt")
    @classmethod
    def _reasoned(cls, exempt: dict[str, str]) -> dict[str, str]:
        bare = [name for name, why in exempt.items() if not why.strip()]
        if bare:
            raise ValueError(f"an exemption from {', '.join(bare)} needs a reason")
        return exempt

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves no exemptions out, so that contracts without any have the digests that they had."""
        fields: dict[str, Any] = dump(self)
        if not self.exempt:
            fields.pop("exempt", None)
        return fields

    @property
    def observation_size(self) -> int:
        return sum(t.size for t in self.observation)

    @property
    def critic_size(self) -> int:
        return self.observation_size + sum(t.size for t in self.privileged)

    @property
    def strata(self) -> Strata:
        raise NotImplementedError


class TaskContract(Contract):
    """Everything a reader must know to say what a success on this task means."""

    robot: str
    robot_digest: str
    episode_s: float
    action: ActionSpec
    command: CommandSpec
    reward_floor: float | None = 0.0
    """The per-step sum of the reward terms is not allowed below this (before event terms)."""
    success: Success
    safety: Safety
    prior: Prior | None
    factors: tuple[Factor, ...]
    stratify: tuple[str, ...]
    terrain_levels: int = 1
    source_digest: str
    """SHA-256 of the source of every function that the contract names."""

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names every function that a task needs to fulfil the contract."""
        seen = [t.name for t in (*self.observation, *self.privileged)]
        return (*seen, *(t.name for t in self.rewards), *(t.name for t in self.terminations))

    @property
    def strata(self) -> Strata:
        return Strata(factors=tuple(self.factor(n) for n in self.stratify))

    def factor(self, name: str) -> Factor:
        return next(f for f in self.factors if f.name == name)
