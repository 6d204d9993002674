"""An episode replayed from its row is the same to the bit; what was tampered with, or comes from elsewhere,
is refused or found out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

import tiny
from surefoot.artifacts import load_npz, read_table, save_npz, table_meta, write_table
from surefoot.contract import SurefootError
from surefoot.replays import find_recorded, replay_episode
from surefoot.replays.cases import JITTER, CaseSampler, load_case
from surefoot.replays.recorded import verify
from surefoot.replays.rerun import rerun_case
from surefoot.replays.video import PUSHED, _arrows, _colour, _rgba, write_video
from surefoot.robots import make_skeleton
from surefoot.runs import RunFolder, states_digest
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.training.restore import load_policy, restore_plan
from tiny import surefoot

Said = Callable[..., Any]


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def call(*arguments: str | Path, code: int = 0) -> Any:
        capsys.readouterr()
        assert surefoot(*arguments) == code, capsys.readouterr()
        out = capsys.readouterr()
        if code == 2:
            assert out.err.count("\n") == 1, "one sentence"
            return out.err
        return json.loads(out.out) if "--json" in arguments else out.out

    return call


def table_of(run: Path) -> Path:
    return run / "panels" / "tiny-v1" / "confirmation" / "episodes.parquet"


# ---- an episode from its row


@pytest.mark.parametrize("column", ["nominal", "dropout_0.1", "baseline:open-loop-trot"])
def test_every_episode_replays_to_the_bit(run: Path, said: Said, column: str) -> None:
    rows = read_table(table_of(run))
    number = int(rows["scenario"][3])
    out = said("replay", run, str(number), "--perturb", column, "--verify", "--json")
    assert out["verify"]["holds"]
    assert out["verify"]["same_states"]
    at = (rows["scenario"] == number) & (rows["column"] == column)
    assert out["key"] == rows["key"][at][0]
    assert out["label"] == rows["label"][at][0]


def test_episodes_of_a_policy_that_training_has_left_behind_replay_too(run: Path, said: Said) -> None:
    folders = sorted((run / "panels" / "tiny-v1").glob("selection-update-*"))
    assert len(folders) > 1
    number = str(int(read_table(folders[0] / "episodes.parquet")["scenario"][0]))
    out = said("replay", run, number, "--where", folders[0].name, "--verify", "--json")
    assert out["verify"]["holds"]
    assert (folders[0] / "policy.safetensors").stat().st_size < 500_000
    shutil.copy(folders[-1] / "policy.safetensors", folders[0] / "policy.safetensors")
    error = said("replay", run, number, "--where", folders[0].name, code=2)
    assert "is not the policy that the rows beside it are of" in error
    (folders[0] / "policy.safetensors").unlink()
    error = said("replay", run, number, "--where", folders[0].name, code=2)
    assert "cannot be replayed; evaluate a checkpoint that it has" in error


def test_a_trace_is_replayed_by_its_name(run: Path, said: Said) -> None:
    rows = read_table(table_of(run))
    stem = next(t for t in rows["trace"] if t.startswith("friction_0.3"))
    out = said("replay", run, stem, "--verify", "--json")
    assert out["column"] == "friction_0.3"
    assert out["verify"] == {
        "same_states": True, "same_label": True, "largest_difference": 0.0, "differing": [], "holds": True,
    }  # fmt: skip
    assert "Verified: the same states to the bit" in said("replay", run, stem, "--verify")


def test_a_row_that_was_changed_is_found_out(run: Path, said: Said) -> None:
    path = table_of(run)
    rows, meta = read_table(path), table_meta(path)
    number = int(rows["scenario"][0])
    nominal = (rows["scenario"] == number) & (rows["column"] == "nominal") & (rows["engine"] == "mujoco")
    better = rows | {"velocity_error_mps": np.where(nominal, 0.01, rows["velocity_error_mps"])}
    write_table(path, better, PANEL_ROWS_VERSION, meta)
    out = said("replay", run, str(number), "--verify", "--json", code=1)
    assert out["verify"]["differing"] == ["velocity_error_mps"]
    assert out["verify"]["same_states"]
    forged = rows | {"states_digest": np.where(nominal, "0" * 16, rows["states_digest"])}
    write_table(path, forged, PANEL_ROWS_VERSION, meta)
    assert "Not the same" in said("replay", run, str(number), "--verify", code=1)


def test_a_column_nobody_evaluated_can_be_looked_at_and_not_verified(run: Path, said: Said) -> None:
    number = str(read_table(table_of(run))["scenario"][0])
    out = said("replay", run, number, "--perturb", "friction_0.25", "--json")
    assert (out["column"], out["friction"]) == ("friction_0.25", 0.25)
    assert "nothing to verify" in said(
        "replay", run, number, "--perturb", "friction_0.25", "--verify", code=2
    )


def test_a_scenario_that_a_column_was_not_played_on_is_said_to_be_so(run: Path, said: Said) -> None:
    path = table_of(run)
    rows, meta = read_table(path), table_meta(path)
    number = int(rows["scenario"].max())
    kept = (rows["scenario"] != number) | (rows["column"] != "dropout_0.1")
    write_table(path, {k: v[kept] for k, v in rows.items()}, PANEL_ROWS_VERSION, meta)
    error = said("replay", run, str(number), "--perturb", "dropout_0.1", "--verify", code=2)
    assert "was played on" in error
    assert f"and {number} is not among them" in error


def test_what_is_not_there_is_refused_with_what_is(run: Path, said: Said) -> None:
    assert "scenarios go from" in said("replay", run, "9999", code=2)
    assert "has no evaluation 'nope'" in said("replay", run, "4", "--where", "nope", code=2)
    assert "Say one thing to replay" in said("replay", run, code=2)
    assert "no run folder" in said("replay", run / "nowhere", "4", code=2)
    number = str(read_table(table_of(run))["scenario"][0])
    assert "no perturbation 'frost'" in said("replay", run, number, "--perturb", "frost", code=2)
    assert "no engine 'brax'" in said("replay", run, number, "--engine", "brax", code=2)
    assert "in column nominal on mujoco-warp; " in said(
        "replay", run, number, "--engine", "mujoco-warp", code=2
    )
    assert "'gone.npz' does not exist" in said("replay", "--trace", "gone.npz", code=2)
    shutil.rmtree(run / "panels")
    assert f"make one with `surefoot evaluate {run}`" in said("replay", run, number, code=2)


@pytest.mark.parametrize(
    ("way", "options"),
    [
        (("4",), ("--envs 3", "--checkpoint latest", "--split eval")),
        (
            ("--family", "1"),
            ("--where nope", "--verify", "--perturb noise_x2", "--engine mujoco", "--video x.gif"),
        ),
        (
            ("--trace", "x.npz"),
            ("--where nope", "--verify", "--perturb noise_x2", "--split eval", "--video x.gif"),
        ),
    ],
)
def test_an_option_of_another_way_to_replay_is_refused(
    run: Path, said: Said, way: tuple[str, ...], options: tuple[str, ...]
) -> None:
    for option in options:
        refusal = said("replay", run, *way, *option.split(), code=2)
        assert f"{option.split()[0]} is for " in refusal
        assert refusal.endswith("leave it out.\n")


def test_corrupt_and_foreign_tables_are_refused(run: Path, said: Said) -> None:
    path = table_of(run)
    rows, meta = read_table(path), table_meta(path)
    number = str(rows["scenario"][0])
    write_table(path, rows, PANEL_ROWS_VERSION, meta | {"construct_id": "another"})
    assert "different evaluations" in said("replay", run, number, code=2)
    write_table(path, {k: rows[k] for k in ("success", "family")}, 1, meta)
    assert "before episodes could be replayed" in said("replay", run, number, code=2)
    path.write_bytes(b"PAR1 and nothing else")
    assert "not a readable Parquet file" in said("replay", run, number, code=2)


def test_a_checkpoint_that_is_gone_cannot_be_replayed(run: Path, said: Said) -> None:
    number = str(read_table(table_of(run))["scenario"][0])
    for name in ("confirmed", "best", "latest"):
        (run / "checkpoints" / f"{name}.safetensors").unlink()
    assert "no longer has the policy" in said("replay", run, number, code=2)


# ---- a failure in many environments


@pytest.fixture
def trace(run: Path) -> Path:
    rows = read_table(table_of(run))
    stem = next(t for t, ok in zip(rows["trace"], rows["success"], strict=True) if t and not ok)
    return run / "panels" / "tiny-v1" / "confirmation" / "traces" / f"{stem}.npz"


def test_the_first_environment_lives_the_case_as_it_was(run: Path, trace: Path) -> None:
    plan = restore_plan(RunFolder.open(run))
    policy = load_policy(RunFolder.open(run), "confirmed")[1]
    was = load_npz(trace)
    case = load_case(trace, plan.task.robot, plan.task.contract)
    report, played = rerun_case(plan.task, case, policy, plan.panel.seeds, 24, str(was["engine"]))
    assert states_digest(played.trace(0)) == states_digest(was), "to the bit"
    assert report.again
    assert report.recorded_label == played.rows["label"][0]
    assert len(set(played.rows["states_digest"])) > 20, "the others differ"


def test_factors_move_within_their_declared_ranges(run: Path, trace: Path) -> None:
    plan = restore_plan(RunFolder.open(run))
    contract = plan.task.contract
    case = load_case(trace, plan.task.robot, contract)
    moved = CaseSampler(case, 200, contract, plan.panel.seeds, None)._all
    for name, column in (("friction", "friction"), ("payload", "payload_kg"), ("strength", "strength")):
        low, high = contract.factor(name).train
        values = getattr(moved.parameters, column).numpy()
        assert values[0] == np.float32(case.parameters[column]), "the first is the case itself"
        reach = JITTER * (high - low) / 2
        assert np.abs(values - values[0]).max() <= reach + 1e-5
        assert np.abs(values - values[0]).max() > 0.8 * reach
    again = CaseSampler(case, 50, contract, plan.panel.seeds, None)._all
    assert (again.parameters.friction == moved.parameters.friction[:50]).all(), "keyed, whatever the number"
    speed = np.hypot(*moved.script.push_velocity[:, 0].numpy().T)
    assert np.ptp(speed) > 0.1


def test_replay_trace_says_whether_it_is_a_family_or_an_accident(run: Path, trace: Path, said: Said) -> None:
    out = said("replay", "--trace", trace, "--envs", "32", "--json")
    assert out["envs"] == 32
    assert out["failures_low"] <= out["failures"] <= out["failures_high"]
    assert out["verdict"].startswith(("a family of failures", "an accident", "fragile"))
    assert "failed again" in said("replay", "--trace", trace, "--envs", "16")


def test_a_failure_from_elsewhere_is_read_from_json(run: Path, tmp_path: Path, said: Said) -> None:
    path = tmp_path / "field.json"
    case: dict[str, Any] = {
        "schema_version": 2, "control_hz": 50.0, "command": [[0.5, 0.0, 0.0]], "episode_steps": 60,
        "push_step": [20], "push_velocity": [[0.0, 3.0]], "friction": 0.5, "label": "fell over",
    }  # fmt: skip
    path.write_text(json.dumps(case))
    assert "does not lie in a run folder" in said("replay", "--trace", path, code=2)
    out = said("replay", run, "--trace", path, "--envs", "16", "--json")
    assert out["recorded_label"] == "fell over"
    for change, hint in (
        ({"command": [[0.5, 0.0]]}, "'command' is missing or not of shape any x 3"),
        ({"push_velocity": [[0.0, 1.0], [1.0, 0.0]]}, "'push_velocity'"),
        ({"start_joint_position": [0.0] * 3}, "'start_joint_position'"),
        ({"friction": "wet"}, "'friction'"),
        ({"schema_version": 99}, "upgrade Surefoot"),
        ({"schema_version": None}, "'schema_version' is missing"),
        ({"control_hz": 40.0}, "recorded at 40 Hz"),
        ({"terrain_class": "lava"}, "lava"),
        ({"episode_steps": 0}, "no command or no control rate"),
    ):
        path.write_text(json.dumps(case | change))
        assert hint in said("replay", run, "--trace", path, "--envs", "2", code=2)
    path.write_text("[1, 2")
    assert "is not JSON" in said("replay", run, "--trace", path, code=2)
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 but no more")
    assert "not a readable npz" in said("replay", run, "--trace", tmp_path / "noise.npz", code=2)
    refusal = said("replay", run, "--trace", run / "policy.safetensors", code=2)
    assert "not a readable npz (not a zip file)" in refusal
    assert "pickle" not in refusal, "how to open one is no advice"


def test_a_trace_that_lacks_its_commands_is_refused(run: Path, trace: Path, said: Said) -> None:
    kept = load_npz(trace)
    del kept["command"]
    save_npz(trace, **kept)
    assert "'command' is missing" in said("replay", "--trace", trace, code=2)


# ---- a seed family


def test_a_training_family_is_rerun_as_it_was_drawn(run: Path, said: Said) -> None:
    record = RunFolder.open(run).record
    rows = said("replay", run, "--family", "2", "--split", "train", "--envs", "2", "--json")
    assert [r["member"] for r in rows] == [0, 1]
    assert len({r["friction"] for r in rows}) == 1, "a family shares its floor"
    assert {r["family"] for r in rows} == {2}
    assert all(r["stratum"] in record.strata for r in rows)
    assert "no training family 99" in said("replay", run, "--family", "99", code=2)
    assert "--envs is 0" in said("replay", run, "--family", "0", "--envs", "0", code=2)


def test_a_panel_family_is_rerun_on_the_reference(run: Path, said: Said) -> None:
    rows = said("replay", run, "--family", "1", "--split", "eval", "--envs", "2", "--json")
    kept = read_table(table_of(run))
    nominal = (kept["column"] == "nominal") & (kept["engine"] == "mujoco")
    recorded = dict(zip(kept["key"][nominal], kept["states_digest"][nominal], strict=True))
    assert [r["engine"] for r in rows] == ["mujoco"] * 2
    assert all(recorded[r["key"]] == r["states_digest"] for r in rows), "in another batch, to the bit"
    assert "Family 1 of split eval" in said("replay", run, "--family", "1", "--split", "eval", "--envs", "1")
    assert "no family 77" in said("replay", run, "--family", "77", "--split", "eval", code=2)


# ---- video


def test_a_video_is_written_where_gl_is_and_refused_in_a_sentence_where_not(
    run: Path, trace: Path, tmp_path: Path
) -> None:
    pytest.importorskip("PIL")
    short = load_npz(trace)
    for k in ("position", "quaternion", "joint_position"):
        short[k] = short[k][:4]
    said = ""
    try:
        assert write_video(short, tiny.walk().robot, tmp_path / "film.gif") == 2
    except SurefootError as error:
        said = str(error)
    assert "no offscreen GL" in said or (tmp_path / "film.gif").read_bytes()[:3] == b"GIF"


def test_a_video_shows_whole_legs_colours_and_the_push(trace: Path) -> None:
    """The rods that hold the legs are among what is drawn, front and trunk have their colours, and a push
    adds an arrow."""
    robot = tiny.walk().robot
    model = robot.compile()
    skeleton = make_skeleton(robot)
    added = _colour(model, skeleton)
    assert sum(s.kind == "capsule" for s in added) == 12, "three rods per leg"
    assert [s.part for s in added][-1] == "nose"
    colours = {tuple(np.round(model.geom_rgba[g], 2)) for g in range(model.ngeom)}
    assert len(colours) >= 4
    scene, at = mujoco.MjvScene(model, 100), np.zeros(3)
    frames = dict(load_npz(trace)) | {"push_step": np.array([2]), "push_velocity": np.array([[0.5, 0.5]])}
    drawn = []
    for t in (1, 2):
        scene.ngeom = 0
        _arrows(scene, frames, t, at, 0.3)
        drawn.append([tuple(np.round(scene.geoms[g].rgba, 2)) for g in range(scene.ngeom)])
    red = tuple(np.round(_rgba(PUSHED), 2))
    assert [red in d for d in drawn] == [False, True]


def test_a_video_of_an_unknown_kind_is_refused(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match=r"\.mp4, \.gif, \.webp, \.png, not 'film.avi'"):
        write_video(load_npz(trace), tiny.walk().robot, tmp_path / "film.avi")


def test_an_episode_of_a_gpu_is_held_to_a_tolerance() -> None:
    """Another rounding is fine for a second, another outcome or label is not."""
    steps = np.zeros((80, 3), np.float32)
    states = {"position": steps, "quaternion": np.zeros((80, 4)), "joint_position": np.zeros((80, 12))}
    kept = states | {"control_hz": np.asarray(50.0)}
    row = {"device": "cuda", "success": True, "fall": False, "reason": "timeout", "key": "a", "label": ""}
    off = {k: v + 1e-3 for k, v in states.items()}
    late = {k: np.concatenate([v[:50], v[50:] + 1.0]) for k, v in states.items()}
    recorded = SimpleNamespace(row=row, trace=lambda: kept)
    for trace, near in ((off, True), (late, True), ({k: v + 1.0 for k, v in states.items()}, False)):
        verdict = verify(recorded, dict(row), trace)  # type: ignore[arg-type]
        assert verdict.holds == near
    fell = verify(recorded, row | {"success": False, "label": "slipped"}, off)  # type: ignore[arg-type]
    assert not fell.holds
    assert fell.differing == ("success",)


# ---- as functions


def test_a_replay_is_returned_and_nothing_is_printed(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    folder, number = RunFolder.open(run), str(read_table(table_of(run))["scenario"][3])
    recorded = find_recorded(folder, number, "confirmation")
    replayed = replay_episode(folder, number, check=True)
    assert replayed.verdict is not None
    assert replayed.verdict.holds
    assert replayed.frames is None
    assert replayed.panel == recorded.summary.panel
    assert replayed.row["states_digest"] == recorded.row["states_digest"]
    assert len(replayed.trace["position"]) == int(recorded.row["steps"])
    assert replay_episode(folder, number).verdict is None, "nobody asked"
    assert capfd.readouterr() == ("", "")
