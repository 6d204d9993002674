"""Every figure on a report page, recomputed from the run's files: Parquet rows, ledger lines, run.json.

    python tests/recompute_page.py runs/<run> [runs/<run>/report.html]

Like recompute.py it uses nothing of Surefoot. A figure that no rule here covers counts as wrong, so a page
cannot show one that is not checked. What is printed must be the checked value, rounded.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from recompute import ENDS, Rows, engines_agree, read, recompute_mean, recompute_rate, same, select

Expected = dict[str, Any]
FEW = 6
"""Episodes below which a group's rate is not printed."""
RATES = {"success": "success", "fall": "fall"}
MEANS = {"velocity_error": "velocity_error_mps", "cost_of_transport": "cost_of_transport"}

HONESTY = (
    "reset_sync_index", "reset_fano", "duplicate_scenarios", "coverage_two_way", "n_eff_return",
    "n_eff_advantage", "icc_return",
)  # fmt: skip


class Figures(HTMLParser):
    """(name, attributes, printed text) of every element with a data-figure."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        self._open = "data-figure" in about
        if self._open:
            self.found.append((str(about["data-figure"]), about, ""))

    def handle_data(self, data: str) -> None:
        if self._open:
            name, about, _ = self.found[-1]
            self.found[-1] = (name, about, data.strip())
        self._open = False


def value(x: Any) -> Expected:
    return {"value": None if x is None else float(x)}


def rate(rows: Rows, name: str = "success", at: np.ndarray | None = None) -> Expected:
    keep = np.ones(len(rows["family"]), bool) if at is None else at
    return recompute_rate(rows[name][keep], rows["family"][keep])


def mean(rows: Rows, name: str) -> Expected:
    return (
        recompute_mean(rows[name], rows["family"], ENDS[name])
        if np.isfinite(rows[name]).any()
        else value(None)
    )


def both(rows: Rows, prefix: str) -> Iterator[tuple[str, Expected]]:
    yield from ((f"{prefix}{k}", rate(rows, c)) for k, c in RATES.items())
    yield from ((f"{prefix}{k}", mean(rows, c)) for k, c in MEANS.items())


def expected(run: Path, dollars_per_hour: float | None) -> dict[str, Expected]:
    record = json.loads((run / "run.json").read_text())
    ledger = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    rows, summary = read(run / "panels" / record["panel"] / "confirmation")
    nominal = select(rows, "nominal", summary["engine"])
    out = dict(both(nominal, ""))
    out |= columns(rows, nominal)
    for tag in summary["transfer"]:
        cls = tag.removeprefix("terrain:")
        if cls != tag:
            out[f"transfer.{tag}"] = rate(nominal, at=nominal["terrain"] == cls)
        else:
            shown = next(c for c in summary["columns"] if c["column"] == tag and c["holds"])
            out[f"transfer.{tag}"] = rate(select(rows, tag, shown["engine"]))
    out |= strata(nominal, record["contract"])
    out |= improved(run / "panels" / record["panel"], record["contract"])
    out |= heat(nominal)
    for name in {x for x in nominal["label"].tolist() if x}:
        out[f"label.{name}"] = rate(nominal | {"is": nominal["label"] == name}, "is")
    out |= of_ledger(ledger, record["strata"])
    figures = record["figures"]
    seconds = figures.get("total_seconds") or sum(
        (figures["train_seconds"], figures["evaluation_seconds"], summary["total_seconds"])
    )
    event = record["contract"]["safety"]["name"]
    out["safety"] = value((nominal[event] * nominal["steps"]).sum() / nominal["steps"].sum())
    speed = [r["steps_per_second"] for r in ledger]
    low, high = np.percentile(speed, [5, 95])
    out["steps_per_second"] = {
        "value": figures["samples"] / figures["train_seconds"], "low": low, "high": high, "n": len(speed)
    }  # fmt: skip
    out["wall_seconds"] = value(seconds)
    out["cost"] = value(None if dollars_per_hour is None else seconds / 3600 * dollars_per_hour)
    return out


def columns(rows: Rows, nominal: Rows) -> dict[str, Expected]:
    """The perturbation table, the baselines of the tiles, and agreement between engines."""
    out: dict[str, Expected] = {}
    keys = dict.fromkeys(zip(rows["column"].tolist(), rows["engine"].tolist(), strict=True))
    for column, engine in keys:
        part = select(rows, column, engine)
        out |= dict(both(part, f"{column}@{engine}."))
        if part["policy"][0] != "trained":
            out |= dict(both(part, f"{column}."))
        if part["perturbation"][0]:
            plain = select(rows, "nominal", engine) if ("nominal", engine) in keys else nominal
            out[f"{column}@{engine}.change"] = value(part["success"].mean() - plain["success"].mean())
        if column == "nominal" and engine != "mujoco" and ("nominal", "mujoco") in keys:
            agreed = engines_agree(select(rows, "nominal", "mujoco"), part)
            out[f"agreement.{engine}.success"] = value(agreed["success_agreement"])
            out[f"agreement.{engine}.rank"] = value(agreed["rank_correlation"])
            for cls, x in agreed["terrain"].items():
                named = f"agreement.{engine}.{cls}"
                out[f"{named}.there"] = value(x["success"])
                out[f"{named}.here"] = value(x["reference_success"])
                out[f"{named}.success"] = value(x["success_agreement"])
                out[f"{named}.rank"] = value(x["rank_correlation"])
    return out


def improved(panels: Path, contract: dict[str, Any]) -> dict[str, Expected]:
    """Success by stratum of the last evaluation on the selection half less that of the first."""
    folders = sorted(panels.glob("selection-update-*"))
    if len(folders) < 2:
        return {}
    first, last = (strata(read(f)[0], contract, alone=("friction", "payload", "command")) for f in
                   (folders[0], folders[-1]))  # fmt: skip
    return {
        k.replace("stratum.", "improved.", 1).replace(".", " ", 2).replace(" ", ".", 1): value(
            last[k]["value"] - first[k]["value"]
        )
        for k in first
        if k.startswith("stratum.")
    }


def strata(rows: Rows, contract: dict[str, Any], alone: tuple[str, ...] = ()) -> dict[str, Expected]:
    """The forest: one line per bin of a factor, and one per cell of those that resets deal; factors with
    one bin only where they may stand `alone`."""
    labels: dict[str, list[str]] = {}
    factors = {f["name"]: f for f in contract["factors"]}
    for name, column in (("friction", "friction"), ("payload", "payload_kg")):
        (low, high), count = factors[name]["train"], factors[name]["bins"]
        edges = [low + k * (high - low) / count for k in range(count + 1)]
        labels[name] = []
        for v in rows[column].tolist():
            k = sum(v >= e for e in edges[1:-1])
            labels[name].append(f"{edges[k]:.3g}..{edges[k + 1]:.3g}")
    zone = contract["command"]["dead_zone"]
    labels["command"] = []
    for x, y, w in zip(rows["command_vx"], rows["command_vy"], rows["command_wz"], strict=True):
        moving = "forward" if x > zone else "backward" if x < -zone else "sideways/turning"
        labels["command"].append(moving if max(abs(x), abs(y), abs(w)) > zone else "stand")
    labels["terrain"] = rows["terrain"].tolist()
    labels["level"] = [str(int(v)) for v in rows["level"].tolist()]
    labels = {k: v for k, v in labels.items() if len(set(v)) > 1 or k in alone}
    out: dict[str, Expected] = {}
    for factor, mine in labels.items():
        for label in set(mine):
            out[f"stratum.{factor}.{label}"] = rate(rows, at=np.array(mine) == label)
    dealt = [n for n in contract["stratify"] if n in labels]
    if len(dealt) > 1:
        cells = [" · ".join(f"{n} {labels[n][i]}" for n in dealt) for i in range(len(rows["family"]))]
        for cell in set(cells):
            out[f"cell.cell.{cell}"] = rate(rows, at=np.array(cells) == cell)
    return out


def heat(rows: Rows) -> dict[str, Expected]:
    out: dict[str, Expected] = {}
    for x in set(rows["command_vx"].tolist()):
        for w in set(rows["command_wz"].tolist()):
            at = (rows["command_vx"] == x) & (rows["command_wz"] == w)
            name = f"{x:g}.{w:g}".replace("-", "−")
            for key, column in (("velocity_error", "velocity_error_mps"), ("yaw_error", "yaw_error_radps")):
                known = rows[column][at & np.isfinite(rows[column])]
                if len(known):
                    out[f"heat.{key}.{name}"] = value(known.mean())
    return out


def of_ledger(ledger: list[dict[str, Any]], strata: list[str]) -> dict[str, Expected]:
    """The newest of everything, but the largest of the first ratio's errors."""

    def last(key: str) -> Any:
        return next((r[key] for r in reversed(ledger) if r.get(key) is not None), None)

    names = {k for r in ledger for k in r if k.startswith(("honesty.", "freshness."))}
    out = {k: value(last(k)) for k in (*names, "kl", "clip_fraction")}
    for name in HONESTY:  # a run of fewer than ten updates was never looked at
        out.setdefault(f"honesty.{name}", value(None))
    out["first_ratio_error"] = value(max(r["first_ratio_error"] for r in ledger))
    for k, label in enumerate(strata):
        out[f"stratum_return.{label}"] = value(last(f"stratum_return.{k}"))
    return out | of_fleet([r for r in ledger if "fleet.issued" in r])


