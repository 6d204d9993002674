"""Environments of a clean run have what was drawn for them; a factor that is lost on its way is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.audits import audit_run
from surefoot.compiler import Untraceable
from surefoot.engines.stride.engine import StrideEngine
from surefoot.env.episodes import EpisodeSampler
from surefoot.env.rules import Rules
from surefoot.env.scenarios import TrainSampler
from surefoot.runs import Audit, RunFolder


def audited(run: Path, name: str) -> Audit:
    return audit_run(RunFolder.open(run), only=[name], seed=11)


def causes(audit: Audit) -> set[str]:
    assert not audit.failed
    return {f.cause for f in audit.findings}


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments run uncompiled, so that what is patched in Python takes effect without a compiler."""

    def refuse(env: Any) -> Any:
        raise Untraceable("a test")

    monkeypatch.setattr("surefoot.training.plan.CompiledEnv", refuse)


@pytest.mark.parametrize("name", ["applied-factors", "factor-draws"])
def test_a_clean_run_has_what_was_drawn(tiny_run: Path, name: str) -> None:
    assert audited(tiny_run, name).passed == (name,)


def _with_reset(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    reset = StrideEngine.reset

    def changed(self: StrideEngine, mask: Any, start: Any, parameters: Any) -> None:
        own = parameters.clone()
        change(own)
        reset(self, mask, start, own)

    monkeypatch.setattr(StrideEngine, "reset", changed)


def test_friction_that_a_reset_loses_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_reset(monkeypatch, lambda p: p.friction.fill_(0.8))
    audit = audited(tiny_run, "applied-factors")
    assert causes(audit) == {"physics"}
    assert any("friction" in f.statement and "read back" in f.statement for f in audit.findings)


@pytest.mark.usefixtures("stepwise")
def test_a_factor_that_only_the_read_back_has_is_found_by_its_effect(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_reset(monkeypatch, lambda p: p.kp_scale.mul_(0.97))
    read = StrideEngine.parameters

    def flattering(self: StrideEngine) -> Any:
        out = read(self)
        out.kp_scale = out.kp_scale / 0.97
        return out

    monkeypatch.setattr(StrideEngine, "parameters", flattering)
    audit = audited(tiny_run, "applied-factors")
    assert causes(audit) == {"physics"}
    assert "position gain" in audit.findings[0].statement


@pytest.mark.usefixtures("stepwise")
def test_pushes_a_tenth_too_weak_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Rules.push_velocity
    monkeypatch.setattr(Rules, "push_velocity", lambda self, due: 0.9 * whole(self, due))
    audit = audited(tiny_run, "applied-factors")
    assert causes(audit) == {"randomisation"}
    assert "Pushes" in audit.findings[0].statement


def test_gains_that_are_drawn_together_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = TrainSampler._draw_fixed

    def tied(self: TrainSampler, env: Any) -> Any:
        out = fixed(self, env)
        out.kd_scale = out.kp_scale.clone()
        return out

    monkeypatch.setattr(TrainSampler, "_draw_fixed", tied)
    audit = audited(tiny_run, "factor-draws")
    assert causes(audit) == {"randomisation"}
    assert "kp_scale" in audit.findings[0].statement


@pytest.mark.usefixtures("stepwise")
@pytest.mark.parametrize(
    ("field", "change", "says"),
    [
        ("delay_s", lambda x: 0.6 * x, "never drawn"),
        ("delay_s", lambda x: torch.full_like(x, 0.004), "stays the same"),
        ("push_velocity", lambda x: 1.5 * x, "outside its declared range"),
        ("push_velocity", lambda x: torch.stack([x[..., 0].abs(), x[..., 1]], -1), "direction of push"),
    ],
)
def test_episodes_drawn_otherwise_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, field: str, change: Any, says: str
) -> None:
    compose = EpisodeSampler.compose

    def changed(self: EpisodeSampler, u: Any, facts: Any) -> Any:
        out = compose(self, u, facts)
        object.__setattr__(out, field, change(getattr(out, field)))
        return out

    monkeypatch.setattr(EpisodeSampler, "compose", changed)
    audit = audited(tiny_run, "factor-draws")
    assert causes(audit) == {"randomisation"}
    assert any(says in f.statement for f in audit.findings)


@pytest.mark.usefixtures("stepwise")
def test_noise_without_its_scale_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Rules.add_noise
    monkeypatch.setattr(Rules, "add_noise", lambda self, c, u, scale: add(self, c, u, torch.ones_like(scale)))
    assert causes(audited(tiny_run, "factor-draws")) == {"randomisation"}
