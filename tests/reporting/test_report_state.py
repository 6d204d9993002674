"""What a page says of runs that are not simply finished, and of what their figures mean."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.contract import TaskContract
from surefoot.reporting import write_report
from surefoot.reporting.figures import read_run
from surefoot.reporting.groups import FEWEST, Group, _worst_first
from surefoot.reporting.held_out import forest
from surefoot.reporting.index import entries, find_runs, index_page
from surefoot.reporting.page import CONTENTS
from surefoot.reporting.progress import read_progress
from surefoot.reporting.web.strips import Dot, Strip, strip_chart
from surefoot.reporting.web.words import WORDS
from surefoot.runs import RunFolder
from surefoot.statistics import rate, rate_estimate


def change(run: Path, **fields: Any) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_run, tmp_path / "runs" / "run")
    return tmp_path / "runs" / "run"


def verdict_of(run: Path) -> str:
    """The text of the verdict bar."""
    page = write_report([run]).read_text()
    (bar,) = re.findall(r'<section class="verdict[^"]*">.*?</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", bar).split())


# ---- what must be said beside a result


def test_a_finished_run_has_no_caveat(run: Path) -> None:
    assert read_run(run).caveats == ()
    assert 'caveat"' not in write_report([run]).read_text()


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_run_that_is_not_finished_says_so_in_the_verdict(run: Path, status: str, confirmed: bool) -> None:
    record = json.loads((run / "run.json").read_text())
    change(run, status=status, confirmation=record["confirmation"] if confirmed else None)
    if not confirmed:
        shutil.rmtree(run / "panels")
    old = time.time() - 86_400
    for file in ("run.json", "ledger.jsonl"):
        os.utime(run / file, (old, old))
    said = verdict_of(run)
    if confirmed:
        assert "evidence is of" in said
        assert "training was resumed" in said
    else:
        assert "nothing is confirmed" in said
        assert {"interrupted": "stands", "failed": "failed", "running": "broke off"}[status] in said


def test_a_hole_in_the_ledger_is_said(run: Path) -> None:
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run / "ledger.jsonl").write_text("".join(lines[:3] + lines[4:]))
    said = verdict_of(run)
    assert "The ledger lacks update 4" in said
    assert said.count("chain breaks at line 4") == 1
    shutil.rmtree(run / "panels")
    assert "chain breaks at line 4" in verdict_of(run), "also where nothing was confirmed"


def test_a_comparison_marks_the_unfinished_run(run: Path, tiny_run: Path, tmp_path: Path) -> None:
    change(run, status="interrupted")
    page = write_report([tiny_run, run], tmp_path / "r.html").read_text()
    table = page[page.index("Side by side</h2>") : page.index("Held-out</span> success while training")]
    assert table.count('caveat"') == 1


# ---- figures


def test_the_safety_result_is_the_rows_and_stands_beside_its_promise(run: Path) -> None:
    figures = read_run(run)
    assert figures.panel is not None
    rows, contract = figures.panel.nominal_rows, figures.record.contract
    assert isinstance(contract, TaskContract)
    expected = np.average(rows[contract.safety.name], weights=rows["steps"])
    assert figures.safety == pytest.approx(expected)
    assert figures.safety == pytest.approx(figures.panel.summary.torque_saturation)
    page = write_report([run]).read_text()
    tile = page[page.index('data-figure="safety"') :][:600]
    held = figures.panel.summary.safety_held
    assert ("held" if held else "broken") in tile
    assert "promised: at most 2.0%" in tile
    assert f"; {'held' if held else 'broken'}, at " in page


def test_time_lists_every_part(run: Path) -> None:
    times = read_run(run).times
    assert times.total is not None
    parts = [times.startup, times.training, times.selection, times.confirmation]
    assert all(p is not None and p > 0 for p in parts)
    page = write_report([run]).read_text()
    tile = page[page.index('data-figure="wall_seconds"') :][:1500]
    for name in ("start-up", "training", "selection", "confirmation"):
        assert f">{name}</span>" in tile, name


def test_a_group_of_few_episodes_is_never_ranked() -> None:
    """Five successes of five cannot be told from a coin; six can."""
    families = np.arange(40)
    assert rate(np.ones(FEWEST - 1, bool), families[: FEWEST - 1]).low < 0.5
    perfect, poor, none = (
        Group("command", name, rate_estimate(s, families[: len(s)]), rate_estimate(~s, families[: len(s)]))
        for name, s in (
            ("stand", np.ones(FEWEST - 1, bool)),
            ("forward", np.arange(40) < 30),
            ("backward", np.zeros(3, bool)),
        )
    )
    assert [g.label for g in _worst_first([perfect, none, poor])] == ["forward", "backward", "stand"]
    assert [g.shown for g in (perfect, poor, none)] == [False, True, False]
    drawn = forest([perfect, poor, none], "stratum")
    assert drawn.count('class="bar high"') == 1
    assert "not shown</span> (n 5)" in drawn
    assert "100%</span></span>" not in drawn


# ---- contents, words, strips


class Ids(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += (
            [str(found["href"])[1:]] if tag == "a" and str(found.get("href")).startswith("#") else []
        )


def test_ids_are_unique_and_every_link_has_its_place(run: Path, extended_run: Path, tmp_path: Path) -> None:
    for runs in ([run], [extended_run], [run, extended_run]):
        page = Ids(write_report(runs, tmp_path / "r.html").read_text())
        assert len(set(page.ids)) == len(page.ids)
        assert set(page.links) <= set(page.ids)
        wanted = (
            {*CONTENTS, "glossary"} if len(runs) == 1 else {"comparison", "run-1-failures", "run-2-failures"}
        )
        assert wanted <= set(page.ids)


def test_the_glossary_has_the_words_of_the_page_and_no_others(extended_run: Path, tmp_path: Path) -> None:
    page = write_report([extended_run], tmp_path / "r.html").read_text()
    body, foot = page.split('<dl class="glossary">')
    explained = set(re.findall(r"<dt>(.*?)</dt>", foot))
    assert {"n_eff", "simulation only", "holds", "safety limit"} <= explained
    assert "minimum detectable" not in explained
    assert explained <= WORDS.keys()
    for said in ("never real", "by advantage</h3>"):
        assert said not in body


def test_causes_are_said_in_words(extended_run: Path, tmp_path: Path) -> None:
    page = write_report([extended_run], tmp_path / "r.html").read_text()
    said = re.findall(r'<small> ([^<]*)</small></span><div class="bar low"', page)
    assert said
    assert all("suspect: " in s or "no rule" in s for s in said)


def test_a_strip_holds_any_numbers() -> None:
    strips = [
        Strip("one", (Dot(0.0, "0%", "bad", ""),), None),
        Strip("same", tuple(Dot(2.0, f"{k}%", "good", "") for k in range(9)), (2.0, 2.0)),
        Strip("<b>", (Dot(-1e9, "<", "none", "<i>"), Dot(1e9, "&", "none", "")), (-1e12, 0.1)),
    ]
    for width in (350, 1040):
        drawn = strip_chart(strips, width, "x")
        assert "nan" not in drawn
        assert "<b>" not in drawn
        places = [float(x) for x in re.findall(r'cx="([^"]*)"', drawn)]
        assert len(places) == 2 * 12
        assert all(0 <= x <= width for x in places)


# ---- the index


def index_of(run: Path) -> str:
    return index_page(entries(find_runs(run.parent)), run.parent)


def test_the_index_says_the_report_s_verdict(run: Path) -> None:
    assert "Failing</b>" in index_of(run)
    change(run, status="interrupted")
    page = index_of(run)
    assert "evidence is of" in page
    assert "data-refresh" not in page


def test_a_run_that_nobody_trains_broke_off(run: Path) -> None:
    change(run, status="running")
    for file in ("run.json", "ledger.jsonl"):
        os.utime(run / file, (1, 1))
    assert read_progress(RunFolder.open(run)) is None
    assert ">broke off</span>" in index_of(run)


def test_a_running_run_shows_how_far_it_is(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.reporting.progress.is_alive", lambda _: True)
    change(run, status="running", limits={"updates": 12, "minutes": None, "until": None}, confirmation=None)
    found = read_progress(RunFolder.open(run))
    assert found is not None
    rows = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert (found.update, found.of, found.share) == (6, 12, 0.5)
    assert found.left_s == pytest.approx(rows[-1]["train_seconds"])
    assert found.success == [r["evaluation.success"] for r in rows if "evaluation.success" in r][-1]
    page = index_of(run)
    assert "update 6 of 12" in page
    assert "left</small>" in page
    assert 'data-refresh="10"' in page


@pytest.mark.parametrize(
    "content", [b"", b'{"update":', b"[1]\n", b"\xff\xfe\n", b"{}\n", b'{"update":3}\n{"upd']
)
def test_progress_of_a_ledger_in_any_state(
    run: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.reporting.progress.is_alive", lambda _: True)
    change(run, status="running", limits={"minutes": 1.0})
    (run / "ledger.jsonl").write_bytes(content)
    found = read_progress(RunFolder.open(run))
    assert found is not None
    assert found.update == (3 if b"3" in content else 0)
    assert "running" in index_of(run)
    (run / "ledger.jsonl").unlink()
    assert read_progress(RunFolder.open(run)) is not None


def test_limits_are_recorded(tiny_run: Path) -> None:
    assert RunFolder.open(tiny_run).record.limits == {"updates": 6, "minutes": None, "until": None}