def of_fleet(rows: list[dict[str, Any]]) -> dict[str, Expected]:
    """The newest of most things; means and sums of what is per update. Nothing where no fleet collected."""
    if not rows:
        return {}
    newest = ("actors", "alive", "replaced", "corrected_share", "bytes_per_transition", "issued", "trained",
              "lost", "open", "dropped.stale", "dropped.poisoned", "dropped.unneeded",
              "inference.trip_ms.p50", "inference.trip_ms.p99")  # fmt: skip
    out = {f"fleet.{k}": value(rows[-1].get(f"fleet.{k}")) for k in newest}
    busy, waiting = (sum(r[f"fleet.learner.{k}_s"] for r in rows) for k in ("busy", "waiting"))
    out["fleet.learner.utilisation"] = value(busy / (busy + waiting))
    for key in ("fleet.lag.mean", "fleet.age_s"):
        out[key] = value(sum(r[key] for r in rows) / len(rows))
    given = [sum(of) for of in zip(*(r["family.samples"] for r in rows), strict=True)]
    out |= {f"fleet.family.{k}": value(g) for k, g in enumerate(given)}
    even = sum(given) / len(given)
    return out | {
        "fleet.supply.least": value(min(given) / even),
        "fleet.supply.most": value(max(given) / even),
    }


