"""Whether the batch was as large as it looked, and how old the policy was that collected it."""

from __future__ import annotations

import numpy as np

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.ledger import thin
from surefoot.reporting.web.charts import sparkline
from surefoot.reporting.web.html import Html, el, known, number, percent
from surefoot.reporting.web.words import WORDS, word

HONESTY = (
    ("honesty.reset_sync_index", "reset synchrony", number),
    ("honesty.reset_fano", "reset clumping", number),
    ("honesty.duplicate_scenarios", "duplicate scenarios", number),
    ("honesty.coverage_two_way", "pairs covered", percent),
    ("honesty.icc_return", "alike within families", number),
)


def honesty(run: RunFigures) -> Html:
    items = [_gauge(run, key, name, text) for key, name, text in HONESTY]
    items.append(_independent(run))
    return el(
        "section",
        el("h2", word("batch honesty", "Batch honesty")),
        el(
            "p",
            "Are the environments as many as they look? Last measured value, and its course.",
            class_="lead",
        ),
        el("div", *items, class_="strip"),
        _strata(run),
        class_="card",
    )


def _independent(run: RunFigures) -> Html:
    """Shows what the batch is worth, counted in two ways, of what it holds."""
    n = run.ledger.last("honesty.n")
    by = (("honesty.n_eff_return", "by return"), ("honesty.n_eff_advantage", "by advantage"))
    return _pair(run, word("independent samples"), by, f"of {number(n)} in a batch" if known(n) else "")


def _age(run: RunFigures) -> Html:
    """Shows how old samples are when the learner uses them: the oldest, and on average."""
    by = (("freshness.horizon_steps", "oldest"), ("freshness.mean_age_steps", "on average"))
    return _pair(run, word("freshness", "age of a sample"), by, "control steps")


def _pair(run: RunFigures, title: object, figures: tuple[tuple[str, str], ...], unit: str) -> Html:
    """Shows two last values of one thing."""
    rows = []
    for key, how in figures:
        value = run.ledger.last(key)
        told = el(
            "b", number(value), class_=None if known(value) else "absent", data_figure=key, data_value=value
        )
        rows.append(el("p", told, el("small", f" {how}"), class_="pair"))
    return el("div", el("h3", title), *rows, el("small", unit), class_="gauge")


def _strata(run: RunFigures) -> Html | None:
    """Lists the mean return of the training samples of every stratum when it was last measured, lowest
    first."""
    returns = [(run.ledger.last(f"stratum_return.{k}"), label) for k, label in enumerate(run.record.strata)]
    values = sorted((value, label) for value, label in returns if value is not None)
    if not values:
        return None
    rows = [
        el(
            "tr",
            el("td", label.replace(" | ", " · ").replace("-", "−")),
            el("td", number(value), class_="num", data_figure=f"stratum_return.{label}", data_value=value),
        )
        for value, label in values
    ]
    head = el("thead", el("tr", el("th", "stratum"), el("th", "mean return", class_="num")))
    return el(
        "details",
        el("summary", f"Return by training stratum, lowest of {len(values)} first"),
        el("div", el("table", head, el("tbody", *rows)), class_="scroll"),
    )


def freshness(run: RunFigures) -> Html:
    ledger = run.ledger
    items = [
        _age(run),
        _gauge(run, "freshness.epochs", "passes over each sample", number),
        _gauge(run, "freshness.gradient_steps", "gradient steps per update", number),
        _item(
            "kl",
            word("KL", "policy change (KL)"),
            ledger.last("kl"),
            number(ledger.last("kl")),
            ledger.values("kl"),
        ),
        _item(
            "clip_fraction",
            word("clip share"),
            ledger.last("clip_fraction"),
            percent(ledger.last("clip_fraction")),
            ledger.values("clip_fraction"),
        ),
        _largest(run),
    ]
    return el(
        "section",
        el("h2", word("freshness", "Freshness")),
        el(
            "p",
            "How old the policy was that collected what the learner used, at the last update.",
            class_="lead",
        ),
        el("div", *items, class_="strip"),
        class_="card",
    )


def _largest(run: RunFigures) -> Html:
    values = run.ledger.values("first_ratio_error")
    worst = float(values.max()) if len(values) else None
    return _item(
        "first_ratio_error", word("first ratio", "first ratio − 1, largest"), worst, number(worst), values
    )


def _gauge(run: RunFigures, key: str, name: str, text: object) -> Html:
    value = run.ledger.last(key)
    title = word(name) if name in WORDS else name
    assert callable(text)
    return _item(key, title, value, text(value), run.ledger.values(key))


def _item(key: str, title: object, value: float | None, text: str, values: np.ndarray) -> Html:
    line = Html("")
    if len(values) > 1 and float(values.max()) > float(values.min()):
        line = sparkline(thin(np.arange(len(values)), values)[1])
    return el(
        "div",
        el("h3", title),
        el("p", text, class_="value" if known(value) else "absent", data_figure=key, data_value=value),
        line,
        class_="gauge",
    )
