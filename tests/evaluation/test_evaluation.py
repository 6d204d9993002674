"""A panel pass counts the steps taken, says the same twice, and its summary can be recomputed from its
rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from surefoot.artifacts import JsonLines, load_npz, read_json, read_table
from surefoot.contract import Panel, Success, SurefootError, load_panel
from surefoot.env import EpisodeStats
from surefoot.evaluation import PanelEvaluator
from surefoot.evaluation.metrics import GRAVITY, episode_metrics
from surefoot.evaluation.recorder import TrajectoryBuffer
from surefoot.learners import PpoMetrics
from surefoot.policy.bundle import HoldPose, PolicyBundle
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder, without_timing
from surefoot.statistics import PanelResult, PanelSummary, PassInfo, summarise
from surefoot.tasks import task
from surefoot.training import Progress, block_statistics, ledger_row
from surefoot.training.batch import LedgerConstants
from surefoot.training.restore import load_policy, restore_plan

WALK = task("walk-flat")
ACTIONS = WALK.contract.action.size
INSTANT = WALK.contract.model_copy(update={"success": Success()})
"""Judged by instantaneous errors alone, as before there were windows."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a
    )


@dataclass
class Thrash:
    """A policy that throws every robot over."""

    actions: int = ACTIONS

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        action = torch.zeros(len(obs), self.actions)
        action[:, 1::3] = 6.0
        action[:, : self.actions // 2] *= -1
        return action, state


# ---- the pass on a real panel


@pytest.fixture(scope="module")
def evaluator() -> Iterator[PanelEvaluator]:
    plan = tiny.walk(), tiny.tiny_panel()
    made = PanelEvaluator(*plan, "all", 50.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def trained(tiny_run: Path) -> PolicyBundle:
    return load_policy(RunFolder.open(tiny_run), "latest")[1]


@pytest.fixture(scope="module")
def passed(evaluator: PanelEvaluator, trained: PolicyBundle) -> PanelResult:
    return evaluator.run(trained)


@pytest.fixture(scope="module")
def fallen(evaluator: PanelEvaluator) -> PanelResult:
    return evaluator.run(Thrash())


def test_evaluating_twice_gives_the_same_rows(
    evaluator: PanelEvaluator, trained: PolicyBundle, passed: PanelResult, fallen: PanelResult
) -> None:
    again = evaluator.run(trained)  # after another policy was there
    assert equal(again.rows, passed.rows)
    assert again.traces.keys() == passed.traces.keys()
    assert all(equal(again.traces[k], passed.traces[k]) for k in passed.traces)
    assert not equal(passed.rows, fallen.rows)


def test_a_scenario_does_not_depend_on_its_neighbours(evaluator: PanelEvaluator) -> None:
    """The halves, each in a batch of its own, are the rows of the whole."""
    together = evaluator.run(HoldPose(ACTIONS), traces=False)
    assert together.traces == {}
    for half in ("selection", "confirmation"):
        alone = PanelEvaluator(tiny.walk(), tiny.tiny_panel(), half, 50.0)  # type: ignore[arg-type]
        rows = alone.run(HoldPose(ACTIONS), traces=False).rows
        alone.close()
        of_half = together.rows["half"] == half
        assert of_half.sum() == len(rows["half"]) == 8
        assert equal(rows, {k: v[of_half] for k, v in together.rows.items()})


def test_rows_name_their_scenario(passed: PanelResult) -> None:
    for i, s in enumerate(tiny.tiny_panel().scenarios):
        row = {k: v[i] for k, v in passed.rows.items()}
        assert (row["family"], row["member"], row["half"]) == (s.family, s.member, s.half)
        assert (row["command_vx"], row["command_vy"], row["command_wz"]) == s.command
        assert (row["friction"], row["payload_kg"], row["terrain"]) == (
            s.friction,
            s.payload_kg,
            s.terrain.cls,
        )


def test_a_fall_ends_the_episode_and_is_no_success(fallen: PanelResult) -> None:
    rows = fallen.rows
    assert rows["fall"].all()
    assert not rows["success"].any()
    assert set(rows["reason"]) <= {"tilted", "trunk_contact", "sunk"}
    assert (rows["steps"] < 150).all()
    np.testing.assert_allclose(rows["lived_s"], rows["steps"] / 50)
    early = rows["lived_s"] <= 2.0
    assert early.any()
    assert np.isnan(rows["velocity_error_mps"][early]).all(), "no error was measured before the settling time"
    assert fallen.success == 0


def test_an_episode_that_lasts_ends_by_timeout(passed: PanelResult) -> None:
    stood = ~passed.rows["fall"]
    assert stood.any()
    assert set(passed.rows["reason"][stood]) == {"timeout"}
    assert (passed.rows["steps"][stood] == 150).all()


def test_a_trace_is_the_lived_episode(passed: PanelResult, fallen: PanelResult) -> None:
    limit = np.array(WALK.robot.torque_limit_nm)
    for result in (passed, fallen):
        assert result.traces
        for stem, frames in result.traces.items():
            (i,) = np.flatnonzero(result.rows["trace"] == stem)
            assert frames["scenario"] == i
            names = ("position", "quaternion", "joint_position", "torque", "foot_force", "command", "contact")
            assert all(len(frames[k]) == result.rows["steps"][i] for k in names)
            saturated = (np.abs(frames["torque"]) > 0.99 * limit).any(1).mean()
            assert saturated == pytest.approx(result.rows["torque_saturation"][i], abs=1e-6)
            _, x, y, _ = frames["quaternion"].T
            tilt = np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1))
            assert tilt.max() == pytest.approx(result.rows["peak_tilt_rad"][i], abs=1e-3)
            assert (frames["command"] == tiny.tiny_panel().scenarios[i].command).all()


