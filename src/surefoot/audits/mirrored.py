"""Is the reflection that the learner mirrors its samples by one? Robots in mirrored worlds say so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.forms import hold_size, widths
from surefoot.audits.iterated import learner_of
from surefoot.audits.lived import NEVER, edited, live, robots
from surefoot.audits.slow_observations import slices
from surefoot.contract import ObservationTerm
from surefoot.engines import Start
from surefoot.learners import Symmetry

STEPS = 3
APART, SHARE = 1e-3, 0.1
"""How far mirrored twins may be apart after some steps, in scaled units and relative to 1 + size, and the
share of pairs that may be further: contacts amplify roundings. Clean runs: 5e-7, and none."""
CLEAR_M = 2.0
"""Height from which robots fall where the ground is not a plane: terrain has no mirror image."""
GROUNDED = ("height", "foot_height", "height_scan")


def look(case: Case) -> list[Found]:
    """Reflects twice, then lets robots and their mirror images live some steps side by side."""
    env = robots(case)
    symmetry = learner_of(case, case.seed).symmetry
    if symmetry is None:
        raise NotApplicable("its learner mirrors nothing")
    sees, knows = widths(env.contract)
    sizes = {"observation": sees, "critic": knows, "action": env.contract.action.size}
    for name, size in sizes.items():
        hold_size(f"Signs of mirrored {name} vectors", getattr(symmetry, name).sign, (size,))
        hold_size(f"Places of mirrored {name} vectors", getattr(symmetry, name).index, (size,))
    return [*_twice(env.contract.observation_size, symmetry), *_grid(case, symmetry)] or _side_by_side(
        case, symmetry
    )


def _twice(size: int, symmetry: Symmetry) -> Iterator[Found]:
    for name in ("observation", "critic", "action"):
        reflect = getattr(symmetry, name)
        x = torch.arange(1.0, len(reflect.sign) + 1)
        if not torch.equal(reflect(reflect(x)), x):
            yield Found(f"The mirror image of the mirror image of {name} vectors is not what it was.")
    x = torch.arange(1.0, len(symmetry.critic.sign) + 1)
    if not torch.equal(symmetry.critic(x)[:size], symmetry.observation(x[:size])):
        yield Found("Observations are mirrored otherwise for the critic than for the policy.")


def _grid(case: Case, symmetry: Symmetry) -> Iterator[Found]:
    """A scan's point at (x, y) is to be mirrored to that at (x, -y)."""
    task = case.robot.task
    everything = (*task.contract.observation, *task.contract.privileged)
    at = slices(everything).get("height_scan")
    if at is None:
        return
    points = np.asarray(task.scan)
    index = symmetry.critic.index[at].numpy() - at.start
    right = ((index >= 0) & (index < len(points))).all() and (symmetry.critic.sign[at] == 1).all()
    if not right or not np.allclose(points[index], points * [1, -1]):
        yield Found("The height scan's mirror image is not that of its points.")


def _side_by_side(case: Case, symmetry: Symmetry) -> list[Found]:
    env, task = robots(case), case.robot.task
    kept, half = env.snapshot(), env.num_envs // 2
    g, joints = case.numbers("mirrored"), len(task.robot.joints)

    def normal(size: float, *shape: int) -> Tensor:
        return torch.from_numpy(g.normal(0, size, (half, *shape)).astype(np.float32))

    def both(own: Tensor, image: Tensor, like: Tensor) -> Tensor:
        """Puts robots in the first half and their images in the second; who has no partner stays."""
        return torch.cat([own, image, like[2 * half :]]).to(like.dtype)

    old = {k: v.clone() for k, v in kept.items()}
    command = normal(0.5, 3)
    image = command * torch.tensor([1.0, -1.0, -1.0])
    commands = old["script.commands"]
    segments = commands.shape[1]
    phase = torch.from_numpy(g.uniform(0, 1, half).astype(np.float32))
    com = old["parameters.com_m"]
    changes: dict[str, Tensor | int | float] = {
        "task__command": both(command, image, old["task.command"]),
        "script__commands": both(
            command[:, None].expand(-1, segments, -1), image[:, None].expand(-1, segments, -1), commands
        ),
        "task__phase": both(phase, (phase + 0.5) % 1.0, old["task.phase"]),
        "parameters__com_m": both(com[:half], com[:half] * torch.tensor([1.0, -1.0, 1.0]), com),
        "script__push_step": NEVER,
        "script__noise_scale": 0,
        "task__action": 0,
        "task__previous_action": 0,
        "task__contact": torch.ones_like(old["task.contact"]),
        "task__air_time": 0,
        "task__age": 10,
    }
    for name in ("friction", "payload_kg", "strength", "kp_scale", "kd_scale", "delay_s"):
        own = old[f"parameters.{name}"]
        changes[f"parameters__{name}"] = both(own[:half], own[:half], own)
    env.restore(edited(kept, **changes))
    start, body = _starts(case, symmetry, g, half), env.parameters
    everyone = torch.arange(env.num_envs) < 2 * half
    env.engine.reset(everyone, start, body)
    actions = []
    for _ in range(STEPS):
        own = normal(0.5, joints)
        rest = torch.zeros(env.num_envs - 2 * half, joints)
        actions.append(torch.cat([own, symmetry.action(own), rest]))
    steps = live(env, lambda t: actions[t], STEPS)
    env.restore(kept)
    alike = np.all([s.going[:half] & s.going[half : 2 * half] for s in steps], 0)
    if alike.sum() < 4:
        raise NotApplicable("hardly any of its robots lives for three steps")
    last = steps[-1]
    contract, rough = task.contract, case.robot.atlas() is not None
    found = list(
        _apart(contract.observation, symmetry.observation(torch.from_numpy(last.obs)), last.obs, alike)
    )
    everything = (*contract.observation, *contract.privileged)
    seen = symmetry.critic(torch.from_numpy(last.critic))
    skipped = GROUNDED if rough else ()
    return found or list(_apart(everything, seen, last.critic, alike, skipped))


