"""Whether two results were measured alike, and in what their policies were treated differently."""

from __future__ import annotations

from typing import Any

from surefoot.contract import Field, construct_fields, differences, digest, interface_fields, recorded_code
from surefoot.runs import Result
from surefoot.statistics import ColumnSummary


def construct_difference(a: Result, b: Result) -> tuple[Field, ...]:
    """Returns the fields in which two results were measured differently, nested ones by their dotted name.

    Fields decide, and ids with them. Of sensors only those that both policies have can differ in noise: one
    that a policy does not have is a matter of its interface.
    """
    left, right = _measurement(a), _measurement(b)
    differs = differences(left, right)
    both = _observed(a) & _observed(b)
    return tuple(f for f in differs if not f.name.startswith("noise.") or f.name.split(".")[1] in both)


def _measurement(result: Result) -> dict[str, Any]:
    """Returns what must match, for the column that the result is of. Ids were computed again when it was
    read."""
    run, summary = result.run, result.summary
    if summary.measurement_id:
        version = summary.engines.get(result.engine, "")
        return {**summary.measurement, "engine": {"name": result.engine, "version": version}}
    fields = construct_fields(run.contract, summary.panel, summary.panel_digest, run.evaluation_plant)
    if digest(fields) != summary.construct_id:
        fields["metrics_version"] = f"not {fields['metrics_version']}, or fields of another Surefoot version"
    return fields | {
        "version": 1,
        "engine": {"name": result.engine, "version": ""},
        "id": summary.construct_id,
    }


def _observed(result: Result) -> set[str]:
    return {t.name for t in result.run.contract.observation}


def column_difference(a: Result, b: Result, column: str) -> tuple[Field, ...]:
    """Compares what a column's perturbation makes of the panel: it is only the same if that is."""
    left, right = (
        next(
            (_shift(c) for c in r.summary.columns if (c.column, c.engine) == (column, r.engine)),
            {"source": ""},
        )
        for r in (a, b)
    )
    return differences(left, right, f"perturbation {column}.")


def _shift(column: ColumnSummary) -> dict[str, str]:
    """What a perturbation does: its effect, or its source where only that was recorded."""
    return {"shift": column.shift} if column.shift else {"source": column.source}


def columns_difference(a: Result, b: Result) -> tuple[Field, ...]:
    """Compares all columns that both results have, and the versions of the engines that they were run on."""
    left, right = (
        {f"{c.column} on {c.engine}": _shift(c) for c in r.summary.columns} | _versions(r) for r in (a, b)
    )
    return differences(
        {k: v for k, v in left.items() if k in right}, {k: v for k, v in right.items() if k in left}
    )


def _versions(result: Result) -> dict[str, Any]:
    return {f"version of {engine}": v for engine, v in result.summary.engines.items()}


def interface_difference(a: Result, b: Result) -> tuple[Field, ...]:
    """Returns in what the interfaces of two policies differ: what they see, do, remember and are handed."""
    return differences(_interface(a), _interface(b), "interface.")


def _interface(result: Result) -> dict[str, Any]:
    run = result.run
    if run.interface:
        return run.interface
    return interface_fields(run.contract, run.recipe.control_hz, recorded_code({}, {}), run.recipe.remembers)


def other_signals(a: Result, b: Result) -> tuple[str, ...]:
    """Names the sensors with noise that are called alike and are not the same function at the same scale:
    what their noise is worth may then differ, whatever its half-width."""
    left, right = (_interface(r)["observation"] for r in (a, b))
    known = a.run.interface and b.run.interface
    return tuple(
        name
        for name in left
        if known and name in right and left[name]["noise"] and _signal(left[name]) != _signal(right[name])
    )


def _signal(term: dict[str, Any]) -> tuple[Any, ...]:
    return term["size"], term["unit"], term["scale"], term["source"]


def training_difference(a: Result, b: Result) -> tuple[Field, ...]:
    """Returns in what two treatments differ: factor ranges, rewards, recipe, plant, engine, learner, seed."""

    def treatment(result: Result) -> dict[str, Any]:
        run = result.run
        contract = run.contract.model_dump(mode="json", exclude={"success", "safety", "panel"})
        named = ("factors", "rewards", "observation", "privileged", "terminations")
        for name in (n for n in named if n in contract):
            contract[name] = {x["name"]: x for x in contract[name]}
        return {
            "contract": contract,
            "recipe": run.recipe.model_dump(mode="json"),
            "plant": run.training_plant.model_dump(mode="json") if run.training_plant else None,
            "engine": run.engine,
            "learner": run.learner,
            "seed": run.seeds.root,
            "samples": run.figures.get("samples"),
            "training_id": run.training_id,
        }

    return differences(treatment(a), treatment(b))
