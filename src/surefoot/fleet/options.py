"""What may be asked of a fleet, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from surefoot.compute import cores
from surefoot.contract import ExternalContract, Recipe, SurefootError, TaskContract, nearest_divisors
from surefoot.fleet.codecs import PLAIN, codec_of

Inference = Literal["local", "central"]
ROOM = 2
"""Actors that may be there at most, for each core that a cluster has when a run begins."""
Correction = Literal["vtrace", "ratio", "none"]
Placement = Literal["pack", "spread"]
ROUNDED = "observations rounded to fp16"
"""What `collection` says of a codec that loses something."""
MOST_LAG = 1
"""Versions that a fragment may be old by where nobody says."""


@dataclass(frozen=True)
class FleetOptions:
    """Says who collects: `actors` processes on Ray, and how they go together with the learner."""

    actors: int | Literal["auto"]
    """How many; auto: one per core that the families can be split over, and where updates do not wait they
    may join and leave while it runs."""
    envs_per_actor: int | None = None
    """Environments of each; None: the recipe's, split evenly. With auto: of each where there are most."""
    sync: bool = False
    """Whether every update waits for all actors, which then are one process to the bit."""
    max_lag: int | None = None
    """Versions of the policy that a fragment may be old by when it is learned from."""
    inference: Inference | Literal["auto"] | None = None
    """Whether the policy acts in each actor, or in one service for all; auto: as is faster, or cheaper where
    there are prices. None, and auto in a run that goes on: as it did before; of a new run, local."""
    ray: str | None = None
    """Address of a Ray cluster; None: one on this machine, for this run."""
    codec: str = PLAIN
    """How fragments are stored on their way."""
    placement: Placement | None = None
    """Whether actors share as few nodes of a cluster as can be, or as many; None: as Ray likes."""
    actor_price: float | None = None
    """Dollars per hour of an actor's core."""
    learner_price: float | None = None
    """Dollars per hour of the machine that learns, and acts where inference is central."""
    imposed_lag: int | None = None
    """For studies, no option of the command line: all experience is exactly so many versions old (in the
    first updates as many as there are). Updates wait for all actors, so the run repeats to the bit."""
    correction: Correction = "vtrace"
    """For studies, no option of the command line: what is done about an older policy's experience. ratio:
    nothing but PPO's own ratio, which then is against the policy that acted; none: it is taken for the
    newest's."""

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
        codec_of(self.codec)
        if self.placement is not None and self.ray is None:
            raise SurefootError(
                "--placement is about the nodes of a cluster, and without --ray there is one; leave it out, "
                "or give the cluster's address with --ray."
            )
        self._check_prices()
        self._check_study()

    def _check_study(self) -> None:
        if self.imposed_lag is not None and (
            self.sync or self.max_lag or self.inference not in (None, "local")
        ):
            raise SurefootError("A lag that is imposed leaves no choice of --sync, --max-lag or --inference.")
        if self.imposed_lag is not None and self.imposed_lag < 0:
            raise SurefootError(f"The imposed lag is {self.imposed_lag}; use 0 or more.")

    def _check_prices(self) -> None:
        given = [p for p in (self.actor_price, self.learner_price) if p is not None]
        if given and self.inference != "auto":
            raise SurefootError("Prices are for choosing where the policy acts; give --inference auto too.")
        if len(given) == 1 or not all(0 < p < float("inf") for p in given):
            raise SurefootError(
                "--actor-price and --learner-price are both needed, in dollars per hour, greater than 0."
            )

    @property
    def prices(self) -> tuple[float, float] | None:
        """Dollars per hour of an actor's core and of the learner's machine; None: they were not given."""
        if self.actor_price is None or self.learner_price is None:
            return None
        return self.actor_price, self.learner_price

    @property
    def waits(self) -> bool:
        """Whether every update waits for a fragment of each actor."""
        return self.sync or self.imposed_lag is not None

    @property
    def lag(self) -> int:
        """The versions that a fragment may be old by."""
        if self.imposed_lag is not None:
            return self.imposed_lag
        return 0 if self.sync else MOST_LAG if self.max_lag is None else self.max_lag

    @property
    def collection(self) -> str:
        """How experience is collected where that is another treatment than one process; "" where it is
        not."""
        return ", ".join(filter(None, (self._late, ROUNDED if codec_of(self.codec).lossy else "")))

    @property
    def _late(self) -> str:
        if self.sync:
            return ""
        how = {"vtrace": "", "ratio": ", corrected by PPO's ratio alone", "none": ", uncorrected"}
        begins = "asynchronous" if self.imposed_lag is None else "by a policy that is kept back"
        return f"{begins}, at most {self.lag} versions old{how[self.correction]}"

    def overrides(self, given: dict[str, object]) -> dict[str, object]:
        """Returns what is to be changed about the recipe, `given` and what the fleet says of it."""
        if self.envs_per_actor is None:
            return given
        if self.actors == "auto":
            return given
        envs = self.actors * self.envs_per_actor
        if given.get("envs", envs) != envs:
            raise SurefootError(
                f"--actors {self.actors} with --envs-per-actor {self.envs_per_actor} makes {envs} "
                f"environments, and --envs says {given['envs']}; leave one of them out."
            )
        return given | {"envs": envs}

    @property
    def elastic(self) -> bool:
        """Whether actors may join and leave while it runs: not where all are waited for, nor where cores are
        reserved for them."""
        return self.actors == "auto" and not self.waits and self.placement is None

    def parts(self, recipe: Recipe, there: int | None = None) -> list[range]:
        """Returns the environments of each actor, or as they are parted where actors may join and leave:
        whole families, as many for each. `there`: cores of the cluster at `ray`; None: not known yet."""
        count = self._count(recipe, there)
        if recipe.families % count:
            near = " or ".join(str(k) for k in nearest_divisors(recipe.families, count))
            raise SurefootError(
                f"{recipe.families} seed families cannot be split over {count} actors; use --actors {near}, "
                f"or a multiple of {count} for --families."
            )
        share = recipe.envs // count
        return [range(k * share, (k + 1) * share) for k in range(count)]

    def check(self, recipe: Recipe, contract: TaskContract | ExternalContract) -> None:
        """Refuses a recipe whose families cannot be split over the actors or whose policy has a memory, and
        a codec that cannot hold the observations of a robot."""
        check_forgetful(recipe)
        self.parts(recipe)
        if codec_of(self.codec).frames and not isinstance(contract, ExternalContract):
            raise SurefootError(
                f"--codec {self.codec} is for frames of whole numbers from 0 to 255, which {contract.name} "
                "does not observe; use fp32 or fp16."
            )

    def _count(self, recipe: Recipe, there: int | None) -> int:
        if self.actors != "auto":
            return self.actors
        if self.envs_per_actor is not None:
            return self._most(recipe, self.envs_per_actor)
        most = cores() if there is None else there * (ROOM if self.elastic else 1)
        return max(k for k in range(1, max(1, most) + 1) if recipe.families % k == 0)

    def _most(self, recipe: Recipe, each: int) -> int:
        """Returns how many actors of `each` environments there can be."""
        family = recipe.envs // recipe.families
        if recipe.envs % each or each % family:
            raise SurefootError(
                f"--envs-per-actor {each} does not part {recipe.envs} environments in {recipe.families} "
                f"families of {family}; use a multiple of {family} that divides {recipe.envs}."
            )
        return recipe.envs // each


def check_forgetful(recipe: Recipe) -> None:
    """Refuses a policy with a memory: actors do not follow it, and fragments do not hold it."""
    if recipe.remembers:
        raise SurefootError(
            f"Fragments of actors have no room for what a policy remembers (--memory {recipe.memory}); "
            "leave out one of --actors and --memory."
        )


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
    """Refuses to go on with a run in another way than it was begun: a fleet whose updates do not wait, or
    whose observations are rounded, is another treatment, and must be asked for again."""
    asked = "" if options is None else options.collection
    if asked == collection:
        return
    if not collection:
        raise SurefootError(
            "This run was collected as by one process; go on with --actors M --sync, or without --actors, "
            "and with no codec that rounds."
        )
    late = collection.startswith("asynchronous")
    how = f"--max-lag {collection.split('at most ')[1].split()[0]}" if late else "--sync"
    how += " --codec fp16" if collection.endswith(ROUNDED) else ""
    raise SurefootError(f"This run was collected {collection}; go on with --actors M {how}.")
