"""Tables of what was learned and of how fast engines are; tables.py puts them into the documents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from document import HERE, Block, measured, table
from roofline import Peaks
from surefoot.experiments.studies.record import read_study
from surefoot.statistics import median_interval, rate
from surefoot.terrain import HELD_OUT

STUDIES = ("parallelism-1s", "parallelism-4s", "horizon-1s", "epochs-1s")
VARIED = {"parallelism": "environments", "horizon": "control steps per update", "epochs": "epochs"}
Rate = dict[str, Any]


def percent(x: float, digits: int = 1) -> str:
    return f"{100 * x:.{digits}f}%"


def typical_seed(values: Sequence[float]) -> str:
    """The typical seed and its interval, as everything over training seeds is stated."""
    return f"{percent(statistics.median(values))} {typical_span(values)}"


def typical_span(values: Sequence[float]) -> str:
    low, high, confidence = median_interval(values)
    return f"({percent(low)} to {percent(high)} at {100 * confidence:.3g}%, {len(values)} seeds)"


def study(name: str) -> dict[str, Any]:
    """A study that was measured, judged as today."""
    return read_study(HERE / "studies" / f"{name}.json").model_dump(mode="json")


def interval(f: dict[str, Any]) -> str:
    return f"{percent(f['value'])} ({100 * f['low']:.0f} to {100 * f['high']:.0f})"


# ---- results


def _on_two_cores() -> list[dict[str, Any]]:
    return sorted(measured("learning.json")["runs"], key=lambda r: (r["task"], r["seed"]))


def cpu() -> str:
    """`surefoot train` on two cores, run by run."""
    rows = []
    for r in _on_two_cores():
        f, c = r["figures"], r["confirmation"]
        limits = f"({percent(c['success_low'])} to {percent(c['success_high'])})"
        row = [
            f"`{r['task']}`",
            str(r["seed"]),
            f"{f['train_seconds']:.0f}",
            f"{f['evaluation_seconds']:.0f}",
        ]
        row += [f"{f['samples'] / 1e6:.2f} M", f"{f['steps_per_second']:,.0f}"]
        row += [f"{r['first_95']['train_seconds']:.0f} s", f"**{percent(c['success'])}** {limits}"]
        row += [
            percent(c["fall_rate"]),
            f"{c['velocity_error_mps']:.3f} m/s",
            f"{c['cost_of_transport']:.2f}",
        ]
        rows.append(row)
    head = ["task", "seed", "training s", "+ evaluation s", "samples", "steps/s"]
    head += ["first at 95% on the selection half", "confirmed success (95% interval)"]
    return table([*head, "falls", "velocity error", "cost of transport"], rows)


def perturbed() -> str:
    """The columns of the first seeds."""
    tasks = ("walk-flat", "trot-flat")
    by = {r["task"]: r["confirmation"]["columns"] for r in _on_two_cores() if r["seed"] == 1}
    rows = []
    for walk, trot in zip(*(by[task] for task in tasks), strict=True):
        assert (walk["column"], walk["engine"]) == (trot["column"], trot["engine"])
        limits = f"({100 * walk['success_low']:.0f} to {100 * walk['success_high']:.0f})"
        row = [walk["column"], walk["engine"], f"{percent(walk['success'])} {limits}"]
        rows.append([*row, percent(trot["success"]), "yes" if walk["holds"] else "no"])
    head = ["column", "engine", "`walk-flat` success (95% interval)", "`trot-flat`", "`walk-flat` holds"]
    return table(head, rows)


def throughput() -> str:
    document = measured("cpu_throughput.json")
    rows = [[t["name"], f"{t['value']:.3g}", t["must_be"]] for t in document["targets"]]
    return table(["at dt 0.005 x 4 on native MuJoCo, two cores", "measured", "target"], rows)


def walked(run: dict[str, Any]) -> float | None:
    """Training seconds of the policy that was confirmed: the second of two looks in a row at the mark."""
    at = run["confirmation"]["update"]
    return next((e["train_seconds"] for e in run["curve"] if e["update"] == at), None)


def _on_cuda() -> dict[str, Any]:
    tasks: dict[str, Any] = next(m for m in measured("time_to_walk.json")["machines"].values() if m["cuda"])[
        "tasks"
    ]
    return {task: t for task, t in tasks.items() if " " not in task}  # the others are of another precision


def gpu() -> str:
    """Time to walk on CUDA, every task, seed by seed."""
    rows = []
    for task, t in _on_cuda().items():
        runs = t["runs"]
        first = [f"{r['train_seconds']:.2f}" if r["train_seconds"] else "not reached" for r in runs]
        goal = f"{statistics.median(r['train_seconds'] or 1e9 for r in runs):.2f} ({t['goal']:g})"
        took = ", ".join(f"{walked(r):.2f}" for r in runs)
        sure = [r["confirmation"] for r in runs]
        success, falls = (", ".join(percent(c[k]) for c in sure) for k in ("success", "fall_rate"))
        over = typical_seed([c["success"] for c in sure])
        rows.append([f"`{task}`", ", ".join(first), goal, took, success, over, falls])
    head = [
        "task",
        "training s, first at 95% (seeds 1 to 5)",
        "median (goal)",
        "training s of the confirmed policy",
    ]
    return table([*head, "its success", "typical seed", "falls"], rows)


def engines_agree() -> str:
    """Success of the nominal column on both engines, seed 1 of each task."""
    rows = []
    for r in _on_two_cores():
        for a in r["confirmation"]["agreement"] if r["seed"] == 1 else ():
            row = [f"`{r['task']}`", f"{a['engine']} against {a['reference']}", str(a["n"])]
            rows.append([*row, percent(a["success_agreement"]), f"{a['rank_correlation']:.2f}"])
    return table(
        ["task", "engines", "scenarios", "same outcome", "rank correlation of velocity errors"], rows
    )


def _over_trained(run: dict[str, Any]) -> float:
    counts = [c for name, c in run["classes"]["mujoco"].items() if name not in HELD_OUT]
    return statistics.mean(a / b for a, b in counts)


def unpriced() -> str:
    """What the reward term `torque_limits` costs and saves."""
    rows = []
    for task in ("walk-rough", "walk-anymal-rough"):
        for with_it, name in (("with `torque_limits`", H200), ("without", "learning_h200_unpriced.json")):
            runs = [r for r in measured(name)["runs"] if r["task"] == task]
            up = statistics.mean(a / b for a, b in (r["classes"]["mujoco"]["stairs_up"] for r in runs))
            most = [r["confirmation"]["torque_saturation"] for r in runs]
            cells = [
                f"`{task}`",
                with_it,
                str(len(runs)),
                percent(statistics.mean(map(_over_trained, runs))),
                percent(up),
            ]
            rows.append([*cells, ", ".join(percent(x) for x in most)])
    head = [
        "task",
        "reward",
        "seeds",
        "trained classes",
        "up stairs",
        "steps with a torque at its limit, by seed",
    ]
    return table(head, rows)


def shoved() -> str:
    """Success of seed 1 under pushes, where the closing evaluation had them."""
    rows = []
    for r in measured(H200)["runs"]:
        columns = {c["column"]: c for c in r["confirmation"]["columns"]}
        if r["seed"] == 1 and {"push_1.0", "push_1.5"} <= columns.keys():
            rows.append([f"`{r['task']}`", *(interval(_span(columns[c])) for c in ("push_1.0", "push_1.5"))])
    return table(["seed 1 of", "pushes of 1.0 m/s", "of 1.5 m/s"], rows)


def _span(column: dict[str, Any]) -> dict[str, Any]:
    return {"value": column["success"], "low": column["success_low"], "high": column["success_high"]}


def rough(task: str) -> str:
    """Success by terrain class over seeds, each seed a family."""
    runs = [r for r in measured("learning_h200.json")["runs"] if r["task"] == task]

    def hits(engine: str, cls: str) -> list[tuple[int, int]]:
        return [tuple(r["classes"][engine][cls]) for r in runs]

    def mean(engine: str, cls: str) -> float:
        return statistics.mean(a / b for a, b in hits(engine, cls))

    rows = []
    names = list(runs[0]["classes"]["mujoco"])
    for c in names:
        counts = hits("mujoco", c)
        episodes = [k < a for a, b in counts for k in range(b)]
        families = [i for i, (_, b) in enumerate(counts) for _ in range(b)]
        r = rate(np.array(episodes), np.array(families))
        limits = f"({percent(r.low)} to {percent(r.high)}; n {r.n}, n_eff {r.n_eff:.1f})"
        worst = percent(min(a / b for a, b in counts))
        name = f"{c} (never trained on)" if c in HELD_OUT else c
        rows.append([name, f"{percent(r.value)} {limits}", worst, percent(mean("stride", c))])
    trained = [c for c in names if c not in HELD_OUT]
    by_run = [
        statistics.mean(r["classes"]["mujoco"][c][0] / r["classes"]["mujoco"][c][1] for c in trained)
        for r in runs
    ]
    other = percent(statistics.mean(mean("stride", c) for c in trained))
    typical = f"**{percent(statistics.median(by_run))}** {typical_span(by_run)}"
    rows.append(["**all trained classes**", typical, percent(min(by_run)), other])
    what = f"success on native MuJoCo, Surefoot's surface contact, {len(runs)} seeds"
    return table(["terrain class", what, "worst seed", "on stride"], rows)


ENOUGH = 5
"""Training seeds that an interval over them is given for."""


def runs() -> str:
    """What `surefoot train` itself recorded on the GPU, task by task."""
    every_run = measured("learning_h200.json")["runs"]
    rows = []
    for task in dict.fromkeys(r["task"] for r in every_run):
        of_task = [r for r in every_run if r["task"] == task]
        sure = [r["confirmation"] for r in of_task]
        spent = ", ".join(f"{r['figures']['train_seconds']:.1f}" for r in of_task)
        process = ", ".join(f"{r['process_seconds']:.0f}" for r in of_task)
        success, falls = (", ".join(percent(c[k]) for c in sure) for k in ("success", "fall_rate"))
        over = "-"
        if len(sure) >= ENOUGH:
            over = typical_seed([c["success"] for c in sure])
        safe = ", ".join(percent(c["torque_saturation"]) for c in sure)
        rows.append([f"`{task}`", spent, process, success, over, falls, safe])
    head = [
        "task",
        "training s, seed by seed",
        "whole process, s",
        "confirmed success",
        "typical seed",
        "falls",
        "steps with a torque at its limit",
    ]
    return table(head, rows)


def studies() -> str:
    parts = []
    for name in STUDIES:
        s = study(name)
        for verdict in s["verdicts"]:
            groups = [g for g in s["groups"] if g["budget"] == verdict["budget"]]
            rows = []
            for g in groups:
                f = {k: v["value"] for k, v in g["figures"].items()}
                row = [f"{g['value']:,}", f"{f['train_seconds']:.2f}"]
                row += [f"{f[k] / 1e6:.1f} M" for k in ("samples", "steps_per_second")]
                row += [f"{f[k]:,.0f}" for k in ("block_samples", "n_eff_return")]
                row += [interval(g["figures"][k]) for k in ("success", "disturbed_success")]
                rows.append(row)
            head = [VARIED[s["design"]["kind"]], "training s", "samples", "steps/s", "n of a block"]
            head += ["n_eff of it", "success", "success, pushed"]
            parts += judged(name, verdict, table(head, rows))
    return "\n\n".join(parts)


def judged(name: str, verdict: dict[str, Any], rows: str) -> list[str]:
    sentence = f"**{verdict['sentence']}** ([report](../../benchmarks/studies/{name}.html))"
    return [sentence, rows, "\n".join(f"- {step['sentence']}" for step in verdict["steps"])]


def study_on_two_cores() -> str:
    """Success column by column: a curve over pushes for every value."""
    name = "parallelism-cpu"
    s, parts = study(name), []
    for verdict in s["verdicts"]:
        groups = [g for g in s["groups"] if g["budget"] == verdict["budget"]]
        columns = sorted(groups[0]["columns"], key=lambda c: c != "nominal")
        rows = []
        for g in groups:
            f = {k: v["value"] for k, v in g["figures"].items()}
            row = [f"{g['value']:,}", f"{f['train_seconds']:.0f}", f"{f['samples'] / 1e6:.2f} M"]
            row += [f"{f['steps_per_second']:,.0f}", f"{f['n_eff_return']:,.0f}"]
            rows.append([*row, *(interval(g["columns"][c]) for c in columns)])
        head = [VARIED[s["design"]["kind"]], "training s", "samples", "steps/s", "n_eff of a block"]
        parts += judged(name, verdict, table([*head, *columns], rows))
    return "\n\n".join(parts)


# ---- engines


def engines(cuda: bool) -> dict[str, dict[str, Any]]:
    return {k: m for k, m in measured("engines.json")["machines"].items() if m["cuda"] == cuda}


ENGINES = {"stride": "stride", "mujoco-warp": "MuJoCo Warp", "mjx": "MJX"}


def speed() -> str:
    rates = next(iter(engines(cuda=True).values()))["rates"]
    widths = sorted({r["envs"] for r in rates})
    lines: dict[str, dict[int, float]] = {}
    for r in rates:
        key = f"{ENGINES[r['engine']]}, {r['robot']}, {r['ground']}, {r['plant']}"
        lines.setdefault(key, {})[r["envs"]] = r["steps_per_second"]

    def cell(x: float | None) -> str:
        return "-" if x is None else f"{x / 1e6:.1f} M" if x > 1e6 else f"{x / 1e6:.2f} M"

    rows = [[k, *(cell(line.get(n)) for n in widths)] for k, line in sorted(lines.items(), key=_order)]
    return table(["engine, robot, ground, plant", *(f"N = {n:,}" for n in widths)], rows)


def _order(line: tuple[str, Any]) -> tuple[bool, bool, bool, str]:
    what = line[0]
    return "go1" not in what, "stairs" in what, "stride" not in what, what.replace("plain", "a")


def occupancy() -> str:
    rates = next(iter(engines(cuda=True).values()))["rates"]
    rows = []
    for r in rates:
        k = r.get("kernel", {})
        if "achieved_occupancy" in k:
            bound = min(k["warps"], k["warps_per_sm"] * k["most_warps"] // 64) / k["most_warps"]
            moved = k["bytes_per_step"] * r["steps_per_second"] / 1e9
            row = [f"{r['plant']}, N = {r['envs']:,}", f"{k['registers']:g}", f"{k['local_bytes']:g} B"]
            row += [f"{k['warps']:,}", percent(bound), percent(k["achieved_occupancy"])]
            rows.append([*row, f"{moved:.0f} GB/s"])
    head = ["go1, plane", "registers", "local memory", "warps", "most they can occupy", "achieved", "memory"]
    return table(head, rows)


def flops() -> str:
    """Of a control step, by parts."""
    plants = measured("flops.json")["plants"]
    kinds = {"needed": "needed", "alone": "its lanes", "issued": "issued"}
    order = ("plain", "evaluation")
    figures = {plant: plants[plant]["parts"] | {"all": plants[plant]["all"]} for plant in order}
    rows = [
        [part, *(f"{figures[plant][part][k]:,}" for plant in order for k in kinds)]
        for part in figures["plain"]
    ]
    least = [["", "", f"{figures[plant]['all']['instructions']:,}"] for plant in order]
    rows.append(["instructions, at least", *least[0], *least[1]])
    counts = [
        [f"{plants[plant]['iterations'][k]:.2f}" for k in ("robot", "robot", "warp")] for plant in order
    ]
    rows.append(["iterations of a physics step", *counts[0], *counts[1]])
    head = [f"{plant}, {name}" for plant in order for name in kinds.values()]
    return table(["go1, plane: flops of a control step", *head], rows)


def arithmetic() -> str:
    """The step against the device's peaks, and what lies between them."""
    peaks, plants = Peaks(), measured("flops.json")["plants"]
    rates = next(iter(engines(cuda=True).values()))["rates"]
    case = {"engine": "stride", "robot": "go1", "ground": "plane"}
    by = {(r["plant"], r["envs"]): r for r in rates if case.items() <= r.items()}
    rows = []
    for plant in ("plain", "evaluation"):
        for envs in (4096, 65536):
            r, own = by[plant, envs], plants[plant]["all"]
            needed, issued = (r["steps_per_second"] * own[k] / 1e12 for k in ("needed", "issued"))
            slots = r["steps_per_second"] * own["instructions"] / 1e12 / (peaks.fp32_tflops / 2)
            row = [f"{plant}, N = {envs:,}", f"{own['needed'] / r['kernel']['bytes_per_step']:.0f}"]
            row += [f"{x:.1f} Tflop/s ({percent(x / peaks.fp32_tflops)})" for x in (needed, issued)]
            factors = [own["alone"] / own["needed"], own["issued"] / own["alone"]]
            factors += [2 * own["instructions"] / own["issued"], 1 / slots]
            rows.append([*row, *(f"{x:.2f}" for x in factors)])
    head = ["go1, plane", "flops needed per byte", "needed", "issued"]
    return table([*head, "repeated by lanes", "waiting in warps", "not fused", "slots left empty"], rows)


