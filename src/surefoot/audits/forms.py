"""What form everything has that a run records and that its environments give: names, kinds of numbers and
sizes, worked out from the contract, the robot and the recipe. Whoever reads for detectors holds what it read
to its form, so that no detector meets an array that it did not expect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from surefoot.audits.detector import Misshapen
from surefoot.contract import Memory, Recipe, TaskContract
from surefoot.robots import RobotSpec

PUSH_EVERY_S = 5.0
"""Training pushes once in every window of this length."""
KINDS = {"b": "true or false", "i": "whole numbers", "f": "numbers", "t": "text"}


class Form(NamedTuple):
    """The form of one array: the kinds that its values may be of, and its size beyond the rows that all
    share."""

    kinds: str
    size: tuple[int | None, ...] = ()
    """None: whatever it is."""


Forms = dict[str, Form]
WHOLE, NUMBER, TRUTH, TEXT = Form("i"), Form("if"), Form("b"), Form("t")


def vector(*size: int | None) -> Form:
    """Returns the form of real numbers of a size."""
    return Form("f", size)


# ---- holding to a form


def faults(what: str, given: Mapping[str, Any], forms: Forms, lead: int = 1) -> Iterator[str]:
    """Says what of `given` is missing, of another kind or of another size. The first `lead` dimensions are
    rows, of which all have as many."""
    rows: tuple[int, ...] | None = None
    for name, form in forms.items():
        if name not in given:
            yield f"{what} has no '{name}'"
            continue
        x = given[name]
        there = tuple(x.shape)
        if rows is None and len(there) >= lead:
            rows = there[:lead]
        size = there[lead:]
        same = len(size) == len(form.size) and all(
            b is None or a == b for a, b in zip(size, form.size, strict=True)
        )
        if not same or there[:lead] != rows:
            yield f"{what} has '{name}' of {_sized(there)} where it is {_sized((rows or ()) + form.size)}"
        elif kind_of(x) not in form.kinds:
            kinds = " or ".join(KINDS[k] for k in form.kinds)
            yield f"{what} has '{name}' as {KINDS.get(kind_of(x), 'something else')} where it is {kinds}"


def hold(what: str, given: Mapping[str, Any], forms: Forms, cause: str, lead: int = 1) -> None:
    """Raises the first fault of what is given as a finding, of the class `cause`."""
    for fault in faults(what, given, forms, lead):
        raise Misshapen(f"{fault}.", cause)


def hold_parts(what: str, given: Mapping[str, Any], forms: Forms) -> None:
    """Raises the first fault of what environments hold, as a finding of whatever it is a part of."""
    for name, form in forms.items():
        part = name.partition(".")[0] if "." in name else name
        hold(what, given, {KEY: WHOLE, name: form}, CAUSE_OF.get(part, "batch"))


KEY = "episode"
"""What all environments have, in snapshots and in lived steps: as many numbers as there are of them."""
CAUSE_OF = {
    "script": "randomisation",
    "parameters": "randomisation",
    "task": "observation",
    "obs": "observation",
    "critic": "observation",
    "returns": "reward",
    "progress": "bookkeeping",
}
"""Causes of what environments hold in another form; of their keys and numbers it is the batch's."""


def hold_size(what: str, given: Any, size: Sequence[int], cause: str = "") -> None:
    """Raises as a finding where an array has another size than `size`."""
    if tuple(np.shape(given)) != tuple(size):
        raise Misshapen(f"{what} are of {_sized(np.shape(given))} where they are {_sized(size)}.", cause)


def kind_of(x: Any) -> str:
    """Returns the kind of an array's or a tensor's values: b, i, f or t; "" for any other."""
    name = str(x.dtype).removeprefix("torch.")
    if name in ("object", "str") or name.startswith(("<U", "|S", "str")):
        return "t"
    if name.startswith("bool"):
        return "b"
    return {"i": "i", "u": "i", "f": "f", "b": "f"}.get(name[0], "")  # bfloat16 is a real number


def _sized(size: Sequence[int | None]) -> str:
    return " x ".join("any" if n is None else str(n) for n in size) or "one number"


