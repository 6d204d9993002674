"""Where things are in the checkout."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SOURCE = ROOT / "src"
BENCHMARKS = ROOT / "benchmarks"
GOLDEN = TESTS / "golden"
