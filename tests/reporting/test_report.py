"""The report says what the artifacts say, and says so when they say nothing."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from extended import restate
from places import GOLDEN
from remeasured import under_another_contract
from surefoot.artifacts import (
    JsonLines,
    atomic_write,
    load_npz,
    read_table,
    save_npz,
    table_meta,
    write_table,
)
from surefoot.contract import SurefootError, digest, load_panel
from surefoot.evaluation import PanelEvaluator
from surefoot.evidence import Judgement
from surefoot.evidence.compare import Comparison, Refusal, compare_sound, metrics_of, refusal_sentence
from surefoot.evidence.postmortem import _weakest
from surefoot.policy.bundle import HoldPose
from surefoot.printing import verdicts
from surefoot.reporting import write_report
from surefoot.reporting.figures import read_run
from surefoot.reporting.perturbations import training_range
from surefoot.reporting.players import _showpiece
from surefoot.reporting.traces import read_replays, tile_origin, unwrapped
from surefoot.reporting.verdict import verdict
from surefoot.reporting.web.charts import ticks
from surefoot.reporting.web.html import Html, duration, el, esc, number, percent, script_json
from surefoot.reporting.web.poses import body_velocity, packed, tilt_of, unpacked
from surefoot.robots import make_skeleton, robot, save_skeleton
from surefoot.runs import RunFolder, checkpoint
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.runs.results import load_result
from surefoot.statistics import mean_interval, rate
from surefoot.statistics.estimates import SPANS
from surefoot.tasks import task
from surefoot.terrain import RESOLUTION_M, Atlas, TileId, tile
from tiny import surefoot


class Page(HTMLParser):
    """Figures by name, scripts, text, and every address that the page mentions."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.figures: dict[str, dict[str, str | None]] = {}
        self.printed: dict[str, str] = {}
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.tags: list[str] = []
        self._open: str | None = None
        self.raw = path.read_text("utf-8")
        self.feed(self.raw)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        name = found.get("data-figure")
        self._open = name
        if name is not None:
            self.figures[name] = found
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action") and v]

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._open is not None:
            self.printed.setdefault(self._open, data)
        self._open = None

    def value(self, name: str) -> float | None:
        text = self.figures[name].get("data-value")
        return None if text is None else float(text)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def plain(plain_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_report([plain_run], tmp_path_factory.mktemp("plain") / "r.html", 2.0))


@pytest.fixture(scope="module")
def full(extended_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_report([extended_run], tmp_path_factory.mktemp("full") / "r.html", 2.0))


def rows_of(run: Path) -> list[dict[str, Any]]:
    """Straight from the file, without Surefoot's reader."""
    found: list[dict[str, Any]] = pq.read_table(
        next((run / "panels").glob("*/confirmation")) / "episodes.parquet"
    ).to_pylist()
    return found


# ---- every figure is the artifacts'


def check_column(page: Page, name: str, rows: list[dict[str, Any]], key: str, rated: bool) -> None:
    values = np.array([float(r[key]) for r in rows])
    family = np.array([r["family"] for r in rows])
    ok = np.isfinite(values)
    if not ok.any():
        assert page.value(name) is None
        return
    shown = page.figures[name]
    assert page.value(name) == pytest.approx(values[ok].mean(), abs=1e-12)
    assert int(str(shown["data-n"])) == ok.sum()
    interval = (
        rate(values.astype(bool), family) if rated else mean_interval(values[ok], family[ok], SPANS[key])
    )
    assert float(str(shown["data-neff"])) == pytest.approx(interval.n_eff)
    if math.isfinite(interval.low):
        assert float(str(shown["data-low"])) == pytest.approx(interval.low)
        assert float(str(shown["data-high"])) == pytest.approx(interval.high)


METRICS = (
    ("success", "success", True),
    ("fall", "fall", True),
    ("velocity_error", "velocity_error_mps", False),
    ("cost_of_transport", "cost_of_transport", False),
)


def test_tiles_equal_the_rows(plain: Page, plain_run: Path) -> None:
    for name, key, rated in METRICS:
        check_column(plain, name, rows_of(plain_run), key, rated)


