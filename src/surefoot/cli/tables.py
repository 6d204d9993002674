"""Tables for people: the plan before a run, the summary after it, tasks and panels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from surefoot.contract import Panel, SurefootError, load_panel, panel_names
from surefoot.reporting import plain_table as _table
from surefoot.reporting import print_columns
from surefoot.statistics import percent as _percent
from surefoot.tasks import task_names
from surefoot.training import ExternalPlan, Plan, RobotPlan, robot_plan

if TYPE_CHECKING:
    from surefoot.runs import RunFolder
    from surefoot.statistics import PanelSummary


def print_plan(console: Console, plan: Plan) -> None:
    """The contract, the recipe with its accounting, the seeds and the strata."""
    if isinstance(plan, ExternalPlan):
        tables = _outside_contract(console, plan)
    else:
        assert isinstance(plan, RobotPlan)
        tables = _robot_contract(console, plan)
    for table in (*tables, _recipe(plan)):
        console.print()
        console.print(table, highlight=False)
    console.print()


def _outside_contract(console: Console, plan: ExternalPlan) -> tuple[Table, ...]:
    c = plan.task.contract
    versions = ", ".join(f"{k} {v}" for k, v in c.versions.items())
    console.print(
        f"[bold]{plan.task_name}[/bold]  {c.environment} of {c.source} ({versions}), device {plan.device}"
    )
    terms = _table("Contract", "", "")
    critic = f"; the critic also {c.privileged[0].size}" if c.privileged else ""
    terms.add_row("observation", f"{c.observation_size} numbers, as the environment gives them{critic}")
    low, high = c.action.low, c.action.high
    bounds = f"-1 to 1 scaled to {low} to {high}" if low and high else "without bounds, as they are"
    terms.add_row("action", f"{c.action.size} numbers {bounds}; clipped to {c.action.clip:g}")
    terms.add_row("reward", "one term, as the environment gives it")
    terms.add_row("ends when", "; ".join(t.doc for t in c.terminations))
    seconds = "of unknown length" if c.step_s is None else f"of {c.step_s:g} s"
    terms.add_row("time limit", f"{c.episode_steps} steps {seconds}")
    terms.add_row("success", c.success.doc)
    terms.add_row("safety", "none: the environment does not tell torques or contacts")
    shared = {"environment": "one for each environment", "batch": "one for all that are stepped together"}
    terms.add_row("seeds", shared[c.seeding])
    return (terms,)


def _robot_contract(console: Console, plan: RobotPlan) -> tuple[Table, ...]:
    c = plan.task.contract
    console.print(
        f"[bold]{plan.task_name}[/bold]  robot {c.robot}, {plan.task.robot.mass_kg:.1f} kg, "
        f"engine {plan.engine} ({plan.engine_reason}), device {plan.device}"
    )
    observed = _table("Observation", "term", "size", "unit", "noise", "seen by")
    for group, who in ((c.observation, "policy"), (c.privileged, "critic only")):
        for t in group:
            observed.add_row(t.name, str(t.size), t.unit, f"±{t.noise:g}" if t.noise else "-", who)
    rewards = _table("Reward, per second", "term", "weight", "parameters")
    for w in c.rewards:
        params = ", ".join(f"{k} {v:g}" for k, v in w.params.items())
        rewards.add_row(w.name, f"{w.weight:+g}" + (" per event" if w.event else ""), params)
    terms = _table("Contract", "", "")
    terms.add_row(
        "action", f"{c.action.size} joint targets = default pose + {c.action.scale_rad:g} rad x action"
    )
    prior = c.prior
    terms.add_row(
        "prior",
        f"gait clock {prior.clock_hz:g} Hz and a lift of {prior.lift_rad:g} rad"
        if prior
        else "none: no clock, no feed-forward",
    )
    terms.add_row("ends when", "; ".join(t.doc or t.name for t in c.terminations))
    s = c.success
    terms.add_row(
        "success",
        f"no fall, mean velocity error < {s.velocity_error_mps:g} m/s and yaw error < "
        f"{s.yaw_error_radps:g} rad/s after {s.settle_s:g} s",
    )
    terms.add_row("safety", f"{c.safety.doc} <= {100 * c.safety.limit:g}%")
    factors = _table("Randomisation", "factor", "level", "training", "held-out panel", "unit")
    for f in c.factors:
        train = ", ".join(f.categories) if f.categories else f"{f.train[0]:g} .. {f.train[1]:g}"
        held = ", ".join(f.held_out_categories) if f.categories else f"{f.held_out[0]:g} .. {f.held_out[1]:g}"
        factors.add_row(f.name, f.level, train, held or "-", f.unit)
    return terms, observed, rewards, factors


def _physics(plan: Plan) -> str:
    p, e = plan.plant, plan.evaluation
    if p is None or e is None:
        return "the environment's own"
    return (
        f"{p.dt_s:g} s x {p.decimation}, {p.cone}; evaluation {e.dt_s:g} s x {e.decimation}, {e.cone}, "
        "converged"
    )


def _recipe(plan: Plan) -> Table:
    c, r, a = plan.task.contract, plan.recipe, plan.accounting
    recipe = _table("Recipe and accounting", "", "")
    for name, value in (
        (
            "rollout block",
            f"{a.rollout_shape[0]} steps x {a.rollout_shape[1]} environments = "
            f"{a.samples_per_update:,} samples per update",
        ),
        (
            "robot time",
            f"{a.seconds_per_env:g} s per environment, {a.aggregate_robot_seconds:,.2f} s in all per update",
        ),
        (
            "minibatches",
            f"{r.minibatches} of {a.minibatch_size:,}, {a.sample_reuse} epochs (sample reuse), "
            f"{a.gradient_steps} gradient steps",
        ),
        ("policy lag", f"at most {a.policy_lag[0]} control steps and {a.policy_lag[1]} epochs"),
        ("physics", _physics(plan)),
        (
            "networks",
            f"{' x '.join(map(str, r.hidden))} {r.activation} for both, PPO clip {r.clip:g}, "
            f"gamma {r.gamma:g}, lambda {r.lam:g}",
        ),
        (
            "seeds",
            f"root {plan.seeds.root}: {a.train_seed_families} families x "
            f"{a.envs_per_seed_family} environments",
        ),
        ("strata", f"{a.strata}: {' x '.join(c.strata.names)}"),
        ("buffer", f"{a.buffer_bytes / 1e6:.1f} MB"),
        (
            "panel",
            f"{plan.panel.name}: {a.eval_envs} scenarios in {a.eval_seed_families} families; "
            f"held out: {plan.disjointness.disjoint}, {plan.disjointness.keys_checked:,} keys checked",
        ),
        ("contract", c.digest[:16]),
        ("construct id", plan.construct_id[:16]),
        ("training id", plan.training_id[:16]),
    ):
        recipe.add_row(f"[dim]{name}", value)
    return recipe


def print_summary(
    console: Console,
    plan: Plan,
    run: RunFolder,
    s: PanelSummary,
    training: bool = True,
    report: Path | None = None,
) -> None:
    """What came out, where it is, and what to type next."""
    from surefoot.runs import resumable, surefoot_command

    def number(name: str, unit: str) -> str:
        value, f = getattr(s, name), s.figures.get(name)
        text = "not measured" if value is None else f"{value:.3f} {unit}".rstrip()
        if f is None or f.low is None or f.high is None:
            return text
        few = ", few families" if f.few else ""
        return f"{text}  ({f.low:.3f} to {f.high:.3f}; n {f.n}, n_eff {f.n_eff:.1f}{few})"

    table = _table(
        f"{plan.task_name} on {s.panel}, {s.half} half "
        f"({s.episodes} episodes, {s.effective_episodes:g} effective)",
        "",
        "",
    )
    table.add_row(
        "success",
        f"[bold]{_percent(s.success)}[/bold]  "
        f"(95% interval {_percent(s.success_low)} to {_percent(s.success_high)})",
    )
    fell = s.figures.get("fall")
    table.add_row(
        "fall rate" if isinstance(plan, RobotPlan) else "ended early",
        f"{_percent(s.fall_rate)}  ({_percent(s.fall_low)} to {_percent(s.fall_high)}"
        + (f"; n {fell.n}, n_eff {fell.n_eff:.1f})" if fell else ")"),
    )
    if isinstance(plan, RobotPlan):
        table.add_row("velocity error", number("velocity_error_mps", "m/s"))
        table.add_row("yaw-rate error", number("yaw_error_radps", "rad/s"))
        table.add_row("energy", number("cost_of_transport", "cost of transport"))
    iqm = s.figures.get("return_iqm")
    if iqm is not None and iqm.low is not None and iqm.high is not None:
        worth = f"({iqm.low:.2f} to {iqm.high:.2f}; n {iqm.n}, n_eff {iqm.n_eff:.1f})"
        table.add_row("return", f"{iqm.value:.2f} interquartile mean  {worth}")
    if s.torque_saturation is not None:
        held = "held" if s.safety_held else "BROKEN"
        table.add_row("safety", f"{held}: torque at its limit on {_percent(s.torque_saturation)} of steps")
    table.add_row("episodes ended by", ", ".join(f"{k} {v}" for k, v in s.end_reasons.items()))
    if len(s.success_by_terrain) > 1:
        table.add_row("by terrain", ", ".join(f"{k} {_percent(v)}" for k, v in s.success_by_terrain.items()))
    f = run.record.figures
    if training and f:
        table.add_row("samples", f"{f['samples']:,} in {f['updates']} updates")
        table.add_row("speed", f"{f['steps_per_second'] or 0:,.0f} steps/s")
        table.add_row(
            "wall-clock",
            f"{f['train_seconds'] or 0:.0f} s training + {f['evaluation_seconds'] or 0:.0f} s evaluation",
        )
    if s.labels:
        table.add_row("failures", ", ".join(f"{k} {v}" for k, v in s.labels.items()))
    table.add_row("run folder", escape(str(run.path)))
    if report is not None:
        table.add_row("report", escape(str(report)))
    console.print()
    console.print(table, highlight=False)
    print_columns(console, s)
    me = surefoot_command()
    console.print("\n[bold]Next[/bold]")
    curves = (f"tensorboard --logdir {run.path.parent}", "curves of every ledger figure")
    longer = f"{me} train --resume {run.path} --minutes {int((f.get('train_seconds') or 0) / 60) + 5}"
    for command, why in (
        (f"{me} evaluate {run.path} --half all", "both halves of the panel"),
        *([(longer, "train on, exactly from here")] if resumable(run) else []),
        (f"{me} serve --runs {run.path.parent}", "reports of all runs, side by side"),
        *([curves] if (run.path / "tensorboard").is_dir() else []),
    ):
        console.print(f"  {escape(command)}   [dim]# {why}", highlight=False, soft_wrap=True)


def print_engines(console: Console, as_json: bool) -> None:
    from surefoot.engines import ENGINES
    from surefoot.engines.stride import CAPABILITIES

    if as_json:
        print(json.dumps({"engines": ENGINES, "stride": dict(CAPABILITIES)}, indent=2))
        return
    table = _table("Engines (--engine)", "engine", "what it is")
    table.add_row(
        "auto", "stride where it can represent the robot, else MuJoCo Warp on CUDA, else native MuJoCo"
    )
    for name, what in ENGINES.items():
        table.add_row(name, what)
    console.print(table, "")
    can = _table("What stride can represent", "", "")
    for what, whether in CAPABILITIES:
        can.add_row(what, whether)
    console.print(can)


def print_tasks(console: Console, as_json: bool) -> None:
    plans, broken = {}, {}
    for name in task_names():
        try:
            plans[name] = robot_plan(name)
        except SurefootError as error:  # of one package; the others' tasks can still be trained
            broken[name] = str(error)
    if as_json:
        rows = {
            n: {
                "robot": p.task.contract.robot,
                "panel": p.panel.name,
                "construct_id": p.construct_id,
                "prior": p.task.contract.prior is not None,
            }
            for n, p in plans.items()
        }
        print(json.dumps(rows, indent=2))
        return
    table = _table("Tasks", "task", "robot", "prior", "panel", "until", "at most")
    for n, p in plans.items():
        c = p.task.contract
        table.add_row(
            n,
            c.robot,
            "clock, lift" if c.prior else "none",
            p.panel.name,
            _percent(p.task.until),
            f"{p.task.minutes:g} min",
        )
    console.print(table, highlight=False)
    for name, why in broken.items():
        console.print(f"{name}: {why}", style="red", highlight=False, markup=False)
    console.print(
        "\nUntil: held-out success, twice in a row. All of a task: surefoot plan TASK.\n"
        "Your own: surefoot train package.module:name (docs/extending.md)",
        highlight=False,
    )


def print_panels(console: Console, name: str, as_json: bool) -> None:
    panels: list[Panel] = [load_panel(n) for n in ([name] if name else panel_names())]
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "name": p.name,
                        "digest": p.digest,
                        "scenarios": len(p.scenarios),
                        "families": p.seeds.families,
                    }
                    for p in panels
                ],
                indent=2,
            )
        )
        return
    table = _table(
        "Panels",
        "panel",
        "scenarios",
        "seconds",
        "families",
        "selection",
        "confirmation",
        "terrain",
        "digest",
    )
    for p in panels:
        classes = sorted({s.terrain.cls for s in p.scenarios})
        table.add_row(
            p.name,
            str(len(p.scenarios)),
            f"{p.episode_s:g}",
            str(p.seeds.families),
            str(len(p.select("selection"))),
            str(len(p.select("confirmation"))),
            ", ".join(classes),
            p.digest[:12],
        )
    console.print(table, highlight=False)
