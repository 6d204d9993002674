"""With what, when, where and at which commit each JSON beside this was measured: a line under every table.

A JSON that says its date, machine or commit is taken at its word. What an older one does not say comes from
git, which knows the commit that recorded it; `tables.py` writes that down in provenance.json, since a copy
without history must say it too.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from document import HERE, measured

FILE = "provenance.json"
SCRIPTS = {
    "learning_h200.json": "learning.py --device cuda",
    "learning_h200_unpriced.json": "learning.py --device cuda",
    "learners_h200.json": "surefoot compare-learners --device cuda",
    "recipes_cpu.json": "recipes.py",
    "mutants.json": "mutants/run.py",
    "audits_clean.json": "mutants/clean.py",
}
"""What made a JSON that is not named after its script."""


def script(name: str) -> str:
    if name.startswith("studies/"):
        return "surefoot study"
    made = SCRIPTS.get(name, name.removesuffix(".json") + ".py")
    return made if made.startswith("surefoot") else f"benchmarks/{made}"


def digest(name: str) -> str:
    return hashlib.sha256((HERE / name).read_bytes()).hexdigest()


def known() -> dict[str, dict[str, str]]:
    path = HERE / FILE
    return json.loads(path.read_text()) if path.exists() else {}


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def recorded(name: str) -> dict[str, str]:
    """Who recorded the file as it is now; a file that no commit has yet is refused."""
    commit, date = git("log", "-1", "--format=%h %as", "--", name).split() or ("", "")
    if not commit or git("status", "--porcelain", "--", name):
        raise SystemExit(f"benchmarks/{name} is not in a commit as it is; commit it, then make the tables.")
    first = git("show", f"{commit}:src/surefoot/__init__.py")
    version = next(x.split('"')[1] for x in first.splitlines() if x.startswith("__version__"))
    return {"sha256": digest(name), "commit": commit, "date": date, "version": version}


def update(names: set[str]) -> None:
    """Writes down anew what has changed since the last time."""
    old = known()
    new = {n: old[n] if old.get(n, {}).get("sha256") == digest(n) else recorded(n) for n in sorted(names)}
    if new != old:
        (HERE / FILE).write_text(json.dumps(new, indent=1) + "\n")


def stale(names: set[str]) -> list[str]:
    return [n for n in sorted(names) if known().get(n, {}).get("sha256") != digest(n)]


def machines(found: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Machine, date and commit, as far as the JSON says; several where its rows were measured at several."""
    if isinstance(found, list):
        found = found[0]
    commit = found.get("commit")
    if "machines" in found:
        for name, entry in found["machines"].items():
            if not entry.get("quick"):
                yield name, entry.get("date"), entry.get("commit", commit)
        return
    date, about = found.get("date") or found.get("created"), found.get("machine")
    cores = found.get("versions", {}).get("cores")
    if isinstance(about, dict):
        count = f"{about['cores']} cores of an " if "cores" in about else ""
        name = about.get("gpu") or f"{count}{about['cpu']}"
    elif found.get("device") == "cuda" or "-gpu-" in found.get("versions", {}).get("platform", ""):
        name = "one GPU (its name was not recorded)"
    elif cores:
        name = f"{cores} cores (the processor was not recorded)"
    else:
        name = "machine not recorded"
    rows = [r for r in found.get("rows", ()) if isinstance(r, dict) and "commit" in r]
    yield from dict.fromkeys((name, r["date"], r["commit"]) for r in rows) or [(name, date, commit)]


def caption(sources: tuple[str, ...]) -> str:
    """Script, machine, date and commit of every file that a table is made from."""
    lines = []
    for name in sources:
        last = known()[name]
        for where, date, commit in machines(measured(name)):
            when = f"measured on {date[:10]}" if date else f"recorded on {last['date']}"
            code = (
                f"at {commit[:7]}" if commit else f"version {last['version']}, recorded in {last['commit']}"
            )
            lines.append(f"`{script(name)}`: {where.replace('(R)', '')}, {when}, {code}")
    return "*" + "; ".join(dict.fromkeys(lines)) + ".*"


def overview(names: set[str]) -> list[list[str]]:
    """A row per file and machine."""
    rows = []
    for name in sorted(names):
        last = known()[name]
        for where, date, commit in machines(measured(name)):
            code = commit[:7] if commit else f"{last['commit']} (recorded)"
            row = [f"[{name}](../../benchmarks/{name})", f"`{script(name)}`", where.replace("(R)", "")]
            rows.append([*row, (date or last["date"])[:10], last["version"], code])
    return rows