def test_tiles_baselines_and_columns_equal_the_rows(full: Page, extended_run: Path) -> None:
    rows = rows_of(extended_run)
    nominal = [r for r in rows if r["column"] == "nominal" and r["engine"] == "mujoco"]
    for name, key, rated in METRICS:
        check_column(full, name, nominal, key, rated)
        for policy in ("hold-pose", "random", "open-loop-trot"):
            mine = [r for r in rows if r["policy"] == policy]
            check_column(full, f"baseline:{policy}.{name}", mine, key, rated)
    columns = {(r["column"], r["engine"]) for r in rows}
    assert len(columns) == 16
    for column, engine in columns:
        mine = [r for r in rows if (r["column"], r["engine"]) == (column, engine)]
        check_column(full, f"{column}@{engine}.success", mine, "success", True)


def test_speed_time_and_cost_equal_the_record(plain: Page, plain_run: Path) -> None:
    figures = json.loads((plain_run / "run.json").read_text())["figures"]
    seconds = read_run(plain_run).times.total
    assert seconds is not None
    assert seconds > figures["train_seconds"] + figures["evaluation_seconds"], (
        "start-up or confirmation is left out"
    )
    assert plain.value("steps_per_second") == pytest.approx(figures["samples"] / figures["train_seconds"])
    assert plain.value("wall_seconds") == pytest.approx(seconds)
    assert plain.value("cost") == pytest.approx(2.0 * seconds / 3600)


def test_strata_equal_the_rows_and_stand_worst_first(full: Page, extended_run: Path) -> None:
    rows = [r for r in rows_of(extended_run) if r["column"] == "nominal" and r["engine"] == "mujoco"]
    factor = RunFolder.open(extended_run).record.contract.factor("friction")
    for k in {int(factor.bin_of(np.array(r["friction"]))) for r in rows}:
        mine = [r for r in rows if factor.bin_of(np.array(r["friction"])) == k]
        check_column(full, f"stratum.friction.{factor.label(k)}", mine, "success", True)
    order = [full.value(n) for n in full.figures if n.startswith("stratum.")]
    assert len(order) > 4
    assert order == sorted(order, key=lambda v: v or 0.0)


def test_page_postmortem_comparison_and_rows_call_strata_alike(full: Page, extended_run: Path) -> None:
    rows = [r for r in rows_of(extended_run) if r["column"] == "nominal" and r["engine"] == "mujoco"]
    named = {label for r in rows for label in r["stratum"].split(" | ")}
    result = load_result(RunFolder.open(extended_run))
    on_page = {
        " ".join(n.removeprefix("stratum.").split(".", 1)) for n in full.figures if n.startswith("stratum.")
    }
    cells = {n.removeprefix("cell.cell.") for n in full.figures if n.startswith("cell.")}
    compared = compare_sound(result, result)
    assert isinstance(compared, Comparison)
    weakest = _weakest(result, "here").text.split(" at ")[1].split(":")[0]
    assert {"command forward", "command backward"} < on_page <= named
    assert {label for cell in cells for label in cell.split(" · ")} <= named
    assert compared.strata.keys() == named
    assert weakest in named


def test_heatmap_equals_the_rows(full: Page, extended_run: Path) -> None:
    rows = [r for r in rows_of(extended_run) if r["column"] == "nominal" and r["engine"] == "mujoco"]
    cells = {n: full.value(n) for n in full.figures if n.startswith("heat.velocity_error.")}
    assert cells
    for name, value in cells.items():
        vx, wz = _numbers(name)
        mine = [r["velocity_error_mps"] for r in rows if (r["command_vx"], r["command_wz"]) == (vx, wz)]
        assert value == pytest.approx(np.nanmean(mine))


def _numbers(name: str) -> tuple[float, float]:
    """The two commands at the end of heat.velocity_error.<vx>.<wz>, whose decimals have points too."""
    found = re.fullmatch(r"heat\.velocity_error\.(−?\d+(?:\.\d+)?)\.(−?\d+(?:\.\d+)?)", name)
    assert found is not None
    vx, wz = (float(x.replace("−", "-")) for x in found.groups())
    return vx, wz


def test_labels_honesty_and_freshness_equal_the_artifacts(full: Page, extended_run: Path) -> None:
    rows = [r for r in rows_of(extended_run) if r["column"] == "nominal" and r["engine"] == "mujoco"]
    labels = [r["label"] for r in rows if r["label"]]
    assert labels
    for label in set(labels):
        assert full.value(f"label.{label}") == pytest.approx(labels.count(label) / len(rows))
    ledger = JsonLines(extended_run / "ledger.jsonl").rows()
    for key in ("honesty.reset_sync_index", "honesty.coverage_two_way", "honesty.n_eff_return", "kl"):
        last = [r[key] for r in ledger if r.get(key) is not None][-1]
        assert full.value(key) == pytest.approx(last)
    assert full.value("freshness.mean_age_steps") == ledger[-1]["freshness.mean_age_steps"]
    assert full.value("first_ratio_error") == max(r["first_ratio_error"] for r in ledger)


