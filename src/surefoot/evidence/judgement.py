"""What a panel pass shows: every statement about it, computed from its episode rows by one code path, and
whether those rows, the contract and the files around them bear each other out.

Report, terminal, index, comparisons and promotions state what is in a `Judgement` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import ExternalContract, Panel, SeedPanel, SurefootError, find_panel, seed_panel
from surefoot.evidence.row_checks import CHECKS
from surefoot.runs import Audit, Result, RunFolder, broken_chain, id_problems, load_arrays, load_audit, typed
from surefoot.statistics import WORDS, Agreement, Estimate, Grade, PanelSummary, disagreements, judge

POLICIES = ("checkpoints/confirmed.safetensors", "policy.safetensors")
"""Where a run keeps the policy that its result is of."""
AUDIT_CHECK = "audit"
"""The check whose faults are an audit's findings on the proof."""
MOST = 4
"""Sentences told of one check; the rest are counted."""


@dataclass(frozen=True)
class Fault:
    """Something in which a run's evidence contradicts itself."""

    check: str
    says: str

    def __str__(self) -> str:
        return f"{self.check}: {self.says}"


@dataclass(frozen=True)
class Judgement:
    """Holds what a pass shows, and what speaks against its evidence."""

    summary: PanelSummary
    """Every figure, counted from the rows."""
    faults: tuple[Fault, ...] = ()
    """Where the evidence contradicts itself; then nothing is proven."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at here, and why."""
    remarks: tuple[str, ...] = ()
    """What an audit says of the behaviour, and what it was not to ask: it stands beside the verdict and
    changes nothing."""
    audit: Audit | None = None
    """The last audit of the policy that the pass is of; None where there was none."""

    @property
    def grade(self) -> Grade:
        s = self.summary
        if self.faults:
            return "unproven"
        return judge(s.success, s.success_low, s.safety_held, s.beats_baselines)

    @property
    def word(self) -> str:
        return WORDS[self.grade]

    @property
    def sound(self) -> bool:
        """Whether the files bear each other out, as far as could be seen without simulating."""
        return not self.faults

    @property
    def success(self) -> Estimate:
        return self.summary.figures["success"]

    @property
    def safety_held(self) -> bool | None:
        return self.summary.safety_held

    @property
    def beats_baselines(self) -> bool | None:
        return self.summary.beats_baselines

    @property
    def holds(self) -> dict[tuple[str, str], bool]:
        """(column, engine) -> whether the trained policy is shown to hold there."""
        of = (c for c in self.summary.columns if not c.column.startswith("baseline:"))
        return {(c.column, c.engine): c.holds for c in of}

    @property
    def transfer(self) -> tuple[str, ...]:
        return self.summary.transfer

    @property
    def agreement(self) -> tuple[Agreement, ...]:
        return self.summary.agreement

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.word,
            "faults": [asdict(f) for f in self.faults],
            "unseen": list(self.unseen),
            "remarks": list(self.remarks),
            "audit": _audit_as_json(self.audit),
        }


def judgement(result: Result) -> Judgement:
    """Judges a pass that was loaded: `load_result`."""
    panel = _panel(result)
    unseen = []
    if panel is None:
        unseen.append(
            f"The panel {result.summary.panel} is not on this machine: scenarios were not compared."
        )
    if "scenario" not in result.table:
        unseen.append("These rows are of a version that did not name scenarios.")
    gone = [n for n in POLICIES if result.home is not None and not (result.home / n).is_file()]
    unseen += [f"{n} is not there to be compared with the result." for n in gone]
    faults = [f for name, says in _found(result, panel) for f in _told(name, says)]
    audit = _audit(result)
    remarks = tuple(f"Audit, on the behaviour: {f.statement}" for f in audit.remarks) if audit else ()
    exempt = result.run.contract.exempt
    remarks += tuple(f"Not audited, by the contract: {name}, because {why}" for name, why in exempt.items())
    return Judgement(result.summary, tuple(faults), tuple(unseen), remarks, audit)


def check_sound(result: Result) -> None:
    """Refuses a result whose evidence contradicts itself: figures over many runs have no place to say so."""
    faults = judgement(result).faults
    if faults:
        raise contradicted(result, faults[0])


def check_audited(run: RunFolder) -> None:
    """Refuses a run whose audit has a finding on the proof, whichever of its policies a result is of: what is
    wrong with how it was trained is wrong with all of them."""
    audit = load_audit(run.path)
    if audit is not None and audit.proof:
        first = audit.proof[0]
        raise SurefootError(
            f"{run.path} is not what it says ({first.cause}, found by {first.detector}: {first.statement}); "
            f"look closer with `{typed('audit', run.path)}`, or leave that run out."
        )


