"""What may be asked of a fleet, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from surefoot.compute import cores
from surefoot.contract import Recipe, SurefootError, nearest_divisors

Inference = Literal["local", "central"]
MOST_LAG = 1
"""Versions that a fragment may be old by where nobody says."""


@dataclass(frozen=True)
class FleetOptions:
    """Says who collects: `actors` processes on Ray, and how they go together with the learner."""

    actors: int | Literal["auto"]
    """How many; auto: one per core that the families can be split over."""
    envs_per_actor: int | None = None
    """Environments of each; None: the recipe's, split evenly."""
    sync: bool = False
    """Whether every update waits for all actors, which then are one process to the bit."""
    max_lag: int | None = None
    """Versions of the policy that a fragment may be old by when it is learned from."""
    inference: Inference = "local"
    """Whether the policy acts in each actor, or in one service for all."""
    ray: str | None = None
    """Address of a Ray cluster; None: one on this machine, for this run."""

    def __post_init__(self) -> None:
        if self.actors != "auto" and self.actors < 1:
            raise SurefootError(f"--actors is {self.actors}; use 1 or more, or auto.")
        if self.envs_per_actor is not None and self.envs_per_actor < 1:
            raise SurefootError(f"--envs-per-actor is {self.envs_per_actor}; use 1 or more.")
        if self.max_lag is not None and self.max_lag < 0:
            raise SurefootError(f"--max-lag is {self.max_lag}; use 0 or more.")
        if self.sync and self.max_lag:
            raise SurefootError(
                "--sync learns from what the newest policy did, and --max-lag allows for older ones; leave "
                "one of them out."
            )

    @property
    def lag(self) -> int:
        """The versions that a fragment may be old by."""
        return 0 if self.sync else MOST_LAG if self.max_lag is None else self.max_lag

    @property
    def collection(self) -> str:
        """How experience is collected where that is another treatment than one process; "" where it is
        not."""
        return "" if self.sync else f"asynchronous, at most {self.lag} versions old"

    def overrides(self, given: dict[str, object]) -> dict[str, object]:
        """Returns what is to be changed about the recipe, `given` and what the fleet says of it."""
        if self.envs_per_actor is None:
            return given
        if self.actors == "auto":
            raise SurefootError("--envs-per-actor says nothing without a number of actors; give --actors M.")
        envs = self.actors * self.envs_per_actor
        if given.get("envs", envs) != envs:
            raise SurefootError(
                f"--actors {self.actors} with --envs-per-actor {self.envs_per_actor} makes {envs} "
                f"environments, and --envs says {given['envs']}; leave one of them out."
            )
        return given | {"envs": envs}

    def parts(self, recipe: Recipe) -> list[range]:
        """Returns the environments of each actor: whole families, as many for each."""
        count = self._count(recipe)
        if recipe.families % count:
            near = " or ".join(str(k) for k in nearest_divisors(recipe.families, count))
            raise SurefootError(
                f"{recipe.families} seed families cannot be split over {count} actors; use --actors {near}, "
                f"or a multiple of {count} for --families."
            )
        share = recipe.envs // count
        return [range(k * share, (k + 1) * share) for k in range(count)]

    def check(self, recipe: Recipe) -> None:
        """Refuses a recipe whose families cannot be split over the actors, or whose policy has a memory."""
        if recipe.remembers:
            raise SurefootError(
                f"Fragments of actors have no room for what a policy remembers (--memory {recipe.memory}); "
                "leave out one of --actors and --memory."
            )
        self.parts(recipe)

    def _count(self, recipe: Recipe) -> int:
        if self.actors != "auto":
            return self.actors
        return max(k for k in range(1, cores() + 1) if recipe.families % k == 0)


def check_alone(options: FleetOptions, learner: str, processes: int, keep_block: bool = False) -> None:
    """Refuses a fleet together with what has processes of its own, or asks for every step's reward terms."""
    if keep_block:
        raise SurefootError(
            "Actors send sums of the reward terms, not those of each step, so a whole block cannot be kept; "
            "leave out one of --actors and --keep-block."
        )
    if learner != "ppo":
        raise SurefootError(
            f"--actors collects for Surefoot's own PPO, and {learner} collects by itself; leave out one of "
            "--actors and --learner."
        )
    if processes > 1:
        raise SurefootError("A fleet has one learner; start it without torchrun, or leave out --actors.")


def check_resumed(collection: str, options: FleetOptions | None) -> None:
    """Refuses to go on with a run in another way than it was begun: a fleet whose updates do not wait is
    another treatment, and must be asked for again."""
    asked = "" if options is None else options.collection
    if asked == collection:
        return
    if not collection:
        raise SurefootError(
            "This run was collected as by one process; go on with --actors M --sync, or without --actors."
        )
    lag = collection.split("at most ")[1].split()[0]
    raise SurefootError(f"This run was collected {collection}; go on with --actors M --max-lag {lag}.")
