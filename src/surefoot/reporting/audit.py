"""What an audit found: whether the run is what it says, asked by detectors one by one."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.reporting.figures import RunFigures
from surefoot.reporting.web.html import Html, el, join
from surefoot.reporting.web.words import word
from surefoot.runs import LIVE, Audit, AuditFinding, NotLooked, grouped

GRADES = {"proof": "bad", "behaviour": "mixed"}


def audit_section(run: RunFigures) -> Html:
    """Shows the verdict line, findings with cause and what to do, and what was not looked at."""
    found = run.panel.judgement.audit if run.panel else None
    lead = (
        "Is the run what it says? Each detector asks one question, of its files or of environments made anew."
    )
    inner = _none(run) if found is None else _found(run, found)
    title = el("h2", word("audit", "Audit"))
    return el("section", title, el("p", lead, class_="lead"), inner, _live(run), class_="card audit")


def _live(run: RunFigures) -> Html | None:
    """Lists what live checks found while the run trained."""
    found = [
        el("li", f"Update {row['update']}, ", el("code", k.removeprefix(LIVE)), f": {row[k]}")
        for row in run.ledger.rows
        for k in row
        if k.startswith(LIVE)
    ]
    if not found:
        return None
    return el("div", el("h3", "Told while it trained"), el("ul", *found), class_="note mixed live")


def _none(run: RunFigures) -> Html:
    """Says that nobody has asked."""
    why = "nothing was confirmed" if run.panel is None else "there is no audit of the confirmed policy"
    text = f"Not audited: {why}. "
    return el("p", text, el("code", f"surefoot audit {run.folder}"), class_="absent")


def _found(run: RunFigures, a: Audit) -> Html:
    told = f"{a.says} {a.seconds:.1f} s, seed {a.seed}."
    stamp = el("p", told, class_="note bad" if a.proof else "note good")
    parts: list[Html] = [stamp]
    parts += [_finding(f) for f in (*a.proof, *a.remarks)]
    if a.passed:
        names = el("p", *_names(a.passed))
        parts.append(el("details", el("summary", f"Found nothing: {len(a.passed)}"), names))
    parts += [
        _absent(what, absent, opened)
        for what, absent, opened in (
            ("Could not look", a.failed, True),
            ("Exempt by the contract", a.exempt, True),
            ("Do not apply", a.not_applicable, False),
        )
        if absent
    ]
    if not a.full:
        rest = "The short form, as every training ends with it. All detectors: "
        parts.append(el("p", rest, el("code", f"surefoot audit {run.folder}"), class_="muted"))
    return join(*parts)


def _finding(f: AuditFinding) -> Html:
    chance = "" if f.p is None else f" Its chance in a clean run: {f.p:.1g}."
    kind = "On the proof" if f.kind == "proof" else "On the behaviour"
    return el(
        "div",
        el("h3", f"{kind}: {f.cause}"),
        el("p", f.statement, chance, " ", el("small", "found by ", el("code", f.detector))),
        el("p", el("b", "It means "), f.means) if f.means else None,
        el("p", el("b", "What to do "), f.remedy) if f.remedy else None,
        class_=f"note finding {GRADES[f.kind]}",
        data_detector=f.detector,
        data_cause=f.cause,
    )


def _absent(what: str, absent: Sequence[NotLooked], opened: bool) -> Html:
    """Lists detectors that had no look, by reason."""
    items = [
        el("li", because[:1].upper() + because[1:], ": ", *_names(names))
        for because, names in grouped(absent).items()
    ]
    return el("details", el("summary", f"{what}: {len(absent)}"), el("ul", *items), open=opened)


def _names(names: Sequence[str]) -> list[Html | str]:
    out: list[Html | str] = []
    for k, name in enumerate(names):
        out += [", "] * bool(k) + [el("code", name)]
    return out