def test_holding_the_pose_succeeds_only_where_standing_was_asked() -> None:
    panel = load_panel("walk-flat-v1")
    standing = [s for s in panel.scenarios if s.command == (0.0, 0.0, 0.0)]
    moving = [s for s in panel.scenarios if s.command != (0.0, 0.0, 0.0)][::60]
    assert len(standing) >= 6
    # 7 s: past the last push
    chosen: Panel = panel.model_copy(update={"scenarios": (*standing, *moving), "episode_s": 7.0})
    evaluator = PanelEvaluator(WALK, chosen, "all", 50.0)
    rows = evaluator.run(HoldPose(ACTIONS), traces=False).rows
    evaluator.close()
    commanded = np.abs([rows[f"command_{k}"] for k in ("vx", "vy", "wz")]).max(0) > 0
    assert not rows["success"][commanded].any()
    assert rows["success"][~commanded].mean() > 0.5
    assert rows["success"].mean() < 0.5
    assert rows["fall"].mean() < 0.2, "it stands through most pushes"


def test_an_empty_half_is_refused() -> None:
    panel = tiny.tiny_panel()
    half = panel.model_copy(update={"scenarios": panel.select("selection")})
    with pytest.raises(SurefootError, match="no scenario in its confirmation half"):
        PanelEvaluator(tiny.walk(), half, "confirmation", 50.0)


# ---- what a row means, by hand


def step(age: int, vx: list[float], reason: list[int], contact: bool = True) -> dict[str, torch.Tensor]:
    """Two robots told to go at 1 m/s that do `vx`, pull 2 N m at 3 rad/s on one joint, and slide one foot."""
    n = 2
    joints = torch.zeros(n, 12)
    torque, speed = joints.clone(), joints.clone()
    torque[:, 0], speed[:, 0] = 2.0, 3.0
    feet = torch.zeros(n, 4, 3)
    feet[:, 0, 0] = 0.5
    robot = SimpleNamespace(
        linear_velocity=torch.tensor([[v, 0.0, 9.0] for v in vx]),
        angular_velocity=torch.tensor([[9.0, 9.0, 0.2]] * n),
        gravity=torch.tensor([[0.0, math.sin(0.1), -math.cos(0.1)]] * n),
        torque=torque,
        joint_velocity=speed,
        joint_position=torch.zeros(n, 12),
        foot_velocity=feet,
        foot_position=torch.zeros(n, 4, 3),
        quaternion=torch.tensor([[1.0, 0.0, 0.0, 0.0]] * n),
        trunk_contact=torch.tensor([False, True]),
    )
    return vars(robot) | {
        "command": torch.tensor([[1.0, 0.0, 0.0]] * n), "age": torch.tensor([age] * n),
        "contact": torch.full((n, 4), contact), "reward": torch.ones(n),
        "terms": torch.tensor([[0.75, 0.5]] * n), "reason": torch.tensor(reason, dtype=torch.uint8),
    }  # fmt: skip


def metrics(env: Any, steps: list[dict[str, torch.Tensor]]) -> dict[str, np.ndarray]:
    buffer = TrajectoryBuffer(len(steps), torch.device("cpu"))
    for frame in steps:
        buffer.add(frame)
    return episode_metrics(buffer.frames(), env)


