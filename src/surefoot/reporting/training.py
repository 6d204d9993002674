"""How it was trained: contract and recipe, the course of learning, batch honesty, freshness."""

from __future__ import annotations

import numpy as np

from surefoot.contract import REFERENCE, Contract, ExternalContract, TaskContract, simulator
from surefoot.reporting.figures import RunFigures
from surefoot.reporting.ledger import thin
from surefoot.reporting.web.charts import (
    Axes,
    Line,
    at_widths,
    legend,
    line_chart,
    rate_axis,
    spread,
    stacked_chart,
)
from surefoot.reporting.web.html import NOT_MEASURED, Html, el, join, number, percent, short
from surefoot.reporting.web.words import word
from surefoot.runs import RunRecord

MOST_TERMS = 7
"""Reward terms shown one by one; the rest are added up."""
X_LABEL = "samples (control steps of all environments)"


def learning(run: RunFigures) -> Html:
    rows = run.ledger.rows
    if not rows:
        return _card("Learning", el("p", "No update has been recorded yet.", class_="absent"))
    last = float(rows[-1]["samples"])
    per_update = run.record.accounting.samples_per_update
    chosen = run.record.figures.get("chosen_update")
    marks = ((float(chosen) * per_update, "confirmed checkpoint"),) if chosen else ()
    return _card(
        "Learning",
        el("h3", word("held-out", "Held-out"), " success, on the ", word("selection half")),
        _held_out(run, last, marks),
        el("h3", "Training ", word("return")),
        _returns(run, last),
        el("h3", "Reward by term, per control step"),
        _rewards(run, last),
        el("h3", "Why training episodes ended"),
        _resets(run, last),
        *_levels(run, last),
        lead="What the policy does on scenarios it never saw, above what the learner was paid. When the "
        "second rises and the first does not, only the score improved.",
    )


def _held_out(run: RunFigures, last: float, marks: tuple[tuple[float, str], ...]) -> Html:
    x, y = run.ledger.series("evaluation.success")
    if not len(x):
        return el("p", NOT_MEASURED, class_="absent")
    _, low = run.ledger.series("evaluation.success_low")
    _, high = run.ledger.series("evaluation.success_high")
    line = Line("success", x, y, "--c1", low, high, dots=True)
    return at_widths(
        lambda w: line_chart(
            rate_axis(width=w, height=210, x_range=(0, last), x_label=X_LABEL, marks=marks),
            [line],
            "Held-out success over training, with its 95% interval",
            percent,
        )
    )


def _returns(run: RunFigures, last: float) -> Html:
    x, y = thin(*run.ledger.series("episode.return"))
    if not len(x):
        return el("p", NOT_MEASURED, class_="absent")
    line = Line("mean return", x, y, "--c2")
    return at_widths(
        lambda w: line_chart(
            Axes(w, 160, (0, last), spread(y), x_label=X_LABEL),
            [line],
            "Mean return of training episodes",
            number,
        )
    )


def _rewards(run: RunFigures, last: float) -> Html:
    names = run.ledger.names("reward.")
    if not names:
        return el("p", NOT_MEASURED, class_="absent")
    x, table = run.ledger.blocks([f"reward.{n}" for n in names])
    order = np.argsort(-np.abs(table).mean(0))
    top, rest = order[:MOST_TERMS], order[MOST_TERMS:]
    shown = [names[k].replace("_", " ") for k in top]
    parts = table[:, top]
    if len(rest):
        shown.append(f"{len(rest)} smaller terms")
        parts = np.concatenate([parts, table[:, rest].sum(1, keepdims=True)], 1)
    colours = [f"--c{k + 1}" for k in range(len(top))] + (["--c0"] if len(rest) else [])
    up, down = np.maximum(parts, 0).sum(1), np.minimum(parts, 0).sum(1)
    chart = at_widths(
        lambda w: stacked_chart(
            Axes(w, 220, (0, last), spread(up, down, zero=True), x_label=X_LABEL),
            x,
            parts,
            shown,
            colours,
            "Reward terms stacked over training",
            number,
        )
    )
    return join(legend(shown, colours), chart)


