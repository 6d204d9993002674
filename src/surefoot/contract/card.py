"""The card of a policy: all that a deployer must know besides its weights."""

from __future__ import annotations

from surefoot.contract.memory import Remembers
from surefoot.contract.task import ActionBox, ObservationTerm, Prior


class PolicyCard(Remembers):
    """How to wire a policy to a robot: target = default_pose + action_scale_rad x clip(action) (+ the prior's
    lift). In an external environment, where Surefoot knows no robot, `box` says what actions mean."""

    schema_version: int = 1
    task: str
    robot: str
    contract_digest: str
    observation: tuple[ObservationTerm, ...]
    joints: tuple[str, ...]
    default_pose: tuple[float, ...]
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    action_scale_rad: float | None
    action_clip: float
    control_hz: float
    prior: Prior | None
    hidden: tuple[int, ...]
    normalised: bool
    observation_clip: float | None = None
    """What normalised observations are clipped to, either side; None: they are not."""
    box: ActionBox | None = None
    """What the actions of an external environment are scaled to."""
