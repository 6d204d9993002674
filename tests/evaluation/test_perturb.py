"""A column is the panel's own scenarios under one perturbation, with the same keys; what it shifts is what
the environment then has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import tiny
from surefoot.contract import (
    PERTURBATIONS,
    Column,
    SurefootError,
    columns,
    make_panel,
    trained_range,
)
from surefoot.contract import perturbation as perturbation_module
from surefoot.contract.perturb import perturb, perturb_all
from surefoot.evaluation import PanelEvaluator, code, column_digest
from surefoot.policy.bundle import HoldPose
from surefoot.terrain import tiles
from surefoot.training import robot_plan

FLAT, ROUGH = make_panel("walk-flat-v1"), make_panel("walk-rough-v1")
DEFAULT = (
    "noise_x2", "delay_40ms", "delay_120ms", "friction_0.3", "friction_1.5", "payload_+3kg", "push_1.0",
    "push_1.5", "strength_0.8", "dropout_0.1", "bias_x1", "stuck_1", "obs_delay_1",
)  # fmt: skip


def one(name: str) -> Column:
    (column,) = columns(FLAT, (name,))
    return column


def test_all_is_one_or_two_strengths_of_everything() -> None:
    assert tuple(c.name for c in columns(FLAT, ("all",))) == DEFAULT
    assert tuple(c.name for c in columns(ROUGH, ("all",))) == (*DEFAULT, "curbs_4", "stones_4")
    assert columns(FLAT, ("none",)) == ()


def test_a_sweep_has_the_defaults_among_its_strengths() -> None:
    for p in PERTURBATIONS:
        assert set(p.default) <= set(p.sweep)
        assert p.sweep == tuple(sorted(p.sweep))
    swept = [c.name for c in columns(FLAT, ("all",), sweep=True)]
    assert set(DEFAULT) < set(swept)
    assert len(swept) == len(set(swept))


def test_a_column_can_have_any_strength() -> None:
    assert one("friction_0.25") == Column(name="friction_0.25", perturbation="friction", strength=0.25)
    assert one("delay_60ms").strength == pytest.approx(0.06)
    assert [c.name for c in columns(FLAT, ("push", "push_1.5", "push_0.7"))] == [
        "push_1.0",
        "push_1.5",
        "push_0.7",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fricton", "did you mean 'friction'?"),
        ("friction_0,3", "no perturbation 'friction_0,3'"),
        ("delay_400ms", "from 0 to 0.16 s"),
        ("dropout_1", "from 0 to 0.99"),
        ("stuck_1.5", "not a whole number; use stuck_2"),
        ("obs_delay_30", "from 0 to 20 steps"),
        ("curbs", "does not apply to panel walk-flat-v1"),
    ],
)
def test_what_is_not_a_column_is_refused_by_name(name: str, hint: str) -> None:
    with pytest.raises(SurefootError, match=hint.replace("?", r"\?")):
        columns(FLAT, (name,))


def test_a_perturbed_scenario_differs_in_one_thing() -> None:
    changed = {
        "noise_x2": {"noise_scale"}, "delay_40ms": {"delay_s"}, "friction_0.3": {"friction"},
        "payload_+3kg": {"payload_kg"}, "push_1.5": {"pushes"}, "strength_0.8": {"strength"},
        "dropout_0.1": set(), "bias_x1": set(), "stuck_1": set(), "obs_delay_1": set(),
    }  # fmt: skip
    for name, fields in changed.items():
        for s in FLAT.scenarios[::97]:
            p = perturb(s, one(name))
            assert {k for k in type(s).model_fields if getattr(s, k) != getattr(p, k)} == fields, name
    assert perturb_all(FLAT.scenarios, Column()) == FLAT.scenarios


def test_a_push_keeps_its_direction_and_time() -> None:
    s = FLAT.scenarios[3]
    p = perturb(s, one("push_1.5"))
    before, after = s.pushes[0], p.pushes[0]
    assert np.hypot(after.vx_mps, after.vy_mps) == pytest.approx(1.5)
    assert after.vx_mps * before.vy_mps == pytest.approx(after.vy_mps * before.vx_mps)
    assert after.time_s == before.time_s


def test_terrain_columns_move_every_scenario_to_a_class_nobody_trained_on() -> None:
    (column,) = columns(ROUGH, ("stones_6",))
    moved = perturb_all(ROUGH.scenarios, column)
    assert {(s.terrain.cls, s.terrain.level) for s in moved} == {("stones", 6)}
    assert [s.terrain.key for s in moved] == [s.terrain.key for s in ROUGH.scenarios]


def test_training_ranges_are_the_contracts() -> None:
    contract = tiny.walk().contract
    ranges = {p.name: trained_range(p, contract) for p in PERTURBATIONS}
    assert ranges["friction"] == (0.4, 1.2)
    assert ranges["delay"] == (0.0, 0.02)
    assert ranges["dropout"] is None
    assert ranges["curbs"] is None


def test_a_further_strength_changes_no_measurement_and_no_other_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = robot_plan("tiny:walk")
    before, column = plan.measurement, columns(FLAT, ("noise",))[0]
    shift = column_digest(FLAT, column)
    more = PERTURBATIONS[0].model_copy(
        update={"sweep": (*PERTURBATIONS[0].sweep, 5.0), "default": (2.0, 5.0)}
    )
    monkeypatch.setattr(perturbation_module, "PERTURBATIONS", (more, *PERTURBATIONS[1:]))
    assert len(columns(FLAT, ("noise",))) == 2
    assert robot_plan("tiny:walk").measurement == before
    assert column_digest(FLAT, column) == shift


def test_columns_differ_by_what_they_make_of_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {c.name: column_digest(FLAT, c) for c in columns(FLAT, ("all",))}
    assert len(set(made.values())) == len(made)
    assert column_digest(FLAT, Column()) == ""
    stones = columns(ROUGH, ("stones",))[0]
    ground = column_digest(ROUGH, stones)
    monkeypatch.setattr(
        "surefoot.contract.perturb.at_speed", lambda push, speed: push.model_copy(update={"vx_mps": speed})
    )
    assert {n for n, d in made.items() if column_digest(FLAT, one(n)) != d} == {"push_1.0", "push_1.5"}
    code._class.cache_clear()
    low = tiles.TerrainClass(tiles._BUILT_IN["flat"].make)
    monkeypatch.setattr(tiles, "_BUILT_IN", {**tiles._BUILT_IN, "stones": low})
    assert column_digest(ROUGH, stones) != ground, "another ground under the same scenarios"
    code._class.cache_clear()


# ---- in the environment


@pytest.fixture(scope="module")
def evaluator() -> Iterator[PanelEvaluator]:
    torch.set_num_threads(1)
    made = PanelEvaluator(tiny.walk(), tiny.tiny_panel(), "all", 50.0)
    yield made
    made.close()


def parameters_of(evaluator: PanelEvaluator, name: str) -> dict[str, np.ndarray]:
    (column,) = columns(evaluator.panel, (name,)) or (Column(),)
    env = evaluator.begin(column)
    return {k: v.numpy().copy() for k, v in env.engine.parameters().tensors().items()}


def test_the_engine_simulates_what_the_column_says(evaluator: PanelEvaluator) -> None:
    nominal = parameters_of(evaluator, "none")
    assert np.allclose(parameters_of(evaluator, "friction_0.3")["friction"], 0.3)
    assert np.allclose(parameters_of(evaluator, "delay_120ms")["delay_s"], 0.12)
    assert np.allclose(parameters_of(evaluator, "strength_0.8")["strength"], 0.8)
    heavier = parameters_of(evaluator, "payload_+3kg")["payload_kg"]
    assert np.allclose(heavier, nominal["payload_kg"] + 3.0, atol=1e-5)
    again = parameters_of(evaluator, "none")
    assert all(np.array_equal(again[k], nominal[k]) for k in nominal), "a column leaves nothing behind"


def observations(evaluator: PanelEvaluator, name: str, steps: int = 12) -> torch.Tensor:
    """Returns what robots that hold still observe, [T, N, O]."""
    (column,) = columns(evaluator.panel, (name,)) or (Column(),)
    env = evaluator.begin(column)
    seen = [env.obs.clone()]
    for _ in range(steps):
        seen.append(env.step(torch.zeros(env.num_envs, 12)).obs.clone())
    return torch.stack(seen)


def test_twice_the_noise_is_the_same_noise_doubled(evaluator: PanelEvaluator) -> None:
    none, once, twice = (observations(evaluator, k, 1)[0] for k in ("noise_x0", "none", "noise_x2"))
    assert (once != none).any()
    assert torch.allclose(twice - none, 2 * (once - none), atol=1e-5)


def test_a_lost_reading_is_the_last_one_again(evaluator: PanelEvaluator) -> None:
    plain, dropped = observations(evaluator, "none"), observations(evaluator, "dropout_0.4")
    assert torch.equal(plain[0], dropped[0]), "the first reading always arrives"
    gyro, command, joints = slice(0, 3), slice(6, 9), slice(9, 21)
    fresh, lost = dropped[1:] == plain[1:], dropped[1:] == dropped[:-1]
    assert (fresh | lost).all(), "either this reading, or the one seen before"
    for part in (gyro, joints):  # a sensor's numbers are lost together
        whole = lost[..., part].all(-1)
        assert torch.equal(whole, lost[..., part].any(-1))
        assert 0.3 < whole.float().mean() < 0.5
    assert torch.equal(dropped[..., command], plain[..., command]), "a command is no sensor"
    assert torch.equal(observations(evaluator, "dropout_0.4"), dropped), "keyed: the same every time"


SENSED, TOLD = torch.tensor([*range(6), *range(9, 33)]), torch.tensor([6, 7, 8, *range(33, 45)])
"""What sensors say, and what the controller knows by itself."""


def test_a_bias_is_constant_within_an_episode_and_its_own_in_every_number(evaluator: PanelEvaluator) -> None:
    plain, off = observations(evaluator, "none"), observations(evaluator, "bias_x2")
    inside = (plain.abs() < 9) & (off.abs() < 9)  # what is limited shows less
    apart = torch.where(inside, off - plain, torch.nan)
    first = apart[0]
    assert ((apart - first).abs().nan_to_num() < 1e-5).all(), "robots that hold still feel nothing of it"
    assert (first[:, TOLD].nan_to_num() == 0).all()
    terms = evaluator.task.contract.observation
    width = torch.cat([torch.full((t.size,), t.noise * t.scale) for t in terms])
    share = (first / (2 * width))[:, SENSED]
    assert 0.9 < share.abs().nan_to_num().max() <= 1.0 + 1e-5
    assert abs(float(share.nanmean())) < 0.1
    assert len(set(share.flatten().tolist())) > 0.95 * share.numel(), "no two alike"
    assert torch.equal(observations(evaluator, "bias_x2"), off), "keyed: the same every time"


def test_a_stuck_signal_stays_as_it_was_and_the_others_do_not_care(evaluator: PanelEvaluator) -> None:
    plain, stuck = (observations(evaluator, k, 149) for k in ("none", "stuck_2"))
    differs = stuck != plain
    assert not differs[0].any(), "nothing sticks before it was seen"
    assert not differs[..., TOLD].any()
    signals = differs.any(0).sum(1)
    assert (signals <= 2).all()
    assert signals.float().mean() > 1.5, "but for those that stuck in the last step"
    for n, k in differs.any(0).nonzero().tolist():
        begun = int(differs[:, n, k].nonzero()[0])
        assert (stuck[begun:, n, k] == stuck[begun - 1, n, k]).all()
    onsets = [int(differs[:, n, k].nonzero()[0]) for n, k in differs.any(0).nonzero().tolist()]
    assert min(onsets) < 50 < 100 < max(onsets), "at any time"


def test_late_readings_are_those_of_steps_before(evaluator: PanelEvaluator) -> None:
    plain, late = observations(evaluator, "none"), observations(evaluator, "obs_delay_3")
    assert torch.equal(late[3:, :, SENSED], plain[:-3, :, SENSED])
    assert torch.equal(late[:3, :, SENSED], plain[:1, :, SENSED].expand(3, -1, -1)), (
        "the first is seen until then"
    )
    assert torch.equal(late[..., TOLD], plain[..., TOLD])


def test_every_column_runs_and_names_itself(evaluator: PanelEvaluator) -> None:
    column = one("friction_0.3")
    rows = evaluator.run(HoldPose(12), column, name="hold-pose", traces=False).rows
    assert set(rows["column"]) == {"baseline:hold-pose:friction_0.3"}
    assert set(rows["friction"]) == {0.3}
    assert len(set(rows["key"])) == 16
