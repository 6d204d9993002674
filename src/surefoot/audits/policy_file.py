"""Is the policy that is handed out the one that was trained, chosen and confirmed, with its task's card?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.forms import hold_size
from surefoot.audits.slow_policy import EPSILON, SlowBundle
from surefoot.contract import TaskContract
from surefoot.policy import PolicyBundle, PolicyCard, read_policy

ROUNDING = 1e-4
"""Allowance for a network in single precision against double, relative to 1 + size; clean: below 2e-6."""
STEPS = 4
"""Control steps that 64 observations are; a policy may remember them."""
Tensors = dict[str, Tensor]


def look(case: Case) -> list[Found]:
    """Compares checkpoint, policy file, card and contract number by number."""
    confirmed, bundle = case.record.confirmation is not None, case.policy
    name = "confirmed" if confirmed else "latest"
    found = [*_card(case, bundle.card), *_acts(case, bundle)]
    if case.record.learner == "ppo":
        found += _trained(case, case.tensors(name, "learner"), bundle)
    if confirmed:
        update = case.run.load_checkpoint(name).meta.get("update")
        found += [*_exported(case, bundle), *_chosen(case, update, bundle)]
    return found


def unlike(a: Tensors, b: Tensors) -> list[str]:
    """Names tensors that are not the same to the bit."""
    return [k for k in sorted(a.keys() | b.keys()) if k not in a or k not in b or not torch.equal(a[k], b[k])]


def _trained(case: Case, own: Tensors, bundle: PolicyBundle) -> Iterator[Found]:
    """The policy has the weights of the actor, and its normaliser those of the observations it learned on."""
    t = bundle.tensors
    layers = sorted(int(k.split(".")[2]) for k in own if k.startswith("networks.actor.") and "bias" in k)
    weights = {
        f"{k}.{part}": own[f"networks.actor.{layer}.{part}"]
        for k, layer in enumerate(layers)
        for part in ("weight", "bias")
    }
    remembers = {k.removeprefix("networks."): v for k, v in own.items() if k.startswith("networks.memory.")}
    weights |= {k: v.flatten() if k.endswith("bias") else v for k, v in remembers.items()}
    other = unlike(weights, {k: v for k, v in t.items() if k not in ("mean", "std")})
    if other:
        yield Found(f"The policy's {', '.join(other[:4])} are not the trained actor's.")
    mean, var = own["obs_normalizer.mean"].double(), own["obs_normalizer.var"].double()
    std = var.sqrt() + EPSILON
    if not case.record.recipe.normalise:
        mean, std = torch.zeros_like(mean), torch.ones_like(std)
    gap = ((t["mean"].double() - mean).abs() / std).max().item()
    stretch = (t["std"].double() / std - 1).abs().max().item()
    if not (gap < 1e-5 and stretch < 1e-5):
        yield Found(
            f"The policy's normaliser is not the learner's: means are off by up to {gap:.2g} standard "
            f"deviations, standard deviations by up to {100 * stretch:.2g}%.",
            cause="normaliser",
        )


def _acts(case: Case, bundle: PolicyBundle) -> Iterator[Found]:
    """What is computed with a bundle is what its tensors say."""
    size = sum(t.size for t in bundle.card.observation)
    g = case.numbers("policy-file")
    obs = bundle.tensors["mean"].cpu().numpy() + g.normal(0, 1, (64, size)) * bundle.tensors["std"].numpy()
    seen = torch.from_numpy(obs.astype(np.float32)).view(STEPS, -1, size)
    first, again = _acted(bundle, seen), _acted(bundle, seen)
    hold_size("Actions of the policy", first, (*seen.shape[:2], case.record.contract.action.size))
    slow = SlowBundle(bundle.tensors, bundle.card.observation_clip, bundle.card.remembers)
    right = slow.actions(seen.double().numpy())
    gap = np.abs(first.double().numpy() - right) / (1 + np.abs(right))
    if not torch.equal(first, again):
        yield Found("Asked twice for the same observations, the policy does two things.")
    elif not (gap <= ROUNDING).all():
        yield Found(
            f"The policy does not do what its tensors say: actions are off by up to {np.nanmax(gap):.2g}."
        )


def _acted(bundle: PolicyBundle, seen: Tensor) -> Tensor:
    """Returns actions [T, N, A] for observations [T, N, O] of episodes from their first steps on."""
    out, nobody = [], torch.zeros(seen.shape[1], dtype=torch.int64)
    state = bundle.start(nobody, nobody)
    for obs in seen:
        action, state = bundle(obs, state)
        out.append(action)
    return torch.stack(out)


def _card(case: Case, card: PolicyCard) -> Iterator[Found]:
    """The card says what the contract and the robot say."""
    contract, recipe = case.record.contract, case.record.recipe
    expected: dict[str, object] = {
        "task": contract.name,
        "contract_digest": contract.digest,
        "observation": contract.observation,
        "action_clip": contract.action.clip,
        "control_hz": recipe.control_hz,
        "hidden": tuple(recipe.hidden),
        "memory": recipe.memory,
    }
    if isinstance(contract, TaskContract):
        robot = case.robot.task.robot
        expected |= {
            "robot": robot.name,
            "joints": robot.joints,
            "default_pose": robot.default_pose,
            "kp": robot.kp,
            "kd": robot.kd,
            "action_scale_rad": contract.action.scale_rad,
            "prior": contract.prior,
        }
    other = [k for k, v in expected.items() if getattr(card, k) != v]
    if other:
        yield Found(f"The policy's card has another {', '.join(other)} than the contract and the robot.")


def _exported(case: Case, bundle: PolicyBundle) -> Iterator[Found]:
    path = case.run.path / "policy.safetensors"
    if not path.is_file():
        yield Found("The run has a confirmed result and no policy.safetensors.", cause="bookkeeping")
        return
    file = read_policy(path)
    other = unlike(file.tensors, bundle.tensors)
    if other or file.card != bundle.card:
        what = ", ".join(other[:4]) or "card"
        text = f"policy.safetensors has another {what} than the confirmed checkpoint."
        yield Found(text, cause="bookkeeping")


def _chosen(case: Case, update: int | None, bundle: PolicyBundle) -> Iterator[Found]:
    """No scheduled evaluation on the selection half was better than that of the update that was confirmed,
    and the policy scored there is the confirmed one."""
    scores = {r["update"]: r["evaluation.success"] for r in case.ledger if "evaluation.success" in r}
    if update in scores:
        best = max(scores, key=lambda u: (scores[u], u))
        if scores[update] < scores[best]:
            yield Found(
                f"Update {update} was confirmed, with {100 * scores[update]:.1f}% on the selection half; "
                f"update {best} had {100 * scores[best]:.1f}%.",
                cause="bookkeeping",
            )
    panels = case.run.path / "panels" / case.record.panel
    beside = panels / f"selection-update-{int(update or 0):06d}" / "policy.safetensors"
    if beside.is_file() and unlike(read_policy(beside).tensors, bundle.tensors):
        yield Found(
            f"The policy that was confirmed is not the one that was scored at update {update}.",
            cause="bookkeeping",
        )


DETECTORS = (
    Detector(
        name="policy-file",
        kind="proof",
        cause="held-out",
        asks="Is the policy that is handed out the one that was trained, chosen and confirmed, with the card "
        "of its task?",
        statistic="tensors of checkpoint, policy file and the scored policy; the normaliser's mean and "
        "standard deviation; actions for 64 observations in double precision; the card, the contract and "
        "the robot; scores of the selection half",
        threshold="to the bit; 1e-5 for the normaliser and 1e-4 for actions: rounding",
        means="Somebody who deploys the file has another policy than the result is of.",
        remedy="Export the confirmed checkpoint again; compare the card with `surefoot plan`.",
        look=look,
        short=True,
    ),
)
