"""Tables for people: the plan before a run, the summary after it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from surefoot.printing.agreement import sim_to_sim
from surefoot.printing.audits import print_verdict_line
from surefoot.printing.panels import beyond_shares, power_rows, values_there
from surefoot.printing.terminal import plain_table, say, say_commands

if TYPE_CHECKING:
    from surefoot.evidence import Fault, Judgement
    from surefoot.runs import RunFolder, TimeParts
    from surefoot.statistics import ColumnSummary, Grade, PanelSummary
    from surefoot.training import ExternalPlan, Plan, RobotPlan

LITTLE = 0.02
"""The share of a machine's memory that a buffer may take without a word."""
COLOURS: dict[Grade, str] = {"good": "green", "mixed": "yellow", "bad": "red", "unproven": "red"}


def print_plan(console: Console, plan: Plan) -> None:
    """Prints the contract, the recipe with its accounting, the seeds and the strata."""
    from surefoot.training import ExternalPlan, RobotPlan

    assert isinstance(plan, ExternalPlan | RobotPlan)
    contract = _outside(plan, console) if isinstance(plan, ExternalPlan) else _robot(plan, console)
    for table in (*contract, _recipe(plan)):
        console.print()
        console.print(table, highlight=False)
    console.print()


def _exempt(terms: Table, plan: Plan) -> None:
    """Adds what audits are not to ask, by the contract."""
    for name, why in plan.task.contract.exempt.items():
        terms.add_row("not audited", f"{name}: {escape(why)}")


def _outside(plan: ExternalPlan, console: Console) -> tuple[Table, ...]:
    """Returns what a run from outside promises, in tables; the headline is printed."""
    c = plan.task.contract
    versions = ", ".join(f"{k} {v}" for k, v in c.versions.items())
    console.print(
        f"[bold]{plan.task_name}[/bold]  {c.environment} of {c.source} ({versions}), device {plan.device}"
    )
    terms = plain_table("Contract", "", "")
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
    _exempt(terms, plan)
    shared = {"environment": "one for each environment", "batch": "one for all that are stepped together"}
    terms.add_row("seeds", shared[c.seeding])
    return (terms,)


def _robot(plan: RobotPlan, console: Console) -> tuple[Table, ...]:
    """Returns what a robot's run promises, in tables; the headline is printed."""
    c = plan.task.contract
    console.print(
        f"[bold]{plan.task_name}[/bold]  robot {c.robot}, {plan.task.robot.mass_kg:.1f} kg, "
        f"engine {plan.engine} ({plan.engine_reason}), device {plan.device}"
    )
    observed = plain_table("Observation", "term", "size", "unit", "noise", "seen by")
    for group, who in ((c.observation, "policy"), (c.privileged, "critic only")):
        for t in group:
            observed.add_row(t.name, str(t.size), t.unit, f"±{t.noise:g}" if t.noise else "-", who)
    rewards = plain_table("Reward, per second", "term", "weight", "parameters")
    for w in c.rewards:
        params = ", ".join(f"{k} {v:g}" for k, v in w.params.items())
        rewards.add_row(w.name, f"{w.weight:+g}" + (" per event" if w.event else ""), params)
    terms = plain_table("Contract", "", "")
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
    terms.add_row("success", c.success.doc)
    terms.add_row("safety", f"{c.safety.doc} <= {100 * c.safety.limit:g}%")
    _exempt(terms, plan)
    factors = plain_table("Randomisation", "factor", "level", "training", "panel has", "of it beyond", "unit")
    shares, there = beyond_shares(plan.panel, c), values_there(plan.panel)
    for f in c.factors:
        train = ", ".join(f.categories) if f.categories else f"{f.train[0]:g} .. {f.train[1]:g}"
        low, high = there.get(f.name, f.held_out)
        held = ", ".join(f.held_out_categories) if f.categories else f"{low:.3g} .. {high:.3g}"
        share = shares.get(f.name)
        factors.add_row(f.name, f.level, train, held or "-", f"{100 * share:.0f}%" if share else "-", f.unit)
    return terms, observed, rewards, factors


