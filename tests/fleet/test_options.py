"""What is asked of a fleet goes together, or is refused in a sentence before anything is written."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from surefoot.compute import ONE_CORE
from surefoot.contract import Recipe, SurefootError
from surefoot.fleet import FleetOptions, check_alone, check_resumed
from surefoot.fleet.codecs import codec_of
from surefoot.fleet.on_ray.actor import FleetActor, order_of
from surefoot.training import make_plan
from surefoot.training.plan_makers import PlanOptions
from tiny import surefoot


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--actors", "3"), "4 seed families cannot be split over 3 actors; use --actors 2 or 4"),
        (("--actors", "0"), "--actors is 0; use 1 or more, or auto"),
        (("--actors", "two"), "--actors takes a whole number or auto, not 'two'"),
        (("--actors", "2", "--sync", "--max-lag", "2"), "leave one of them out"),
        (("--actors", "2", "--max-lag", "-1"), "--max-lag is -1; use 0 or more"),
        (
            ("--actors", "2", "--envs", "16", "--envs-per-actor", "4"),
            "makes 8 environments, and --envs says 16",
        ),
        (
            ("--actors", "auto", "--envs-per-actor", "3"),
            "--envs-per-actor 3 does not part 16 environments in 4 families of 4; use a multiple of 4",
        ),
        (("--sync", "--max-lag", "1"), "--sync, --max-lag: this is about a fleet; give --actors M too"),
        (("--actors", "2", "--learner", "rsl_rl"), "rsl_rl collects by itself"),
        (("--actors", "2", "--keep-block"), "a whole block cannot be kept"),
        (("--actors", "2", "--inference", "nowhere"), "--inference cannot be 'nowhere'"),
        (("--actors", "2", "--codec", "fp8"), "There is no codec 'fp8'"),
        (
            ("--actors", "2", "--codec", "uint8+zlib"),
            "whole numbers from 0 to 255, which tiny-walk does not observe",
        ),
        (("--actors", "2", "--placement", "pack"), "without --ray there is one; leave it out"),
        (("--actors", "2", "--actor-price", "0.1"), "give --inference auto too"),
        (
            ("--actors", "2", "--inference", "auto", "--actor-price", "0.1"),
            "--actor-price and --learner-price are both needed",
        ),
    ],
)
def test_contradictions_are_refused(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert surefoot("train", "tiny:walk", *words, "--quiet", "--out", out) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_environments_of_each_actor_fit_the_defaults_of_a_task() -> None:
    options = FleetOptions(actors=2, envs_per_actor=64)
    assert options.overrides({}) == {"envs": 128}
    assert options.overrides({"envs": 128, "horizon": 8}) == {"envs": 128, "horizon": 8}
    recipe = Recipe(envs=128)
    assert options.parts(recipe) == [range(64), range(64, 128)]


def test_auto_takes_as_many_as_there_are_cores_and_the_families_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = Recipe(envs=24, families=12, minibatches=1)
    for there, taken in ((1, 1), (2, 2), (5, 4), (64, 12)):
        monkeypatch.setattr("surefoot.fleet.options.cores", lambda there=there: there)
        assert len(FleetOptions(actors="auto").parts(recipe)) == taken


def test_auto_leaves_room_for_actors_that_join_a_cluster() -> None:
    recipe = Recipe(envs=48, families=12, minibatches=1)
    some, at_most = FleetOptions(actors="auto"), FleetOptions(actors="auto", envs_per_actor=8)
    assert [len(some.parts(recipe, there)) for there in (0, 1, 2, 3, 50)] == [1, 2, 4, 6, 12]
    assert len(at_most.parts(recipe, 2)) == len(at_most.parts(recipe)) == 6
    assert at_most.parts(recipe)[1] == range(8, 16)
    assert at_most.overrides({"envs": 48}) == {"envs": 48}
    waits = FleetOptions(actors="auto", sync=True)
    assert some.elastic
    assert not waits.elastic
    assert len(waits.parts(recipe, 2)) == 2, "where all are waited for none joins"


def test_a_fleet_under_torchrun_is_refused() -> None:
    with pytest.raises(SurefootError, match="without torchrun"):
        check_alone(FleetOptions(actors=2), "ppo", 2)


def test_a_run_goes_on_as_it_was_collected() -> None:
    late = FleetOptions(actors=4, max_lag=3)
    check_resumed(late.collection, FleetOptions(actors=1, max_lag=3))
    check_resumed("", None)
    check_resumed("", FleetOptions(actors=2, sync=True))
    with pytest.raises(SurefootError, match=r"go on with --actors M --max-lag 3\."):
        check_resumed(late.collection, None)
    with pytest.raises(SurefootError, match="--actors M --sync"):
        check_resumed("", late)


def test_a_codec_is_part_of_what_a_run_is_only_where_it_rounds() -> None:
    assert FleetOptions(actors=2, sync=True, codec="fp32+delta+zlib").collection == ""
    rounded = FleetOptions(actors=2, sync=True, codec="fp16")
    assert rounded.collection == FleetOptions(actors=1, sync=True, codec="fp16+zlib").collection != ""
    both = FleetOptions(actors=2, codec="fp16")
    check_resumed(both.collection, FleetOptions(actors=4, codec="fp16+delta"))
    for asked, words in ((both, "--max-lag 1 --codec fp16"), (rounded, "--sync --codec fp16")):
        with pytest.raises(SurefootError, match=f"go on with --actors M {words}"):
            check_resumed(asked.collection, FleetOptions(actors=2, sync=True))
    with pytest.raises(SurefootError, match="with no codec that rounds"):
        check_resumed("", rounded)


def test_pictures_that_are_none_are_refused_before_the_first_fragment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(ONE_CORE, "1")
    plan = make_plan("gym:InvertedPendulum-v5", overrides={"envs": 2, "hidden": (8,)})
    FleetOptions(actors=1, codec="uint8").check(
        plan.recipe, plan.task.contract
    )  # who knows what it observes?
    actor = FleetActor(order_of(plan, bytes(16), tmp_path, "uint8+zlib"), range(2), 0, 0, 0)
    with pytest.raises(
        SurefootError, match="obs is not frames of whole numbers from 0 to 255; leave out uint8"
    ):
        actor.describe()


def test_a_codec_whose_package_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    codec_of.cache_clear()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SurefootError, match="pip install zstandard, or use zlib"):
        FleetOptions(actors=2, codec="fp32+zstd")


def test_actors_collect_on_cpus_whatever_device_learns() -> None:
    assert PlanOptions(device="cuda", by_actors=True).collects_on == "cpu"
    assert PlanOptions(device="cuda").collects_on == "cuda"


def test_an_address_where_no_cluster_is_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out = tmp_path / "run"
    assert surefoot("train", "tiny:walk", "--actors", "2", "--ray", address, "--quiet", "--out", out) == 2
    assert f"No Ray cluster answers at {address}" in " ".join(capsys.readouterr().err.split())
    assert (
        surefoot("train", "tiny:walk", "--actors", "2", "--ray", "there", "--quiet", "--out", out / "2") == 2
    )
    assert "--ray is 'there'; give the head node's address" in " ".join(capsys.readouterr().err.split())
