"""A run folder read back: the plan that it was started with, and its policies."""

from __future__ import annotations

import torch
from pydantic import ValidationError

from surefoot.compute import SINGLE, ProcessGroup, local_device
from surefoot.contract import TRAINED, ExternalContract, SurefootError, TaskContract, text_digest
from surefoot.policy import PREFIX, Policy, PolicyBundle, PolicyCard
from surefoot.runs import Checkpoint, RunFolder, section
from surefoot.training.plan import Plan, RobotPlan
from surefoot.training.plan_makers import make_plan


def restore_plan(run: RunFolder, group: ProcessGroup = SINGLE) -> Plan:
    """Returns the plan that a run folder was started with; refused when the task has changed since."""
    r = run.record
    plan = make_plan(
        r.task,
        overrides=r.recipe.model_dump(),
        seed=r.seeds.root,
        engine=r.engine,
        device=local_device(r.device),
        processes=group.world,
        learner=r.learner,
        timeouts=r.library.timeouts if r.library else "stock",
        trained_with=r.library.version if r.library else None,
        collection=r.collection,
        by_actors="actors" in r.versions,
        restored=True,
        judged_by=r.contract if isinstance(r.contract, TaskContract) else None,
        success_return=r.contract.success.return_at_least
        if isinstance(r.contract, ExternalContract)
        else None,
    )
    if isinstance(r.contract, ExternalContract):
        then, now = r.contract.versions, plan.simulator_versions()
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


def restore_robot_plan(run: RunFolder) -> RobotPlan:
    """Returns the plan of a run whose robot is known; others are refused."""
    plan = restore_plan(run)
    if not isinstance(plan, RobotPlan):
        raise SurefootError(
            f"{run.path} was trained on {plan.task_name}, which comes from outside: there is no robot to "
            "replay; judge its episodes with `surefoot evaluate` and `surefoot report`."
        )
    return plan


def check_resumable(run: RunFolder, anew: bool = False) -> None:
    """Refuses to continue a run that cannot be continued exactly; with `anew` environments may begin new
    episodes where their state cannot be saved."""
    r = run.record
    if r.learner != "ppo":
        raise SurefootError(
            f"{run.path} was trained by {r.learner}, whose runs cannot be continued exactly; "
            "train anew with another --out."
        )
    if isinstance(r.contract, ExternalContract) and not anew:
        raise SurefootError(
            f"{run.path} was trained on {r.task}, whose simulator's state cannot be saved; it "
            "cannot be continued exactly, so train anew with another --out and larger limits, or go on with "
            "new episodes and a fleet (--actors M)."
        )


def load_policy(run: RunFolder, name: str) -> tuple[Checkpoint, PolicyBundle]:
    """Returns a checkpoint (or a policy bundle, where `name` is the file of one) and its policy. The file's
    digest is verified as it is read, and the normaliser against the digest stored when it was saved and
    against the one that the learner went on with."""
    loaded = run.load_checkpoint(name)
    try:
        card = PolicyCard.model_validate(loaded.meta["policy"])
    except (KeyError, ValidationError) as error:
        raise SurefootError(
            f"'{name}' says of its policy what this Surefoot version does not understand; use another "
            f"checkpoint of {run.path}."
        ) from error
    # A bundle is a policy and nothing else; a checkpoint has it among its other tensors.
    bundle = PolicyBundle(card, section("policy", loaded.tensors) or loaded.tensors)
    if card.control_hz != run.record.recipe.control_hz:
        raise SurefootError(
            f"The policy in '{name}' acts at {card.control_hz:g} Hz and {run.path} at "
            f"{run.record.recipe.control_hz:g} Hz; use one that was trained at that rate."
        )
    digest = loaded.meta.get("normaliser_digest", bundle.normaliser_digest)  # old checkpoints have none
    mean = loaded.tensors.get("learner.obs_normalizer.mean")
    same = mean is None or not card.normalised or torch.equal(mean, bundle.tensors["mean"])
    if digest != bundle.normaliser_digest or not same:
        raise SurefootError(
            f"The normaliser in checkpoint '{name}' of {run.path} is not the one that it was saved with; "
            "use another checkpoint of the run."
        )
    return loaded, bundle


def resolve_policy(plan: Plan, run: RunFolder, name: str) -> tuple[Policy, str, str]:
    """Returns a policy, its digest and what rows call it. `name` is a checkpoint's, or a baseline's as
    `baseline:hold-pose`."""
    if not name.startswith(PREFIX):
        loaded, bundle = load_policy(run, name)
        return bundle, loaded.digest, TRAINED
    return plan.baseline(name), text_digest(name), name.removeprefix(PREFIX)
