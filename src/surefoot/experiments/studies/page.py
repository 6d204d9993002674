"""study.html: the verdict, the figures behind it and what was held fixed, on one self-contained page."""

from __future__ import annotations

from pathlib import Path

from surefoot.artifacts import atomic_write
from surefoot.experiments.studies.design import BUDGETS, Budget, panel_device
from surefoot.experiments.studies.plots import against, curves, same
from surefoot.experiments.studies.record import StudyRecord
from surefoot.experiments.studies.sheets import by_value, differences, failures, scroll
from surefoot.experiments.studies.verdict import Verdict
from surefoot.reporting import document, page_header
from surefoot.reporting.web import Html, duration, el, join, percent, word
from surefoot.training import RobotPlan

TONES: dict[str, str] = {
    "helped": "good",
    "no difference that matters": "mixed",
    "made it worse": "bad",
    "undecided": "none",
}


def write_page(path: Path, record: StudyRecord, plan: RobotPlan) -> Path:
    atomic_write(path, study_page(record, plan).encode())
    return path


def study_page(record: StudyRecord, plan: RobotPlan) -> str:
    budgets = [b for b in BUDGETS if record.groups_of(b)]
    body = [
        _header(record, plan),
        *[_verdict(record, b) for b in budgets],
        against(record, budgets),
        *[by_value(record, b) for b in budgets],
        differences(record),
        *[curves(record, plan, b) for b in budgets],
        failures(record, budgets),
        _design(record, plan),
        _runs(record),
    ]
    return document(f"{record.id} · Surefoot", el("main", *body), "page.js")


def _header(record: StudyRecord, plan: RobotPlan) -> Html:
    d = record.design
    about = (
        f"{d.task} · {plan.task.contract.robot} · {d.knob.field} {', '.join(f'{v:,}' for v in d.values)} · "
        f"{len(d.seeds)} training seeds · trained on {d.engine}, {d.device} · panel on {d.scored_on}, "
        f"{panel_device(d)} · {record.created.replace('T', ' ')[:16]} UTC"
    )
    return page_header(f"study of {d.kind}", record.id, about)


def _verdict(record: StudyRecord, budget: Budget) -> Html:
    v = record.verdict_of(budget)
    if v is None:
        text = f"With {same(record, budget)}: one value so far, nothing to compare."
        return el("section", el("p", text, class_="detail"), class_="verdict none")
    stamp = summary_word(v)
    claims = [
        el(
            "li",
            el("b", f"{s.lower:,} to {s.upper:,}, typical seed: {s.outcome}"),
            el("span", s.sentence, class_="says"),
            class_=f"claim {TONES[s.outcome]}",
        )
        for s in v.steps
    ]
    tone = TONES.get(stamp, "mixed")
    return el(
        "section",
        el(
            "div",
            el("strong", stamp.capitalize(), class_="stamp word", tabindex="0", data_tip=record.rule),
            el("p", v.sentence, class_="detail", data_verdict=budget),
            class_="line1",
        ),
        el(
            "p",
            el("b", "Evidence "),
            f"{len(record.design.seeds)} training seeds, ",
            word("paired by seed"),
            f", {record.points[0].episodes} ",
            word("held-out"),
            f" episodes each ({record.panel}, confirmation half, {record.design.scored_on}). A difference of "
            f"less than {100 * record.design.margin:g} points, either way, counts as none.",
            class_="evidence",
        ),
        el("ul", *claims, class_="claims"),
        class_=f"verdict {tone}",
    )


def summary_word(v: Verdict) -> str:
    """Returns the outcome where all steps share one, else `mixed`."""
    outcomes = {s.outcome for s in v.steps}
    return next(iter(outcomes)) if len(outcomes) == 1 else "mixed"


# ---- how


def _design(record: StudyRecord, plan: RobotPlan) -> Html:
    d = record.design
    facts = [
        ("what is scaled", join(*[join(s, el("br")) for s in record.scaled])),
        ("sample budget", f"{d.samples:,} samples, exactly, at every value"),
        ("time budget", f"{duration(record.seconds)} of training ({record.seconds_from}); compilation and "
         "evaluation do not count, and a run stops at the end of the update that reaches it"),
        ("both budgets", "one run per value and seed: its policy at the nearer budget, then trained on to "
         "the other"),
        ("policy", "the last one of each budget; nothing was chosen on held-out episodes"),
        ("panel", f"{record.panel}, {record.half} half, digest {record.panel_digest[:12]}, on {d.scored_on} "
         f"({panel_device(d)}) with the evaluation plant"),
        ("construct id", f"{record.construct_id[:12]}, the same for all runs"),
        ("training plant", f"dt {plan.training_plant.dt_s:g} s x {plan.training_plant.decimation}"),
        ("versions", ", ".join(f"{k} {v}" for k, v in sorted(record.versions.items()))),
    ]  # fmt: skip
    rows = [part for name, value in facts for part in (el("dt", name), el("dd", value))]
    head = ("value", "environments", "horizon", "epochs", "minibatches", "their size", "gradient steps",
            "families", "environments per family", "samples per update",
            "updates of the sample budget")  # fmt: skip
    names = ("envs", "horizon", "epochs", "minibatches", "minibatch_size", "gradient_steps", "families",
             "envs_per_family", "samples_per_update", "updates")  # fmt: skip
    table = [
        el(
            "tr",
            el("th", f"{s.value:,}", scope="row"),
            *[el("td", f"{getattr(s, n):,}", class_="num") for n in names],
        )
        for s in d.settings
    ]
    return el(
        "section",
        el("h2", "What was varied, what was held"),
        el("dl", *rows, class_="facts"),
        scroll(head, table),
        class_="card",
    )


def _runs(record: StudyRecord) -> Html:
    rows = [
        el(
            "tr",
            el("th", p.run, scope="row"),
            el("td", f"same {p.budget}", class_="num"),
            el("td", f"{p.updates:,}", class_="num"),
            el("td", f"{p.samples:,}", class_="num"),
            el("td", f"{p.train_seconds:.2f}", class_="num"),
            el(
                "td",
                el(
                    "span",
                    percent(p.success),
                    data_figure=f"{p.budget}.{p.value}.seed-{p.seed}.success",
                    data_value=p.success,
                ),
                class_="num",
            ),
            el("td", percent(p.fall), class_="num"),
            el("td", percent(p.disturbed_success), class_="num"),
        )
        for p in record.points
    ]
    head = ("run", "budget", "updates", "samples", "training s", "success", "falls", "disturbed")
    return el(
        "section",
        el(
            "details",
            el("summary", f"All {len(record.points)} policies, one by one"),
            scroll(head, rows),
        ),
        class_="card",
    )
