"""The parts of a lab's page that say how its results came about."""

from __future__ import annotations

from surefoot.evidence import MEANING, LearnerComparison, Sentence
from surefoot.experiments.lab.record import LabRecord
from surefoot.experiments.lab.results import table
from surefoot.reporting import curves, differences, outcomes
from surefoot.reporting.web import Html, duration, el, join, number

# ---- learning


def learning(lab: LabRecord) -> list[Html]:
    out = [
        el(
            "section",
            el("h2", "Held-out success while training"),
            el("p", _spent(lab), class_="lead"),
            *_learned(lab.comparison),
            class_="card",
        )
    ]
    if lab.sparse is not None:
        out.append(
            el("section", el("h2", "The same with a sparse reward"), *_learned(lab.sparse), class_="card")
        )
    return out


def _learned(c: LearnerComparison) -> list[Html]:
    """Shows the curves; and, where there are several, the figures over training seeds."""
    if max(len(of.seeds) for of in c.learners) < 2:
        return [curves(c)]
    note = "95% intervals here take training seeds for the independent draws: a few of them bound little."
    return [curves(c), outcomes(c), el("p", note, class_="muted")]


def _spent(lab: LabRecord) -> str:
    return "; ".join(
        f"{r.folder.split('/')[-1]}: "
        + (
            f"failed ({r.error})"
            if r.status == "failed"
            else f"{r.samples:,} samples in {duration(r.train_seconds)}, {number(r.steps_per_second)} steps/s"
        )
        + (f", Unproven by its audit ({r.unproven})" if r.unproven else "")
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
        table(head, rows),
        class_="card",
    )


# ---- postmortems, configuration


def postmortems(lab: LabRecord) -> Html:
    parts = []
    for k, p in enumerate(lab.postmortems):
        sentences = [el("li", s.text, _stands(s)) for s in p.sentences]
        parts.append(
            el("details", el("summary", f"{p.run}: {MEANING[p.verdict]}"), el("ol", *sentences), open=k == 0)
        )
    return el("section", el("h2", "Postmortem, in sentences"), *parts, class_="card")


def _stands(s: Sentence) -> Html:
    """Names the file and field of every number in a sentence."""
    evidence = [el("li", el("code", f"{e.file}: {e.field} = {e.value}")) for e in s.evidence]
    return el("details", el("summary", "evidence"), el("ul", *evidence))


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
            (f"panel {p.number}", f"{p.name}, digest {p.panel_digest[:12]}, root seed {p.seeds.root}, "
             f"construct {p.construct_id[:12]}. {p.apart_from_training.reason}")
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
        table(("run", "learner", "status", "training id", ""), runs),
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
