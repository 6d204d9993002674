"""What the site's reference takes from the code itself: a page has it where it says `<!-- made: what -->`.

Made anew at every build, so it cannot be out of date.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

DOORS = (
    "tasks", "robots", "terrain", "engines", "env", "policy", "learners", "contract", "statistics", "runs",
    "evidence", "evaluation",
)  # fmt: skip
"""Rooms whose names programs import, in the order in which a reader may want them."""


def filled(page: str) -> str:
    """The page with everything that it asks for in its place."""
    return re.sub(r"^<!-- made: (\S+) -->$", lambda asked: MADE[asked[1]](), page, flags=re.MULTILINE)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *rows))


def prose(text: str | None) -> str:
    """Words of the code as Markdown: what is not in backticks is taken literally."""
    parts = re.split(r"(`[^`]*`)", text or "")
    return "".join(p if p[:1] == "`" else re.sub(r"([<>*_|\[\]])", r"\\\1", p) for p in parts)


def cell(text: str | None) -> str:
    return " ".join(prose(text).split())


# ---- the command line


def commands() -> Iterator[tuple[str, type]]:
    """Every command that can be typed, by its words."""
    from surefoot.cli.verbs import VERBS, Group

    for name, verb in VERBS.items():
        if isinstance(verb, Group):
            yield from ((f"{name} {inner}", command) for inner, command in verb.verbs.items())
        else:
            yield name, verb


def cli() -> str:
    from surefoot.cli.help import documents, examples, explained, paragraphs, typed_as
    from surefoot.cli.parser import options_of

    parts = []
    for name, command in commands():
        says = documents(command)
        rows = [
            ["`" + typed_as(o).replace("|", "\\|") + "`", cell(explained(o, says[o.path]))]
            for o in options_of(command)
        ]
        parts += [f"## surefoot {name}"]
        parts += [prose(p) for p in paragraphs(command) if not p.startswith("Example")]
        shown = [typed + (f"   # {why}" if why else "") for typed, why in examples(command)]
        parts += ["```\n" + "\n".join(shown) + "\n```"] if shown else []
        parts += [table(["argument or option", "what it says"], rows)] if rows else []
    return "\n\n".join(parts)


# ---- Python


def signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", text)  # names without their modules
    return text.replace("'", "").replace("<factory>", "...")


def described(thing: Any) -> str:
    """Its own docstring; what a class inherits from a library says nothing of it."""
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    text = inspect.cleandoc(own) if own else ""
    if re.match(r"\w+\(.*\) *$", text.split("\n")[0]) or callable(thing) is False:
        return ""  # a dataclass without a sentence of its own; a constant
    return text


def entry(name: str, thing: Any, level: int) -> list[str]:
    made = (inspect.isclass(thing) or inspect.isroutine(thing)) and not name.isupper()
    if not made:
        return []
    parts = [
        f"{'#' * level} {prose(name)}",
        f"```python\n{name}{signature(thing)}\n```",
        prose(described(thing)),
    ]
    if inspect.isclass(thing):
        for method, f in vars(thing).items():
            f = f.__func__ if isinstance(f, classmethod | staticmethod) else f
            if method[0] == "_" or method == "model_post_init":
                continue
            if isinstance(f, property) and f.__doc__:
                parts.append(f"- `.{method}`: {cell(f.__doc__)}")
            elif inspect.isfunction(f) and f.__doc__:
                parts.append(f"- `.{method}{signature(f)}`: {cell(f.__doc__)}")
    return [p for p in parts if p]


def public(module: Any) -> list[str]:
    return sorted(getattr(module, "__all__", ()), key=lambda n: (n.isupper(), n.lower()))


def api() -> str:
    """The names of the package itself, each with all that it says."""
    import surefoot

    parts = [
        p
        for name in public(surefoot)
        if name != "__version__"
        for p in entry(name, getattr(surefoot, name), 3)
    ]
    return "\n\n".join(parts)


def doors() -> str:
    parts = []
    for room in DOORS:
        module = importlib.import_module(f"surefoot.{room}")
        parts += [f"## surefoot.{room}", prose(inspect.getdoc(module))]
        names = public(module)
        for name in names:
            parts += entry(name, getattr(module, name), 3)
        constants = [n for n in names if not entry(n, getattr(module, n), 3)]
        if constants:
            parts.append("Constants: " + ", ".join(f"`{n}`" for n in constants) + ".")
    return "\n\n".join(parts)


# ---- what a deployer needs, task by task


def numbers(values: Sequence[float]) -> str:
    """One number where all are equal."""
    return f"{values[0]:g}" if len(set(values)) == 1 else ", ".join(f"{x:g}" for x in values)


@cache
def card_tasks() -> list[Any]:
    from surefoot.tasks import task, task_names

    return [task(name) for name in task_names()]


def observations() -> str:
    """The layout of every task's observation."""
    parts = []
    layouts: dict[Any, list[str]] = {}
    for t in card_tasks():
        layouts.setdefault(t.contract.observation, []).append(f"`{t.contract.name}`")
    for terms, tasks in layouts.items():
        rows, first = [], 0
        for t in terms:
            noise = f"±{t.noise:g}" if t.noise else "none"
            rows.append([f"{first} to {first + t.size - 1}", f"`{t.name}`", t.unit, noise, f"{t.scale:g}"])
            first += t.size
        parts += [
            f"{', '.join(tasks)}: {first} numbers.",
            table(["place", "term", "unit", "noise", "scale"], rows),
        ]
    return "\n\n".join(parts)


