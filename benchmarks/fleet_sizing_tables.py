"""Tables of how fleets are sized: parts, predictions beside fleets, the sweep of environments, and the
protocol with thousands of actors; for tables.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from document import HERE, Block, measured, table

WITHIN = 0.15
SIZING, SWEEP, OWNER, SCALE = (f"fleet_{n}.json" for n in ("sizing", "sweep", "owner", "scale"))


def machines(name: str) -> dict[str, Any]:
    entries: dict[str, Any] = measured(name)["machines"]
    return entries


def per_s(x: float) -> str:
    return f"{x:,.0f}"


def signed(x: float) -> str:
    return f"{100 * x:+.0f}%"


def where(machine: str, entry: dict[str, Any]) -> str:
    """The machine, and the processes that others ran on it before."""
    return f"{machine.replace('(R)', '')}, {entry['cores']} cores, load {entry['load']:.1f}"


def parts() -> str:
    """What was measured of each part, by itself."""
    rows = []
    for machine, entry in machines(SIZING).items():
        for name, part in entry["parts"].items():
            m, c = part["measured"], part["measured"]["crowd"]
            rates = [n * m["horizon"] / t for n, t in zip(m["sizes"], m["fragment_s"], strict=True)]
            hidden = "-".join(map(str, part["hidden"]))
            rows.append(
                [
                    where(machine, entry),
                    f"`{name}`: `{part['task']}` on {part['engine']}, {hidden}, {part['epochs']} epochs",
                    per_s(rates[-1]),
                    f"{c['together_s'] / c['alone_s']:.2f} ({c['actors']})",
                    per_s(m["batches"][-1] / m["learner_s"][-1]),
                    f"{1e3 * m['learner_s'][-1]:.1f} ms for {m['batches'][-1]:,}",
                    f"{m['bytes_per_transition']:,.0f}",
                    f"{1e3 * c['trip_p50_s']:.2f}, {1e3 * c['trip_p99_s']:.2f}",
                ]
            )
    head = ["machine", "part", "one actor, transitions/s", "longer beside each other (actors)"]
    head += [
        "the learner, transitions/s",
        "an update",
        "bytes per transition",
        "a call and back, ms: p50, p99",
    ]
    return table(head, rows)


def compared(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Predictions with the fleets that were measured."""
    runs = {(r["part"], r["actors"]): r for r in entry["runs"]}
    for p in entry["predictions"]:
        if (p["part"], p["actors"]) in runs:
            yield p, runs[p["part"], p["actors"]]


def _row(p: dict[str, Any], r: dict[str, Any]) -> list[str]:
    played = p["simulated"]
    return [
        f"`{p['part']}`",
        str(p["actors"]),
        str(p["envs_per_actor"]),
        p["binds"],
        per_s(p["rate_per_s"]),
        per_s(played["samples_per_s"]),
        f"{per_s(r['rate_per_s'])} ({100 * r['spread']:.0f}%)",
        signed(r["error"]),
        signed(r["simulated_error"]),
        f"{100 * p['utilisation']:.0f}%, {100 * played['busy']:.0f}%, {100 * r['utilisation']:.0f}%",
    ]


def sizing() -> str:
    """Fleets as predicted and as measured, by machine, and how many were within 15%."""
    head = ["part", "actors", "environments each", "what binds", "predicted, transitions/s", "simulated"]
    head += ["measured (spread of five)", "error", "of the simulation"]
    head += ["the learner works: predicted, simulated, measured"]
    out = []
    for machine, entry in machines(SIZING).items():
        pairs = list(compared(entry))
        ten = [r for p, r in pairs if p["among_the_ten"]]
        held = sum(abs(r["error"]) <= WITHIN for r in ten)
        played = sum(abs(r["simulated_error"]) <= WITHIN for r in ten)
        words = f"{where(machine, entry)}: {held} of {len(ten)} predicted within {WITHIN:.0%}, "
        words += f"{played} of {len(ten)} by the simulation."
        out.append(f"{words}\n\n{table(head, [_row(p, r) for p, r in pairs])}")
    return "\n\n".join(out)


def book() -> str:
    """The learner's utilisation over the number of actors."""
    rows = []
    for machine, entry in machines(SIZING).items():
        for p, r in sorted(compared(entry), key=lambda pair: (pair[0]["part"], pair[0]["actors"])):
            if p["part"] in ("book", "walk"):
                what = "sized for it" if p["part"] == "book" else "its own"
                rows.append(
                    [
                        where(machine, entry),
                        what,
                        str(p["actors"]),
                        f"{100 * p['utilisation']:.1f}%",
                        f"{100 * p['simulated']['busy']:.1f}%",
                        f"{100 * r['utilisation']:.1f}%",
                        f"{r['lag_mean']:.2f}",
                    ]
                )
    head = ["machine", "learner", "actors", "predicted", "simulated", "measured", "lag, versions"]
    return _with_plot(table(head, rows), "fleet_sizing.svg", "The learner's share of work over its actors")