def _starts(case: Case, symmetry: Symmetry, g: np.random.Generator, half: int) -> Start:
    """Returns starts of robots, tilted and turning, and of their images: y points the other way."""
    env, robot, plan = robots(case), case.robot.task.robot, case.robot
    atlas, n = plan.atlas(), env.num_envs
    pose = torch.tensor(robot.default_pose)
    script = env.script

    def normal(size: float, *shape: int) -> Tensor:
        return torch.from_numpy(g.normal(0, size, (half, *shape)).astype(np.float32))

    q = torch.cat([torch.ones(half, 1), normal(0.1, 2), normal(1.0, 1)], 1)
    q = q / q.norm(dim=1, keepdim=True)
    place = torch.zeros(half, 3)
    place[:, 2] = robot.stand_height_m + 0.01 if atlas is None else robot.stand_height_m + CLEAR_M
    v, w, bend = normal(0.3, 3), normal(0.5, 3), normal(0.1, len(robot.joints))
    flip = torch.tensor([1.0, -1.0, 1.0])
    rest = n - 2 * half

    def both(own: Tensor, image: Tensor) -> Tensor:
        return torch.cat([own, image, own[:1].expand(rest, *own.shape[1:])])

    tile = script.tile.clone()
    tile[half : 2 * half] = tile[:half]
    position = both(place, place)
    if atlas is not None:
        position[:, :2] += torch.from_numpy(atlas.origins.copy())[tile]
        position[:, 2] += torch.from_numpy(atlas.spawn_height.copy())[tile]
    return Start(
        position=position,
        quaternion=both(q, q * torch.tensor([1.0, -1.0, 1.0, -1.0])),
        linear_velocity=both(v, v * flip),
        angular_velocity=both(w, -w * flip),
        joint_position=both(pose + bend, pose + symmetry.action(bend)),
        tile=tile,
    )


def _apart(
    terms: tuple[ObservationTerm, ...],
    reflected: Tensor,
    shown: np.ndarray,
    alike: np.ndarray,
    skipped: tuple[str, ...] = (),
) -> Iterator[Found]:
    """Says of which terms the reflection of what robots see is not what their images see."""
    half = len(alike)
    expected, image = reflected.numpy()[:half][alike], shown[half : 2 * half][alike]
    far = np.abs(image - expected) > APART * (1 + np.abs(expected))
    for name, at in slices(terms).items():
        share = far[:, at].mean(0).max()
        if name not in skipped and share > SHARE:
            yield Found(
                f"What is taken for the mirror image of '{name}' is not what a mirrored robot sees, in "
                f"{100 * share:.0f}% of pairs."
            )


DETECTORS = (
    Detector(
        name="mirror",
        kind="proof",
        cause="learning",
        asks="Is the reflection that the learner mirrors its samples by a reflection of this robot's world?",
        statistic="its double, which changes nothing; robots with mirrored states, bodies, commands and "
        "actions after three steps in the environments: what each sees against its image's",
        threshold="a tenth of pairs further apart than 1e-3 of 1 + size (clean runs: none above 1e-6): "
        "contacts amplify rounding",
        means="The learner learned from samples that no robot could have had.",
        remedy="Compare joint_mirror, foot_mirror and the terms' `mirror` with the robot.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
