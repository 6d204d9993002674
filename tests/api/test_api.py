"""What `import surefoot` offers works on a real run, says what the command line says, and is not hidden by
any module of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import surefoot
from places import ROOT, SOURCE
from surefoot.api import Run
from surefoot.contract import SurefootError
from surefoot.policy import read_policy
from surefoot.reporting.figures import read_run
from surefoot.reporting.verdict import verdict
from surefoot.training.observers import Silent
from tiny import surefoot as command

HERE = Path(__file__).parent.parent
VERBS = ("compare", "evaluate", "plan", "postmortem", "promote", "replay", "report", "resume", "train")
SHORT: dict[str, Any] = {"perturb": ("none",), "progress": False}


def python(*arguments: str, absent: tuple[str, ...] = (), cwd: Path | None = None) -> str:
    """What a program prints, in a process of its own where packages are `absent`."""
    block = (
        "import sys\nclass Absent:\n def find_spec(self, name, path=None, target=None):\n"
        f"  if name.split('.')[0] in {absent!r}: raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    program, *rest = arguments
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, HERE))), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", block + program, *rest],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_else() -> None:
    program = "import surefoot; print(sorted({m.split('.')[0] for m in sys.modules} & BIG), dir(surefoot))"
    out = python(f"BIG = {{'torch', 'numpy', 'pyarrow', 'pydantic', 'rich', 'mujoco'}}; {program}")
    assert out.startswith("[] ")
    assert all(f"'{name}'" in out for name in (*VERBS, "Run", "Policy", "Plan", "SurefootError"))


def test_every_verb_is_there_after_every_module_and_the_example_runs(tmp_path: Path) -> None:
    """A module called as a verb would take its place once imported. The example calls every verb for real."""
    text = (ROOT / "examples" / "notebook.py").read_text()
    assert all(f"surefoot.{verb}(" in text for verb in VERBS)
    small = text.replace('TASK = "walk-flat"', 'TASK = "tiny:walk"').replace('"families": 8, ', "")
    small = small.replace('"envs": 64', '"envs": 16')
    assert small.count("tiny:walk") == 1
    (tmp_path / "notebook.py").write_text(small)
    out = python(
        """
import importlib, inspect, pkgutil, runpy
import surefoot

absent = []
for module in pkgutil.walk_packages(surefoot.__path__, "surefoot."):
    if module.name.startswith(("surefoot.learners.libraries.", "surefoot.engines.mujoco_warp")):
        continue  # of other people's packages, some 15 s of them
    try:
        importlib.import_module(module.name)
    except ImportError:
        absent.append(module.name)
for verb in sys.argv[2:]:
    assert inspect.isfunction(getattr(surefoot, verb)), verb