def _fetching(what: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = next(iter(measured("fetching.json")["machines"].values()))[what]
    return rows


def loops() -> str:
    """Instructions per cycle of a multiprocessor."""
    lengths: dict[int, list[str]] = {}
    for r in _fetching("loops"):
        alone = r["warps"] == 1
        lengths.setdefault(r["instructions"], []).extend(
            f"{r[how]:.2f}" for how in (["together"] if alone else ["together", "apart"])
        )
    rows = [[f"{n:,}", f"{16 * n // 1024} KB", *cells] for n, cells in lengths.items()]
    head = [f"{w} warps, {how}" for w in (4, 8) for how in ("together", "apart")]
    return table(["instructions in the loop", "bytes", "1 warp", *head], rows)


def together() -> str:
    rows = []
    for r in _fetching("steps"):
        rates = [r[k] for k in ("together", "apart", "sums as written")]
        row = [f"{r['robot']}, {r['ground']}, {r['plant']}, N = {r['envs']:,}"]
        row += [f"{x / 1e6:.1f} M" for x in rates]
        rows.append([*row, *(f"{rates[0] / x:.2f}" for x in rates[1:])])
    head = ["control steps per second", "as it is", "warps apart", "sums as written"]
    return table([*head, "over warps apart", "over sums as written"], rows)


def threads() -> str:
    """Rates with one and two threads, and what the second brings."""
    ratios = {
        "stride, 2 over 1": ".2f",
        "stride in two halves, 2 over 1": ".2f",
        "mujoco, 2 over 1": ".2f",
        "stride over stride in two halves": ".0%",
        "stride over mujoco, 1": ".1f",
        "stride over mujoco, 2": ".1f",
    }
    rows = []
    for machine, entry in engines(cuda=False).items():
        by = {(r["robot"], r["ground"], r["envs"], r["engine"], r["threads"]): r for r in entry["rates"]}
        for case in dict.fromkeys(k[:3] for k in by):
            robot, ground, n = case
            pairs = [(engine, count) for engine in ("stride", "mujoco") for count in (1, 2)]
            cells = [f"{by[*case, *pair]['steps_per_second']:,.0f}" for pair in pairs]
            for what, form in ratios.items():
                ratio = entry["ratios"].get(f"{robot}, {ground}, {n}: {what}")
                cells.append("-" if ratio is None else format(ratio, form))
            rows.append([f"{robot}, {ground}", f"{machine}, {n:,}", *cells])
    head = [
        "robot, ground",
        "processor, N",
        "stride, 1 thread",
        "2 threads",
        "MuJoCo C, 1 thread",
        "2 threads",
    ]
    head += ["stride, 2 over 1", "two halves, 2 over 1", "MuJoCo C, 2 over 1", "stride over two halves"]
    return table([*head, "stride over MuJoCo, 1 thread", "2 threads"], rows)


H200 = "learning_h200.json"
BLOCKS = {
    "cpu": Block(cpu, ("learning.json",)),
    "perturbed": Block(perturbed, ("learning.json",)),
    "engines agree": Block(engines_agree, ("learning.json",)),
    "throughput": Block(throughput, ("cpu_throughput.json",)),
    "gpu": Block(gpu, ("time_to_walk.json",)),
    "runs": Block(runs, (H200,)),
    "walk-rough": Block(lambda: rough("walk-rough"), (H200,)),
    "walk-anymal-rough": Block(lambda: rough("walk-anymal-rough"), (H200,)),
    "unpriced": Block(unpriced, (H200, "learning_h200_unpriced.json")),
    "shoved": Block(shoved, (H200,)),
    "studies": Block(studies, tuple(f"studies/{name}.json" for name in STUDIES)),
    "study-cpu": Block(study_on_two_cores, ("studies/parallelism-cpu.json",)),
    "speed": Block(speed, ("engines.json",)),
    "threads": Block(threads, ("engines.json",)),
    "occupancy": Block(occupancy, ("engines.json",)),
    "flops": Block(flops, ("flops.json",)),
    "arithmetic": Block(arithmetic, ("flops.json", "engines.json")),
    "loops": Block(loops, ("fetching.json",)),
    "together": Block(together, ("fetching.json",)),
}
