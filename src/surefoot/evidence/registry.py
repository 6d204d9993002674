"""A registry: every decision about a promotion as a record that is never overwritten, with what it rests on,
which decision put the baseline into place, and the policies that were promoted.

    registry/
      decisions/0001.json    a decision; each has the digest of the one before it
      policies/<digest>.safetensors    the policy bundle of every promoted candidate
      evidence/<question>/candidate, baseline    rows of scenarios that were made for a decision
"""

from __future__ import annotations

import getpass
import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.artifacts import atomic_write, cannot_write, plain, read_json, write_json
from surefoot.contract import Frozen, SurefootError, digest
from surefoot.evidence.promote import Outcome, Promotion
from surefoot.runs import Result, RunFolder, appending, timestamp, versions

LOCK = ".lock"


class PolicyRecord(Frozen):
    """A policy that a decision is about."""

    run: str
    folder: str
    task: str
    checkpoint: str
    """Digest of the checkpoint that was judged."""
    training_id: str
    seed: int
    rows: str
    """SHA-256 of the episode rows that it was judged by; "" where they were not kept."""


class Decision(Frozen):
    """One decision, as the registry keeps it."""

    schema_version: int = 1
    number: int
    created: str
    by: str
    """The person who decided, and the machine: user@machine."""
    outcome: Outcome
    reasons: tuple[str, ...]
    candidate: PolicyRecord
    baseline: PolicyRecord
    panel: str
    panel_digest: str
    root: int
    fresh: bool
    alpha: float
    decision: int
    """The number of the decision on these scenarios, in the folders of the runs; 0: not counted."""
    look: int
    attempt: int
    """The number of the attempt to replace this baseline, in this registry."""
    question: str
    """Digest of policies, scenarios and rows: the same question is decided once."""
    parent: str
    """Digest of the decision that put the baseline into place; "" where none in this registry did."""
    previous: str
    """Digest of the decision before this one in the registry."""
    versions: dict[str, str]
    figures: dict[str, Any]
    """Sides, strata and bars, as `surefoot promote --json` prints them."""


@dataclass(frozen=True)
class Registry:
    """A folder of decisions."""

    path: Path

    def decisions(self) -> list[Decision]:
        """Returns all decisions, the first first."""
        files = sorted((self.path / "decisions").glob("*.json"))
        return [read_json(f, Decision) for f in files]

    def faults(self) -> list[str]:
        """Says which decisions do not follow from the one before: a record was changed or removed."""
        out, previous = [], ""
        for number, d in enumerate(self.decisions(), 1):
            if d.number != number or d.previous != previous:
                out.append(
                    f"Decision {d.number} does not follow from the one before it: a record was changed."
                )
            previous = d.digest
        return out

    def find(self, word: str) -> Decision:
        """Returns a decision by its number, or the last one about a policy by its run or checkpoint."""
        known = self.decisions()
        for d in reversed(known):
            names = (d.candidate.run, d.baseline.run)
            if word == str(d.number) or word in names or (
                len(word) >= 8 and any(p.checkpoint.startswith(word) for p in (d.candidate, d.baseline))
            ):  # fmt: skip
                return d
        raise SurefootError(
            f"{self.path} has no decision '{word}'; it has numbers 1 to {len(known)}, and runs and "
            "checkpoints that they are about."
            if known
            else f"{self.path} has no decisions yet; `surefoot promote --registry {self.path}` makes them."
        )

    def current(self) -> Decision | None:
        """Returns the last promotion: what it promoted is what stands now."""
        return next((d for d in reversed(self.decisions()) if d.outcome == "PROMOTE"), None)

    def lineage(self, of: Decision) -> list[Decision]:
        """Returns the promotions that led to the candidate of `of`, the newest first."""
        by = {d.digest: d for d in self.decisions()}
        out = [of]
        while out[-1].parent in by:
            out.append(by[out[-1].parent])
        return out

    def bundle(self, d: Decision) -> Path:
        return self.path / "policies" / f"{d.candidate.checkpoint[:16]}.safetensors"

    def evidence(self, question: str) -> Path:
        """Returns the folder of what was measured for a decision."""
        return self.path / "evidence" / question[:16]

    def keep(
        self, p: Promotion, candidate: tuple[RunFolder, Result], baseline: tuple[RunFolder, Result]
    ) -> Decision:
        """Writes a decision down, with the promoted policy; one that is there already is returned."""
        try:
            (self.path / "decisions").mkdir(parents=True, exist_ok=True)
            with appending(self.path / LOCK):
                return self._keep(p, _policy(*candidate), _policy(*baseline), candidate[0])
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _keep(
        self, p: Promotion, candidate: PolicyRecord, baseline: PolicyRecord, run: RunFolder
    ) -> Decision:
        before = self.decisions()
        question = digest(
            {"policies": [candidate.checkpoint, baseline.checkpoint], "panel": p.panel_digest,
             "rows": [candidate.rows, baseline.rows], "alpha": p.alpha}
        )  # fmt: skip
        same = next((d for d in before if d.question == question), None)
        if same is not None:
            return same
        placed = [
            d for d in before if d.outcome == "PROMOTE" and d.candidate.checkpoint == baseline.checkpoint
        ]
        made = Decision(
            number=len(before) + 1,
            created=timestamp(),
            by=_who(),
            outcome=p.outcome,
            reasons=p.reasons,
            candidate=candidate,
            baseline=baseline,
            panel=p.panel,
            panel_digest=p.panel_digest,
            root=p.root,
            fresh=p.fresh,
            alpha=p.alpha,
            decision=p.look.decision if p.look else 0,
            look=p.look.number if p.look else 0,
            attempt=1 + sum(d.baseline.checkpoint == baseline.checkpoint for d in before),
            question=question,
            parent=placed[-1].digest if placed else "",
            previous=before[-1].digest if before else "",
            versions=versions(),
            figures=plain({k: v for k, v in p.as_json().items() if k in _FIGURES}),
        )
        if made.outcome == "PROMOTE":
            self._copy(run, made)
        path = self.path / "decisions" / f"{made.number:04d}.json"
        if path.exists():
            raise SurefootError(f"{path} is there already; decisions are never overwritten.")
        write_json(path, made)
        return made

    def _copy(self, run: RunFolder, d: Decision) -> None:
        """Copies the promoted policy bundle; one that is there is left as it is."""
        source, place = run.path / "policy.safetensors", self.bundle(d)
        if not place.exists() and source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(place, source.read_bytes())


_FIGURES = ("differs", "disturbances", "transfer", "strata", "bars", "candidate_caveat", "baseline_caveat")


def _policy(run: RunFolder, result: Result) -> PolicyRecord:
    rows = result.folder / "episodes.parquet"
    return PolicyRecord(
        run=run.record.id,
        folder=str(run.path),
        task=run.record.task,
        checkpoint=result.summary.checkpoint,
        training_id=run.record.training_id,
        seed=run.record.seeds.root,
        rows=hashlib.sha256(rows.read_bytes()).hexdigest() if rows.is_file() else "",
    )


def _who() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number that has no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def open_registry(path: str | Path) -> Registry:
    """Opens a registry that is there."""
    folder = Path(path)
    if not (folder / "decisions").is_dir():
        raise SurefootError(
            f"{folder} is not a registry: it has no decisions; `surefoot promote --registry {folder}` begins "
            "one."
        )
    return Registry(folder)