assert inspect.isclass(surefoot.Run) and inspect.isclass(surefoot.Policy)
assert len(absent) < 5, absent
runpy.run_path(sys.argv[1], run_name="__main__")
""",
        str(tmp_path / "notebook.py"),
        *VERBS,
        cwd=tmp_path,
    )
    assert "Run first: tiny:walk, seed 3, finished" in out
    assert "Verified: the same states to the bit" in out
    saved = json.loads((tmp_path / "walk.json").read_text())
    record = json.loads((tmp_path / "runs" / "first" / "run.json").read_text())
    assert [saved[k] for k in ("training_id", "construct_id", "contract_digest")] == [
        record[k] for k in ("training_id", "construct_id", "contract_digest")
    ]


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        surefoot.trian  # noqa: B018  # the asking is the test


# ---- a run


def test_a_run_says_what_its_page_says(tiny_run: Path) -> None:
    run, page = surefoot.Run.load(tiny_run), verdict(read_run(tiny_run))
    assert (run.path, run.id, run.task, run.status) == (tiny_run, "tiny", "tiny:walk", "finished")
    assert run.verdict == page.headline
    assert run.summary is not None
    assert run.success is not None
    assert run.success.value == run.summary.success
    assert (run.recipe.envs, run.seeds.root, run.caveat) == (16, 1, "")
    text = repr(run)
    assert page.headline in text
    assert page.detail in text
    assert len(text.splitlines()) <= 5
    assert surefoot.Run.load(run).path == tiny_run, "a run is as good as its path"


def test_its_tables_are_frames(tiny_run: Path) -> None:
    run = surefoot.Run.load(tiny_run)
    assert isinstance(run.ledger, pd.DataFrame)
    assert run.ledger["update"].tolist() == [1, 2, 3, 4, 5, 6]
    assert run.ledger["evaluation.success"].notna().sum() == 2
    assert len(run.episodes) > 0
    nominal = run.held_out[(run.held_out["column"] == "nominal") & (run.held_out["engine"] == "mujoco")]
    assert run.summary is not None
    assert len(nominal) == run.summary.episodes
    assert nominal["success"].mean() == run.summary.success


def test_the_proof_needs_neither_simulator_nor_pandas(tiny_run: Path, tmp_path: Path) -> None:
    """The same sentences as here, and the policy's actions as torch computes them."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    obs = np.random.default_rng(0).normal(size=(5, 45)).astype(np.float32)
    np.save(tmp_path / "obs.npy", obs)
    out = python(
        """
import numpy as np, pyarrow as pa, surefoot
folder, obs, acts = sys.argv[1:]
run = surefoot.Run.load(folder)
assert isinstance(run.ledger, pa.Table) and run.ledger.num_rows == 6
assert isinstance(run.held_out, pa.Table) and run.episodes.num_rows > 0
np.save(acts, run.policy(np.load(obs)))
promoted = surefoot.promote(run, run, fresh=False)
print(run, surefoot.compare(run, run), promoted, surefoot.postmortem(run), sep="\\n~\\n")
assert surefoot.report(run).path.is_file() and run._repr_html_()
assert not {"torch", "mujoco", "warp"} & set(sys.modules)
""",
        str(folder),
        str(tmp_path / "obs.npy"),
        str(tmp_path / "acts.npy"),
        absent=("torch", "mujoco", "warp", "gymnasium", "tensorboard", "pandas"),
    )
    here = surefoot.Run.load(folder)
    said = (
        here,
        surefoot.compare(here, here),
        surefoot.promote(here, here, fresh=False),
        surefoot.postmortem(here),
    )
    assert out.strip() == "\n~\n".join(map(str, said))
    bundle = read_policy(folder / "policy.safetensors")
    expected = bundle(torch.from_numpy(obs), torch.zeros(5, 0))[0].numpy()
    np.testing.assert_allclose(np.load(tmp_path / "acts.npy"), expected, atol=1e-5)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_shows_it_and_its_name_is_only_text(extended_run: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<script>alert(1)</script>"
    hostile.mkdir(parents=True)
    folder = hostile / '"><img src=x onerror=alert(1)>'
    shutil.copytree(extended_run, folder)
    surefoot.report(folder)
    run = surefoot.Run.load(folder)
    shown = [run, surefoot.compare(run, extended_run), surefoot.report(run), run.policy]
    for result in shown:
        html = Tags(result._repr_html_())
        assert html.open == []
        assert not {"script", "img"} & set(html.tags)
        if "<pre" in result._repr_html_():
            assert "font-family" in result._repr_html_(), "a notebook's own font has no columns"
    card = run._repr_html_()
    assert run.verdict in card
    assert "svg" in Tags(card).tags, "success over training"
    assert not re.search(r"(?<!-)color:|background:#", card), "light or dark is the notebook's choice"


def test_a_notebook_opens_reports_below_its_folder(
    extended_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server would look for an absolute path at its own root."""
    shutil.copytree(extended_run, tmp_path / "my runs" / "one")
    page = surefoot.report(tmp_path / "my runs" / "one")
    monkeypatch.chdir(tmp_path)
    for shown in (page, surefoot.Run.load("my runs/one")):
        assert 'href="my%20runs/one/report.html"' in shown._repr_html_()
    monkeypatch.chdir(tmp_path / "my runs" / "one" / "panels")
    assert f'href="{page.path.resolve().as_uri()}"' in page._repr_html_()


def test_a_damaged_run_still_shows_itself(tiny_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    run = surefoot.Run.load(folder)
    (folder / "ledger.jsonl").write_bytes(b"\xff\xfe garbage\n{}\n")
    assert "ledger.jsonl" in repr(run)
    assert "ledger.jsonl" in run._repr_html_()
    (folder / "run.json").write_text("{")
    assert "run.json" in repr(run)
    assert "run.json" in run._repr_html_()


@pytest.mark.parametrize("wrong", [None, 12, object(), "", "nowhere", ROOT])
def test_what_is_no_run_is_refused(wrong: Any) -> None:
    verbs = (Run.load, surefoot.evaluate, surefoot.report, surefoot.postmortem, surefoot.resume)
    for verb in verbs:
        with pytest.raises(SurefootError):
            verb(wrong)
    with pytest.raises(SurefootError):
        surefoot.compare(wrong, wrong)
    with pytest.raises(SurefootError):
        surefoot.replay(wrong, 0)


@pytest.mark.parametrize(
    "verb", [("compare", "RUN", "RUN"), ("promote", "RUN", "RUN"), ("postmortem", "RUN")], ids=lambda v: v[0]
)
def test_the_command_line_prints_the_same(
    verb: tuple[str, ...], tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    name, *runs = verb
    command(name, *[folder for _ in runs])
    printed = [line.rstrip() for line in capsys.readouterr().out.strip("\n").splitlines()]
    assert str(getattr(surefoot, name)(*[folder for _ in runs])).splitlines() == printed


def test_runs_that_were_not_measured_alike_are_not_compared(tiny_run: Path, tmp_path: Path) -> None:
    other = HERE / "golden" / "v2"
    golden = next(p.parent for p in other.rglob("run.json"))
    compared = surefoot.compare(tiny_run, golden)
    assert not compared.comparable
    assert "not measured alike" in str(compared)
    with pytest.raises(SurefootError, match="not measured alike"):
        compared[0]
    assert surefoot.compare(tiny_run, tiny_run)[0].metrics["success"].value == 0


# ---- a policy


def test_a_policy_says_what_it_takes(tiny_run: Path) -> None:
    policy = surefoot.Policy.load(tiny_run)
    assert policy.card.control_hz == 50
    one = policy(np.zeros(45))
    assert one.shape == (12,)
    np.testing.assert_allclose(policy(np.zeros((3, 45)))[1], one, atol=1e-6)
    with pytest.raises(SurefootError, match=r"takes \(45,\)"):
        policy(np.zeros(44))
    with pytest.raises(SurefootError, match="not a policy bundle"):
        surefoot.Policy.load(tiny_run / "checkpoints" / "latest.safetensors")
    with pytest.raises(SurefootError):
        surefoot.Policy.load(tiny_run / "run.json")


@pytest.mark.parametrize("at", [0, 9, 200, -1])
def test_a_damaged_policy_is_refused(at: int, tiny_run: Path, tmp_path: Path) -> None:
    data = bytearray((tiny_run / "policy.safetensors").read_bytes())
    data[at] ^= 1
    (tmp_path / "policy.safetensors").write_bytes(data)
    with pytest.raises(SurefootError):
        surefoot.Policy.load(tmp_path / "policy.safetensors")


# ---- training


def test_a_plan_is_trained_as_it_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = surefoot.plan("tiny:walk", seed=5, updates=1, perturb="none")
    assert "Recipe and accounting" in str(plan)
    file = plan.save("plan.json")
    with pytest.raises(SurefootError, match="envs: config is trained as it was planned"):
        surefoot.train(config=file, envs=8)
    with pytest.raises(SurefootError, match="seed: a plan is trained as it was planned"):
        surefoot.train(plan, seed=5)
    with pytest.raises(SurefootError, match="Say one thing"):
        surefoot.train()
    with pytest.raises(SurefootError, match="Say one thing"):
        surefoot.train(plan, config=file)
    content = json.loads(file.read_text())
    for name in ("training_id", "construct_id", "contract_digest"):
        Path("other.json").write_text(json.dumps(content | {name: "0" * 64}))
        with pytest.raises(SurefootError, match=f"{name.replace('_', ' ')} 000000000000 then"):
            surefoot.train(config="other.json", out="run")
    Path("other.json").write_text(json.dumps(content | {"recipe": {"epochs": 1}}))
    with pytest.raises(SurefootError, match="training id"):
        surefoot.train(config="other.json", out="run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.json", "plan.json"], "nothing was written"


@pytest.mark.parametrize("option", [("--seed", "1"), ("--envs", "16"), ("--learner", "ppo"), ("tiny:walk",)])
def test_options_beside_a_config_are_refused(
    option: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that repeat a default too: nothing that is typed is silently not done."""
    file = tmp_path / "plan.json"
    if not file.exists():
        assert command("plan", "tiny:walk", "--seed", "2", "--save", file, "--json") == 0
    capsys.readouterr()
    assert command("train", "--config", file, "--out", tmp_path / "run", *option) == 2
    named = option[0] if option[0].startswith("--") else "TASK"
    assert f"leave out {named}" in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_the_command_line_saves_a_plan_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a plan.json"
    assert command("plan", "tiny:walk", "--updates", "3", "--save", file) == 0
    assert "surefoot train --config '" in capsys.readouterr().out
    before = file.read_bytes()
    assert command("plan", "tiny:walk", "--save", file) == 2
    assert file.read_bytes() == before


class StopsAt(Silent):
    """Presses Ctrl-C, or the stop button of a notebook, when an update has been shown."""

    def __init__(self, update: int) -> None:
        self.update = update

    def show(self, row: Any, successes: Any) -> None:
        if row["update"] == self.update:
            signal.raise_signal(signal.SIGINT)


def test_a_stopped_run_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    stopped = surefoot.train(
        "tiny:walk", updates=4, perturb="none", out=tmp_path / "run", progress=StopsAt(2)
    )
    assert stopped.status == "interrupted"
    assert stopped.verdict == "Not confirmed"
    assert stopped.success is None
    assert "interrupted" in repr(stopped)
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(SurefootError, match="no policy"):
        stopped.policy  # noqa: B018  # the asking is the test
    done = surefoot.resume(stopped, updates=4, **SHORT)
    assert stopped.status == "finished", "a run is read when it is asked"
    assert (len(done.ledger), done.success is not None) == (4, True)


def test_it_trains_in_any_thread(tmp_path: Path) -> None:
    made: list[Run] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            made.append(surefoot.train("tiny:walk", updates=1, out=tmp_path / "run", **SHORT))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert errors == []
    assert made[0].status == "finished"


def test_a_bar_is_shown_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    surefoot.train("tiny:walk", updates=1, perturb="none", out=tmp_path / "shown", progress=True)
    assert "update 1 " in " ".join(capsys.readouterr().err.split())
    surefoot.train("tiny:walk", updates=1, out=tmp_path / "silent", **SHORT)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
