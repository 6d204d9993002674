"""What `surefoot train` and `surefoot evaluate` do, from plan to closing summary."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from surefoot.baselines import BASELINES, PREFIX, baseline
from surefoot.contract import (
    NOMINAL,
    Column,
    Half,
    OutsideContract,
    SurefootError,
    as_half,
    columns,
    load_panel,
    text_digest,
)
from surefoot.cores import prepare_torch
from surefoot.display import Display
from surefoot.evidence import PanelSummary, RunFolder, evaluate_panel, read_ledger, summarise
from surefoot.evidence.evaluate import TRAINED
from surefoot.evidence.passes import engines_for
from surefoot.evidence.run import save_policy
from surefoot.fellows import ALONE, Fellows, Lost, join, launched, local_device
from surefoot.hosting import Hosted, LibraryFailed
from surefoot.learners import checkpoint
from surefoot.learners.libraries import Timeouts
from surefoot.outside import BASELINES as OUTSIDE_BASELINES
from surefoot.outside import OutsideTask, evaluate_seeds, outside_baseline
from surefoot.plan import OutsidePlan, Plan, RobotPlan, make_plan, on_panel
from surefoot.policy import Policy, PolicyBundle, PolicyCard
from surefoot.report import write_report
from surefoot.scoring import Limits
from surefoot.tables import print_plan, print_summary
from surefoot.trackers import Tracker, check_tracker, make_tracker
from surefoot.train import Trainer, new_run


def start_run(
    console: Console,
    task: str,
    overrides: dict[str, Any],
    seed: int,
    engine: str,
    device: str,
    updates: int | None,
    minutes: float | None,
    until: float | None,
    out: str | None,
    tracker: str,
    quiet: bool,
    perturb: tuple[str, ...] = ("all",),
    as_json: bool = False,
    learner: str = "ppo",
    timeouts: Timeouts = "stock",
    baselines: bool = True,
    success_return: float | None = None,
) -> int:
    """Plans, prints, trains, confirms."""
    fellows, device = join(), local_device(device)
    with fellows.agreed():
        limits = Limits(updates, minutes, until)
        if fellows.lead:
            check_tracker(tracker)
        plan = make_plan(
            task,
            overrides=overrides,
            seed=seed,
            engine=engine,
            device=device,
            processes=fellows.world,
            learner=learner,
            timeouts=timeouts,
            success_return=success_return,
        )
        if not quiet and fellows.lead:
            print_plan(console, plan)
        columns_of(plan, perturb)  # what is not known is refused before an hour is spent
        if updates is None and minutes is None and until is None:
            limits = Limits(None, plan.task.minutes, plan.task.until)
        prepare_torch()
        run = new_run(plan, out, fellows)
    return _train(
        console,
        plan,
        run,
        limits,
        tracker,
        perturb,
        resume=False,
        as_json=as_json,
        fellows=fellows,
        baselines=baselines,
    )


def resume_run(
    console: Console,
    folder: str,
    updates: int | None,
    minutes: float | None,
    until: float | None,
    tracker: str,
    perturb: tuple[str, ...] = ("all",),
    as_json: bool = False,
) -> int:
    fellows = join()
    with fellows.agreed():
        limits = Limits(updates, minutes, until)
        if fellows.lead:
            check_tracker(tracker)
        run = RunFolder.open(folder)
        if run.record.learner != "ppo":
            raise SurefootError(
                f"{run.path} was trained by {run.record.learner}, whose runs cannot be continued exactly; "
                "train anew with another --out."
            )
        if isinstance(run.record.contract, OutsideContract):
            raise SurefootError(
                f"{run.path} was trained on {run.record.task}, whose simulator's state cannot be saved; it "
                "cannot be continued exactly, so train anew with another --out and larger limits."
            )
        plan = plan_of(run, fellows)
        columns_of(plan, perturb)
        if updates is None and minutes is None and until is None:
            limits = Limits(None, plan.task.minutes, plan.task.until)
        prepare_torch()
    return _train(console, plan, run, limits, tracker, perturb, resume=True, as_json=as_json, fellows=fellows)


def train_planned(
    console: Console, plan: Plan, folder: Path, updates: int, perturb: tuple[str, ...], brief: bool = False
) -> int:
    """Trains and confirms `plan` in `folder`, for one of many runs of a comparison: no tracker, no baselines,
    and with `brief` no tables. A run that has ended there is left as it is (a failed one too, which is
    reported as failed); one that was interrupted goes on where it was, or, where a library trained it, which
    cannot go on, is set aside and begun anew."""
    if launched().world > 1:
        raise SurefootError("Several learners are trained one after the other; start this without torchrun.")
    limits, resume = Limits(updates), False
    if folder.exists():
        run = RunFolder.open(folder)
        _check_same(run, plan, updates)
        if run.record.status == "failed" or run.record.confirmation is not None:
            console.print(f"{folder} is there already.", highlight=False, markup=False, soft_wrap=True)
            return 0
        resume = plan.learner == "ppo" and run.checkpoint_path("latest").is_file()
        if not resume:
            aside = _free(folder)
            folder.rename(aside)
            console.print(
                f"{folder} was not finished and cannot go on; it is now {aside}.",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    prepare_torch()
    run = RunFolder.open(folder) if resume else new_run(plan, str(folder))
    return _train(
        console,
        plan,
        run,
        limits,
        "none",
        perturb,
        resume,
        as_json=False,
        fellows=ALONE,
        baselines=False,
        brief=brief,
    )


def _check_same(run: RunFolder, plan: Plan, updates: int) -> None:
    r = run.record
    same = (r.training_id, r.seeds.root, r.construct_id) == (
        plan.training_id, plan.seeds.root, plan.construct_id,
    )  # fmt: skip
    if not same or (r.figures.get("updates") or 0) > updates or (
        r.confirmation is not None and r.figures.get("updates") != updates
    ):  # fmt: skip
        raise SurefootError(f"{run.path} is another run; remove it or choose another --out.")


def _free(folder: Path) -> Path:
    k = 1
    while (aside := folder.with_name(f"{folder.name}-unfinished{k}")).exists():
        k += 1
    return aside


def plan_of(run: RunFolder, fellows: Fellows = ALONE) -> Plan:
    """The plan that a run folder was started with; refused when the task has changed since."""
    r = run.record
    plan = make_plan(
        r.task,
        overrides=r.recipe.model_dump(),
        seed=r.seeds.root,
        engine=r.engine,
        device=local_device(r.device),
        processes=fellows.world,
        learner=r.learner,
        timeouts=r.library.timeouts if r.library else "stock",
        trained_with=r.library.version if r.library else None,
        success_return=r.contract.success.return_at_least
        if isinstance(r.contract, OutsideContract)
        else None,
    )
    if isinstance(r.contract, OutsideContract) and isinstance(plan.task, OutsideTask):
        then, now = r.contract.versions, plan.task.contract.versions
        if then != now:
            want = " ".join(f"{k}=={v}" for k, v in then.items() if now.get(k) != v)
            raise SurefootError(
                f"{run.path} was trained on other versions of its simulator; pip install {want}."
            )
    if plan.task.contract.digest != r.contract_digest:
        raise SurefootError(
            f"The contract of {r.task} has changed since {run.path} was trained "
            f"({r.contract_digest[:12]}, now "
            f"{plan.task.contract.digest[:12]}); use the Surefoot version in its run.json, or train anew."
        )
    return plan


def robot_plan_of(run: RunFolder) -> RobotPlan:
    """The plan of a run whose robot is known; others are refused."""
    plan = plan_of(run)
    if not isinstance(plan, RobotPlan):
        raise SurefootError(
            f"{run.path} was trained on {plan.task_name}, which comes from outside: there is no robot to "
            "replay; judge its episodes with `surefoot evaluate` and `surefoot report`."
        )
    return plan


def _train(
    console: Console,
    plan: Plan,
    run: RunFolder,
    limits: Limits,
    tracker_name: str,
    perturb: tuple[str, ...],
    resume: bool,
    as_json: bool,
    fellows: Fellows,
    baselines: bool = True,
    brief: bool = False,
) -> int:
    if not fellows.lead:
        console, tracker_name = Console(quiet=True), "none"
    compiles = plan.engine != "mujoco" and isinstance(plan, RobotPlan)
    new = "; a robot and plant new to this machine are compiled first" if compiles else ""
    with ExitStack() as closing:
        with console.status(f"Preparing {plan.recipe.envs} environments on {plan.engine}{new}"):
            fellows.use(plan.device)
            # before the tracker: what is refused leaves no trace there
            own = plan.learner == "ppo"
            trainer = Trainer(plan, run, resume, fellows=fellows) if own else Hosted(plan, run)
        closing.callback(trainer.close)
        with fellows.agreed():
            tracker = _tracker_of(run, tracker_name, resume)
        closing.callback(tracker.close)
        console.print(f"Run folder: {run.path}", highlight=False, markup=False, soft_wrap=True)
        try:
            with Display(console, limits.updates, limits.minutes, limits.until) as display:
                trainer.train(limits, display, tracker)
        except Lost as loss:
            raise Lost(f"{loss} The run stands at its last checkpoint. {_resume_hint(run)}") from loss
        except LibraryFailed as failure:
            console.print(str(failure), highlight=False, markup=False, soft_wrap=True)
            return 1
        except KeyboardInterrupt:
            console.print(
                f"Aborted within an update. {_resume_hint(run)}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
            return 130
    fellows.leave()
    if trainer.stopped is not None:
        console.print(
            f"Stopped by {trainer.stopped.name}; saved. {'' if brief else _resume_hint(run)}".rstrip(),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return 128 + trainer.stopped  # as shells do: 130 for SIGINT, 143 for SIGTERM
    if not fellows.lead:
        return 0
    summary = _confirm(plan, run, trainer.chosen, perturb, baselines and perturb != ("none",))
    run.write_record(confirmation=summary)
    report = _report(console, run)
    if as_json:
        print(json.dumps({"run_folder": str(run.path)} | summary.model_dump(mode="json"), indent=2))
    elif not brief:
        print_summary(console, plan, run, summary, report=report)
    return 0


def _tracker_of(run: RunFolder, name: str, resume: bool) -> Tracker:
    """The tracker of a run that is about to train. Where it cannot begin nobody trains, and run.json says so:
    a new run failed, and why; a resumed one stands at its checkpoint."""
    try:
        return _tracker(name, run)
    except SurefootError as error:
        if resume:
            run.write_record(status="interrupted")
        else:
            run.write_record(status="failed", error=str(error))
        raise SurefootError(f"{error} {run.path} is marked {run.record.status}.") from error


def _tracker(name: str, run: RunFolder) -> Tracker:
    """With all that the ledger has: nothing yet, or what a resumed run did before."""
    rows = [] if name == "none" else read_ledger(run.ledger.path)[0]
    return make_tracker(name, run.path, run.record.model_dump(mode="json"), rows)


def track_run(console: Console, folder: str, tracker: str) -> int:
    """Shows the ledger of a run that has ended in a tracker."""
    check_tracker(tracker)
    run = RunFolder.open(folder)
    _tracker(tracker, run).close()
    console.print(f"{tracker} has the ledger of {run.path}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _report(console: Console, run: RunFolder) -> Path | None:
    """The run's report; a run that is done is not failed for the want of one."""
    try:
        return write_report([run.path])
    except SurefootError as error:
        console.print(f"No report was written: {error}", highlight=False, markup=False, soft_wrap=True)
        return None


