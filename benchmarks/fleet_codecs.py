"""What the codecs of a fleet's fragments cost and save, on real experience, into fleet_codecs.json.

    python benchmarks/fleet_codecs.py                  5 minutes on two cores; writes the JSON beside this
    python benchmarks/fleet_codecs.py --quick          seconds: shows that all of it runs
    python benchmarks/fleet_codecs.py --run runs/RUN   a walk-flat run that is there, for its policy

Two streams: fragments of walk-flat on native MuJoCo under a policy that was trained to walk, and pictures of
84 x 84 x 4 bytes of rendered environments (fleet_frames.py). Each codec packs and reads the same fragment;
times are those of one core, medians. The link speed below which a codec pays, against fp32 and for pictures
against uint8, follows from its bytes and its nanoseconds in exact arithmetic
(`surefoot.fleet.codec_costs`). The Atari game needs ale-py, pictures need pillow.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from document import HERE
from fleet_frames import SOURCES, can_render, stream
from machines import commit
from surefoot.artifacts import write_json
from surefoot.compute import cores, cpu_name, prepare_torch
from surefoot.fleet.codec_costs import CodecCost, cost_of, lossless, pays_below
from surefoot.fleet.codecs import PLAIN
from surefoot.fleet.fragment import Fragment, Key, Schema, pack, unpack
from surefoot.fleet.on_ray.acting import weights_of
from surefoot.fleet.on_ray.actor import FleetActor, order_of
from surefoot.learners import Ppo
from surefoot.runs import RunFolder, section, versions
from surefoot.training import UNOBSERVED, Limits, Trainer, begin_tracker, make_plan, new_run

OUT = HERE / "fleet_codecs.json"
RUN = bytes(16)
ROUNDED = ("fp16", "fp16+lz4", "fp16+zstd", "fp16+delta+zstd")


def train(folder: Path, minutes: float) -> None:
    """Learns to walk for a while; nothing is evaluated."""
    plan = make_plan("walk-flat")
    run = new_run(plan, str(folder))
    trainer = Trainer(plan, run, select=False)
    try:
        tracker = begin_tracker(run, "none", False, UNOBSERVED.note)
        trainer.train(Limits(None, minutes), UNOBSERVED, tracker)
    finally:
        trainer.close()


def walking(run: Path, envs: int) -> tuple[Schema, Fragment]:
    """A fragment of walk-flat under a run's policy, after a few seconds of its episodes."""
    import torch

    plan = make_plan("walk-flat", engine="mujoco", overrides={"envs": envs, "families": min(envs, 8)})
    c = plan.task.contract
    device = torch.device("cpu")
    policy = Ppo(c, plan.recipe, plan.mirror(device), plan.seeds, device)
    policy.load(section("learner", RunFolder.open(run).load_checkpoint("latest").tensors))
    with tempfile.TemporaryDirectory() as diaries:
        actor = FleetActor(order_of(plan, RUN, Path(diaries)), range(envs), 0, 0, 0)
        weights, schema = weights_of(policy), actor.describe().schema
        for k in range(8):
            buffer = actor.collect(Key(0, 0, k), 0, weights)
    return schema, unpack(schema, RUN, buffer)


def pictures(source: str, horizon: int, envs: int) -> tuple[Schema, Fragment]:
    """A fragment of rendered frames."""
    seen = stream(source, horizon, envs)
    wide = seen["obs"].shape[-1]
    sizes = {"observation": wide, "critic": wide, "shared": wide, "action": 1, "rewards": 1, "strata": 1}
    schema = Schema.of(source, sizes | {"content": 0})
    stepwise = np.zeros((horizon, envs))
    cut = np.argwhere(seen["truncated"])
    arrays = {
        **seen,
        "critic": np.zeros((horizon + 1, envs, 0), np.float32),
        "log_prob": stepwise,
        "reason": seen["terminated"] + 2 * seen["truncated"],
        "stratum": stepwise,
        "final_step": cut[:, 0],
        "final_env": cut[:, 1],
        "final_critic": seen["obs"][1:][cut[:, 0], cut[:, 1]],
        "terms": [seen["reward"].sum()],
        "resets": [seen["terminated"].sum() + len(cut)],
        "age": np.zeros(envs),
        "content": np.zeros((envs, 0), np.float32),
    }
    return schema, unpack(schema, RUN, pack(schema, RUN, Key(0, 0, 0), 0, arrays, {}))


def row(stream_name: str, plain: CodecCost, cost: CodecCost, lossy: bool) -> dict[str, Any]:
    pays = pays_below(plain, cost)
    return {
        "stream": stream_name,
        "codec": cost.name,
        "lossy": lossy,
        "transitions": cost.transitions,
        "bytes": cost.nbytes,
        "bytes_per_transition": cost.bytes_per_transition,
        "pack_us": 1e6 * cost.pack_s,
        "read_us": 1e6 * cost.read_s,
        "pays_below_bytes_per_s": pays if isinstance(pays, str) else float(pays),
        "against": plain.name,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, help="a run of walk-flat (default: one is trained first)")
    parser.add_argument("--minutes", type=float, default=0.9, help="for that one")
    parser.add_argument("--envs", type=int, default=64, help="environments of walk-flat's fragment")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="seconds; figures mean little")
    args = parser.parse_args()
    prepare_torch()
    minutes, repeats, horizon, envs = (0.05, 2, 4, 1) if args.quick else (args.minutes, 15, 16, 8)
    found: list[dict[str, Any]] = []

    def measure(
        name: str, experience: tuple[Schema, Fragment], base: str, codecs: list[str], lossy: tuple[str, ...]
    ) -> None:
        schema, fragment = experience
        plain = cost_of(base, schema, fragment, repeats)
        for codec in [*codecs, *lossy]:
            cost = plain if codec == base else cost_of(codec, schema, fragment, repeats)
            found.append(row(name, plain, cost, codec in lossy))
            print(found[-1], flush=True)
        write_json(args.out, entry | {"rows": found})

    entry: dict[str, Any] = {
        "quick": args.quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cpu": cpu_name(), "cores": cores()},
        "versions": versions(),
        "not_rendered": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        run = args.run or Path(folder) / "run"
        if args.run is None:
            train(run, minutes)
        measure("walk-flat", walking(run, 8 if args.quick else args.envs), PLAIN, lossless(), ROUNDED)
    rendered = 0
    for source in SOURCES:
        why = can_render(source)
        if why:
            entry["not_rendered"][source] = why
            print(f"{source} cannot be rendered here: {why}", flush=True)
            continue
        measure(source, pictures(source, horizon, envs), "uint8", [PLAIN, *lossless("uint8")], ())
        rendered += 1
        if rendered == (1 if args.quick else 2):
            break
    print(f"Wrote {args.out}")


if __name__ == "__main__":
    main()
