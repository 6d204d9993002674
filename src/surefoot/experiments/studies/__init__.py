"""Studies: one quantity of the recipe varied over training seeds, under two budgets, judged on one panel."""

from surefoot.experiments.studies.design import (
    BUDGETS,
    Design,
    DesignOptions,
    Kind,
    make_design,
    panel_device,
)
from surefoot.experiments.studies.figures import Group
from surefoot.experiments.studies.live import resume_study, start_study
from surefoot.experiments.studies.record import StudyRecord, open_study

__all__ = [
    "BUDGETS",
    "Design",
    "DesignOptions",
    "Group",
    "Kind",
    "StudyRecord",
    "make_design",
    "open_study",
    "panel_device",
    "resume_study",
    "start_study",
]
