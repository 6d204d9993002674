"""Where forgeries of a run are caught: small real runs are forged in every way of forgery_edits.py, and made
by code that was tampered with; then page, compare, promote and verify look at them.

    python benchmarks/forgeries.py           # writes forgeries.json
    python benchmarks/forgeries.py --quick --out FILE     # no replays

Every forger also makes the seal anew (column "seal" says what it shows where he does not), but has not the
key that the honest run was signed with. The tasks are those of tests/tiny.py: runs of a second, whose rows
are all played again, so that what a replay catches does not depend on luck here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from document import HERE, Block, measured, table
from forgery_edits import FORGERIES
from surefoot.artifacts import write_json
from surefoot.contract import SurefootError
from surefoot.evidence import Refusal, compare_runs, passes_of, promote_run, verify_files
from surefoot.runs import RunFolder, read_seal, sign
from surefoot.runs.seal import SEAL, seal_files

TESTS = HERE.parent / "tests"
NEVER = """
import tiny, torch
from surefoot.robots import robot
from surefoot.tasks import velocity_task
GIVEN = {"robot": robot("go1"), "panel": str(tiny.PANEL), "recipe": tiny.RECIPE}
def never(v, **_): return torch.zeros_like(v.robot.position[:, 0]) > 0.5
def seen(v): return v.robot.linear_velocity
ENDS = dict.fromkeys(("tilted", "trunk_contact", "sunk"), never)
def ends(): return velocity_task("tiny-walk", terms=ENDS, **GIVEN)
def sees(): return velocity_task("tiny-walk", terms={"angular_velocity": seen}, **GIVEN)
"""
"""A package that replaces terminations, or an observation, under their names."""
METRICS = """
import surefoot.evaluation.episodes as e
honest = e.episode_metrics
def halved(frames, env):
    rows = honest(frames, env)
    for k in [k for k in rows if k.startswith("error_") or k in ("velocity_error_mps", "yaw_error_radps")]:
        rows[k] = rows[k] / 2
    return rows
