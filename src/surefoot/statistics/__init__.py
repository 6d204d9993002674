"""Intervals for rates and means over episodes that come in families, and are therefore not independent.

Episodes of a family share draws, so n episodes are worth fewer than n independent ones. Two rules hold
throughout: an estimate is the plain mean over episodes (each episode weighs the same, no averages of
averages), and its interval treats families, not episodes, as the independent draws.
"""

from surefoot.statistics.clusters import design_effect, effective_n, icc
from surefoot.statistics.columns import HOLDS_AT, Agreement, ColumnSummary, column_summary, split_columns
from surefoot.statistics.estimates import (
    SPANS,
    Estimate,
    estimate,
    headline,
    percent,
    rate_estimate,
)
from surefoot.statistics.looks import LOOKS, look_at
from surefoot.statistics.means import Mean, iqm, iqm_interval, mean_interval
from surefoot.statistics.multiple import ALPHA, decision_alpha, holm
from surefoot.statistics.paired import Difference, paired, sign_flip
from surefoot.statistics.power import smallest_true_rate
from surefoot.statistics.predictors import predictors
from surefoot.statistics.rates import Rate, clopper_pearson, rate, wilson
from surefoot.statistics.recount import disagreements, recount
from surefoot.statistics.rows import PanelResult, severity, watched
from surefoot.statistics.seeds import (
    Collapses,
    OverSeeds,
    collapses,
    findable,
    median_interval,
    more_frequent,
    over_seeds,
    seeds_needed,
    shown_above,
    shown_below,
)
from surefoot.statistics.strata import panel_strata, strata_by_factor, stratum_names
from surefoot.statistics.success import succeeded, succeeds
from surefoot.statistics.summary import PanelSummary, PassInfo, summarise
from surefoot.statistics.verdict import RELIABLE_AT, RULE, WORDS, Grade, judge

__all__ = [
    "ALPHA",
    "HOLDS_AT",
    "LOOKS",
    "RELIABLE_AT",
    "RULE",
    "SPANS",
    "WORDS",
    "Agreement",
    "Collapses",
    "ColumnSummary",
    "Difference",
    "Estimate",
    "Grade",
    "Mean",
    "OverSeeds",
    "PanelResult",
    "PanelSummary",
    "PassInfo",
    "Rate",
    "clopper_pearson",
    "collapses",
    "column_summary",
    "decision_alpha",
    "design_effect",
    "disagreements",
    "effective_n",
    "estimate",
    "findable",
    "headline",
    "holm",
    "icc",
    "iqm",
    "iqm_interval",
    "judge",
    "look_at",
    "mean_interval",
    "median_interval",
    "more_frequent",
    "over_seeds",
    "paired",
    "panel_strata",
    "percent",
    "predictors",
    "rate",
    "rate_estimate",
    "recount",
    "seeds_needed",
    "severity",
    "shown_above",
    "shown_below",
    "sign_flip",
    "smallest_true_rate",
    "split_columns",
    "strata_by_factor",
    "stratum_names",
    "succeeded",
    "succeeds",
    "summarise",
    "watched",
    "wilson",
]
