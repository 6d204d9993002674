"""Dealt cells come from tables of one round, and a row depends on its own draws alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from surefoot.contract import SeedPlan, TaskContract
from surefoot.env.episodes import EpisodeSampler
from surefoot.keyed.torch import Keyed
from surefoot.tasks import task

CPU = torch.device("cpu")
SEEDS = SeedPlan(root=3, families=6, envs=54)
WALK = task("walk-flat")


def unstratified() -> TaskContract:
    return WALK.contract.model_copy(update={"stratify": ("friction", "payload")})


def for_life() -> TaskContract:
    """Every environment keeps its command modes."""
    factors = tuple(
        f.model_copy(update={"level": "env"}) if f.name == "command" else f for f in WALK.contract.factors
    )
    return WALK.contract.model_copy(update={"factors": factors})


CONTRACTS = {
    "flat": WALK.contract,
    "rough": task("walk-rough").contract,
    "modes not stratified": unstratified(),
    "modes for life": for_life(),
}


def composition(contract: TaskContract) -> EpisodeSampler:
    return EpisodeSampler(contract, WALK.robot, SEEDS, 50.0, CPU)


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("episode", [0, 1, 11, 12345])
def test_tables_hold_what_is_dealt(name: str, episode: int) -> None:
    contract = CONTRACTS[name]
    c, strata, env = composition(contract), contract.strata, np.arange(SEEDS.envs)
    number = np.full_like(env, episode)

    def deal(of: str, segment: int) -> np.ndarray:
        return strata.deal(of, SEEDS.family_of(env), SEEDS.member_of(env), env, number, segment)

    facts = c.facts(torch.from_numpy(env), torch.from_numpy(number), torch.zeros(len(env), dtype=torch.int64))
    modes = c.modes.table[facts.mode].numpy()
    stratum = (c.cells.table[facts.cell] + facts.stratum).numpy()
    for k in range(c.segments):
        cells = {n: deal(n, k if n == "command" else 0) for n in strata.names}
        assert (stratum[:, k] == strata.join(cells)).all()
        if c.classes is not None:
            at = c.classes.index(torch.from_numpy(env), torch.from_numpy(number))
            assert (c.classes.table[at, 0].numpy() == cells["terrain"]).all()
        if "command" in strata.names:
            assert (modes[:, k] == cells["command"]).all()
        else:
            deck = contract.factor("command").deck
            want = [deck[(e + 7 * episode + 3 * k) % len(deck)] for e in env.tolist()]
            assert modes[:, k].tolist() == want


def test_a_row_depends_on_its_own_draws_alone() -> None:
    c, keyed = composition(WALK.contract), Keyed(SEEDS)
    env = torch.arange(SEEDS.envs)
    episode = torch.full_like(env, 4)
    drawn = keyed.uniforms_many(keyed.family, keyed.member, episode, [(*d, 0) for d in c.draws.values()])
    u = c.named(drawn)
    whole = c.compose(u, c.facts(env, episode, env * 0))
    some = torch.tensor([50, 3, 17])
    part = c.compose({k: x[some] for k, x in u.items()}, c.facts(some, episode[some], some * 0))
    for field in dataclasses.fields(whole):
        assert torch.equal(getattr(whole, field.name)[some], getattr(part, field.name)), field.name


def test_commands_are_those_of_their_modes_definition() -> None:
    """Mode by mode, in plain numbers, for a range that does not have zero in its middle: a draw of zero
    stands still, and forwards and backwards reach as far as either end."""
    moved = {"vx": (-0.5, 1.5), "vy": (-0.25, 0.75), "wz": (-2.0, 1.0)}
    factors = tuple(f.model_copy(update={"train": moved.get(f.name, f.train)}) for f in WALK.contract.factors)
    contract = WALK.contract.model_copy(update={"factors": factors})
    c = composition(contract)
    u = torch.rand(40, c.segments, 4, generator=torch.Generator().manual_seed(0))
    zero = c.named([torch.zeros(40, count) for _, count in c.draws.values()])
    env = torch.arange(40)
    facts = c.facts(env, env, env * 0)
    got = c.compose(zero | {"command": u}, facts).commands
    names = contract.factor("command").categories
    for row in range(40):
        for segment in range(c.segments):
            x, y, z, which = u[row, segment].tolist()
            unit = [min(max(contract.command.gain * (2 * v - 1), -1.0), 1.0) for v in (x, y, z)]
            mode = names[int(c.modes.table[facts.mode[row], segment])]
            if mode in ("forward", "backward"):
                unit[0] = abs(unit[0]) if mode == "forward" else -abs(unit[0])
            keep = {"stand": (), "axis": (int(3 * which),)}.get(mode, (0, 1, 2))
            want = [
                v * (high if v > 0 else -low) if k in keep else 0.0
                for k, (v, (low, high)) in enumerate(zip(unit, moved.values(), strict=True))
            ]
            assert got[row, segment].tolist() == pytest.approx(want, abs=1e-6), mode
