"""The fleet's section: actors and their rates, who came and went, how old experience was, what the learner
waited for, and the books."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.ledger import Ledger, thin
from surefoot.reporting.web.charts import Axes, Line, at_widths, legend, line_chart, spread, stacked_chart
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, known, number, percent
from surefoot.reporting.web.words import word
from surefoot.runs import waited

X_LABEL = "samples (control steps of all environments)"
MOST_ACTORS = 7
"""Actors drawn one by one; more are drawn as their median, between the slowest and the fastest."""
BOOKS = (
    ("fleet.issued", "asked for"),
    ("fleet.trained", "learned from"),
    ("fleet.dropped.stale", "dropped: too old"),
    ("fleet.dropped.poisoned", "dropped: refused"),
    ("fleet.dropped.unneeded", "dropped: there when the fleet ended"),
    ("fleet.lost", "lost with their actors"),
    ("fleet.open", "open at the last update"),
)
ENDS = ("fleet.trained", "fleet.dropped", "fleet.lost", "fleet.open")


def collected(run: RunFigures) -> bool:
    """Returns whether a fleet collected for any update of the run."""
    return bool(_rows(run.ledger))


def fleet(run: RunFigures) -> Html:
    """Writes the section; there must be rows of a fleet."""
    rows = _rows(run.ledger)
    ledger = Ledger(rows, run.ledger.torn)
    last = float(rows[-1]["samples"])
    how, said = run.record.collection, "every update waited for all actors"
    how = ", ".join(filter(None, (said if waited(how) else "", how)))
    return el(
        "section",
        el("h2", word("fleet", "Fleet")),
        el("p", f"Who collected what the learner learned from: {how}.", class_="lead"),
        el("p", _acting(run), class_="lead"),
        el("div", *_gauges(ledger), *_trips(ledger), class_="strip"),
        _anew(rows, run.record.recipe.envs),
        _turnover(ledger, last),
        el("h3", "Transitions per second, by ", word("actor"), _of_parts(rows)),
        _rates(rows, last),
        el("h3", word("lag", "Lag"), " of an update's experience, in versions of the policy"),
        _lag(ledger, last),
        el("h3", "Seconds of an update that the learner worked and waited"),
        _learner(ledger, last),
        el("h3", "The books: what became of every ", word("ticket")),
        _books(rows),
        el("h3", "Samples by seed family"),
        _supply(rows),
        class_="card",
    )


def _acting(run: RunFigures) -> str:
    """Says where the policy acted, and why there, where that was measured."""
    was = run.record.fleet
    if "choice" in was:
        return str(was["choice"]["why"])
    return f"Inference was {was['inference']}." if was else ""


def _trips(ledger: Ledger) -> list[Html]:
    """Writes how long actors waited for the inference service; nothing where there was none."""
    return [
        _gauge(f"round trip, {name}", key, ledger.last(key), number, "milliseconds, at the last update")
        for name, key in (
            ("median", "fleet.inference.trip_ms.p50"),
            ("99 of 100", "fleet.inference.trip_ms.p99"),
        )
        if known(ledger.last(key))
    ]


def _rows(ledger: Ledger) -> list[dict[str, Any]]:
    return [r for r in ledger.rows if "fleet.issued" in r]


def _gauges(ledger: Ledger) -> list[Html]:
    lag, age = ledger.values("fleet.lag.mean"), ledger.values("fleet.age_s")
    busy, spent = _busy(ledger)
    return [
        _gauge("actors", "fleet.actors", ledger.last("fleet.actors"), number, "at the last update"),
        _gauge("at work", "fleet.alive", ledger.last("fleet.alive"), number, "of them, at the last update"),
        _gauge(
            "actors replaced",
            "fleet.replaced",
            ledger.last("fleet.replaced"),
            number,
            "since its process began",
        ),
        _gauge(
            "learner at work",
            "fleet.learner.utilisation",
            busy / spent if spent else None,
            percent,
            "of all updates' time",
        ),
        _gauge(
            "lag",
            "fleet.lag.mean",
            float(lag.mean()) if len(lag) else None,
            number,
            "versions, mean of updates",
        ),
        _gauge(
            "age", "fleet.age_s", float(age.mean()) if len(age) else None, number, "seconds, mean of updates"
        ),
        _gauge(
            "corrected",
            "fleet.corrected_share",
            ledger.last("fleet.corrected_share"),
            percent,
            "of the last update's samples",
        ),
        _gauge(
            "bytes per transition",
            "fleet.bytes_per_transition",
            ledger.last("fleet.bytes_per_transition"),
            number,
            f"as they were sent, {ledger.rows[-1].get('fleet.codec', 'fp32')}",
        ),
    ]


def _busy(ledger: Ledger) -> tuple[float, float]:
    """Returns the seconds that the learner was at work, and those of all updates."""
    busy = float(ledger.values("fleet.learner.busy_s").sum())
    return busy, busy + float(ledger.values("fleet.learner.waiting_s").sum())


def _gauge(title: str, key: str, value: float | None, text: Any, unit: str) -> Html:
    shown = el(
        "p", text(value), class_="value" if known(value) else "absent", data_figure=key, data_value=value
    )
    return el("div", el("h3", title), shown, el("small", unit), class_="gauge")


def _anew(rows: list[dict[str, Any]], envs: int) -> Html | None:
    """Says where all environments began anew: the run went on, and their state could not be saved, or it was
    lost with what they need."""
    at = [int(r["update"]) for r in rows if r.get("fleet.begun") == envs and int(r["update"]) > 1]
    if not at:
        return None
    said = ", ".join(map(str, at))
    return el("p", f"All environments left their episodes and began new ones before update {said}.")


def _turnover(ledger: Ledger, last: float) -> Html | None:
    """Draws how many actors there were, where they came and went."""
    there = ledger.values("fleet.actors")
    joined, left = ledger.last("fleet.joined"), ledger.last("fleet.left")
    if not joined and not left and len(set(there.tolist())) < 2:
        return None
    parts = ledger.last("fleet.parts")
    line = Line("actors", *thin(*ledger.series("fleet.actors")), "--c1")
    chart = at_widths(
        lambda w: line_chart(
            Axes(w, 130, (0, last), spread(line.y, zero=True), x_label=X_LABEL),
            [line],
            "Actors that had parts of the environments, in each update",
            number,
        )
    )
    said = el(
        "p",
        f"Between {number(there.min())} and {number(there.max())} actors had the {number(parts)} parts of "
        f"the environments; {number(joined)} joined and {number(left)} left since the last process of the "
        "learner began.",
    )
    return join(el("h3", "Actors"), said, chart)


def _one(rows: list[dict[str, Any]]) -> str:
    """Returns what lists of the ledger have an entry for: an actor, or a part where there are more of
    them."""
    more = any(r.get("fleet.parts", r["fleet.actors"]) != r["fleet.actors"] for r in rows)
    return "part" if more else "actor"


def _of_parts(rows: list[dict[str, Any]]) -> str | None:
    return ", for each part of the environments" if _one(rows) == "part" else None


def _rates(rows: list[dict[str, Any]], last: float) -> Html:
    lines = _rate_lines(rows)
    if not lines:
        return el("p", NOT_MEASURED, class_="absent")
    tops = [line.y if line.high is None else line.high for line in lines]
    chart = at_widths(
        lambda w: line_chart(
            Axes(w, 190, (0, last), spread(*tops, zero=True), x_label=X_LABEL),
            lines,
            f"Transitions per second of each {_one(rows)}, from ticket to arrival",
            number,
        )
    )
    return join(legend([line.name for line in lines], [line.colour for line in lines]), chart)


def _rate_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Returns a line per actor, or one with a band where there are many."""
    at = np.array([float(r["samples"]) for r in rows])
    given = [r.get("fleet.rate.by_actor") or [] for r in rows]
    count = max(map(len, given), default=0)
    table = np.array([[_real(v) for v in [*g, *[None] * (count - len(g))]] for g in given], float)
    if count <= MOST_ACTORS:
        lines = []
        for k in range(count):
            there = np.isfinite(table[:, k])
            if there.any():
                lines.append(Line(f"{_one(rows)} {k}", *thin(at[there], table[there, k]), f"--c{k + 1}"))
        return lines
    there = np.isfinite(table).any(1)
    kept = table[there]
    x, middle = thin(at[there], np.nanmedian(kept, 1))
    _, low = thin(at[there], np.nanmin(kept, 1))
    _, high = thin(at[there], np.nanmax(kept, 1))
    return [Line(f"median of {count} {_one(rows)}s, slowest to fastest", x, middle, "--c1", low, high)]


