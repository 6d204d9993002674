"""Panels: frozen, hashed lists of held-out scenarios, in two halves that share no seed family.

The *selection* half may be looked at during training (to stop, to pick a checkpoint); the *confirmation* half
is what a result is stated on.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import ValidationError

from surefoot.contract.errors import SurefootError, unknown
from surefoot.contract.model import Frozen
from surefoot.contract.seeds import SeedPlan

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

    def numbers(self, half: Half) -> tuple[int, ...]:
        """Returns the places in the panel of the scenarios of a half."""
        as_half(half)
        return tuple(k for k, s in enumerate(self.scenarios) if half in ("all", s.half))

    def select(self, half: Half) -> tuple[Scenario, ...]:
        return tuple(self.scenarios[k] for k in self.numbers(half))

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


def dump_panel(panel: Panel) -> str:
    """Writes the file's text: the digest, then one scenario per line."""
    body = panel.model_dump(mode="json")
    scenarios = ",\n".join(json.dumps(s, separators=(",", ":")) for s in body.pop("scenarios"))
    head = json.dumps(body, separators=(",", ":"))
    return f'{{"digest":"{panel.digest}",\n"panel":{head[:-1]},"scenarios":[\n{scenarios}\n]}}}}\n'


def parse_panel(text: str, where: str) -> Panel:
    try:
        raw = json.loads(text)
        panel = Panel.model_validate(raw["panel"])
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(("panel", *(str(p) for p in first["loc"])))
        raise SurefootError(
            f"{where} is not a panel: field {field}: {first['msg']}; regenerate it."
        ) from error
    except SurefootError as error:  # of a field's own check, which does not know the file
        raise SurefootError(f"{where} is not a panel: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SurefootError(
            f"{where} is not a panel file ({error}); write one with `surefoot panel make`."
        ) from error
    if raw.get("digest") != panel.digest:
        raise SurefootError(
            f"{where} was changed after it was frozen: its digest does not match; regenerate it."
        )
    return panel


def panel_names() -> list[str]:
    return sorted(
        p.name.removesuffix(".json")
        for p in files("surefoot").joinpath("panels").iterdir()
        if p.name.endswith(".json")
    )


def load_panel(name: str) -> Panel:
    """Loads a shipped panel by name, or a panel file by its path."""
    if name.endswith(".json"):
        path = Path(name)
        if not path.is_file():
            raise SurefootError(f"There is no panel file {name}; shipped panels: {', '.join(panel_names())}.")
        return parse_panel(path.read_text(encoding="utf-8", errors="replace"), name)
    if name not in panel_names():
        raise unknown("panel", name, panel_names())
    return parse_panel(
        files("surefoot").joinpath("panels", f"{name}.json").read_text("utf-8"), f"panel {name}"
    )
