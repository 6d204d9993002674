"""The planted bugs: each a file `bugs/NAME.toml` with an edit of the source, its sizes, and the class of
cause that was written down before any detector was measured.

    what        one sentence on what the bug does
    room        where in the source it is
    class       the cause that an audit should name; `also`: neighbouring classes that are no mistake either
    path        which path the edit is live on: training (compiled or not), panels, files
    task        the task that shows it, where it is not trot-flat
    sizes       what `@SIZE@` in the new text is: full, medium, weakest; without any it has one, full
    held_back   whether nobody may look at it while detectors are made: a third, by a digest of the name
    edit        file (within src/surefoot), the old text, which is there exactly once, and the new one
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
SIZES = ("full", "medium", "weakest")
CLASSES = {
    "batch": "samples are fewer, older or more alike than they seem",
    "randomisation": "training does not draw what the contract says",
    "reset": "episodes do not begin as they should",
    "termination": "episodes end elsewhere, or for another reason, than the contract says",
    "observation": "the policy sees something else",
    "action": "something else is done than the policy asks for",
    "physics": "an engine simulates other parameters than it is given",
    "reward": "something else is paid for",
    "learning": "the update is not that of the recipe",
    "normaliser": "observations are normalised in two ways, or by the wrong figures",
    "held-out": "what is held out is trained, chosen or confirmed on twice",
    "panel-plant": "a panel is played in another way than it says",
    "perturbation": "a column is not what its name says",
    "metric": "an episode's figures are not what happened",
    "statistics": "what is said of many episodes does not follow from them",
    "bookkeeping": "files say something else than what was done",
}
"""The classes of cause, and what goes wrong in each."""


@dataclass(frozen=True)
class Edit:
    """Replaces a text that a file has exactly once."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Returns the file's `text` with the edit made."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has the text {text.count(self.old)} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Bug:
    """One planted bug."""

    name: str
    what: str
    room: str
    cause: str
    path: str
    edits: tuple[Edit, ...]
    also: tuple[str, ...] = ()
    task: str = "trot-flat"
    sizes: dict[str, str] = field(default_factory=lambda: {"full": ""})
    held_back: bool = False

    def edits_at(self, size: str) -> tuple[Edit, ...]:
        """Returns the edits of a size."""
        return tuple(Edit(e.file, e.old, e.new.replace("@SIZE@", self.sizes[size])) for e in self.edits)

    def edited(self, size: str, root: Path = SRC) -> dict[Path, str]:
        """Returns the files of the source folder `root` that the bug changes, with their new texts."""
        texts: dict[Path, str] = {}
        for edit in self.edits_at(size):
            path = root / "surefoot" / edit.file
            texts[path] = edit.applied(texts.get(path) or path.read_text())
        return texts


def to_hold_back(name: str) -> bool:
    """Tells by a digest of its name whether a bug is held back: one in three is."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 3 == 0


def read(path: Path) -> Bug:
    """Reads one bug."""
    fields = tomllib.loads(path.read_text())
    edits = tuple(Edit(**e) for e in fields.pop("edit"))
    cause, also = fields.pop("class"), tuple(fields.pop("also", ()))
    return Bug(name=path.stem, cause=cause, also=also, edits=edits, **fields)


def corpus() -> dict[str, Bug]:
    """Returns all bugs by name."""
    return {path.stem: read(path) for path in sorted((HERE / "bugs").glob("*.toml"))}


def plant(bug: Bug | None, size: str, root: Path) -> Path:
    """Copies the source, with what of it is compiled, to the folder `root` with `bug` in it (None: as it is);
    returns `root`."""
    shutil.copytree(SRC, root, ignore=shutil.ignore_patterns("*.egg-info"))
    for path, text in (bug.edited(size, root) if bug else {}).items():
        ast.parse(text, str(path))
        path.write_text(text)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
    return root
