"""What no refactoring may move: ids, panels, and the text of every printed kernel, as digests.

`python tests/pins.py` writes tests/pins.json anew: only when a change of meaning is meant, and say so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from surefoot.compiler import Target
from surefoot.contract import load_panel, panel_names
from surefoot.engines.stride import engine as stride
from surefoot.engines.stride.kernel import control_step_source
from surefoot.engines.stride.reset import reset_source
from surefoot.env.compiled.kernels import generate
from surefoot.tasks.registry import BUILT_IN
from surefoot.training.plan import RobotPlan
from surefoot.training.plan_makers import make_plan

PINS = Path(__file__).with_name("pins.json")
FLOAT = re.compile(r"-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b(?=[,}])")
"""A number in a list of numbers."""
FEW = {"envs": 32, "families": 4}
"""Environments that are enough for a kernel's text, which does not depend on their number."""


def pins() -> dict[str, str]:
    return dict(_ids()) | dict(_texts())


def _ids() -> Iterator[tuple[str, str]]:
    for task in (*BUILT_IN, "walk-flat+sparse"):
        for engine in ("mujoco", "stride"):
            plan = make_plan(task, engine=engine)
            yield f"{task} measurement", plan.measurement_id
            yield f"{task} interface", plan.interface_id
            yield f"{task} contract", plan.task.contract.digest
            yield f"{task} training on {engine}", plan.training_id
    for name in panel_names():
        yield f"panel {name}", load_panel(name).digest


def _texts() -> Iterator[tuple[str, str]]:
    """The compiled environment's three kernels and stride's two, for CPU registers and CUDA threads."""
    for task in ("walk-flat", "trot-flat", "walk-rough", "walk-anymal-flat", "walk-biped-flat"):
        plan = make_plan(task, overrides=FEW, engine="stride")
        assert isinstance(plan, RobotPlan)
        env = plan.environments(range(FEW["envs"]))
        try:
            plain, memory = env.plain, env.memory
            for shape, width, cuda in (("wide", stride.WIDTH, False), ("solo", 1, True)):
                made = generate(plain, memory, Target(shape, width, cuda))
                for name in ("act", "task", "observe"):
                    yield f"{task} {name} {shape}", _digest(getattr(made, name))
            yield from ((f"{task} {k}", v) for k, v in _physics(env.engine))
        finally:
            env.close()


def _physics(engine: stride.StrideEngine) -> Iterator[tuple[str, str]]:
    order, timing = stride.policy_order(engine.layout, engine.robot), engine.timing
    for shape, width, cuda in (("wide", stride.WIDTH, False), ("lanes", 1, True), ("solo", 1, True)):
        target = Target(shape, width, cuda)
        text = control_step_source(engine.layout, engine.buffers, order, target, **timing)
        yield f"step {shape}", _digest(text)
    pose = np.asarray(engine.robot.default_pose, np.float32)
    text = reset_source(engine.layout, engine.buffers, order, pose, **timing)
    yield "reset", _digest(FLOAT.sub(_rounded, text))


def _rounded(number: re.Match[str]) -> str:
    """Returns a number without its last digits: inverse weights come out of LAPACK, which has others of them
    on other processors."""
    return f"{round(float(number[0]), 9) + 0.0:.9f}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    PINS.write_text(json.dumps(pins(), indent=1, sort_keys=True) + "\n")
