"""How the shipped panels of version 1 are made: bit for bit the same wherever `surefoot panel make` is run.
Those of version 2 are in `panel_recipes`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from surefoot.contract.drawn_panel import draw_panel
from surefoot.contract.errors import unknown
from surefoot.contract.panel import Panel, Push, Scenario, Terrain
from surefoot.contract.panel_files import with_root
from surefoot.contract.panel_recipes import RECIPES
from surefoot.contract.seeds import Channel, SeedPlan

PANEL_ROOT = 20_260_101
PER_FAMILY = 8
FRICTIONS = (0.4, 0.7, 1.1)
PAYLOADS = (-1.0, 0.0, 1.0)
FLAT_COMMANDS = tuple(
    itertools.product((-1.0, -0.5, 0.0, 0.5, 1.0), (-0.5, 0.0, 0.5), (-1.0, -0.5, 0.0, 0.5, 1.0))
)
BIPED_COMMANDS = tuple(itertools.product((-0.4, 0.0, 0.3, 0.6), (-0.25, 0.0, 0.25), (-0.7, 0.0, 0.7)))
ROUGH_COMMANDS = tuple(itertools.product((0.4, 0.7), (-0.2, 0.0, 0.2), (-0.4, 0.0, 0.4)))


def walk_flat_v1() -> Panel:
    """512 scenarios x 10 s: command grid x friction x payload x one push of 0.5 to 1.0 m/s between 3 and 6
    s."""
    seeds = SeedPlan(root=PANEL_ROOT, split="eval", families=64, envs=64 * PER_FAMILY)
    return _panel("walk-flat-v1", seeds, FLAT_COMMANDS, lambda at: Terrain(), push=(0.5, 1.0))


def walk_rough_v1() -> Panel:
    """320 scenarios x 10 s over ten terrain classes, two of them never trained on, at levels 2, 4 and 6."""
    seeds = SeedPlan(root=PANEL_ROOT + 1, split="eval", families=40, envs=40 * PER_FAMILY)
    return _panel("walk-rough-v1", seeds, ROUGH_COMMANDS, _terrain(2, 4, 6), push=(0.3, 0.6))


def walk_anymal_flat_v1() -> Panel:
    """walk-flat-v1 with payloads for a robot of 52 kg."""
    seeds = SeedPlan(root=PANEL_ROOT + 2, split="eval", families=64, envs=64 * PER_FAMILY)
    return _panel(
        "walk-anymal-flat-v1",
        seeds,
        FLAT_COMMANDS,
        lambda at: Terrain(),
        push=(0.5, 1.0),
        payloads=(-5, 0, 5),
    )


def walk_anymal_rough_v1() -> Panel:
    """walk-rough-v1 with payloads for a robot of 52 kg, at levels 4, 6 and 8 for its longer legs."""
    seeds = SeedPlan(root=PANEL_ROOT + 3, split="eval", families=40, envs=40 * PER_FAMILY)
    return _panel(
        "walk-anymal-rough-v1",
        seeds,
        ROUGH_COMMANDS,
        _terrain(4, 6, 8),
        push=(0.3, 0.6),
        payloads=(-5, 0, 5),
    )


def walk_biped_flat_v1() -> Panel:
    """512 scenarios x 10 s for a robot of 3.1 kg and 0.5 m: slower commands, of which one in 36 is to stand,
    lighter payloads, pushes of 0.2 to 0.4 m/s."""
    seeds = SeedPlan(root=PANEL_ROOT + 4, split="eval", families=64, envs=64 * PER_FAMILY)
    return _panel(
        "walk-biped-flat-v1",
        seeds,
        BIPED_COMMANDS,
        lambda at: Terrain(),
        push=(0.2, 0.4),
        payloads=(-0.25, 0, 0.25),
    )


def _terrain(*levels: int) -> Callable[[int], Terrain]:
    # Names and not imports: a frozen panel must not follow a list that grows.
    classes = (
        "flat",
        "rough",
        "slope_up",
        "slope_down",
        "stairs_up",
        "stairs_down",
        "boxes",
        "wave",
        "curbs",
        "stones",
    )

    def terrain(at: int) -> Terrain:
        # Keys from 1000 on: the atlas that training builds uses small keys.
        return Terrain(cls=classes[at % 10], level=levels[at // 10 % 3], key=1000 + at // 30 % 4)

    return terrain


def _panel(
    name: str,
    seeds: SeedPlan,
    commands: tuple[tuple[float, float, float], ...],
    terrain: Callable[[int], Terrain],
    push: tuple[float, float],
    payloads: tuple[float, float, float] = PAYLOADS,
) -> Panel:
    scenarios = []
    stride = 31  # coprime to the 75, the 36 and the 18 commands: neighbours in a family differ
    for env in range(seeds.envs):
        family, member = int(seeds.family_of(env)), int(seeds.member_of(env))
        at = family // 2 * PER_FAMILY + member  # ordinal within the half
        when, angle, size, load = (float(u) for u in seeds.uniforms(env, 0, Channel.PUSH, 4))
        speed = push[0] + (push[1] - push[0]) * size
        turn = 2 * math.pi * angle
        scenarios.append(
            Scenario(
                family=family,
                member=member,
                half="selection" if family % 2 == 0 else "confirmation",
                command=commands[at * stride % len(commands)],
                friction=FRICTIONS[family // 2 % 3],
                payload_kg=payloads[int(3 * load)],
                pushes=(
                    Push(
                        time_s=round(3.0 + 3.0 * when, 2),
                        vx_mps=round(speed * math.cos(turn), 4),
                        vy_mps=round(speed * math.sin(turn), 4),
                    ),
                ),
                terrain=terrain(at),
            )
        )
    return Panel(name=name, episode_s=10.0, seeds=seeds, scenarios=tuple(scenarios))


MAKERS: dict[str, Callable[[], Panel]] = {
    "walk-flat-v1": walk_flat_v1,
    "walk-rough-v1": walk_rough_v1,
    "walk-anymal-flat-v1": walk_anymal_flat_v1,
    "walk-anymal-rough-v1": walk_anymal_rough_v1,
    "walk-biped-flat-v1": walk_biped_flat_v1,
}


def make_panel(name: str, scenarios: int | None = None, root: int | None = None) -> Panel:
    """Makes a shipped panel. Those of version 2 can have more or fewer `scenarios` to confirm on (a longer
    list begins with the shorter one), and be drawn by another `root` seed."""
    if name not in {*MAKERS, *RECIPES}:
        raise unknown("panel", name, {*MAKERS, *RECIPES})
    panel = MAKERS[name]() if name in MAKERS else draw_panel(name, RECIPES[name].draw, RECIPES[name].root)
    panel = panel if root is None else with_root(panel, root)
    return panel if scenarios is None else panel.with_scenarios(scenarios)