# ---- robots and their episodes


def robot_form(robot: RobotSpec) -> Forms:
    """Returns the form of what robots are doing."""
    joints, feet = len(robot.joints), len(robot.feet)
    three = dict.fromkeys(("position", "linear_velocity", "angular_velocity", "gravity"), vector(3))
    of_joints = dict.fromkeys(("joint_position", "joint_velocity", "torque"), vector(joints))
    of_feet = dict.fromkeys(("foot_position", "foot_velocity", "foot_force"), vector(feet, 3))
    told = {"quaternion": vector(4), "trunk_contact": TRUTH, "failed": TRUTH}
    return three | of_joints | of_feet | told


def body_form() -> Forms:
    """Returns the form of what is physically another in every environment."""
    one = ("friction", "payload_kg", "strength", "kp_scale", "kd_scale", "delay_s")
    return dict.fromkeys(one, vector()) | {"com_m": vector(3)}


def script_form(segments: int | None, pushes: int | None) -> Forms:
    """Returns the form of what will happen in episodes of so many segments and pushes."""
    return {
        **dict.fromkeys(("family", "member", "episode", "level", "tile"), WHOLE),
        "commands": vector(segments, 3),
        "stratum": Form("i", (segments,)),
        "push_step": Form("i", (pushes,)),
        "push_velocity": vector(pushes, 2),
        "noise_scale": vector(),
        "phase": vector(),
    }


def memory_form(contract: TaskContract, feet: int) -> Forms:
    """Returns the form of what a task remembers between control steps."""
    acts = contract.action.size
    return {
        "age": WHOLE,
        "command": vector(3),
        "action": vector(acts),
        "previous_action": vector(acts),
        "phase": vector(),
        "contact": Form("b", (feet,)),
        "air_time": vector(feet),
        "landed": vector(feet),
    }


def snapshot_form(contract: TaskContract, robot: RobotSpec, control_hz: float) -> Forms:
    """Returns the form of training environments as a checkpoint or a snapshot has them, but for the engine's
    part, which is its own, and for what is counted of all together."""
    steps = round(contract.episode_s * control_hz)
    segments = math.ceil(steps / round(contract.command.resample_s * control_hz))
    pushes = math.ceil(steps / round(PUSH_EVERY_S * control_hz))
    parts = {
        "script": script_form(segments, pushes),
        "task": memory_form(contract, len(robot.feet)),
        "parameters": body_form(),
    }
    out = {f"{part}.{k}": form for part, forms in parts.items() for k, form in forms.items()}
    sees, knows = widths(contract)
    return out | {
        **dict.fromkeys(("episode", "born", "level"), WHOLE),
        "progress": vector(2),
        "returns": vector(len(contract.rewards)),
        "obs": vector(sees),
        "critic": vector(knows),
        "exploration": vector(contract.action.size),
    }


def held_form(contract: TaskContract, robot: RobotSpec, control_hz: float) -> Forms:
    """Returns the part of it that is kept of every lived step."""
    kept = ("script.", "task.", "parameters.", "episode", "born")
    return {k: v for k, v in snapshot_form(contract, robot, control_hz).items() if k.startswith(kept)}


def widths(contract: Any) -> tuple[int, int]:
    """Returns how many numbers a policy sees, and a critic."""
    sees = sum(t.size for t in contract.observation)
    return sees, sees + sum(t.size for t in contract.privileged)


def step_form(contract: TaskContract) -> Forms:
    """Returns the form of what a step leads to."""
    sees, knows = widths(contract)
    return {
        "reward": vector(),
        "terms": vector(len(contract.rewards)),
        "terminated": TRUTH,
        "truncated": TRUTH,
        "reason": WHOLE,
        "final_critic": vector(knows),
        "obs": vector(sees),
        "critic": vector(knows),
    }


def block_form(contract: TaskContract) -> Forms:
    """Returns the form of a rollout block's fields, beyond steps and environments."""
    act = vector(contract.action.size)
    own = {k: form for k, form in step_form(contract).items() if k != "final_critic"}
    numbers = dict.fromkeys(("log_prob", "value", "next_value", "advantage", "returns"), vector())
    return own | {"action": act, "mean": act, "stratum": WHOLE} | numbers


