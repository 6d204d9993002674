"""`surefoot size`: how many actors keep a learner busy."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import plain_table, say
from surefoot.runs import typed

if TYPE_CHECKING:
    from surefoot.fleet import Sizing
    from surefoot.fleet.on_ray import Measured, Place, Predicted

WHO = {"network": "the link", "actors": "the actors", "learner": "the learner"}
UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


@dataclass(frozen=True)
class SizeCommand:
    """Say how many actors keep a learner busy, and what holds a fleet back. With a task, its environments,
    its policy and its learner are measured here; with --calculate nothing is.

    Example: surefoot size walk-flat --engine mujoco --envs-per-actor 64

    Example: surefoot size --calculate --batch 512 --learner-ms 8 --actor-rate 1000
    """

    task: Positional[str] = ""
    """Task to measure (see `surefoot tasks`)."""
    engine: str = "auto"
    """Simulator that actors would step."""
    device: str = "cpu"
    """Device of the learner."""
    envs_per_actor: int = 64
    """Environments of each actor."""
    calculate: bool = False
    """Compute it, in exact arithmetic, from the figures that are given."""
    batch: str | None = None
    """Transitions that the learner takes at a time (b)."""
    learner_ms: str | None = None
    """Milliseconds that it takes for them (t)."""
    actor_rate: str | None = None
    """Transitions that one actor makes per second (r)."""
    actors: int | None = None
    """Actors of the fleet (default: the fewest that keep the learner busy)."""
    bytes_per_transition: str | None = None
    """Bytes that a transition takes on its way to the learner."""
    link_gbytes: str | None = None
    """What the learner's link carries, in 10^9 bytes per second; with a task, actors are on other machines
    then."""
    dollars_per_hour: float | None = None
    """Price of the learner's machine."""
    dollars_per_actor_hour: float | None = None
    """Price of an actor's core, where it is not in that of the learner's machine."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.fleet import calculate

        if bool(self.task) == self.calculate:
            raise SurefootError(
                "Give a task to measure, or --calculate with --batch, --learner-ms and --actor-rate."
            )
        if self.task:
            return self._measure(console)
        needed = {"--batch": self.batch, "--learner-ms": self.learner_ms, "--actor-rate": self.actor_rate}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise SurefootError(f"--calculate needs {', '.join(missing)} too.")
        sized = calculate(
            self.batch or "",
            self.learner_ms or "",
            self.actor_rate or "",
            actors=self.actors,
            bytes_per_transition=self.bytes_per_transition,
            link_gbytes=self.link_gbytes,
        )
        if self.json:
            print(json.dumps(sized.as_json(), indent=2))
        else:
            print_sizing(console, sized)
        return 0

    def _measure(self, console: Console) -> int:
        from surefoot.fleet.on_ray import better_codec, changes, measure, predict
        from surefoot.training import make_plan

        given = [n for n in ("batch", "learner_ms", "actor_rate", "bytes_per_transition") if getattr(self, n)]
        if given:
            named = ", ".join(f"--{n.replace('_', '-')}" for n in given)
            raise SurefootError(f"{named}: that is measured; leave it out, or give --calculate and no task.")
        if self.envs_per_actor < 1 or (self.actors is not None and self.actors < 1):
            raise SurefootError("--envs-per-actor and --actors take 1 or more.")
        place = self._place()
        plan = make_plan(self.task, engine=self.engine, device=self.device, by_actors=True)
        with tempfile.TemporaryDirectory() as folder:
            m = measure(plan, Path(folder))
        fleet = predict(m, self.envs_per_actor, self.actors, place)
        better = changes(m, fleet, place)
        codec = None if place.link_bytes_per_s is None else better_codec(m, fleet, self.actors, place)
        words = self._command(plan.engine, plan.recipe.families, fleet.actors, codec and codec[0])
        if self.json:
            more = {name: p.as_json() for name, p in better}
            said = {"measured": asdict(m), "fleet": fleet.as_json(), "changes": more, "command": words}
            with_codec = None if codec is None else {"codec": codec[0], **codec[1].as_json()}
            print(json.dumps(said | {"codec": with_codec}, indent=2))
        else:
            print_measured(console, m, fleet, better)
            print_codec(console, m, codec)
            say(console, f"Train it with: {words}")
        return 0

    def _place(self) -> Place:
        from surefoot.fleet import GIGA, exact
        from surefoot.fleet.on_ray import Place

        for price in (self.dollars_per_hour, self.dollars_per_actor_hour):
            if price is not None and not 0 <= price < float("inf"):
                raise SurefootError(f"A price of {price:g} dollars an hour; use 0 or more.")
        if self.dollars_per_hour is None and self.dollars_per_actor_hour is not None:
            raise SurefootError(
                "--dollars-per-actor-hour needs --dollars-per-hour, the learner's price, too."
            )
        link = None if self.link_gbytes is None else float(exact(self.link_gbytes, "--link-gbytes") * GIGA)
        return Place(link, self.dollars_per_hour, self.dollars_per_actor_hour)

    def _command(self, engine: str, families: int, actors: int, codec: str | None) -> str:
        """Returns what to type for such a fleet: with as many actors as share the families, or with other
        families."""
        able = [k for k in range(actors, families + 1) if families % k == 0]
        outside = ":" in self.task and engine == self.task.split(":")[0]
        words = [self.task, *(() if outside else ("--engine", engine))]
        words += ["--actors", str(able[0] if able else actors)]
        words += [] if able or outside else ["--families", str(actors)]
        words += [] if codec is None else ["--codec", codec]
        words += [] if self.device == "cpu" else ["--device", self.device]
        return typed("train", *words, "--envs-per-actor", str(self.envs_per_actor))


def print_measured(
    console: Console, m: Measured, fleet: Predicted, better: list[tuple[str, Predicted]]
) -> None:
    """Shows what was measured, the fleet that follows, and what would make it faster."""
    from surefoot.fleet.on_ray import amortised, shared

    gpu = ("ms on the GPU",) if m.gpu_policy_s else ()
    head = ("environments", "ms per step", "ms of policy", *gpu, "transitions/s of an actor")
    table = plain_table("One core here", *head)
    for k, n in enumerate(m.sizes):
        on_gpu = [f"{1e3 * m.gpu_policy_s[k]:.3f}"] if gpu else []
        rate = n * m.horizon / m.fragment_s[k]
        table.add_row(
            str(n), f"{1e3 * m.step_s[k]:.3f}", f"{1e3 * m.policy_s[k]:.3f}", *on_gpu, f"{rate:,.0f}"
        )
    console.print(table)
    for what, curve, share, of in amortised(m, fleet.envs_per_actor):
        each = curve.each * (1e6 if of != "bytes" else 1e12)
        per = f"{each:,.2f} us per {of.rstrip('s')}" if of != "bytes" else f"{each:,.0f} us per MB"
        flat = "at any size" if curve.flat_from == float("inf") else f"from {curve.flat_from:,.0f} {of} on"
        said = f"{1e3 * curve.fixed:.3f} ms and {per}; "
        said += "nothing is fixed" if not curve.fixed else f"flat {flat}; fixed is {share:.0%} of it here"
        say(console, f"{what}: {said}")
    name, most, fixed = shared(m)
    say(
        console,
        f"Environments of an actor share mostly {name}: {1e3 * most:.3f} of {1e3 * fixed:.3f} ms per step",
    )
    c = m.crowd
    say(
        console,
        f"a call to an actor and back: {1e3 * c.trip_p50_s:.2f} ms, one in a hundred "
        f"{1e3 * c.trip_p99_s:.2f} ms; {c.actors} actors at once take {c.slower:.2f} times as long as one "
        f"alone, and {c.actor_bytes / 1e6:,.0f} MB each",
    )
    table = plain_table("Fleet", "", "")
    table.show_header = False
    table.add_row("actors", f"{fleet.actors} of {fleet.envs_per_actor} environments")
    t, rate = fleet.batch / fleet.limits["learner"], fleet.limits["actors"] / fleet.actors
    table.add_row("an update", f"{fleet.batch:,} transitions in {1e3 * t:,.1f} ms")
    table.add_row(
        "M >= b / (t r)", f"{fleet.batch:,} / ({t:.4g} s x {rate:,.0f}/s) = {fleet.batch / t / rate:,.2f}"
    )
    for what, limit in fleet.limits.items():
        table.add_row(
            f"{what} allow" if what[-1] == "s" else f"the {what} allows", f"{limit:,.0f} transitions/s"
        )
    table.add_row("what binds", fleet.binds)
    table.add_row("learned from", f"{fleet.rate:,.0f} transitions/s")
    table.add_row("the learner works", f"{fleet.utilisation:.0%} of its time")
    table.add_row("bytes per transition", f"{m.bytes_per_transition:,.0f}")
    if fleet.dollars_per_million is not None:
        table.add_row("a million transitions", f"${fleet.dollars_per_million:,.4f}")
    console.print(table)
    for name, p in better:
        binds = "the learner binds" if p.binds == "learner" else f"{p.binds} binds"
        binds = f"the {p.binds} bind" if p.binds[-1] == "s" else binds
        say(console, f"With {name}: {p.rate:,.0f} transitions/s from {p.actors:,} actors; {binds}.")


def print_codec(console: Console, m: Measured, codec: tuple[str, Predicted] | None) -> None:
    """Says which codec suits the link, where one does."""
    if codec is not None:
        size = next(c.bytes_per_transition for c in m.codecs if c.name == codec[0])
        say(
            console,
            f"With --codec {codec[0]}: {codec[1].rate:,.0f} transitions/s, {size:,.0f} bytes each.",
        )


def print_sizing(console: Console, sized: Sizing) -> None:
    """Shows a fleet: its figures, and what binds."""
    table = plain_table("Fleet", "", "")
    table.show_header = False
    table.add_row("actors", f"{sized.actors:,}")
    table.add_row("the learner takes", f"{float(sized.demand_per_s):,.0f} transitions/s")
    table.add_row("the actors make", f"{float(sized.supply_per_s):,.0f} transitions/s")
    table.add_row("learned from", f"{float(sized.rate_per_s):,.0f} transitions/s")
    table.add_row("the learner works", f"{float(sized.learner_utilisation):.1%} of its time")
    if sized.bytes_per_s is not None and sized.bytes_per_s_per_actor is not None:
        each, all_of_them = _bytes(float(sized.bytes_per_s_per_actor)), _bytes(float(sized.bytes_per_s))
        table.add_row("bytes", f"{all_of_them}, {each} from each actor")
    if sized.network_actors is not None:
        table.add_row("the link carries", f"{sized.network_actors:,} actors")
    table.add_row("what binds", WHO[sized.binds])
    console.print(table)


def _bytes(per_second: float) -> str:
    scale, unit = next((u for u in UNITS if per_second >= u[0]), (1.0, "B/s"))
    return f"{per_second / scale:.3g} {unit}"
