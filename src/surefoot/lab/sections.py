"""The parts of a lab's page that are tables and charts."""

from __future__ import annotations

from surefoot.lab.record import Entry, LabRecord
from surefoot.lab.views import Heading, Who, headings, policies, shown
from surefoot.report.figures import Figure
from surefoot.report.html import NOT_MEASURED, Html, duration, el, join, number, percent
from surefoot.report.learners import curves, differences
from surefoot.report.overview import bar
from surefoot.report.words import word

NAMES = {
    "success": "success",
    "fall_rate": "falls",
    "velocity_error_mps": "velocity error, m/s",
    "yaw_error_radps": "turning error, rad/s",
    "cost_of_transport": "cost of transport",
    "recovered": "recovered from pushes",
    "recovery_s": "recovery, s",
}
RATES = ("success", "fall_rate", "recovered")


# ---- results


def results(lab: LabRecord) -> Html:
    """Everybody on the first panel; with a second one, only what both measured."""
    p, heads = lab.panels[0], headings(lab)
    both = " Of two panels, what stands below was measured on both; each has its own line." * (
        len(lab.panels) > 1
    )
    return el(
        "section",
        el("h2", "Everybody on the same held-out panel"),
        el(
            "p",
            f"Success on {p.episodes} ",
            word("held-out"),
            f" episodes in {p.families} seed families of {p.name}, one pass each, no exploration noise, with "
            f"95% intervals over families. The perturbation: {lab.design.says}.{both}",
            class_="lead",
        ),
        _table(
            ("policy", *(h.title for h in heads), "falls", "velocity error", "failures (nominal)"),
            [_result(lab, who, heads) for who in policies(lab)],
        ),
        class_="card",
    )


def _result(lab: LabRecord, who: Who, heads: list[Heading]) -> Html:
    e = shown(lab, who, "nominal", heads[0].engine)
    chips = [el("span", f"{k.replace('_', ' ')} {v}", class_="tag") for k, v in _most(e)]
    fell = percent(e.found.fall_rate) if e else NOT_MEASURED
    error = number(e.found.velocity_error_mps) if e else NOT_MEASURED
    return el(
        "tr",
        el("th", who.title, scope="row"),
        *[el("td", _cell(lab, who, h)) for h in heads],
        el("td", fell, class_="num"),
        el("td", error, class_="num"),
        el("td", *(chips or [el("span", "none", class_="muted")])),
        class_="baseline" if who.seed is None else None,
    )


def _cell(lab: LabRecord, who: Who, h: Heading) -> Html:
    if h.sparse and who.seed is None:
        return el("span", "not trained", class_="absent")
    found = [shown(lab, who, h.column, h.engine, h.sparse, p.number) for p in lab.panels]
    if any(e is None for e in found):
        return el("span", NOT_MEASURED, class_="absent")
    return join(*[_measured(e) for e in found if e is not None])


def _measured(e: Entry) -> Html:
    f = e.found
    figure = Figure(f.success, f.success_low, f.success_high, f.episodes, f.effective_episodes)
    name = f"panel{e.panel}.{e.policy}.{e.column}.{f.engine}.success"
    return el(
        "div",
        el("b", percent(f.success), data_figure=name, data_value=f.success),
        bar(figure),
        el("small", f"{percent(f.success_low)} to {percent(f.success_high)}"),
        class_="measured",
        tabindex="0",
        data_tip=f"{f.episodes} episodes, {number(f.effective_episodes)} effective; panel {e.panel}",
    )


def _most(e: Entry | None) -> list[tuple[str, int]]:
    return sorted(e.found.labels.items(), key=lambda x: (-x[1], x[0]))[:4] if e else []


# ---- learning


def learning(lab: LabRecord) -> list[Html]:
    out = [
        el(
            "section",
            el("h2", "Held-out success while training"),
            el("p", _spent(lab), class_="lead"),
            curves(lab.comparison),
            class_="card",
        )
    ]
    if lab.sparse is not None:
        out.append(
            el("section", el("h2", "The same with a sparse reward"), curves(lab.sparse), class_="card")
        )
    return out


def _spent(lab: LabRecord) -> str:
    return "; ".join(
        f"{r.folder.split('/')[-1]}: "
        + (
            f"failed ({r.error})"
            if r.status == "failed"
            else f"{r.samples:,} samples in {duration(r.train_seconds)}, {number(r.steps_per_second)} steps/s"
        )
        for r in lab.runs
    )


# ---- baselines