e.episode_metrics = halved
from surefoot.cli import main
main()
"""
"""The command line with metric code that halves errors."""


def train(task: str, out: Path, seed: int = 1, code: str = "from surefoot.cli import main; main()") -> Path:
    words = ["train", task, "--updates", "6", "--seed", str(seed), "--out", str(out), "--quiet"]
    path = os.pathsep.join([*sys.path, str(TESTS), str(out.parent)])
    subprocess.run(
        [sys.executable, "-c", code, *words, "--tracker", "none"],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return out


def caught(run: Path, honest: Path, key: Path | None, replay: bool) -> dict[str, str]:
    """Says by what a forged run is caught, and how; a place that does not catch it is left out."""
    found = {}
    for place, look in (("page", _page), ("compare", _compare), ("promote", _promote)):
        says = look(run, honest)
        if says:
            found[place] = says
    for check in verify_files(RunFolder.open(run), key):
        if check.outcome == "fails" and check.name != "seal":
            found["signature" if check.name == "signature" else "files"] = f"{check.name}: {check.says}"
    if replay:
        says = _replay(run)
        if says:
            found["replay"] = says
    return found


def _refused(look: Callable[[], str]) -> str:
    try:
        return look()
    except SurefootError as error:
        return str(error)


def _page(run: Path, honest: Path) -> str:
    from surefoot.reporting import read_run, verdict

    return _refused(lambda: " ".join(verdict(read_run(run)).faults))


def _compare(run: Path, honest: Path) -> str:
    def look() -> str:
        outcome = compare_runs([honest, run])[0].outcome
        if isinstance(outcome, Refusal):
            return ", ".join(f.name for f in outcome.differs)
        code = [f.name for f in outcome.interface if f.name.endswith("source")]
        return f"{SHOWN}{', '.join(code)}" if code else ""

    return _refused(look)


def _promote(run: Path, honest: Path) -> str:
    def look() -> str:
        made = promote_run(run, honest)
        names = [f.name for f in made.differs]
        wrong = [r for r in made.reasons if "contradicts itself" in r]
        return ", ".join([*names, *wrong]) if made.outcome == "INVALID" else ""

    return _refused(look)


def _replay(run: Path) -> str:
    from surefoot.cli.verify import sample_check
    from surefoot.replays import replay_sample

    def look() -> str:
        folder = RunFolder.open(run)
        check = sample_check(replay_sample(folder, passes_of(folder), seed=1))
        return "" if check.outcome == "holds" else check.says

    return _refused(look)


def keys(folder: Path) -> tuple[Path, Path]:
    """A key pair, as files."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = folder / "key.pem", folder / "key.pub"
    kinds = s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()
    private.write_bytes(key.private_bytes(*kinds))
    public.write_bytes(key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def reseal(run: Path) -> None:
    """What a forger without a key can do: a seal over the forged files, as if it had always been so."""
    (run / SEAL).unlink(missing_ok=True)
    seal_files(run, "confirmed", "2026-01-01T00:00:00+00:00")


def look_at(name: str, run: Path, honest: Path, key: Path | None, replay: bool) -> dict[str, Any]:
    seal = [c for c in verify_files(RunFolder.open(run)) if c.name == "seal" and c.outcome == "fails"]
    reseal(run)
    found = caught(run, honest, key, replay)
    return {"forgery": name, "caught": found | ({"seal": seal[0].says} if seal else {})}


def forged(work: Path, replay: bool) -> list[dict[str, Any]]:
    honest, other = train("tiny:walk", work / "honest"), train("tiny:walk", work / "other", seed=2)
    private, public = keys(work)
    sign(honest, read_seal(honest), private, "2026-01-01T00:00:00+00:00")
    cases = []
    for forgery in FORGERIES:
        run = work / "forged"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(honest, run)
        forgery.edit(run, other)
        cases.append(look_at(forgery.name, run, honest, public, replay))
    clean = caught(honest, other, public, replay)
    if clean:
        raise SystemExit(f"An honest run is called forged: {clean}")
    (work / "never.py").write_text(NEVER)
    made = (
        ("terminations replaced by 'never' in an extension", "never:ends", None),
        ("an observation replaced by the true velocity", "never:sees", None),
        ("metric code that halves errors", "tiny:walk", METRICS),
    )
    for name, task, code in made:
        run = train(task, work / name.split()[0], 1, *([code] if code else []))
        cases.append(look_at(name, run, honest, None, replay))
    return cases


SHOWN = "shown as treatment, not refused: "
"""A policy may see something else; that it does is said."""
PLACES = {
    "page": "page",
    "compare": "compare",
    "promote": "promote",
    "files": "verify, files",
    "replay": "verify, replay",
    "signature": "verify, key",
    "seal": "seal, if not made anew",
}


def forgeries() -> str:
    rows = []
    for case in measured("forgeries.json")["cases"]:
        said = case["caught"]
        words = (
            "shown" if said.get(k, "").startswith(SHOWN) else "caught" if k in said else "-" for k in PLACES
        )
        rows.append([case["forgery"], *words])
    return table(["forgery", *PLACES.values()], rows)


def natural() -> str:
    rows = []
    for c in measured("natural_rate.json")["cases"]:
        most = f"{100 * c['high']:.1f}%"
        rows.append([c["task"], c["what"], str(c["rows"]), f"{100 * c['rate']:.1f}%", most, str(c["exact"])])
    head = ["task", "played again with", "rows", "disagree", "at most", "the same to the bit"]
    return table(head, rows)


def _word(says: str) -> str:
    return "shown" if says.startswith(SHOWN) else "caught" if says else "-"


BLOCKS = {
    "forgeries": Block(forgeries, ("forgeries.json",)),
    "natural rate": Block(natural, ("natural_rate.json",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="play nothing again")
    parser.add_argument("--out", default=str(HERE / "forgeries.json"))
    args = parser.parse_args()
    sys.path.append(str(TESTS))  # where the task is
    with tempfile.TemporaryDirectory() as work:
        sys.path.append(work)
        cases = forged(Path(work), replay=not args.quick)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(args.out, {"schema_version": 1, "date": now, "quick": args.quick, "cases": cases})
    for case in cases:
        print(case["forgery"], "->", ", ".join(case["caught"]) or "NOT CAUGHT")


if __name__ == "__main__":
    main()