def actions() -> str:
    rows = []
    for t in card_tasks():
        c, r = t.contract, t.robot
        prior = c.prior
        gait = (
            f"{prior.clock_hz:g} Hz, offsets {numbers(prior.offsets)}, lift {prior.lift_rad:g} rad"
            if prior
            else "none"
        )
        delay = c.factor("delay").train[1]
        rows.append([f"`{c.name}`", f"`{r.name}`", f"{c.action.scale_rad:g} rad", f"±{c.action.clip:g}",
                     f"{t.recipe.control_hz:g} Hz", gait, f"{1e3 * delay:g} ms"])  # fmt: skip
    head = ["task", "robot", "action scale", "clip", "control rate", "prior", "longest delay trained with"]
    return table(head, rows)


def joints() -> str:
    """Joint by joint, for every robot that a task has."""
    parts = []
    for r in {t.robot.name: t.robot for t in card_tasks()}.values():
        rows = [
            [str(k), f"`{name}`", *(f"{x:g}" for x in figures)]
            for k, (name, *figures) in enumerate(
                zip(
                    r.joints,
                    r.default_pose,
                    r.joint_low,
                    r.joint_high,
                    r.kp,
                    r.kd,
                    r.torque_limit_nm,
                    strict=True,
                )
            )
        ]
        head = [
            "place",
            "joint",
            "default pose, rad",
            "lowest",
            "highest",
            "kp, N m/rad",
            "kd, N m s/rad",
            "torque limit, N m",
        ]
        feet = ", ".join(f"`{f}`" for f in r.feet)
        stands = f"{r.mass_kg:.2f} kg, stands at {r.stand_height_m:.3f} m; feet in order: {feet}."
        parts += [f"### {r.name}", stands, table(head, rows)]
    return "\n\n".join(parts)


def ends() -> str:
    """Limits of an episode, task by task."""
    rows = []
    for t in card_tasks():
        c = t.contract
        by = {e.name: e.params for e in c.terminations}
        row = [f"above {by['tilted']['gravity_z']:g}", f"below {by['sunk']['height_m']:g} m"]
        row += [f"{c.success.velocity_error_mps:g} m/s", f"{c.success.yaw_error_radps:g} rad/s"]
        rows.append([f"`{c.name}`", *row, f"{c.success.settle_s:g} s", f"{c.command.dead_zone:g}"])
    head = ["task", "`tilted`: gravity z", "`sunk`: trunk height", "success: velocity error below"]
    return table([*head, "yaw-rate error below", "after", "dead zone"], rows)


def listed(values: Iterable[float]) -> str:
    """Different values in order."""
    return ", ".join(f"{v:g}" for v in sorted(set(values)))


def panels() -> str:
    """What the scenarios of each shipped panel have."""
    from surefoot.contract import MAKERS

    rows = []
    for name, make in MAKERS.items():
        p = make()
        s = p.scenarios
        vx, vy, wz = (listed(x.command[k] for x in s) for k in range(3))
        stand = sum(x.command == (0, 0, 0) for x in s if x.half == "confirmation")
        pushes = [q for x in s for q in x.pushes]
        speeds, times = [math.hypot(q.vx_mps, q.vy_mps) for q in pushes], [q.time_s for q in pushes]
        classes = {x.terrain.cls for x in s}
        levels = f"{len(classes)} classes, levels {listed(x.terrain.level for x in s)}"
        row = [f"`{name}`", f"{len(s)} in {len({x.family for x in s})} families", f"{p.episode_s:g} s"]
        row += [f"{len({x.command for x in s})}: vx {vx}; vy {vy}; wz {wz}", str(stand)]
        row += [listed(x.friction for x in s), listed(x.payload_kg for x in s)]
        row += [f"{min(speeds):.2f} to {max(speeds):.2f} m/s at {min(times):g} to {max(times):g} s"]
        rows.append([*row, "plane" if classes == {"flat"} else levels])
    head = ["panel", "scenarios", "episode", "commands (m/s, m/s, rad/s)", "told to stand, confirmation half"]
    return table([*head, "frictions", "payloads, kg", "one push each", "ground"], rows)


