"""The report of a run that a fleet collected for: who did, how old it was, and what became of the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet_made import made_fleet, with_columns
from recompute_page import page_differences
from surefoot.reporting import write_report
from surefoot.runs import RunFolder


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_fleet(tiny_run, tmp_path_factory.mktemp("fleet") / "run")


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return section(write_report([run], run.parent / "page.html"))


def section(path: Path) -> str:
    """The part of a page that is about the fleet."""
    found = re.search(r'<div id="fleet" class="part">.*?</section>', path.read_text(), re.DOTALL)
    assert found is not None
    return found[0]


def rewritten(run: Path, folder: Path, **columns: object) -> Path:
    """A run whose rows have other columns."""
    return with_columns(made_fleet(run, folder), *[columns] * 6)


def test_a_run_without_a_fleet_has_no_such_section(tiny_run: Path, tmp_path: Path) -> None:
    whole = write_report([tiny_run], tmp_path / "page.html").read_text()
    assert 'id="fleet"' not in whole
    assert 'href="#fleet"' not in whole


def test_every_figure_is_that_of_the_ledger(run: Path) -> None:
    path = write_report([run], run.parent / "whole.html")
    assert 'href="#fleet"' in path.read_text()
    wrong = page_differences(run, path)
    assert {k: v for k, v in wrong.items() if k.startswith("fleet.")} == {}
    shown = set(re.findall(r'data-figure="(fleet\.[^"]*)"', path.read_text()))
    assert {"fleet.issued", "fleet.trained", "fleet.lost", "fleet.supply.least", "fleet.family.3"} <= shown


def test_round_trips_are_shown_and_why_the_policy_acted_where_it_did(tiny_run: Path, tmp_path: Path) -> None:
    trips = {"fleet.inference.trip_ms.p50": 1.25, "fleet.inference.trip_ms.p99": 7.5}
    run = rewritten(tiny_run, tmp_path / "run", **trips)
    RunFolder.open(run).write_record(
        fleet={"inference": "central", "choice": {"why": "It was faster there."}}
    )
    path = write_report([run], tmp_path / "page.html")
    assert {k: v for k, v in page_differences(run, path).items() if k.startswith("fleet.")} == {}
    shown = section(path)
    assert "It was faster there." in shown
    assert set(trips) <= set(re.findall(r'data-figure="([^"]*)"', shown))


def test_charts_are_drawn_of_rates_lag_and_the_learner(page: str) -> None:
    for label in (
        "Transitions per second of each actor, from ticket to arrival",
        "Versions of the policy that experience was old by, in each update",
        "Seconds of an update that the learner worked and waited",
    ):
        assert page.count(f'aria-label="{label}"') == 3, "one per width of the page"
    assert "actor 0 100" in page
    assert "actor 1 200" in page
    assert "nan" not in page


def test_many_actors_are_drawn_as_a_band(tiny_run: Path, tmp_path: Path) -> None:
    shown = section(write_report([made_fleet(tiny_run, tmp_path / "run", actors=9)], tmp_path / "page.html"))
    assert "median of 9 actors, slowest to fastest 500 (100 to 900)" in shown


def test_books_that_do_not_add_up_are_said_to(page: str, tiny_run: Path, tmp_path: Path) -> None:
    assert "They add up in each of 6 updates" in page
    run = rewritten(tiny_run, tmp_path / "run", **{"fleet.lost": 7})
    shown = section(write_report([run], tmp_path / "page.html"))
    assert "In 6 of 6 updates they do not add up, the first time in update 1." in shown


def test_a_fleet_that_waits_has_no_lag_to_draw(tiny_run: Path, tmp_path: Path) -> None:
    run = made_fleet(tiny_run, tmp_path / "run", lag=0)
    shown = section(write_report([run], tmp_path / "page.html"))
    assert "None: all experience was of the newest policy." in shown


def test_a_row_that_lacks_lists_is_not_measured(tiny_run: Path, tmp_path: Path) -> None:
    run = rewritten(tiny_run, tmp_path / "run", **{"fleet.rate.by_actor": None, "family.samples": None})
    shown = section(write_report([run], tmp_path / "page.html"))
    assert shown.count("not measured") == 2


def test_actors_that_come_and_go_are_drawn(page: str, tiny_run: Path, tmp_path: Path) -> None:
    assert "Actors that had parts" not in page
    made = made_fleet(tiny_run, tmp_path / "run", actors=4)
    columns = [{"fleet.parts": 4, "fleet.actors": n, "fleet.joined": n - 1, "fleet.left": 0} for n in (1, 3)]
    shown = section(write_report([with_columns(made, *columns)], tmp_path / "page.html"))
    assert 'aria-label="Actors that had parts of the environments, in each update"' in shown
    assert "Between 1 and 4 actors had the 4 parts of the environments; 2 joined and 0 left" in shown
    assert "part 3 400" in shown, "rates are those of parts"


def test_environments_that_began_anew_are_named(page: str, tiny_run: Path, tmp_path: Path) -> None:
    assert "new episodes before update" not in page
    made = with_columns(made_fleet(tiny_run, tmp_path / "run"), {"fleet.begun": 16}, {"fleet.begun": 4})
    shown = section(write_report([made], tmp_path / "page.html"))
    assert "All environments left their episodes and began new ones before update 5." in shown
