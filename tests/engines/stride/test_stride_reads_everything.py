"""Whatever of a model moves MuJoCo's robot is read by stride, or refused by name: every real number, switch
and flag of the model is changed, one after the other. Whole numbers (kinds, addresses, counts) are not."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import mujoco
import numpy as np
import pytest

from surefoot.contract import EVALUATION_PLANT, SurefootError
from surefoot.engines.scene import build_scene
from surefoot.engines.stride.description import describe
from surefoot.robots import robot

GO1 = robot("go1")
SCENE = build_scene(GO1, EVALUATION_PLANT)
DRAWN = ("vis", "tex", "mat", "light", "cam", "mesh", "skin", "hfield", "bvh", "site", "oc")
"""Beginnings of names of what is only drawn, or belongs to what is refused."""
DERIVED = {
    "body_invweight0": "follows from masses; stride works it out for every payload",
    "dof_invweight0": "likewise",
    "geom_rbound": "the sphere around a geom, to find contacts sooner",
    "geom_friction": "every environment has its own, in all engines",
}
MATTERS = 1e-3
"""In m, rad and their rates after 20 steps: MuJoCo without a warm start is 6e-5 off, converged either way."""


def probe() -> mujoco.MjModel:
    """The Go1 with everything that stride can represent: springs and dry friction in every joint."""
    model = copy.copy(SCENE.model)
    model.jnt_stiffness[1:] = 2.0
    model.qpos_spring[7:] = 0.3
    model.dof_frictionloss[6:] = 0.4
    return model


def moved(model: mujoco.MjModel) -> np.ndarray:
    """Standing, tumbling on its back, and with joints beyond their limits in the air."""
    data, out, rng = mujoco.MjData(model), [], np.random.default_rng(0)
    pose = np.asarray(GO1.default_pose)
    for height, turn, beyond, speed in (
        (0.27, (1, 0, 0, 0), 0.0, 0.3),
        (0.1, (0.9, 0.3, 0.2, 0.1), 0.0, 1.0),
        (0.6, (1, 0, 0, 0), 2.0, 1.0),
    ):
        mujoco.mj_resetData(model, data)
        data.qpos[:3], data.qpos[3:7] = (0, 0, height), np.array(turn) / np.linalg.norm(turn)
        data.qpos[7:] = pose + rng.uniform(-0.5, 0.5, 12) + beyond
        data.qvel[:] = speed * rng.uniform(-1, 1, 18)
        data.ctrl[:] = pose + rng.uniform(-0.5, 0.5, 12)
        for _ in range(20):
            mujoco.mj_step(model, data)
        out.append(np.concatenate([data.qpos, data.qvel]))
    return np.array(out)


def numbers() -> Iterator[tuple[str, Callable[[mujoco.MjModel], None]]]:
    """Every entry along the first axis of every array of numbers or switches, and of the options."""
    model = probe()
    for name in sorted(dir(model)):
        array = getattr(model, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fb" or name.startswith(DRAWN):
            continue
        for i in range(len(array)):
            yield f"{name}[{i}]", lambda m, n=name, i=i: _change(getattr(m, n), i)
    for name in sorted(dir(model.opt)):
        value = getattr(model.opt, name)
        if isinstance(value, float):
            yield f"opt.{name}", lambda m, n=name, v=value: setattr(m.opt, n, 1.1 * v + 0.01)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            for i in range(len(value)):
                yield f"opt.{name}[{i}]", lambda m, n=name, i=i: _change(getattr(m.opt, n), i)


def _change(array: np.ndarray, i: int) -> None:
    array[i] = ~array[i] if array.dtype.kind == "b" else 1.1 * array[i] + 0.03


def flags() -> Iterator[tuple[str, Callable[[mujoco.MjModel], None]]]:
    for way, bits in (("disable", mujoco.mjtDisableBit), ("enable", mujoco.mjtEnableBit)):
        for name, bit in bits.__members__.items():
            if "_" in name:
                where = f"{way}flags"
                yield name, lambda m, w=where, b=int(bit): setattr(m.opt, w, getattr(m.opt, w) | b)


def unread(changes: Iterator[tuple[str, Callable[[mujoco.MjModel], None]]]) -> tuple[dict[str, float], int]:
    """By how much the robot ends elsewhere, for all that stride neither reads nor refuses; and how many
    changes it reads or refuses."""
    plain, before = probe(), moved(probe())
    digest = describe(plain, SCENE.trunk, GO1.feet).digest
    found, noticed = {}, 0
    for name, change in changes:
        model = probe()
        change(model)
        try:
            if describe(model, SCENE.trunk, GO1.feet).digest != digest:
                noticed += 1
                continue
        except SurefootError:
            noticed += 1
            continue
        away = float(np.abs(moved(model) - before).max())
        if not away < MATTERS and name.split("[")[0] not in DERIVED:
            found[name] = away
    return found, noticed


def test_every_number_is_read_or_refused() -> None:
    found, noticed = unread(numbers())
    assert not found
    assert noticed > 400, "masses, axes, gains and limits are numbers that move it"


def test_every_flag_is_read_or_refused() -> None:
    found, noticed = unread(flags())
    assert not found
    assert noticed > 10


def test_the_probe_would_catch_an_unread_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DERIVED, "geom_friction")
    found, _ = unread(x for x in numbers() if x[0].startswith("geom_friction"))
    assert found
