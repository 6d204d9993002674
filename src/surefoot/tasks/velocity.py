"""Velocity tracking: follow a commanded (vx, vy, wz). What such a task is made of, and three of them for the
Go1, each a table of terms with their weights beside them; `anymal.py` and `biped.py` have other robots'.

`walk-flat`: neither clock nor feed-forward, 45 numbers of proprioception: the construct that other stacks
train.
`trot-flat`: the same, with a gait clock and a scripted lift declared as a prior; learns faster because it is
told more.
`walk-rough`: `walk-flat` over a terrain atlas with a curriculum over levels; the critic sees the ground, the
policy does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TypedDict, Unpack, cast

from surefoot.contract import (
    FAST_PLANT,
    TRAINING_PLANT,
    ActionSpec,
    CommandSpec,
    Factor,
    ObservationTerm,
    Plant,
    Prior,
    Recipe,
    RewardTerm,
    Safety,
    Success,
    SurefootError,
    TaskContract,
    Termination,
    Windows,
    held_out_as,
    source_digest,
)
from surefoot.robots import RobotSpec, robot
from surefoot.tasks import terms as T
from surefoot.tasks.task import CUDA_RECIPE, Task, Term
from surefoot.terrain import HELD_OUT, TRAINED, TileId

LEVELS = 10
TILE_KEYS = 2
"""Different tiles per terrain class and level."""
TILES = tuple(TileId(c, lv, k) for c in TRAINED for lv in range(LEVELS) for k in range(TILE_KEYS))
"""Terrain that rough tasks train on."""


def observation(joints: int, clock: bool) -> tuple[ObservationTerm, ...]:
    """Deployable proprioception. Noise half-widths are chosen, in the range that other stacks train with."""
    table = (
        ObservationTerm(
            name="angular_velocity", size=3, unit="rad/s", noise=0.2, scale=0.25, mirror="pseudovector"
        ),
        ObservationTerm(name="gravity", size=3, unit="1", noise=0.05, mirror="vector"),
        ObservationTerm(name="command", size=3, unit="m/s, m/s, rad/s", scale=2.0, mirror="command"),
        ObservationTerm(name="joint_position", size=joints, unit="rad", noise=0.02, mirror="joints"),
        ObservationTerm(
            name="joint_velocity", size=joints, unit="rad/s", noise=1.5, scale=0.05, mirror="joints"
        ),
        ObservationTerm(name="last_action", size=joints, unit="1", mirror="joints"),
    )
    return (*table, ObservationTerm(name="clock", size=2, unit="1", mirror="clock")) if clock else table


def privileged(feet: int, scan: int) -> tuple[ObservationTerm, ...]:
    table = (
        ObservationTerm(name="linear_velocity", size=3, unit="m/s", scale=2.0, mirror="vector"),
        ObservationTerm(name="contact", size=feet, unit="1", mirror="feet"),
        ObservationTerm(name="friction", size=1, unit="1"),
        ObservationTerm(name="payload", size=1, unit="kg"),
        ObservationTerm(name="com", size=3, unit="m", scale=20.0, mirror="vector"),
        ObservationTerm(name="actuation", size=4, unit="1, 1, 1, s"),
        ObservationTerm(name="height", size=1, unit="m", scale=5.0),
        ObservationTerm(name="air_time", size=feet, unit="s", scale=2.0, mirror="feet"),
        ObservationTerm(name="foot_height", size=feet, unit="m", scale=10.0, mirror="feet"),
    )
    if not scan:
        return table
    return (*table, ObservationTerm(name="height_scan", size=scan, unit="m", scale=5.0, mirror="grid"))


def factors(rough: bool) -> tuple[Factor, ...]:
    """Training randomisation, all of it on by default; what is held out, the panel says. A family shares its
    floor; a robot keeps its body for life, and its class of terrain: a level that was earned on slopes says
    nothing of stairs."""
    table = (
        Factor(name="friction", unit="1", level="family", train=(0.4, 1.2), bins=3),
        Factor(name="payload", unit="kg", level="env", train=(-1.0, 1.0), bins=3),
        Factor(name="com", unit="m", level="env", train=(-0.02, 0.02)),
        Factor(name="strength", unit="1", level="env", train=(0.9, 1.1)),
        Factor(name="gains", unit="1", level="env", train=(0.9, 1.1)),
        Factor(name="delay", unit="s", level="episode", train=(0.0, 0.02)),
        Factor(name="noise", unit="1", level="episode", train=(0.8, 1.2)),
        Factor(name="push", unit="m/s", level="episode", train=(0.0, 0.8)),
        Factor(name="pose", unit="rad", level="episode", train=(-0.1, 0.1), held_out=(-0.05, 0.05)),
        Factor(name="velocity", unit="m/s, rad/s", level="episode", train=(-0.3, 0.3), held_out=(0.0, 0.0)),
        Factor(
            name="command",
            unit="1",
            level="episode",
            categories=("stand", "axis", "forward", "backward"),
            shares=(1, 1, 4, 4),
        ),
        Factor(name="vx", unit="m/s", level="episode", train=(-1.0, 1.0)),
        Factor(name="vy", unit="m/s", level="episode", train=(-0.5, 0.5)),
        Factor(name="wz", unit="rad/s", level="episode", train=(-1.0, 1.0)),
    )
    if not rough:
        return table
    terrain = Factor(
        name="terrain",
        unit="1",
        level="env",
        categories=TRAINED,
        shares=(1,) * len(TRAINED),
        held_out_categories=HELD_OUT,
    )
    return (*table, terrain)


Ranges = Mapping[str, tuple[float, float]]
"""What is drawn in training, by factor."""


def ranged(table: Sequence[Factor], ranges: Ranges) -> tuple[Factor, ...]:
    """The table with other ranges for some factors: a robot's size decides what is heavy, fast or a shove."""
    unknown = ranges.keys() - {f.name for f in table}
    if unknown:
        raise SurefootError(f"There is no factor {', '.join(sorted(unknown))}; see `factors`.")
    for name, train in ranges.items():
        if len(train) != 2 or not all(isinstance(x, int | float) for x in train):
            raise SurefootError(
                f"The range of factor {name} is {train!r}; give the two ends that training draws between. "
                "What is held out is read from the panel."
            )
    return tuple(f.model_copy(update={"train": ranges.get(f.name, f.train)}) for f in table)


