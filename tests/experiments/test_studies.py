"""Studies: real ones in miniature, their figures recomputed, their verdicts on made-up figures."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import signal
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest

import surefoot.experiments.studies.live as live
from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.contract import SurefootError, digest
from surefoot.experiments.studies import DesignOptions, make_design, open_study
from surefoot.experiments.studies.figures import step
from surefoot.experiments.studies.record import with_results
from surefoot.experiments.studies.verdict import StepVerdict, claim, headline, judge, verdicts
from surefoot.printing.display import StudyProgress
from surefoot.runs import without_timing
from surefoot.runs.folder import PANEL_ROWS_VERSION
from tiny import surefoot

SMALL = ("--envs", "16", "32", "--seeds", "2", "--updates", "10")
QUICK = ("--perturb", "none", "--quiet")
COLUMNS = ("nominal", "delay_40ms", "friction_0.3", "push_0.5", "push_1.0", "push_1.5", "push_2.0")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two widths, two seeds, both budgets. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("studies") / "tiny"
    assert surefoot("study", "parallelism", "tiny:walk", *SMALL, "--out", folder) == 0
    return folder


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "study.json").read_text())


def ledger(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def rows(folder: Path, value: int, seed: int, budget: str) -> dict[str, np.ndarray]:
    path = folder / f"envs-{value}-seed-{seed}" / "panels" / "tiny-v1" / f"study-{budget}"
    table = pq.read_table(path / "episodes.parquet")
    return {n: table[n].to_numpy(zero_copy_only=False) for n in table.column_names}


# ---- a real one


def test_the_sample_budget_is_exact_and_the_time_budget_is_passed_by_less_than_an_update(study: Path) -> None:
    found = record(study)
    assert found["status"] == "finished"
    assert len(found["points"]) == 8
    assert found["design"]["samples"] == 10 * 32 * 16
    for p in found["points"]:
        if p["budget"] == "samples":
            assert p["samples"] == 5120
            assert p["updates"] == 5120 // (p["value"] * 16)
            continue
        course = [r["train_seconds"] for r in ledger(study / p["run"])]
        assert course[p["updates"] - 1] == p["train_seconds"] >= found["seconds"]
        assert p["updates"] == 1 or course[p["updates"] - 2] < found["seconds"]
    first = next(p for p in found["points"] if (p["value"], p["seed"], p["budget"]) == (16, 1, "samples"))
    assert found["seconds"] == math.floor(1000 * first["train_seconds"]) / 1000, "measured on the first run"


def test_figures_are_those_of_the_rows_and_the_ledger(study: Path) -> None:
    found = record(study)
    table = list(csv.DictReader((study / "study.csv").open()))
    assert len(table) == len(found["points"])
    for p, line in zip(found["points"], table, strict=True):
        r = rows(study, p["value"], p["seed"], p["budget"])
        assert tuple(dict.fromkeys(r["column"].tolist())) == COLUMNS
        assert set(r["half"].tolist()) == {"confirmation"}
        assert set(r["engine"].tolist()) == {"stride"}
        at = r["column"] == "nominal"
        assert p["success"] == r["success"][at].mean()
        assert p["fall"] == r["fall"][at].mean()
        assert float(line["fall"]) == p["fall"]
        assert int(line["samples"]) == p["samples"]
        by = {c["column"]: c for c in p["columns"]}
        for c in COLUMNS:
            assert by[c]["success"] == r["success"][r["column"] == c].mean()
            assert float(line[f"fall.{c}"]) == by[c]["fall"] == r["fall"][r["column"] == c].mean()
        assert p["disturbed_success"] == pytest.approx(
            np.mean([r["success"][r["column"] == c].mean() for c in COLUMNS[1:]])
        )
        failed = [x for x in r["label"][at].tolist() if x]
        assert p["labels"] == {x: failed.count(x) for x in set(failed)}
        assert sum(p["labels"].values()) == (~r["success"][at].astype(bool)).sum()
        error = r["velocity_error_mps"][at]
        assert p["velocity_error_mps"] == pytest.approx(float(np.nanmean(error)))
        until = ledger(study / p["run"])[: p["updates"]]
        looked = [x["honesty.n_eff_return"] for x in until if "honesty.n" in x]
        assert p["looks"] == len(looked) == p["updates"] // 10
        assert p["n_eff_return"] == (pytest.approx(np.mean(looked)) if looked else None)
        assert p["kl"] == pytest.approx(np.mean([x["kl"] for x in until]))
        assert p["steps_per_second"] == pytest.approx(p["samples"] / until[-1]["train_seconds"])
        reset = {k: sum(x[k] for x in until) for k in until[0] if k.startswith("reset.")}
        fell = {k: n for k, n in reset.items() if k not in ("reset.timeout", "reset.nonfinite")}
        assert p["failures"] == sum(fell.values()) + reset["reset.nonfinite"]
        assert p["rarest_failures"] == min(fell.values())
        assert 0 < p["failure_cells"] <= 1
        assert p["age_steps"] == 7.5
        assert p["reuse"] == 2


def test_figures_are_those_of_the_typical_seed(study: Path) -> None:
    """Two seeds: the median is their middle, the interval their range, which holds the true median in half of
    all studies; nothing can be decided."""
    found = record(study)
    at = {(p["budget"], p["value"], p["seed"]): p for p in found["points"]}
    varied = 0
    for g in found["groups"]:
        for name in ("train_seconds", "velocity_error_mps", "kl"):
            x = [at[(g["budget"], g["value"], s)][name] for s in (1, 2)]
            f = g["figures"][name]
            assert (f["value"], f["low"], f["high"]) == pytest.approx((np.median(x), min(x), max(x)))
            assert (f["n"], f["confidence"]) == (2, 0.5)
            assert f["mean"] == pytest.approx(np.mean(x))
            varied += x[0] != x[1]
        assert g["collapses"]["n"] == 2
    assert varied
    for s in found["steps"]:
        pairs = [[at[(s["budget"], s[v], k)][s["figure"]] for v in ("lower", "upper")] for k in (1, 2)]
        gaps = [b - a for a, b in pairs if a is not None and b is not None]
        assert s["differences"] == pytest.approx(gaps)
        if len(gaps) < 2:
            continue
        assert (s["difference"], s["low"], s["high"]) == pytest.approx(
            (np.median(gaps), min(gaps), max(gaps))
        )
        assert (s["seeds"], s["confidence"], s["detectable"]) == (2, 0.5, None)
    for v in found["verdicts"]:
        assert {x["outcome"] for x in v["steps"]} == {"undecided"}
        assert "2 seeds cannot show anything at 95% among 2 comparisons" in v["steps"][0]["sentence"]


def test_a_study_of_the_first_version_is_judged_as_today(study: Path, tmp_path: Path) -> None:
    old = record(study)
    for name in ("groups", "steps", "verdicts"):
        old[name] = [{"of": "another kind"}]
    (tmp_path / "study.json").write_text(json.dumps(old | {"schema_version": 1, "rule": "means"}))
    assert open_study(tmp_path) == open_study(study)


def test_the_page_shows_these_figures_and_needs_no_network(study: Path) -> None:
    found, page = record(study), (study / "study.html").read_text()
    assert not re.search(r"(src|href)=\"?(https?:)?//", page)
    assert "@import" not in page
    shown = {
        m[1]: float(m[2]) for m in re.finditer(r'data-figure="([^"]+)" data-value="([^"]+)"', unescape(page))
    }
    for g in found["groups"]:
        at = f"{g['budget']}.{g['value']}"
        for name in ("success", "fall", "steps_per_second", "n_eff_return", "kl", "disturbed_success"):
            if name in g["figures"]:
                assert shown[f"{at}.{name}"] == g["figures"][name]["value"]
        for label, count in g["labels"].items():
            assert shown[f"{at}.label.{label}"] == count
    for s in found["steps"]:
        assert shown[f"{s['budget']}.{s['lower']}-{s['upper']}.{s['figure']}"] == s["difference"]
    for v in found["verdicts"]:
        assert v["sentence"] in unescape(page)
    assert "friction" in page
    assert "stride" in page
    assert "minibatches stays 2" in page


def test_a_run_of_a_study_is_what_train_makes(study: Path, tmp_path: Path) -> None:
    run = study / "envs-16-seed-1"  # whose two budgets ended at the same update
    code = surefoot("train", "tiny:walk", "--updates", "20", "--out", tmp_path / "a", "--tracker", "none",
                    "--perturb", "none", "--quiet")  # fmt: skip
    assert code == 0

    def course(folder: Path) -> list[dict[str, Any]]:
        rows = [without_timing(r) for r in ledger(folder)]
        return [{k: v for k, v in r.items() if not k.startswith("evaluation.")} for r in rows]

    assert course(run) == course(tmp_path / "a")
    assert surefoot("evaluate", run, "--perturb", "none", "--no-baselines") == 0, "an ordinary run folder"
    assert surefoot("replay", run, "4", "--where", "study-samples", "--engine", "stride") == 0
    shutil.rmtree(next((run / "panels" / "tiny-v1").glob("confirmation-confirmed-*")))


# ---- interrupted and resumed


def deterministic(folder: Path) -> list[dict[str, Any]]:
    """What does not depend on the clock: the nominal column of the sample budget's policies."""
    names = ("run", "updates", "n_eff_return", "kl", "fall", "velocity_error_mps", "labels")
    return [{k: p[k] for k in names} for p in record(folder)["points"] if p["budget"] == "samples"]


