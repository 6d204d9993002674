"""Replays: an episode again, a failure in many environments, a seed family."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import check_output
from surefoot.compute import prepare_torch
from surefoot.contract import (
    NOMINAL,
    TRAINED,
    Column,
    Half,
    SurefootError,
    as_half,
    columns,
    load_panel,
    second_panel,
)
from surefoot.engines import check_engine
from surefoot.evaluation import Episodes, PanelEvaluator, engines_for
from surefoot.policy import Policy, read_policy
from surefoot.replays.cases import load_case
from surefoot.replays.recorded import (
    Recorded,
    Verdict,
    find_recorded,
    panel_folder,
    replay,
    scenarios_of,
    verify,
)
from surefoot.replays.rerun import CaseReport, rerun_case, rerun_family
from surefoot.runs import RunFolder, typed
from surefoot.training import RobotPlan, load_policy, resolve_policy, restore_robot_plan


@dataclass(frozen=True)
class Replayed:
    """Holds an episode of a panel that was played again."""

    panel: str
    row: dict[str, Any]
    """What the episode's row of a panel's table would say."""
    trace: dict[str, np.ndarray]
    verdict: Verdict | None
    """Whether it is what was recorded; None where nobody asked."""
    frames: int | None
    """Images of the video; None where nobody asked for one."""


def replay_episode(
    run: RunFolder,
    episode: str,
    *,
    where: str = "confirmation",
    perturb: str | None = None,
    engine: str | None = None,
    check: bool = False,
    video: str | None = None,
) -> Replayed:
    """Plays one episode of the evaluation `where` again, by its scenario's number or the name of its trace;
    with `check`, compares it with what was recorded, and with `video`, writes it there."""
    plan = restore_robot_plan(run)
    if engine is not None:
        check_engine(engine)
    if video is not None:  # before anything is simulated
        check_output(video, home=Path(video).parent, option="--video")
    shown = perturb or NOMINAL
    recorded, column = _recorded(run, plan, episode, where, shown, engine)
    if recorded is None and check:
        raise SurefootError(_nothing_to_verify(run, episode, where, shown))
    like = recorded or find_recorded(run, episode, where)
    plan = with_panel(plan, like)
    prepare_torch()
    policy, name = policy_of(plan, run, like)
    half = as_half(like.summary.half)
    row, trace = _play(plan, half, like, policy, name, column, engine)
    verdict = verify(recorded, row, trace) if check and recorded else None
    frames = _video(plan, trace, video) if video else None
    return Replayed(like.summary.panel, row, trace, verdict, frames)


def _nothing_to_verify(run: RunFolder, episode: str, where: str, shown: str) -> str:
    played, folder = scenarios_of(run, where, shown), panel_folder(run, where)
    if len(played):
        return (
            f"Column {shown} was played on {len(played)} scenarios of {folder}, from {played[0]} to "
            f"{played[-1]}, and {episode} is not among them, so there is nothing to verify; give one of "
            "those, or leave out --verify."
        )
    return (
        f"Column {shown} was not evaluated in {folder}, so there is nothing to verify; "
        f"evaluate it with `{typed('evaluate', run.path, '--perturb', shown)}`."
    )


def _recorded(
    run: RunFolder, plan: RobotPlan, episode: str, where: str, shown: str, engine: str | None
) -> tuple[Recorded | None, Column]:
    """Returns the row to replay and its column; no row where the column was never evaluated."""
    try:
        recorded = find_recorded(run, episode, where, shown, engine)
        return recorded, recorded.column
    except SurefootError:
        if shown == NOMINAL or shown.startswith("baseline:"):
            raise
    find_recorded(run, episode, where)  # is it there at all?
    (column, *more) = columns(plan.panel, (shown,)) or (Column(),)
    if more:
        raise SurefootError(f"'{shown}' has several strengths; say which, e.g. --perturb {column.name}.")
    return None, column


def with_panel(plan: RobotPlan, like: Recorded) -> RobotPlan:
    """Returns the plan on the panel that a row is of."""
    if plan.panel.digest == like.summary.panel_digest:
        return plan
    again = second_panel(plan.panel)  # of a lab, which is nowhere to be found by its name
    panel = again if like.summary.panel == again.name else load_panel(like.summary.panel)
    if panel.digest != like.summary.panel_digest:
        raise SurefootError(
            f"{like.folder} was evaluated on another panel called {panel.name}; evaluate again with this one."
        )
    return dataclasses.replace(plan, panel=panel)


def policy_of(plan: RobotPlan, run: RunFolder, like: Recorded) -> tuple[Policy, str]:
    """Returns the very policy that the row is of, found by its digest, and its name."""
    if like.row["policy"] != TRAINED:
        return resolve_policy(plan, run, f"baseline:{like.row['policy']}")[0], str(like.row["policy"])
    for name in ("confirmed", "best", "latest"):
        if run.checkpoint_path(name).exists():
            checkpoint, bundle = load_policy(run, name)
            if checkpoint.digest == like.summary.checkpoint:
                return bundle, TRAINED
    beside = like.folder / "policy.safetensors"
    if beside.is_file():
        kept = read_policy(beside)
        if kept.normaliser_digest != like.summary.normaliser:
            raise SurefootError(f"'{beside}' is not the policy that the rows beside it are of.")
        return kept, TRAINED
    raise SurefootError(
        f"{run.path} no longer has the policy {like.summary.checkpoint[:12]} that {like.folder.name} was "
        "evaluated with, so its episodes cannot be replayed; evaluate a checkpoint that it has."
    )


def _play(
    plan: RobotPlan, half: Half, like: Recorded, policy: Policy, name: str, column: Column, engine: str | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    numbers = plan.panel.numbers(half)
    if int(like.row["scenario"]) not in numbers:
        raise SurefootError(f"{like.folder} names a scenario that its panel does not have; evaluate again.")
    place = numbers.index(int(like.row["scenario"]))
    chosen = engine or str(like.row["engine"])
    check_engine(chosen)
    evaluator = PanelEvaluator(
        plan.task, plan.panel, half, plan.recipe.control_hz, engine=chosen, only=[place]
    )
    try:
        return replay(evaluator, policy, column, name)
    finally:
        evaluator.close()


def _video(plan: RobotPlan, trace: dict[str, np.ndarray], path: str) -> int:
    from surefoot.replays.video import write_video

    return write_video(trace, plan.task.robot, path)


# ---- failures and families


def replay_trace(
    run: RunFolder | None,
    trace: str | Path,
    *,
    envs: int = 256,
    engine: str = "auto",
    checkpoint: str = "confirmed",
) -> tuple[CaseReport, Episodes]:
    """Plays a failure in many environments with its factors moved, to tell one of a family from an accident.
    Without `run` the policy is that of the run whose folder the trace lies in."""
    run = run or _run_of(Path(trace))
    plan = restore_robot_plan(run)
    case = load_case(trace, plan.task.robot, plan.task.contract)
    if abs(case.control_hz - plan.recipe.control_hz) > 1e-6:
        raise SurefootError(
            f"'{trace}' was recorded at {case.control_hz:g} Hz and the policy acts at "
            f"{plan.recipe.control_hz:g} Hz; resample its commands and push steps."
        )
    prepare_torch()
    policy, _, _ = resolve_policy(plan, run, checkpoint)
    fast = engines_for(engine, plan.task, plan.panel, case.control_hz)[1]
    return rerun_case(plan.task, case, policy, plan.panel.seeds, envs, fast)


def _run_of(trace: Path) -> RunFolder:
    if not trace.exists():
        raise SurefootError(f"'{trace}' does not exist; check the path.")
    for parent in trace.absolute().parents:
        if (parent / "run.json").is_file():
            return RunFolder.open(parent)
    raise SurefootError(
        f"'{trace}' does not lie in a run folder; say whose policy meets it: "
        f"{typed('replay', 'RUN', '--trace', trace)}."
    )


def replay_family(
    run: RunFolder, family: int, *, split: str = "train", envs: int = 16, checkpoint: str = "confirmed"
) -> dict[str, np.ndarray]:
    """Plays a small batch of one seed family; returns the columns of its episodes' table."""
    plan = restore_robot_plan(run)
    if envs < 1:
        raise SurefootError(f"--envs is {envs}; use 1 or more.")
    prepare_torch()
    policy, _, name = resolve_policy(plan, run, checkpoint)
    if split == "train":
        return rerun_family(
            plan.task, plan.seeds, plan.training_plant, plan.engine, plan.atlas(), policy, family, envs
        )
    scenarios = [k for k, s in enumerate(plan.panel.scenarios) if s.family == family][:envs]
    if not scenarios:
        count = 1 + max(s.family for s in plan.panel.scenarios)
        raise SurefootError(
            f"Panel {plan.panel.name} has no family {family}; use --family with 0 to {count - 1}."
        )
    evaluator = PanelEvaluator(plan.task, plan.panel, "all", plan.recipe.control_hz, only=scenarios)
    try:
        return evaluator.run(policy, name=name).rows
    finally:
        evaluator.close()
