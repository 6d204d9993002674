"""A fleet on a cluster of unequal nodes, for test_placement.py: prints what came of it as one JSON object. A
program of its own, since a process can be connected with one Ray only."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psutil

from surefoot.compute import prepare_torch
from surefoot.contract import SurefootError
from surefoot.fleet import FleetOptions
from surefoot.fleet.on_ray import placement
from surefoot.fleet.on_ray.cluster import import_ray
from surefoot.fleet.on_ray.trainer import FleetTrainer
from surefoot.training import UNOBSERVED, Limits, begin_tracker, make_plan, new_run


def where(ray: Any, options: list[dict[str, Any]]) -> list[str]:
    """The nodes that Ray chooses for actors with these options."""

    class Here:
        def node(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

    there = [ray.remote(Here).options(**o).remote() for o in options]
    nodes = ray.get([h.node.remote() for h in there])
    for h in there:
        ray.kill(h)
    return [str(n) for n in nodes]


def main(folder: Path) -> None:
    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1})
    for count in (3, 1, 1):
        cluster.add_node(num_cpus=count)
    said: dict[str, Any] = {}
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        home = ray.get_runtime_context().get_node_id()
        cores = {n["NodeID"]: n["Resources"].get("CPU") for n in ray.nodes()}
        for how in ("pack", "spread"):
            places = placement.Places(ray, 3, how, "cuda")
            free = ray.available_resources()
            chosen = where(ray, [places.of_actor(k) for k in range(3)])
            said[how] = {
                "cores of their nodes": sorted(cores[n] for n in chosen),
                "nodes": len(set(chosen)),
                "service with the learner": where(ray, [places.of_service()]) == [home],
                "free GPUs": free.get("GPU", 0),
            }
            places.close()
        placement.PATIENCE_S = 2.0
        try:
            placement.Places(ray, 9, "spread", "cpu")
        except SurefootError as error:
            said["refused"] = str(error)
        placement.PATIENCE_S = 30.0
        ray.shutdown()
        said["fleet"] = train(folder, cluster.address)
    finally:
        cluster.shutdown()
    print(json.dumps(said))


def train(folder: Path, address: str) -> dict[str, Any]:
    """Two updates with an actor on each of two nodes."""
    prepare_torch()
    plan = make_plan("tiny:walk", engine="stride")
    run = new_run(plan, str(folder / "run"))
    options = FleetOptions(actors=2, sync=True, ray=address, placement="spread")
    trainer = FleetTrainer(plan, run, options, select=False)
    try:
        raylets = {psutil.Process(trainer.crew.ask(k, "describe").pid).ppid() for k in range(2)}
        trainer.train(Limits(2), UNOBSERVED, begin_tracker(run, "none", False, UNOBSERVED.note))
        return {"nodes": len(raylets), "update": trainer.progress.update, "said": trainer.crew.refusals}
    finally:
        trainer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
