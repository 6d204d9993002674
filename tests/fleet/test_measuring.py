"""A fleet is sized by what was measured: curves are found again, what binds is what is least."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from surefoot.fleet.codec_costs import CodecCost
from surefoot.fleet.on_ray import Curve, Measured, better_codec, changes, predict
from surefoot.fleet.on_ray.measure import fit
from surefoot.fleet.on_ray.trial import Way, choose
from tiny import surefoot

SIZES = (1, 4, 16, 64, 256)
M = Measured(
    sizes=SIZES,
    step_s=tuple(1e-3 + 1e-4 * n for n in SIZES),
    policy_s=tuple(2e-4 + 1e-6 * n for n in SIZES),
    batch=10_000,
    learner_s=0.1,
    learner_core_s=0.2,
    pack_s=1e-6,
    read_s=1e-6,
    bytes_per_transition=600.0,
    cores=16,
)


def test_a_curve_is_found_again() -> None:
    assert M.step == Curve(pytest.approx(1e-3), pytest.approx(1e-4))
    assert M.step.flat_from == pytest.approx(90)
    assert fit((1, 2, 4), (2.0, 4.0, 8.0)).fixed == pytest.approx(0, abs=1e-9)
    assert fit((1, 2, 4), (1.0, 0.9, 0.8)).each == 0.0, "time does not fall with size"


def test_as_many_actors_as_keep_the_learner_busy() -> None:
    each = (1e-3 + 64e-4 + 2e-4 + 64e-6) / 64 + 1e-6
    demand = 1 / (0.1 / 10_000 + 1e-6)
    fleet = predict(M, 64)
    assert fleet.actors == -(-demand * each // 1)
    assert fleet.limits["learner"] == pytest.approx(demand)
    assert fleet.limits["cores"] == pytest.approx(16 / (each + 0.2 / 10_000 + 1e-6))
    assert fleet.rate == min(fleet.limits.values())
    assert predict(M, 64, actors=1).binds == "actors"
    assert predict(M, 64, link_bytes_per_s=6e6).binds == "network"
    assert predict(replace(M, cores=1), 64).binds == "cores"


def test_what_would_help_most_is_said_first() -> None:
    slow_link = predict(M, 64, link_bytes_per_s=6e6)
    assert changes(M, slow_link, 6e6)[0][0] == "observations in fp16"
    busy = predict(replace(M, cores=4), 4)
    named = [name for name, _ in changes(replace(M, cores=4), busy)]
    assert named == ["16 environments per actor", "twice the cores"]


def test_a_codec_is_suggested_where_the_link_binds_and_only_there() -> None:
    plain = CodecCost("fp32", 1, 600, 1000, 1000)
    small = CodecCost("fp32+zstd", 1, 200, 3000, 1000)
    slow = CodecCost("fp32+zlib", 1, 150, 500_000, 500_000)
    m = replace(M, codecs=(plain, small, slow))
    name, fleet = better_codec(m, predict(m, 64, link_bytes_per_s=6e6), None, 6e6)
    assert name == "fp32+zstd"
    assert fleet.rate == pytest.approx(6e6 / 200)
    assert better_codec(m, predict(m, 64, link_bytes_per_s=1e12), None, 1e12) is None


def test_the_policy_acts_where_it_is_faster_or_cheaper() -> None:
    local, central = Way(1000.0), Way(1500.0, 1.0, 2.0, 32.0, 0.1, busy_share=0.5)
    faster = choose(local, central, 4, "cuda", None)
    assert (faster.inference, faster.why.split(":")[0]) == ("central", "Inference is central")
    cheaper = choose(local, central, 4, "cuda", (0.05, 4.0))  # 0.2 dollars per hour, or 2.2
    assert cheaper.inference == "local"
    assert local.steps_per_dollar(4, 0.05, 4.0) == pytest.approx(1000 * 3600 / 0.2)
    assert central.steps_per_dollar(4, 0.05, 4.0) == pytest.approx(1500 * 3600 / 2.2)
    assert "1,000 and 1,500 steps/s" in cheaper.why
    assert choose(local, local, 4, "cpu", None).inference == "local", "nobody waits there"


def test_the_command_measures_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("size", "tiny:walk", "--envs-per-actor", "8", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["measured"]["sizes"] == [1, 4, 16]
    assert all(t > 0 for t in said["measured"]["step_s"] + said["measured"]["policy_s"])
    assert said["fleet"]["binds"] in ("actors", "learner", "cores")
    assert 400 < said["measured"]["bytes_per_transition"] < 800


def test_a_task_and_figures_of_ones_own_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("tiny:walk", "--calculate"), (), ("tiny:walk", "--batch", "512")):
        assert surefoot("size", *words) == 2
    assert "that is measured; leave it out" in " ".join(capsys.readouterr().err.split())
