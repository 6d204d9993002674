"""A run on disk: run.json, ledger.jsonl, episodes/, checkpoints/, panels/. Readable after a crash at any
moment."""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from pydantic import ValidationError

import surefoot
from surefoot.artifacts import (
    JsonLines,
    atomic_write,
    check_folder,
    clean_temporaries,
    new_folder,
    read_json,
    save_npz,
    write_json,
    write_table,
)
from surefoot.compute import cores, cpu_name
from surefoot.contract import (
    Accounting,
    Disjointness,
    ExternalContract,
    Frozen,
    Plant,
    Recipe,
    SeedPlan,
    SurefootError,
    TaskContract,
)
from surefoot.runs import checkpoint
from surefoot.runs.confirming import STAGED, finish_confirmation, put_in_place
from surefoot.runs.lock import locked
from surefoot.runs.seal import seal_files, sealed_names
from surefoot.statistics import PanelResult, PanelSummary

if TYPE_CHECKING:
    from torch import Tensor

EPISODES_VERSION = 1
PANEL_ROWS_VERSION = 2
CHECKPOINTS = ("confirmed", "best", "latest")
"""The checkpoints of a run, by name."""
STATES_VERSION = 2
"""The version of traces and of the states that failures are replayed from."""
RESERVE, RESERVE_BYTES = ".reserve", 1 << 18
"""Room on the disk that a run holds while it works, so that a full one can still be written down."""


class LibraryRecord(Frozen):
    """Says how a run was trained by another learner than Surefoot's own."""

    name: str
    version: str | None
    timeouts: Literal["stock", "corrected"]
    """How episodes that run out of time were treated: as the library does, or put right by the adapter."""
    stock_timeouts: str
    settings: dict[str, Any] = {}
    """The settings that the library was given, by its own names."""
    differences: tuple[str, ...] = ()
    """Where it departs from the recipe."""


class Closing(Frozen):
    """Says how a run is judged when training has ended."""

    perturb: tuple[str, ...] = ("all",)
    """Columns of the closing evaluation beside the nominal one."""
    baselines: bool = True
    """Whether baselines run on the same panel; they do not where nothing is perturbed."""
    sequential: bool = False
    """Whether the confirmation half is looked at as it grows, until the verdict is decided."""


class RunRecord(Frozen):
    """Holds run.json: what was frozen before the run, and what came out of it."""

    schema_version: int = 2
    id: str
    created: str
    status: Literal["running", "interrupted", "unconfirmed", "finished", "failed"]
    """`unconfirmed`: training has ended, and its result was not confirmed."""
    task: str
    contract: TaskContract | ExternalContract
    contract_digest: str
    recipe: Recipe
    accounting: Accounting
    seeds: SeedPlan
    seed_set: dict[str, str]
    """Family -> 64-bit key of its first environment's first episode; with `seeds` it names every draw of the
    run. Outside: the seed that the family's environment was given."""
    panel: str
    panel_digest: str
    panel_seeds: SeedPlan
    disjointness: Disjointness
    strata: tuple[str, ...]
    training_plant: Plant | None
    """None: physics is an outside simulator's."""
    evaluation_plant: Plant | None
    construct_id: str
    """The measurement id; before there was one, the construct id."""
    training_id: str
    engine: str
    learner: str
    device: str
    versions: dict[str, str]
    limits: dict[str, float | int | None] = {}
    """When training was last told to stop: updates, minutes, until. Empty in runs of older versions."""
    closing: Closing | None = None
    """How it was last told to be judged, which holds when it goes on; None in runs of older versions."""
    figures: dict[str, float | int | None] = {}
    confirmation: PanelSummary | None = None
    """The result: of the confirmed checkpoint. It stays until there is another (see `caveat`)."""
    confirmed_update: int | None = None
    """The update that the confirmed checkpoint is of."""
    confirmed_after: int | None = None
    """The update that training stood at when it was confirmed."""
    library: LibraryRecord | None = None
    """None where the learner is Surefoot's own."""
    error: str | None = None
    """Why a failed run failed."""
    tracker_error: str | None = None
    """Why a tracker shows only part of the run: it failed, and the run went on. The ledger has it all."""
    measurement_id: str = ""
    """Digest of `measurement`. Empty in runs of before there was one, as the fields after it."""
    interface_id: str = ""
    """Digest of `interface`."""
    measurement: dict[str, Any] = {}
    """How results are measured, by name: what must match before they may be compared."""
    interface: dict[str, Any] = {}
    """What connects the policy with its robot, by name."""
    manifest: str = ""
    """Digest of the environment manifest that the run was held to; empty where there was none."""
    collection: str = ""
    """How a fleet collected, where its updates did not wait for all actors or its observations were rounded;
    empty where one process is the same."""
    fleet: dict[str, Any] = {}
    """What a fleet was that collected last: actors, codec and bytes of a transition, where the policy acted,
    and what was measured to choose that. Empty without one."""


