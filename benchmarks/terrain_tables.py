"""Tables of the box world and of what predicts it; for tables.py."""

from __future__ import annotations

from typing import Any

from document import Block, measured, table


def by_class() -> str:
    document = measured("box_world.json")
    pairs = document["agreement"]
    geometry, contact, both = (
        pairs[k] for k in ("surface, steep surface", "steep surface, box world", "surface, box world")
    )
    rows = []
    for cls in [*both["terrain"], None]:
        one, two, all_ = ((p["terrain"][cls] if cls else p) for p in (geometry, contact, both))
        if cls:
            values = [one["reference_success"], one["success"], two["success"]]
        else:
            values = [document["scores"][k]["success"] for k in ("surface", "steep surface", "box world")]
        same = [x["success_agreement"] for x in (one, two, all_)]
        rank = all_["rank_correlation"]
        rows.append(
            [cls or "all", str(all_["n"]), *(f"{100 * x:.0f}%" for x in (*values, *same)),
             "-" if rank is None else f"{rank:.2f}"]
        )  # fmt: skip
    head = ["class", "n", "surface", "steep surface", "box world"]
    head += ["same outcome: other geometry", "other contact", "both", "rank correlation of errors, both"]
    return table(head, rows)


def controls() -> str:
    document = measured("box_world.json")
    rows = [[k, _score(s)] for k, s in document["scores"].items()]
    rows += [[k, _score(s)] for k, s in document["on_level_ground"].items() if k.endswith("mujoco")]
    return table(["native MuJoCo", "success"], rows)


def _score(s: dict[str, Any]) -> str:
    low, high = 100 * s["success_low"], 100 * s["success_high"]
    return f"{100 * s['success']:.1f}% ({low:.1f} to {high:.1f}) of {s['episodes']}"


def predictors() -> str:
    rows = []
    for p in measured("predictors.json")["predictors"]:
        rank, span = p["rank_correlation"], p["without_one"]
        said = "-" if rank is None else f"{rank:.2f}"
        rows.append(
            [f"{p['column']}, {p['engine']}", said, f"{span[0]:.2f} to {span[1]:.2f}" if span else "-"]
        )
    return table(["column, engine", "rank correlation over runs", "with one run left out"], rows)


BLOCKS = {
    "box world": Block(by_class, ("box_world.json",)),
    "box world controls": Block(controls, ("box_world.json",)),
    "predictors": Block(predictors, ("predictors.json",)),
}
