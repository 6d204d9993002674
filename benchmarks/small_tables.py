"""Tables of intervals, panels, success, batch honesty and environments from outside; for tables.py."""

from __future__ import annotations

import statistics
from typing import Any

from document import Block, measured, table


def coverage() -> str:
    """How often the nominal 95% intervals held the truth, by kind."""
    cases = measured("interval_coverage.json")["cases"]
    rows = []

    def row(what: str, some: list[dict[str, Any]]) -> None:
        held = [c["coverage"] for c in some]
        rows.append([what, str(len(some)), f"{100 * min(held):.1f}%", f"{100 * statistics.mean(held):.1f}%"])

    for exact, how in ((False, ""), (True, ", built on exact bounds")):
        for kind in dict.fromkeys(c["interval"] for c in cases):
            some = [c for c in cases if c["interval"] == kind and c["exact"] == exact]
            if some:
                row(kind + how, some)
        if not exact:
            row("**all of these**", [c for c in cases if not c["exact"]])
    return table(["interval", "designs", "lowest coverage", "average"], rows)


def beyond() -> str:
    cases = measured("interval_coverage.json")["beyond"]
    rows = [[c["families"], c["values"], f"{100 * c['coverage']:.1f}%"] for c in cases]
    return table(["families", "of which", "coverage of the mean"], rows)


def study_verdicts() -> str:
    """What studies of six comparisons say, by truth and seeds."""
    found = measured("study_verdicts.json")

    def share(x: float) -> str:
        return f"{100 * x:.1f}%"

    rows = []
    for c in found["cases"]:
        said, any_of, old = c["of_comparisons"], c["of_studies_with_any"], c["plain_t_of_comparisons"]
        rows.append(
            [
                c["truth"]["name"],
                f"{100 * c['median_difference']:+.1f}",
                str(c["seeds"]),
                share(said["helped"]),
                share(any_of["helped"]),
                share(said["made it worse"]),
                share(said["no difference that matters"]),
                f"{share(old['helped'])} / {share(old['made it worse'])}",
            ]
        )
    head = ["truth", "typical seed, points", "seeds", "helped", "any helped in a study", "made it worse"]
    head += ["no difference that matters", "plain t: helped / worse"]
    return table(head, rows)


def looks() -> str:
    """What sequential confirmation holds, and what looking without an allowance would."""
    found = measured("sequential_coverage.json")
    rows = []
    for c, plain in zip(found["cases"], found["without_allowance"], strict=True):
        row = [f"{c['truth']:.0%}", f"{100 * c['coverage']:.1f}%", f"{100 * c['reliable']:.1f}%"]
        row += [
            f"{c['scenarios']:,.0f}",
            f"{100 * plain['coverage']:.1f}%",
            f"{100 * plain['reliable']:.1f}%",
        ]
        rows.append(row)
    head = ["true success", "coverage at stopping", "called Reliable", "scenarios, on average"]
    return table([*head, "coverage without allowance", "called Reliable without"], rows)


def panel_cost() -> str:
    rows = [
        [
            f"`{c['panel']}`",
            str(c["scenarios"]),
            f"{c['columns']} of {c['of a column']}",
            f"{c['episodes']:,}",
            f"{c['headline_seconds']:.0f} s",
            f"{c['seconds']:.0f} s",
        ]
        for c in measured("panel_cost.json")["cases"]
    ]
    head = ["panel", "scenarios", "columns", "episodes in all", "headline on native MuJoCo", "all of it"]
    return table(head, rows)


def recipes(file: str = "recipes.json") -> str:
    """Every recipe's policies as version 1 and version 2 judge them."""
    rows = []
    for r in measured(file)["rows"]:
        said = [f"{100 * r[k]['success']:.1f}% ({100 * r[k]['low']:.1f}% up)" for k in ("v1", "v2")]
        held = sum(bool(c[2]) for c in r["columns"].values())
        boxes = [sum(x) for x in zip(*r["boxes"].values(), strict=True)]
        row = [
            f"`{r['task']}`",
            r["seed"],
            f"{r['train_seconds']:.1f}",
            said[0],
            f"**{said[1]}**",
            r["verdict"],
        ]
        row += [f"{r['standing'][0]} of {r['standing'][1]}", f"{held} of {len(r['columns'])}"]
        rows.append([*map(str, row), f"{100 * boxes[0] / boxes[1]:.1f}%" if boxes else "-"])
    head = ["task", "seed", "training s", "version 1", "version 2", "verdict", "told to stand: still"]
    return table([*head, "columns that hold", "box world"], rows)