def printed_as(text: str, exact: float | None) -> bool:
    """Whether `text` is `exact` rounded as far as it is printed."""
    if exact is None:
        return text in ("not measured", "")
    clock = re.fullmatch(r"(?:(\d+) h )?(\d+) min(?: (\d+) s)?", text)
    if clock:
        hours, minutes, rest = (int(x or 0) for x in clock.groups())
        return abs(3600 * hours + 60 * minutes + rest - exact) <= (0.5 if clock[3] else 30)
    found = re.match(r"\$?([+−-]?[\d,]+(?:\.(\d+))?)(e[+-]?\d+)?(%| points)?", text)
    if not found:
        return False
    shown = float((found[1] + (found[3] or "")).replace(",", "").replace("−", "-"))
    unit = 10.0 ** -len(found[2] or "") * float(f"1{found[3] or ''}")
    scales = (100.0,) if found[4] else (1.0, 100.0)  # changes are printed in points without a sign for it
    return any(abs(shown - s * exact) <= 0.5 * unit * (1 + 1e-9) + 1e-12 for s in scales)


def page_differences(
    run: Path, page: Path, dollars_per_hour: float | None = None
) -> dict[str, tuple[Any, Any]]:
    """Figures of the page that are not those of the files: name -> (on the page, recomputed)."""
    rules, wrong = expected(run, dollars_per_hour), {}
    found = Figures(page.read_text("utf-8")).found
    names = {
        "value": "data-value",
        "low": "data-low",
        "high": "data-high",
        "n": "data-n",
        "n_eff": "data-neff",
    }
    for name, about, text in found:
        if name not in rules:
            wrong[name] = ("on the page", "no rule")
            continue
        for key, attribute in names.items():
            if key not in rules[name] and attribute not in about:
                continue
            raw, should = about.get(attribute), rules[name].get(key)
            stated = None if raw is None else float(raw)
            if not same(stated, should):
                wrong[f"{name}.{key}"] = (stated, should)
        stated = about.get("data-value")
        if name.startswith("transfer."):  # the interval is what is printed
            stated, text = about.get("data-low"), text.split(" to ")[0]
        few = name.split(".")[0] in ("stratum", "cell") and int(about.get("data-n") or 0) < FEW
        if few and text == "":  # so few show nothing, and the page says that in words
            continue
        if not printed_as(text, None if stated is None else float(stated)):
            wrong[f"{name}.text"] = (text, stated)
    if not found:
        wrong["page"] = ("no figure", "many")
    return wrong


def main() -> int:
    run = Path(sys.argv[1])
    page = Path(sys.argv[2]) if len(sys.argv) > 2 else run / "report.html"
    wrong = page_differences(run, page)
    checked = len(Figures(page.read_text("utf-8")).found)
    print(wrong or f"all {checked} figures of the page agree")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