WALK_REWARDS = (
    RewardTerm(name="track_linear", weight=1.5, params={"width": 0.25}, doc="exp(-|v error|^2 / width)"),
    RewardTerm(name="track_yaw", weight=0.75, params={"width": 0.25}, doc="exp(-yaw rate error^2 / width)"),
    RewardTerm(name="linear_error", weight=-1.0, doc="|v error|: pulls where the exponential is flat"),
    RewardTerm(name="yaw_error", weight=-0.4),
    RewardTerm(
        name="air", weight=0.5, params={"threshold": 0.1, "most": 0.35}, doc="swing time at touchdown"
    ),
    RewardTerm(name="vertical_velocity", weight=-1.0),
    RewardTerm(name="roll_pitch_rate", weight=-0.02),
    RewardTerm(name="tilt", weight=-1.0),
    RewardTerm(name="torque", weight=-1e-4),
    RewardTerm(name="action_rate", weight=-0.01),
    RewardTerm(name="pose", weight=-0.15, params={"hip": 1.0, "thigh": 0.3, "calf": 0.1}),
    RewardTerm(name="stand_still", weight=-0.1),
    RewardTerm(name="slip", weight=-0.05),
    RewardTerm(name="joint_limits", weight=-1.0, params={"margin": 0.05}),
)


def reweighted(
    table: Sequence[RewardTerm], drop: Sequence[str] = (), **weights: float
) -> tuple[RewardTerm, ...]:
    """The table with some weights changed and some terms left out."""
    kept = [t for t in table if t.name not in drop]
    return tuple(t.model_copy(update={"weight": weights.get(t.name, t.weight)}) for t in kept)


