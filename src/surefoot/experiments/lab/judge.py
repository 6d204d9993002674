"""Every policy of a lab on its panels: baselines and learners alike, a column a pass, nothing done twice."""

from __future__ import annotations

from pathlib import Path

from surefoot.contract import TRAINED, Column, SurefootError
from surefoot.policy import BASELINES, PREFIX
from surefoot.runs import Look, RunFolder, note_look, read_summary, scenarios_of
from surefoot.statistics import PanelSummary
from surefoot.training import PassOptions, RobotPlan, evaluate_policy, resolve_policy

LEARNED = "confirmation"
"""Where a run keeps its own pass over the half that results are stated on."""


def usable_baselines(plan: RobotPlan) -> tuple[str, ...]:
    """Returns the baselines that the robot can do: a trot needs legs of hip, thigh and calf."""
    usable = []
    for name in BASELINES:
        try:
            plan.baseline(name)
        except SurefootError:
            continue
        usable.append(name)
    return tuple(usable)


def place(run: RunFolder, plan: RobotPlan, policy: str) -> Path:
    """Returns where the pass of a policy over the plan's panel stands: `policy` is a baseline, or
    `trained`."""
    where = LEARNED if policy == TRAINED else f"baseline-{policy}"
    return run.path / "panels" / plan.panel.name / where


def judge(plan: RobotPlan, run: RunFolder, policy: str, columns: tuple[Column, ...]) -> None:
    """Runs the nominal column on native MuJoCo, then it and `columns` on the fast engine; into the run's
    folder. What is there already is checked and left as it is."""
    folder = place(run, plan, policy)
    if (folder / "summary.json").is_file():
        checked_summary(folder, plan)
        return
    name = "confirmed" if policy == TRAINED else f"{PREFIX}{policy}"
    bundle, digest, called = resolve_policy(plan, run, name)
    evaluate_policy(
        plan,
        run,
        bundle,
        digest,
        where=folder.name,
        options=PassOptions("confirmation", columns, baselines=False),
        name=called,
    )
    if policy == TRAINED:
        scenarios = scenarios_of(plan.panel.name, plan.panel.seeds)
        note_look([run.path.parent], Look(scenarios, plan.panel.digest, "lab", (digest,)))


def checked_summary(folder: Path, plan: RobotPlan) -> PanelSummary:
    """Reads the summary of a pass; refused where it was not measured as the plan says."""
    summary = read_summary(folder)
    if (summary.construct_id, summary.panel_digest) != (plan.construct_id, plan.panel.digest):
        raise SurefootError(
            f"{folder} was measured on another panel or construct ({summary.construct_id[:12]}, the lab's is "
            f"{plan.construct_id[:12]}), and is not set beside the others; choose another --out."
        )
    return summary
