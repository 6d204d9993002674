"""`make release`: wheel and source distribution are built, checked, installed elsewhere and tried.

Nothing is uploaded, and nothing outside `dist/` and a temporary folder is written; a second call does the
same again. It needs a package index (for setuptools, twine and what Surefoot depends on) and some minutes.

    python scripts/release.py            # everything
    python scripts/release.py --build    # only what is built and what is in it
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CONSTRAINTS = ROOT / "constraints.txt"
SDIST_NEEDS = (
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "requirements-proof.txt",
)  # fmt: skip
MOST_BYTES = 2_000_000
"""Of either file. They hold text and panels; more means that a report or a run has slipped in."""
TRAINING = (
    "walk-flat", "--updates", "3", "--envs", "64", "--families", "8", "--hidden", "32", "32",
    "--eval-families", "2", "--tracker", "none", "--perturb", "none", "--quiet",
)  # fmt: skip
"""A real training, too short to learn anything: kernels are compiled, a policy is scored and confirmed."""


class NotReleasable(SystemExit):
    """Ends the script with one sentence on what is wrong."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--build", action="store_true", help="stop after building and checking contents")
    only_build = parser.parse_args().build
    started = time.monotonic()
    with step("build"):
        wheel, sdist = build()
    with step("contents"):
        version = check_contents(wheel, sdist)
    if not only_build:
        # Outside the tree, so that nothing of it can be imported by chance.
        with tempfile.TemporaryDirectory(prefix="surefoot-release-") as folder:
            elsewhere(Path(folder), wheel, sdist, version)
    print(f"\nsurefoot {version}, {revision()}, {time.monotonic() - started:.0f} s")
    for file in (wheel, sdist):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        print(f"  {file.relative_to(ROOT)}  {file.stat().st_size / 1e3:,.0f} kB  sha256 {digest}")


def elsewhere(folder: Path, wheel: Path, sdist: Path, version: str) -> None:
    """Installs the wheel in two fresh environments, whole and for judging alone, and tries it in each."""
    with step("twine check"):
        twine = venv(folder / "twine", "twine>=6")
        run(twine / "python", "-m", "twine", "--no-color", "check", "--strict", wheel, sdist, cwd=folder)

    with step("install the wheel"):
        whole = venv(folder / "whole", "-c", CONSTRAINTS, wheel)
        run(whole / "python", "-m", "pip", "check", cwd=folder)
    with step("surefoot --version, tasks"):
        expect(f"surefoot {version}", run(whole / "surefoot", "--version", cwd=folder))
        expect("walk-flat", run(whole / "surefoot", "tasks", cwd=folder))
        home = run(whole / "python", "-c", "import surefoot; print(surefoot.__file__)", cwd=folder)
        expect(str(folder), home)
    with step("train three updates, evaluate, confirm"):
        run(whole / "surefoot", "train", *TRAINING, "--out", folder / "run", cwd=folder)
    with step("report"):
        run(whole / "surefoot", "report", "run", "--out", "whole.html", cwd=folder)

    with step("install for judging alone"):
        proof = venv(folder / "proof", "-c", CONSTRAINTS, "-r", ROOT / "requirements-proof.txt")
        run(proof / "python", "-m", "pip", "install", *QUIET, "--no-deps", wheel, cwd=folder)
        run(proof / "python", "-c", ABSENT, cwd=folder)
    with step("the same report without torch and simulator"):
        run(proof / "surefoot", "report", "run", "--out", "proof.html", cwd=folder)
        if (folder / "whole.html").read_bytes() != (folder / "proof.html").read_bytes():
            raise NotReleasable("The report differs between the whole installation and the one for judging.")


QUIET = ("--quiet", "--disable-pip-version-check")
ABSENT = """
from importlib.util import find_spec
there = [name for name in ("torch", "mujoco", "warp", "gymnasium") if find_spec(name)]
assert not there, f"{there} came along with requirements-proof.txt"
"""


def build() -> tuple[Path, Path]:
    """Builds both into a clean `dist/`, the wheel from the source distribution; returns wheel and sdist.

    Files are dated by the commit, so that building it again gives the same wheel to the byte."""
    shutil.rmtree(DIST, ignore_errors=True)
    date = git("log", "-1", "--format=%ct")
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, cwd=ROOT, SOURCE_DATE_EPOCH=date)
    wheels, sdists = list(DIST.glob("*.whl")), list(DIST.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        raise NotReleasable(f"Expected one wheel and one sdist in {DIST}, found {sorted(DIST.iterdir())}.")
    return wheels[0], sdists[0]


def check_contents(wheel: Path, sdist: Path) -> str:
    """Refuses a wheel that is not the package as git knows it, or a wrong sdist; returns the version."""
    package = git("ls-files", "src/surefoot").splitlines()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA"))
        version = HeaderParser().parsestr(archive.read(info).decode())["Version"]
    with tarfile.open(sdist) as archive:
        sources = [m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()]
    problems = [*wheel_problems(names, package), *sdist_problems(sources, package)]
    for file in (wheel, sdist):
        if file.stat().st_size > MOST_BYTES:
            problems.append(f"{file.name} has {file.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
        if not file.name.startswith(f"surefoot-{version}"):
            problems.append(f"{file.name} is not named after version {version}")
    if problems:
        raise NotReleasable("Not releasable:\n  " + "\n  ".join(problems))
    return version


def wheel_problems(names: Iterable[str], package: Iterable[str]) -> list[str]:
    """Says what a wheel lacks of the package's files (`src/surefoot/...`) and what it has beside them."""
    inside = {n for n in names if not n.partition("/")[0].endswith(".dist-info")}
    wanted = {p.removeprefix("src/") for p in package}
    return [
        *(f"the wheel lacks {n}; name it in pyproject.toml's package-data" for n in sorted(wanted - inside)),
        *(f"the wheel holds {n}, which git does not know" for n in sorted(inside - wanted)),
    ]


def sdist_problems(names: Iterable[str], package: Iterable[str]) -> list[str]:
    """Says what a source distribution lacks, and which of the repository's other rooms it holds."""
    inside = set(names)
    rooms = ("tests/", "benchmarks/", "docs/", "runs/")
    return [
        *(f"the sdist lacks {n}" for n in sorted({*SDIST_NEEDS, *package} - inside)),
        *(f"the sdist holds {n}" for n in sorted(inside) if n.startswith(rooms) or n.endswith(".html")),
    ]


def venv(folder: Path, *requirements: str | Path) -> Path:
    """Makes an environment with these requirements; returns its folder of programs."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", *QUIET, *requirements, cwd=folder.parent)
    return programs


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Runs a command without this process's Python paths and constraints; returns what it printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "PIP_CONSTRAINT"}
    words = [str(c) for c in command]
    done = subprocess.run(words, cwd=cwd, env=kept | variables, capture_output=True, text=True)
    if done.returncode:
        raise NotReleasable(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(text: str, printed: str) -> None:
    if text not in printed:
        raise NotReleasable(f"Expected '{text}' in what was printed:\n{printed}")


def git(*arguments: str) -> str:
    return run("git", *arguments, cwd=ROOT).strip()


def revision() -> str:
    changed = " and uncommitted changes (not for others)" if git("status", "--porcelain") else ""
    return f"commit {git('rev-parse', '--short', 'HEAD')}{changed}"


@contextmanager
def step(name: str) -> Iterator[None]:
    print(f"{name:<46}", end="", flush=True)
    begun = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - begun:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
