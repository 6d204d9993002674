"""Families whose environments teach the same, contacts that are missing, standing that pays: remarked on, and
silent in clean runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted_faults import findings

from surefoot.audits import audit_run, holding, training_behaviour
from surefoot.audits.contacts import Contacts, counted, on_edge, remarks
from surefoot.audits.gradients import noise_scale, spread
from surefoot.audits.holding import dominated
from surefoot.runs import RunFolder
from surefoot.terrain import Atlas, TileId


@pytest.mark.parametrize("name", ["gradient-noise", "contact-coverage"])
def test_a_clean_run_is_not_remarked_on(tiny_run: Path, name: str) -> None:
    assert findings(tiny_run, name) == []


def test_environments_that_learn_from_their_familys_samples_are_remarked_on(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.audits import gradients

    right = gradients.inner_products
    copies = np.repeat(np.arange(0, 16, 4), 4)
    monkeypatch.setattr(gradients, "inner_products", lambda it: right(it)[np.ix_(copies, copies)])
    (found,) = findings(tiny_run, "gradient-noise")
    assert "4 of them are worth" in found.statement
    assert found.kind == "behaviour"


def test_the_noise_scale_is_that_of_known_gradients() -> None:
    """Gradients of mean length 1 with a spread of 4 in each of 50 directions: 50 x 4 samples of one."""
    g = np.random.default_rng(1)
    gradients = g.normal(0, 2, (800, 50))
    gradients[:, 0] += 1
    gram = gradients @ gradients.T
    single = spread(gram, np.arange(800))
    assert noise_scale(gram, single, 1) == pytest.approx(200, rel=0.25)
    assert spread(gram, np.arange(800) // 8) == pytest.approx(single / 8, rel=0.15)


def test_contacts_that_are_missing_are_remarked_on() -> None:
    patterns = np.zeros(16)
    patterns[15] = 1.0
    said = [f.statement for f in remarks(Contacts(4000, patterns, slips=0.0, edges=0.0))]
    assert len(said) == 3
    assert "The same feet are down in all but 0%" in said[0]
    assert remarks(Contacts(4000, np.full(16, 1 / 16), slips=0.2, edges=None)) == []


def test_feet_are_counted_where_they_slip_and_where_the_ground_changes() -> None:
    atlas = Atlas.build((TileId("stairs_up", 9, 0),))
    middle = atlas.origins[0].astype(float)
    places = middle + np.stack([np.linspace(-3, 3, 200), np.zeros(200)], 1)
    near = on_edge(atlas, places)
    assert 0.2 < near.mean() < 0.9, "stairs have treads and edges"
    down = np.ones((200, 1), bool)
    speed = np.zeros((200, 1, 3))
    speed[:50] = 0.4
    c = counted(down, speed, np.concatenate([places, np.zeros((200, 1))], 1)[:, None], atlas)
    assert c.slips == 0.25
    assert c.edges == pytest.approx(near.mean())
    assert list(c.patterns) == [0, 1]


def test_holding_the_pose_is_remarked_on_where_it_pays_in_all_families() -> None:
    family = np.repeat(np.arange(16), 4)
    policy = np.random.default_rng(2).normal(0.01, 0.001, 64)
    (found,) = dominated(policy, policy + 0.002, family)
    assert "more in 16 of 16 families" in found.statement
    assert found.p == pytest.approx(2**-16)
    assert dominated(policy, policy - 0.002, family) == []
    assert dominated(policy, policy + np.where(family < 9, 0.002, -0.0001), family)[0].p > 0.01


def test_a_policy_that_has_learned_nothing_is_held_to_the_pose(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LONG", 6)
    monkeypatch.setattr(holding, "FEWEST", 1)
    audit = audit_run(RunFolder.open(tiny_run), only=["hold-pose"], seed=1)
    assert not audit.failed
    assert not audit.not_applicable, "it looked"
    assert not audit.proof
    assert training_behaviour.LONG == 100