# ---- learners and policies


def learner_form(contract: Any, recipe: Recipe) -> Forms:
    """Returns the form of what Surefoot's own learner is, as its checkpoints have it; all of it is whole."""
    sees, knows = widths(contract)
    acts, out = contract.action.size, Forms()
    memory = recipe.remembers
    for name, first, last in (("actor", memory.inputs(sees), acts), ("critic", knows, 1)):
        sizes = (first, *recipe.hidden, last)
        for k in range(len(sizes) - 1):
            layer = f"networks.{name}.{2 * k}"  # an activation between any two
            out |= {f"{layer}.weight": vector(sizes[k + 1], sizes[k]), f"{layer}.bias": vector(sizes[k + 1])}
    out |= {f"networks.{k}": vector(*size) for k, size in gru_sizes(memory, sees).items()}
    out["networks.log_std"] = vector(acts)
    for name, size in (("obs_normalizer", sees), ("critic_normalizer", knows)):
        out |= {f"{name}.mean": vector(size), f"{name}.var": vector(size), f"{name}.count": vector()}
    return out | {"scalars": vector(2)}


def moments_form(contract: Any, recipe: Recipe) -> Forms:
    """Returns the form of what an optimiser adds to it after its first step."""
    own = learner_form(contract, recipe)
    sizes = [f.size for k, f in own.items() if k.startswith("networks.")]
    size = sum(math.prod(n for n in of if n is not None) for of in sizes)
    return {"adam.step": vector(), "adam.exp_avg": vector(size), "adam.exp_avg_sq": vector(size)}


def gru_sizes(memory: Memory, sees: int) -> dict[str, tuple[int, ...]]:
    """Returns the sizes of a recurrent unit's weights and biases, by name; nothing where there is none."""
    if memory.kind != "gru":
        return {}
    size = memory.size
    weights: dict[str, tuple[int, ...]]
    weights = {"memory.input": (3 * size, sees), "memory.state": (3 * size, size)}
    return weights | {f"{name}_bias": (3 * size, 1) for name in weights}


def policy_form(contract: Any, hidden: Sequence[int], memory: Memory) -> Forms:
    """Returns the form of a policy's tensors."""
    sees, _ = widths(contract)
    sizes = (memory.inputs(sees), *hidden, int(contract.action.size))
    layers = {f"{k}.weight": vector(sizes[k + 1], sizes[k]) for k in range(len(sizes) - 1)}
    biases = {f"{k}.bias": vector(sizes[k + 1]) for k in range(len(sizes) - 1)}
    unit = {k: vector(*n[: 1 if k.endswith("bias") else 2]) for k, n in gru_sizes(memory, sees).items()}
    return {"mean": vector(sees), "std": vector(sees)} | layers | biases | unit


# ---- files


def episodes_form(contract: Any, *, robot: bool) -> Forms:
    """Returns the form of the table of training episodes; on terrain it has more columns."""
    keys = ("family", "member", "episode", "steps", "reason", "update")
    out = dict.fromkeys(keys, WHOLE) | {"return": NUMBER}
    if robot:
        out |= {"stratum": WHOLE, "level": WHOLE}
        out |= dict.fromkeys(("friction", "payload_kg", "delay_s"), NUMBER)
        out |= {f"return.{t.name}": NUMBER for t in contract.rewards}
    if robot and contract.terrain_levels > 1:
        out |= {"terrain": TEXT, "tile": WHOLE, "walked_m": NUMBER, "commanded_m": NUMBER}
    return out


def rows_form(contract: Any, *, robot: bool) -> Forms:
    """Returns the form of a table of held-out episodes, as far as detectors look at it."""
    texts = ("column", "perturbation", "engine", "policy", "reason", "terrain")
    numbers = ("velocity_error_mps", "yaw_error_radps", "strength")
    out = dict.fromkeys(texts, TEXT) | dict.fromkeys(numbers, NUMBER)
    if not robot:
        return out
    out |= dict.fromkeys(("scenario", "family", "member", "level"), WHOLE)
    had = ("friction", "payload_kg", "command_vx", "command_vy", "command_wz")
    names = ("stratum", "beyond", "half", "states_digest")
    return out | dict.fromkeys(had, NUMBER) | dict.fromkeys(names, TEXT) | measured_form(contract)