def test_digests_in_the_footer_are_the_files(plain: Page, plain_run: Path) -> None:
    import hashlib

    for name in ("run.json", "ledger.jsonl", "policy.safetensors"):
        assert hashlib.sha256((plain_run / name).read_bytes()).hexdigest() in plain.raw
    record = json.loads((plain_run / "run.json").read_text())
    for key in ("construct_id", "training_id", "contract_digest", "panel_digest"):
        assert record[key] in plain.raw
    assert "Proven:" in plain.words
    assert record["disjointness"]["reason"] in plain.words


# ---- what is absent, wrong or hostile


def test_today_s_runs_read_not_measured(plain: Page) -> None:
    assert plain.words.count("not measured") >= 8
    assert "Labels: not measured" in plain.words
    assert plain.figures["honesty.reset_fano"].get("data-value") is None
    assert plain.printed["honesty.reset_fano"] == "not measured"


def test_page_needs_no_network(full: Page) -> None:
    assert [a for a in full.addresses if not a.startswith("#")] == []
    assert "default-src 'none'" in html.unescape(full.raw)
    assert not re.search(r"https?://", full.raw)


def test_text_from_artifacts_is_escaped(full: Page) -> None:
    assert "<stood> & still" in full.text or any("<stood> & still" in t for t in full.text)
    assert "stood" not in full.tags
    assert "b&" not in full.tags


def test_escape_by_construction() -> None:
    assert esc("<i>") == "&lt;i&gt;"
    assert (
        el("p", "a<b", Html("<br>"), data_x='"', hidden=True, title=None)
        == '<p data-x="&quot;" hidden>a&lt;b<br></p>'
    )
    assert "</script>" not in script_json({"x": "</script><!--"})


