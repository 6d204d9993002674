"""Strata: one definition and one set of names for rows, postmortems, comparisons and pages."""

from __future__ import annotations

import numpy as np

from surefoot.contract import load_panel
from surefoot.statistics import panel_strata, strata_by_factor, stratum_names
from surefoot.tasks import task


def rough_rows() -> dict[str, np.ndarray]:
    s = load_panel("walk-rough-v1").select("selection")
    command = np.array([x.command for x in s])
    return {
        "family": np.array([x.family for x in s]),
        "friction": np.array([x.friction for x in s]),
        "payload_kg": np.array([x.payload_kg for x in s]),
        "command_vx": command[:, 0],
        "command_vy": command[:, 1],
        "command_wz": command[:, 2],
        "terrain": np.array([x.terrain.cls for x in s]),
        "level": np.array([x.terrain.level for x in s]),
    }


def test_every_row_is_in_one_bin_of_each_factor() -> None:
    rows, contract = rough_rows(), task("walk-rough").contract
    factors = strata_by_factor(rows, contract)
    assert {"friction", "payload", "command", "terrain"} <= factors.keys()
    for bins in factors.values():
        assert (np.sum(list(bins.values()), 0) == 1).all()


def test_names_in_rows_are_labels_of_strata_without_the_level() -> None:
    """Pages and postmortems tell levels apart as well; rows on disk never did."""
    rows, contract = rough_rows(), task("walk-rough").contract
    rows["level"] = np.arange(len(rows["level"])) % 3
    labels = panel_strata(rows, contract)
    named = {part for name in stratum_names(rows, contract) for part in name.split(" | ")}
    assert named == {label for label in labels if not label.startswith("level ")}
    assert {"level 0", "level 1", "level 2"} <= labels.keys()
    for i, name in enumerate(stratum_names(rows, contract)[:20]):
        assert all(labels[part][i] for part in name.split(" | "))
