"""Probes build environments of the run that the audit's seed chooses."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surefoot.audits.case import Case
from surefoot.runs import RunFolder


def test_a_probe_of_some_environments_has_those_that_all_have(tiny_run: Path) -> None:
    case = Case(RunFolder.open(tiny_run), 7)
    try:
        whole, some = case.environments().snapshot(), case.environments(8).snapshot()
    finally:
        case.close()
    chosen = case.chosen(8)
    assert len(whole["episode"]) == 16
    for name in (
        "script.family",
        "script.member",
        "script.commands",
        "script.stratum",
        "parameters.payload_kg",
    ):
        assert (some[name] == whole[name][chosen]).all(), name
    assert (some["task.age"] == whole["task.age"][chosen]).all()


def test_the_audits_seed_chooses_whole_families(tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    sets = [Case(run, seed).chosen(8) for seed in range(20)]
    for chosen in sets:
        families = np.bincount(chosen // 4, minlength=4)
        assert sorted(families) == [0, 0, 4, 4]
    assert len({tuple(s) for s in sets}) > 3
    assert np.unique(np.concatenate(sets)).size == 16
