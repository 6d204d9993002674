"""A run: read from its folder whenever it is asked, so that one that is still training can be watched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.api.audits import Audited, audit, audited
from surefoot.api.frames import Frame, frame, frame_of_rows
from surefoot.api.policies import Policy
from surefoot.api.shown import Shown, escaped, link
from surefoot.api.verbs import Evaluation, Replay, Report, evaluate, folder_of, replay, report
from surefoot.artifacts import read_table
from surefoot.contract import Contract, Recipe, SeedPlan, SurefootError
from surefoot.printing import say
from surefoot.reporting import read_run, verdict
from surefoot.runs import RunFolder, RunRecord, load_result, read_ledger
from surefoot.statistics import Estimate, PanelSummary

if TYPE_CHECKING:
    from surefoot.sessions import TrainedRun

COLOURS = {
    "good": "#229954", "mixed": "#c98710", "bad": "#d64040", "unproven": "#d64040", "none": "#808080",
}  # fmt: skip
"""What grades are shown in, on white and on black."""
SPARK = (120, 24)
"""Pixels of the curve of success."""


@dataclass(frozen=True)
class _Standing:
    """What a run amounts to, for people."""

    grade: str
    verdict: str
    says: str
    caveat: str
    success: Estimate | None


class Run(Shown):
    """A run folder: what was planned, what was measured, what it shows.

    run = surefoot.Run.load("runs/walk-flat-...")
    run.verdict, run.success.low, run.ledger["reward_per_step"], run.policy(observations)
    """

    def __init__(self, folder: RunFolder, outcome: TrainedRun | None = None) -> None:
        self.path = folder.path
        self.outcome = outcome
        """How the session ended that trained it; None where the run was loaded."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Loads a run from its folder; refused where it is not one."""
        return cls(RunFolder.open(folder_of(path)))

    def __fspath__(self) -> str:
        return str(self.path)

    # ---- what was planned

    @property
    def record(self) -> RunRecord:
        """All of run.json, as it is now."""
        return RunFolder.open(self.path).record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def task(self) -> str:
        return self.record.task

    @property
    def contract(self) -> Contract:
        """The task's promise: observation, action, rewards, terminations, success, safety."""
        return self.record.contract

    @property
    def recipe(self) -> Recipe:
        """Every number that shaped training."""
        return self.record.recipe

    @property
    def seeds(self) -> SeedPlan:
        """The root seed, and how every random draw is keyed."""
        return self.record.seeds

    # ---- what came of it

    @property
    def status(self) -> str:
        """How it stands: running, interrupted, finished, failed, or what run.json says."""
        return self.record.status

    @property
    def verdict(self) -> str:
        """Reliable, Partly working, Failing, Unproven or Not confirmed, as the report states it."""
        return self._standing().verdict

    @property
    def success(self) -> Estimate | None:
        """Success on the confirmation half, recomputed from its rows: value, low, high, n, n_eff; None while
        nothing is confirmed."""
        return self._standing().success

    @property
    def caveat(self) -> str:
        """Why the result must be read with care (the run went on, or broke off, after it was stated); empty
        where nothing speaks against it."""
        return self._standing().caveat

    @property
    def audited(self) -> Audited | None:
        """What its last audit found, the short one that ends training or a full one; None: there was none."""
        return audited(self)

    @property
    def summary(self) -> PanelSummary | None:
        """Every figure of the confirmation half, counted from its rows; None while nothing is confirmed."""
        run = RunFolder.open(self.path)
        return load_result(run).summary if run.record.confirmation is not None else None

    @property
    def policy(self) -> Policy:
        """The confirmed policy, to call with observations."""
        return Policy.load(self.path)

    # ---- tables

    @property
    def ledger(self) -> Frame:
        """A row per update."""
        return frame_of_rows(read_ledger(self.path / "ledger.jsonl")[0])

    @property
    def episodes(self) -> Frame:
        """A row per training episode that had ended at the last checkpoint."""
        folder = self.path / "episodes"
        if not any(folder.glob("*.parquet")):
            raise SurefootError(
                f"{self.path} has no training episodes yet; its first checkpoint writes them."
            )
        return frame(read_table(folder))

    @property
    def held_out(self) -> Frame:
        """A row per held-out episode of the confirmation half: every column, engine and policy."""
        return frame(load_result(RunFolder.open(self.path)).table)

    # ---- verbs

    def evaluate(
        self, *, half: str = "confirmation", perturb: tuple[str, ...] | str = ("all",), baselines: bool = True
    ) -> Evaluation:
        """Evaluates the confirmed policy; `surefoot.evaluate` takes more options."""
        return evaluate(self, half=half, perturb=perturb, baselines=baselines)

    def audit(self, *, only: tuple[str, ...] | str = (), short: bool = False) -> Audited:
        """Audits this run: is it what it says? `surefoot.audit` takes more options."""
        return audit(self, only=only, short=short)

    def replay(self, episode: int | str, *, verify: bool = False) -> Replay:
        """Plays an episode of the confirmation half again; `surefoot.replay` takes more options."""
        return replay(self, episode, verify=verify)

    def report(self, *, out: str | os.PathLike[str] | None = None) -> Report:
        """Writes the page about this run."""
        return report(self, out=out)

    # ---- shown

    def _standing(self) -> _Standing:
        figures = read_run(self.path)
        v = verdict(figures)
        success = figures.panel.nominal.success if figures.panel else None
        return _Standing(v.grade, v.headline, v.detail, " ".join((*v.faults, *v.caveats)), success)

    def _lines(self) -> tuple[_Standing | None, list[str]]:
        """Says how the run stands; a run whose files are damaged still shows what can be said of it."""
        try:
            record, standing = self.record, self._standing()
        except SurefootError as error:
            return None, [f"Run {self.path}", str(error)]
        lines = [f"Run {record.id}: {record.task}, seed {record.seeds.root}, {record.status}"]
        lines += [f"{standing.verdict}: {standing.says}"]
        lines += [text for text in (standing.caveat, record.error) if text]
        kept = self.audited
        lines += [kept.audit.says] if kept is not None else []
        f = record.figures
        if f.get("updates"):
            lines.append(
                f"{f['updates']:,} updates, {f.get('samples') or 0:,} samples, "
                f"{f.get('train_seconds') or 0:.1f} s of training on {record.device}, {record.engine}"
            )
        return standing, [*lines, str(self.path)]

    def show(self, console: Console) -> None:
        for k, line in enumerate(self._lines()[1]):
            say(console, f"  {line}" if k else line)

    def _repr_html_(self) -> str:
        standing, (title, *lines) = self._lines()
        colour = COLOURS[standing.grade if standing else "none"]
        page = self.path / "report.html"
        report = f"<div>{link(page, 'report')}</div>" if page.is_file() else ""
        body = "".join(f"<div>{escaped(line)}</div>" for line in lines)
        return (
            f'<div style="border-left:4px solid {colour};padding:2px 0 2px 10px;line-height:1.5">'
            f"<div><b>{escaped(title)}</b> {self._sparkline(colour)}</div>{body}{report}</div>"
        )

    def _sparkline(self, colour: str) -> str:
        """Draws success on the selection half over training, from 0 at the bottom to 1 at the top."""
        try:
            rows = read_ledger(self.path / "ledger.jsonl")[0]
        except SurefootError:
            return ""  # the lines beside it say what is wrong with the run's files
        values = [r["evaluation.success"] for r in rows if r.get("evaluation.success") is not None]
        if len(values) < 2:
            return ""
        width, height = SPARK
        points = " ".join(
            f"{2 + k * (width - 4) / (len(values) - 1):.1f},{height - 2 - v * (height - 4):.1f}"
            for k, v in enumerate(values)
        )
        title = f"success on the selection half, {values[0]:.0%} to {values[-1]:.0%}"
        return (
            f'<svg width="{width}" height="{height}" role="img" style="vertical-align:middle">'
            f'<title>{escaped(title)}</title><polyline points="{points}" fill="none" stroke="{colour}" '
            'stroke-width="1.5"/></svg>'
        )