def measured_form(contract: Any) -> Forms:
    """Returns the form of what is measured of held-out episodes."""
    axes = [f"{what}_{axis}" for what in ("achieved", "error") for axis in ("vx", "vy", "wz")]
    figures = (
        *(
            "velocity_error_mps",
            "yaw_error_radps",
            "lived_s",
            "achieved_ratio",
            "cost_of_transport",
            "work_j",
        ),
        *("work_j", "distance_m", "torque_saturation", "trunk_contact", "foot_slip_m", "peak_tilt_rad"),
        *(
            "recovery_s",
            "return",
            "windows_as_told",
            "stand_drift_m",
            "stand_turn_rad",
            "foot_clearance_m",
            *axes,
        ),
        *(f"return.{t.name}" for t in contract.rewards),
    )
    told = dict.fromkeys(("success", "fall", "recovered"), TRUTH)
    texts = dict.fromkeys(("reason", "label", "cause", "recoveries_s"), TEXT)
    return dict.fromkeys(figures, NUMBER) | told | texts | {"steps": WHOLE}


def trace_form(contract: TaskContract, robot: RobotSpec) -> Forms:
    """Returns the form of the steps of a kept episode."""
    steps = {k: v for k, v in robot_form(robot).items() if k not in ("failed", "gravity", "trunk_contact")}
    act = vector(contract.action.size)
    return steps | {"contact": Form("b", (len(robot.feet),)), "action": act, "command": vector(3)}


def about_form(robot: RobotSpec) -> Forms:
    """Returns the form of what a kept episode says of itself as a whole."""
    return body_form() | {
        "start_position": vector(3),
        "start_quaternion": vector(4),
        "start_linear_velocity": vector(3),
        "start_angular_velocity": vector(3),
        "start_joint_position": vector(len(robot.joints)),
        "tile_origin": vector(2),
        "push_step": Form("i", (None,)),
        "push_velocity": vector(None, 2),
        **dict.fromkeys(("control_hz", "noise_scale", "phase"), Form("if")),
        **dict.fromkeys(("family", "member", "episode", "episode_steps"), WHOLE),
        **dict.fromkeys(("terrain_class", "column", "reason"), TEXT),
        **dict.fromkeys(("terrain_level", "terrain_key"), WHOLE),
    }


COUNTED = ("update", "samples")
"""Names in every row of the ledger that are counts, and those that are figures."""
MEASURED = ("robot_seconds", "train_seconds", "wall_seconds", "steps_per_second", "reward_per_step")


def ledger_faults(
    rows: Sequence[Mapping[str, Any]], rewards: Sequence[str], strata: int, families: int
) -> Iterator[str]:
    """Says in what rows of the ledger are not as they should be: names that are missing in some, counts that
    are none, lists of another length."""
    named = (*COUNTED, *MEASURED, "episode.count", *(f"reward.{name}" for name in rewards))
    lists = {"stratum.resets": strata, "stratum.samples": strata, "advantage.by_stratum": strata}
    lists |= {"family.resets": families, "family.samples": families}
    said: dict[str, int] = {}
    for place, row in enumerate(rows):
        texts = [f"have no '{name}'" for name in named if name not in row]
        texts += [f"have a '{k}' that is no count" for k in COUNTED if k in row and type(row[k]) is not int]
        for name in MEASURED:
            if name in row and not (row[name] is None or isinstance(row[name], int | float)):
                texts.append(f"have a '{name}' that is no number")
        for name, length in lists.items():
            x = row.get(name)
            if x is not None and not (isinstance(x, list) and len(x) == length):
                texts.append(f"have a list '{name}' that is not of {length}")
        for text in texts:
            said.setdefault(text, place)
    for text, place in said.items():
        yield f"Rows of the ledger {text} (first: row {place + 1})"
