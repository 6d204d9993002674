"""Where the processes of a fleet run on a cluster.

The learner is the process that was started, on its own node: there it has a core and, where it works on a GPU
that Ray counts, that GPU; the inference service is beside it. Actors have a core each, on as few nodes as can
be (pack) or on as many (spread). Where nobody says which, Ray places actors as it likes, and nothing is kept
for the learner.
"""

from __future__ import annotations

from typing import Any

from surefoot.contract import SurefootError
from surefoot.fleet.options import Placement

PATIENCE_S = 30.0
"""Seconds in which a cluster must find room for a fleet."""
SLIVER = 0.001
"""Part of a GPU that is asked for to be let near one."""
NODE = "ray.io/node-id"


class Places:
    """Says with which options Ray begins a fleet's processes."""

    def __init__(self, ray: Any, actors: int, how: Placement | None, device: str) -> None:
        self._ray, self.device = ray, device
        """Where the learner works, and the service acts."""
        self._home = ray.get_runtime_context().get_node_id()
        self._seat: Any = None
        """What is reserved for the learner."""
        self._room: Any = None
        """What is reserved for actors, and how many of them."""
        if how is None:
            return
        there = self._resources()
        seat = {"CPU": 1.0} | ({"GPU": 1.0} if device.startswith("cuda") else {})
        seat = {k: v for k, v in seat.items() if there.get(k, 0.0) >= v}
        if seat:
            self._seat = self._reserve([seat], "PACK", [{NODE: self._home}], "the learner on its own node")
        self._room = self._reserve([{"CPU": 1.0}] * actors, how.upper(), None, f"{actors} actors"), actors

    def _resources(self) -> dict[str, float]:
        """Returns what the learner's node has."""
        mine = [n for n in self._ray.nodes() if n["NodeID"] == self._home]
        return dict(mine[0]["Resources"]) if mine else {}

    def _reserve(
        self, bundles: list[dict[str, float]], strategy: str, where: list[dict[str, str]] | None, whom: str
    ) -> Any:
        from ray.util import placement_group

        group = placement_group(bundles, strategy=strategy, bundle_label_selector=where)
        if not group.wait(PATIENCE_S):
            free = self._ray.available_resources().get("CPU", 0.0)
            self._give_back(group)
            self.close()
            raise SurefootError(
                f"The cluster has no room for {whom}: {free:g} cores are free; use fewer --actors, or leave "
                "out --placement."
            )
        return group

    def of_actor(self, number: int) -> dict[str, Any]:
        """Returns the options of actor `number`. One beyond those that were reserved for goes anywhere."""
        options: dict[str, Any] = {"num_cpus": 1, "scheduling_strategy": "DEFAULT"}
        if self._room is not None and number < self._room[1]:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._room[0])
        return options

    def of_service(self) -> dict[str, Any]:
        """Returns the options of the inference service: on the learner's node, where weights come from."""
        from ray.util.scheduling_strategies import (
            NodeAffinitySchedulingStrategy,
            PlacementGroupSchedulingStrategy,
        )

        gpu = self.device.startswith("cuda") and self._resources().get("GPU", 0.0) > 0
        where: Any = NodeAffinitySchedulingStrategy(self._home, soft=False)
        if self._seat is not None:
            where = PlacementGroupSchedulingStrategy(self._seat, placement_group_bundle_index=0)
        return {"num_cpus": 0, "num_gpus": SLIVER if gpu else 0, "scheduling_strategy": where}

    def note(self) -> str:
        """Says that the learner is not where a GPU is; "" where it is, or there is none."""
        gpus = [n for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("GPU", 0.0) > 0]
        if not gpus or self.device.startswith("cuda"):
            return ""
        named = ", ".join(sorted({str(n["NodeManagerAddress"]) for n in gpus}))
        return (
            f"The learner works on the CPU, and the cluster has a GPU on {named}; start it there to use it."
        )

    def close(self) -> None:
        """Gives back what was reserved."""
        for group in (self._seat, self._room and self._room[0]):
            self._give_back(group)
        self._seat = self._room = None

    def _give_back(self, group: Any) -> None:
        from ray.util import remove_placement_group

        if group is not None and self._ray.is_initialized():
            remove_placement_group(group)
