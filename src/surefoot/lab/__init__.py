"""The lab: one command, one folder, where baselines, Surefoot's PPO and others meet on one panel."""

from surefoot.lab.design import OFFERED, LabDesign, make_lab
from surefoot.lab.live import run_lab
from surefoot.lab.record import LabRecord, open_lab

__all__ = ["OFFERED", "LabDesign", "LabRecord", "make_lab", "open_lab", "run_lab"]
