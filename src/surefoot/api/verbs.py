"""What can be done with runs that are there: judged, compared, promoted, played again, reported.

A run is given as a `Run` or as its path. What is returned shows itself in a terminal and in a notebook.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from rich.console import Console

from surefoot.api.frames import Frame, frame
from surefoot.api.shown import Shown, link
from surefoot.contract import SurefootError
from surefoot.evidence import (
    Compared,
    Comparison,
    Refusal,
    as_text,
    compare_runs,
    judgement,
    promote_run,
    refusal_sentence,
    write_postmortem,
)
from surefoot.evidence import Postmortem as Written
from surefoot.evidence import Promotion as Decided
from surefoot.printing import (
    print_comparison,
    print_looks,
    print_promotion,
    print_refusal,
    print_replay,
    print_summary,
    say,
)
from surefoot.runs import RunFolder, load_pass, read_rows
from surefoot.statistics import Estimate, PanelSummary

if TYPE_CHECKING:
    from surefoot.replays import Verdict
    from surefoot.training import Plan as TrainingPlan

RunLike = str | os.PathLike[str]
"""A run: a `Run`, or the path of its folder."""


def folder_of(run: RunLike) -> Path:
    """Returns the path of a run that is given as one or as its path."""
    if not isinstance(run, str | os.PathLike):
        raise SurefootError(f"{run!r} is not a run; give a surefoot.Run or the path of a run folder.")
    return Path(run)


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """What a policy can do on held-out scenarios, and where its episodes are."""

    summary: PanelSummary
    """Every figure with its interval; columns, baselines, agreement between simulators."""
    folder: Path
    """Where summary.json, episodes.parquet and traces are."""
    run: RunFolder
    plan: TrainingPlan

    @property
    def success(self) -> Estimate:
        """The share of episodes that succeed, with its 95% interval, n and n_eff."""
        return self.summary.figures["success"]

    @property
    def verdict(self) -> str:
        """Reliable, Partly working, Failing or Unproven, by the rule that the report states."""
        return judgement(load_pass(self.run, self.folder)).word

    @property
    def episodes(self) -> Frame:
        """A row per episode: every column, engine and policy."""
        return frame(read_rows(self.folder, self.summary))

    def show(self, console: Console) -> None:
        print_summary(console, self.plan, self.run, self.folder, training=False)


class PanelLength(TypedDict, total=False):
    """How much of a drawn panel is played, as keyword arguments."""

    scenarios: int | None
    sequential: bool


def evaluate(
    run: RunLike,
    *,
    half: str = "confirmation",
    perturb: tuple[str, ...] | str = ("all",),
    checkpoint: str = "confirmed",
    panel: str | None = None,
    engine: str = "auto",
    sweep: bool = False,
    baselines: bool = True,
    **length: Unpack[PanelLength],
) -> Evaluation:
    """Evaluates a run's policy on a held-out panel: one pass a column, deterministic actions, every episode a
    row on disk beside the run's other panels.

    `half`: confirmation, selection (the one that training looked at) or all. `perturb`: ("all",), ("none",),
    perturbations such as "friction", or columns at any strength such as "delay_60ms". `checkpoint`:
    confirmed (what the run's result is stated on), best, latest, a file, or a baseline such as
    "baseline:random". `panel`: a panel's name or file (the task's own). `engine`: auto judges the nominal
    column on native MuJoCo and the others on the fastest engine. `sweep`: every declared strength.
    `scenarios`: how many to confirm on; a longer list begins with the shorter. `sequential`: look at the list
    as it grows, until the verdict is decided.

        surefoot.evaluate(run, half="all", perturb=("friction", "delay_60ms")).success
    """
    from surefoot.training import EvaluateOptions, evaluate_run

    names = (perturb,) if isinstance(perturb, str) else tuple(perturb)
    options = EvaluateOptions(panel, half, engine, checkpoint, names, sweep, baselines, **length)
    done = evaluate_run(folder_of(run), options)
    return Evaluation(done.summary, done.folder, done.run, done.plan)


class Comparisons(Shown):
    """Every run after the first, compared with the first. `comparisons[0].metrics["success"]` is the first
    difference with its interval."""

    def __init__(self, results: list[Compared]) -> None:
        self.results = tuple(results)
        """What came of each pair: a `Comparison`, or a `Refusal` where they were not measured alike."""

    @property
    def comparable(self) -> bool:
        """Whether all of them were measured alike."""
        return not any(isinstance(r.outcome, Refusal) for r in self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Comparison]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, number: int) -> Comparison:
        """Returns a comparison; where there is none, it says why."""
        r = self.results[number]
        if isinstance(r.outcome, Refusal):
            why = refusal_sentence(r.a, r.b, r.outcome.differs)
            raise SurefootError(f"{why} {r.outcome.offer}")
        return r.outcome

    def show(self, console: Console) -> None:
        for r in self.results:
            if isinstance(r.outcome, Refusal):
                print_refusal(console, r.a, r.b, r.outcome)
            else:
                print_comparison(console, r.outcome)
        print_looks(console, self.results)


def compare(
    *runs: RunLike, half: str = "confirmation", column: str = "nominal", shared_panel: bool = False
) -> Comparisons:
    """Compares runs, two or more, with the first of them, scenario by scenario: paired differences with
    intervals, by stratum.

    `half`: confirmation, selection or all. `column`: nominal, or a perturbation such as friction_0.3.
    `shared_panel`: where only the panels differ, compare on the scenarios that both have. Runs that were not
    measured alike are not compared; the result then says in what they differ.
    """
    folders = [folder_of(r) for r in runs]
    return Comparisons(compare_runs(folders, half=half, column=column, shared_panel=shared_panel))


class Promotion(Shown, Decided):
    """The decision whether a candidate may replace a baseline run: `outcome` is PROMOTE, REJECT, INVALID or
    INCONCLUSIVE, `reasons` say why, `record` is its file in the registry."""

    def show(self, console: Console) -> None:
        print_promotion(console, self)


def promote(
    candidate: RunLike,
    baseline: RunLike,
    *,
    fresh: bool = True,
    scenarios: int | None = None,
    registry: str | os.PathLike[str] | None = None,
) -> Promotion:
    """Decides whether `candidate` may replace `baseline`: only if it is better under held-out disturbances
    and on a second simulator, both at once, worse in no stratum, and works by itself.

    `fresh`: both are evaluated on scenarios that are made for this decision, so that nobody can have chosen
    on them; without it the recorded confirmation half decides, and each decision on it must show more than
    the one before. `scenarios`: how many fresh ones. `registry`: a folder that keeps the decision, what it
    rests on, and the promoted policy.

        surefoot.promote(candidate, baseline, registry="registry").outcome
    """
    folders = folder_of(candidate), folder_of(baseline)
    kept = None if registry is None else os.fspath(registry)
    if not fresh:
        if scenarios is not None:
            raise SurefootError("Recorded rows have the scenarios that they have; give scenarios with fresh.")
        return Promotion(**vars(promote_run(*folders, registry=kept)))
    from surefoot.experiments import promote_fresh

    return Promotion(**vars(promote_fresh(*folders, scenarios=scenarios, registry=kept)))


class Postmortem(Shown, Written):
    """What went wrong in a run, in six sentences, each tied to a figure of an artifact, and two failures."""

    def show(self, console: Console) -> None:
        say(console, as_text(self))


def postmortem(run: RunLike) -> Postmortem:
    """Looks back on a finished run, and writes what there is to say to postmortem.md and postmortem.json in
    its folder."""
    written = write_postmortem(RunFolder.open(folder_of(run)))
    return Postmortem.model_validate(written.model_dump())


@dataclass(frozen=True, repr=False)
class Replay(Shown):
    """An episode of a panel that was played again."""

    panel: str
    row: dict[str, Any]
    """What the episode's row of the panel's table says."""
    trace: dict[str, np.ndarray]
    """States, actions and forces by control step."""
    verdict: Verdict | None
    """Whether it is what was recorded; None without `verify`."""
    frames: int | None
    """Images of the video; None without one."""
    video: str | None = None

    def show(self, console: Console) -> None:
        made = f"{self.video}: {self.frames} frames" if self.frames else ""
        print_replay(console, self.panel, self.row, self.verdict, made)


def replay(
    run: RunLike,
    episode: int | str,
    *,
    where: str = "confirmation",
    perturb: str | None = None,
    engine: str | None = None,
    verify: bool = False,
    video: str | os.PathLike[str] | None = None,
) -> Replay:
    """Plays an episode again: a scenario's number of the panel, or the name of a trace (nominal-00017).

    `where`: which evaluation of the run (confirmation, selection-update-000100, ...). `perturb`: a column
    such as friction_0.3 or baseline:random. `engine`: another simulator than the one it was recorded on.
    `verify`: compare states, label and figures with what was recorded. `video`: file to write (.mp4, .gif).
    """
    from surefoot.replays import replay_episode

    file = None if video is None else os.fspath(video)
    done = replay_episode(
        RunFolder.open(folder_of(run)),
        str(episode),
        where=where,
        perturb=perturb,
        engine=engine,
        check=verify,
        video=file,
    )
    return Replay(done.panel, done.row, done.trace, done.verdict, done.frames, file)


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """A page that was written: one file that opens from disk and needs no network."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def show(self, console: Console) -> None:
        say(console, f"{self.path} ({self.path.stat().st_size / 1e6:.1f} MB)")

    def _repr_html_(self) -> str:
        return link(self.path, self)


def report(
    *runs: RunLike, out: str | os.PathLike[str] | None = None, dollars_per_hour: float | None = None
) -> Report:
    """Writes one self-contained HTML page about a run, or about several side by side: to `out`, else to
    report.html in the first run's folder. `dollars_per_hour`: price of the machine, to state costs."""
    from surefoot.reporting import write_report

    path = None if out is None else os.fspath(out)
    return Report(write_report([folder_of(r) for r in runs], path, dollars_per_hour))
