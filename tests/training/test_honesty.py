"""A batch that only looks large is caught: synchronised resets, copied environments, missing strata."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.artifacts import JsonLines
from surefoot.contract import SeedPlan
from surefoot.env.scenarios import Scenarios, TrainSampler, content
from surefoot.rollout import RolloutBlock
from surefoot.statistics import effective_n, icc
from surefoot.training import EVERY as HONESTY_EVERY
from surefoot.training import honesty_figures, honesty_row
from surefoot.training.honesty import ages, duplicates, family_worth, lockstep, sync_index, two_way_coverage
from surefoot.training.plan_makers import make_plan
from tiny import surefoot

T, N = 24, 512
LIFE = 1000


def ages_and_ends(start: Tensor, steps: int = T, life: int = LIFE) -> tuple[Tensor, Tensor]:
    """Ages [T, N] and ends [T, N] of environments that all live `life` steps, one step at a time."""
    age, seen, done = start.clone(), [], []
    for _ in range(steps):
        seen.append(age)
        done.append(age + 1 >= life)
        age = torch.where(done[-1], 0, age + 1)
    return torch.stack(seen), torch.stack(done)


def staggered() -> Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, LIFE, N))


# ---- ages and resets


@pytest.mark.parametrize("life", [5, 11, LIFE])
def test_ages_are_rebuilt_from_their_start_and_the_ends(life: int) -> None:
    start = staggered() % life
    age, done = ages_and_ends(start, life=life)
    assert torch.equal(ages(start, done), age)


@pytest.mark.parametrize("first", [0, 400, LIFE - 10])
def test_synchronised_ages_have_index_one(first: int) -> None:
    age, _ = ages_and_ends(torch.full((N,), first))
    assert float(sync_index(age)) == 1.0


def test_staggered_ages_have_index_about_zero() -> None:
    assert float(sync_index(ages_and_ends(staggered())[0])) < 0.01


def test_the_index_grows_as_ages_draw_together() -> None:
    spread = [0, 5, 30, 300]
    indices = [float(sync_index(ages_and_ends(torch.arange(N) % (s + 1))[0])) for s in spread]
    assert indices == sorted(indices, reverse=True)
    assert indices[0] == 1.0


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("first", [0, 400, LIFE - 10])
def test_lockstep_is_the_share_that_is_in_step(share: float, first: int) -> None:
    in_step = torch.arange(N) < round(share * N)
    age, _ = ages_and_ends(torch.where(in_step, first, staggered()))
    assert float(lockstep(age)) == pytest.approx(share, abs=0.01)
    assert (float(lockstep(age)) == 1.0) == (share == 1.0 or in_step.all())


def test_staggered_ages_are_hardly_in_lockstep() -> None:
    assert float(lockstep(ages_and_ends(staggered())[0])) < 0.01
    assert float(lockstep(torch.arange(6).expand(3, -1))) == 0.0


def block(done: Tensor | None = None) -> RolloutBlock:
    made = RolloutBlock.empty(T, N, 3, 3, 2, 2)
    rng = torch.Generator().manual_seed(2)
    made.returns[:] = torch.randn(T, N, generator=rng)
    made.advantage[:] = torch.randn(T, N, generator=rng)
    made.stratum[:] = torch.arange(N) % 12
    if done is not None:
        made.truncated[:] = done
    return made


@pytest.fixture(scope="module")
def scenarios() -> Scenarios:
    return drawn(SeedPlan(root=1, families=32, envs=N))


def drawn(seeds: SeedPlan) -> Scenarios:
    task = make_plan("walk-flat").task
    sampler = TrainSampler(task.contract, task.robot, seeds, 50.0, None, torch.device("cpu"))
    rows = torch.arange(seeds.envs)
    return sampler.draw(rows, torch.zeros_like(rows), torch.zeros_like(rows))


def look(scenarios: Scenarios, start: Tensor, made: RolloutBlock | None = None) -> dict[str, float]:
    made = made or block(ages_and_ends(start)[1])
    now = content(scenarios.script, scenarios.parameters)
    return honesty_row(honesty_figures(made, start, now, families=32, strata=(3, 2, 2)), made.returns.numel())


def test_resets_that_come_at_once_have_a_large_fano_factor(scenarios: Scenarios) -> None:
    together = look(scenarios, torch.full((N,), LIFE - 10))
    apart = look(scenarios, staggered())
    assert together["honesty.reset_fano"] > 100
    assert apart["honesty.reset_fano"] < 2.5
    assert (together["honesty.reset_sync_index"], apart["honesty.reset_sync_index"]) == (
        1.0,
        pytest.approx(0, abs=0.01),
    )


def test_two_clumps_escape_the_index_but_not_the_fano_factor(scenarios: Scenarios) -> None:
    clumps = look(scenarios, torch.where(torch.arange(N) % 2 == 0, LIFE - 5, LIFE - 15))
    assert clumps["honesty.reset_fano"] > 100


def test_without_a_reset_the_fano_factor_is_not_measured(scenarios: Scenarios) -> None:
    assert look(scenarios, torch.zeros(N, dtype=torch.int64))["honesty.reset_fano"] is None


# ---- copies


def test_training_scenarios_are_all_different(scenarios: Scenarios) -> None:
    assert int(duplicates(content(scenarios.script, scenarios.parameters))) == 0


def test_environments_that_share_a_seed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: every environment asks for the draws of environment 0, under its own name."""
    honest = TrainSampler._draw

    def lying(self: TrainSampler, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        same = honest(self, torch.zeros_like(rows), episode, level)
        own = honest(self, rows, episode, level).script
        return dataclasses.replace(
            same, script=dataclasses.replace(same.script, family=own.family, member=own.member)
        )

    monkeypatch.setattr(TrainSampler, "_draw", lying)
    copies = drawn(SeedPlan(root=1, families=32, envs=N))
    assert len(torch.unique(copies.script.family)) == 32, "their labels differ"
    assert look(copies, staggered())["honesty.duplicate_scenarios"] == N - 1


def test_each_copy_is_counted_once(scenarios: Scenarios) -> None:
    rows = torch.arange(N)
    rows[10:15] = 3
    some = scenarios.take(rows)
    assert int(duplicates(content(some.script, some.parameters))) == 5


# ---- what a block is worth


def test_worth_of_families_agrees_with_the_statistics_of_episodes() -> None:
    rng = np.random.default_rng(3)
    family = np.repeat(np.arange(32), N // 32)
    values = rng.normal(size=(T, N)) + 0.7 * rng.normal(size=32)[family]
    got_icc, got_n = family_worth(torch.from_numpy(values), 32)
    flat, labels = values.ravel(), np.tile(family, T)
    assert float(got_icc) == pytest.approx(icc(flat, labels))
    assert float(got_n) == pytest.approx(effective_n(flat, labels))


def test_families_of_copies_are_worth_their_number(scenarios: Scenarios) -> None:
    made = block()
    made.returns[:] = (torch.arange(N) // 16).float()
    row = look(scenarios, staggered(), made)
    assert row["honesty.n"] == T * N
    assert row["honesty.n_eff_return"] == pytest.approx(32)
    assert row["honesty.icc_return"] == pytest.approx(1)
    assert row["honesty.n_eff_advantage"] > 0.3 * T * N


def test_one_family_is_worth_one_sample() -> None:
    assert float(family_worth(torch.randn(T, N), 1)[1]) == pytest.approx(1)


# ---- strata


def test_coverage_counts_pairs_of_cells() -> None:
    shape = (3, 2, 2)
    full = torch.ones(12, dtype=torch.int64)
    assert float(two_way_coverage(full, shape)) == 1
    one = torch.zeros(12, dtype=torch.int64)
    one[0] = 5
    assert float(two_way_coverage(one, shape)) == pytest.approx(3 / (6 + 6 + 4))
    # half of the cells, and still every pair: (i + j + k) even
    even = torch.tensor([(i + j + k) % 2 == 0 for i in range(3) for j in range(2) for k in range(2)])
    assert float(two_way_coverage(even.long(), shape)) == 1
    assert float(two_way_coverage(torch.tensor([1, 0, 0, 2]), (4,))) == 0.5


def test_returns_by_stratum_are_plain_means(scenarios: Scenarios) -> None:
    made = block()
    made.stratum[:] = torch.arange(N) % 11  # stratum 11 stays empty
    row = look(scenarios, staggered(), made)
    for k in range(11):
        expected = float(made.returns[made.stratum == k].double().mean())
        assert row[f"stratum_return.{k}"] == pytest.approx(expected)
    assert row["stratum_return.11"] is None


# ---- in a run


def test_every_tenth_row_of_the_ledger_has_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    limits = ("--updates", str(HONESTY_EVERY), "--evaluate-every", "100")
    assert surefoot("train", "tiny:walk", *limits, "--out", run, "--quiet", "--tracker", "none") == 0
    rows = JsonLines(run / "ledger.jsonl").rows()
    assert all(not any(k.startswith("honesty.") for k in r) for r in rows[:-1])
    last = rows[-1]
    assert last["honesty.duplicate_scenarios"] == 0
    assert last["honesty.n"] == 16 * 16
    assert 4 <= last["honesty.n_eff_return"] <= 256
    assert 0 <= last["honesty.reset_sync_index"] < 0.5
    assert 0 < last["honesty.coverage_two_way"] <= 1
    counted = [k for k, c in enumerate(last["stratum.samples"]) if c]
    assert [k for k in range(36) if last[f"stratum_return.{k}"] is not None] == counted
