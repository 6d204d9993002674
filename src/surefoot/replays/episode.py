"""What `surefoot replay` does: an episode again, a failure in many environments, a seed family."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from surefoot.artifacts import plain
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
from surefoot.evaluation import PanelEvaluator, engines_for
from surefoot.policy import Policy, read_policy
from surefoot.replays.cases import load_case
from surefoot.replays.recorded import Recorded, find_recorded, panel_folder, replay, verify
from surefoot.replays.rerun import rerun_case, rerun_family
from surefoot.reporting import plain_table
from surefoot.runs import RunFolder
from surefoot.statistics import percent
from surefoot.training import RobotPlan, load_policy, resolve_policy, restore_robot_plan

SHOWN = (
    "column", "engine", "scenario", "key", "family", "member", "command_vx", "command_vy", "command_wz",
    "friction", "payload_kg", "terrain", "success", "reason", "lived_s", "velocity_error_mps",
    "yaw_error_radps", "peak_tilt_rad", "torque_saturation", "recovery_s", "label", "cause",
)  # fmt: skip


def replay_episode(
    console: Console,
    folder: str,
    episode: str,
    where: str,
    perturb: str | None,
    engine: str | None,
    check: bool,
    video: str | None,
    as_json: bool,
) -> int:
    """One episode of a panel; with `check`, against what was recorded: exit code 1 where it differs."""
    run = RunFolder.open(folder)
    plan = restore_robot_plan(run)
    if engine is not None:
        check_engine(engine)
    shown = perturb or NOMINAL
    recorded, column = _recorded(run, plan, episode, where, shown, engine)
    if recorded is None and check:
        raise SurefootError(
            f"Column {shown} was not evaluated in {panel_folder(run, where)}, so there is nothing to verify; "
            f"evaluate it with `surefoot evaluate {folder} --perturb {shown}`."
        )
    like = recorded or find_recorded(run, episode, where)
    plan = _with_panel(plan, like)
    prepare_torch()
    policy, name = _policy(plan, run, like)
    half = as_half(like.summary.half)
    row, trace = _live(plan, half, like, policy, name, column, engine)
    verdict = verify(recorded, row, trace) if check and recorded else None
    frames = _video(plan, trace, video) if video else None
    if as_json:
        out = {k: row[k] for k in SHOWN} | {"frames": frames}
        if verdict:
            out["verify"] = dataclasses.asdict(verdict) | {"holds": verdict.holds}
        print(json.dumps(plain(out), indent=2))
    else:
        table = plain_table(f"Episode {row['scenario']} of {like.summary.panel}", "", "")
        for k in SHOWN:
            table.add_row(k, _text(row[k]))
        console.print(table, highlight=False)
        if verdict:
            console.print(_sentence(verdict), highlight=False, soft_wrap=True)
        if frames:
            console.print(f"{video}: {frames} frames", highlight=False, markup=False, soft_wrap=True)
    return 0 if verdict is None or verdict.holds else 1


def _recorded(
    run: RunFolder, plan: RobotPlan, episode: str, where: str, shown: str, engine: str | None
) -> tuple[Recorded | None, Column]:
    """The row to replay and its column; no row where the column was never evaluated."""
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


def _with_panel(plan: RobotPlan, like: Recorded) -> RobotPlan:
    if plan.panel.digest == like.summary.panel_digest:
        return plan
    again = second_panel(plan.panel)  # of a lab, which is nowhere to be found by its name
    panel = again if like.summary.panel == again.name else load_panel(like.summary.panel)
    if panel.digest != like.summary.panel_digest:
        raise SurefootError(
            f"{like.folder} was evaluated on another panel called {panel.name}; evaluate again with this one."
        )
    return dataclasses.replace(plan, panel=panel)


def _policy(plan: RobotPlan, run: RunFolder, like: Recorded) -> tuple[Policy, str]:
    """The very policy that the row is of, found by its digest."""
    if like.row["policy"] != TRAINED:
        return resolve_policy(plan, run, f"baseline:{like.row['policy']}")[0], str(like.row["policy"])
    for name in ("confirmed", "best", "latest"):
        if run.checkpoint_path(name).exists():
            found, bundle = load_policy(run, name)
            if found.digest == like.summary.checkpoint:
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


def _live(
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


def _sentence(v: Any) -> str:
    if v.holds:
        return "[green]Verified:[/green] the same states to the bit, the same label, the same figures."
    label = "the same label" if v.same_label else "another label"
    far = "unknown" if v.largest_difference is None else f"{v.largest_difference:.2g} m or rad"
    return (
        f"[red]Not the same:[/red] states {'agree' if v.same_states else f'differ by up to {far}'}, {label}; "
        f"figures that differ: {', '.join(v.differing) or 'none'}."
    )


def _text(value: Any, digits: int = 4) -> str:
    if isinstance(value, float | np.floating):
        return "not measured" if not np.isfinite(value) else f"{value:.{digits}g}"
    return str(value) or "-"


# ---- failures and families


def replay_trace(
    console: Console, folder: str | None, trace: str, envs: int, engine: str, checkpoint: str, as_json: bool
) -> int:
    """A failure in many environments with its factors moved: one of a family, or an accident?"""
    run = RunFolder.open(folder) if folder else _run_of(Path(trace))
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
    report, played = rerun_case(plan.task, case, policy, plan.panel.seeds, envs, fast)
    if as_json:
        print(json.dumps(report.model_dump(mode="json"), indent=2))
        return 0
    table = plain_table(f"{case.name} in {envs} environments on {fast}, factors moved", "", "")
    interval = f"95% interval {percent(report.failures_low)} to {percent(report.failures_high)}"
    table.add_row("failures", f"{percent(report.failures)}  ({interval})")
    table.add_row("as it was", "failed again" if report.again else "did not fail again")
    table.add_row("recorded label", report.recorded_label or "-")
    table.add_row("labels", ", ".join(f"{k} {v}" for k, v in report.labels.items()) or "-")
    table.add_row("mean steps lived", f"{played.rows['steps'].mean():.0f}")
    console.print(table, highlight=False)
    console.print(f"It is {report.verdict}.", highlight=False)
    return 0


def _run_of(trace: Path) -> RunFolder:
    if not trace.exists():
        raise SurefootError(f"'{trace}' does not exist; check the path.")
    for parent in trace.absolute().parents:
        if (parent / "run.json").is_file():
            return RunFolder.open(parent)
    raise SurefootError(
        f"'{trace}' does not lie in a run folder; say whose policy meets it: "
        f"surefoot replay RUN --trace {trace}."
    )


def replay_family(
    console: Console, folder: str, family: int, split: str, envs: int, checkpoint: str, as_json: bool
) -> int:
    """A small batch of one seed family, every episode of which can be looked at."""
    run = RunFolder.open(folder)
    plan = restore_robot_plan(run)
    if envs < 1:
        raise SurefootError(f"--envs is {envs}; use 1 or more.")
    prepare_torch()
    policy, _, name = resolve_policy(plan, run, checkpoint)
    if split == "train":
        rows = rerun_family(
            plan.task, plan.seeds, plan.plant, plan.engine, plan.atlas(), policy, family, envs
        )
    else:
        mine = [k for k, s in enumerate(plan.panel.scenarios) if s.family == family][:envs]
        if not mine:
            raise SurefootError(
                f"Panel {plan.panel.name} has no family {family}; `surefoot panel show` lists."
            )
        evaluator = PanelEvaluator(plan.task, plan.panel, "all", plan.recipe.control_hz, only=mine)
        try:
            rows = evaluator.run(policy, name=name).rows
        finally:
            evaluator.close()
    if as_json:
        count = len(rows["success"])
        print(json.dumps(plain([{k: v[i] for k, v in rows.items()} for i in range(count)]), indent=2))
        return 0
    names = {"member": "env", "command_vx": "vx", "command_vy": "vy", "command_wz": "wz", "friction": "fric.",
             "payload_kg": "kg", "success": "success", "reason": "end", "lived_s": "s",
             "velocity_error_mps": "error", "return": "return", "label": "label"}  # fmt: skip
    title = f"Family {family} of split {split}, {len(rows['success'])} environments, first episodes"
    table = plain_table(title, *names.values())
    table.padding = (0, 1, 0, 0)
    for i in range(len(rows["success"])):
        table.add_row(*(_text(rows[k][i], digits=2) for k in names))
    console.print(table, highlight=False)
    ends = Counter(x or "success" for x in rows["label"].tolist())
    console.print(", ".join(f"{k} {v}" for k, v in ends.most_common()), highlight=False)
    return 0