def baselines(lab: LabRecord) -> Html:
    head = ("baseline", "scenario", "command", "end", "lived", "return", "label", "reward by term")
    rows = [
        el(
            "tr",
            el("th", e.policy, scope="row"),
            el("td", f"{e.scenario}", el("small", f" key {e.key}")),
            el("td", ", ".join(f"{x:g}" for x in e.command).replace("-", "−")),
            el("td", e.reason.replace("_", " ")),
            el("td", f"{e.lived_s:g} s", class_="num"),
            el("td", number(e.episode_return), class_="num"),
            el("td", e.label.replace("_", " ") or "success"),
            el(
                "td",
                el(
                    "details",
                    el("summary", "terms"),
                    *[
                        el("small", f"{k.replace('_', ' ')} {number(v)}", el("br"))
                        for k, v in e.terms.items()
                    ],
                ),
            ),
        )
        for e in lab.episodes
    ]
    return el(
        "section",
        el("h2", "Baselines, five seeded episodes each"),
        el(
            "p",
            "Nobody trained these. The same five scenarios for all, from their nominal pass; the key names "
            "every draw of the episode. Terms are sums over the steps lived, before the step's floor.",
            class_="lead",
        ),
        _table(head, rows),
        class_="card",
    )


# ---- postmortems, panels, configuration


def postmortems(lab: LabRecord) -> Html:
    parts = []
    for k, p in enumerate(lab.postmortems):
        said = el(
            "ol",
            *[
                el(
                    "li",
                    s.text,
                    el(
                        "small",
                        " ",
                        "; ".join(f"{e.file}: {e.field}" for e in s.evidence),
                    ),
                )
                for s in p.sentences
            ],
        )
        parts.append(el("details", el("summary", f"{p.run}: {p.verdict}"), said, open=k == 0))
    return el("section", el("h2", "Postmortem, five sentences"), *parts, class_="card")


def panels(lab: LabRecord) -> Html | None:
    if len(lab.panels) < 2:
        return None
    p = lab.panels[1]
    assert p.apart_from_first is not None
    rows = []
    for c in lab.co_computed:
        text = percent if c.metric in RATES else number
        seed = f", seed {c.seed}" if c.seed is not None else ""
        sparse = ", sparse" if c.reward == "sparse" else ""
        rows.append(
            el(
                "tr",
                el("th", f"{c.policy}{seed}{sparse}", scope="row"),
                el("td", f"{c.column.replace('_', ' ')}, {c.engine}"),
                el("td", NAMES[c.metric]),
                el("td", text(c.first), _range(c.first_interval, text), class_="num"),
                el("td", text(c.second), _range(c.second_interval, text), class_="num"),
            )
        )
    return el(
        "section",
        el("h2", "A second panel"),
        el(
            "p",
            f"{p.name}: {p.episodes} episodes of other seeds (root {p.seeds.root}). "
            f"{p.apart_from_first.reason} Only metrics that both panels measured; no difference is taken "
            "across panels, whose construct ids differ.",
            class_="lead",
        ),
        el(
            "details",
            el("summary", f"{len(rows)} metrics, panel by panel"),
            _table(("policy", "column", "metric", lab.panels[0].name, p.name), rows),
            open=True,
        ),
        class_="card",
    )


def _range(ends: tuple[float, float] | None, text: object) -> Html | None:
    assert callable(text)
    return el("small", f" ({text(ends[0])} to {text(ends[1])})") if ends else None


def configuration(lab: LabRecord) -> Html:
    r, d = lab.recipe, lab.design
    facts = [
        ("rollout", f"{r.horizon} steps × {r.envs} environments, {d.updates} updates"),
        ("learning", f"{r.minibatches} minibatches, {r.epochs} epochs"),
        ("networks", f"{' × '.join(map(str, r.hidden))} {r.activation}"),
        ("discount", f"γ {r.gamma:g}, λ {r.lam:g}, clip {r.clip:g}, learning rate {r.learning_rate:g}"),
        ("timeouts", d.timeouts),
        ("training seeds", ", ".join(map(str, d.seeds))),
        *[
            (f"panel {p.number}", f"{p.name}, digest {p.digest[:12]}, root seed {p.seeds.root}, construct "
             f"{p.construct_id[:12]}. {p.apart_from_training.reason}")
            for p in lab.panels
        ],
        ("contract", lab.contract_digest[:12]),
        ("versions", ", ".join(f"{k} {v}" for k, v in lab.versions.items())),
    ]  # fmt: skip
    runs = [
        el(
            "tr",
            el("th", r.folder, scope="row"),
            el("td", f"{r.learner} {r.version or ''}".strip()),
            el("td", r.status),
            el("td", el("code", r.training_id[:12])),
            el("td", el("a", "report", href=f"{r.folder}/report.html") if r.status == "finished" else ""),
        )
        for r in lab.runs
    ]
    return el(
        "section",
        el("h2", "Configuration, seeds, files"),
        el("dl", *[join(el("dt", k), el("dd", v)) for k, v in facts], class_="facts"),
        _table(("run", "learner", "status", "training id", ""), runs),
        el(
            "details",
            el("summary", "What each learner did otherwise than the recipe"),
            differences(lab.comparison),
        ),
        el(
            "p",
            "All of this is in lab.json; lab.csv has a row per pass and per baseline episode.",
            class_="muted",
        ),
        class_="card",
    )


def _table(head: tuple[str, ...], rows: list[Html]) -> Html:
    return el(
        "div",
        el("table", el("thead", el("tr", *[el("th", h) for h in head])), el("tbody", *rows)),
        class_="scroll",
    )
