"""Would other conditions have another id? Fields of contract and plan are changed one by one, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.contract import (
    CodeDigests,
    Plant,
    Recipe,
    TaskContract,
    digest,
    interface_fields,
    measurement_fields,
    training_id,
)

ENDS_M = 0.01
Change = tuple[str, TaskContract]


def look(case: Case) -> list[Found]:
    """Changes what a result may not be compared across, and what is treatment, and looks at the ids."""
    return [*_measured(case), *_treated(case), *_wired(case)]


def judged_otherwise(c: TaskContract) -> Iterator[Change]:
    """Yields contracts under which an episode would be another, or be judged otherwise."""

    def with_term(field: str, name: str, **values: Any) -> TaskContract:
        terms = tuple(
            t.model_copy(update=values) if t.name == name else t for t in getattr(c, field)
        )  # fmt: skip
        return c.model_copy(update={field: terms})

    for t in c.observation:
        if t.noise:
            yield f"the noise of '{t.name}'", with_term("observation", t.name, noise=2 * t.noise)
    for e in c.terminations:
        params = {k: v + ENDS_M for k, v in e.params.items()} or {"else": 1.0}
        yield f"where '{e.name}' ends an episode", with_term("terminations", e.name, params=params)
    s = c.success
    for name in ("velocity_error_mps", "yaw_error_radps", "settle_s"):
        moved = s.model_copy(update={name: getattr(s, name) + ENDS_M})
        yield f"'{name}' of success", c.model_copy(update={"success": moved})
    if s.windows is not None:
        windows = s.windows.model_copy(update={"share": s.windows.share - ENDS_M})
        moved = s.model_copy(update={"windows": windows})
        yield "the share of windows that success asks for", c.model_copy(update={"success": moved})
    safety = c.safety.model_copy(update={"limit": c.safety.limit + ENDS_M})
    yield "the safety limit", c.model_copy(update={"safety": safety})
    yield "the robot", c.model_copy(update={"robot_digest": "another"})
    zone = c.command.model_copy(update={"dead_zone": c.command.dead_zone + ENDS_M})
    yield "the dead zone of commands", c.model_copy(update={"command": zone})


def _measured(case: Case) -> Iterator[Found]:
    plan, panel = case.robot, case.robot.panel
    contract, plant, code = plan.task.contract, plan.evaluation_plant, CodeDigests()

    def of(
        c: TaskContract = contract, panel_digest: str = panel.digest, p: Plant = plant, d: CodeDigests = code
    ) -> str:
        return digest(measurement_fields(c, panel.name, panel_digest, p, d))

    missed = [what for what, c in judged_otherwise(contract) if of(c) == of()]
    missed += ["the scenarios of the panel"] * (of(panel_digest="another") == of())
    plants: dict[str, Any] = {
        "dt_s": plant.dt_s / 2, "impratio": plant.impratio + 1, "cone": "pyramidal", "tolerance": 1.0,
        "iterations": 1, "joint_dry_friction": not plant.joint_dry_friction,
    }  # fmt: skip
    for name, value in plants.items():
        if of(p=plant.model_copy(update={name: value})) == of():
            missed.append(f"'{name}' of the plant")
    codes: dict[str, Any] = {
        "metrics": "another", "engine": "another", "engine_version": "another", "mujoco": "another",
        "terrain": {"stairs_up": "another"},
        "terminations": {t.name: "another" for t in contract.terminations},
    }  # fmt: skip
    for name, value in codes.items():
        if of(d=code.model_copy(update={name: value})) == of():
            missed.append(f"the code or version of '{name}'")
    yield from _told("measurement id", missed, "results that may not be compared would count as comparable")


def _treated(case: Case) -> Iterator[Found]:
    r, plan = case.record, case.plan
    contract, recipe, seeds = r.contract, r.recipe, r.seeds
    assert isinstance(contract, TaskContract)

    def of(
        c: TaskContract = contract, how: Recipe = recipe, engine: str = r.engine, learner: str = r.learner
    ) -> str:
        return training_id(c, how, plan.training_plant, engine, learner, seeds)

    missed = []
    for factor in contract.factors:
        other = factor.model_copy(update={"train": (factor.train[0], factor.train[1] + 0.5)})
        factors = tuple(other if f.name == factor.name else f for f in contract.factors)
        if of(contract.model_copy(update={"factors": factors})) == of():
            missed.append(f"the training range of '{factor.name}'")
    for term in contract.rewards:
        heavier = term.model_copy(update={"weight": term.weight + 1})
        rewards = tuple(heavier if t.name == term.name else t for t in contract.rewards)
        if of(contract.model_copy(update={"rewards": rewards})) == of():
            missed.append(f"the weight of '{term.name}'")
    for name in ("envs", "horizon", "epochs", "minibatches", "gamma", "lam", "clip", "entropy", "init_std"):
        if of(how=recipe.model_copy(update={name: getattr(recipe, name) * 2})) == of():
            missed.append(f"'{name}' of the recipe")
    missed += ["what the policy remembers"] * (of(how=other_memory(recipe)) == of())
    missed += ["the engine"] * (of(engine="another") == of())
    missed += ["the learner"] * (of(learner="another") == of())
    yield from _told("training id", missed, "two treatments would be taken for one")


def other_memory(recipe: Recipe) -> Recipe:
    """Returns a recipe under which a policy remembers something else."""
    return recipe.model_copy(update={"memory": "window:2" if recipe.memory != "window:2" else "window:3"})


def _wired(case: Case) -> Iterator[Found]:
    plan = case.robot
    contract, hz, code = plan.task.contract, plan.recipe.control_hz, CodeDigests()
    memory = plan.recipe.remembers
    own = digest(interface_fields(contract, hz, code, memory))
    missed = []
    for field in ("scale_rad", "clip"):
        action = contract.action.model_copy(update={field: getattr(contract.action, field) * 2})
        changed = contract.model_copy(update={"action": action})
        missed += [f"'{field}' of actions"] * (digest(interface_fields(changed, hz, code, memory)) == own)
    for t in contract.observation:
        other = t.model_copy(update={"scale": 2 * t.scale})
        terms = tuple(other if x.name == t.name else x for x in contract.observation)
        changed = contract.model_copy(update={"observation": terms})
        missed += [f"the scale of '{t.name}'"] * (digest(interface_fields(changed, hz, code, memory)) == own)
    remembers = other_memory(plan.recipe).remembers
    missed += ["what is remembered"] * (digest(interface_fields(contract, hz, code, remembers)) == own)
    missed += ["the control rate"] * (digest(interface_fields(contract, 2 * hz, code, memory)) == own)
    yield from _told("interface id", missed, "two ways to be wired would be taken for one")


def _told(name: str, missed: list[str], so: str) -> Iterator[Found]:
    if missed:
        more = f" and {len(missed) - 3} more" if len(missed) > 3 else ""
        yield Found(f"The {name} stays the same when {', '.join(missed[:3])}{more} changes: {so}.")


DETECTORS = (
    Detector(
        name="identity",
        kind="proof",
        cause="bookkeeping",
        asks="Would other conditions, another treatment or another wiring have an id of their own?",
        statistic="measurement, training and interface ids when one field of contract, panel, plant, code or "
        "recipe is changed, in memory, one after the other",
        threshold="none: each change makes another id",
        means="Results that cannot be compared would be compared, and nobody would be told.",
        remedy="Look at contract/identity.py for the field that is named.",
        look=look,
        needs=("robot",),
        short=True,
    ),
)
