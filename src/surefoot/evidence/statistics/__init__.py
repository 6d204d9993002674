"""Intervals for rates and means over episodes that come in families, and are therefore not independent.

Episodes of a family share draws, so n episodes are worth fewer than n independent ones. Two rules hold
throughout: an estimate is the plain mean over episodes (each episode weighs the same, no averages of
averages), and its interval treats families, not episodes, as the independent draws.
"""

from surefoot.evidence.statistics.clusters import design_effect, effective_n, icc
from surefoot.evidence.statistics.means import Mean, iqm, iqm_interval, mean_interval, runs_interval
from surefoot.evidence.statistics.paired import Difference, paired, paired_runs, sign_flip
from surefoot.evidence.statistics.rates import Rate, clopper_pearson, rate, wilson

__all__ = [
    "Difference",
    "Mean",
    "Rate",
    "clopper_pearson",
    "design_effect",
    "effective_n",
    "icc",
    "iqm",
    "iqm_interval",
    "mean_interval",
    "paired",
    "paired_runs",
    "rate",
    "runs_interval",
    "sign_flip",
    "wilson",
]