def sweep() -> str:
    rows = []
    for machine, entry in machines(SWEEP).items():
        for r in entry["rows"]:
            by_size = dict(zip(r["sizes"], r["rates_per_s"], strict=True))
            flat = "at no size" if r["flat_from"] is None else f"{r['flat_from']:,.0f}"
            row = [where(machine, entry), r["task"], r["name"]]
            row += [per_s(by_size[n]) if n in by_size else "-" for n in (1, 4, 16, 64, 256, 1024)]
            rows.append([*row, f"{1e3 * r['fixed_s']:.2f}", f"{1e6 * r['each_s']:.1f}", flat])
    head = ["machine", "task", "environments", "B = 1", "4", "16", "64", "256", "1,024"]
    head += ["fixed, ms a step", "each, us", "flat from"]
    return _with_plot(
        table(head, rows), "fleet_sweep.svg", "Steps per second over the number of environments"
    )


def owner() -> str:
    rows = [
        [
            where(machine, entry),
            f"{r['open']:,}",
            *(f"{1e3 * r[k]:.3f}" for k in ("wait_s", "ask_s", "get_s", "issue_s", "hang_s")),
        ]
        for machine, entry in machines(OWNER).items()
        for r in entry["rows"]
    ]
    head = ["machine", "open tickets", "waiting for any of them, ms", "asking an actor", "getting a fragment"]
    return table([*head, "giving out tickets", "looking for who hangs"], rows)


def scale() -> str:
    """What the simulation says of fleets up to 10,000 actors."""
    (entry,) = machines(SCALE).values()
    rows = []
    for case in entry["cases"]:
        for r in case["rows"]:
            p = r["played"]
            rows.append(
                [
                    case["name"],
                    f"{r['actors']:,}",
                    per_s(p["samples_per_s"]),
                    f"{p['samples_per_s'] / r['limits']['actors']:.0%}",
                    r["binds"],
                    f"{p['busy']:.0%}",
                    f"{p['crew']:.0%}",
                    f"{p['lag_mean']:.2f}",
                    f"{p['oldest_s']:.2f}",
                    f"{r['owners_needed']:,}",
                ]
            )
    head = [
        "case",
        "actors",
        "transitions/s",
        "of what actors could make",
        "what binds",
        "the learner learns",
    ]
    head += ["the owner takes in", "lag, versions", "age, s: 95 of 100", "owners needed"]
    said = [_breaks(case["name"], case["rows"]) for case in entry["cases"]]
    words = "\n".join(f"- {x}" for x in said)
    plotted = _with_plot(table(head, rows), "fleet_scale.svg", "Rates and shares over the number of actors")
    return f"{words}\n\n{plotted}"


def _breaks(name: str, rows: list[dict[str, Any]]) -> str:
    """Says from how many actors on more of them give little."""
    most = max(r["played"]["samples_per_s"] for r in rows)
    broken = next((r for r in rows if r["binds"] != "actors"), None)
    if broken is None:
        return f"{name}: actors bind up to {rows[-1]['actors']:,}"
    last = rows[-1]
    return (
        f"{name}: from {broken['actors']:,} actors on the {broken['binds']} binds; at most {per_s(most)} "
        f"transitions/s, and {last['owners_needed']:,} learners with an owner each for {last['actors']:,} "
        "actors"
    )


def _with_plot(text: str, plot: str, alt: str) -> str:
    return f"{text}\n\n![{alt}](../../benchmarks/{plot})" if (HERE / plot).exists() else text


def _block(make: Callable[[], str], *sources: str) -> Block:
    """A block that says so where nothing was measured yet."""
    there = tuple(s for s in sources if (HERE / s).exists())
    return Block(make, there) if there == sources else Block(lambda: "*Not measured yet.*", there)


BLOCKS = {
    "fleet parts": _block(parts, SIZING),
    "fleet sizing": _block(sizing, SIZING),
    "fleet utilisation": _block(book, SIZING),
    "fleet sweep": _block(sweep, SWEEP),
    "fleet owner": _block(owner, OWNER),
    "fleet scale": _block(scale, SCALE),
}
