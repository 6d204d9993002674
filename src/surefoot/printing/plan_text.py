"""A plan on one screen: what `surefoot train` prints before it begins. `surefoot plan` prints all of it."""

from __future__ import annotations

from functools import singledispatch

from rich.console import Console
from rich.markup import escape

from surefoot.printing.tables import panel_text
from surefoot.printing.terminal import plain_table, say
from surefoot.runs import typed
from surefoot.training import ExternalPlan, Plan, RobotPlan


def print_plan_briefly(console: Console, plan: Plan) -> None:
    """Prints what is promised, rewarded, randomised and counted, and the ids that freeze it."""
    say(console, _headline(plan))
    table = plain_table("", "", "")
    table.show_header, table.title = False, None
    table.columns[0].no_wrap = True
    for name, text in (*_promises(plan), *_exempt(plan), *_accounting(plan)):
        table.add_row(f"[dim]{name}", text)
    console.print(table, highlight=False, markup=True)
    say(console, f"All of it: {typed('plan', plan.task_name)} with the same options; run.json records it.\n")


def _headline(plan: Plan) -> str:
    where = f"engine {plan.engine}, device {plan.device}"
    return f"{plan.task_name}: {where}, learner {plan.learner}, seed {plan.seeds.root}"


@singledispatch
def _promises(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Returns what the contract says, a line each."""
    raise NotImplementedError(type(plan).__name__)


@_promises.register
def _(plan: ExternalPlan) -> tuple[tuple[str, str], ...]:
    c = plan.task.contract
    return (
        ("environment", f"{c.environment} of {c.source}, up to {c.episode_steps} steps"),
        ("sees, acts", f"{c.observation_size} numbers, {c.action.size} actions"),
        ("reward", "one term, as the environment gives it"),
        ("ends when", "; ".join(t.doc for t in c.terminations)),
        ("success", c.success.doc),
        ("safety", "none: the environment does not tell torques or contacts"),
    )


@_promises.register
def _(plan: RobotPlan) -> tuple[tuple[str, str], ...]:
    c = plan.task.contract
    sizes = [sum(t.size for t in group) for group in (c.observation, c.privileged)]
    prior = f"clock {c.prior.clock_hz:g} Hz, lift {c.prior.lift_rad:g} rad" if c.prior else "no prior"
    ranges = (
        f"{f.name} {'/'.join(f.categories) if f.categories else f'{f.train[0]:g} to {f.train[1]:g}'}"
        for f in c.factors
    )
    return (
        ("robot", f"{c.robot}, {plan.task.robot.mass_kg:.1f} kg, {c.action.size} joint targets, {prior}"),
        ("sees", f"{sizes[0]} numbers; the critic {sizes[1]} more"),
        ("reward, 1/s", ", ".join(f"{w.name} {w.weight:+g}{' each' * w.event}" for w in c.rewards)),
        ("ends when", "; ".join(t.doc or t.name for t in c.terminations)),
        ("success", c.success.brief),
        ("safety", f"{c.safety.doc} <= {100 * c.safety.limit:g}%"),
        ("randomised", ", ".join(ranges)),
    )


def _exempt(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Returns what audits are not to ask, by the contract; nothing where they may ask all."""
    said = "; ".join(f"{name}: {escape(why)}" for name, why in plan.task.contract.exempt.items())
    return (("not audited", said),) if said else ()


def _accounting(plan: Plan) -> tuple[tuple[str, str], ...]:
    c, r, a = plan.task.contract, plan.recipe, plan.accounting
    return (
        (
            "update",
            f"{a.rollout_shape[0]} steps x {a.rollout_shape[1]} environments = {a.samples_per_update:,} "
            f"samples; {r.minibatches} minibatches x {a.sample_reuse} epochs = {a.gradient_steps} steps",
        ),
        (
            "networks",
            f"{' x '.join(map(str, r.hidden))} {r.activation}, PPO clip {r.clip:g}, gamma {r.gamma:g}, "
            f"lambda {r.lam:g}",
        ),
        *([("memory", r.remembers.said(r.horizon, r.control_hz))] if r.remembers else []),
        (
            "seeds",
            f"root {plan.seeds.root}: {a.train_seed_families} families of {a.envs_per_seed_family}; strata "
            f"{a.strata}: {' x '.join(c.strata.names)}",
        ),
        (
            "held out",
            f"{panel_text(plan)}; shared with training: "
            f"{'no key' if plan.disjointness.disjoint else 'keys'} of "
            f"{plan.disjointness.keys_checked:,} checked",
        ),
        (
            "frozen as",
            f"contract {c.digest[:12]}, measurement {plan.measurement_id[:12]}, "
            f"training {plan.training_id[:12]}",
        ),
    )
