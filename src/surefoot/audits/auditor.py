"""The auditor: asks every detector, repeats what may be chance, and writes down what it found."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import CONFIRM, SCREEN, Detector, Found, Misshapen, NotApplicable
from surefoot.audits.kept import keep_block
from surefoot.audits.registry import detector, detectors
from surefoot.contract import Contract, SurefootError
from surefoot.runs import Audit, AuditFinding, NotLooked, RunFolder, load_audit, over, save_audit
from surefoot.training import LIVE_CHECKS

Tell = Callable[[str, int, int], None]
"""Is told which detector has its turn, its number, and of how many."""


def audit_run(
    run: RunFolder,
    *,
    only: Sequence[str] = (),
    short: bool = False,
    seed: int | None = None,
    tell: Tell = lambda name, k, n: None,
) -> Audit:
    """Audits a run and writes audit.json, which replaces what was written before (the short form keeps what a
    full audit of the same policy has from others); with `only` some are asked, and nothing is written."""
    begun = time.perf_counter()
    asked = _chosen(only, short)
    seed = secrets.randbits(30) if seed is None else seed
    case = Case(run, seed)
    found: list[AuditFinding] = []
    passed: list[str] = []
    absent: list[NotLooked] = []
    failed: list[NotLooked] = []
    exempt: list[NotLooked] = []
    misshapen: set[str] = set()  # said once, by the first that met it
    took: dict[str, float] = {}
    exemptions = run.record.contract.exempt
    check_exemptions(run.record.contract)
    try:
        for k, d in enumerate(asked):
            tell(d.name, k, len(asked))
            because = case.why_not(d.needs)
            if d.name in exemptions:
                exempt.append(NotLooked(detector=d.name, because=exemptions[d.name]))
                continue
            if because:
                absent.append(NotLooked(detector=d.name, because=because))
                continue
            started = time.perf_counter()
            try:
                there = ask(d, case)
            except NotApplicable as reason:
                absent.append(NotLooked(detector=d.name, because=str(reason)))
            except Misshapen as fault:
                if d.kind == "proof" and str(fault) not in misshapen:
                    misshapen.add(str(fault))
                    found.append(_finding(d, fault.found))
                else:
                    failed.append(NotLooked(detector=d.name, because=f"nobody can go on from this: {fault}"))
            except Exception as error:
                says = str(error) if isinstance(error, SurefootError) else f"{type(error).__name__}: {error}"
                failed.append(NotLooked(detector=d.name, because=says))
            else:
                found += there
                passed += [] if there else [d.name]
            took[d.name] = round(time.perf_counter() - started, 3)
        if not only and not short:
            keep_block(run, case)
    finally:
        case.close()
    r = run.record
    audit = Audit(
        checkpoint=r.confirmation.checkpoint if r.confirmation else "",
        updates=int(r.figures.get("updates") or 0),
        full=not short and not only,
        seed=seed,
        findings=tuple(found),
        passed=tuple(passed),
        not_applicable=tuple(absent),
        failed=tuple(failed),
        exempt=tuple(exempt),
        seconds=time.perf_counter() - begun,
        took=took,
    )
    if only:
        return audit
    audit = audit if audit.full else over(load_audit(run.path), audit)
    save_audit(run, audit)
    return audit


def check_exemptions(contract: Contract) -> None:
    """Refuses a contract that exempts itself from what nobody asks."""
    for name in contract.exempt:
        if name not in LIVE_CHECKS:
            detector(name)


@torch.inference_mode()
def ask(asked: Detector, case: Case) -> list[AuditFinding]:
    """Asks one detector. What chance could explain at 1% is looked at again under fresh keys, and stands only
    where chance would give that once in ten thousand."""
    found = list(asked.look(case))
    certain = [f for f in found if f.p is None]
    screened = [f for f in found if f.p is not None and f.p < SCREEN]
    if screened:
        again = case.fresh(case.seed + 1)
        try:
            certain += [f for f in asked.look(again) if f.p is not None and f.p < CONFIRM]
        finally:
            again.close()
    return [_finding(asked, f) for f in certain]


def _finding(d: Detector, f: Found) -> AuditFinding:
    return AuditFinding(
        detector=d.name,
        kind=d.kind,
        cause=f.cause or d.cause,
        statement=f.statement,
        p=f.p,
        means=d.means,
        remedy=d.remedy,
    )


def _chosen(only: Sequence[str], short: bool) -> list[Detector]:
    wanted = {detector(name).name for name in only}
    return [d for d in detectors().values() if (not only or d.name in wanted) and (d.short or not short)]