def test_metrics_are_means_over_the_steps_lived_after_settling() -> None:
    env: Any = SimpleNamespace(
        num_envs=2, device="cpu", dt=0.5, contract=INSTANT, reasons=("alive", "timeout", "tilted"),
        reward_names=("a", "b"),
        const=SimpleNamespace(torque_limit=torch.full((12,), 2.0), mass_kg=10.0),
        parameters=SimpleNamespace(strength=torch.tensor([1.0, 2.0])),
        script=SimpleNamespace(push_step=torch.zeros(2, 0, dtype=torch.int64)),
    )  # fmt: skip
    speeds = [5.0, 5.0, 5.0, 5.0, 0.9, 1.2]  # the first 2 s do not count
    # The second robot falls in the fifth step; what its body does afterwards is not its doing.
    steps = [
        step(k + 1, [v, v if k < 5 else 1000.0], [int(k == 5), 2 if k >= 4 else 0])
        for k, v in enumerate(speeds)
    ]
    rows = metrics(env, steps)
    assert rows["steps"].tolist() == [6, 5]
    assert rows["lived_s"].tolist() == [3.0, 2.5]
    assert rows["velocity_error_mps"] == pytest.approx([(0.1 + 0.2) / 2, 0.1], abs=1e-6)
    assert rows["yaw_error_radps"] == pytest.approx([0.2, 0.2])
    assert rows["achieved_vx"] == pytest.approx([1.05, 0.9])
    assert rows["achieved_ratio"] == pytest.approx([1.05, 0.9])
    assert rows["error_vx"] == pytest.approx([0.15, 0.1], abs=1e-6)
    assert rows["error_vy"].tolist() == [0.0, 0.0]
    assert rows["error_wz"] == pytest.approx(rows["yaw_error_radps"])
    assert rows["return.a"].tolist() == [4.5, 3.75]
    assert rows["return.b"].tolist() == [3.0, 2.5]
    assert rows["work_j"] == pytest.approx([6 * 0.5 * 6, 6 * 0.5 * 5])
    assert rows["distance_m"] == pytest.approx([0.5 * sum(speeds), 0.5 * sum(speeds[:5])])
    assert rows["cost_of_transport"] == pytest.approx(rows["work_j"] / (10.0 * GRAVITY * rows["distance_m"]))
    assert rows["torque_saturation"].tolist() == [1.0, 0.0], "a stronger motor has a higher limit"
    assert rows["trunk_contact"].tolist() == [0.0, 1.0]
    assert rows["foot_slip_m"] == pytest.approx([6 * 0.25, 5 * 0.25])
    assert rows["peak_tilt_rad"] == pytest.approx([0.1, 0.1], abs=1e-3)
    assert rows["return"].tolist() == [6.0, 5.0]
    assert rows["reason"].tolist() == ["timeout", "tilted"]
    assert rows["success"].tolist() == [True, False], "a small error does not make up for a fall"
    assert rows["fall"].tolist() == [False, True]


def test_a_robot_that_stays_has_no_cost_of_transport() -> None:
    env: Any = SimpleNamespace(
        num_envs=2, device="cpu", dt=0.02, contract=WALK.contract, reasons=("alive", "timeout"),
        reward_names=("a", "b"),
        const=SimpleNamespace(torque_limit=torch.full((12,), 9.0), mass_kg=10.0),
        parameters=SimpleNamespace(strength=torch.ones(2)),
        script=SimpleNamespace(push_step=torch.zeros(2, 0, dtype=torch.int64)),
    )  # fmt: skip
    rows = metrics(env, [step(1, [0.0, 0.0], [1, 1], contact=False)])
    assert np.isnan(rows["cost_of_transport"]).all()
    assert np.isnan(rows["velocity_error_mps"]).all()
    assert not rows["success"].any(), "what was not measured is no success"
    assert rows["foot_slip_m"].tolist() == [0, 0], "feet in the air do not slip"


# ---- the summary


def rows_of(success: list[bool], family: list[int], **more: Any) -> dict[str, np.ndarray]:
    n = len(success)
    base: dict[str, Any] = {
        "family": family, "success": success, "fall": np.zeros(n, bool), "reason": np.array(["timeout"] * n),
        "steps": np.full(n, 500), "velocity_error_mps": np.full(n, 0.1), "yaw_error_radps": np.full(n, 0.2),
        "cost_of_transport": np.full(n, 0.5), "torque_saturation": np.zeros(n), "trunk_contact": np.zeros(n),
        "terrain": np.array(["flat"] * n),
    }  # fmt: skip
    return {k: np.asarray(v) for k, v in (base | more).items()}