def contradicted(result: Result, fault: Fault) -> SurefootError:
    """Returns the refusal of a result by what speaks against it, with where to look closer."""
    where = result.home or result.folder
    if fault.check == AUDIT_CHECK:
        return SurefootError(
            f"{where} is not what it says ({fault}); look closer with `{typed('audit', where)}`, or leave "
            "that run out."
        )
    return SurefootError(
        f"The files of {result.folder} contradict each other ({fault}); look closer with "
        f"`{typed('verify', where)}`, or leave that run out."
    )


def _found(result: Result, panel: Panel | SeedPanel | None) -> Iterator[tuple[str, list[str]]]:
    yield "contract", list(_contract(result))
    yield "summary", list(_summaries(result))
    for name, check in CHECKS.items():
        try:
            yield name, list(check(result, panel))
        except (KeyError, ValueError, TypeError, IndexError) as error:  # columns of other kinds than they are
            yield name, [f"the table cannot be read as rows of episodes ({type(error).__name__}: {error})"]
    if result.home is not None:
        yield "policy", list(_policies(result, result.home))
        broken = broken_chain(result.home, result.run)
        yield "ledger", [broken.removesuffix(".")] if broken else []
    if (audit := _audit(result)) is not None:
        yield AUDIT_CHECK, [f"{f.cause}, found by {f.detector}: {f.statement}" for f in audit.proof]


def _audit(result: Result) -> Audit | None:
    """Returns the audit of the policy that the pass is of; None where there is none."""
    audit = load_audit(result.home) if result.home is not None else None
    return audit if audit is not None and audit.checkpoint == result.summary.checkpoint else None


def _audit_as_json(audit: Audit | None) -> dict[str, Any] | None:
    return None if audit is None else {"says": audit.says} | audit.model_dump(mode="json")


def _told(name: str, says: list[str]) -> list[Fault]:
    more = len(says) - MOST
    return [Fault(name, s) for s in says[:MOST]] + ([Fault(name, f"and {more} more")] if more > 0 else [])


def _panel(result: Result) -> Panel | SeedPanel | None:
    s, contract = result.summary, result.run.contract
    if not isinstance(contract, ExternalContract):
        return find_panel(s.panel_digest, (s.panel, contract.panel, result.run.panel))
    cut = s.panel.partition("+")[2].removesuffix("families")
    try:
        made = seed_panel(contract.episode_steps, *([int(cut)] if cut.isdecimal() else []))
    except SurefootError:  # the name asks for what no panel has
        return None
    return made if made.digest == s.panel_digest else None


def _contract(result: Result) -> Iterator[str]:
    run, summary = result.run, result.summary
    if run.contract.digest != run.contract_digest:
        yield "run.json's contract is not the one that its own digest is of"
    yield from id_problems(run, summary)
    own = summary.panel == run.panel
    if own and summary.panel_digest != run.panel_digest:
        yield "run.json and summary.json are of different panels"
    if own and not summary.measurement_id and summary.construct_id != run.construct_id:
        yield "run.json and summary.json are of different constructs"
    if summary.training_id != run.training_id:
        yield "run.json and summary.json are of different treatments (training id)"


def _summaries(result: Result) -> Iterator[str]:
    if result.stated is not None:
        yield from disagreements(result.stated, result.summary, "summary.json")
    confirmed = result.run.confirmation
    if confirmed is not None and result.home is not None and result.folder.name == "confirmation":
        own = result.home / "panels" / result.run.panel
        if result.folder == own / "confirmation":
            yield from disagreements(confirmed, result.summary, "run.json")


def _policies(result: Result, home: Path) -> Iterator[str]:
    """Compares the policy on disk with the one that the pass says it is of."""
    stated = result.run.confirmation
    if stated is None or result.summary.checkpoint != stated.checkpoint:
        return
    files = [home / n for n in POLICIES]
    if not all(p.is_file() for p in files):
        return
    try:
        (weights, meta, digest), (policy, card, _) = (load_arrays(p) for p in files)
    except SurefootError as error:
        yield str(error)
        return
    if digest != stated.checkpoint:
        yield f"checkpoints/confirmed.safetensors is {digest[:12]}, the result is of {stated.checkpoint[:12]}"
    theirs = {k.removeprefix("policy."): v for k, v in weights.items() if k.startswith("policy.")}
    same = theirs.keys() == policy.keys() and all(np.array_equal(v, policy[k]) for k, v in theirs.items())
    if theirs and not same:
        yield "policy.safetensors is not the policy of checkpoints/confirmed.safetensors"
    of = {str(m.get("contract_digest", "")) for m in (meta,)} | {
        str(m["policy"].get("contract_digest", "")) for m in (meta, card) if isinstance(m.get("policy"), dict)
    }
    if of - {"", result.run.contract_digest}:
        yield "the policy was trained under another contract than run.json holds"
    at = result.run.confirmed_update
    if at is not None and meta.get("update", at) != at:
        yield f"run.json says that the result is of update {at}, its checkpoint is of {meta.get('update')}"
