"""mjlab's tasks, for real: run by `make test-mjlab` in mjlab's own environment, skipped in any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("mjlab")

import mjlab.tasks  # noqa: F401  (registers them)
from mjlab.tasks import registry

from surefoot.cli.main import main
from surefoot.contract import ExternalContract, SurefootError
from surefoot.engines import make_engine
from surefoot.env.external import external_task
from surefoot.runs import RunFolder, read_ledger
from surefoot.tasks import task

SHORT = "Surefoot-Test-Cartpole"
STEPS = 20


@pytest.fixture(autouse=True, scope="module")
def short() -> None:
    """mjlab's cart and pole with episodes of a second: on a CPU a step takes tens of milliseconds."""
    name = "Mjlab-Cartpole-Balance"
    cfg = registry.load_env_cfg(name)
    cfg.episode_length_s = STEPS * cfg.sim.mujoco.timestep * cfg.decimation
    registry.register_mjlab_task(SHORT, cfg, cfg, registry.load_rl_cfg(name))


def test_the_final_observation_is_the_true_one_and_seeds_repeat() -> None:
    source = external_task(f"mjlab:{SHORT}").make([5, 6, 7], "cpu")
    first = source.start()
    assert len(set(first[:, 0].tolist())) == 3
    actions = torch.linspace(-1, 1, 3)[:, None]
    for t in range(STEPS):
        before = torch.get_rng_state()
        moved = source.step(actions)
        assert torch.equal(torch.get_rng_state(), before), "other draws of the process are left alone"
        assert bool(moved.truncated.all()) == (t == STEPS - 1)
    again = source.restart(torch.tensor([0, 2]))
    assert not torch.isclose(moved.seen[[0, 2]], again).all(), "it ended elsewhere than the next one begins"
    assert torch.equal(source.start(), first)
    source.close()


def test_a_task_trains_under_the_same_ledger_and_panel(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ["--envs", "16", "--horizon", "16", "--minibatches", "2", "--epochs", "2", "--updates", "3"]
    small += ["--eval-families", "4", "--quiet", "--tracker", "none"]
    with pytest.raises(SystemExit) as exit_:
        main(["train", f"mjlab:{SHORT}", *small, "--out", str(folder)])
    assert exit_.value.code == 0
    record = RunFolder.open(folder).record
    c = record.contract
    assert isinstance(c, ExternalContract)
    assert c.versions["mujoco"].startswith("3.11")
    assert (c.seeding, c.episode_steps, c.action.low) == ("batch", STEPS, None)
    assert record.confirmation is not None
    assert record.confirmation.episodes == 2
    rows, _ = read_ledger(folder / "ledger.jsonl")
    assert len(rows) == 3
    assert all(np.isfinite(r["value_loss"]) for r in rows)
    with pytest.raises(SystemExit) as exit_:
        main(["evaluate", str(folder), "--half", "all"])
    assert exit_.value.code == 0


def test_surefoots_own_tasks_train_here_too(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ["--envs", "32", "--updates", "1", "--eval-families", "2", "--perturb", "none", "--quiet"]
    with pytest.raises(SystemExit) as exit_:
        main(["train", "walk-flat", *small, "--tracker", "none", "--out", str(folder)])
    assert exit_.value.code == 0


def test_the_engine_that_needs_a_newer_mujoco_warp_says_so() -> None:
    walk = task("walk-flat")
    with pytest.raises(SurefootError, match="apart from mjlab"):
        make_engine("mujoco-warp", walk.robot, walk.plant, 1)