TROT_REWARDS = (
    *reweighted(WALK_REWARDS, drop=("air",), linear_error=-0.75, yaw_error=-0.3),
    RewardTerm(name="gait", weight=1.0, doc="share of feet whose contact follows the clock"),
    RewardTerm(name="fall", weight=-0.5, event=True, doc="once, when the episode ends in a fall"),
)

TROT = Prior(clock_hz=2.2, offsets=(0.0, 0.5, 0.5, 0.0), lift_rad=0.3)

SCAN = tuple((x / 10, y / 10) for x in range(-6, 9, 2) for y in range(-4, 5, 2))


def functions(module: ModuleType) -> dict[str, Term]:
    """The public functions of a module, by name."""
    return {
        k: f
        for k, f in vars(module).items()
        if callable(f) and getattr(f, "__module__", "") == module.__name__ and k[0] != "_"
    }


class Training(TypedDict, total=False):
    """How long a task trains, and what differs on a GPU: fields of `Task`, where they are described."""

    until: float
    minutes: float
    cuda: Mapping[str, object]
    cuda_minutes: float | None


class VelocityOptions(Training, total=False):
    """What a robot of another size than the Go1 needs, besides `Training`."""

    ranges: Ranges | None
    """Training ranges of some factors; the others keep theirs."""
    action_scale_rad: float
    """Radians of a joint's target for an action of 1; 0.3 by default."""
    success: Success | None
    """Limits of a successful episode; those of `Success` by default."""
    exempt: dict[str, str] | None
    """Detectors that audits leave out, each with its reason."""


def velocity_task(
    name: str,
    *,
    robot: RobotSpec,
    panel: str,
    rewards: Sequence[RewardTerm] = WALK_REWARDS,
    recipe: Recipe | None = None,
    prior: Prior | None = None,
    rough: bool = False,
    terms: Mapping[str, Term] | None = None,
    **options: Unpack[VelocityOptions],
) -> Task:
    """Builds a velocity task; `terms` adds functions of your own (or replaces ours) for the rewards you
    name, `options` are those of `VelocityOptions`."""
    recipe = recipe or Recipe()
    _check_legs(robot, rewards, prior, terms or {})
    scan = SCAN if rough else ()
    contract = TaskContract(
        name=name,
        robot=robot.name,
        robot_digest=robot.digest,
        episode_s=20.0,
        observation=observation(len(robot.joints), prior is not None),
        privileged=privileged(len(robot.feet), len(scan)),
        action=ActionSpec(size=len(robot.joints), scale_rad=options.pop("action_scale_rad", 0.3), clip=6.0),
        command=CommandSpec(),
        rewards=tuple(rewards),
        terminations=terminations(robot),
        success=options.pop("success", None) or Success(windows=Windows()),
        safety=Safety(),
        prior=prior,
        factors=held_out_as(panel, ranged(factors(rough), options.pop("ranges", None) or {})),
        stratify=("terrain", "command", "friction") if rough else ("friction", "payload", "command"),
        terrain_levels=LEVELS if rough else 1,
        panel=panel,
        exempt=options.pop("exempt", None) or {},
        source_digest="",
    )
    known = functions(T) | dict(terms or {})
    bound = {name: known[name] for name in contract.term_names if name in known}
    plant, native = plants(recipe, rough)
    return Task(
        contract=contract.model_copy(update={"source_digest": source_digest(bound)}),
        robot=robot,
        recipe=recipe,
        plant=plant,
        terms=bound,
        native=native,
        tiles=TILES if rough else (),
        scan=scan,
        **cast(Training, options),  # the others have been taken out
    )


def terminations(robot: RobotSpec) -> tuple[Termination, ...]:
    """Ways to fall."""
    return (
        Termination(name="tilted", params={"gravity_z": -0.6}, doc="trunk tilted by more than 53 degrees"),
        Termination(name="trunk_contact", doc="the trunk touches the ground"),
        Termination(
            name="sunk", params={"height_m": round(0.52 * robot.stand_height_m, 3)}, doc="trunk too low"
        ),
    )


