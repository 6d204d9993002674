"""A fleet is sized in exact arithmetic, and where neither Ray nor torch nor a simulator can be imported."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import SOURCE
from surefoot.contract import SurefootError
from surefoot.fleet import calculate
from tiny import surefoot

ABSENT = ("ray", "torch", "mujoco", "warp", "gymnasium", "mujoco_warp", "scipy")


@pytest.mark.parametrize(
    ("batch", "milliseconds", "rate", "actors"), [(512, 8, 1000, 64), (1024, 20, 800, 64), (513, 8, 1000, 65)]
)
def test_the_fewest_actors_that_keep_the_learner_busy(
    batch: int, milliseconds: int, rate: int, actors: int
) -> None:
    sized = calculate(batch, milliseconds, rate)
    assert sized.actors == actors
    assert sized.binds == "learner"
    assert sized.learner_utilisation == 1
    fewer = calculate(batch, milliseconds, rate, actors=actors - 1)
    assert fewer.binds == "actors"
    assert fewer.surplus_per_s < 0


def test_one_actor_that_is_faster_than_the_learner() -> None:
    sized = calculate(1024, 20, "2,000,000")
    assert (sized.actors, sized.binds) == (1, "learner")
    assert sized.as_json()["surplus_per_s"] == 1_948_800


def test_a_link_carries_354_actors_and_not_355() -> None:
    link = {"bytes_per_transition": 28_224, "link_gbytes": 10}
    sized = calculate(512, 8, 1000, actors=80, **link)
    assert sized.as_json()["bytes_per_s_per_actor"] == 28_224_000
    assert sized.as_json()["bytes_per_s"] == 2_257_920_000
    assert sized.network_actors == 354
    busy = {"batch": 1_000_000, "learner_ms": 1, "actor_rate": 1000}  # a learner that takes all there is
    assert calculate(**busy, actors=354, **link).binds == "actors"
    assert calculate(**busy, actors=355, **link).binds == "network"


def test_decimals_are_what_they_say() -> None:
    """Floats would ask for one actor more: 22 / (5.5 / 1000) / 1000 is more than 4 in them."""
    assert math.ceil(22 / (5.5 / 1000) / 1000) == 5
    assert calculate(22, "5.5", 1000).actors == 4
    assert calculate("0.3", "0.1", 100).actors == 30


@given(*(st.fractions(Fraction(1, 1000), 10**6) for _ in range(3)), st.integers(1, 500))
def test_the_rate_is_the_least_of_what_limits_it(b: Fraction, ms: Fraction, r: Fraction, m: int) -> None:
    sized = calculate(b, ms, r, actors=m, bytes_per_transition=700, link_gbytes=1)
    limits = {"actors": m * r, "learner": 1000 * b / ms, "network": Fraction(10**9, 700)}
    assert sized.rate_per_s == min(limits.values()) == limits[sized.binds]
    need = calculate(b, ms, r)
    assert need.actors * r >= limits["learner"]
    assert need.actors == 1 or (need.actors - 1) * r < limits["learner"]


@pytest.mark.parametrize("word", ["0", "-3", "many", "nan", "inf", "1e999999999"])
def test_what_is_no_positive_number_is_refused(word: str) -> None:
    with pytest.raises(SurefootError, match="--actor-rate"):
        calculate(512, 8, word)


def test_a_link_without_bytes_and_a_fleet_of_none_are_refused() -> None:
    with pytest.raises(SurefootError, match="--bytes-per-transition too"):
        calculate(512, 8, 1000, link_gbytes=10)
    with pytest.raises(SurefootError, match="--actors is 0"):
        calculate(512, 8, 1000, actors=0)


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("size", "--calculate", "--batch", "512") == 2
    assert "--calculate needs --learner-ms, --actor-rate too" in " ".join(capsys.readouterr().err.split())


def test_the_command_shows_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--batch", "512", "--learner-ms", "8", "--actor-rate", "1000", "--actors", "16")
    assert surefoot("size", "--calculate", *words) == 0
    shown = capsys.readouterr().out
    assert "25.0% of its time" in shown
    assert "the actors" in shown.split("what binds")[1]


def test_nothing_that_trains_is_imported_for_it(tmp_path: Path) -> None:
    site = tmp_path / "sitecustomize.py"
    site.write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {ABSENT}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    words = ["--batch", "512", "--learner-ms", "8", "--actor-rate", "1000", "--json"]
    bare = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, SOURCE)))}
    done = subprocess.run(
        [sys.executable, "-m", "surefoot", "size", "--calculate", *words],
        env=bare,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["actors"] == 64
