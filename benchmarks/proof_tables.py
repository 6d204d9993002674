"""Tables on whether stride is right; tables.py puts them into the documents."""

from __future__ import annotations

from typing import Any

from document import Block, measured, table

Row = dict[str, Any]
SHOWN_S = ("0.2", "1.0")


def machines(name: str) -> dict[str, Row]:
    """What every device gave, CPUs first."""
    entries = measured(name)["machines"].items()
    return dict(sorted(((k, v) for k, v in entries if not v["quick"]), key=lambda kv: kv[1]["cuda"]))


def short(device: str) -> str:
    return device.replace("(R)", "")


# ---- parity.json

ITSELF = {"mujoco off by 1e-6": "MuJoCo off by 1e-6", "mujoco with 4 iterations": "MuJoCo, 4 iterations"}
OTHERS = {
    "mujoco, other diagonal": "other diagonal",
    "mujoco, prisms": "prisms",
    "mujoco on a plane": "on a plane",
}


def figure(x: float) -> str:
    """One digit."""
    x = float(f"{x:.1g}")
    return f"{x:g}" if x == 0 or x >= 0.01 else f"{x:.0e}".replace("e-0", "e-")


def divergence() -> dict[str, dict[tuple[str, ...], Row]]:
    """By device; by robot, ground, motion and engine."""
    names = ("robot", "ground", "motion", "engine")
    return {
        device: {tuple(r[k] for k in names): r for r in machine["divergence"]}
        for device, machine in machines("parity.json").items()
    }


def parity(what: str, motion: str | None = None) -> str:
    """Stride on every device; MuJoCo's own distances are the first's. Median / 90th percentile / maximum."""
    by_device = divergence()
    first = next(iter(by_device.values()))
    columns = {f"stride, {short(device)}": (by_case, "stride") for device, by_case in by_device.items()}
    columns |= {title: (first, engine) for engine, title in ITSELF.items()}

    def cell(distances: dict[tuple[str, ...], Row], case: tuple[str, ...], t: str) -> str:
        return " / ".join(map(figure, distances[case][what][t])) if case in distances else "-"

    cases = dict.fromkeys(case[:3] for by_case in by_device.values() for case in by_case)
    rows = [
        [", ".join(case), *(cell(f, (*case, e), t) for f, e in columns.values() for t in SHOWN_S)]
        for case in cases
        if motion in (None, case[2])
    ]
    return table(["robot, ground, motion", *(f"{title}, {t} s" for title in columns for t in SHOWN_S)], rows)


def closer() -> str:
    """How often stride is closer to the reference than MuJoCo off by 1e-6."""
    titles, rows = ("median", "90th percentile", "maximum"), []
    for device, by_case in divergence().items():
        ours = {case[:3]: row for case, row in by_case.items() if case[3] == "stride"}
        for what, title in (("position_m", "position"), ("orientation_rad", "orientation")):
            pairs = [
                (at, by_case[*case, "mujoco off by 1e-6"][what][t])
                for case, row in ours.items()
                for t, at in row[what].items()
            ]
            counts = [sum(a[k] < b[k] for a, b in pairs) for k in range(len(titles))]
            rows.append([f"{title}, {short(device)}", *(f"{c} of {len(pairs)}" for c in counts)])
    return table(["stride", *titles], rows)


def other_grounds() -> str:
    """Distances of MuJoCo from MuJoCo, median / 90th percentile: none of them is of stride."""
    by_case = next(iter(divergence().values()))

    def cell(case: tuple[str, ...], t: str) -> str:
        return " / ".join(map(figure, by_case[case]["position_m"][t][:2])) if case in by_case else "-"

    cases = dict.fromkeys(case[:3] for case in by_case if case[3] in OTHERS)
    rows = [[", ".join(c[:2]), *(cell((*c, e), t) for e in OTHERS for t in SHOWN_S)] for c in cases]
    return table(["robot, ground", *(f"{x}, {t} s" for x in OTHERS.values() for t in SHOWN_S)], rows)


def itself() -> str:
    """Stride on a device beside stride on the CPU."""
    rows = []
    for device, machine in machines("parity.json").items():
        for r in machine["after_ten_control_steps"]:
            over = f"{round(r['share_over_1e-6_m'] * r['envs'])} of {r['envs']:,}"
            row = [r["robot"], r["second"].replace("cuda", short(device)), f"{r['max_m']:.1e}", over]
            known = "share_grazing" in r  # of spherical feet
            row.append(f"{100 * r['share_grazing']:.1f}%" if known else "-")
            rows.append([*row, f"{r['max_m_of_others']:.1e}" if known else "-"])
    head = ["robot", "against wide, cpu", "largest distance, m", "over 1e-6 m"]
    return table([*head, "with a foot that grazes", "largest of the others, m"], rows)


# ---- adversarial.json


