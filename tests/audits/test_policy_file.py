"""The policy that is handed out is the confirmed one; another weight, normaliser, card or choice is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from planted_faults import copy_of, findings, said
from torch import Tensor

from surefoot.policy import PolicyBundle, read_policy
from surefoot.runs import Checkpoint, RunFolder, load_checkpoint, save_checkpoint

NAME = "policy-file"


def confirmed(run: Path) -> Checkpoint:
    return load_checkpoint(run / "checkpoints" / "confirmed.safetensors")


def confirm(run: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Puts another checkpoint in the confirmed one's place, as if the result were stated on it."""
    was = confirmed(run).digest
    now = save_checkpoint(run / "checkpoints" / "confirmed.safetensors", tensors, meta)
    record = run / "run.json"
    record.write_text(record.read_text().replace(was, now))


def test_the_file_of_a_clean_run_is_the_confirmed_policy(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


def test_a_file_of_another_policy_is_found(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    file = read_policy(run / "policy.safetensors")
    tensors = file.tensors | {"0.weight": file.tensors["0.weight"] * 1.001}
    PolicyBundle(file.card, tensors).save(run / "policy.safetensors")
    assert "policy.safetensors has another 0.weight" in said(run, NAME)


def test_a_card_with_other_gains_is_found(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    c = confirmed(run)
    c.meta["policy"]["kp"] = [1.1 * x for x in c.meta["policy"]["kp"]]
    confirm(run, c.tensors, c.meta)
    assert "another kp than the contract" in said(run, NAME)


def test_a_normaliser_by_variance_is_found(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    c = confirmed(run)
    own = c.tensors | {"policy.std": c.tensors["learner.obs_normalizer.var"] + 1e-3}
    confirm(run, own, {k: v for k, v in c.meta.items() if k != "normaliser_digest"})
    assert "[normaliser] The policy's normaliser is not the learner's" in said(run, NAME)


def test_a_policy_that_explores_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PolicyBundle.__call__

    def exploring(self: PolicyBundle, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        action, state = right(self, obs, state)
        return action + 0.05 * action.new_empty(action.shape).normal_(), state

    monkeypatch.setattr(PolicyBundle, "__call__", exploring)
    assert "does two things" in said(tiny_run, NAME)


def test_a_worse_update_that_was_confirmed_is_found(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    folder = RunFolder.open(run)
    update = folder.record.confirmed_update
    assert update is not None
    rows = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    for row in rows:
        if "evaluation.success" in row:
            row["evaluation.success"] = 0.1 if row["update"] == update else 0.9
    (run / "ledger.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = said(run, NAME)
    assert "was confirmed, with 10.0% on the selection half" in text
