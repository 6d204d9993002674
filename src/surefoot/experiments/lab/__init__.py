"""The lab: one command, one folder, where baselines, Surefoot's PPO and others meet on one panel."""

from surefoot.experiments.lab.design import make_lab
from surefoot.experiments.lab.live import run_lab
from surefoot.experiments.lab.record import LabRecord, open_lab

__all__ = [
    "LabRecord",
    "make_lab",
    "open_lab",
    "run_lab",
]