def panel_text(plan: Plan) -> str:
    """Says how many scenarios a panel has, and what is independent of what in it."""
    p = plan.panel
    halves = f"{len(p.select('selection'))} to select on, {len(p.select('confirmation'))} to confirm on"
    if p.size == len(p.scenarios):
        return f"{p.name}: {halves}, each independent of all others"
    return f"{p.name}: {halves}, in {plan.accounting.eval_seed_families} families"


def _physics(plan: Plan) -> str:
    p, e = plan.training_plant, plan.evaluation_plant
    if p is None or e is None:
        return "the environment's own"
    return (
        f"{p.dt_s:g} s x {p.decimation}, {p.cone}; evaluation {e.dt_s:g} s x {e.decimation}, {e.cone}, "
        "converged"
    )


def _recipe(plan: Plan) -> Table:
    c, r, a = plan.task.contract, plan.recipe, plan.accounting
    recipe = plain_table("Recipe and accounting", "", "")
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
        ("memory", r.remembers.said(r.horizon, r.control_hz)),
        (
            "seeds",
            f"root {plan.seeds.root}: {a.train_seed_families} families x "
            f"{a.envs_per_seed_family} environments",
        ),
        ("strata", f"{a.strata}: {' x '.join(c.strata.names)}"),
        ("buffer", f"{a.buffer_bytes / 1e6:.1f} MB{_of_memory(plan)}"),
        (
            "panel",
            f"{panel_text(plan)}; held out: {plan.disjointness.disjoint}, "
            f"{plan.disjointness.keys_checked:,} keys checked",
        ),
        *power_rows(plan.panel),
        ("contract", c.digest[:16]),
        ("measurement id", plan.measurement_id[:16]),
        ("interface id", plan.interface_id[:16]),
        ("training id", plan.training_id[:16]),
    ):
        recipe.add_row(f"[dim]{name}", value)
    return recipe


def _of_memory(plan: Plan) -> str:
    """Says how much memory the machine has that a plan's buffer is to lie in; that of a GPU is its own."""
    from surefoot.compute import memory_bytes

    have = None if plan.device.startswith("cuda") else memory_bytes()
    if have is not None and plan.accounting.buffer_bytes < LITTLE * have:
        return ""
    return "" if have is None else f" of the machine's {have / 1e9:.1f} GB of memory"


def seconds_text(seconds: float | None) -> str:
    """Writes seconds as people read them: with a decimal below ten."""
    if seconds is None:
        return "not measured"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:,.0f} s"


def _unit(s: PanelSummary) -> str:
    """Says what the intervals of a summary take for independent."""
    success = s.figures.get("success")
    return f"; independent: each {success.unit}" if success else ""


def time_text(t: TimeParts) -> str:
    """Writes what a run took, by part."""
    parts = {
        "start-up": t.startup,
        "training": t.training,
        "selection": t.selection,
        "confirmation": t.confirmation,
        "other": t.other,
    }
    said = ", ".join(f"{seconds_text(v)} {k}" for k, v in parts.items() if v is not None)
    return f"{seconds_text(t.total)} in all: {said}" if t.measured else f"{said} (start-up not measured)"