def _resets(run: RunFigures, last: float) -> Html:
    names = run.ledger.names("reset.")
    x, table = run.ledger.blocks([f"reset.{n}" for n in names], np.sum)
    if not names or not table.any():
        return el("p", "No training episode has ended.", class_="absent")
    total = table.sum(1, keepdims=True)
    share = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    happened = np.flatnonzero(table.sum(0) > 0)
    shown = [names[k].replace("_", " ") for k in happened]
    colours = [
        "--c3" if names[k] == "timeout" else f"--c{(2, 4, 5, 6, 7, 1)[i % 6]}" for i, k in enumerate(happened)
    ]
    filled = total[:, 0] > 0
    chart = at_widths(
        lambda w: stacked_chart(
            rate_axis(width=w, height=180, x_range=(0, last), x_label=X_LABEL),
            x[filled],
            share[filled][:, happened],
            shown,
            colours,
            "Share of reset reasons over training",
            percent,
        )
    )
    return join(legend(shown, colours), chart)


def _levels(run: RunFigures, last: float) -> list[Html]:
    """Draws the levels of the terrain curriculum; nothing on a plane."""
    names = run.ledger.names("terrain.level.")
    if not names:
        return []
    colours = [f"--c{k % 8}" for k in range(len(names))]
    lines = [
        Line(name.replace("_", " "), *thin(*run.ledger.series(f"terrain.level.{name}")), colour)
        for name, colour in zip(names, colours, strict=True)
    ]
    c = run.record.contract
    top = c.terrain_levels - 1 if isinstance(c, TaskContract) else 0
    chart = at_widths(
        lambda w: line_chart(
            Axes(w, 200, (0, last), (0.0, float(top)), x_label=X_LABEL),
            lines,
            f"Mean level (0 to {top}) of the environments on each terrain class",
            number,
        )
    )
    return [
        el("h3", f"Terrain level of the curriculum, 0 to {top}"),
        legend([line.name for line in lines], colours),
        chart,
    ]


# ---- contract and recipe


def contract(run: RunFigures) -> Html:
    r = run.record
    c, recipe, a = r.contract, r.recipe, r.accounting
    inside = isinstance(c, TaskContract)
    judge = simulator(REFERENCE, run.panel is not None and run.panel.summary.on_terrain)
    facts = _robot_facts(c, run) if isinstance(c, TaskContract) else _outside_facts(c)
    known = c.factors if isinstance(c, TaskContract) else ()
    how = [
        (
            "rollout",
            f"{a.rollout_shape[0]} steps × {a.rollout_shape[1]} environments = {a.samples_per_update:,} "
            f"samples",
        ),
        ("learning", f"{recipe.minibatches} minibatches of {a.minibatch_size:,}, {recipe.epochs} epochs"),
        ("networks", f"{' × '.join(map(str, recipe.hidden))} {recipe.activation}, PPO clip {recipe.clip:g}"),
        *([("memory", recipe.remembers.said(recipe.horizon, recipe.control_hz))] if recipe.remembers else []),
        ("discount", f"γ {recipe.gamma:g}, λ {recipe.lam:g}"),
        ("control", f"{recipe.control_hz:g} Hz"),
        ("learner", _learner(r)),
        ("engine", f"{r.engine} on {r.device}" + (f"; judged on {judge}" if inside else "")),
        (
            "seeds",
            f"root {r.seeds.root}, {a.train_seed_families} families × {a.envs_per_seed_family} environments",
        ),
        (
            "samples",
            f"{short(float(r.figures.get('samples') or 0))} in {r.figures.get('updates', 0)} updates",
        ),
    ]
    rewards = [
        el(
            "tr",
            el("td", t.name.replace("_", " ")),
            el("td", f"{t.weight:+g}".replace("-", "−"), class_="num"),
            el("td", t.doc),
        )
        for t in c.rewards
    ]
    factors = [
        el(
            "tr",
            el("td", f.name),
            el("td", {"family": "seed family", "env": "environment", "episode": "episode"}[f.level]),
            el("td", ", ".join(f.categories) or _span(f.train), class_="num"),
            el(
                "td",
                ", ".join(f.held_out_categories) or ("" if f.categories else _span(f.held_out)),
                class_="num",
            ),
            el("td", f.unit if f.unit != "1" else ""),
        )
        for f in known
    ]
    return el(
        "section",
        el("h2", word("contract", "Contract"), " and ", word("recipe")),
        el("div", el("div", _facts(facts)), el("div", _facts(how)), class_="two"),
        el(
            "details",
            el("summary", f"Reward: {len(c.rewards)} terms, per second" if inside else "Reward: one term"),
            _table(("term", "weight", "what it is"), rewards),
        ),
        el(
            "details",
            el("summary", f"Randomisation: {len(known)} factors"),
            _table(("factor", "drawn per", "training", "held out", "unit"), factors),
        )
        if known
        else None,
        class_="card",
    )


