"""Chains and seals that show every change are passed; those that do not are found."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from planted_faults import copy_of, findings, said

from surefoot.artifacts import chain
from surefoot.runs import seal

NAME = "sealed"


def test_a_clean_run_is_sealed(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


def test_links_without_the_row_before_are_found(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, previous = copy_of(tiny_run, tmp_path / "run"), ""
    path = run / "ledger.jsonl"
    rows = [line.partition(b',"chain":')[0] + b"}" for line in path.read_bytes().splitlines()]
    monkeypatch.setattr(chain, "_link", lambda previous, line: hashlib.sha256(line).hexdigest())
    path.write_bytes(b"".join(chain.linked(row, previous) + b"\n" for row in rows))
    assert "[bookkeeping] The link of row 2 of the ledger is not the digest" in said(run, NAME)


def test_a_chain_that_nobody_follows_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.audits.sealed.chain_fault", lambda path, promised: "")
    assert "[bookkeeping] A ledger in which a row is dropped still counts as whole." in said(tiny_run, NAME)


def test_a_seal_of_names_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = {p: seal.sha256(p) for p in tiny_run.rglob("*") if p.is_file()}
    by_name = {p.name: sha for p, sha in sealed.items()}
    monkeypatch.setattr(seal, "sha256", lambda path: by_name[path.name])
    assert "can be changed after it was sealed" in said(tiny_run, NAME)


def test_a_seal_that_leaves_panels_out_is_found(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    whole = seal.read_seal(run)
    assert whole is not None
    kept = tuple(
        e.model_copy(update={"files": {k: v for k, v in e.files.items() if not k.startswith("panels")}})
        for e in whole.entries
    )
    seal.write_json(run / seal.SEAL, seal.Seal(entries=kept))
    assert "The seal leaves out panels/" in said(run, NAME)
