"""A study on disk: study.json, study.csv and study.html beside the run folders that they speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from surefoot.artifacts import atomic_write, csv_text, parse, read_json, write_json
from surefoot.contract import Frozen, SurefootError
from surefoot.experiments.studies.design import BUDGETS, Design
from surefoot.experiments.studies.figures import Group, Point, Step, group, read_points, steps
from surefoot.experiments.studies.verdict import RULE, Verdict, verdicts

JUDGED_FIELDS = ("groups", "steps", "verdicts")
"""What follows from the points of a study."""


class StudyRecord(Frozen):
    """Holds study.json."""

    schema_version: int = 2
    id: str
    created: str
    status: Literal["running", "finished"]
    design: Design
    scaled: tuple[str, ...]
    """What changes with the varied quantity, in sentences."""
    seconds: float | None
    """The time budget; None until the first run has set it."""
    seconds_from: str
    construct_id: str
    contract_digest: str
    panel: str
    panel_digest: str
    half: str = "confirmation"
    versions: dict[str, str]
    rule: str = RULE
    points: tuple[Point, ...] = ()
    groups: tuple[Group, ...] = ()
    steps: tuple[Step, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    def groups_of(self, budget: str) -> list[Group]:
        return [g for g in self.groups if g.budget == budget]

    def verdict_of(self, budget: str) -> Verdict | None:
        return next((v for v in self.verdicts if v.budget == budget), None)


def open_study(path: str | Path) -> StudyRecord:
    folder = Path(path)
    if not (folder / "study.json").is_file():
        raise SurefootError(
            f"{folder} is not a study: it has no study.json; give the folder that `surefoot study` printed."
        )
    return read_study(folder / "study.json")


def read_study(path: Path) -> StudyRecord:
    """Reads study.json of any version. Version 1 judged means over seeds: what it says of its policies is
    kept, and judged as today."""
    try:
        raw = parse(path.read_bytes())
    except (OSError, ValueError):
        raw = None  # said by read_json, with the path
    if not isinstance(raw, dict) or raw.get("schema_version") != 1:
        return read_json(path, StudyRecord)
    kept = {k: v for k, v in raw.items() if k not in ("schema_version", "rule", *JUDGED_FIELDS)}
    try:
        return judged(StudyRecord.model_validate(kept))
    except ValidationError as error:
        raise SurefootError(
            f"'{path}' is not a study that this Surefoot version understands; begin the study anew."
        ) from error


def write_record(folder: Path, record: StudyRecord) -> StudyRecord:
    write_json(folder / "study.json", record)
    return record


def with_results(folder: Path, record: StudyRecord) -> StudyRecord:
    """Returns the record with everything that the runs' artifacts say so far."""
    return judged(record.model_copy(update={"points": tuple(read_points(record.design, folder))}))


def judged(record: StudyRecord) -> StudyRecord:
    """Returns the record with what follows from its points: groups, steps, verdicts."""
    design, points = record.design, record.points
    groups = [group(points, value, budget) for budget in BUDGETS for value in design.values]
    all_steps = steps(points, design.values)
    return record.model_copy(
        update={
            "groups": tuple(g for g in groups if g is not None),
            "steps": tuple(all_steps),
            "verdicts": tuple(verdicts(all_steps, design, record.seconds)),
        }
    )


def write_csv(path: Path, record: StudyRecord) -> None:
    """Writes a row per policy: its figures, success and falls by column, failures by label."""
    plain = [n for n in Point.model_fields if n not in ("columns", "labels", "disturbed_labels")]
    columns = list(dict.fromkeys(c.column for p in record.points for c in p.columns))
    labels = sorted({x for p in record.points for x in (*p.labels, *p.disturbed_labels)})
    names = [
        *plain,
        *(f"{kind}.{c}" for c in columns for kind in ("success", "fall")),
        *(f"label.{x}" for x in labels),
        *(f"disturbed_label.{x}" for x in labels),
    ]
    rows = [
        {n: getattr(p, n) for n in plain}
        | {f"{kind}.{c.column}": getattr(c, kind) for c in p.columns for kind in ("success", "fall")}
        | {f"label.{x}": p.labels.get(x, 0) for x in labels}
        | {f"disturbed_label.{x}": p.disturbed_labels.get(x, 0) for x in labels}
        for p in record.points
    ]
    atomic_write(path, csv_text(rows, names).encode())