def print_summary(
    console: Console,
    plan: Plan,
    run: RunFolder,
    folder: Path,
    training: bool = True,
    report: Path | None = None,
) -> None:
    """Prints what the panel pass in `folder` shows, where it is, and what to type next."""
    from surefoot.evidence import judgement
    from surefoot.runs import caveat, load_pass, resumable, time_parts, typed, typed_resume
    from surefoot.statistics import LOOKS, percent

    judged = judgement(load_pass(run, folder))
    s = judged.summary

    def number(name: str, unit: str) -> str:
        f = s.figures.get(name)
        value = getattr(s, name, f.value if f else None)
        text = "not measured" if value is None else f"{value:.3f} {unit}".rstrip()
        if f is None or f.low is None or f.high is None:
            return text
        few = ", few families" if f.few else ""
        return f"{text}  ({f.low:.3f} to {f.high:.3f}; n {f.n}, n_eff {f.n_eff:.1f}{few})"

    table = plain_table(
        f"{plan.task_name} on {s.panel}, {s.half} half "
        f"({s.episodes} episodes, {s.effective_episodes:g} effective{_unit(s)})",
        "",
        "",
    )
    table.add_row(
        "success",
        f"[bold]{percent(s.success)}[/bold]  "
        f"({100 * s.confidence:g}% interval {percent(s.success_low)} to {percent(s.success_high)})",
    )
    if s.look:
        table.add_row("looks", f"ended at look {s.look} of {len(LOOKS)}; the interval allows for all of them")
    fell = s.figures.get("fall")
    table.add_row(
        plan.early_end,
        f"{percent(s.fall_rate)}  ({percent(s.fall_low)} to {percent(s.fall_high)}"
        + (f"; n {fell.n}, n_eff {fell.n_eff:.1f})" if fell else ")"),
    )
    for label, name, unit in plan.motion_metrics:
        table.add_row(label, number(name, unit))
    iqm = s.figures.get("return_iqm")
    if iqm is not None and iqm.low is not None and iqm.high is not None:
        worth = f"({iqm.low:.2f} to {iqm.high:.2f}; n {iqm.n}, n_eff {iqm.n_eff:.1f})"
        table.add_row("return", f"{iqm.value:.2f} interquartile mean  {worth}")
    if s.torque_saturation is not None:
        held = "held" if s.safety_held else "BROKEN"
        table.add_row("safety", f"{held}: torque at its limit on {percent(s.torque_saturation)} of steps")
    table.add_row("episodes ended by", ", ".join(f"{k} {v}" for k, v in s.end_reasons.items()))
    if len(s.success_by_terrain) > 1:
        table.add_row("by terrain", ", ".join(f"{k} {percent(v)}" for k, v in s.success_by_terrain.items()))
    f = run.record.figures
    if training and f:
        table.add_row("samples", f"{f['samples']:,} in {f['updates']} updates")
        table.add_row("speed", f"{f['steps_per_second'] or 0:,.0f} steps/s")
        table.add_row("wall-clock", time_text(time_parts(run.record)))
    if s.labels:
        table.add_row("failures", ", ".join(f"{k} {v}" for k, v in s.labels.items()))
    normaliser = f", of its normaliser {s.normaliser[:12]}" if s.normaliser else ""
    table.add_row("digests", f"SHA-256 of the evaluated policy's file {s.checkpoint[:12]}{normaliser}")
    table.add_row("run folder", escape(str(run.path)))
    if report is not None:
        table.add_row("report", escape(str(report)))
    console.print()
    console.print(table, highlight=False)
    print_columns(console, judged)
    if training:
        print_verdict_line(console, judged.audit)
    said = caveat(run)
    if said:
        say(console, said, style="yellow")
    console.print("\n[bold]Next[/bold]")
    curves = (shlex.join(["tensorboard", "--logdir", str(run.path.parent)]), "curves of every ledger figure")
    minutes = int((f.get("train_seconds") or 0) / 60) + 5
    longer = typed_resume(run, "--minutes", minutes)
    say_commands(
        console,
        (
            *_ask_more(run, judged),
            (typed("evaluate", run.path, "--half", "all"), "both halves of the panel"),
            *([(longer, "train on, exactly from here")] if resumable(run) else []),
            (typed("serve", "--runs", run.path.parent), "reports of all runs, side by side"),
            *([curves] if (run.path / "tensorboard").is_dir() else []),
        ),
    )


def _ask_more(run: RunFolder, judged: Judgement) -> list[tuple[str, str]]:
    """Returns the commands that follow from an audit: what a finding means, or what was not asked yet."""
    from surefoot.runs import typed

    if judged.audit is not None and judged.audit.proof:
        first = judged.audit.proof[0].detector
        return [(typed("audit", "--explain", first), "what was asked, and what to do about it")]
    if judged.audit is None or not judged.audit.full:
        return [(typed("audit", run.path), "is this run what it says? Every detector, in half a minute")]
    return []