def _lag(ledger: Ledger, last: float) -> Html:
    most = ledger.values("fleet.lag.max")
    if not len(most):
        return el("p", NOT_MEASURED, class_="absent")
    if not most.any():
        return el("p", "None: all experience was of the newest policy.")
    named = (
        ("mean", "fleet.lag.mean", "--c1"),
        ("p95", "fleet.lag.p95", "--c2"),
        ("most", "fleet.lag.max", "--c3"),
    )
    lines = [Line(name, *thin(*ledger.series(key)), colour) for name, key, colour in named]
    chart = at_widths(
        lambda w: line_chart(
            Axes(w, 170, (0, last), spread(*[line.y for line in lines], zero=True), x_label=X_LABEL),
            lines,
            "Versions of the policy that experience was old by, in each update",
            number,
        )
    )
    return join(legend([line.name for line in lines], [line.colour for line in lines]), chart)


def _learner(ledger: Ledger, last: float) -> Html:
    x, table = ledger.blocks(["fleet.learner.busy_s", "fleet.learner.waiting_s"])
    if not table.any():
        return el("p", NOT_MEASURED, class_="absent")
    names, colours = ["at work", "waiting for fragments"], ["--c1", "--c0"]
    chart = at_widths(
        lambda w: stacked_chart(
            Axes(w, 170, (0, last), spread(table.sum(1), zero=True), x_label=X_LABEL),
            x,
            table,
            names,
            colours,
            "Seconds of an update that the learner worked and waited",
            number,
        )
    )
    return join(legend(names, colours), chart)