def waited(collection: str) -> bool:
    """Returns whether every update waited for all actors, by what a record says of the collection."""
    return not collection.startswith("asynchronous")


def versions() -> dict[str, str]:
    """Returns the versions of everything that a figure may depend on."""
    names = ("torch", "mujoco", "numpy", "gymnasium", "pydantic")
    own = {"surefoot": surefoot.__version__} | {n: version(n) for n in names}
    # The learner adds up shards, one per core: runs repeat to the bit on as many cores.
    own |= {"cores": str(cores()), "cpu": cpu_name()}
    return own | {"python": platform.python_version(), "platform": platform.platform()}


class Saveable(Protocol):
    """Can be kept as a file beside the rows that it made: a policy bundle."""

    def save(self, path: Path) -> None: ...


class RunFolder:
    """Reads and writes the files of one run. What a killed process left half-written is repaired."""

    def __init__(self, path: str | Path, record: RunRecord) -> None:
        self.path, self.record = Path(path), record
        self.ledger = JsonLines(self.path / "ledger.jsonl", sync_every=25, chained=True)
        self._columns: list[Mapping[str, np.ndarray]] = []

    # ---- opening

    @classmethod
    def create(
        cls, path: str | Path, record: RunRecord, need_bytes: int, numbered: bool = False
    ) -> RunFolder:
        """Makes a new folder with run.json; refused where there is one, or too little room on the disk. A
        name that nobody chose is `numbered` where it is taken: two runs may begin in one second."""
        folder = Path(path)
        if folder.exists() and not numbered:
            resume = f", or continue it with --resume {folder}" if (folder / "run.json").is_file() else ""
            raise SurefootError(f"{folder} already exists; choose another --out{resume}.")
        check_folder(folder.parent, need_bytes)
        if numbered:
            folder = _numbered(folder)
            record = record.model_copy(update={"id": folder.name})
        else:
            new_folder(folder)
        for sub in ("checkpoints", "episodes", "panels"):
            (folder / sub).mkdir()
        run = cls(folder, record)
        run.write_record()
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Opens a run that is there; refused where it is not one."""
        folder = Path(path)
        if not folder.is_dir():
            raise SurefootError(
                f"There is no run folder {folder}; give the path that `surefoot train` printed."
            )
        if not (folder / "run.json").is_file():
            raise SurefootError(
                f"{folder} is not a run folder: it has no run.json; "
                "give the path that `surefoot train` printed."
            )
        finish_confirmation(folder)
        return cls(folder, read_json(folder / "run.json", RunRecord))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keeps other processes from training or confirming this run within the block, and some room on the
        disk for how it ends."""
        with locked(self.path):
            try:
                atomic_write(self.path / RESERVE, os.urandom(RESERVE_BYTES))  # not to be compressed away
                yield
            finally:
                (self.path / RESERVE).unlink(missing_ok=True)

    def rewind(self, update: int) -> None:
        """Drops what was recorded after `update`: the resumed run records it again, the same. What was
        confirmed stays."""
        clean_temporaries(self.path)
        self.unstage()
        for sub in ("checkpoints", "episodes"):
            clean_temporaries(self.path / sub)
        self.ledger.keep(lambda row: int(row["update"]) <= update)
        for part in sorted((self.path / "episodes").glob("*.parquet")):
            if int(part.stem) > update:
                part.unlink()

    # ---- writing

    def write_record(self, **changes: Any) -> None:
        """Writes run.json, with `changes` made to the record."""
        self.record = self._changed(changes)
        try:
            write_json(self.path / "run.json", self.record)
        except SurefootError:  # the disk is full
            if not (self.path / RESERVE).exists():
                raise
            (self.path / RESERVE).unlink()
            write_json(self.path / "run.json", self.record)

    def _changed(self, changes: Mapping[str, Any]) -> RunRecord:
        version = {"schema_version": RunRecord.model_fields["schema_version"].default}
        try:
            return RunRecord.model_validate(
                self.record.model_copy(update={**changes, **version}).model_dump()
            )
        except ValidationError as error:
            raise AssertionError(error) from error

    def add_episodes(self, ended: Sequence[Mapping[str, np.ndarray]], update: int) -> None:
        """Keeps the rows of episodes that ended, until the next flush."""
        self._columns += [{**e, "update": np.full(len(e["steps"]), update)} for e in ended]

    def flush_episodes(self, update: int) -> None:
        """Writes the episodes since the last flush as one part of the episode table."""
        if not self._columns:
            return
        columns = {k: np.concatenate([c[k] for c in self._columns]) for k in self._columns[0]}
        write_table(
            self.path / "episodes" / f"{update:08d}.parquet",
            columns,
            EPISODES_VERSION,
            {"run": self.record.id},
        )
        self._columns = []

    def save_checkpoint(self, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], *, best: bool) -> None:
        """Saves `latest`, and the same as `best` where it is; what was recorded before is on disk first."""
        update = int(meta["update"])
        self.flush_episodes(update)
        self.ledger.sync()
        # best before latest: a kill in between leaves a latest from which the same best is made again.
        for name in ("best", "latest") if best else ("latest",):
            checkpoint.save_checkpoint(self.checkpoint_path(name), tensors, meta)

    def confirm(self, name: str) -> None:
        """Keeps checkpoint `name` as the one that the run's result is stated on."""
        atomic_write(self.checkpoint_path("confirmed"), self.checkpoint_path(name).read_bytes())

    def stage(self, name: str) -> Path:
        """Begins a confirmation of checkpoint `name`: returns the folder, laid out as a run's, that it is
        made in. What was confirmed before stays in its place until `commit`."""
        staged = self.path / STAGED
        self.unstage()
        confirmed = staged / "checkpoints" / "confirmed.safetensors"
        atomic_write(confirmed, self.checkpoint_path(name).read_bytes())
        return staged

    def unstage(self) -> None:
        """Removes a confirmation that was not made to its end."""
        shutil.rmtree(self.path / STAGED, ignore_errors=True)

    def commit(self, **changes: Any) -> None:
        """Puts what was staged in its place, with `changes` made to the record. A kill at any point leaves
        all of what was confirmed before, or all of the new: the staged set is renamed when it is whole, and
        whoever opens the run next finishes what was begun."""
        record = self._changed(changes)
        write_json(self.path / STAGED / "run.json", record)
        put_in_place(self.path)
        self.record = record
        self.seal("confirmed")

    def seal(self, reason: str, added: Sequence[Path] | None = None) -> None:
        """Seals all files of the run as they are, or those that were `added`: a folder stands for its files.
        A run that was never sealed is not sealed by what is added to it."""
        names = None if added is None else [n for p in added for n in sealed_names(self.path, p)]
        seal_files(self.path, reason, timestamp(), names)

    def save_failures(self, failures: Sequence[Mapping[str, np.ndarray]], update: int) -> None:
        """Keeps states before failures of the simulator, so that those can be replayed."""
        for k, rows in enumerate(failures):
            (self.path / "failures").mkdir(exist_ok=True)
            save_npz(self.path / "failures" / f"{update:08d}-{k}.npz", schema_version=STATES_VERSION, **rows)

    def save_panel(
        self, where: str | Path, summary: PanelSummary, result: PanelResult, policy: Saveable | None = None
    ) -> Path:
        """Writes one evaluation: summary, rows and traces, to the folder `where`, or to what is called so
        among the run's panels. `policy` is kept beside them (some 100 kB) where no checkpoint of the run will
        hold it: its episodes can then be replayed as well."""
        folder = where if isinstance(where, Path) else self.path / "panels" / summary.panel / where
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "traces").mkdir(exist_ok=True)
        for old in (folder / "traces").glob("*.npz"):
            if old.stem not in result.traces:
                old.unlink()
        for stem, frames in result.traces.items():
            save_npz(folder / "traces" / f"{stem}.npz", schema_version=STATES_VERSION, **frames)
        write_table(
            folder / "episodes.parquet",
            result.rows,
            PANEL_ROWS_VERSION,
            {
                "construct_id": summary.construct_id,
                "measurement_id": summary.measurement_id,
                "interface_id": summary.interface_id,
                "checkpoint": summary.checkpoint,
            },
        )
        if policy is not None:
            policy.save(folder / "policy.safetensors")
        write_json(folder / "summary.json", summary)
        return folder

    # ---- reading

    def checkpoint_path(self, name: str) -> Path:
        return self.path / "checkpoints" / f"{name}.safetensors"

    def load_checkpoint(self, name: str) -> checkpoint.Checkpoint:
        """Loads a checkpoint of this run ('confirmed', 'best', 'latest') or a file, which may be a policy
        bundle; refused when it belongs to another contract."""
        path = self.checkpoint_path(name) if name in CHECKPOINTS else Path(name)
        if not path.exists():
            raise self._missing(name, path)
        loaded = checkpoint.load_checkpoint(path)
        card = loaded.meta.get("policy")  # a bundle says there what a checkpoint also says itself
        card = card if isinstance(card, dict) else {}
        theirs = loaded.meta.get("contract_digest", card.get("contract_digest"))
        if theirs is None:
            raise SurefootError(
                f"{path} names no contract: it is neither a checkpoint nor a policy bundle of this Surefoot "
                f"version; use one of {self.path}."
            )
        if theirs != self.record.contract_digest:
            of = f", of {card['task']}" if "task" in card else ""
            raise SurefootError(
                f"{path} was trained under another contract ({str(theirs)[:12]}{of}; this run's is "
                f"{self.record.contract_digest[:12]}, of {self.record.contract.name}); use a checkpoint or a "
                f"policy bundle of {self.path}."
            )
        if name in CHECKPOINTS and "update" not in loaded.meta:
            raise SurefootError(f"{path} is a policy bundle and no checkpoint; put the run's own one back.")
        stated = self.record.confirmation.checkpoint if self.record.confirmation else loaded.digest
        if name == "confirmed" and loaded.digest != stated:
            raise SurefootError(
                f"{path} is not the checkpoint that {self.path} states its result on "
                f"({loaded.digest[:12]}, not {stated[:12]}); put that one back, or use --checkpoint best."
            )
        return loaded

    def _missing(self, name: str, path: Path) -> SurefootError:
        there = [n for n in CHECKPOINTS if self.checkpoint_path(n).exists()]
        if name not in CHECKPOINTS:
            return SurefootError(
                f"Checkpoint '{name}' does not exist; use confirmed, best, latest, a checkpoint file of "
                f"{self.path}, or a baseline such as baseline:random."
            )
        if not there:
            return SurefootError(
                f"'{path}' does not exist: {self.path} has no checkpoint, because it broke off before its "
                "first one; train anew with another --out."
            )
        if name == "confirmed":
            return SurefootError(
                f"{self.path} has no confirmed checkpoint because it did not run to its end; "
                f"use --checkpoint best or latest, or let it finish with --resume {self.path}."
            )
        return SurefootError(
            f"'{path}' does not exist; restore it, or evaluate with --checkpoint {' or '.join(there)}."
        )


def _numbered(folder: Path) -> Path:
    """Makes `folder`, or the first of folder-2, folder-3, ... that is not there; returns it."""
    for k in itertools.count(1):
        try:
            return new_folder(folder if k == 1 else folder.with_name(f"{folder.name}-{k}"))
        except SurefootError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
    raise AssertionError


def run_name(task: str, training_id: str, seed: int) -> str:
    """Returns <task>-<date>-<time>-<short id>; a task given as module:name keeps its last part."""
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{task.split(':')[-1].split('.')[-1].replace('/', '-')}-{now}-{training_id[:6]}s{seed}"


def timestamp() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
