"""What a person sees: something moves while a policy is judged, and no word is broken."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from fleet_made import made_fleet
from surefoot.evaluation import EvaluationProgress
from surefoot.evidence import Judgement, judgement
from surefoot.printing import print_summary, verdicts
from surefoot.printing.display import ConsoleObserver, Display, EvaluationDisplay, evaluation_text
from surefoot.printing.tables import seconds_text
from surefoot.runs import RunFolder, load_result, read_ledger
from surefoot.training import Limits
from surefoot.training.restore import restore_plan

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def terminal(width: int = 80, is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=width, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return ESCAPES.sub("", console.file.getvalue())


def passes(columns: int = 3) -> list[EvaluationProgress]:
    return [
        EvaluationProgress("push_1.0 on stride", k, columns, share, 100 * k, 2.0 * k)
        for k in range(1, columns + 1)
        for share in (0.0, 0.5, 1.0)
    ]


def test_an_evaluation_says_how_far_it_is() -> None:
    p = EvaluationProgress("push_1.0 on stride", 2, 4, 0.5, 3_000, 6.0)
    assert evaluation_text(p) == "column 2 of 4 (push_1.0 on stride)  500 steps/s  ETA 0:10"


@pytest.mark.parametrize("in_training", [False, True])
def test_a_bar_moves_on_a_terminal(in_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.printing.display.REFRESH_S", 0.0)
    console = terminal(120)
    if in_training:
        with Display(console, Limits(3)) as display, display.evaluating("scoring update 3") as watch:
            for p in passes():
                watch(p)
                assert display._live is not None
                display._live.refresh()
    else:
        shows = EvaluationDisplay(console, "confirming")
        with shows.shown() as watch:
            for p in passes():
                watch(p)
                shows.bar.refresh()
    shown = written(console)
    assert "column 1 of 3 (push_1.0 on stride)" in shown
    assert "column 3 of 3 (push_1.0 on stride)" in shown
    assert "100%" in shown


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_fleet_has_its_place_in_what_training_shows(
    tiny_run: Path, tmp_path: Path, is_terminal: bool
) -> None:
    fleet, alone = made_fleet(tiny_run, tmp_path / "run"), tiny_run
    for run, shown in ((fleet, True), (alone, False)):
        console = terminal(400, is_terminal)
        with Display(console, Limits(6)) as display:
            display.show(read_ledger(run / "ledger.jsonl")[0][2], [])
            if display._live is not None:
                display._live.refresh()
        said = "1 of 2 actors at work, lag 1.0 (most 1), learner at work 25% of the time"
        assert (said in written(console)) == shown


def test_elsewhere_it_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = terminal(is_terminal=False)
    with ConsoleObserver(quick).evaluating("confirming") as watch:
        for p in passes():
            watch(p)
    assert written(quick) == "", "it was over in no time"
    monkeypatch.setattr("surefoot.printing.display.PLAIN_EVERY_S", 0.0)
    slow = terminal(is_terminal=False)
    with ConsoleObserver(slow).evaluating("confirming") as watch:
        for p in passes():
            watch(p)
    lines = written(slow).splitlines()
    assert len(lines) == 9
    assert lines[-1].startswith("confirming: 100%, column 3 of 3")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_word_is_broken(width: int, tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    console = terminal(width)
    sentence = (
        "The evidence is of update 300; training was resumed and stands at update 312, unconfirmed. " * 3
    )
    ConsoleObserver(console).note(sentence)
    result = load_result(run)
    print_summary(console, restore_plan(run), run, result.folder)
    lines = written(console).splitlines()
    whole = " ".join(" ".join(lines).split())
    assert sentence.strip() in whole
    for verdict in verdicts(judgement(result)):
        assert re.sub(r"\[/?[^\]]*\]", "", verdict) in whole
    own = [line for line in lines if line and "surefoot " not in line and str(tiny_run) not in line]
    assert max(map(len, own)) <= width, "nothing is left to the terminal to break"


def test_a_summary_names_its_digests_and_all_of_its_time(tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    result = load_result(run)
    s = result.summary
    console = terminal(200)
    print_summary(console, restore_plan(run), run, result.folder)
    shown = written(console)
    for part in ("in all:", "start-up", "training", "selection", "confirmation"):
        assert part in shown
    assert f"SHA-256 of the evaluated policy's file {s.checkpoint[:12]}, of its normaliser" in shown


def test_seconds_below_ten_have_a_decimal() -> None:
    said = [seconds_text(s) for s in (0.04, 2.75, 9.94, 9.96, 43.6, 1234.5, None)]
    assert said == ["0.0 s", "2.8 s", "9.9 s", "10 s", "44 s", "1,234 s", "not measured"]


def test_one_column_is_not_several(tiny_run: Path) -> None:
    s = load_result(RunFolder.open(tiny_run)).summary
    one = s.model_copy(update={"columns": s.columns[:1], "transfer": (), "agreement": ()})
    assert any("Evaluated 1 column in " in line for line in verdicts(Judgement(one)))
    assert any(f"Evaluated {len(s.columns)} columns in " in line for line in verdicts(Judgement(s)))