def resumable(run: RunFolder) -> bool:
    """Whether the run can be continued exactly."""
    return run.record.library is None and not isinstance(run.record.contract, OutsideContract)


def _resume_hint(run: RunFolder) -> str:
    here, folder = launched(), shlex.quote(str(run.path))
    if not resumable(run):
        return f"Judge what it has learned with: {surefoot_command()} evaluate {folder} --checkpoint latest"
    command = f"torchrun --nproc-per-node={here.local_world} -m surefoot" if here.world > 1 else ""
    return f"Continue with: {command or surefoot_command()} train --resume {folder}"


def columns_of(plan: Plan, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
    """The columns that were asked for. Nothing outside can be perturbed: `all` is nothing there."""
    if isinstance(plan, RobotPlan):
        return columns(plan.panel, perturb, sweep)
    asked = [p for p in perturb if p not in ("all", "none", NOMINAL)]
    if asked or sweep:
        raise SurefootError(
            f"{plan.task_name} comes from outside and cannot be perturbed; leave out "
            f"{'--perturb ' + ' '.join(asked) if asked else '--sweep'}."
        )
    return ()


def surefoot_command() -> str:
    """How this program was called, so that printed commands can be typed as they are."""
    called = Path(sys.argv[0])
    if called.name == "surefoot" and called.parent.name == "bin":
        try:
            return str(called.absolute().relative_to(Path.cwd()))
        except ValueError:
            return "surefoot"
    return "surefoot"


def _confirm(
    plan: Plan, run: RunFolder, chosen: str, perturb: tuple[str, ...], baselines: bool
) -> PanelSummary:
    """The chosen checkpoint on the confirmation half, with its columns and baselines; exported as the run's
    policy."""
    run.confirm(chosen)
    found, bundle = load_policy(run, "confirmed")
    save_policy(run.path / "policy.safetensors", bundle)
    return evaluate_policy(
        plan,
        run,
        bundle,
        found.digest,
        where="confirmation",
        half="confirmation",
        columns=columns_of(plan, perturb),
        baselines=baselines,
    )


def load_policy(run: RunFolder, name: str) -> tuple[checkpoint.Checkpoint, PolicyBundle]:
    """The policy of a checkpoint. The file's digest is verified as it is read, and the normaliser against the
    digest noted when it was saved and against the one that the learner went on with."""
    found = run.load_checkpoint(name)
    tensors = {k.removeprefix("policy."): v for k, v in found.tensors.items() if k.startswith("policy.")}
    bundle = PolicyBundle(PolicyCard.model_validate(found.meta["policy"]), tensors)
    noted = found.meta.get("normaliser_digest", bundle.normaliser_digest)  # absent before it was noted
    mean = found.tensors.get("learner.obs_normalizer.mean")
    same = mean is None or not bundle.card.normalised or torch.equal(mean, bundle.tensors["mean"])
    if noted != bundle.normaliser_digest or not same:
        raise SurefootError(
            f"The normaliser in checkpoint '{name}' of {run.path} is not the one that it was saved with; "
            "use another checkpoint of the run."
        )
    return found, bundle


def evaluate_policy(
    plan: Plan,
    run: RunFolder,
    policy: Policy,
    digest: str,
    *,
    where: str,
    half: Half,
    columns: tuple[Column, ...],
    engine: str = "auto",
    baselines: bool = True,
    name: str = TRAINED,
) -> PanelSummary:
    """Runs every pass that was asked for, and writes the table beside the run's other panels."""
    begun = time.perf_counter()
    if isinstance(plan, OutsidePlan):
        against = OUTSIDE_BASELINES if baselines else ()
        table, passes = evaluate_seeds(
            plan.task, plan.panel, half, policy, baselines=against, name=name, device=plan.device
        )
    else:
        assert isinstance(plan, RobotPlan)
        table, passes = evaluate_panel(
            plan.task,
            plan.panel,
            half,
            plan.recipe.control_hz,
            policy,
            engine=engine,
            columns=columns,
            baselines=BASELINES if baselines else (),
            name=name,
        )
    summary = summarise(
        table.rows,
        plan.task.contract,
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        half=half,
        construct_id=plan.construct_id,
        training_id=plan.training_id,
        checkpoint=digest,
        engine=str(passes[0].rows["engine"][0]),
        seconds=passes[0].seconds,
        simulated_steps=passes[0].steps,
        normaliser=getattr(policy, "normaliser_digest", ""),
        total_seconds=time.perf_counter() - begun,
        total_steps=table.steps,
    )
    run.save_panel(where, summary, table)
    return summary


def evaluate_run(
    console: Console,
    folder: str,
    panel: str | None,
    half: str,
    engine: str,
    checkpoint_name: str,
    perturb: tuple[str, ...],
    sweep: bool,
    baselines: bool,
    quiet: bool,
) -> PanelSummary:
    """Evaluates a run's checkpoint and writes the result beside the run's other panels."""
    chosen_half = as_half(half)
    run = RunFolder.open(folder)
    plan = plan_of(run)
    if isinstance(plan, OutsidePlan) and (panel is not None or engine not in ("auto", plan.engine)):
        raise SurefootError(
            f"{plan.task_name} comes from outside and has one panel of seeds and its own simulator; "
            "leave out --panel and --engine."
        )
    if panel is not None:
        assert isinstance(plan, RobotPlan)
        plan = on_panel(plan, load_panel(panel))
    asked = columns_of(plan, perturb, sweep)
    if isinstance(plan, RobotPlan):
        engines_for(engine, plan.task, plan.recipe.control_hz)
    prepare_torch()
    policy, digest, name = policy_named(plan, run, checkpoint_name)
    stem = Path(checkpoint_name.replace(":", "-")).stem
    where = f"{half}-{stem}-{digest[:8]}" + ("" if engine == "auto" else f"-{engine}")
    summary = evaluate_policy(
        plan,
        run,
        policy,
        digest,
        where=where,
        half=chosen_half,
        columns=asked,
        engine=engine,
        baselines=baselines,
        name=name,
    )
    if not quiet:
        print_summary(console, plan, run, summary, training=False)
    return summary


def policy_named(plan: Plan, run: RunFolder, name: str) -> tuple[Policy, str, str]:
    """(policy, its digest, what rows call it): a checkpoint, or a baseline as `baseline:hold-pose`."""
    if not name.startswith(PREFIX):
        found, bundle = load_policy(run, name)
        return bundle, found.digest, TRAINED
    if isinstance(plan, OutsidePlan):
        made = outside_baseline(name.removeprefix(PREFIX), plan.task, plan.panel)
    else:
        assert isinstance(plan, RobotPlan)
        task = plan.task
        made = baseline(name, task.contract, task.robot, plan.recipe.control_hz, plan.panel.seeds)
    return made, text_digest(name), name.removeprefix(PREFIX)
