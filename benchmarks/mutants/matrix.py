"""Makes the kill matrix of what run.py left: which detector catches which planted bug, of which size.

    python benchmarks/mutants/matrix.py DIR            writes benchmarks/mutants.json and mutants.svg
    python benchmarks/mutants/matrix.py DIR --show     prints the tables; writes nothing

A bug is caught at a size where an audit of its run has a finding, in every seed that was run; its cause is
named where a finding of every seed has its class, or one of the neighbouring classes that it lists. What
broke off in training, or was not audited, is counted apart and never as caught. Findings on runs without a
bug are false alarms: they stand beside the matrix, by detector. Where there is a run without a bug of the
same task and seed, `changed` says what the bug changed of what a run leaves; nothing: it was not live.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from corpus import CLASSES, HERE, SIZES

sys.path.append(str(HERE.parent))  # what all benchmarks share
from document import Block, measured, table
from machines import commit, device_name

SCHEMA_VERSION = 1
FILE = "mutants.json"
KINDS = ("proof", "behaviour")
Result = dict[str, Any]


def results(folder: Path) -> list[Result]:
    """Reads what run.py left in `folder`."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not found:
        sys.exit(f"There is no JSON in {folder}; make some with run.py --out {folder}.")
    lengths = {r["length"] for r in found}
    if len(lengths) > 1:
        sys.exit(
            f"{folder} has runs of several lengths ({', '.join(sorted(lengths))}); give each its folder."
        )
    return found


def state(result: Result) -> str:
    """Says how far a run got: `broke off`, `not audited` or `audited`."""
    if result["trained"]["exit"]:
        return "broke off"
    return "audited" if "findings" in (result["audit"] or {}) else "not audited"


def matrix(found: Sequence[Result]) -> dict[str, Any]:
    """Returns the kill matrix: bugs by size, detectors, totals, false alarms."""
    bugs: dict[str, Any] = {}
    for r in (r for r in found if r["bug"]):
        about = {k: r[k] for k in ("what", "room", "cause", "also", "held_back", "task")}
        bugs.setdefault(r["bug"], about | {"sizes": {}})["sizes"].setdefault(r["size"], []).append(r)
    clean = [r for r in found if not r["bug"]]
    left = {(r["task"], r["seed"]): r["trained"]["left"] for r in clean if not r["trained"]["exit"]}
    for bug in bugs.values():
        bug["sizes"] = {s: _cell(bug, bug["sizes"][s], left) for s in SIZES if s in bug["sizes"]}
    heard = [r for r in clean if state(r) == "audited"]
    names = {d for b in bugs.values() for c in b["sizes"].values() for d in c["detectors"]}
    alarms = [f["detector"] for r in heard for f in _once(r["audit"]["findings"])]
    return {
        "schema_version": SCHEMA_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cpu": device_name(torch.device("cpu")), "cores": len(os.sched_getaffinity(0))},
        "length": found[0]["length"],
        "audited_at": sorted({str(r["audited_at"]) for r in found if r.get("audited_at")}),
        "seeds": sorted({r["seed"] for r in found}),
        "detectors": sorted(names | set(alarms)),
        "clean": {
            "runs": len(clean),
            "audited": len(heard),
            "with_alarms": sum(bool(r["audit"]["findings"]) for r in heard),
            "alarms": {d: alarms.count(d) for d in sorted(set(alarms))},
        },
        "totals": _totals(bugs),
        "bugs": dict(sorted(bugs.items())),
    }