def drawn_panels() -> str:
    """What the panels of version 2 are drawn from."""
    from surefoot.contract import make_panel
    from surefoot.contract.panel_recipes import RECIPES

    def both(s: Any) -> str:
        more = " or ".join(f"{a:g} to {b:g}" for a, b in s.bands)
        return f"{s.inner[0]:g} to {s.inner[1]:g}" + (f" ({more})" if more else "")

    rows = []
    for name, recipe in RECIPES.items():
        p, d = make_panel(name), recipe.draw
        confirm = p.select("confirmation")
        kinds = ", ".join(f"{k.share} {k.name}" for k in d.kinds)
        ground = (
            "plane" if set(d.grounds) == {"flat"} else f"{len(d.grounds)} classes, levels {listed(d.levels)}"
        )
        row = [
            f"`{name}`",
            str(len(p.select("selection"))),
            str(len(confirm)),
            str(d.perturbed),
            ground,
            kinds,
        ]
        row += [str(sum(not any(s.command) for s in confirm))]
        rows.append([*row, *(both(d.spans[k]) for k in SPANS)])
    head = ["panel", "to select", "to confirm", "of a column", "ground", "commands", "told to stand"]
    return table([*head, *(f"{k} (beyond)" for k in SPANS)], rows)


SPANS = ("friction", "payload", "com", "strength", "gains", "delay", "noise", "push")


def power() -> str:
    """What n scenarios can show."""
    from surefoot.statistics import HOLDS_AT, RELIABLE_AT, smallest_true_rate

    def least(n: int, at: float) -> str:
        found = smallest_true_rate(n, at)
        return "never" if found is None else f"{100 * found:.1f}%"

    sizes = (16, 64, 128, 256, 320, 640, 1024, 2048)
    rows = [[str(n), least(n, HOLDS_AT), least(n, RELIABLE_AT)] for n in sizes]
    return table(["scenarios", f"holds (from {HOLDS_AT:.0%})", f"Reliable (from {RELIABLE_AT:.0%})"], rows)


def factors() -> str:
    """What training randomises, task by task where robots differ."""
    tasks = {t.contract.name: t.contract for t in card_tasks()}
    parts, seen = [], {}
    for name, c in tasks.items():
        seen.setdefault(c.factors, []).append(f"`{name}`")
    for rows_of, names in seen.items():
        rows = []
        for f in rows_of:
            train = ", ".join(f.categories) if f.categories else f"{f.train[0]:g} to {f.train[1]:g}"
            held = (
                ", ".join(f.held_out_categories)
                if f.categories
                else f"{f.held_out[0]:g} to {f.held_out[1]:g}"
            )
            rows.append([f"`{f.name}`", f.unit, f.level, train, held or "the panel's"])
        parts += [
            f"{', '.join(names)}:",
            table(["factor", "unit", "drawn per", "training", "held out, within"], rows),
        ]
    return "\n\n".join(parts)


# ---- audits


def detectors() -> str:
    """Every detector by what it looks at, with all that it says of itself."""
    from surefoot.audits import LACKS, applies, by_area, needed
    from surefoot.audits import detectors as every

    parts = []
    for area, of in by_area(every().values()).items():
        parts += [f"## {area}"]
        for d in of:
            on = "the proof" if d.kind == "proof" else "the behaviour"
            rows = [
                ["statistic", cell(d.statistic)],
                ["threshold", cell(d.threshold)],
                ["a finding", f"is on {on}, cause *{d.cause}*: {cell(d.means)}"],
                ["what to do", cell(d.remedy)],
                ["applies to", ", ".join(k for k in LACKS if applies(d, k)) + f"; needs {needed(d)}"],
                ["short form", "yes" if d.short else "no"],
            ]
            parts += [f"### {d.name}", prose(d.asks), table([f"`{d.name}`", ""], rows)]
    return "\n\n".join(parts)


def audits_apply() -> str:
    """Which detectors apply to which kinds of runs."""
    from surefoot.audits import LACKS, applies
    from surefoot.audits import detectors as every

    rows = [
        [f"[{d.name}](#{d.name})", d.kind, *("yes" if applies(d, k) else "no" for k in LACKS)]
        for d in every().values()
    ]
    return table(["detector", "on the", *LACKS], rows)


def live_checks() -> str:
    from surefoot.training import LIVE_CHECKS

    return table(["check", "holds a run to"], [[f"`{k}`", cell(v)] for k, v in LIVE_CHECKS.items()])


MADE = {
    "detectors": detectors, "audits-apply": audits_apply, "live-checks": live_checks,
    "cli": cli, "api": api, "doors": doors, "observations": observations, "actions": actions,
    "joints": joints, "ends": ends, "panels": panels, "factors": factors,
    "drawn panels": drawn_panels, "power": power,
}  # fmt: skip