def _books(rows: list[dict[str, Any]]) -> Html:
    last = rows[-1]
    body = [
        el(
            "tr",
            el("td", name),
            el("td", number(last[key]), class_="num", data_figure=key, data_value=last[key]),
        )
        for key, name in BOOKS
        if key in last
    ]
    wrong = [int(r["update"]) for r in rows if r["fleet.issued"] != sum(r[k] for k in ENDS)]
    said = (
        f"In {len(wrong)} of {len(rows)} updates they do not add up, the first time in update {wrong[0]}."
        if wrong
        else f"They add up in each of {len(rows):,} updates: asked for = learned from, dropped, lost, open."
    )
    return join(
        _table(("fragments", "since the run began"), body),
        el("p", said, class_="note bad" if wrong else None),
    )


def _supply(rows: list[dict[str, Any]]) -> Html:
    """Lists what each family gave; slow and lost actors give less of theirs, and what those are about weighs
    less in what was learned."""
    given = [r["family.samples"] for r in rows if r.get("family.samples")]
    if not given or len({len(g) for g in given}) > 1:
        return el("p", NOT_MEASURED, class_="absent")
    total = np.sum(np.array(given, float), 0)
    even = total.sum() / len(total)
    if not even:
        return el("p", NOT_MEASURED, class_="absent")
    ends = [
        el("b", percent(share), data_figure=f"fleet.supply.{name}", data_value=share)
        for name, share in (("least", float(total.min() / even)), ("most", float(total.max() / even)))
    ]
    body = [
        el(
            "tr",
            el("td", f"family {k}"),
            el("td", number(total[k]), class_="num", data_figure=f"fleet.family.{k}", data_value=total[k]),
            el("td", percent(float(total[k] / even)), class_="num"),
        )
        for k in np.argsort(total, kind="stable").tolist()
    ]
    return join(
        el("p", "The families gave between ", ends[0], " and ", ends[1], " of an even share."),
        el(
            "details",
            el("summary", f"Samples of {len(total)} families, fewest first"),
            _table(("family", "samples", "of its even share"), body),
        ),
    )


def _table(columns: tuple[str, ...], body: list[Html]) -> Html:
    """Returns a table whose first column is words, and whose others are numbers."""
    cells = [el("th", name, class_="num" if k else None) for k, name in enumerate(columns)]
    return el("div", el("table", el("thead", el("tr", *cells)), el("tbody", *body)), class_="scroll")


def _real(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")
