"""Columns, baselines and engines side by side: what they say can be recomputed, and what fails is said to
fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

import tiny
from surefoot.artifacts import load_npz, read_json, read_table
from surefoot.contract import Panel, SurefootError, load_panel
from surefoot.evaluation import PanelEvaluator, label
from surefoot.evaluation.kept_traces import traces_to_keep
from surefoot.evaluation.passes import _baseline, engines_for
from surefoot.policy.baselines import BASELINES, OpenLoopTrot, RandomActions, baseline
from surefoot.policy.bundle import FixedBatch, PolicyBundle, first_state
from surefoot.robots import robot
from surefoot.runs import RunFolder, checkpoint
from surefoot.statistics import PanelSummary
from surefoot.statistics.columns import agreement, beats_baselines, column_summary, ranks, split_columns
from surefoot.statistics.rows import severity, watched
from surefoot.tasks import task
from surefoot.training.restore import load_policy
from tiny import surefoot

ACTIONS = 12
WALK = task("walk-flat")
PANEL = load_panel(WALK.contract.panel)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def confirmation(tiny_run: Path) -> Path:
    return tiny_run / "panels" / "tiny-v1" / "confirmation"


@pytest.fixture(scope="module")
def rows(confirmation: Path) -> dict[str, np.ndarray]:
    return read_table(confirmation / "episodes.parquet")


@pytest.fixture(scope="module")
def summary(confirmation: Path) -> PanelSummary:
    return read_json(confirmation / "summary.json", PanelSummary)


# ---- what a finished run has


def test_a_run_ends_with_every_column_and_every_baseline(rows: dict[str, np.ndarray]) -> None:
    measured = [(c, e) for c, e, _ in split_columns(rows)]
    assert measured[:2] == [("nominal", "mujoco"), ("nominal", "stride")]
    assert {c for c, _ in measured[2:]} == {
        "noise_x2", "delay_40ms", "delay_120ms", "friction_0.3", "friction_1.5", "payload_+3kg", "push_1.0",
        "push_1.5", "strength_0.8", "dropout_0.1", "bias_x1", "stuck_1", "obs_delay_1",
        "baseline:hold-pose", "baseline:random", "baseline:open-loop-trot",
    }  # fmt: skip
    assert {e for _, e in measured[2:]} == {"stride"}
    assert len(rows["column"]) == 8 * len(measured)


def test_columns_are_the_same_scenarios(rows: dict[str, np.ndarray]) -> None:
    parts = [r for _, _, r in split_columns(rows)]
    for r in parts:
        assert r["key"].tolist() == parts[0]["key"].tolist()
        assert r["command_vx"].tolist() == parts[0]["command_vx"].tolist()
        panel = tiny.tiny_panel()
        seeds = panel.seeds
        for i, k in enumerate(r["scenario"]):
            s = panel.scenarios[k]
            assert (s.family, s.member) == (r["family"][i], r["member"][i])
            key = int(seeds.episode_key(s.family * seeds.envs_per_family + s.member, 0))
            assert r["key"][i] == f"{key:016x}"


def test_the_summary_of_every_column_is_what_its_rows_say(
    rows: dict[str, np.ndarray], summary: PanelSummary
) -> None:
    for kept, (name, engine, r) in zip(summary.columns, split_columns(rows), strict=True):
        assert (kept.column, kept.engine, kept.episodes) == (name, engine, len(r["success"]))
        assert kept.success == pytest.approx(r["success"].mean())
        assert kept.fall_rate == pytest.approx(r["fall"].mean())
        known = np.isfinite(r["velocity_error_mps"])
        if known.any():
            assert kept.velocity_error_mps == pytest.approx(r["velocity_error_mps"][known].mean())
        assert kept.success_low <= kept.success <= kept.success_high
        assert sum(kept.labels.values()) == (~r["success"]).sum()
        assert not kept.holds, "eight episodes of two families show nothing"
    assert summary.transfer == ()


def test_every_failure_has_a_label_and_no_success_has(rows: dict[str, np.ndarray]) -> None:
    assert ((rows["label"] == "") == rows["success"]).all()
    assert ((rows["cause"] == "") == rows["success"]).all()


def test_a_trace_gives_the_label_that_the_pass_gave(confirmation: Path, rows: dict[str, np.ndarray]) -> None:
    kept = np.flatnonzero((rows["trace"] != "") & ~rows["success"])
    assert len(kept) > 10
    for i in kept:
        trace = load_npz(confirmation / "traces" / f"{rows['trace'][i]}.npz")
        assert label(trace) == (rows["label"][i], rows["cause"][i])
        assert str(trace["label"]) == rows["label"][i]


def test_returns_by_term_add_up_to_what_the_floor_lets_through(rows: dict[str, np.ndarray]) -> None:
    terms = np.sum([v for k, v in rows.items() if k.startswith("return.")], 0)
    assert (rows["return"] >= terms - 1e-6).all()


def test_an_untrained_policy_says_that_it_fails_and_beats_nobody(
    summary: PanelSummary, tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summary.beats_baselines is False
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    assert surefoot("evaluate", run, "--perturb", "none") == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"Failing: 0.0% of {summary.episodes} held-out episodes succeed" in output
    assert "It does not beat the baselines" in output
    assert "Sim-to-sim, stride against mujoco" in output
    assert "Shown to hold (success interval from 80% up): nothing." in output


def test_shuffled_weights_and_hold_pose_are_both_reported_as_failing(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    confirmed = checkpoint.load_checkpoint(run / "checkpoints" / "confirmed.safetensors")
    generator = torch.Generator().manual_seed(1)
    mixed = {
        k: v.reshape(-1)[torch.randperm(v.numel(), generator=generator)].reshape(v.shape) * 20
        if k.endswith("weight") and k.startswith("policy.")
        else v
        for k, v in confirmed.tensors.items()
    }
    checkpoint.save_checkpoint(run / "checkpoints" / "shuffled.safetensors", mixed, confirmed.meta)
    for name in (str(run / "checkpoints" / "shuffled.safetensors"), "baseline:hold-pose"):
        capsys.readouterr()
        assert surefoot("evaluate", run, "--checkpoint", name, "--perturb", "none", "--json") == 0
        printed: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert printed["success"] < 0.5
        assert printed["success_low"] < 0.8
        assert sum(printed["labels"].values()) == 8 - round(8 * printed["success"])
        assert printed["beats_baselines"] in (False, None)
    folders = {p.name[:25] for p in (run / "panels" / "tiny-v1").iterdir()}
    assert any(f.startswith("confirmation-shuffled") for f in folders)
    assert any(f.startswith("confirmation-baseline-hol") for f in folders)


def test_a_normaliser_that_was_exchanged_is_refused(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    best = checkpoint.load_checkpoint(run / "checkpoints" / "best.safetensors")
    assert best.meta["normaliser_digest"] == load_policy(RunFolder.open(run), "best")[1].normaliser_digest
    for name in ("policy.mean", "policy.std"):
        changed = best.tensors | {name: best.tensors[name] + 0.1}
        checkpoint.save_checkpoint(run / "checkpoints" / "best.safetensors", changed, best.meta)
        assert surefoot("evaluate", run, "--checkpoint", "best") == 2
        assert "normaliser in checkpoint 'best'" in " ".join(capsys.readouterr().err.split())


def test_another_engine_is_compared_with_the_reference(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    capsys.readouterr()
    arguments = ("--engine", "stride", "--perturb", "none", "--no-baselines", "--json")
    assert surefoot("evaluate", run, *arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["engine"] == "stride"
    (agreed,) = printed["agreement"]
    assert (agreed["kind"], agreed["reference"], agreed["n"]) == ("sim-to-sim", "mujoco", 8)
    assert 0 <= agreed["success_agreement"] <= 1


def test_a_sweep_measures_every_declared_strength(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    capsys.readouterr()
    assert surefoot("evaluate", run, "--perturb", "push", "--sweep", "--no-baselines", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    swept = [c for c in printed["columns"] if c["perturbation"] == "push"]
    assert [c["strength"] for c in swept] == [0.5, 1.0, 1.5, 2.0]
    assert {(c["unit"], tuple(c["trained"])) for c in swept} == {("m/s", (0.0, 0.8))}
    assert printed["beats_baselines"] is None, "not measured is not false"


# ---- pieces


def test_engines_for_auto_are_the_reference_and_the_fastest() -> None:
    assert engines_for("auto", WALK, PANEL, 50.0) == ("mujoco", "stride")
    assert engines_for("mujoco", WALK, PANEL, 50.0) == ("mujoco", "mujoco")
    with pytest.raises(SurefootError, match="did you mean 'stride'"):
        engines_for("strid", WALK, PANEL, 50.0)


@given(st.lists(st.floats(-9, 9).map(lambda x: round(x, 1)), min_size=1, max_size=40))
def test_ranks_are_scipys(values: list[float]) -> None:
    assert ranks(np.array(values)).tolist() == rankdata(values).tolist()


def test_agreement_counts_scenarios_on_which_both_say_the_same(rows: dict[str, np.ndarray]) -> None:
    nominal = {e: r for c, e, r in split_columns(rows) if c == "nominal"}
    itself = agreement(nominal["mujoco"], nominal["mujoco"])
    assert itself.success_agreement == 1.0
    other = dict(nominal["stride"]) | {"success": ~nominal["mujoco"]["success"]}
    assert agreement(nominal["mujoco"], other).success_agreement == 0.0


def test_beating_a_baseline_needs_intervals_apart(rows: dict[str, np.ndarray]) -> None:
    parts = {(c, e): r for c, e, r in split_columns(rows)}

    def of(key: tuple[str, str], success: np.ndarray) -> Any:
        many = {k: np.concatenate([v] * 40) for k, v in parts[key].items()}
        many |= {"success": success, "family": np.arange(len(success))}
        return column_summary(many, WALK.contract)

    n, random = 320, np.random.default_rng(0).random(320)
    base = of(("baseline:hold-pose", "stride"), random < 0.1)
    assert beats_baselines([of(("nominal", "stride"), np.ones(n, bool)), base]) is True
    assert beats_baselines([of(("nominal", "stride"), random < 0.12), base]) is False
    assert beats_baselines([of(("nominal", "stride"), np.ones(n, bool))]) is None
    assert of(("nominal", "stride"), np.ones(n, bool)).holds


def test_traces_are_kept_of_the_worst_the_median_and_any_one_of_each_label() -> None:
    n = 40
    fall = np.arange(n) < 10
    rows = {
        "fall": fall, "lived_s": np.where(fall, 1.0 + np.arange(n), 10.0),
        "label": np.array(["a"] * 10 + ["b"] * 20 + [""] * 10),
        "velocity_error_mps": np.linspace(0.1, 0.9, n), "yaw_error_radps": np.zeros(n),
        "column": np.array(["nominal"] * n), "engine": np.array(["mujoco"] * n),
    }  # fmt: skip
    kept = traces_to_keep(rows, "panel")
    assert kept == traces_to_keep(rows, "panel"), "the random one too"
    assert 0 in kept, "the earliest fall is the worst"
    assert 29 in kept, "the largest error is the worst"
    assert 2 <= sum(k < 10 for k in kept) <= 3
    assert 2 <= sum(10 <= k < 30 for k in kept) <= 3
    assert sum(k >= 30 for k in kept) == 2, "some successes"
    assert set(traces_to_keep(rows, "panel", [35, 36])) == {*kept, 35, 36}
    assert severity(rows)[0] > severity(rows)[9] > severity(rows)[39]


def test_every_evaluation_while_training_keeps_the_same_scenario(tiny_run: Path) -> None:
    """So that one can watch it being learned: the fastest walk straight ahead."""
    folders = sorted((tiny_run / "panels" / "tiny-v1").glob("selection-update-*"))
    rows = [read_table(f / "episodes.parquet") for f in folders]
    assert len(rows) == 2
    place = watched(rows[0])
    assert {int(r["scenario"][watched(r)]) for r in rows} == {int(rows[0]["scenario"][place])}
    assert all(
        (f / "traces" / f"{r['trace'][place]}.npz").is_file() for f, r in zip(folders, rows, strict=True)
    )
    aside = np.abs(rows[0]["command_vy"]) + np.abs(rows[0]["command_wz"])
    straight = aside == aside.min()
    assert straight[place]
    assert rows[0]["command_vx"][place] == rows[0]["command_vx"][straight].max()


# ---- the same bits alone and in a panel


@pytest.mark.parametrize("engine", ["mujoco", "stride"])
def test_an_episode_has_the_same_states_alone_and_in_the_panel(engine: str, tiny_run: Path) -> None:
    policy = load_policy(RunFolder.open(tiny_run), "latest")[1]
    panel = tiny.tiny_panel()
    together = PanelEvaluator(tiny.walk(), panel, "all", 50.0, engine=engine)
    whole = together.run(policy, traces=False).rows
    together.close()
    for only in ([5], [3, 14]):
        alone = PanelEvaluator(tiny.walk(), panel, "all", 50.0, engine=engine, only=only)
        part = alone.run(policy, traces=False).rows
        alone.close()
        assert part["states_digest"].tolist() == whole["states_digest"][only].tolist()
        assert part["scenario"].tolist() == only


def test_a_fixed_batch_computes_each_row_at_its_own_place() -> None:
    class Places:
        """Says where each row stands, and remembers how often it was asked."""

        def start(self, family: torch.Tensor, member: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(family), 1)

        def __call__(self, obs: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            assert len(obs) == len(state) == 256
            return torch.arange(256.0)[:, None] + obs, state + 1

    rows = torch.tensor([300, 2, 255, 256])
    policy = FixedBatch(Places(), rows)
    state = first_state(Places(), rows, rows)
    for k in range(1, 3):
        action, state = policy(torch.zeros(4, 1), state)
        assert action[:, 0].tolist() == [44, 2, 255, 0]
        assert state[:, 0].tolist() == [k] * 4


def test_padding_does_not_change_what_a_policy_does(tiny_run: Path) -> None:
    policy: PolicyBundle = load_policy(RunFolder.open(tiny_run), "latest")[1]
    obs = torch.randn(300, 45, generator=torch.Generator().manual_seed(1))
    padded, _ = FixedBatch(policy, torch.arange(300))(obs, torch.zeros(300, 0))
    assert torch.allclose(padded, policy(obs, torch.zeros(300, 0))[0], atol=1e-5)
    one, _ = FixedBatch(policy, torch.tensor([299]))(obs[299:], torch.zeros(1, 0))
    assert torch.equal(one[0], padded[299])


# ---- baselines


@pytest.fixture(scope="module")
def forward() -> Iterator[PanelEvaluator]:
    """Sixteen flat scenarios that ask for a walk straight on at 0.5 m/s, without pushes, for 4 s."""
    panel = load_panel("walk-flat-v1")
    ahead = [s.model_copy(update={"command": (0.5, 0.0, 0.0), "pushes": ()}) for s in panel.scenarios[:16]]
    chosen: Panel = panel.model_copy(update={"scenarios": tuple(ahead), "episode_s": 4.0})
    made = PanelEvaluator(WALK, chosen, "all", 50.0, engine="stride")
    yield made
    made.close()


def made(name: str, evaluator: PanelEvaluator) -> Any:
    return baseline(name, WALK.contract, WALK.robot, 50.0, evaluator.panel.seeds)


def test_the_trot_goes_where_it_is_told_and_random_does_not(forward: PanelEvaluator) -> None:
    trot = forward.run(made("open-loop-trot", forward), name="open-loop-trot", traces=False).rows
    lasted = ~trot["fall"]
    assert lasted.mean() > 0.5
    assert trot["achieved_vx"][lasted].mean() > 0.15
    held = forward.run(made("baseline:hold-pose", forward), name="hold-pose", traces=False).rows
    assert set(held["label"]) == {"stood_still"}
    thrown = forward.run(made("random", forward), name="random", traces=False).rows
    assert thrown["success"].sum() == 0


def test_random_actions_are_keyed(forward: PanelEvaluator) -> None:
    policy = RandomActions(ACTIONS, forward.panel.seeds)
    family, member = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
    obs, state = torch.zeros(3, 45), policy.start(family, member)
    first, after = policy(obs, state)
    second, _ = policy(obs, after)
    assert torch.equal(policy(obs, state)[0], first)
    assert not torch.equal(first, second)
    assert len({tuple(a.tolist()) for a in first}) == 3
    alone, _ = policy(obs[1:2], state[1:2])
    assert torch.equal(alone[0], first[1]), "whoever else is there"


@pytest.mark.parametrize("name", ["go1", "anymal", "hexapod", "biped"])
def test_the_trot_fits_any_robot_with_legs_that_can_step(name: str) -> None:
    legs = robot(name)
    size = len(legs.joints)
    terms = [
        t.model_copy(update={"size": size}) if t.size == ACTIONS else t for t in WALK.contract.observation
    ]
    action = WALK.contract.action.model_copy(update={"size": size})
    contract = WALK.contract.model_copy(update={"observation": tuple(terms), "action": action})
    trot = OpenLoopTrot(contract, legs, 50.0)
    obs = torch.zeros(2, contract.observation_size)
    obs[0, 6] = 2.0 * 0.5
    action_of, _ = trot(obs, torch.full((2, 1), 6.0))
    assert action_of.shape == (2, size)
    assert action_of[0].abs().max() > 0.1
    assert (action_of[1] == 0).all(), "told to stand, it stands"


def test_a_biped_is_not_compared_with_a_trot() -> None:
    biped = task("walk-biped-flat")
    seeds = load_panel(biped.contract.panel).seeds
    with pytest.raises(SurefootError, match="12 joints for 2 feet"):
        baseline("open-loop-trot", biped.contract, biped.robot, 50.0, seeds)
    assert _baseline("open-loop-trot", biped, 50.0, load_panel(biped.contract.panel)) is None
    for name in ("hold-pose", "random"):
        assert _baseline(name, biped, 50.0, load_panel(biped.contract.panel)) is not None


def test_unknown_baselines_get_a_suggestion(forward: PanelEvaluator) -> None:
    assert BASELINES == ("hold-pose", "random", "open-loop-trot")
    with pytest.raises(SurefootError, match="did you mean 'hold-pose'"):
        made("hold-poes", forward)
