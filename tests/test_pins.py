"""Nothing moves on disk: what runs are compared by, and what they are computed with, is what it was."""

from __future__ import annotations

import json

from pins import PINS, pins


def test_ids_panels_and_printed_kernels_are_what_they_were() -> None:
    """A difference is a change of meaning (of a contract, a panel or the bits of training), not a clean-up;
    where it is meant, `python tests/pins.py` writes it down."""
    known, now = json.loads(PINS.read_text()), pins()
    assert {k: v for k, v in now.items() if known.get(k) != v} == {}
    assert sorted(now) == sorted(known)