def test_edited_summary_shows(extended_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(extended_run, run)
    path = next((run / "panels").glob("*/confirmation")) / "summary.json"
    summary = json.loads(path.read_text())
    summary["success"] = 0.999
    atomic_write(path, json.dumps(summary).encode())
    page = Page(write_report([run], tmp_path / "r.html"))
    assert (
        "This run is not what it says, or its files contradict each other; nothing below is proven."
        in page.words
    )
    assert "summary: success: summary.json says 0.999, the rows say" in page.words
    assert '<strong class="stamp word" tabindex="0"' in page.raw
    assert verdict(read_run(run)).headline == "Unproven"
    assert page.value("success") != 0.999


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("summary.json", b"{}", "field 'schema_version' is missing"),
        ("summary.json", b"{", "not JSON"),
        ("episodes.parquet", b"PAR1", "episodes.parquet"),
    ],
)
def test_corrupt_artifacts_are_refused(
    plain_run: Path, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain_run, run)
    (next((run / "panels").glob("*/confirmation")) / name).write_bytes(content)
    with pytest.raises(SurefootError, match=says):
        write_report([run], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_panel_of_another_run_is_refused(plain_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain_run, run)
    panel = next((run / "panels").glob("*/confirmation"))
    remeasured(panel, metrics="0" * 64)
    with pytest.raises(SurefootError, match="another run"):
        write_report([run], tmp_path / "r.html")


def remeasured(panel: Path, **measurement: Any) -> dict[str, Any]:
    """The panel folder as if it had been measured otherwise, with ids that say so; returns its summary."""
    summary, table = panel / "summary.json", panel / "episodes.parquet"
    said = json.loads(summary.read_text())
    said["measurement"] |= measurement
    ids = dict.fromkeys(("measurement_id", "construct_id"), digest(said["measurement"]))
    summary.write_text(json.dumps(said | ids))
    write_table(table, read_table(table), PANEL_ROWS_VERSION, table_meta(table) | ids)
    return said | ids


def test_rows_of_another_evaluation_are_refused(tiny_run: Path, tmp_path: Path) -> None:
    """Same panel, same construct, another checkpoint: nothing but the table's own word tells."""
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    table = next((run / "panels").glob("*/confirmation")) / "episodes.parquet"
    write_table(table, read_table(table), PANEL_ROWS_VERSION, table_meta(table) | {"checkpoint": "0" * 64})
    for read in (lambda: write_report([run], tmp_path / "r.html"), lambda: load_result(RunFolder.open(run))):
        with pytest.raises(SurefootError, match="of different evaluations"):
            read()
    assert surefoot("replay", run, "4", "--verify") == 2


def test_a_confirmed_checkpoint_that_was_swapped_is_refused(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    found = checkpoint.load_checkpoint(run / "checkpoints" / "confirmed.safetensors")
    meta = found.meta | {"update": 999}
    checkpoint.save_checkpoint(run / "checkpoints" / "confirmed.safetensors", found.tensors, meta)
    assert surefoot("evaluate", run, "--perturb", "none") == 2
    assert "is not the checkpoint that" in capsys.readouterr().err


def test_run_without_confirmation_or_ledger_says_so(plain_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain_run, run)
    shutil.rmtree(run / "panels")
    (run / "ledger.jsonl").unlink()
    page = Page(write_report([run], tmp_path / "r.html"))
    assert "Not confirmed" in page.words
    assert "No update has been recorded" in page.words
    assert page.value("success") is None


def test_robot_that_is_not_here_is_not_drawn(plain_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain_run, run)
    path = run / "run.json"
    record = json.loads(path.read_text())
    record["contract"]["robot"] = "somebody-elses"
    record["contract"]["robot_digest"] = "0" * 64
    path.write_text(json.dumps(record))
    page = Page(write_report([run], tmp_path / "r.html"))
    assert "is not installed here" in page.words


def test_golden_run_can_be_reported(tmp_path: Path) -> None:
    """Runs of every released schema stay readable, without a replay where their traces are gone."""
    page = Page(write_report([GOLDEN / "v1"], tmp_path / "r.html"))
    assert page.value("success") is not None


# ---- verdict


def test_untrained_policy_is_reported_as_failing(plain_run: Path) -> None:
    found = verdict(read_run(plain_run))
    assert (found.grade, found.headline) == ("bad", "Failing")
    assert "no perturbations" in found.evidence
    assert found.claims[2].says == "not measured"


@pytest.mark.parametrize(
    ("success", "low", "held", "beats", "word"),
    [
        (0.97, 0.92, True, True, "Reliable"),
        (0.97, 0.92, True, None, "Reliable"),
        (0.97, 0.85, True, True, "Partly working"),
        (0.7, 0.5, True, True, "Partly working"),
        (0.97, 0.92, False, True, "Failing"),
        (0.97, 0.92, True, False, "Failing"),
        (0.4, 0.2, True, True, "Failing"),
    ],
)
def test_terminal_and_page_say_the_same_word(
    extended_run: Path, success: float, low: float, held: bool, beats: bool | None, word: str
) -> None:
    run = read_run(extended_run)
    assert run.panel is not None
    said = RunFolder.open(extended_run).record.confirmation
    assert said is not None
    words = {"success": success, "success_low": low, "safety_held": held, "beats_baselines": beats}
    judged = Judgement(said.model_copy(update=words))
    line = verdicts(judged)[0]
    assert f"]{word}:[/]" in line
    nominal = dataclasses.replace(
        run.panel.nominal, success=run.panel.nominal.success.model_copy(update={"value": success, "low": low})
    )
    summary = run.panel.summary.model_copy(update={"safety_held": held, "beats_baselines": beats})
    panel = dataclasses.replace(run.panel, nominal=nominal, summary=summary, judgement=judged)
    if beats is None:
        panel = dataclasses.replace(panel, columns=tuple(c for c in panel.columns if not c.baseline))
    assert verdict(dataclasses.replace(run, panel=panel)).headline == word


def test_verdict_weighs_baselines_and_perturbations(extended_run: Path, tmp_path: Path) -> None:
    """By the rows: what summary.json says of them makes nothing better, and is itself a fault."""
    run = tmp_path / "run"
    shutil.copytree(extended_run, run)
    folder = next((run / "panels").glob("*/confirmation"))
    found = verdict(read_run(run))
    assert (found.grade, found.faults) == ("bad", ()), "eight episodes beat nobody"
    assert "not better than" in found.detail
    assert "of 11 perturbations" in found.claims[2].says
    summary = json.loads((folder / "summary.json").read_text())
    for forged in (
        {"beats_baselines": True},
        {"safety_held": not summary["safety_held"]},
        {"transfer": ["x"]},
    ):
        (folder / "summary.json").write_text(json.dumps(summary | forged))
        found = verdict(read_run(run))
        assert (found.grade, found.claims[2].grade) == ("unproven", "unproven"), forged
        assert "not better than" in found.detail
    (folder / "summary.json").write_text(json.dumps(summary))
    rows, meta = read_table(folder / "episodes.parquet"), table_meta(folder / "episodes.parquet")
    full = rows | {"torque_saturation": np.ones(len(rows["family"]))}
    write_table(folder / "episodes.parquet", full, PANEL_ROWS_VERSION, meta)
    restate(run)
    found = verdict(read_run(run))
    assert (found.grade, "safety limit is broken" in found.detail) == ("bad", True)


def test_training_range_is_the_contract_s(extended_run: Path) -> None:
    contract = read_run(extended_run).record.contract
    assert training_range("friction", contract) == contract.factor("friction").train
    assert training_range("dropout", contract) is None


# ---- several runs


def test_runs_side_by_side(plain_run: Path, extended_run: Path, tmp_path: Path) -> None:
    page = Page(write_report([plain_run, extended_run], tmp_path / "r.html"))
    assert "may be compared" in page.words
    name = json.loads((plain_run / "run.json").read_text())["id"]
    for metric in ("success", "fall", "velocity_error_mps", "yaw_error_radps", "cost_of_transport"):
        ours = {(r["family"], r["member"]): r[metric] for r in rows_of(plain_run)}
        theirs = {
            (r["family"], r["member"]): r[metric]
            for r in rows_of(extended_run)
            if r["column"] == "nominal" and r["engine"] == "mujoco"
        }
        gaps = [float(theirs[k]) - float(ours[k]) for k in ours]
        gaps = [g for g in gaps if np.isfinite(g)]
        expected = pytest.approx(np.mean(gaps), abs=1e-12) if gaps else None
        assert page.value(f"{name}.difference.{metric}") == expected, metric


def turned(run: Path) -> None:
    """The same scenarios with larger errors, stated wherever they are."""
    path = next((run / "panels").glob("*/confirmation")) / "episodes.parquet"
    table = pq.read_table(path)
    for name in ("velocity_error_mps", "error_vx", "error_vy"):
        column = pa.array(1.5 * table.column(name).to_numpy())
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, path)
    restate(run)


def another_construct(run: Path) -> None:
    success = RunFolder.open(run).record.contract.success
    under_another_contract(run, success=success.model_copy(update={"velocity_error_mps": 0.9}))


def another_engine(run: Path) -> None:
    """The nominal pass on stride alone."""
    folder = next((run / "panels").glob("*/confirmation"))
    rows, meta = read_table(folder / "episodes.parquet"), table_meta(folder / "episodes.parquet")
    keep = (rows["column"] == "nominal") & (rows["engine"] == "stride")
    assert keep.any()
    rows = {k: v[keep] for k, v in rows.items()}
    write_table(folder / "episodes.parquet", rows, PANEL_ROWS_VERSION, meta)
    version = json.loads((folder / "summary.json").read_text())["engines"]["stride"]
    said = remeasured(folder, engine={"name": "stride", "version": version}) | {"engine": "stride"}
    (folder / "summary.json").write_text(json.dumps(said))
    record = json.loads((run / "run.json").read_text())
    same = {k: said[k] for k in ("measurement", "measurement_id", "construct_id")}
    (run / "run.json").write_text(json.dumps(record | same | {"confirmation": said}))


def other_scenarios(run: Path) -> None:
    folder = next((run / "panels").glob("*/confirmation"))
    rows, meta = read_table(folder / "episodes.parquet"), table_meta(folder / "episodes.parquet")
    rows["command_vx"] = rows["command_vx"] + 0.125
    write_table(folder / "episodes.parquet", rows, PANEL_ROWS_VERSION, meta)


@pytest.mark.parametrize("change", [turned, another_construct, another_engine, other_scenarios])
def test_page_and_terminal_compare_alike(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    """The same differences to the bit, or the same sentence for why there are none."""
    other = tmp_path / "other"
    shutil.copytree(tiny_run, other)
    change(other)
    code = surefoot("compare", tiny_run, other, "--json")
    printed = capsys.readouterr()
    page = Page(write_report([tiny_run, other], tmp_path / "r.html"))
    differences = {n.split(".difference.")[1]: n for n in page.figures if ".difference." in n}
    if code == 0:
        (said,) = json.loads(printed.out)
        assert change is turned
        assert "Comparison refused." not in page.words
        assert said["metrics"]["velocity error m/s"]["value"] != 0
        for title, column in metrics_of(RunFolder.open(other).record.contract).items():
            for key in ("value", "low", "high", "n"):
                stated = page.figures[differences[column]].get(f"data-{key}")
                expected = said["metrics"].get(title, {}).get(key)
                assert (None if stated is None else float(stated)) == expected, (title, key)
        return
    assert differences == {}
    (why,) = re.findall(r'data-refused="true"><b>Comparison refused\. </b>(.*?)</p>', page.raw)
    why = html.unescape(why)
    assert surefoot("compare", tiny_run, other) == code == 3
    printed = capsys.readouterr()
    terminal = "".join((printed.out + printed.err).split())  # whose lines are broken to its width
    refusal = compare_sound(*(load_result(RunFolder.open(r)) for r in (tiny_run, other)))
    assert isinstance(refusal, Refusal)
    ids = [RunFolder.open(r).record.id for r in (tiny_run, other)]
    sentence = refusal_sentence(*ids, refusal.differs)
    assert why == f"{sentence} {refusal.offer}"
    for part in (sentence, refusal.offer):
        assert "".join(part.split()) in terminal
    assert surefoot("promote", other, tiny_run) in (2, 3), "ids that do not fit are not even read"


def test_comparison_is_refused_when_constructs_differ(plain_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(plain_run, other)
    another_construct(other)
    page = Page(write_report([plain_run, other], tmp_path / "r.html"))
    assert "Comparison refused." in page.words
    assert "not measured alike (evidence, success.velocity_error_mps" in page.words
    assert not any(".difference." in n for n in page.figures)


# ---- the command line, files


def test_training_ends_with_a_report(tiny_run: Path) -> None:
    page = Page(tiny_run / "report.html")
    assert page.value("success") is not None


def test_command_writes_one_file(
    extended_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "page.html"
    assert surefoot("report", extended_run, "--out", out, "--dollars-per-hour", "3") == 0
    assert 100_000 < out.stat().st_size < 15_000_000
    assert [p.name for p in out.parent.iterdir()] == ["page.html"]
    assert "page.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [("nowhere",), ("RUN", "--dollars-per-hour", "-1"), ("RUN", "--out", "DIR")]
)
def test_bad_input_is_one_sentence(
    plain_run: Path, tmp_path: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(plain_run) if a == "RUN" else str(tmp_path) if a == "DIR" else a for a in arguments]
    assert surefoot("report", *given) == 2
    assert "Traceback" not in capsys.readouterr().err


# ---- replay


def test_packing_is_lossless() -> None:
    values = np.random.default_rng(2).integers(-32_768, 32_767, (37, 11)).astype(np.int16)
    assert (unpacked(packed(values), 37) == values).all()


def test_packed_poses_are_within_half_a_millimetre(plain_run: Path) -> None:
    run = read_run(plain_run)
    found = read_replays(run)
    assert found.episodes
    assert found.robot is not None
    assert run.panel is not None
    skeleton = make_skeleton(robot("go1"))
    for episode in found.episodes:
        trace = load_npz(run.panel.folder / "traces" / f"{episode.stem}.npz")
        place, turn = skeleton.poses(trace["position"], trace["quaternion"], trace["joint_position"])
        place, turn = place[:, skeleton.drawn], turn[:, skeleton.drawn]
        shown = unpacked(episode.data["poses"], episode.data["frames"]).reshape(*place.shape[:2], 7)
        assert np.abs(shown[..., :3] * episode.data["unit"] - place).max() < 0.0005
        assert np.abs(np.abs(np.sum(shown[..., 3:] / 32_000 * turn, -1)) - 1).max() < 1e-3


def test_a_run_s_own_robot_file_draws_what_the_robot_does(tiny_run: Path, tmp_path: Path) -> None:
    """The page is the same from robot.json as from the installed robot; another robot's file is refused."""
    older, other = tmp_path / "older", tmp_path / "other"
    for copy in (older, other):
        shutil.copytree(tiny_run, copy)
    (older / "robot.json").unlink()
    assert read_replays(read_run(tiny_run)) == read_replays(read_run(older))
    save_skeleton(robot("anymal"), other)
    with pytest.raises(SurefootError, match="another robot than this run's"):
        read_replays(read_run(other))


def test_replay_shows_the_trace_s_terrain_label_and_signals(extended_run: Path) -> None:
    found = read_replays(read_run(extended_run))
    first = found.episodes[0]
    assert first.success is False
    ours = next(e for e in found.episodes if e.data["terrain"]["cls"] == "stairs_up")
    assert ours.label == "fell after push"
    heights = unpacked(ours.data["terrain"]["heights"], 80) / 10_000
    assert np.abs(heights - tile("stairs_up", 3, 7)).max() < 1e-4
    signals = unpacked(ours.data["signals"]["data"], ours.data["frames"])
    assert signals[:, 1] == pytest.approx(np.full(len(signals), 500))


def test_pushes_and_changed_commands_are_events_of_the_episode(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    file = sorted((run / "panels" / "tiny-v1" / "confirmation" / "traces").glob("nominal-0*.npz"))[0]
    trace = load_npz(file)
    frames = len(trace["position"])
    assert frames > 20

    def events(**changed: np.ndarray) -> list[dict[str, Any]]:
        save_npz(file, **(trace | changed))
        found = next(e for e in read_replays(read_run(run), most=1000).episodes if e.stem == file.stem)
        return list(found.data["events"])

    steps, kicks = np.array([15, 5, frames + 3]), np.array([[0.6, -0.8], [0.0, 0.5], [1.0, 0.0]])
    found = events(push_step=steps, push_velocity=kicks)
    assert [(e["t"], e["v"]) for e in found] == [(0.1, [0.0, 0.5]), (0.3, [0.6, -0.8])]
    assert found[1]["text"] == "push 1 m/s"
    none = {"push_step": np.zeros(0, int), "push_velocity": np.zeros((0, 2))}
    command = trace["command"].copy()
    command[10:, 0] += 0.25
    changed = events(**none, command=command)
    assert [(e["t"], e["kind"]) for e in changed] == [(0.2, "command")]
    steered = trace["command"] + np.arange(frames)[:, None] * 0.01
    assert events(**none, command=steered) == [], "steered all the time: no moment to mark"
    old = {k: v for k, v in trace.items() if not k.startswith("push_")}
    save_npz(file, **old)
    assert all(
        e.data["events"] == [] for e in read_replays(read_run(run), 1000).episodes if e.stem == file.stem
    )


def test_how_it_learned_is_shown_where_it_was_kept(tiny_run: Path, tmp_path: Path) -> None:
    root = tiny_run / "panels" / "tiny-v1"
    found = read_replays(read_run(tiny_run))
    assert [s.update for s in found.learning] == [3, 6]
    for stop in found.learning:
        said = json.loads((root / f"selection-update-{stop.update:06d}" / "summary.json").read_text())
        assert (stop.success, stop.episodes) == (said["success"], said["episodes"])
        assert stop.replay.data["hz"] == 25
    assert len({s.replay.identity for s in found.learning}) == 1, "always the same scenario"
    assert len(found.data["episodes"]) == len(found.episodes) + 2
    older = tmp_path / "older"
    shutil.copytree(tiny_run, older)
    for folder in (older / "panels" / "tiny-v1").glob("selection-update-*"):
        shutil.rmtree(folder / "traces")
    page = write_report([older], tmp_path / "r.html").read_text()
    assert read_replays(read_run(older)).learning == ()
    assert 'class="learn"' not in page
    assert 'class="learn"' in write_report([tiny_run], tmp_path / "r.html").read_text()


def test_at_most_eight_evaluations_are_shown_and_the_chosen_one_is(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    root = run / "panels" / "tiny-v1"
    for update in range(9, 63, 3):
        shutil.copytree(root / "selection-update-000006", root / f"selection-update-{update:06d}")
    for chosen in (3, 30, 33, 36, 60):
        RunFolder.open(run).write_record(figures={"chosen_update": chosen})
        stops = read_replays(read_run(run)).learning
        assert len(stops) == 8
        assert stops[0].update == 3
        assert [s.update for s in stops if s.chosen] == [chosen]


def test_the_page_opens_on_a_success_or_says_that_there_is_none(
    extended_run: Path, tiny_run: Path, tmp_path: Path
) -> None:
    good, none = read_replays(read_run(extended_run)), read_replays(read_run(tiny_run))
    shown = good.episodes[_showpiece(good.episodes)]
    assert shown.success
    assert shown.nominal
    assert not any(e.success for e in none.episodes if e.nominal), "six updates do not suffice to walk"
    assert "No undisturbed success was kept" in write_report([tiny_run], tmp_path / "r.html").read_text()
    bare = tmp_path / "bare"
    shutil.copytree(tiny_run, bare)
    for folder in (bare / "panels").glob("*/*/traces"):
        shutil.rmtree(folder)
    page = write_report([bare], tmp_path / "r.html").read_text()
    assert 'class="replay' not in page
    assert "This run kept no trace of a confirmation episode." in page


def test_labels_link_to_their_episodes_and_every_link_leads_somewhere(
    tiny_run: Path, extended_run: Path, tmp_path: Path
) -> None:
    text = write_report([extended_run, tiny_run], tmp_path / "r.html").read_text()
    links, ids = re.findall('href="#([^"]+)"', text), re.findall(' id="([^"]+)"', text)
    assert any(link.startswith("episode-") for link in links)
    assert set(links) <= set(ids)
    assert len(ids) == len(set(ids)), "two runs on a page have their own anchors"


def test_velocity_from_positions_matches_motion() -> None:
    """A circle driven at 0.5 m/s ahead and 0.4 rad/s."""
    t = np.arange(200) / 50
    yaw = 0.4 * t
    position = np.stack([0.5 / 0.4 * np.sin(yaw), -0.5 / 0.4 * np.cos(yaw), np.zeros_like(t)], 1)
    quaternion = np.stack([np.cos(yaw / 2), 0 * yaw, 0 * yaw, np.sin(yaw / 2)], 1)
    velocity = body_velocity({"quaternion": quaternion}, position, 50.0)
    assert velocity[5:-5] == pytest.approx(np.tile([0.5, 0.0, 0.4], (190, 1)), abs=1e-3)
    assert tilt_of(quaternion) == pytest.approx(np.zeros(200), abs=1e-6)


def test_tile_is_sampled_as_the_browser_draws_it() -> None:
    assert tile("flat", 0, 0).shape == (80, 80)
    assert pytest.approx(8.0 / 80) == RESOLUTION_M


# ---- numbers


def test_numbers_for_people() -> None:
    assert [number(v) for v in (None, math.nan, 0, 0.13348, 19600.1, -1.5)] == [
        "not measured", "not measured", "0", "0.133", "19,600", "−1.50",
    ]  # fmt: skip
    assert [number(v) for v in (5.0, 1234.0, -3)] == ["5", "1,234", "−3"]
    assert [percent(v) for v in (1.0, 0.0, 0.908, None)] == ["100%", "0%", "90.8%", "not measured"]
    assert [percent(v) for v in (0.0001, 0.0005, 0.9996, 0.999)] == ["<0.1%", "0.1%", ">99.9%", "99.9%"]
    assert [duration(v) for v in (1.25, 272.6, 3700, None)] == [
        "1.2 s",
        "4 min 33 s",
        "1 h 01 min",
        "not measured",
    ]
    assert ticks(0, 1, 4) == [0, 0.25, 0.5, 0.75, 1]


def test_episodes_on_an_atlas_are_put_back_on_their_tile() -> None:
    """Traces are in the atlas's coordinates; feet must stand on the one tile that is drawn."""
    whole = load_panel("walk-rough-v1")
    panel = whole.with_families(2)
    rough = task("walk-rough")
    evaluator = PanelEvaluator(rough, panel, "confirmation", 50.0)
    try:
        result = evaluator.run(HoldPose(rough.contract.action.size))
    finally:
        evaluator.close()
    assert {s.terrain.cls for s in evaluator.scenarios} > {"flat"}
    for i, trace in result.traces.items():
        # `scenario` is a place in the panel; a trace without one is numbered by its place in the half.
        t = (
            panel.scenarios[int(trace["scenario"])] if "scenario" in trace else evaluator.scenarios[i]
        ).terrain
        alone = Atlas.build([TileId(t.cls, t.level, t.key)])
        feet = trace["foot_position"].astype(float)
        feet[..., :2] -= tile_origin(trace["position"].astype(float))[:2]
        gap = feet[..., 2] - alone.height(alone.wrap(feet[..., :2], 0))
        assert gap[-1] == pytest.approx(np.full(4, 0.022), abs=0.006)  # the radius of a foot


def test_wrapped_positions_become_one_path() -> None:
    straight = np.stack([np.linspace(0, 30, 300), np.linspace(0, -12, 300), np.full(300, 0.3)], 1)
    wrapped = straight.copy()
    wrapped[:, :2] = (straight[:, :2] + 4) % 8 - 4
    assert unwrapped(wrapped) == pytest.approx(straight)
