"""Panels: frozen, hashed lists of held-out scenarios, in two halves that share no seed family. Version 1 is a
list as it stands in its file; version 2 is drawn (`drawn_panel`).

The *selection* half may be looked at during training (to stop, to pick a checkpoint); the *confirmation* half
is what a result is stated on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, cast, get_args

from surefoot.contract.errors import SurefootError, unknown
from surefoot.contract.model import Frozen
from surefoot.contract.seeds import SeedPlan

START_POSES = {
    "walk-flat-v1": 0.05,
    "walk-rough-v1": 0.05,
    "walk-anymal-flat-v1": 0.05,
    "walk-anymal-rough-v1": 0.05,
    "walk-biped-flat-v1": 0.02,
}
"""What lists of version 1 do not say: rad by which joints differ from the default pose at the start. Trunks
are at rest."""

Half = Literal["selection", "confirmation", "all"]


def as_half(name: str) -> Half:
    """Returns `name` if it is a half, else an error that suggests one."""
    for half in get_args(Half):
        if name == half:
            return cast(Half, half)
    raise unknown("half", name, get_args(Half))


class Push(Frozen):
    time_s: float
    vx_mps: float
    vy_mps: float


class Terrain(Frozen):
    cls: str = "flat"
    level: int = 0
    key: int = 0


class Scenario(Frozen):
    """One fully determined episode. Initial yaw, joint offsets and sensor noise are drawn by (family,
    member)."""

    family: int
    member: int
    half: Literal["selection", "confirmation"]
    command: tuple[float, float, float]
    friction: float
    payload_kg: float
    com_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    strength: float = 1.0
    kp_scale: float = 1.0
    kd_scale: float = 1.0
    delay_s: float = 0.0
    noise_scale: float = 1.0
    pushes: tuple[Push, ...] = ()
    terrain: Terrain = Terrain()


class Panel(Frozen):
    """Held-out scenarios with the seed plan that keys their remaining draws."""

    schema_version: int = 1
    name: str
    episode_s: float
    seeds: SeedPlan
    scenarios: tuple[Scenario, ...]

    @property
    def version(self) -> int:
        return self.schema_version

    @property
    def size(self) -> int:
        """Returns the seed families in it, which is what --eval-families counts."""
        return len({s.family for s in self.scenarios})

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Returns what its scenarios have, by factor of a contract. Of starts a list says nothing: those of
        the shipped ones are known, else they are the contract's matter."""
        found = seen_ranges(self.scenarios)
        pose = START_POSES.get(self.name.partition("+")[0])
        return found if pose is None else found | {"pose": (-pose, pose), "velocity": (0.0, 0.0)}

    def numbers(self, half: Half, perturbed: bool = False) -> tuple[int, ...]:
        """Returns the places in the panel of the scenarios of a half; with `perturbed`, of those that
        perturbed columns play, which may be fewer."""
        as_half(half)
        return tuple(k for k, s in enumerate(self.scenarios) if half in ("all", s.half))

    def select(self, half: Half, perturbed: bool = False) -> tuple[Scenario, ...]:
        return tuple(self.scenarios[k] for k in self.numbers(half, perturbed))

    def with_scenarios(self, count: int) -> Panel:
        """Returns the panel with `count` scenarios to confirm on, where it is drawn and not a list."""
        if count == len(self.select("confirmation")):
            return self
        raise SurefootError(
            f"Panel {self.name} is a list of version {self.version} with "
            f"{len(self.select('confirmation'))} scenarios to confirm on; leave out --scenarios, or cut it "
            "with --eval-families."
        )

    def with_families(self, count: int) -> Panel:
        """Returns the panel cut to its first `count` seed families; its digest and so the construct id
        change."""
        if count == self.seeds.families:
            return self
        if not 2 <= count <= self.seeds.families or count % 2:
            raise SurefootError(
                f"Panel {self.name} has {self.seeds.families} seed families in two halves; "
                f"use --eval-families with an even number from 2 to {self.seeds.families}."
            )
        kept = tuple(s for s in self.scenarios if s.family < count)
        return self.model_copy(update={"name": f"{self.name}+{count}families", "scenarios": kept})


def seen_ranges(scenarios: Sequence[Scenario]) -> dict[str, tuple[float, float]]:
    """Returns the least and the most that any of the scenarios has, by factor of a contract."""
    seen: dict[str, list[float]] = {}
    for s in scenarios:
        for name, values in factor_values(s).items():
            seen.setdefault(name, []).extend(values)
    return {name: (min(values), max(values)) for name, values in seen.items() if values}


def factor_values(s: Scenario) -> dict[str, tuple[float, ...]]:
    """Returns what a scenario has of each factor of a contract; several numbers where it has several."""
    vx, vy, wz = s.command
    return {
        "friction": (s.friction,),
        "payload": (s.payload_kg,),
        "com": s.com_m,
        "strength": (s.strength,),
        "gains": (s.kp_scale, s.kd_scale),
        "delay": (s.delay_s,),
        "noise": (s.noise_scale,),
        "push": tuple(math.hypot(p.vx_mps, p.vy_mps) for p in s.pushes),
        "vx": (vx,),
        "vy": (vy,),
        "wz": (wz,),
    }
