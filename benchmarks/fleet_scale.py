"""A fleet's protocol played with up to 10,000 actors: where does it break?

    python benchmarks/fleet_scale.py --machine "NVIDIA H200" --part walk     # two minutes
    python benchmarks/fleet_scale.py --quick     # a look at whether it runs
    python benchmarks/fleet_scale.py --plot      # draws fleet_scale.svg from what was written

What actors and the learner take is from fleet_sizing.json, what the owner takes per open ticket from
fleet_owner.json; links and round trips of other machines are assumed, and said in the JSON. Each case changes
one thing about the first:

  as it is                a machine's cores have an actor of 64 environments each; links of 10 Gbit/s; one
                          owner as it is now
  a link of 100 Gbit/s    wider links
  actors of 256           larger fragments
  a blind owner           the owner's work does not grow with the tickets that are open
  any learner             a learner that takes no time, so that only what is around it binds; and the same
                          with wider links, and with both

Several learners are needed where one owner's rate is less than what the actors could give: as many as the one
goes into the other.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from fleet_model import measured_from, spread
from fleet_protocol import Fleet, play
from machines import about, device_name, keep, kept
from surefoot.fleet.on_ray import Measured

HERE = Path(__file__).parent
ACTORS = (1, 4, 16, 64, 256, 1024, 4096, 10_000)
GBIT = 1e9 / 8
TRIP_S = 2e-3
"""Of a call to another machine and back: assumed, with Ray's own share as measured here in it."""


def cases(m: Measured, owner: dict[str, float]) -> dict[str, Any]:
    """By name: from a number of actors to a fleet."""
    watch = owner["each"]

    def fleet(actors: int, envs: int = 64, gbit: float = 10.0, watches: bool = True, **changes: Any) -> Fleet:
        f = spread(m, actors, envs, link_bytes=gbit * GBIT, trip_s=TRIP_S, watch_s=watch * watches)
        return replace(f, receive_s=f.receive_s + owner["fixed"], **changes)

    return {
        "as it is": fleet,
        "a link of 100 Gbit/s": lambda n: fleet(n, gbit=100.0),
        "actors of 256": lambda n: fleet(n, envs=256),
        "a blind owner": lambda n: fleet(n, watches=False),
        "any learner": lambda n: fleet(n, update_s=1e-6),
        "any learner, 100 Gbit/s": lambda n: fleet(n, gbit=100.0, update_s=1e-6),
        "any learner, 100 Gbit/s, a blind owner": lambda n: fleet(
            n, gbit=100.0, watches=False, update_s=1e-6
        ),
    }


def limits(f: Fleet) -> dict[str, float]:
    """Transitions per second that each part allows, by itself."""
    machines = math.ceil(f.actors / f.per_machine)
    working = min(f.actors, machines * f.cores)
    return {
        "actors": working * f.fragment / f.collect_s,
        "learner": f.actors * f.fragment / (f.update_s + f.publish_s),
        "network": f.fragment * f.link_bytes / f.fragment_bytes,
        "owner": f.fragment / (f.receive_s + f.watch_s * f.actors),
    }


def row(f: Fleet, updates: int) -> dict[str, Any]:
    begun = time.perf_counter()
    played, bounds = play(f, updates), limits(f)
    rest = min(v for k, v in bounds.items() if k != "actors")
    return {
        "actors": f.actors,
        "fleet": asdict(f),
        "played": asdict(played),
        "limits": bounds,
        "binds": min(bounds, key=lambda k: bounds[k]),
        "owners_needed": math.ceil(bounds["actors"] / rest),
        "took_s": time.perf_counter() - begun,
    }


def plot(entry: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    by_name = {c["name"]: c["rows"] for c in entry["cases"]}
    for name, rows in by_name.items():
        n = [r["actors"] for r in rows]
        left.plot(n, [r["played"]["samples_per_s"] for r in rows], marker="o", label=name)
    supply = by_name["as it is"]
    n = [r["actors"] for r in supply]
    left.plot(
        n, [r["limits"]["actors"] for r in supply], color="gray", linestyle="--", label="what actors make"
    )
    left.set(xscale="log", yscale="log", xlabel="actors", ylabel="transitions/s that are learned from")
    left.legend(fontsize="x-small")
    left.grid(alpha=0.3)
    for name, style in (("as it is", "-"), ("any learner, 100 Gbit/s", "--")):
        rows = by_name[name]
        for what, label in (("busy", "the learner learns"), ("crew", "the owner takes in")):
            shares = [r["played"][what] for r in rows]
            right.plot(n, shares, marker="o", linestyle=style, label=f"{label}, {name}")
    right.set(xscale="log", xlabel="actors", ylabel="share of the time", ylim=(0, 1.02))
    right.legend(fontsize="x-small")
    right.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(f"Wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--machine", help="whose parts (default: the first that there is)")
    parser.add_argument("--part", default="walk", help="of fleet_sizing_plan.json")
    parser.add_argument("--sizing", type=Path, default=HERE / "fleet_sizing.json")
    parser.add_argument("--owner", type=Path, default=HERE / "fleet_owner.json")
    parser.add_argument("--quick", action="store_true", help="few actors, to see that it runs")
    parser.add_argument("--plot", action="store_true", help="only draw what was played before")
    parser.add_argument("--out", type=Path, default=HERE / "fleet_scale.json")
    args = parser.parse_args()
    cpu = torch.device("cpu")
    if not args.plot:
        sized, owners = kept(args.sizing), kept(args.owner)
        machine = args.machine or next(iter(sized))
        m = measured_from(sized[machine]["parts"][args.part]["measured"])
        where = device_name(cpu)
        owner = owners[where]["fragment"]
        entry = {
            **about(cpu, args.quick),
            "parts_of": machine,
            "part": args.part,
            "owner_of": where,
            "assumed": {"trip_s": TRIP_S, "links_gbit": [10.0, 100.0]},
            "cases": [],
        }
        for name, made in cases(m, owner).items():
            entry["cases"].append({"name": name, "rows": []})
            for actors in ACTORS[:4] if args.quick else ACTORS:
                last = row(made(actors), 20 if actors <= 256 else 8)
                entry["cases"][-1]["rows"].append(last)
                print(
                    f"{name}, {actors:,} actors: {last['played']['samples_per_s']:,.0f}/s, "
                    f"{last['binds']} binds; learner {last['played']['busy']:.0%}, "
                    f"owner {last['played']['crew']:.0%}; "
                    f"took {last['took_s']:.1f} s",
                    flush=True,
                )
            keep(args.out, cpu, entry, schema_version=1)
    plot(next(iter(kept(args.out).values())), args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
