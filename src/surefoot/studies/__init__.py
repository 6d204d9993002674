"""Studies: one quantity of the recipe varied over training seeds, under two budgets, judged on one panel."""

from surefoot.studies.design import KNOBS, Design, make_design
from surefoot.studies.live import resume_study, start_study
from surefoot.studies.record import StudyRecord, open_study

__all__ = ["KNOBS", "Design", "StudyRecord", "make_design", "open_study", "resume_study", "start_study"]
