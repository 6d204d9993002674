"""Policy bundles: `policy(obs, state) -> action, state` with everything a deployer needs, and nothing of the
trainer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from surefoot.contract import ExternalContract, PolicyCard, SurefootError, TaskContract
from surefoot.policy.remembering import GRU, remember, state_size
from surefoot.robots import RobotSpec
from surefoot.runs import load_checkpoint, save_checkpoint

FIXED_BATCH = 256
"""Rows that a panel's inference is always padded to."""


class Policy(Protocol):
    """What a panel runs. `state` is the policy's memory; a stateless policy hands back what it got.

    A policy with a memory also has `start(family, member) -> state`, the memory [N, M] at an episode's start.
    """

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]: ...


def first_state(policy: Policy, family: Tensor, member: Tensor) -> Tensor:
    """The memory that `policy` starts the episodes of (family, member) [N] with; [N, 0] if it has none."""
    start = getattr(policy, "start", None)
    if start is None:
        return torch.zeros(len(family), 0, device=family.device)
    begun: Tensor = start(family, member)
    return begun


class FixedBatch:
    """A policy that always computes on `size` rows, each at the place it is given, whoever else is there.

    A row of a matrix product can differ in its last bits with the number of rows: on one CPU all rows of
    batches of 1 to 4 differed from those of a batch of 256, by up to 1e-6, and some of 7 and of 255. With the
    number of rows fixed, and each row at its own place, an episode has the same bits alone and in a panel.
    """

    def __init__(self, policy: Policy, rows: Tensor, size: int = FIXED_BATCH) -> None:
        self.policy, self.size = policy, size
        self._rows, chunk = rows, rows // size
        self._chunks = [(c * size, (chunk == c).nonzero()[:, 0]) for c in sorted(set(chunk.tolist()))]
        self._order = torch.cat([index for _, index in self._chunks]).argsort()
        self._whole = rows.tolist() == list(range(size))

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if self._whole:  # each row is at its place
            return self.policy(obs, state)
        parts = [
            self._at(self._rows[index] - first, obs[index], state[index]) for first, index in self._chunks
        ]
        return torch.cat([a for a, _ in parts])[self._order], torch.cat([s for _, s in parts])[self._order]

    def _at(self, place: Tensor, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        seen, memory = obs.new_zeros(self.size, obs.shape[1]), state.new_zeros(self.size, state.shape[1])
        seen[place], memory[place] = obs, state
        action, after = self.policy(seen, memory)
        return action[place], after[place]


def policy_card(
    contract: TaskContract,
    robot: RobotSpec,
    control_hz: float,
    hidden: tuple[int, ...],
    normalised: bool,
    observation_clip: float | None = None,
    memory: str = "none",
) -> PolicyCard:
    return PolicyCard(
        task=contract.name,
        robot=robot.name,
        contract_digest=contract.digest,
        observation=contract.observation,
        joints=robot.joints,
        default_pose=robot.default_pose,
        kp=robot.kp,
        kd=robot.kd,
        action_scale_rad=contract.action.scale_rad,
        action_clip=contract.action.clip,
        control_hz=control_hz,
        prior=contract.prior,
        hidden=hidden,
        normalised=normalised,
        observation_clip=observation_clip,
        memory=memory,
    )


def external_card(
    contract: ExternalContract,
    control_hz: float,
    hidden: tuple[int, ...],
    normalised: bool,
    memory: str = "none",
) -> PolicyCard:
    return PolicyCard(
        task=contract.name,
        robot="",
        contract_digest=contract.digest,
        observation=contract.observation,
        joints=(),
        default_pose=(),
        kp=(),
        kd=(),
        action_scale_rad=None,
        action_clip=contract.action.clip,
        control_hz=control_hz,
        prior=None,
        hidden=hidden,
        normalised=normalised,
        box=contract.action,
        memory=memory,
    )


class PolicyBundle:
    """An MLP policy without exploration noise, its memory, normaliser and card. Immutable once made."""

    def __init__(self, card: PolicyCard, tensors: Mapping[str, Tensor]) -> None:
        self.card, self._memory = card, card.remembers
        need = ["mean", "std", *(f"{k}.{w}" for k in range(len(card.hidden) + 1) for w in ("weight", "bias"))]
        need += GRU if self._memory.kind == "gru" else ()
        missing = [k for k in need if k not in tensors]
        if missing:
            raise SurefootError(
                f"The policy lacks {', '.join(missing)}; it is not one of this Surefoot version."
            )
        self.tensors = {k: tensors[k].detach().clone() for k in need}

    def to(self, device: torch.device) -> PolicyBundle:
        return PolicyBundle(self.card, {k: v.to(device) for k, v in self.tensors.items()})

    def start(self, family: Tensor, member: Tensor) -> Tensor:
        """Returns the memory [N, M] that episodes begin with; [N, 0] without one."""
        size = state_size(self._memory, self.tensors["mean"].numel())
        return torch.zeros(len(family), size, device=family.device)

    @torch.inference_mode()
    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [N, A] for scaled observations [N, O] as the card lays them out."""
        t, clip = self.tensors, self.card.observation_clip
        x = (obs - t["mean"]) / t["std"]
        x = x if clip is None else x.clamp(-clip, clip)
        x, state = remember(self._memory, t, x, state)
        last = len(self.card.hidden)
        for k in range(last + 1):
            x = torch.nn.functional.linear(x, t[f"{k}.weight"], t[f"{k}.bias"])
            x = torch.nn.functional.elu(x) if k < last else x
        return x, state

    @property
    def normaliser_digest(self) -> str:
        """SHA-256 of the normaliser's numbers: what observations are shifted and scaled by."""
        sha = hashlib.sha256()
        for name in ("mean", "std"):
            sha.update(self.tensors[name].cpu().contiguous().numpy().tobytes())
        return sha.hexdigest()

    def save(self, path: Path) -> None:
        """Writes the bundle alone: what a deployer, a panel or a replay needs, and nothing of the learner."""
        meta = {"policy": self.meta(), "normaliser_digest": self.normaliser_digest}
        save_checkpoint(path, self.tensors, meta)

    def meta(self) -> dict[str, Any]:
        return self.card.model_dump(mode="json")


class HoldPose:
    """The baseline that does nothing: zero action, the robot stands in its default pose."""

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return obs.new_zeros(len(obs), self.actions), state


def read_policy(path: Path) -> PolicyBundle:
    """Reads a bundle of `PolicyBundle.save`, its digests verified."""
    checkpoint = load_checkpoint(path)
    if "policy" not in checkpoint.meta:
        raise SurefootError(f"'{path}' is not a policy bundle; give a policy.safetensors.")
    bundle = PolicyBundle(PolicyCard.model_validate(checkpoint.meta["policy"]), checkpoint.tensors)
    if bundle.normaliser_digest != checkpoint.meta.get("normaliser_digest"):
        raise SurefootError(f"The normaliser in '{path}' is not the one that it was saved with.")
    return bundle
