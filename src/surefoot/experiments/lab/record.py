"""lab.json: all that a lab found, and where it stands. Page and table say nothing that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from surefoot.artifacts import read_json
from surefoot.contract import Disjointness, Frozen, Recipe, SeedPlan, TaskContract
from surefoot.evidence import Case, LearnerComparison, Postmortem
from surefoot.experiments.lab.design import LabDesign
from surefoot.statistics import ColumnSummary

Reward = Literal["task", "sparse"]


class PanelAbout(Frozen):
    """Describes a panel of the lab. What was measured on one is never set against what was measured on
    another."""

    number: Literal[1, 2]
    name: str
    panel_digest: str
    half: str
    construct_id: str
    seeds: SeedPlan
    families: int
    """Seed families of the half that was judged."""
    episodes: int
    apart_from_training: Disjointness
    apart_from_first: Disjointness | None = None
    """Proof that a second panel shares no draw with the first; None for the first."""


class RunAbout(Frozen):
    folder: str
    """Relative to the lab's, as are all paths here."""
    learner: str
    version: str | None
    seed: int
    reward: Reward
    status: str
    error: str | None
    training_id: str
    updates: int
    samples: int
    train_seconds: float | None
    steps_per_second: float | None
    audit: str = ""
    """What its audit says, in a line; empty: there was none."""
    unproven: str = ""
    """What the audit found on the proof: the run is not what it says."""


class Entry(Frozen):
    """Holds how one policy did on one column of one panel on one engine: one pass over the held-out
    scenarios."""

    panel: Literal[1, 2]
    policy: str
    """A learner or a baseline."""
    seed: int | None
    """Training seed; None: a baseline."""
    reward: Reward | None
    column: str
    """nominal, or the perturbed one."""
    folder: str
    """Where rows and traces stand."""
    checkpoint: str
    """Digest of the policy."""
    ends: dict[str, int]
    """How episodes ended, by reason."""
    found: ColumnSummary
    traces: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int | None, str | None, str, str]:
        """Names what the entry is of, whichever the panel."""
        return self.policy, self.seed, self.reward, self.column, self.found.engine


class Episode(Frozen):
    """Holds one of the five seeded episodes that every baseline is shown on, from its nominal pass on the
    first panel."""

    policy: str
    engine: str
    scenario: int
    key: str
    """64 bits, hexadecimal: with the panel's seeds it names every draw of the episode."""
    family: int
    member: int
    command: tuple[float, float, float]
    friction: float
    payload_kg: float
    success: bool
    reason: str
    lived_s: float
    velocity_error_mps: float | None
    label: str
    cause: str
    episode_return: float
    """Sum over the steps of the episode; the terms are before the floor on the step's sum."""
    terms: dict[str, float]
    replay: str
    """Arguments of `surefoot`, in the lab's folder."""


class CoComputed(Frozen):
    """Holds a metric that both panels measured alike, panel by panel: two statements, not a difference."""

    policy: str
    seed: int | None
    reward: Reward | None
    column: str
    engine: str
    metric: str
    first: float
    second: float
    first_interval: tuple[float, float] | None
    second_interval: tuple[float, float] | None


class LabCase(Frozen):
    """Holds a labelled failure that can be replayed."""

    policy: str
    seed: int | None
    reward: Reward | None
    engine: str
    run: str
    trace: str
    """File."""
    case: Case
    replay: str
    """Arguments of `surefoot`, in the lab's folder."""
    verified: bool
    """Whether the replay gave the same states to the bit, the same label and the same figures."""


class LabRecord(Frozen):
    schema_version: int = 1
    id: str
    created: str
    design: LabDesign
    contract: TaskContract
    contract_digest: str
    prose: tuple[str, ...]
    recipe: Recipe
    samples: int
    """Sample budget of every run."""
    panels: tuple[PanelAbout, ...]
    runs: tuple[RunAbout, ...]
    episodes: tuple[Episode, ...]
    entries: tuple[Entry, ...]
    comparison: LearnerComparison
    """Learners over training seeds, on the first panel."""
    sparse: LearnerComparison | None
    """The same learners retrained with the sparse reward."""
    co_computed: tuple[CoComputed, ...]
    """Empty without a second panel."""
    cases: tuple[LabCase, ...]
    cases_note: str
    postmortems: tuple[Postmortem, ...]
    """Postmortems of the first training seed's runs."""
    versions: dict[str, str]

    def entry(
        self, panel: int, policy: str, seed: int | None, reward: Reward | None, column: str, engine: str
    ) -> Entry | None:
        wanted = (policy, seed, reward, column, engine)
        return next((e for e in self.entries if e.panel == panel and e.key == wanted), None)


def open_lab(folder: str | Path) -> LabRecord:
    return read_json(Path(folder) / "lab.json", LabRecord)
