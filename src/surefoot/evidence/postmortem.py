"""The postmortem: sentences about a run, each tied to figures that stand in its artifacts.

It answers two questions: did the policy fail, or did the batch lie? And if neither lied: did behaviour
improve, did only diagnostics, or only the headline score?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from surefoot.contract import Frozen
from surefoot.evidence.improvement import Improvement
from surefoot.evidence.representatives import Case, representative_failures
from surefoot.runs import AUDIT, Audit, Result, perturbed
from surefoot.statistics import panel_strata, percent, rate

Verdict = Literal["behaviour", "diagnostics", "headline", "nothing", "unproven"]
EDGE = 5
"""Updates that are averaged at either end of the ledger: single rollout blocks are noisy."""
MEANING: dict[Verdict, str] = {
    "behaviour": "behaviour improved",
    "diagnostics": "only diagnostics improved, held-out success did not",
    "headline": "only the headline score improved: the training return rose and nothing held out followed",
    "nothing": "nothing improved measurably",
    "unproven": "nothing of it is shown: an audit found that the run is not what it says",
}


class Evidence(Frozen):
    """Where a number of a sentence stands."""

    file: str
    """Relative to the run folder."""
    field: str
    """Dotted; a ledger field names its update, a column of rows how it was summarised."""
    value: float | int | str | None
    """None: not measured."""


class Sentence(Frozen):
    about: str
    text: str
    evidence: tuple[Evidence, ...]


class Postmortem(Frozen):
    schema_version: int = 1
    run: str
    verdict: Verdict
    sentences: tuple[Sentence, ...]
    cases: tuple[Case, ...]
    cases_note: str
    """Why there are fewer than two cases, or none; empty otherwise."""


def postmortem(
    result: Result,
    ledger: Sequence[Mapping[str, Any]],
    where: str,
    strata: Improvement | None = None,
    audit: Audit | None = None,
) -> Postmortem:
    """Makes the postmortem of a finished run; `where` is the result's folder relative to the run's, `strata`
    what became of each from the first evaluation to the last, `audit` the one of the policy it is of."""
    scored = [r for r in ledger if r.get("evaluation.success") is not None]
    behaviour, better_behaviour = _behaviour(result, scored, where)
    diagnostics, better_diagnostics = _diagnostics(result, scored, where)
    headline, better_score = _headline(ledger)
    verdict: Verdict = (
        "unproven"
        if audit is not None and audit.proof
        else "behaviour"
        if better_behaviour
        else "diagnostics"
        if better_diagnostics
        else "headline"
        if better_score
        else "nothing"
    )
    headline = headline.model_copy(
        update={"text": headline.text.removesuffix(".") + f"; so {MEANING[verdict]}."}
    )
    weakest = _weakest(result, where)
    cases, note = _cases(result, f"{where}/episodes.parquet")
    return Postmortem(
        run=result.run.id,
        verdict=verdict,
        sentences=(
            _audited(result, audit),
            behaviour,
            diagnostics,
            headline,
            _batch(ledger),
            weakest,
            *_strata(strata),
        ),
        cases=cases,
        cases_note=note,
    )


def _audited(result: Result, audit: Audit | None) -> Sentence:
    """Answers whether the policy failed or the batch lied, by the audit of the run."""
    asked = "Did the policy fail, or did the batch lie?"
    if audit is None:
        text = f"{asked} Nobody has asked: there is no audit of this policy (`surefoot audit` makes one)."
        missing = Evidence(file=AUDIT, field="findings", value=None)
        return Sentence(about="audit", text=text, evidence=(missing,))
    evidence = [
        Evidence(file=AUDIT, field=f"findings.{k} ({f.detector}): cause", value=f.cause)
        for k, f in enumerate(audit.findings)
    ]
    counts = (("findings", audit.findings), ("passed", audit.passed), ("failed", audit.failed))
    evidence += [Evidence(file=AUDIT, field=f"{name}: count", value=len(of)) for name, of in counts]
    if audit.proof:
        causes = ", ".join(dict.fromkeys(f.cause for f in audit.proof))
        first = audit.proof[0]
        more = f" (and {len(audit.proof) - 1} more)" if len(audit.proof) > 1 else ""
        text = (
            f"{asked} The batch, or what was made of it: {causes}. {first.statement}{more} What to do: "
            f"{first.remedy.removesuffix('.') or 'look closer'}."
        )
        return Sentence(about="audit", text=text, evidence=tuple(evidence))
    form = "full" if audit.full else "short"
    looked = f"{len(audit.passed)} detectors of the {form} audit found nothing on the proof"
    s = result.summary
    failed = "the policy failed, where it did" if s.success < 1 else "and the policy did not fail either"
    text = f"{asked} Not the batch, as far as was looked: {looked}; so {failed}."
    if audit.failed:
        text += f" {len(audit.failed)} could not look."
    if audit.remarks:
        text += f" Beside that, on the behaviour: {audit.remarks[0].statement}"
    return Sentence(about="audit", text=text, evidence=tuple(evidence))


def _behaviour(result: Result, scored: Sequence[Mapping[str, Any]], where: str) -> tuple[Sentence, bool]:
    """Compares held-out success at the end with that of the first evaluation; better when intervals
    separate."""
    s = result.summary
    text = (
        f"On {s.episodes} held-out episodes (n_eff {s.effective_episodes:.0f}) the policy "
        f"succeeded in {percent(s.success)} ({percent(s.success_low)} to {percent(s.success_high)})"
    )
    file = f"{where}/summary.json"
    evidence = [
        Evidence(file=file, field=k, value=getattr(s, k))
        for k in ("success", "success_low", "success_high", "episodes", "effective_episodes")
    ]
    if not scored:
        return Sentence(
            about="behaviour",
            text=f"{text}; success during training was not measured.",
            evidence=tuple(evidence),
        ), False
    first = scored[0]
    better = s.success_low > float(first["evaluation.success_high"])
    change = "up from" if s.success > first["evaluation.success"] else "against"
    text += (
        f", {change} {percent(first['evaluation.success'])} at update {first['update']}, and the intervals "
        f"{'do not overlap' if better else 'overlap, so that is no proof of a change'}."
    )
    evidence += [_ledger(first, f"evaluation.{k}") for k in ("success", "success_low", "success_high")]
    return Sentence(about="behaviour", text=text, evidence=tuple(evidence)), better


def _diagnostics(result: Result, scored: Sequence[Mapping[str, Any]], where: str) -> tuple[Sentence, bool]:
    """Compares velocity error and falls on held-out scenarios: what may improve before success does."""
    s, file = result.summary, f"{where}/summary.json"
    evidence = [
        Evidence(file=file, field="velocity_error_mps", value=s.velocity_error_mps),
        Evidence(file=file, field="fall_rate", value=s.fall_rate),
        Evidence(file=file, field="fall_high", value=s.fall_high),
    ]
    error = "not measured" if s.velocity_error_mps is None else f"{s.velocity_error_mps:.3f} m/s"
    text = f"The held-out velocity error ended at {error} and falls at {percent(s.fall_rate)} (at most "
    text += f"{percent(s.fall_high)})"
    if not scored:
        return Sentence(
            about="diagnostics", text=f"{text}; earlier ones were not measured.", evidence=tuple(evidence)
        ), False
    first = scored[0]
    before, fell = first["evaluation.velocity_error_mps"], float(first["evaluation.fall_rate"])
    evidence += [_ledger(first, f"evaluation.{k}") for k in ("velocity_error_mps", "fall_rate")]
    was = "not measured" if before is None else f"{before:.3f} m/s"
    text += f", from {was} and {percent(fell)} at update {first['update']}."
    closer = before is not None and s.velocity_error_mps is not None and s.velocity_error_mps < 0.9 * before
    return Sentence(about="diagnostics", text=text, evidence=tuple(evidence)), closer or s.fall_high < fell


def _headline(ledger: Sequence[Mapping[str, Any]]) -> tuple[Sentence, bool]:
    """States the training score, which only says that the optimiser found more of what it was paid for."""
    if not ledger:
        return Sentence(about="headline", text="The training score was not measured.", evidence=()), False
    edge = min(EDGE, max(1, len(ledger) // 2))
    parts = [np.array([r["reward_per_step"] for r in part]) for part in (ledger[:edge], ledger[-edge:])]
    ends = [float(p.mean()) for p in parts]
    noise = float(np.sqrt(sum(p.var(ddof=1) / edge for p in parts))) if edge > 1 else 0.0
    evidence = tuple(
        Evidence(file="ledger.jsonl", field=f"reward_per_step, mean of updates {a} to {b}", value=v)
        for (a, b), v in zip(
            (
                (ledger[0]["update"], ledger[edge - 1]["update"]),
                (ledger[-edge]["update"], ledger[-1]["update"]),
            ),
            ends,
            strict=True,
        )
    )
    text = f"The training reward per step went from {ends[0]:+.4f} to {ends[1]:+.4f}"
    rose = ends[1] - ends[0] > 2 * noise
    text += "." if rose or ends[1] < ends[0] else f", within its noise of {2 * noise:.4f} between updates."
    return Sentence(about="headline", text=text, evidence=evidence), rose


def _batch(ledger: Sequence[Mapping[str, Any]]) -> Sentence:
    """States what the training batch was worth, and whether it was what it looked like."""
    looked = [r for r in ledger if r.get("honesty.n") is not None]
    if not looked:
        text = "The training batch's independence (honesty.*) was not measured."
        missing = Evidence(file="ledger.jsonl", field="honesty.n", value=None)
        return Sentence(about="batch", text=text, evidence=(missing,))
    last = looked[-1]
    worst = max(looked, key=lambda r: r["honesty.reset_sync_index"] or 0.0)
    copies = max(looked, key=lambda r: r["honesty.duplicate_scenarios"])
    text = (
        f"The last {last['honesty.n']} samples looked at were worth {last['honesty.n_eff_return']:.0f} "
        f"independent returns and {last['honesty.n_eff_advantage']:.0f} advantages, resets were "
        f"{percent(worst['honesty.reset_sync_index'])} synchronised at worst, and "
        f"{copies['honesty.duplicate_scenarios'] or 'no'} environments ran copies of others."
    )
    evidence = [_ledger(last, f"honesty.{k}") for k in ("n", "n_eff_return", "n_eff_advantage")]
    evidence += [_ledger(worst, "honesty.reset_sync_index"), _ledger(copies, "honesty.duplicate_scenarios")]
    return Sentence(about="batch", text=text, evidence=tuple(evidence))


def _weakest(result: Result, where: str) -> Sentence:
    """Names the stratum with the lowest success, and the most common failure."""
    rows, file = result.rows, f"{where}/episodes.parquet"
    rates = {
        label: rate(rows["success"][m], rows["family"][m])
        for label, m in panel_strata(rows, result.run.contract).items()
    }
    label, worst = min(rates.items(), key=lambda item: (item[1].value, item[1].low))
    evidence = [
        Evidence(file=file, field=f"success where {label}: {k}", value=getattr(worst, k))
        for k in ("value", "low", "n", "n_eff")
    ]
    text = (
        f"It is weakest, or least known, at {label}: {percent(worst.value)} of {worst.n} episodes (n_eff "
        f"{worst.n_eff:.0f}), at least {percent(worst.low)}"
    )
    failed = ~rows["success"].astype(bool)
    name = "label" if "label" in rows else "reason"
    if failed.any():
        kinds, counts = np.unique(rows[name][failed].astype(str), return_counts=True)
        common, times = str(kinds[counts.argmax()]), int(counts.max())
        text += f"; {times} of {int(failed.sum())} failures were '{common}'"
        text += "" if name == "label" else " by their end reason (labels were not measured)"
        evidence.append(Evidence(file=file, field=f"{name} == {common} and not success: count", value=times))
    else:
        text += "; no episode failed"
        evidence.append(Evidence(file=file, field="not success: count", value=0))
    also, more = _hardest(result, file)
    return Sentence(about="weakest", text=f"{text}{also}.", evidence=(*evidence, *more))


def _strata(found: Improvement | None) -> tuple[Sentence, ...]:
    """Says which strata gained most and least while the run learned."""
    if found is None or not found.strata:
        return ()
    least, most = found.strata[0], found.strata[-1]
    parts = [
        f"{name} at {c.stratum} ({100 * c.difference.value:+.1f} points, from {percent(c.difference.a)} to "
        f"{percent(c.difference.b)} of {c.difference.n})"
        for name, c in (("least", least), ("most", most))
    ]
    text = f"From update {found.first} to {found.last} success on the selection half improved {parts[0]} and "
    evidence = [
        Evidence(file=file, field=f"success where {c.stratum}: mean", value=value)
        for c in (least, most)
        for file, value in zip(found.files, (c.difference.a, c.difference.b), strict=True)
    ]
    return (Sentence(about="strata", text=f"{text}{parts[1]}.", evidence=tuple(evidence)),)


def _cases(result: Result, file: str) -> tuple[tuple[Case, ...], str]:
    """Returns cases of the nominal pass; where nothing failed there, of the perturbations."""
    cases, note = representative_failures(result.rows, file, result.index)
    others = perturbed(result)
    if cases or not others.size:
        return cases, note
    rows = {k: v[others] for k, v in result.table.items()}
    cases, _ = representative_failures(rows, file, others)
    return (
        cases,
        f"{note.split(',')[0]} in the nominal pass; {'these failed' if cases else 'nor any'} when perturbed.",
    )


def _hardest(result: Result, file: str) -> tuple[str, list[Evidence]]:
    """Names the perturbation with the lowest success."""
    others, table = perturbed(result), result.table
    if not others.size:
        return "; perturbations were not measured", [Evidence(file=file, field="column", value=None)]
    names = table["column"][others].astype(str)
    rates = {
        str(n): rate(table["success"][others][names == n], table["family"][others][names == n])
        for n in np.unique(names)
    }
    name, worst = min(rates.items(), key=lambda item: (item[1].value, item[1].low))
    text = f"; the hardest of {len(rates)} perturbations was {name} with {percent(worst.value)} "
    evidence = [
        Evidence(file=file, field=f"success where column {name}: {k}", value=getattr(worst, k))
        for k in ("value", "low", "high", "n", "n_eff")
    ]
    text += f"(n {worst.n}, n_eff {worst.n_eff:.0f}, {percent(worst.low)} to {percent(worst.high)})"
    return text, evidence


def _ledger(row: Mapping[str, Any], field: str) -> Evidence:
    return Evidence(file="ledger.jsonl", field=f"{field} at update {row['update']}", value=row.get(field))
