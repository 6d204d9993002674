"""Libraries train our tasks for real, in a process of their own, and leave what our own learner leaves."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from places import TESTS
from surefoot.artifacts import JsonLines
from surefoot.contract import LEARNERS
from surefoot.learners import libraries
from surefoot.learners.libraries import LIBRARIES, LibraryEnv, LibraryStep
from surefoot.policy.bundle import read_policy
from surefoot.runs import RunFolder
from surefoot.training.library_worker import flatten
from surefoot.training.plan_makers import make_plan, robot_plan
from surefoot.training.restore import load_policy
from tiny import surefoot

QUIET = ("--quiet", "--tracker", "none", "--perturb", "none")
REPORTED = {
    "rsl_rl": {"std", "value_loss", "policy_loss", "entropy", "learning_rate"},
    "skrl": {"std", "value_loss", "policy_loss", "entropy", "learning_rate"},
    "rl_games": {"std", "value_loss", "policy_loss", "entropy", "learning_rate"},
    "sb3": {
        "std", "value_loss", "policy_loss", "entropy", "learning_rate", "kl_last_epoch", "clip_fraction",
        "explained_variance",
    },
    "tianshou": {"std", "value_loss", "policy_loss", "entropy", "learning_rate"},
    "cleanrl": {
        "std", "value_loss", "policy_loss", "entropy", "learning_rate", "kl", "kl_last_epoch",
        "clip_fraction", "grad_norm", "explained_variance",
    },
}  # fmt: skip
"""What each library says about an update; the other figures of a learner are null."""
FIGURES = (
    "first_ratio_error", "kl", "kl_last_epoch", "clip_fraction", "value_loss", "policy_loss", "entropy",
    "std", "learning_rate", "grad_norm", "skipped_steps", "explained_variance",
)  # fmt: skip


def train(folder: Path, learner: str, *arguments: str) -> int:
    return surefoot("train", "tiny:walk", "--learner", learner, "--out", folder, *QUIET, *arguments)


def rows(folder: Path) -> list[dict[str, Any]]:
    return JsonLines(folder / "ledger.jsonl").rows()


def need(learner: str) -> None:
    """Skips where a library is not; `make test` installs them all."""
    needs = LIBRARIES[learner].needs
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")


def test_the_command_line_offers_the_learners_that_there_are() -> None:
    assert ("ppo", *LIBRARIES) == LEARNERS


@pytest.mark.parametrize("timeouts", ["stock", "corrected"])
@pytest.mark.parametrize("learner", LIBRARIES)
def test_a_library_trains_and_its_bundle_acts_as_it_does(
    learner: str, timeouts: str, tiny_run: Path, tmp_path: Path
) -> None:
    need(learner)
    if timeouts == "corrected" and not LIBRARIES[learner].correctable:
        pytest.skip("right as it comes")
    folder = tmp_path / "run"
    assert train(folder, learner, "--updates", "3", "--envs", "64", "--timeouts", timeouts) == 0
    record, ledger = RunFolder.open(folder).record, rows(folder)
    assert record.status == "finished"
    assert record.learner == learner
    assert record.library is not None
    assert record.library.timeouts == timeouts
    assert record.library.version == LIBRARIES[learner].version
    assert record.library.differences
    # the library's own deterministic actions, compared by the worker at every checkpoint
    error = record.figures["export_error"]
    assert error is not None
    assert error <= 1e-5
    # the ledger has the rows and the names of our own learner's, and null where nothing is known
    assert [r["update"] for r in ledger] == [1, 2, 3]
    assert sum(r["reset.timeout"] for r in ledger) > 0, "episodes ran out of time, so that was tried too"
    ours = rows(tiny_run)[0].keys()
    assert ledger[0].keys() == ours
    known = {k for k in FIGURES if ledger[0][k] is not None}
    assert known == REPORTED[learner]
    assert all(ledger[0][k] is None for k in ours if k.startswith("advantage."))
    assert ledger[0]["samples"] == 64 * 16
    # the ordinary panel, on the ordinary bundle
    assert record.confirmation is not None
    assert record.confirmation.construct_id == RunFolder.open(tiny_run).record.construct_id
    found, bundle = load_policy(RunFolder.open(folder), "confirmed")
    alone = read_policy(folder / "policy.safetensors")
    assert all(torch.equal(alone.tensors[k], v) for k, v in bundle.tensors.items())
    assert any(k.startswith("learner.") for k in found.tensors), "what the library would save is kept"
    assert (folder / "library.log").is_file()
    assert (folder / "report.html").is_file()


def test_the_treatment_names_library_version_and_timeouts() -> None:
    ids = [
        make_plan("tiny:walk", learner=learner, timeouts=timeouts).training_id
        for learner, timeouts in (("ppo", "stock"), ("cleanrl", "stock"), ("cleanrl", "corrected"))
    ]
    assert len(set(ids)) == 3
    # Of many learners that were all asked to be corrected, our own has nothing to correct.
    assert robot_plan("tiny:walk", learner="ppo", timeouts="corrected").training_id == ids[0]


# ---- what goes wrong


def test_a_missing_extra_is_one_sentence_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(libraries.names.importlib.util, "find_spec", lambda name: None)
    assert train(tmp_path / "run", "rsl_rl", "--updates", "1") == 2
    said = capsys.readouterr().err.strip()
    assert said == (
        "surefoot: --learner rsl_rl needs RSL-RL; install it with: pip install 'surefoot[rsl-rl]'"
    )
    assert not (tmp_path / "run").exists()


def test_another_version_than_the_adapter_is_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(libraries.names.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(libraries.names, "version", lambda package: "4.0.1")
    assert train(tmp_path / "run", "rsl_rl", "--updates", "1") == 2
    assert "written for rsl-rl-lib 5.5.x and 4.0.1 is installed" in capsys.readouterr().err


PLANTS = {
    "exception": """