def hostile() -> str:
    rows = []
    for device, machine in machines("adversarial.json").items():
        by = {(r["engine"], r["robot"], r["actions"], r["envs"]): r for r in machine["results"]}
        native = {r["robot"]: r for r in machine["results"] if r["engine"] == "mujoco"}
        for _, name, _, n in [key for key in by if key[0] == "stride" and key[2] == "random"]:
            ours = {kind: by["stride", name, kind, n] for kind in ("random", "bang-bang", "poisoned")}
            theirs, lowest = native.get(name), "lowest_trunk_above_ground_m"
            row = [name, f"{short(device)}, {n:,}", f"{ours['random']['control_steps']:,}"]
            row += [f"{sum(r['nonfinite_values'] for r in ours.values())}", f"{ours['random']['flags']}"]
            row.append(f"{ours['bang-bang']['flags_per_million_steps']:.1f}")
            row.append(f"{theirs['flags_per_million_steps']:.1f}" if theirs else "-")
            row.append(f"{ours['poisoned']['disturbed']} of {ours['poisoned']['beside_poisoned']:,}")
            row.append(" / ".join(f"{ours[kind][lowest]:.3f}" for kind in ("random", "bang-bang")))
            rows.append([*row, f"{theirs[lowest]:.3f}" if theirs else "-"])
    head = ["robot", "device, N", "steps of each kind", "values not finite", "random: flags"]
    head += ["bang-bang: flags per million steps", "MuJoCo, converged", "disturbed beside NaN targets"]
    return table([*head, "lowest trunk, random / bang-bang, m", "MuJoCo's, bang-bang"], rows)


# ---- agreement.json


def score(s: Row) -> str:
    return f"{100 * s['success']:.1f}% ({100 * s['success_low']:.1f} to {100 * s['success_high']:.1f})"


def points(d: Row) -> str:
    return f"{100 * d['value']:+.1f} ({100 * d['low']:+.1f} to {100 * d['high']:+.1f}) points"


def agreement() -> str:
    rows = [
        [
            f"{p['policy']}, {p['panel']} ({p['scenarios']})",
            *(score(p["scores"][engine]) for engine in ("mujoco", "stride")),
            points(p["stride_minus_mujoco"]["success"]),
            f"{100 * p['agreement']['success_agreement']:.0f}%",
        ]
        for p in measured("agreement.json")["policies"]
    ]
    return table(["policy, panel", "on MuJoCo", "on stride", "stride - MuJoCo", "same outcome"], rows)


def level_ground() -> str:
    level = measured("agreement.json")["rough_policy_on_level_ground"]
    rows = []
    for ground in dict.fromkeys(k.split(", ")[0] for k in level):
        both = [level.get(f"{ground}, {engine}") for engine in ("mujoco", "stride")]
        rows.append([ground, *(score(s) if s else "-" for s in both)])
    return table(["level ground", "on MuJoCo", "on stride"], rows)


def other_contacts() -> str:
    document = measured("agreement.json")
    rows = [["surface", score(document["policies"][-1]["scores"]["mujoco"]), "", ""]]
    for name, s in document["rough_policy_with_other_contacts"].items():
        same = f"{100 * s['same_outcome']:.0f}%"
        rows.append([name, score(s), points(s["minus_surface"]["success"]), same])
    return table(["native MuJoCo, walk-rough-v1", "success", "less surface", "same outcome"], rows)


# ---- ground.json


def ground() -> str:
    rows = []
    for name, f in measured("ground.json")["grounds"].items():
        leaning = f"{100 * f['share_leaning_over_5_degrees']:.1f}%"
        rows.append([name, f"{f['contacts_per_sphere']:.2f}", leaning, f"{f['largest_lean_degrees']:.0f}"])
    return table(["level ground", "contacts of a sphere", "lean over 5 degrees", "at most"], rows)


# ---- compile.json


def cold() -> str:
    rows = []
    for device, machine in machines("compile.json").items():
        for r in machine["rows"]:
            times = [f"{r[k]:.2g}" for k in ("cold_s", "cold_processor_s", "warm_s")]
            rows.append([f"{r['robot']}, {r['ground']}", short(device), *times])
    return table(["robot, ground", "device", "cold, s", "of which processor, s", "warm, s"], rows)


TABLES = {
    "ground": ground,
    "parity": lambda: parity("position_m"),
    "orientation": lambda: parity("orientation_rad", "random targets"),
    "closer": closer,
    "other grounds": other_grounds,
    "itself": itself,
    "agreement": agreement,
    "level ground": level_ground,
    "other contacts": other_contacts,
    "hostile": hostile,
    "cold": cold,
}
SOURCES = {
    "ground": "ground.json",
    "parity": "parity.json",
    "orientation": "parity.json",
    "closer": "parity.json",
    "other grounds": "parity.json",
    "itself": "parity.json",
    "agreement": "agreement.json",
    "level ground": "agreement.json",
    "other contacts": "agreement.json",
    "hostile": "adversarial.json",
    "cold": "compile.json",
}
BLOCKS = {name: Block(make, (SOURCES[name],)) for name, make in TABLES.items()}
