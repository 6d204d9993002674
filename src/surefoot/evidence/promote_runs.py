"""Promotion on what two runs have recorded: the decision is counted, made, and kept where a registry is
given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from surefoot.evidence.judgement import AUDIT_CHECK, judgement
from surefoot.evidence.promote import Promotion, check_promotable, promote
from surefoot.evidence.registry import Registry
from surefoot.runs import Look, Result, RunFolder, load_result, note_look, scenarios_of, typed


def promote_run(candidate: str | Path, baseline: str | Path, registry: str | Path | None = None) -> Promotion:
    """Decides whether the run in folder `candidate` may replace the one in `baseline`, by the confirmation
    half that both were confirmed on. It spends some of what decisions on that half may err."""
    runs = RunFolder.open(candidate), RunFolder.open(baseline)
    for run in runs:
        check_promotable(run)
    mine, theirs = (load_result(run) for run in runs)
    wrong = contradictions(mine, theirs)
    return decide((runs[0], mine), (runs[1], theirs), registry=registry, wrong=wrong)


def decide(
    candidate: tuple[RunFolder, Result],
    baseline: tuple[RunFolder, Result],
    *,
    root: int | None = None,
    registry: str | Path | None = None,
    wrong: tuple[str, ...] = (),
) -> Promotion:
    """Counts the look, decides on the rows, and keeps the decision. `root`: of the scenarios, where they were
    made for this decision; `wrong`: why nothing can be decided on these rows."""
    runs, results = (candidate[0], baseline[0]), (candidate[1], baseline[1])
    made = promote(*results)
    made = replace(made, outcome="INVALID", reasons=(*made.reasons, *wrong)) if wrong else made
    if made.outcome != "INVALID":  # what cannot be decided is no decision, and spends nothing
        seeds = runs[0].record.panel_seeds
        seeds = seeds if root is None else seeds.model_copy(update={"root": root})
        look = Look(
            scenarios=scenarios_of(made.panel, seeds),
            panel_digest=made.panel_digest,
            by="promote",
            checkpoints=tuple(r.summary.checkpoint for r in results),
            kind="decision",
        )
        made = promote(*results, note_look([r.path.parent for r in runs], look))
    fresh = root is not None
    made = replace(made, fresh=fresh, root=root if root is not None else runs[0].record.panel_seeds.root)
    if registry is None:
        return made
    kept = Registry(Path(registry))
    decision = kept.keep(made, candidate, baseline)
    return replace(made, record=str(kept.path / "decisions" / f"{decision.number:04d}.json"))


def contradictions(candidate: Result, baseline: Result) -> tuple[str, ...]:
    """Says in sentences where the evidence of either contradicts itself: it then decides nothing."""
    wrong = []
    for who, result in (("candidate", candidate), ("baseline", baseline)):
        if faults := judgement(result).faults:
            audited = faults[0].check == AUDIT_CHECK
            what = "is not what it says" if audited else "contradicts itself"
            look = typed("audit" if audited else "verify", result.home or result.folder)
            wrong.append(f"The {who}'s evidence {what} ({faults[0]}); look closer with `{look}`.")
    return tuple(wrong)