from surefoot.learners.libraries.env import LibraryEnv
step = LibraryEnv.step
def planted(self, action):
    if self.steps == 40:
        raise RuntimeError("planted")
    return step(self, action)
LibraryEnv.step = planted
""",
    "kill": """
import os
from surefoot.learners.libraries.env import LibraryEnv
step = LibraryEnv.step
def planted(self, action):
    if self.steps == 40:
        os.kill(os.getpid(), 9)
    return step(self, action)
LibraryEnv.step = planted
""",
    "export": """
import surefoot.learners.libraries.session as session
mlp = session.mlp
session.mlp = lambda layers: {k: 1.01 * v for k, v in mlp(layers).items()}
""",
}
"""Python that a worker runs before anything else."""


@pytest.mark.parametrize(
    ("plant", "why"),
    [
        ("exception", "RuntimeError: planted"),
        ("kill", "killed by signal 9"),
        ("export", "RuntimeError: the exported policy acts otherwise than the library"),
    ],
)
def test_a_library_that_breaks_leaves_a_failed_run_and_its_log(
    plant: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In the worker alone: what it imports starts further Pythons, which would plant in turn.
    worker = "import sys\nif 'surefoot.training.library_worker' in sys.orig_argv:\n"
    (tmp_path / "sitecustomize.py").write_text(worker + textwrap.indent(PLANTS[plant], "    "))
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "run"
    assert train(folder, "cleanrl", "--updates", "6") == 1
    record = RunFolder.open(folder).record
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.startswith(why)
    assert record.confirmation is None
    assert not (folder / "policy.safetensors").exists()
    assert not (folder / "report.html").exists()
    assert not (folder / "checkpoints" / "confirmed.safetensors").exists()
    log = (folder / "library.log").read_text()
    assert plant == "kill" or ("Traceback" in log and why in log)
    assert "marked failed" in capsys.readouterr().out
    for name in ("latest", "best"):  # what was saved before is whole
        path = folder / "checkpoints" / f"{name}.safetensors"
        assert not path.exists() or load_policy(RunFolder.open(folder), name)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_library_saves_and_says_so(how: signal.Signals, tmp_path: Path) -> None:
    """Also where the parent is killed and cannot say anything: nobody is left training."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "surefoot", "train", "tiny:walk", "--learner", "cleanrl", *QUIET]
    with subprocess.Popen(
        [*command, "--updates", "100000", "--out", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: (folder / "ledger.jsonl").exists())
        process.send_signal(how)
        said, _ = process.communicate(timeout=120)
    if how == signal.SIGTERM:
        assert process.returncode == 143
        assert "Stopped by SIGTERM; saved." in said
    wait_for(lambda: RunFolder.open(folder).record.status != "running")
    run = RunFolder.open(folder)
    assert run.record.status == "interrupted"
    assert load_policy(run, "latest")
    assert [r["update"] for r in rows(folder)] == list(range(1, int(run.record.figures["updates"] or 0) + 1))
    assert surefoot("train", "--resume", folder, "--updates", "5") == 2, "libraries cannot continue exactly"


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- the environments that libraries step


def library_env(horizon: int, engine: str = "auto", fused: bool = True) -> LibraryEnv:
    plan = make_plan("tiny:walk", overrides={"horizon": horizon, "envs": 64}, engine=engine)
    env = plan.environments(range(64))
    return LibraryEnv(env if fused else env.plain, horizon, 0.97)  # type: ignore[union-attr]


def test_a_library_steps_the_same_environments_compiled_or_not() -> None:
    compiled, plain = library_env(8), library_env(8, fused=False)
    generator = torch.Generator().manual_seed(1)
    ended = cut = 0
    for _ in range(40):
        action = torch.rand(64, 12, generator=generator) * 8 - 4
        a, b = compiled.step(action), plain.step(action)
        assert torch.equal(a.truncated, b.truncated)
        assert torch.equal(a.terminated, b.terminated)
        assert torch.allclose(a.reward, b.reward, atol=1e-4)
        assert torch.allclose(a.obs, b.obs, atol=2e-2)
        assert torch.allclose(a.final_critic[a.truncated], b.final_critic[a.truncated], atol=2e-2)
        ended, cut = ended + int(a.done.sum()), cut + int(a.truncated.sum())
    assert cut > 0
    assert ended > cut


def test_what_a_library_does_to_a_step_stays_its_own() -> None:
    env = library_env(4)
    step = env.step(torch.zeros(64, 12))
    kept = env.block.reward[0].clone()
    step.reward.mul_(0).add_(7)
    step.obs.zero_()
    assert torch.equal(env.block.reward[0], kept)
    assert env.obs.abs().sum() > 0


def test_corrected_rewards_hold_the_value_of_what_was_to_come() -> None:
    truncated = torch.tensor([False, True, False])
    final = torch.tensor([[1.0], [2.0], [3.0]])
    zeros = torch.zeros(3, 1)
    step = LibraryStep(
        zeros, zeros, torch.ones(3), torch.tensor([True, False, False]), truncated, final, 10 * final
    )
    assert step.corrected(0.5, lambda obs, critic: obs[:, 0] + critic[:, 0]).tolist() == [
        1.0,
        12.0,
        1.0,
    ]
    assert step.done.tolist() == [True, True, False]


def test_a_librarys_state_is_kept_as_plain_tensors() -> None:
    state = {"a": torch.ones(2), "b": [{"lr": 0.5, "name": "adam"}, None], "c": {3: torch.zeros(1)}}
    found = flatten(state)
    assert set(found) == {"a", "b.0.lr", "c.3"}
    assert float(found["b.0.lr"]) == 0.5


def test_settings_are_the_recipe_by_each_librarys_names(tmp_path: Path) -> None:
    """What a run was told is in its record, and follows the recipe."""
    need("sb3")
    folder = tmp_path / "run"
    assert train(folder, "sb3", "--updates", "1", "--epochs", "3", "--hidden", "16") == 0
    told = json.loads((folder / "run.json").read_text())["library"]["settings"]
    assert told["n_epochs"] == 3
    assert told["policy_kwargs"]["net_arch"] == {"pi": [16], "vf": [16]}
    assert told["batch_size"] == 16 * 16 // 2
    assert told["gamma"] == make_plan("tiny:walk").recipe.gamma
