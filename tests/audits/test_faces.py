"""Audits as people see them: findings first, what to do, and nothing passed that nobody looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import surefoot
from surefoot.artifacts import JsonLines, write_json
from surefoot.audits import CAUSES, LACKS, applies, by_area, detector, detectors
from surefoot.audits import auditor as auditor_module
from surefoot.contract import SurefootError
from surefoot.evidence import look_back
from surefoot.reporting import write_report
from surefoot.runs import Audit, AuditFinding, NotLooked, RunFolder, load_audit, load_block, over, save_block
from surefoot.training import tracking
from tiny import surefoot as typed

Edit = Callable[[list[dict[str, Any]]], None]


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def with_ledger(run: Path, edit: Edit) -> None:
    """Writes a run's ledger anew, whole and chained, after an edit of its rows."""
    ledger = RunFolder.open(run).ledger
    rows = [{k: v for k, v in row.items() if k != "chain"} for row in ledger.rows()]
    edit(rows)
    ledger.path.unlink()
    written = JsonLines(ledger.path, chained=True)
    for row in rows:
        written.append(row)
    written.close()


def far_ratio(rows: list[dict[str, Any]]) -> None:
    rows[1]["first_ratio_error"] = 44.0


@pytest.fixture
def faulty(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the run whose samples were of another policy, by its ledger; audited by the short form."""
    run = copied(tiny_run, tmp_path / "faulty")
    with_ledger(run, far_ratio)
    return run


@pytest.fixture(scope="module")
def unproven(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, audited by the short form. Read it, do not change it."""
    run = copied(tiny_run, tmp_path_factory.mktemp("unproven") / "run")
    with_ledger(run, far_ratio)
    done = surefoot.audit(run, short=True, seed=5)
    assert done.audit.exit_status == 1
    return run


# ---- the command


def test_a_finding_is_said_first_with_its_cause_and_what_to_do(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("audit", faulty, "--only", "first-ratio", "rows") == 1
    said = " ".join(capsys.readouterr().out.split())
    d = detector("first-ratio")
    assert "On the proof, learning (first-ratio): The first ratio of update 2 is off 1 by 44" in said
    assert f"What to do: {' '.join(d.remedy.split())}" in said
    assert said.index("On the proof") < said.index("Found nothing") < said.index("Unproven:")
    assert "surefoot audit --explain first-ratio" in said


def test_what_was_found_is_in_json_and_on_disk(unproven: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = load_audit(unproven)
    assert kept is not None
    assert (kept.seed, kept.full, kept.exit_status) == (5, False, 1)
    assert kept.findings[0].remedy == detector("first-ratio").remedy
    assert set(kept.took) <= set(kept.names)
    assert typed("audit", unproven, "--only", "first-ratio", "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said.pop("exit") == 1
    assert said["findings"] == [kept.findings[0].model_dump(mode="json")]


def test_asking_some_writes_nothing(faulty: Path) -> None:
    before = (faulty / "audit.json").read_bytes()
    assert typed("audit", faulty, "--only", "first-ratio") == 1
    assert (faulty / "audit.json").read_bytes() == before


def test_a_run_that_is_being_trained_is_not_audited(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(copied(tiny_run, tmp_path / "run"))
    before = (run.path / "audit.json").read_bytes()
    with run.hold():
        assert typed("audit", run.path, "--short") == 2
        assert typed("audit", run.path, "--only", "first-ratio") == 2
    assert capsys.readouterr().err.count("is in use") == 2
    assert (run.path / "audit.json").read_bytes() == before


def test_an_unknown_name_is_refused_with_near_ones(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in (("--explain", "frist-ratio"), (str(tiny_run), "--only", "frist-ratio")):
        assert typed("audit", *asked) == 2
        assert "did you mean first-ratio" in capsys.readouterr().err
    assert typed("audit", "--explain", "zzzzzz") == 2
    assert "surefoot audit --list" in capsys.readouterr().err
    assert typed("audit", tiny_run, tiny_run) == 2
    assert "one run folder" in capsys.readouterr().err


def test_the_list_has_every_detector_and_where_it_applies(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = detectors()
    for width in ("80", "160"):
        monkeypatch.setenv("COLUMNS", width)
        assert typed("audit", "--list") == 0
        said = capsys.readouterr().out
        assert [name for name in every if said.count(f"{name} ") < 2] == []
    assert sum(map(len, by_area(every.values()).values())) == len(every)
    assert all(kind in said for kind in LACKS)
    own = detector("update")
    assert applies(own, "own PPO")
    assert not applies(own, "a library")


def test_every_detector_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for d in detectors().values():
        assert d.cause in CAUSES
        texts = (d.asks, d.statistic, d.threshold, d.means, d.remedy)
        assert all(t.strip() for t in texts), d.name
    assert typed("audit", "--explain", "first-ratio") == 0
    said = capsys.readouterr().out
    for word in ("statistic", "threshold", "it means", "what to do", "applies to", "exempt"):
        assert word in said


def test_a_full_audit_keeps_a_block_and_one_of_training_stays(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: detector(name) for name in ("rollout", "first-ratio")}  # all take half a minute
    monkeypatch.setattr(auditor_module, "detectors", lambda: some)
    run = copied(tiny_run, tmp_path / "run")
    (run / "report.html").unlink()
    assert typed("audit", run, "--seed", "3") == 0
    arrays, about = load_block(run)
    assert about["source"] == "audit"
    assert about["versions"]["surefoot"] == surefoot.__version__
    assert arrays["block.reward"].shape == arrays["block.terms"].shape[:2]
    assert arrays["block.reward"].shape[1:] == arrays["family"].shape == arrays["episode"].shape
    assert arrays["root"] == 2**31 + 3
    kept = load_audit(run)
    assert kept is not None
    assert kept.full
    assert save_block(RunFolder.open(run), arrays, "training") is not None
    assert save_block(RunFolder.open(run), arrays, "audit") is None
    assert load_block(run)[1]["source"] == "training"


# ---- what an audit says of itself


def audit_of(**parts: Any) -> Audit:
    return Audit(checkpoint="c", updates=1, **{"full": True} | parts)


FOUND = AuditFinding(detector="a", kind="proof", cause="batch", statement="copies")
REMARK = AuditFinding(detector="b", kind="behaviour", cause="behaviour", statement="it stands")


def test_exit_codes_are_of_what_was_looked_at() -> None:
    absent = (NotLooked(detector="x", because="why"),)
    assert audit_of(passed=("p",)).exit_status == 0
    assert audit_of(findings=(REMARK,)).exit_status == 0, "a remark changes nothing"
    assert audit_of(passed=("p",), findings=(FOUND,), failed=absent).exit_status == 1
    assert audit_of(passed=("p",), failed=absent).exit_status == 2
    assert audit_of(not_applicable=absent).exit_status == 2, "nobody looked"


def test_what_was_not_looked_at_is_not_counted_as_passed() -> None:
    absent = (NotLooked(detector="x", because="why"),)
    said = audit_of(passed=("p",), not_applicable=absent, failed=absent, exempt=absent).says
    assert "1 of 2 detectors found nothing" in said
    assert "1 does not apply" in said
    assert "1 could not look" in said
    assert "exempt" in said


def test_the_short_form_takes_back_nothing_that_a_full_audit_found() -> None:
    full = audit_of(findings=(FOUND,), passed=("p", "q"))
    short = audit_of(full=False, passed=("q",), not_applicable=(NotLooked(detector="p", because="gone"),))
    both = over(full, short)
    assert both.full
    assert both.findings == (FOUND,)
    assert both.passed == ("q",)
    assert [n.detector for n in both.not_applicable] == ["p"]
    asked_again = over(full, audit_of(full=False, passed=("a",)))
    assert asked_again.findings == (), "what is asked again is as it is now"
    of_another = audit_of(full=False).model_copy(update={"checkpoint": "d"})
    assert over(full, of_another) == of_another


# ---- wherever a run is shown


def test_training_ends_with_what_its_audit_says(tiny_run: Path) -> None:
    kept = load_audit(tiny_run)
    assert kept is not None
    assert not kept.full
    assert not kept.findings
    page = (tiny_run / "report.html").read_text()
    assert kept.says in page
    assert 'id="audit"' in page
    run = surefoot.Run.load(tiny_run)
    assert kept.says in str(run)
    assert run.audited is not None
    assert run.audited.clean
    assert "Found nothing" in str(run.audited)
    assert "first-ratio" in run.audited._repr_html_()


def test_the_page_has_findings_with_cause_and_remedy(unproven: Path) -> None:
    page = (unproven / "report.html").read_text()
    assert "Unproven" in page
    assert 'data-detector="first-ratio"' in page
    assert 'data-cause="learning"' in page
    assert "What to do" in page


def test_python_audits_and_shows(faulty: Path) -> None:
    done = surefoot.audit(faulty, only="first-ratio", seed=1)
    assert [f.cause for f in done.proof] == ["learning"]
    assert not done.clean
    assert "off 1 by 44" in str(done)
    with pytest.raises(SurefootError, match="did you mean"):
        surefoot.audit(faulty, only=("frist-ratio",))
    (faulty / "audit.json").unlink()
    assert surefoot.Run.load(faulty).audited is None


def test_the_postmortem_begins_with_whether_the_batch_lied(tiny_run: Path, unproven: Path) -> None:
    clean = look_back(RunFolder.open(tiny_run))
    assert clean.sentences[0].about == "audit"
    assert clean.sentences[0].text.startswith("Did the policy fail, or did the batch lie? Not the batch")
    assert clean.verdict != "unproven"
    lied = look_back(RunFolder.open(unproven))
    assert lied.verdict == "unproven"
    assert "learning" in lied.sentences[0].text
    assert any(e.file == "audit.json" and e.value == "learning" for e in lied.sentences[0].evidence)


def test_an_unproven_run_is_neither_compared_nor_promoted(
    tiny_run: Path, unproven: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("compare", tiny_run, unproven) == 3
    assert "audit: learning" in " ".join(capsys.readouterr().out.split())
    decided = surefoot.promote(unproven, tiny_run, fresh=False)
    assert decided.outcome == "INVALID"
    assert any("is not what it says" in r and "surefoot audit" in r for r in decided.reasons)


def test_trackers_show_the_audit(unproven: Path) -> None:
    rows: list[dict[str, Any]] = []

    class Kept:
        def log(self, row: Any) -> None:
            rows.append(dict(row))

        def close(self) -> None:
            raise AssertionError("whoever began it closes it")

    tracking.track_audit(RunFolder.open(unproven), Kept())
    assert rows[0]["audit.proof"] == 1
    assert rows[0]["audit.first-ratio"].startswith("On the proof, learning:")
    assert rows[0]["samples"] > 0


def test_a_remark_stands_beside_the_verdict(tiny_run: Path, tmp_path: Path) -> None:
    run = copied(tiny_run, tmp_path / "run")
    kept = load_audit(run)
    assert kept is not None
    write_json(run / "audit.json", kept.model_copy(update={"findings": (REMARK,)}))
    before, after = (surefoot.Run.load(r) for r in (tiny_run, run))
    assert before.verdict == after.verdict
    assert "On the behaviour" in write_report([run]).read_text()