def print_columns(console: Console, judged: Judgement) -> None:
    """Prints the columns beside the nominal one, the baselines, and what follows from all of them."""
    console.print()
    if len(judged.summary.columns) > 1:
        console.print(_columns(judged.summary), highlight=False)
        console.print()
    for line in verdicts(judged):
        say(console, line, markup=True)


def _columns(s: PanelSummary) -> Table:
    table = plain_table(
        f"Columns: the same {s.episodes} scenarios each; on stride unless it says otherwise; errors in m/s",
        "column", "success", "95%", "falls", "error", "n_eff", "holds", "most failures",
    )  # fmt: skip
    table.padding = (0, 1, 0, 0)
    for column in table.columns:
        column.no_wrap = True
    for c in s.columns:
        table.add_row(*_row(c))
    return table


def _row(c: ColumnSummary) -> tuple[str, ...]:
    from surefoot.statistics import percent

    most = max(c.labels.items(), key=lambda x: x[1], default=None)
    return (
        c.column.removeprefix("baseline:")
        + ("" if c.engine == "stride" else f", {c.engine.removeprefix('mujoco-')}"),
        percent(c.success),
        f"{100 * c.success_low:.0f}-{100 * c.success_high:.0f}",
        percent(c.fall_rate),
        "-" if c.velocity_error_mps is None else f"{c.velocity_error_mps:.3f}",
        f"{c.effective_episodes:.1f}",
        "yes" if c.holds else "no",
        f"{most[0]} {most[1]}" if most else "-",
    )


def _from_to(s: PanelSummary, tag: str) -> str:
    """Writes the interval of a transfer tag; that of a column is of the engine where it holds."""
    cls = tag.removeprefix("terrain:")
    if cls in s.terrain and cls != tag:
        low, high = s.terrain[cls].low, s.terrain[cls].high
    else:
        column = next(c for c in s.columns if c.column == tag and c.holds)
        low, high = column.success_low, column.success_high
    return "not measured" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f}%"


def _fault(f: Fault) -> str:
    """Says what speaks against a result: an audit's finding, or where its files contradict each other."""
    from surefoot.evidence import AUDIT_CHECK

    if f.check == AUDIT_CHECK:
        return f"[bold red]Audit, on the proof:[/] {escape(f.says)}"
    return f"[bold red]Contradiction:[/] {escape(str(f))}"


def verdicts(judged: Judgement) -> list[str]:
    """Says in sentences what the columns show; before that, in what the files contradict each other."""
    from surefoot.statistics import HOLDS_AT, percent

    s = judged.summary
    out = [_fault(f) for f in judged.faults]
    out += [escape(remark) for remark in judged.remarks]
    out += [
        f"[bold {COLOURS[judged.grade]}]{judged.word}:[/] {percent(s.success)} of {s.episodes} held-out "
        f"episodes succeed ({100 * s.confidence:g}% interval {percent(s.success_low)} to "
        f"{percent(s.success_high)}, "
        f"n_eff {s.effective_episodes:g})"
        + ("; the safety limit is broken." if s.safety_held is False else ".")
    ]
    if s.beats_baselines is False:
        out.append(
            "[bold red]It does not beat the baselines:[/bold red] its success interval is not above that of "
            "every baseline, so nothing is shown to be learned."
        )
    elif s.beats_baselines:
        out.append("It beats every baseline: its success interval lies above theirs.")
    held = ", ".join(f"{tag} ({_from_to(s, tag)})" for tag in s.transfer) or "nothing"
    out.append(f"Shown to hold (success interval from {HOLDS_AT:.0%} up): {held}.")
    out += sim_to_sim(s)
    if s.total_seconds and s.total_steps_per_second:
        out.append(
            f"Evaluated {len(s.columns)} {'column' if len(s.columns) == 1 else 'columns'} in "
            f"{seconds_text(s.total_seconds)} "
            f"({s.total_steps_per_second:,.0f} steps/s)."
        )
    return out