def summary_of(rows: dict[str, np.ndarray]) -> PanelSummary:
    info = PassInfo(
        panel="p", panel_digest="d", half="all", construct_id="c", training_id="t", checkpoint="k",
        engine="mujoco", seconds=2.0, steps=1000,
    )  # fmt: skip
    return summarise(rows, WALK.contract, info)


def test_the_summary_is_what_the_rows_say() -> None:
    rows = rows_of(
        [True, True, False, True], [0, 0, 1, 1], fall=[False, False, True, False], steps=[500, 500, 100, 500],
        reason=np.array(["timeout", "timeout", "tilted", "timeout"]), torque_saturation=[0.0, 0.0, 0.5, 0.0],
        velocity_error_mps=[0.1, 0.3, np.nan, 0.2], terrain=np.array(["flat", "curbs", "curbs", "flat"]),
    )  # fmt: skip
    s = summary_of(rows)
    assert (s.episodes, s.families, s.success, s.fall_rate) == (4, 2, 0.75, 0.25)
    assert s.success_low < s.success < s.success_high
    assert s.velocity_error_mps == pytest.approx(0.2), (
        "an episode without a measurement is left out, not zero"
    )
    assert s.end_reasons == {"tilted": 1, "timeout": 3}
    assert s.torque_saturation == pytest.approx(50 / 1600), "weighted by the steps taken"
    assert s.success_by_terrain == {"curbs": 0.5, "flat": 1.0}
    assert s.steps_per_second == 500


def test_families_that_succeed_together_count_as_fewer_episodes() -> None:
    alike = summary_of(rows_of([True] * 8 + [False] * 8, np.repeat(np.arange(4), 4).tolist()))
    mixed = summary_of(rows_of([True, False] * 8, np.repeat(np.arange(4), 4).tolist()))
    assert alike.success == mixed.success == 0.5
    assert alike.effective_episodes < mixed.effective_episodes <= 16
    assert alike.success_high - alike.success_low > mixed.success_high - mixed.success_low


def test_safety_is_broken_by_its_own_measure() -> None:
    assert summary_of(rows_of([True] * 4, [0, 0, 1, 1])).safety_held
    assert not summary_of(rows_of([True] * 4, [0, 0, 1, 1], torque_saturation=np.full(4, 0.03))).safety_held


def test_what_nobody_measured_is_null_and_can_be_read_back(tmp_path: Path) -> None:
    nothing = np.full(4, np.nan)
    s = summary_of(rows_of([False] * 4, [0, 0, 1, 1], velocity_error_mps=nothing, cost_of_transport=nothing))
    assert s.velocity_error_mps is None
    assert s.cost_of_transport is None
    from surefoot.artifacts import write_json

    write_json(tmp_path / "summary.json", s)
    assert read_json(tmp_path / "summary.json", PanelSummary) == s