def plants(recipe: Recipe, rough: bool) -> tuple[Plant, Plant]:
    """Returns the training plant, and the cheaper one for native MuJoCo, at the recipe's control rate."""
    ground = {"heightfield": "surface" if rough else None}
    dt = {"dt_s": 1.0 / (recipe.control_hz * recipe.decimation), "decimation": recipe.decimation}
    # Four iterations leave a robot on a heightfield restless (joints at 19 rad/s while standing, measured);
    # eight do not.
    steady = {"iterations": 8} if rough else {}
    coarse = {"dt_s": 1.0 / (recipe.control_hz * FAST_PLANT.decimation)}
    return (
        TRAINING_PLANT.model_copy(update=dt | ground),
        FAST_PLANT.model_copy(update=coarse | steady | ground),
    )


def _check_legs(
    robot: RobotSpec, rewards: Sequence[RewardTerm], prior: Prior | None, own: Mapping[str, Term]
) -> None:
    """Terms of ours that know legs know the robot's."""
    joints, feet = len(robot.joints), len(robot.feet)
    ours = {t.name: t for t in rewards if t.name not in own}
    if joints != 3 * feet and ("pose" in ours or (prior is not None and prior.lift_rad)):
        raise SurefootError(
            f"Robot '{robot.name}' has {joints} joints for {feet} feet; the reward term 'pose' and the gait "
            "prior's lift expect hip, thigh and calf on each leg. Leave them out: "
            "rewards=reweighted(WALK_REWARDS, drop=('pose',)), or use 'posture', which weighs joints by name."
        )
    for ending in ours["posture"].params if "posture" in ours else ():
        if not any(j.endswith(ending) for j in robot.joints):
            raise SurefootError(
                f"The reward term 'posture' weighs '{ending}', and no joint of robot '{robot.name}' has a "
                f"name that ends so; its joints: {', '.join(robot.joints)}."
            )
    if prior is not None and len(prior.offsets) != feet:
        raise SurefootError(
            f"The gait prior has {len(prior.offsets)} offsets and robot '{robot.name}' {feet} feet; "
            "give one per foot."
        )


AS_GOOD = {"precision": "bf16"}
"""What the recipe changes for tasks whose held-out success with bf16 was compared with that of tf32 over
seeds, and is not worse (benchmarks/time_to_walk.py)."""


def walk_flat() -> Task:
    return velocity_task(
        "walk-flat",
        robot=robot("go1"),
        panel="walk-flat-v2",
        cuda=CUDA_RECIPE | AS_GOOD,
        cuda_minutes=1 / 6,
    )


def trot_flat() -> Task:
    recipe = Recipe()
    return velocity_task(
        "trot-flat",
        robot=robot("go1"),
        panel="walk-flat-v2",
        rewards=TROT_REWARDS,
        recipe=recipe,
        prior=TROT,
        minutes=4.0,
        cuda=CUDA_RECIPE | AS_GOOD | {"epochs": 3},
        cuda_minutes=1 / 6,
    )


def walk_rough() -> Task:
    """Makes `walk-rough`. A GPU trains wider networks, because the ground is seen by the critic and has to be
    guessed by the policy, and makes few evaluations: an update takes milliseconds. It takes no more
    environments than on flat ground: levels move at the ends of episodes, and twice the environments have
    half as many episodes each. Torques near their limits are paid for: without that some seeds learn a gait
    with one at its limit in 3% of steps."""
    rewards = (
        *reweighted(WALK_REWARDS, vertical_velocity=-0.5, tilt=-0.5),
        RewardTerm(name="torque_limits", weight=-2.0, params={"share": 0.8}),
    )
    return velocity_task(
        "walk-rough",
        robot=robot("go1"),
        panel="walk-rough-v2",
        rewards=rewards,
        rough=True,
        minutes=20.0,
        cuda=CUDA_RECIPE | {"hidden": (256, 128), "evaluate_every": 50, "checkpoint_every": 250},
        cuda_minutes=0.5,
    )
