"""An audit on disk: audit.json has what was looked at in a run, what was found, and what could not be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from surefoot.artifacts import read_json, write_json
from surefoot.contract import Frozen
from surefoot.runs.folder import RunFolder

AUDIT, AUDIT_VERSION = "audit.json", 1
Kind = Literal["proof", "behaviour"]
"""proof: the run is not what it says. behaviour: what it learned is not what was meant."""


class AuditFinding(Frozen):
    """Something that a detector found."""

    detector: str
    kind: Kind
    cause: str
    """The class of cause that it points at."""
    statement: str
    p: float | None = None
    """The chance of it in a clean run; None where it is no matter of chance."""
    means: str = ""
    remedy: str = ""
    """What to do about it."""


class NotLooked(Frozen):
    """A detector that had no look at a run, and why."""

    detector: str
    because: str


class Audit(Frozen):
    """Holds audit.json."""

    schema_version: int = AUDIT_VERSION
    checkpoint: str
    """Digest of the confirmed checkpoint that the audit is of; "" where nothing was confirmed."""
    updates: int
    """Updates that training had made."""
    full: bool
    """Whether every detector had its turn; else the short form."""
    seed: int = 0
    """Seed of the probes: with it an audit is repeated."""
    findings: tuple[AuditFinding, ...] = ()
    passed: tuple[str, ...] = ()
    not_applicable: tuple[NotLooked, ...] = ()
    failed: tuple[NotLooked, ...] = ()
    """Detectors that broke off: they could not look, which is neither passed nor found."""
    exempt: tuple[NotLooked, ...] = ()
    """Detectors that the contract exempts itself from, with its reason."""
    seconds: float = 0.0
    took: dict[str, float] = {}
    """Seconds by detector; the first that asks for something that several share pays for it."""

    @property
    def proof(self) -> tuple[AuditFinding, ...]:
        """Returns the findings that leave nothing proven."""
        return tuple(f for f in self.findings if f.kind == "proof")

    @property
    def remarks(self) -> tuple[AuditFinding, ...]:
        """Returns what is said of the behaviour, beside the verdict."""
        return tuple(f for f in self.findings if f.kind == "behaviour")

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the detectors that were asked, whether or not they could look."""
        absent = (*self.not_applicable, *self.failed, *self.exempt)
        names = (*self.passed, *(f.detector for f in self.findings), *(n.detector for n in absent))
        return tuple(dict.fromkeys(names))

    @property
    def says(self) -> str:
        """Says in one line what came of it. What was not looked at is never among what was passed."""
        form = "Full audit" if self.full else "Short audit"
        proof, beside = (len({f.detector for f in fs}) for fs in (self.proof, self.remarks))
        parts = [f"found something on the proof by {_counted(proof)}"] if proof else []
        parts += [f"remarks on the behaviour by {_counted(beside)}"] if beside else []
        parts += [f"{len(self.passed)} of {_counted(len(self.names))} found nothing"]
        absent = (
            (self.not_applicable, "do not apply", "does not apply"),
            (self.failed, "could not look", "could not look"),
            (self.exempt, "are exempt by the contract", "is exempt by the contract"),
        )
        parts += [f"{len(who)} {one if len(who) == 1 else many}" for who, many, one in absent if who]
        return f"{form}: {', '.join(parts)}."

    @property
    def exit_status(self) -> int:
        """Returns 1 where the proof is in doubt, 2 where something could not be looked at, else 0."""
        looked = bool(self.passed or self.findings)
        return 1 if self.proof else 2 if self.failed or not looked else 0


def grouped(absent: Sequence[NotLooked]) -> dict[str, list[str]]:
    """Returns names of detectors by the reason why they had no look."""
    out: dict[str, list[str]] = {}
    for n in absent:
        out.setdefault(n.because, []).append(n.detector)
    return out


def _counted(detectors: int) -> str:
    return f"{detectors} detector{'' if detectors == 1 else 's'}"


def over(kept: Audit | None, audit: Audit) -> Audit:
    """Returns an audit with what another of the same policy had from detectors that were not asked this time:
    the short form takes back nothing that a full audit has found."""
    if kept is None or (kept.checkpoint, kept.updates) != (audit.checkpoint, audit.updates):
        return audit
    asked = set(audit.names)
    parts = ("findings", "not_applicable", "failed", "exempt")
    more: dict[str, Any] = {
        k: (*getattr(audit, k), *(x for x in getattr(kept, k) if x.detector not in asked)) for k in parts
    }
    more["passed"] = (*audit.passed, *(name for name in kept.passed if name not in asked))
    return audit.model_copy(update=more | {"full": audit.full or kept.full})


def save_audit(run: RunFolder, audit: Audit) -> Path:
    """Writes audit.json in place of the one before, and seals it."""
    path = run.path / AUDIT
    write_json(path, audit)
    run.seal("audited", [path])
    return path


def load_audit(folder: Path) -> Audit | None:
    """Reads a run's audit; None where there is none."""
    path = folder / AUDIT
    return read_json(path, Audit) if path.is_file() else None
