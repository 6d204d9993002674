"""Is the checkpoint that the result is stated on the one that its selection half chose?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.passes import sampled
from surefoot.audits.recounted import differences, expected
from surefoot.policy import read_policy
from surefoot.runs import read_rows, read_summary, section

LEDGER = (
    *("success", "success_low", "success_high", "fall_rate", "velocity_error_mps", "yaw_error_radps"),
    *("cost_of_transport", "episodes", "effective_episodes", "end_reasons"),
)
"""What the ledger repeats of an evaluation."""


def look(case: Case) -> list[Found]:
    """Follows the choice from the rows of every evaluation to the checkpoint that was confirmed."""
    r = case.record
    scored = {int(row["update"]): row for row in case.ledger if row.get("evaluation.success") is not None}
    folders = case.run.path / "panels" / r.panel
    passes = {int(p.name.rpartition("-")[2]): p for p in sorted(folders.glob("selection-update-*"))}
    if not scored and not passes:
        raise NotApplicable("nothing was scored while it trained: the result is the last policy")
    if r.status != "finished" or r.confirmed_after not in (None, case.ledger[-1]["update"]):
        raise NotApplicable("training went on after what is confirmed, and nothing was chosen since")
    success = {u: _success(p) for u, p in passes.items()}
    out = [Found(text, cause="bookkeeping") for text in _ledger(case, scored, passes)]
    out += [Found(text, cause="bookkeeping") for text in _schedule(case, scored, passes)]
    out += [Found(text) for text in _chosen(case, scored, success)]
    out += [Found(text) for text in _weights(case, passes)]
    return out


def _success(folder: Path) -> float:
    good = parquet.read_table(folder / "episodes.parquet", columns=["success"]).column(0).to_pylist()
    return sum(map(bool, good)) / len(good)


def _ledger(case: Case, scored: Mapping[int, Mapping[str, Any]], passes: Mapping[int, Path]) -> Iterator[str]:
    """The ledger repeats what the rows of its evaluations show."""
    for update in scored.keys() - passes.keys():
        yield f"The evaluation of update {update} left no rows"
    f = case.record.figures
    always = [int(u) for u in (f.get("best_update"), case.record.confirmed_update) if u is not None]
    for update in sampled(case, sorted(scored.keys() & passes.keys()), always):
        row = scored[update]
        stated = read_summary(passes[update])
        rows = read_rows(passes[update], stated)
        right = expected(rows, stated.engine, case.record.contract)
        said = {k: row.get(f"evaluation.{k}") for k in LEDGER}
        wrong = list(differences({k: right[k] for k in LEDGER}, said))
        if wrong:
            yield f"Of update {update} the ledger says {wrong[0]} by its rows"


def _schedule(
    case: Case, scored: Mapping[int, Mapping[str, Any]], passes: Mapping[int, Path]
) -> Iterator[str]:
    """Evaluations are where the recipe has them, and the last policy was scored too."""
    if case.record.learner != "ppo":
        return
    every, last = case.record.recipe.evaluate_every, int(case.ledger[-1]["update"])
    right = list(range(every, last + 1, every))
    if sorted(scored) != right:
        odd = sorted(set(scored) ^ set(right))
        yield f"Evaluations are not every {every} updates: {odd[0]} is one that is missing, or too many"
    if last % every and last not in passes:
        yield f"The last policy, of update {last}, was never scored"


def _chosen(
    case: Case, scored: Mapping[int, Mapping[str, Any]], success: Mapping[int, float]
) -> Iterator[str]:
    """The best is that of the highest success, the latest of equals; a last policy as good is better."""
    r, f = case.record, case.record.figures
    last = int(case.ledger[-1]["update"])
    by = {u: success.get(u, float(scored[u]["evaluation.success"])) for u in scored}
    best = max(by, key=lambda u: (by[u], u)) if by else 0
    top = by.get(best, -1.0)
    chosen = last if last not in scored and success.get(last, -1.0) >= top else best
    if by and f.get("best_update") is not None and f["best_update"] != best:
        yield (
            f"run.json calls update {f['best_update']} the best, and by the selection half it is {best} "
            f"({100 * top:.1f}%)"
        )
    said = f.get("best_selection_success")
    if by and said is not None and abs(float(said) - top) > 1e-9:
        yield f"run.json says that the best succeeds in {100 * float(said):.1f}% where it is {100 * top:.1f}%"
    for name, at in (("chosen_update", f.get("chosen_update")), ("confirmed_update", r.confirmed_update)):
        if at is not None and at != chosen:
            yield f"{name} is {at} where the selection half chose {chosen}"


def _weights(case: Case, passes: Mapping[int, Path]) -> Iterator[str]:
    """What was confirmed is the policy that was scored, number by number."""
    r, update = case.record, case.record.confirmed_update
    confirmed = case.run.load_checkpoint("confirmed")
    if update is not None and int(confirmed.meta.get("update", update)) != update:
        yield f"The confirmed checkpoint is of update {confirmed.meta['update']}, not {update}"
    weights = {k: v.cpu().numpy() for k, v in section("policy", confirmed.tensors).items()}
    for name in ("best", "latest"):
        if not case.run.checkpoint_path(name).is_file() or r.learner != "ppo":
            continue
        meta = case.run.load_checkpoint(name).meta
        of = r.figures.get("best_update") if name == "best" else r.figures.get("updates")
        if of is not None and meta.get("update") != of:
            yield f"The {name} checkpoint is of update {meta.get('update')}, not {of}"
    folder = passes.get(-1 if update is None else update)
    if folder is None or not (folder / "policy.safetensors").is_file() or not weights:
        return
    scored = {k: v.cpu().numpy() for k, v in read_policy(folder / "policy.safetensors").tensors.items()}
    if scored.keys() & weights.keys() and any(
        not np.array_equal(scored[k], weights[k]) for k in scored.keys() & weights.keys()
    ):
        yield f"The confirmed policy is not the one that was scored at update {update}"


DETECTORS = (
    Detector(
        name="choosing",
        kind="proof",
        cause="held-out",
        asks="Is the confirmed checkpoint the one that the selection half chose?",
        statistic="success of every evaluation counted from its rows, the best by it, the ledger's other "
        "figures (of ten evaluations, where there are more), and the numbers of the policy that was scored "
        "against those of the one that was confirmed",
        threshold="none: updates, weights and counts are exact; figures to 1e-6",
        means="The result is of another policy than the one that training chose, or was chosen otherwise.",
        remedy="Look at training/selection.py and at what saves the best checkpoint.",
        look=look,
        needs=("confirmed", "ledger"),
        short=True,
    ),
)