def test_an_interrupted_study_goes_on_and_retrains_nothing(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C within the third run; the resumed study ends where the uninterrupted one did."""
    folder, show, seen = tmp_path / "s", StudyProgress.show, 0

    def interrupting(self: StudyProgress, row: Any, successes: Any) -> None:
        nonlocal seen
        seen += self._at == 2
        if seen == 5:
            os.kill(os.getpid(), signal.SIGINT)
        show(self, row, successes)

    with mock.patch.object(StudyProgress, "show", interrupting):
        assert surefoot("study", "parallelism", "tiny:walk", *SMALL, *QUICK, "--out", folder) == 130
    said = capsys.readouterr().out
    assert f"study parallelism --resume {folder}" in said.replace("\n", "")
    assert record(folder)["status"] == "running"
    assert not (folder / "study.html").exists()
    done = [folder / f"envs-{n}-seed-1" / "checkpoints" / "latest.safetensors" for n in (16, 32)]
    before = [(p.read_bytes(), p.stat().st_mtime_ns) for p in done]
    assert len(ledger(folder / "envs-16-seed-2")) == 5
    assert surefoot("study", "parallelism", "--resume", folder) == 0
    assert "2 of 4 runs are done already" in capsys.readouterr().out
    assert [(p.read_bytes(), p.stat().st_mtime_ns) for p in done] == before
    assert deterministic(folder) == deterministic(study)
    assert record(folder)["status"] == "finished"
    assert len(record(folder)["points"]) == 8


def test_a_policy_that_was_trained_but_not_scored_is_scored_on_resume(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with mock.patch.object(live, "_score", side_effect=KeyboardInterrupt):
        assert surefoot("study", "parallelism", "tiny:walk", *SMALL, *QUICK, "--out", folder) == 130
    assert surefoot("study", "parallelism", "--resume", folder) == 0
    assert deterministic(folder) == deterministic(study)


def test_a_finished_study_only_reports_again(study: Path) -> None:
    before = record(study)
    with mock.patch.object(live, "Trainer", side_effect=AssertionError("nothing is left to train")):
        assert surefoot("study", "parallelism", "--resume", study, "--quiet") == 0
    assert record(study) == before


def test_runs_that_were_not_measured_alike_are_not_compared(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(study, folder)
    path = folder / "envs-32-seed-2" / "panels" / "tiny-v1" / "study-seconds" / "summary.json"
    kept = path.read_text()
    path.write_text(kept.replace('"engine": "stride"', '"engine": "mujoco"'))
    assert surefoot("study", "parallelism", "--resume", folder, "--quiet") == 2
    assert "engine of summary.json is mujoco, that of its measurement stride" in capsys.readouterr().err
    said = json.loads(kept)
    said["measurement"]["metrics"] = "0" * 64
    said["measurement_id"] = said["construct_id"] = digest(said["measurement"])
    path.write_text(json.dumps(said))
    table = path.with_name("episodes.parquet")
    meta = table_meta(table) | {k: said[k] for k in ("measurement_id", "construct_id")}
    write_table(table, read_table(table), PANEL_ROWS_VERSION, meta)
    assert surefoot("study", "parallelism", "--resume", folder, "--quiet") == 2
    assert "not measured alike (metrics)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "option", "extra"),
    [
        ("horizon", "--horizons", ("--envs", "16")),
        ("epochs", "--epochs", ("--engine", "mujoco")),
    ],
)
def test_horizon_and_epochs_are_studied_likewise(
    kind: str, option: str, extra: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "s"
    code = surefoot("study", kind, "tiny:walk", option, "2", "4", "--seeds", "2", "--updates", "2",
                    "--seconds", "0.05", "--perturb", "none", "--out", folder, "--json", *extra)  # fmt: skip
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    ages = {p["value"]: (p["age_steps"], p["reuse"]) for p in found["points"]}
    assert ages == ({2: (0.5, 2), 4: (1.5, 2)} if kind == "horizon" else {2: (7.5, 2), 4: (7.5, 4)})
    engine = "mujoco" if kind == "epochs" else "stride"
    assert {p["engine"] for p in found["points"]} == {engine}, "labelled"
    assert f"panel on {engine}" in (folder / "study.html").read_text()
    assert all(p["disturbed_success"] is None and len(p["columns"]) == 1 for p in found["points"])
    assert found["seconds"] == 0.05
    assert len({p["samples"] for p in found["points"] if p["budget"] == "samples"}) == 1


# ---- the design


def test_what_is_scaled_is_declared() -> None:
    fixed = make_design(DesignOptions("parallelism", "tiny:walk", values=(32, 16), updates=1))
    assert fixed.values == (16, 32), "in order"
    assert [(s.minibatches, s.minibatch_size, s.families) for s in fixed.settings] == [
        (2, 128, 4),
        (2, 256, 4),
    ]
    assert "number of minibatches stays 2, so their size grows: 128 / 256" in " ".join(fixed.scaled())
    grown = make_design(
        DesignOptions("parallelism", "tiny:walk", values=(16, 32), updates=1, keep="minibatch-size")
    )
    assert [(s.minibatches, s.minibatch_size) for s in grown.settings] == [(2, 128), (4, 128)]
    assert "size of a minibatch stays 128, so their number grows: 2 / 4" in " ".join(grown.scaled())
    assert fixed.plan(32, 1).construct_id == fixed.plan(16, 2).construct_id


def test_a_study_of_memory_varies_a_window_of_which_one_is_none() -> None:
    d = make_design(DesignOptions("memory", "tiny:walk", updates=1))
    assert [(v, d.plan(v, 1).recipe.memory) for v in d.values] == [(1, "none"), (10, "window:10")]
    assert len({s.updates for s in d.settings}) == 1


def test_defaults_come_from_the_task() -> None:
    d = make_design(DesignOptions("parallelism", "walk-flat"))
    assert d.values == (192, 768, 3072)
    assert len(d.seeds) == 8
    assert d.samples == 300 * 768 * 16 // (3072 * 16) * (3072 * 16), "whole updates at every width"
    assert make_design(DesignOptions("epochs", "walk-flat")).values == (2, 5, 10)
    assert make_design(DesignOptions("horizon", "walk-flat")).values == (8, 16, 32)
    swept = make_design(DesignOptions("epochs", "walk-flat", sweep=True))
    assert len(swept.columns) > 25
    assert len(make_design(DesignOptions("epochs", "walk-flat", perturb=("none",))).columns) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("parallelism", "tiny:walk", "--envs", "16"), "compares two values or more"),
        (("memory", "tiny:walk", "--windows", "4"), "compares two values or more"),
        (("parallelism", "tiny:walk", "--envs", "16", "18"), "cannot be split into 4 equal seed families"),
        (("parallelism", "tiny:walk", "--envs", "16", "16"), "names a value twice"),
        (("parallelism", "wakl-flat", "--envs", "16", "32"), "did you mean 'walk-flat'"),
        (("parallelism", "tiny:walk", *SMALL, "--samples", "9999"), "give one of them"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--samples", "100"), "use --samples 512 or more"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--seeds", "1"), "need 2 or more"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--margin", "2"), "--margin is 2"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--seconds", "0"), "--seconds is 0"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--perturb", "wind"), "no perturbation 'wind'"),
        (("parallelism", "tiny:walk", "--envs", "16", "32", "--engine", "bullet"), "no engine 'bullet'"),
        (("epochs", "tiny:walk", "--epochs", "0", "2"), "use values of 1 or more"),
        (("parallelism",), "Say what to study"),
        (("parallelism", "--resume", "nowhere"), "is not a study"),
        (("parallelism", "tiny:walk", "--resume", "nowhere"), "give no task"),
    ],
)
def test_bad_input_gets_one_sentence_and_writes_nothing(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert surefoot("study", *arguments) == 2
    err = capsys.readouterr().err.strip()
    assert says in err
    assert "\n" not in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_and_another_kind_are_refused(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("study", "parallelism", "tiny:walk", *SMALL, "--out", study, "--quiet") == 2
    assert "already exists" in capsys.readouterr().err
    assert surefoot("study", "epochs", "--resume", study) == 2
    assert "is a study of parallelism" in capsys.readouterr().err


def test_a_study_of_a_changed_task_is_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(study, folder)
    text = (folder / "study.json").read_text()
    (folder / "study.json").write_text(text.replace(record(folder)["contract_digest"], "0" * 64))
    assert surefoot("study", "parallelism", "--resume", folder) == 2
    assert "has changed since" in capsys.readouterr().err


# ---- verdicts


def made(a: Any, b: Any, name: str = "success") -> Any:
    return step("samples", name, 1024, 4096, a, b, range(len(a)))


LOW = [0.60, 0.62, 0.58, 0.61, 0.63, 0.60, 0.59, 0.62]
HIGH = [0.80, 0.83, 0.79, 0.82, 0.80, 0.81, 0.80, 0.79]
HELPED, WORSE = made(LOW, HIGH), made(HIGH, LOW)
SAME = made(
    [0.93, 0.94, 0.935, 0.93, 0.94, 0.93, 0.92, 0.93], [0.93, 0.935, 0.94, 0.93, 0.93, 0.94, 0.93, 0.93]
)
UNSURE = made([0.60, 0.80, 0.58, 0.90, 0.63, 0.7, 0.7, 0.7], [0.80, 0.63, 0.79, 0.72, 0.80, 0.7, 0.7, 0.6])


def said(*steps: Any, margin: float = 0.03) -> list[str]:
    return [outcome for outcome, _ in judge(steps, margin)]


def test_verdicts_are_said_of_the_typical_seed() -> None:
    assert said(HELPED) == ["helped"]
    assert said(WORSE) == ["made it worse"]
    assert said(SAME) == ["no difference that matters"]
    assert said(UNSURE) == ["undecided"]
    assert said(SAME, margin=0.001) == ["undecided"], "a tenth of a point either way is not excluded"
    assert said(made([0.5], [0.9])) == ["undecided"], "one seed bounds nothing"
    assert said(made(LOW[:5], HIGH[:5])) == ["undecided"], "nor do five at 95%"
    assert said(made(LOW[:6], HIGH[:6])) == ["helped"]
    assert said(made([0.0] * 8, [0.0] * 8)) == ["undecided"], "nobody has learned"
    assert said(made([1.0] * 5, [1.0] * 5)) == ["no difference that matters"], "no room"


def test_the_margin_counts_on_both_sides() -> None:
    """Differences of half a point in every seed: shown, and nothing that matters."""
    x = np.array(LOW)
    for gap in (0.005, -0.005):
        assert said(made(x, x + gap)) == ["no difference that matters"]
        assert said(made(x, x + gap), margin=0.004) == ["helped" if gap > 0 else "made it worse"]


def test_all_steps_of_a_study_share_one_error() -> None:
    """Eight seeds, all alike, have p = 2 / 2^8: enough among six comparisons, not among seven."""
    assert said(HELPED, *[UNSURE] * 5)[0] == "helped"
    assert said(HELPED, *[UNSURE] * 6)[0] == "undecided"


def test_where_seeds_collapse_more_often_nothing_is_said_to_help() -> None:
    fell = [0.99] * 20 + [0.05] * 5
    kept = [0.60] * 25
    found = made(kept, fell)
    assert claim(found, 0.03)[0] == "helped"
    assert claim(found, 0.03)[1] < 0.01
    assert [c.count for c in found.collapses] == [0, 5]
    assert said(found) == ["undecided"]
    design = make_design(DesignOptions("parallelism", "walk-flat", values=(1024, 4096)))
    (v,) = verdicts([found], design, 1.0)
    assert v.sentence.endswith("Collapsed: 0 of 25 seeds at 1,024, 5 of 25 seeds at 4,096.")
    assert "collapses are shown to be more frequent" in v.steps[0].sentence
    assert said(made(kept, [0.99] * 24 + [0.05])) == ["helped"], "one in 25 shows nothing"


def test_sentences_say_what_was_found_and_what_could_have_been() -> None:
    design = make_design(DesignOptions("parallelism", "walk-flat", values=(1024, 4096)))
    says = {}
    for name, s in (("helped", HELPED), ("same", SAME), ("worse", WORSE), ("unsure", UNSURE)):
        (v,) = verdicts([s, made([0.1] * 8, [0.9] * 8, "fall")], design, 1.5)
        says[name] = v.sentence
        assert "would be found with 80% power" in v.steps[0].sentence
        assert "8 seeds" in v.steps[0].sentence
        assert "0 of 8 collapsed at 1,024 (a rate of 0.0% to 36.9%; lowest" in v.steps[0].sentence
        assert v.sentence.endswith("Collapsed: 0 of 8 seeds at 1,024, 0 of 8 seeds at 4,096.")
    assert "more environments helped the typical seed, from 1,024 up to 4,096." in says["helped"]
    assert "more environments made no difference that matters to the typical seed." in says["same"]
    assert "1,024 to 4,096 made it worse." in says["worse"]
    assert "whether more environments help is undecided here." in says["unsure"]
    assert says["same"].startswith("With the same 3,670,016 samples: ")


def test_a_headline_names_the_step_where_help_ends() -> None:
    design = make_design(DesignOptions("parallelism", "walk-flat", values=(1024, 4096, 16384)))
    first = StepVerdict(lower=1024, upper=4096, outcome="helped", p=0.01, sentence="")
    for outcome, says in (("made it worse", "made it worse"), ("undecided", "is undecided")):
        then = first.model_copy(update={"lower": 4096, "upper": 16384, "outcome": outcome})
        text = headline([first, then], design.knob)
        assert text == (
            f"more environments, for the typical seed: 1,024 to 4,096 helped, 4,096 to 16,384 {says}."
        )


def test_verdicts_are_seldom_wrong() -> None:
    """Studies of six comparisons, eight seeds: no true difference, a gain of the margin, collapses that leave
    the mean as it was; benchmarks/study_verdicts.py has more of them."""
    rng, n = np.random.default_rng(3), 60

    def wrong(word: str, gap: float, fell: float = 0.0) -> float:
        """The share of studies that say `word` of any comparison."""
        studies = 0
        for _ in range(n):
            a, b = rng.normal(0.9, 0.01, (2, 6, 8))
            b = np.where(rng.random(b.shape) < fell, 0.6, b + gap + fell * 0.3)
            studies += word in said(*[made(x, y) for x, y in zip(a, b, strict=True)])
        return studies / n

    assert wrong("helped", 0.0) == 0
    assert wrong("no difference that matters", 0.04) <= 0.1
    assert wrong("helped", 0.0, fell=0.1) <= 0.1
    assert wrong("helped", 0.08) > 0.9


def test_unfinished_seeds_are_left_out_of_pairs(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    shutil.copytree(study, folder)
    shutil.rmtree(folder / "envs-32-seed-2" / "panels" / "tiny-v1" / "study-samples")
    found = with_results(folder, open_study(folder))
    mine = [s for s in found.steps if (s.budget, s.figure) == ("samples", "fall")]
    assert [s.seeds for s in mine] == [1]
    assert mine[0].low is None
    assert len(found.points) == 7


def test_the_eta_counts_runs_of_each_value_by_what_they_took() -> None:
    from rich.console import Console

    design = make_design(DesignOptions("parallelism", "tiny:walk", values=(16, 32), updates=10))
    clock = mock.Mock(return_value=0.0)
    with mock.patch("surefoot.printing.display.time.monotonic", clock):
        p = StudyProgress(Console(quiet=True), design, [(16, 1), (32, 1), (16, 2), (32, 2)])
        p.begin(0)
        assert p.remaining() is None, "nothing is known yet"
        clock.return_value = 4.0
        p.end()
        p.begin(1)
        clock.return_value = 14.0
        p.end()
        p.begin(2)
        p.show({"update": 10, "train_seconds": 1.0, "steps_per_second": 1.0}, [])
        assert p.remaining() == pytest.approx(4.0 / 2 + 10.0), "half of a narrow run, and a wide one"


def test_minibatches_of_one_size_must_fill_every_block() -> None:
    with pytest.raises(SurefootError, match="--keep minibatches"):
        make_design(
            DesignOptions("parallelism", "tiny:walk", values=(32, 36), samples=10**6, keep="minibatch-size")
        )
