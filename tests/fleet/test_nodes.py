"""A fleet on a cluster of real nodes: they come and go while it trains, and some do not fit."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fleets import check_books, fleet, rows, trained, wait

from places import SOURCE, TESTS
from surefoot.artifacts import read_table
from surefoot.compute import prepare_torch
from surefoot.contract import SurefootError
from surefoot.fleet import FleetOptions
from surefoot.fleet.on_ray.cluster import Cluster, import_ray
from surefoot.fleet.on_ray.trainer import FleetTrainer
from surefoot.runs import RunFolder

STORE = 100 << 20


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster whose head has one core, on 127.0.0.1. This process is not in it."""
    threads = torch.get_num_threads()
    import_ray()
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster as Nodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SOURCE, TESTS))))
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
        # nodes are begun from another thread, where no signal can be handled
        patch.setattr("ray._private.utils.set_sigterm_handler", lambda handler: None)
        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        there = Nodes(initialize_head=True, head_node_args=head)
        yield there
        there.shutdown()
    torch.set_num_threads(threads)


def test_actors_join_and_leave_with_their_nodes(nodes: Any, tmp_path: Path) -> None:
    prepare_torch()
    run, seen = tmp_path / "run", list[bool]()

    def change(trainer: FleetTrainer) -> None:
        """Kills the only actor, lets a node join when there is another one, and kills that node when its
        actor has been learned from. Others are to have the parts of those that are gone."""
        crew, roster = trainer.crew, trainer.crew.roster
        assert roster is not None
        seen.append(wait(lambda: trainer.progress.update >= 2))
        os.kill(crew.ask(0, "describe").pid, signal.SIGKILL)
        seen.append(wait(lambda: Counter(crew.actors) == {1: 4}))
        node = nodes.add_node(num_cpus=1, object_store_memory=STORE)
        seen.append(wait(lambda: Counter(crew.actors) == {1: 2, 2: 2}))
        moved = [m.incarnation for m in crew.members if m.process is not None and m.process.number == 2]
        seen.append(wait(lambda: {*moved} <= {u["incarnation"] for u in trained(run)}))
        nodes.remove_node(node, allow_graceful=False)
        seen.append(wait(lambda: roster.left == 2 and Counter(crew.actors) == {1: 4}))
        at = trainer.progress.update
        seen.append(wait(lambda: trainer.progress.update >= at + 3))

    options = FleetOptions(actors="auto", max_lag=1, envs_per_actor=4, ray=nodes.address)
    said = fleet(run, options, 100_000, meanwhile=change)
    assert seen == [True] * 6, said
    assert [s.split(":")[0] for s in said] == [
        "Actor 0 left, which had 4 of 4 parts",
        "Actor 1 joined.",
        "Actor 2 joined.",
        "Actor 2 left, which had 2 of 4 parts",
    ]
    check_books(run)
    there = rows(run)
    assert {r["fleet.parts"] for r in there} == {4}
    assert {r["fleet.actors"] for r in there} == {1, 2}
    assert (there[-1]["fleet.joined"], there[-1]["fleet.left"]) == (2, 2)
    assert there[-1]["fleet.lost"] <= 4 + 2, "no more than was open"
    assert all(sum(r["fleet.samples.by_actor"]) == 256 for r in there), "updates stay the recipe's"
    # who had a part before was never at it again, and nothing was drawn twice
    lives = [(u["actor"], u["incarnation"]) for u in trained(run)]
    for part in range(4):
        mine = [life for actor, life in lives if actor == part]
        assert mine == sorted(mine)
    drawn = read_table(run / "episodes")
    keys = list(zip(*(drawn[k].tolist() for k in ("family", "member", "episode")), strict=True))
    assert len(set(keys)) == len(keys)
    assert RunFolder.open(run).record.versions["actors"] == "auto"


def test_a_store_that_is_too_small_is_said_in_a_sentence(nodes: Any) -> None:
    with pytest.raises(
        SurefootError, match=rf"need 200 MB of Ray's object store, and .* {STORE / 1e6:.0f} MB"
    ):
        Cluster(nodes.address, 2, 200_000_000)
    assert not import_ray().is_initialized()


def test_a_cluster_with_another_ray_or_python_is_refused(nodes: Any) -> None:
    from ray._private import ray_constants
    from ray._raylet import GcsClient

    where = {"key": b"CLUSTER_METADATA", "namespace": ray_constants.KV_NAMESPACE_CLUSTER}
    client = GcsClient(address=nodes.address)
    true = client.internal_kv_get(**where)
    try:
        other = json.dumps({**json.loads(true), "ray_version": "1.0.0", "python_version": "3.9.1"}).encode()
        client.internal_kv_put(where["key"], other, overwrite=True, namespace=where["namespace"])
        with pytest.raises(
            SurefootError, match=r"runs Ray 1\.0\.0 and Python 3\.9\.1, and this process Ray 2"
        ):
            Cluster(nodes.address, 2, 1)
    finally:
        client.internal_kv_put(where["key"], true, overwrite=True, namespace=where["namespace"])
    assert not import_ray().is_initialized()
