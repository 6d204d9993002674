"""Control steps per second of MJX (MuJoCo in JAX), on the same robot, plant and actions as engines.py.

    python benchmarks/peers/mjx.py --envs 1024 4096 --seconds 120       prints one JSON line per N

It needs the packages jax and mujoco-mjx. A round is
one compiled scan over some control steps with other targets each, played twice from the same standing start.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from importlib.metadata import version
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import scene
from surefoot.robots import robot

REACH_RAD = 0.3


def rates(name: str, envs: int, horizon: int, rounds: int) -> dict[str, Any]:
    spec, plant = robot(name), EVALUATION_PLANT
    scene._add_sensors = lambda *_: None  # MJX refuses contact sensors, and nothing here reads them
    model = scene.build_scene(spec, plant).model
    start = mujoco.MjData(model)
    mujoco.mj_resetData(model, start)
    start.qpos[2] = spec.stand_height_m
    start.qpos[7:] = spec.default_pose
    mujoco.mj_forward(model, start)
    mx, one = mjx.put_model(model), mjx.put_data(model, start)
    data = jax.tree.map(lambda x: jnp.broadcast_to(x, (envs, *x.shape)), one)
    drawn = np.random.default_rng(1).uniform(-REACH_RAD, REACH_RAD, (envs, horizon, model.nu))
    targets = jnp.asarray((drawn + np.asarray(spec.default_pose)).astype(np.float32).swapaxes(0, 1))
    substep = jax.vmap(mjx.step, in_axes=(None, 0))

    def control(state: Any, target: Any) -> tuple[Any, None]:
        state = state.replace(ctrl=target)
        return jax.lax.fori_loop(0, plant.decimation, lambda _, s: substep(mx, s), state), None

    play = jax.jit(lambda state: jax.lax.scan(control, state, targets)[0])
    begun = time.perf_counter()
    ready = play.lower(data).compile()
    compiled = time.perf_counter() - begun
    jax.block_until_ready(ready(data))
    rows = []
    for _ in range(rounds):
        begun = time.perf_counter()
        jax.block_until_ready(ready(ready(data)))
        rows.append(2 * envs * horizon / (time.perf_counter() - begun))
    return {
        "engine": "mjx",
        "robot": name,
        "ground": "plane",
        "plant": "evaluation",
        "envs": envs,
        "rounds": rows,
        "steps_per_second": round(statistics.median(rows), 1),
        "compile_seconds": round(compiled, 1),
        "version": version("mujoco-mjx"),
        "device": jax.devices()[0].device_kind,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robot", default="go1")
    parser.add_argument("--envs", nargs="+", type=int, default=[1024, 4096])
    parser.add_argument("--horizon", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="begin nothing after this long")
    args = parser.parse_args()
    end = time.perf_counter() + args.seconds
    for envs in args.envs:
        if time.perf_counter() < end:
            print(json.dumps(rates(args.robot, envs, args.horizon, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