def test_a_saved_panel_can_be_summarised_again(tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    folders = sorted((run.path / "panels" / "tiny-v1").iterdir())
    assert [f.name for f in folders] == ["confirmation", "selection-update-000003", "selection-update-000006"]
    for folder in folders:
        kept = read_json(folder / "summary.json", PanelSummary)
        rows = read_table(folder / "episodes.parquet")
        names = (
            "panel",
            "panel_digest",
            "half",
            "construct_id",
            "training_id",
            "checkpoint",
            "engine",
            "seconds",
            "interface_id",
            "measurement",
            "engines",
        )
        given = {k: getattr(kept, k) for k in names} | {"shifts": {c.column: c.shift for c in kept.columns}}
        steps = round(kept.steps_per_second * kept.seconds)
        assert kept.total_seconds
        assert kept.total_steps_per_second
        total = round(kept.total_steps_per_second * kept.total_seconds)
        info = PassInfo(
            **given, steps=steps, normaliser=kept.normaliser, total_seconds=kept.total_seconds,
            total_steps=total,
        )  # fmt: skip
        again = summarise(rows, run.record.contract, info)
        assert again == kept
        stems = {p.stem for p in (folder / "traces").iterdir()}
        assert stems == set(rows["trace"]) - {""}
        assert load_npz(next((folder / "traces").iterdir()))["position"].shape[1] == 3


def test_the_confirmation_is_that_of_the_confirmed_checkpoint(tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    plan, (confirmed, bundle) = restore_plan(run), load_policy(run, "confirmed")
    confirmation = run.record.confirmation
    assert confirmation is not None
    assert confirmation.checkpoint == confirmed.digest
    assert (confirmation.half, confirmation.panel_digest) == ("confirmation", plan.panel.digest)
    evaluator = PanelEvaluator(plan.task, plan.panel, "confirmation", 50.0)
    rows = evaluator.run(bundle).rows
    evaluator.close()
    table = read_table(run.path / "panels" / "tiny-v1" / "confirmation" / "episodes.parquet")
    nominal = (table["column"] == "nominal") & (table["engine"] == "mujoco")
    kept = {k: v[nominal] for k, v in table.items()}
    assert kept.keys() == rows.keys()
    assert rows["states_digest"].tolist() == kept["states_digest"].tolist(), "to the bit"
    assert rows["success"].tolist() == kept["success"].tolist()
    assert rows["steps"].tolist() == kept["steps"].tolist()


# ---- the ledger


def row_of(block: RolloutBlock, ended: list[dict[str, np.ndarray]] | None = None) -> dict[str, Any]:
    metrics = asdict(PpoMetrics(*[0.0] * 10, 0, 0.0))
    stats = EpisodeStats(ended or [], [], np.array([1, 0, 2]))
    constants = LedgerConstants(
        rollout_shape=(2, 4), reward_names=("a", "b"), reasons=("alive", "timeout", "tilted"), families=2,
        strata=3, control_hz=50.0, epochs=2, gradient_steps=4, buffer_bytes=block.bytes,
    )  # fmt: skip
    seconds = {"environment": 1.5, "inference": 0.3, "learning": 0.2, "evaluation": 4.0}
    progress = Progress(update=3, train_seconds=5.0, evaluation_seconds=1.0)
    return ledger_row(constants, 3, block_statistics(block, 3, 3, 6.0), metrics, stats, seconds, progress)


def test_a_ledger_row_is_what_the_block_holds() -> None:
    block = RolloutBlock.empty(2, 4, 3, 4, 2, 2)
    block.terms[..., 0], block.terms[..., 1] = 2.0, -0.5
    block.reward[:] = 1.5
    block.stratum[:] = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1]])
    block.advantage[:] = torch.tensor([[1.0, 1.0, -3.0, -3.0], [1.0, 1.0, -3.0, 5.0]])
    block.reason[1] = torch.tensor([1, 2, 2, 0])
    block.action[0, 0, 0] = -7.0
    ended = [
        {"steps": np.array([10, 20]), "return": np.array([1.0, 2.0]), "family": np.array([0, 1])},
        {"steps": np.array([60]), "return": np.array([6.0]), "family": np.array([1])},
    ]
    row = row_of(block, ended=ended)
    assert (row["reward.a"], row["reward.b"], row["reward_per_step"]) == (2.0, -0.5, 1.5)
    assert (row["reset.timeout"], row["reset.tilted"]) == (1, 2)
    assert "reset.alive" not in row
    assert (row["episode.count"], row["episode.return"], row["episode.steps"]) == (3, 3.0, 30.0)
    assert row["family.resets"] == [1, 2]
    assert row["stratum.samples"] == [4, 4, 0]
    assert row["advantage.by_stratum"] == [1.0, -1.0, 0.0]
    assert row["advantage.largest"] == 5.0
    assert row["action_clip_share"] == pytest.approx(1 / 16)
    assert (row["samples"], row["robot_seconds"], row["steps_per_second"]) == (24, 0.48, 4.0)
    assert row["memory.buffer_bytes"] == block.bytes


def test_an_update_in_which_no_episode_ended_says_so(tmp_path: Path) -> None:
    row = row_of(RolloutBlock.empty(2, 4, 3, 4, 2, 2))
    assert row["episode.count"] == 0
    assert row["episode.return"] is None
    with JsonLines(tmp_path / "ledger.jsonl") as ledger:
        ledger.append(row)
    assert JsonLines(tmp_path / "ledger.jsonl").rows() == [row]


def test_without_timing_takes_out_the_clock_and_nothing_else() -> None:
    row = row_of(RolloutBlock.empty(2, 4, 3, 4, 2, 2))
    slower = row | {k: v * 2 for k, v in row.items() if "seconds" in k and k != "robot_seconds"}
    slower |= {"steps_per_second": 1.0, "memory.peak_rss_bytes": 1}
    assert without_timing(row) == without_timing(slower)
    gone = row.keys() - without_timing(row).keys()
    assert gone == {
        "seconds.environment", "seconds.inference", "seconds.learning", "seconds.evaluation",
        "train_seconds", "wall_seconds", "steps_per_second", "memory.peak_rss_bytes",
        "memory.peak_device_bytes",
    }  # fmt: skip