def oracles() -> str:
    found = measured("success_rule.json")["oracles"]
    shares = [k for k in found[0] if k not in ("panel", "rule", "scenarios")]
    rows = [[f"`{o['panel']}`", o["rule"], *(f"{100 * o[k]:.1f}%" for k in shares)] for o in found]
    return table(["panel", "rule", *shares], rows)


def _spread(case: dict[str, Any], name: str) -> str:
    """Median, and 95 of 100."""
    q = case["quantiles"][name]
    return "-" if q is None else f"{q[1]:.3f}, {q[2]:.3f}"


def gaits() -> str:
    rows = []
    for c in measured("success_rule.json")["policies"]:
        if c["how"] == "told to stand":
            continue
        row = [f"`{c['policy']}`", c["how"], f"{100 * c['success by instantaneous errors alone']:.1f}%"]
        row += [f"{100 * c['success']:.1f}%", f"{100 * c['success of those told to move']:.1f}%"]
        names = ("window_velocity_error_mps", "window_yaw_error_radps", "vibration_radps")
        names += ("cost_of_transport", "foot_slip_per_m", "foot_clearance_m")
        rows.append(row + [_spread(c, k) for k in names])
    head = ["policy", "", "success before", "success", "of those told to move"]
    head += ["velocity error of windows, m/s: median, 95%", "yaw, rad/s", "vibration, rad/s"]
    return table([*head, "cost of transport", "slip, m/m", "clearance, m"], rows)


def standing() -> str:
    rows = []
    for c in measured("success_rule.json")["policies"]:
        if c["how"] != "told to stand":
            continue
        row = [f"`{c['policy']}`", f"{100 * c['success by instantaneous errors alone']:.1f}%"]
        row += [f"{100 * c['success']:.1f}%", f"{100 * c['falls']:.1f}%"]
        names = ("stand_drift_m", "stand_turn_rad", "stand_speed_mps", "stand_joint_speed_radps")
        labels = ", ".join(f"{k} {v}" for k, v in c["labels"].items())
        rows.append([*row, *(_spread(c, k) for k in names), labels])
    head = ["policy", "success before", "success", "falls", "drift, m: median, 95%", "turn, rad"]
    return table([*head, "speed, m/s", "joints, rad/s", "labels"], rows)


def pushed_windows() -> str:
    cases = measured("success_rule.json")["policies"]
    kept = [(c["policy"], v) for c in cases for k, v in c.items() if k.startswith("windows not as told")]
    names = list(dict.fromkeys(k for _, v in kept for k in v))
    rows = [[name, *(f"{100 * v[name]:.1f}%" if name in v else "-" for _, v in kept)] for name in names]
    return table(["window", *(f"`{policy}`" for policy, _ in kept)], rows)


def honesty() -> str:
    rows = []
    for c in measured("honesty_cost.json")["cases"]:
        row = [
            f"{c['envs']:,} x {c['horizon']}",
            f"{1e3 * c['look_s']:.1f} ms",
            f"{1e3 * c['update_s']:,.0f} ms",
        ]
        rows.append([*row, f"{100 * c['share_as_done']:.2f}%"])
    return table(
        ["environments x steps", "a look", "an update", "share of training, every tenth update"], rows
    )


def outside() -> str:
    rows = []
    for r in measured("outside.json"):
        limits = f"({100 * r['success_low']:.0f} to {100 * r['success_high']:.0f})"
        what = r["success_is"].split(",")[0]
        returns = [
            f"{r['returns'][k]['mean']:,.0f} ± {r['returns'][k]['std']:,.0f}"
            for k in ("trained", "zero", "random")
        ]
        success = f"{100 * r['success']:.0f}% {limits} of {r['episodes']}: {what}"
        rows.append([f"`{r['task']}`", f"{r['samples']:,}", success, *returns])
    return table(["environment", "samples", "held-out success", "return", "zero", "random"], rows)


BLOCKS = {
    "coverage": Block(coverage, ("interval_coverage.json",)),
    "coverage beyond": Block(beyond, ("interval_coverage.json",)),
    "study verdicts": Block(study_verdicts, ("study_verdicts.json",)),
    "looks": Block(looks, ("sequential_coverage.json",)),
    "panel cost": Block(panel_cost, ("panel_cost.json",)),
    "recipes": Block(recipes, ("recipes.json",)),
    "recipes on two cores": Block(lambda: recipes("recipes_cpu.json"), ("recipes_cpu.json",)),
    "oracles": Block(oracles, ("success_rule.json",)),
    "honest gaits": Block(gaits, ("success_rule.json",)),
    "standing": Block(standing, ("success_rule.json",)),
    "pushed windows": Block(pushed_windows, ("success_rule.json",)),
    "honesty": Block(honesty, ("honesty_cost.json",)),
    "outside": Block(outside, ("outside.json",)),
}
