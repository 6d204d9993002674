"""What a perturbation does to sensors; what it does to scenarios is a matter of the contract
(`contract/perturb.py`)."""

from __future__ import annotations

from surefoot.contract import SENSORS, Column
from surefoot.env import Faults


def faults_of(column: Column, count: int) -> Faults | None:
    """Returns what is wrong with the sensors of `count` environments in `column`; None: nothing."""
    name = {"obs_delay": "delay"}.get(column.perturbation, column.perturbation)
    return Faults.alike(count, **{name: column.strength}) if column.perturbation in SENSORS else None