def _robot_facts(c: TaskContract, run: RunFigures) -> list[tuple[str, str]]:
    return [
        ("robot", c.robot),
        ("sees", _sees(c)),
        ("does", f"{c.action.size} joint targets: default pose + {c.action.scale_rad:g} rad × action"),
        ("prior", f"gait clock {c.prior.clock_hz:g} Hz and a scripted lift" if c.prior else "none"),
        ("ends when", "; ".join(t.doc or t.name.replace("_", " ") for t in c.terminations)),
        ("success", c.success.doc),
        ("safety", f"{c.safety.doc} ≤ {percent(c.safety.limit)}{_came_to(run)}"),
    ]


def _came_to(run: RunFigures) -> str:
    if run.safety is None or run.panel is None:
        return ""
    return f"; {'broken' if run.panel.summary.safety_held is False else 'held'}, at {percent(run.safety)}"


def _outside_facts(c: ExternalContract) -> list[tuple[str, str]]:
    """Lists all that is known of an environment that is not Surefoot's."""
    scaled = "scaled to its bounds" if c.action.low is not None else "without bounds"
    return [
        ("environment", f"{c.environment} of {c.source}"),
        ("versions", ", ".join(f"{k} {v}" for k, v in c.versions.items())),
        ("sees", _sees(c)),
        ("does", f"{c.action.size} actions, {scaled}"),
        ("ends when", "; ".join(t.doc for t in c.terminations) + f", or after {c.episode_steps} steps"),
        ("success", c.success.doc),
        ("safety", "none: torques and contacts are not told"),
    ]


def _sees(c: Contract) -> str:
    return ", ".join(f"{t.name.replace('_', ' ')} ({t.size})" for t in c.observation)


def _learner(r: RunRecord) -> str:
    if r.library is None:
        return "Surefoot's own PPO"
    return f"{r.library.name} {r.library.version or ''}".strip() + f", timeouts {r.library.timeouts}"


def _facts(pairs: list[tuple[str, str]]) -> Html:
    return el("dl", *[join(el("dt", k), el("dd", v)) for k, v in pairs], class_="facts")


def _table(head: tuple[str, ...], rows: list[Html]) -> Html:
    return el(
        "div",
        el("table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows)),
        class_="scroll",
    )


def _span(pair: tuple[float, float]) -> str:
    low, high = pair
    return (f"{low:g}" if low == high else f"{low:g} to {high:g}").replace("-", "−")


def _card(title: object, *children: object, lead: str = "") -> Html:
    return el(
        "section", el("h2", title), el("p", lead, class_="lead") if lead else None, *children, class_="card"
    )
