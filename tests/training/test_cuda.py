"""Runs on a GPU repeat and resume to the bit as those on a CPU do, and their episodes replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_runs import assert_same_run, resume, train

from surefoot.artifacts import JsonLines, read_table
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import Parameters
from surefoot.engines.conformance import assert_same, begin, mask_of, run, standing
from surefoot.engines.stride import StrideEngine, engine
from surefoot.robots import robot
from surefoot.runs import RunFolder
from surefoot.terrain import Atlas, TileId
from tiny import surefoot

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SMALL = ("--device", "cuda", "--envs", "256", "--horizon", "8", "--minibatches", "2", "--families", "16")
OFTEN = ("--evaluate-every", "3", "--hidden", "64", "64")


@pytest.fixture(scope="module", params=["tf32", "bf16"])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def six(precision: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(precision) / "six"
    assert train(folder, *SMALL, *OFTEN, "--precision", precision, "--updates", "6", task="tiny:trot") == 0
    return folder


def test_the_same_seed_gives_the_same_run_to_the_bit(six: Path, precision: str, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert train(again, *SMALL, *OFTEN, "--precision", precision, "--updates", "6", task="tiny:trot") == 0
    assert_same_run(six, again)


def test_three_updates_and_three_resumed_are_six(six: Path, precision: str, tmp_path: Path) -> None:
    half = tmp_path / "half"
    assert train(half, *SMALL, *OFTEN, "--precision", precision, "--updates", "3", task="tiny:trot") == 0
    assert resume(half, "--updates", "6") == 0
    assert_same_run(six, half)


def test_episodes_recorded_on_a_gpu_replay(six: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next((six / "panels" / "tiny-v1").glob("selection-update-000003"))
    rows = read_table(folder / "episodes.parquet")
    assert set(rows["device"]) == {"cuda"}
    for number in rows["scenario"]:
        capsys.readouterr()
        arguments = ("replay", six, str(int(number)), "--where", folder.name, "--verify", "--json")
        assert surefoot(*arguments) == 0, capsys.readouterr()
        verdict = json.loads(capsys.readouterr().out)["verify"]
        assert verdict["holds"]
        assert verdict["same_label"]


def test_the_ledger_knows_how_the_process_started_and_how_much_memory_it_took(six: Path) -> None:
    rows = JsonLines(six / "ledger.jsonl").rows()
    assert rows[0]["seconds.startup"] > 0
    assert rows[0]["startup.compiled"] >= 0
    assert all("seconds.startup" not in row for row in rows[1:])
    assert rows[-1]["memory.peak_device_bytes"] > 0
    assert RunFolder.open(six).record.device == "cuda"


STAIRS = Atlas.build([TileId("stairs_up", 6, 0)])


@pytest.mark.parametrize(("name", "atlas"), [("go1", None), ("go1", STAIRS), ("biped", None)])
def test_warps_that_wait_for_each_other_change_nothing(
    name: str, atlas: Atlas | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of a warp have nobody to wait for. The biped's last is half a block, and at the reset most warps
    have left the kernel when the others begin."""
    by_block = []
    for block in (32, engine.BLOCK):
        monkeypatch.setattr(engine, "BLOCK", block)
        robots = StrideEngine(robot(name), EVALUATION_PLANT, 70, atlas=atlas, device="cuda")
        start = standing(robots)
        if atlas is not None:
            start.position[:, :2] = torch.tensor(atlas.origins[0])
            start.position[:, 2] += float(atlas.spawn_height[0])
        begin(robots, start)
        states = run(robots, 20)
        robots.reset(mask_of(robots, [3]), start, Parameters.nominal(70, robots.device))
        by_block.append([*states, *run(robots, 5, first=20)])
    for k, (alone, together) in enumerate(zip(*by_block, strict=True)):
        assert_same(alone, together, f"blocks of one warp and of four (step {k})")
