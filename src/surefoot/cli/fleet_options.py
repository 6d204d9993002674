"""Options about a fleet, of the command that trains."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from surefoot.contract import SurefootError

if TYPE_CHECKING:
    from surefoot.fleet import FleetOptions


@dataclass(frozen=True)
class FleetWords:
    """What may be asked of a fleet (docs/guides/fleet.md)."""

    actors: str | None = None
    """Collect in this many processes on Ray, or auto: one per core (optional extra fleet)."""
    envs_per_actor: int | None = None
    """Environments of each actor, where --envs is not to say how many there are in all."""
    sync: bool = False
    """Let every update wait for all actors, which then are one process to the bit."""
    max_lag: int | None = None
    """Versions of the policy that experience may be old by when it is learned from (default: 1)."""
    inference: Literal["local", "central", "auto"] | None = None
    """Where the policy acts: in each actor (local, default), in one service for all, or (auto) where it is
    measured to be faster, or cheaper by the prices."""
    codec: str | None = None
    """How experience is stored on its way: fp32 (default), fp16 (rounded) or uint8 (frames), with +delta,
    +lz4, +zstd or +zlib if you like."""
    actor_price: float | None = None
    """Dollars per hour of an actor's core, for --inference auto."""
    learner_price: float | None = None
    """Dollars per hour of the machine that learns, for --inference auto."""
    placement: Literal["pack", "spread"] | None = None
    """Put actors on as few nodes of the cluster as can be, or on as many (default: as Ray likes)."""
    ray: str | None = None
    """Address of a Ray cluster, HOST:PORT or auto (default: Ray on this machine, for this run)."""

    def options(self) -> FleetOptions | None:
        """Returns what was asked for; None where no fleet was. Anything about one needs --actors."""
        from surefoot.fleet import PLAIN, FleetOptions

        if self.actors is None:
            given = [f.name for f in fields(self) if getattr(self, f.name) not in (None, False)]
            if given:
                named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
                raise SurefootError(f"{named}: this is about a fleet; give --actors M too.")
            return None
        if self.actors != "auto" and not self.actors.lstrip("-").isdecimal():
            raise SurefootError(f"--actors takes a whole number or auto, not '{self.actors}'.")
        return FleetOptions(
            actors="auto" if self.actors == "auto" else int(self.actors),
            envs_per_actor=self.envs_per_actor,
            sync=self.sync,
            max_lag=self.max_lag,
            inference=self.inference,
            ray=self.ray,
            codec=self.codec or PLAIN,
            placement=self.placement,
            actor_price=self.actor_price,
            learner_price=self.learner_price,
        )


NO_FLEET = FleetWords()
