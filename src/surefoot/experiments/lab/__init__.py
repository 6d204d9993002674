"""The lab: one command, one folder, where baselines, Surefoot's PPO and others meet on one panel."""

from surefoot.experiments.lab.design import LabDesign, LabOptions, make_lab
from surefoot.experiments.lab.live import run_lab
from surefoot.experiments.lab.progress import Stage
from surefoot.experiments.lab.record import Entry, LabRecord, open_lab
from surefoot.experiments.lab.views import Who, headings, policies, shown

__all__ = [
    "Entry",
    "LabDesign",
    "LabOptions",
    "LabRecord",
    "Stage",
    "Who",
    "headings",
    "make_lab",
    "open_lab",
    "policies",
    "run_lab",
    "shown",
]