def _once(findings: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Returns one finding per detector: proof before behaviour."""
    ranked = sorted(findings, key=lambda f: KINDS.index(f["kind"]), reverse=True)
    return list({f["detector"]: f for f in ranked}.values())


def changed(result: Result, left: Mapping[tuple[str, int], Mapping[str, str]]) -> list[str] | None:
    """Returns what of a run differs from what one without a bug left; None where there is none to compare."""
    clean, own = left.get((result["task"], result["seed"])), result["trained"].get("left")
    return None if clean is None or own is None else [k for k in clean if clean[k] != own[k]]


def _cell(
    bug: Mapping[str, Any], runs: Sequence[Result], left: Mapping[tuple[str, int], Mapping[str, str]]
) -> dict[str, Any]:
    """Returns what came of a bug at one size, over its seeds; `left` is what runs without a bug left."""
    states = [state(r) for r in runs]
    heard = [r for r in runs if state(r) == "audited"]
    said = [r["audit"]["findings"] for r in heard]
    findings = [_once(of) for of in said]
    causes = {bug["cause"], *bug["also"]}
    by_detector: dict[str, list[Mapping[str, str]]] = {}
    for f in (f for one in findings for f in one):
        by_detector.setdefault(f["detector"], []).append(f)
    return {
        "state": next((s for s in ("broke off", "not audited") if s in states), "audited"),
        "caught": bool(heard) and all(findings),
        "by_proof": bool(heard) and all(any(f["kind"] == "proof" for f in one) for one in findings),
        "named": bool(heard) and all(any(f["cause"] == bug["cause"] for f in one) for one in said),
        "named_nearly": bool(heard) and all(any(f["cause"] in causes for f in one) for one in said),
        "verdicts": [[r["trained"].get("verdict"), r["verdict_after"]] for r in runs],
        "success": [r["trained"].get("success") for r in runs],
        "changed": [changed(r, left) for r in runs],
        "detectors": {
            d: {"seeds": len(fs), "kind": fs[0]["kind"], "causes": sorted({f["cause"] for f in fs})}
            for d, fs in sorted(by_detector.items())
        },
    }


def _totals(bugs: Mapping[str, Any]) -> dict[str, Any]:
    """Counts bugs by size, of all, of the open ones, of those held back, and of every class."""
    groups: dict[str, Callable[[Mapping[str, Any]], bool]] = {
        "all": lambda b: True,
        "open": lambda b: not b["held_back"],
        "held back": lambda b: bool(b["held_back"]),
    }
    groups |= {c: (lambda b, c=c: b["cause"] == c) for c in CLASSES}
    out: dict[str, Any] = {}
    for name, belongs in groups.items():
        cells = {s: [b["sizes"][s] for b in bugs.values() if belongs(b) and s in b["sizes"]] for s in SIZES}
        counted = ("caught", "by_proof", "named", "named_nearly")
        out[name] = {
            s: {"planted": len(of), "audited": sum(c["state"] == "audited" for c in of)}
            | {k: sum(c[k] for c in of) for k in counted}
            for s, of in cells.items()
            if of
        }
    return {name: sizes for name, sizes in out.items() if sizes}


# ---- tables


def by_class(made: Mapping[str, Any] | None = None) -> str:
    """Returns the table of classes: bugs caught of those audited, by size, and whose cause is named."""
    made = made or measured(FILE)
    head = ["cause", *(f"caught, {s}" for s in SIZES), "by proof", "cause named", "or a neighbour"]
    rows = []
    for name, sizes in made["totals"].items():
        caught = [f"{sizes[s]['caught']} of {sizes[s]['audited']}" if s in sizes else "" for s in SIZES]
        first = sizes.get("full") or next(iter(sizes.values()))
        title = f"**{name}**" if name in ("all", "open", "held back") else name
        rows.append([title, *caught, *(str(first[k]) for k in ("by_proof", "named", "named_nearly"))])
    c = made["clean"]
    alarms = ", ".join(f"{d} {n}" for d, n in c["alarms"].items()) or "none"
    return f"{table(head, rows)}\n\nRuns without a bug: {c['audited']} audited, false alarms: {alarms}."


def by_bug(made: Mapping[str, Any] | None = None) -> str:
    """Returns the table of bugs: who caught each, and the verdict without and with the audit."""
    made = made or measured(FILE)
    head = ["bug", "cause", *SIZES, "cause named", "verdict before", "after"]
    rows = []
    for name, bug in sorted(made["bugs"].items(), key=lambda x: (list(CLASSES).index(x[1]["cause"]), x[0])):
        first = bug["sizes"].get("full") or next(iter(bug["sizes"].values()))
        cells = [_said(bug["sizes"].get(s)) for s in SIZES]
        named = "yes" if first["named"] else "nearly" if first["named_nearly"] else "no"
        before, after = ({str(pair[k]) for pair in first["verdicts"]} for k in (0, 1))
        held = " (held back)" if bug["held_back"] else ""
        rows.append(
            [f"{name}{held}", bug["cause"], *cells, named, *(", ".join(sorted(v)) for v in (before, after))]
        )
    return table(head, rows)


def _said(cell: Mapping[str, Any] | None) -> str:
    """Says in a word or two what came of a bug at one size; nothing where it was not run."""
    if cell is None:
        return ""
    if cell["state"] != "audited":
        return str(cell["state"])
    if not cell["caught"]:
        return "missed" if [] not in cell["changed"] else "missed (not live)"
    return ", ".join(f"**{d}**" if x["kind"] == "proof" else d for d, x in cell["detectors"].items())


BLOCKS = {"mutants": Block(by_class, (FILE,)), "mutants by bug": Block(by_bug, (FILE,))}


def plot(made: Mapping[str, Any], path: Path) -> bool:
    """Draws bugs over detectors, darker where a weaker bug is caught; False where there is nothing to draw,
    or matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    if not made["detectors"] or not made["bugs"]:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    bugs = sorted(made["bugs"].items(), key=lambda x: (list(CLASSES).index(x[1]["cause"]), x[0]))
    detectors = made["detectors"]
    depth = [[_depth(bug, d) for d in detectors] for _, bug in bugs]
    figure, ax = plt.subplots(
        figsize=(4 + 0.3 * len(detectors), 1.5 + 0.16 * len(bugs)), layout="constrained"
    )
    image = ax.imshow(depth, cmap="Blues", vmin=0, vmax=len(SIZES), aspect="auto")
    ax.set_xticks(range(len(detectors)), detectors, rotation=90, fontsize="x-small")
    names = [f"{bug['cause']}: {name}{' *' if bug['held_back'] else ''}" for name, bug in bugs]
    ax.set_yticks(range(len(bugs)), names, fontsize="xx-small")
    ax.set(title="the weakest size that each detector catches (* held back)")
    bar = figure.colorbar(image, ax=ax, ticks=range(len(SIZES) + 1), shrink=0.3)
    bar.ax.set_yticklabels(["missed", *SIZES], fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def _depth(bug: Mapping[str, Any], detector: str) -> int:
    """Returns 0 where a detector never catches a bug, else the number of the weakest size where it does."""
    return max((k for k, s in enumerate(SIZES, 1) if detector in _detectors(bug, s)), default=0)


def _detectors(bug: Mapping[str, Any], size: str) -> Mapping[str, Any]:
    cell: Mapping[str, Any] = bug["sizes"].get(size) or {"detectors": {}}
    detectors: Mapping[str, Any] = cell["detectors"]
    return detectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="what run.py was given as --out")
    parser.add_argument("--out", type=Path, default=HERE.parent / FILE)
    parser.add_argument("--show", action="store_true", help="print the tables, write nothing")
    args = parser.parse_args()
    made = matrix(results(args.folder))
    if args.show:
        print(by_class(made), by_bug(made), sep="\n\n")
        return
    args.out.write_text(json.dumps(made, indent=2) + "\n")
    drawn = plot(made, args.out.with_suffix(".svg"))
    print(f"Wrote {args.out}" + (f" and {args.out.with_suffix('.svg')}" if drawn else ""))


if __name__ == "__main__":
    main()
