"""The postmortem of a run folder: postmortem.md and postmortem.json."""

from __future__ import annotations

from surefoot.artifacts import atomic_write, write_json
from surefoot.contract import SurefootError
from surefoot.evidence.improvement import improvement
from surefoot.evidence.judgement import AUDIT_CHECK, contradicted, judgement
from surefoot.evidence.postmortem import Evidence, Postmortem, postmortem
from surefoot.runs import RunFolder, load_result, read_ledger, typed


def write_postmortem(run: RunFolder) -> Postmortem:
    """Looks back on a finished run and writes both files into its folder."""
    postmortem = look_back(run)
    write_json(run.path / "postmortem.json", postmortem)
    atomic_write(run.path / "postmortem.md", as_text(postmortem).encode())
    run.seal("postmortem", [run.path / "postmortem.json", run.path / "postmortem.md"])
    return postmortem


def look_back(run: RunFolder) -> Postmortem:
    """Makes the postmortem of a finished run, from its artifacts."""
    if run.record.status != "finished" or run.record.confirmation is None:
        raise SurefootError(
            f"{run.path} is not finished, so there is nothing to look back on; "
            f"let it finish with `{typed('train', '--resume', run.path)}`."
        )
    result = load_result(run)
    judged = judgement(result)
    # What an audit found is what a postmortem begins with; files that contradict each other are refused.
    wrong = next((f for f in judged.faults if f.check != AUDIT_CHECK), None)
    if wrong is not None:
        raise contradicted(result, wrong)
    where = result.folder.relative_to(run.path).as_posix()
    ledger = read_ledger(run.ledger.path)[0]
    return postmortem(result, ledger, where, improvement(run), judged.audit)


def as_text(p: Postmortem) -> str:
    """Writes Markdown: the sentences, each followed by where its numbers stand, then the cases."""
    lines = [f"# Postmortem of {p.run}", ""]
    for k, s in enumerate(p.sentences, 1):
        lines += [f"{k}. {s.text}", *(f"   - {_source(e)}" for e in s.evidence)]
    lines += ["", "## Failures to look at first"]
    for c in p.cases:
        trace = f"traces/{c.trace}.npz" if c.trace else "no trace kept"
        lines.append(
            f"- family {c.family}, member {c.member} (`{c.file}`, row {c.row}, {c.column}): label {c.label}, "
            f"cause {c.cause}, ended by {c.reason} after {c.lived_s:.2f} s, {trace}; {c.why}"
        )
    if p.cases_note:
        lines.append(p.cases_note)
    return "\n".join(lines) + "\n"


def _source(e: Evidence) -> str:
    value = (
        "not measured"
        if e.value is None
        else f"{e.value:.6g}"
        if isinstance(e.value, float)
        else str(e.value)
    )
    return f"{value}: `{e.file}`, {e.field}"
