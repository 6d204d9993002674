"""`surefoot verify`: whether a run's files are what they say."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import print_verification, said_chance

if TYPE_CHECKING:
    from surefoot.evidence import Check
    from surefoot.replays import Sample
    from surefoot.runs import RunFolder


@dataclass(frozen=True)
class VerifyCommand:
    """Check a run: seal, ledger, ids, figures and traces against each other, and random rows of every column
    and half against a replay.

    Exit code 0: all holds. 1: something is not what it says. 2: it could not be looked at.

    Example: surefoot verify runs/RUN

    Example (files alone, no simulator needed): surefoot verify runs/RUN --no-replay

    Example (sign it where all holds): surefoot verify runs/RUN --sign key.pem
    """

    run_folder: Positional[str]
    """Run folder."""
    rows: int = 59
    """Rows of each column that are played again; 59 find a forgery of 5% of a column with a chance of 95%."""
    seed: int | None = None
    """Seed of the sample (default: a new one, which is printed)."""
    replay: bool = True
    """Play rows again; --no-replay looks at files alone, where neither torch nor a simulator is needed."""
    key: str | None = None
    """Public ed25519 key (PEM or OpenSSH) that must have signed the run."""
    sign: str | None = None
    """Private ed25519 key to sign the run with where all holds; needs `pip install surefoot[sign]`."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        import secrets

        from surefoot.evidence import outcome, verify_files
        from surefoot.runs import RunFolder, read_seal, sign, timestamp

        run = RunFolder.open(self.run_folder)
        if self.rows < 1:
            raise SurefootError(f"--rows is {self.rows}; use 1 or more.")
        checks = verify_files(run, self.key)
        sample = None
        if self.replay:
            check, sample = _replayed(
                run, self.rows, secrets.randbits(32) if self.seed is None else self.seed
            )
            checks.append(check)
        code = outcome(checks)
        if self.sign is not None:
            if code == 1:
                raise SurefootError(f"{run.path} is not signed: {_why(checks)}")
            sign(run.path, read_seal(run.path), self.sign, timestamp())
        if self.json:
            found = [asdict(c) for c in checks]
            print(
                json.dumps(
                    {"exit": code, "checks": found, "sample": asdict(sample) if sample else None}, indent=2
                )
            )
        else:
            print_verification(console, run.path, checks, sample, signed=self.sign is not None)
        return code


def _why(checks: list[Check]) -> str:
    return " ".join(f"{c.name}: {c.says}" for c in checks if c.outcome == "fails")


def _replayed(run: RunFolder, rows: int, seed: int) -> tuple[Check, Sample | None]:
    from surefoot.evidence import Check, passes_of

    folders = passes_of(run)
    if not folders:
        return Check("replay", "unseen", "Nothing was confirmed."), None
    try:
        from surefoot.replays import replay_sample
    except ImportError as error:
        return Check(
            "replay", "unseen", f"Needs {error.name}, which is not installed; see --no-replay."
        ), None
    try:
        sample = replay_sample(run, folders, rows, seed)
    except SurefootError as error:
        return Check("replay", "unseen", str(error)), None
    return sample_check(sample), sample


def sample_check(sample: Sample) -> Check:
    """Says in a sentence or two what a sample shows."""
    from surefoot.evidence import Check

    wrong = [c for c in sample.columns if not c.holds]
    if wrong:
        c = wrong[0]
        count = c.differing if c.held_to_the_bit else c.disagreeing
        says = f"{c.column} on {c.engine}, {c.half}: {count} of {c.rows} rows are not what a replay gives"
        says += f" ({c.says})" if c.says else ""
        return Check("replay", "fails", f"{says}; {len(wrong)} of {len(sample.columns)} columns differ.")
    if sample.unseen or not sample.columns:
        return Check("replay", "unseen", "Not all columns can be played here. " + " ".join(sample.unseen[:2]))
    return Check("replay", "holds", f"{_rows_said(sample)} {_chances_said(sample)} (seed {sample.seed}).")


def _rows_said(sample: Sample) -> str:
    """Says how many rows repeat to the bit, and what of those that do not."""
    rows, differ, apart = (
        sum(getattr(c, k) for c in sample.columns) for k in ("rows", "differing", "disagreeing")
    )
    says = f"{rows - differ} of {rows} rows of {_columns(len(sample.columns))} are the same to the bit"
    if not differ:
        return f"{says}."
    why = "as rows of a GPU or of another machine do"
    return f"{says}; {differ} differ, {why}, and {apart} of them disagree, within the natural rate."


def _chances_said(sample: Sample) -> str:
    """Says with what chance a forgery is missed, for columns held to the bit and for the others apart."""
    parts = []
    for exact, how in ((True, "held to the bit"), (False, "held to the natural rate")):
        missed = [c.missed for c in sample.columns if c.held_to_the_bit == exact]
        if missed:
            parts.append(f"{said_chance(max(missed))} in the {_columns(len(missed))} {how}")
    return "A forgery of 5% of a column would have been missed with a chance of " + ", ".join(parts)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
