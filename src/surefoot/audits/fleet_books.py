"""Do the books of a fleet balance, and are they what its actors wrote down themselves? Counted from files,
with nothing of the fleet's own code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, Misshapen, NotApplicable
from surefoot.runs import waited

BIAS = 1.5
"""A family that gave so many times as many samples as another weighs so much more in what was learned."""
LONG = 50
"""Updates after which that is no matter of who was begun first."""
ENDS = ("trained", "dropped", "lost", "open")


def look(case: Case) -> list[Found]:
    """Holds every row to its sum, and what was trained to the actors' own files."""
    rows = _rows(case)
    return [*_sums(rows), *_written(case, rows), *_lags(case, rows)]


def _rows(case: Case) -> list[dict[str, Any]]:
    rows = [r for r in case.ledger if "fleet.issued" in r]
    if not rows:
        raise NotApplicable("no fleet collected for it")
    for row in rows:
        if missing := [k for k in COUNTED if k not in row]:
            raise Misshapen(f"Row {row['update']} of the ledger has no '{missing[0]}'.", "bookkeeping")
    return rows


def _sums(rows: list[dict[str, Any]]) -> Iterator[Found]:
    wrong = [r["update"] for r in rows if r["fleet.issued"] != sum(r[f"fleet.{k}"] for k in ENDS)]
    if wrong:
        yield Found(
            f"Tickets of the fleet were not all trained, dropped, lost or open, in {len(wrong)} of "
            f"{len(rows)} updates (first {wrong[0]})."
        )


def _written(case: Case, rows: list[dict[str, Any]]) -> Iterator[Found]:
    """What was learned from, against what actors wrote before they sent it."""
    folder = case.run.path / "fleet"
    last = int(rows[-1]["update"])
    trained = [u for u in _lines(folder / "trained.jsonl", TRAINED) if u["update"] <= last]
    if len(trained) != rows[-1]["fleet.trained"]:
        yield Found(
            f"The ledger says that {rows[-1]['fleet.trained']} fragments were trained, and the fleet's list "
            f"has {len(trained)}."
        )
    twice = [k for k, n in Counter(u["digest"] for u in trained).items() if n > 1]
    if twice:
        yield Found(f"{len(twice)} fragments were learned from more than once.", cause="batch")
    sent: Counter[tuple[int, int, int, str]] = Counter()
    for path in folder.glob("actor-*.jsonl"):
        _, actor, incarnation = path.stem.split("-")
        sent.update((int(actor), int(incarnation), x["sequence"], x["digest"]) for x in _lines(path, SENT))
    missing = sum(
        sent[u["actor"], u["incarnation"], u["sequence"], u["digest"]] != 1 for u in trained
    )  # fmt: skip
    if missing:
        yield Found(
            f"{missing} of {len(trained)} fragments that were learned from do not stand once in the files of "
            "the actors that are said to have made them.",
            cause="batch",
        )


def _lags(case: Case, rows: list[dict[str, Any]]) -> Iterator[Found]:
    """What was learned from is no older than the run says, and without lag nothing is corrected."""
    allowed = 0
    if not waited(case.record.collection):
        allowed = int(case.record.collection.split("at most ")[1].split()[0])
    late = [r["update"] for r in rows if r["fleet.lag.max"] > allowed]
    if late:
        yield Found(
            f"Experience was older than the {allowed} versions that the run allows, in {len(late)} updates "
            f"(first {late[0]}).",
            cause="learning",
        )


def look_at_supply(case: Case) -> list[Found]:
    """Adds up what each family gave."""
    rows = _rows(case)
    if len(rows) < LONG:
        raise NotApplicable(f"it has fewer than {LONG} updates")
    given = [sum(x) for x in zip(*(r["family.samples"] for r in rows), strict=True)]
    least, most = min(given), max(given)
    if most <= BIAS * least:
        return []
    share = "nothing" if not least else f"{least:,} samples"
    return [
        Found(
            f"One seed family gave {most:,} samples and another {share}: actors were slow or lost"
            f"{_uneven(rows)}, and strata of theirs weigh less in what was learned."
        )
    ]


def _uneven(rows: list[dict[str, Any]]) -> str:
    """Says in how many updates some actors had more parts of the environments than others."""
    sizes = [Counter(r.get("fleet.actor.by_part") or ()) for r in rows]
    uneven = sum(len({*n.values()}) > 1 or None in n for n in sizes)
    return f" (in {uneven} of {len(rows)} updates some had more parts than others)" if uneven else ""


COUNTED = (*(f"fleet.{k}" for k in ENDS), "fleet.lag.max", "family.samples")
"""What every row of a fleet's ledger has."""
SENT = ("sequence", "digest")
TRAINED = ("update", "actor", "incarnation", *SENT)
"""What every line of an actor's own file has, and of the fleet's list."""


def _lines(path: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for number, row in enumerate(rows, 1):
        if missing := [k for k in names if k not in row]:
            raise Misshapen(f"Line {number} of {path.name} has no '{missing[0]}'.", "bookkeeping")
    return rows


DETECTORS = (
    Detector(
        name="fleet-books",
        kind="proof",
        cause="bookkeeping",
        asks="Do a fleet's books balance, and did its actors make what was learned from, each fragment once?",
        statistic="tickets by how they ended, in every row; digests in the actors' own files; lags",
        threshold="none: counts are exact",
        means="Experience was learned from twice, or is not what the actors made, or is older than is said.",
        remedy="Look at fleet/books.py and fleet/on_ray/crew.py, from the first update that is named.",
        look=look,
        needs=("ppo", "ledger"),
        short=True,
    ),
    Detector(
        name="fleet-supply",
        kind="behaviour",
        cause="batch",
        asks="Did all seed families of a fleet give about as many samples?",
        statistic="samples of the family that gave most, over those of the one that gave least",
        threshold="1.5: that much more does one family weigh in the gradient",
        means="Slow or lost actors shift what was trained on: strata are dealt by environment.",
        remedy="Use --sync, actors of one speed, or as many cores as `fleet.parts` is a multiple of; "
        "`fleet.rate.by_actor` names the slow one.",
        look=look_at_supply,
        needs=("ppo", "ledger"),
        short=True,
    ),
)
