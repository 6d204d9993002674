"""A fleet is sized by what was measured: curves are found again, what binds is what is least."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from surefoot.fleet.codec_costs import CodecCost
from surefoot.fleet.on_ray import (
    Crowd,
    Curve,
    Measured,
    Place,
    amortised,
    better_codec,
    changes,
    fit,
    predict,
    shared,
)
from surefoot.fleet.on_ray.trial import Way, choose
from tiny import surefoot

SIZES = (1, 4, 16, 64, 256)
M = Measured(
    horizon=10,
    sizes=SIZES,
    step_s=tuple(1e-3 + 1e-4 * n for n in SIZES),
    policy_s=tuple(2e-4 + 1e-6 * n for n in SIZES),
    fragment_s=tuple(10 * (1.2e-3 + 1.01e-4 * n) for n in SIZES),
    gpu_policy_s=(),
    batches=(5000, 10_000),
    learner_s=(0.05, 0.1),
    learner_core_s=0.2,
    read_s=1e-6,
    bytes_per_transition=600.0,
    weights_bytes=0,
    cores=16,
    memory_bytes=16 << 30,
    crowd=Crowd(
        actors=16,
        message_bytes=(1000, 1_000_000),
        message_s=(1e-3 + 1e-6, 1e-3 + 1e-3),
        trip_p50_s=1e-3,
        trip_p99_s=2e-3,
        alone_s=0.1,
        together_s=0.1,
        spread=1.0,
        actor_bytes=1 << 28,
    ),
)
CROWDED = replace(M, crowd=replace(M.crowd, together_s=0.16))


def test_a_curve_is_found_again() -> None:
    assert M.step == Curve(pytest.approx(1e-3), pytest.approx(1e-4))
    assert M.step.flat_from == pytest.approx(90)
    assert M.transport == Curve(pytest.approx(1e-3), pytest.approx(1e-9))
    assert fit((1, 2, 4), (2.0, 4.0, 8.0)).fixed == pytest.approx(0, abs=1e-9)
    assert fit((1, 2, 4), (1.0, 0.9, 0.8)).each == 0.0, "time does not fall with size"
    assert fit((8,), (4.0,)) == Curve(0.0, 0.5), "one point says nothing of what is fixed"


def test_what_is_fixed_is_shared_by_more() -> None:
    shares = {what: share for what, _, share, _ in amortised(M, 90)}
    assert shares["a step"] == pytest.approx(0.1)
    assert shares["an update"] == pytest.approx(0, abs=1e-6)
    assert "the policy on the GPU" not in shares
    assert "the policy on the GPU" in [w for w, *_ in amortised(replace(M, gpu_policy_s=M.policy_s), 90)]


def test_what_environments_share_most_is_named() -> None:
    assert shared(M) == ("the environments' step", pytest.approx(1e-3), pytest.approx(1.2e-3))
    wordy = replace(M, fragment_s=tuple(0.1 + t for t in M.fragment_s))
    assert shared(wordy) == ("what there is once per fragment", pytest.approx(1e-2), pytest.approx(1.12e-2))


def test_as_many_actors_as_keep_the_learner_busy() -> None:
    samples = 64 * 10
    works = 10 * (1.2e-3 + 1.01e-4 * 64) / samples
    waits = (1e-3 + 1e-9 * 600 * samples) / samples + 1e-6
    demand = 1 / (1e-5 + 1e-6)
    fleet = predict(M, 64)
    assert fleet.actors == math.ceil(demand * (works + waits))
    assert fleet.batch == fleet.actors * samples
    assert fleet.limits["learner"] == pytest.approx(demand)
    assert fleet.limits["actors"] == pytest.approx(fleet.actors / (works + waits))
    assert fleet.limits["cores"] == pytest.approx(16 / (works + 2e-5 + 1e-6))
    assert fleet.rate == min(fleet.limits.values())
    fewer = predict(M, 64, actors=fleet.actors - 1)
    assert fewer.binds == "actors"
    assert fewer.utilisation < 1
    assert predict(M, 64, place=Place(6e6)).binds == "network"
    assert predict(replace(M, cores=1), 64).binds == "cores"
    assert predict(replace(M, memory_bytes=1 << 30), 64).binds == "memory"


def test_actors_beside_each_other_are_slower_than_one_alone() -> None:
    alone, many = (predict(CROWDED, 64, actors=n) for n in (1, 16))
    assert alone.limits["actors"] == pytest.approx(predict(M, 64, actors=1).limits["actors"])
    assert many.limits["actors"] < 16 * alone.limits["actors"] / 1.5


def test_what_would_help_most_is_said_first() -> None:
    link = Place(6e6)
    named = [name for name, _ in changes(M, predict(M, 64, place=link), link)]
    assert named == ["numbers in fp16 on their way", "a link twice as wide"]
    four = replace(M, cores=4)
    named = [name for name, _ in changes(four, predict(four, 4))]
    assert named == ["16 environments per actor", "twice the cores and memory"]
    full = replace(CROWDED, cores=2, crowd=replace(CROWDED.crowd, actors=2))
    fleet = dict(changes(full, predict(full, 64)))["twice the cores and memory"]
    assert fleet.rate == pytest.approx(2 * predict(full, 64).rate, rel=0.01), "not more crowded than before"
    assert changes(M, predict(M, 64, actors=1))[0][1].actors > 1, "more actors are a change too"


def test_a_codec_is_suggested_where_the_link_binds_and_only_there() -> None:
    plain = CodecCost("fp32", 1, 600, 1000, 1000)
    small = CodecCost("fp32+zstd", 1, 200, 3000, 1000)
    slow = CodecCost("fp32+zlib", 1, 150, 500_000, 500_000)
    m, narrow = replace(M, codecs=(plain, small, slow)), Place(6e6)
    name, fleet = better_codec(m, predict(m, 64, place=narrow), None, narrow)
    assert name == "fp32+zstd"
    assert fleet.rate == pytest.approx(6e6 / 200)
    assert better_codec(m, predict(m, 64, place=Place(1e12)), None, Place(1e12)) is None


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


def test_a_million_transitions_have_a_price() -> None:
    fleet = predict(M, 64, actors=2, place=Place(dollars_per_hour=3.0, dollars_per_actor_hour=0.3))
    assert fleet.dollars_per_million == pytest.approx(3.6 / 3600 / fleet.rate * 1e6)
    assert predict(M, 64).dollars_per_million is None


def test_the_command_measures_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("size", "tiny:walk", "--envs-per-actor", "8", "--dollars-per-hour", "2", "--json")
    assert surefoot(*words) == 0
    said = json.loads(capsys.readouterr().out)
    measured, fleet = said["measured"], said["fleet"]
    assert measured["sizes"] == [1, 4, 16, 64, 256, 1024]
    timed = zip(*(measured[f"{what}_s"] for what in ("step", "policy", "fragment")), strict=True)
    assert all(0 < measured["horizon"] * (step + policy) < whole for step, policy, whole in timed)
    assert measured["batches"] == [64, 128, 256]
    assert all(t > 0 for t in measured["learner_s"])
    assert 400 < measured["bytes_per_transition"] < 800
    assert 0 < measured["crowd"]["trip_p50_s"] <= measured["crowd"]["trip_p99_s"]
    assert fleet["binds"] in ("actors", "learner", "cores")
    assert fleet["dollars_per_million"] == pytest.approx(2 / 3600 / fleet["rate_per_s"] * 1e6)
    assert said["command"].startswith("surefoot train tiny:walk --engine stride --actors ")


@pytest.mark.parametrize("words", [("--dollars-per-hour", "-1"), ("--dollars-per-actor-hour", "1")])
def test_prices_are_positive_and_of_the_learner_first(words: tuple[str, ...]) -> None:
    assert surefoot("size", "tiny:walk", *words) == 2


def test_a_task_and_figures_of_ones_own_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("tiny:walk", "--calculate"), (), ("tiny:walk", "--batch", "512")):
        assert surefoot("size", *words) == 2
    assert "that is measured; leave it out" in " ".join(capsys.readouterr().err.split())
