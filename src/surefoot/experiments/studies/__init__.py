"""Studies: one quantity of the recipe varied over training seeds, under two budgets, judged on one panel."""

from surefoot.experiments.studies.design import Kind, make_design
from surefoot.experiments.studies.live import resume_study, start_study
from surefoot.experiments.studies.record import open_study

__all__ = [
    "Kind",
    "make_design",
    "open_study",
    "resume_study",
    "start_study",
]
