"""RLlib's PPO and APPO beside a fleet of Surefoot's, on the same Gymnasium environment.

    python benchmarks/fleet_rllib.py                  twenty minutes on two cores; writes fleet_rllib.json
    python benchmarks/fleet_rllib.py --quick --out /tmp/r.json --runs /tmp/r       shows that all of it runs

All run by one interpreter, which needs what RLlib wants, an older Gymnasium among it:

    python -m venv rllib
    rllib/bin/pip install '.[fleet,gym-mujoco]' 'ray[rllib]==2.60.0' 'gymnasium==1.2.2'

The same for all: the environment, N environments in two processes, T steps, minibatches, epochs, networks
(two, ELU, a standard deviation that does not depend on the observation and begins at 1), observations
normalised by running means, learning rate (constant), discount, lambda, clipping, gradient norm. The learner
is in the process that begins it. APPO reuses batches in its own way (a circular buffer, as RLlib has it by
default) in place of epochs. They take turns, seed by seed.

Samples a second are those between the end of the first update and the end of the last, with all that either
does meanwhile: Ray, logs, statistics. Returns are means over 48 episodes of the last policy, without
exploration; Surefoot's are of held-out seeds, RLlib's of its own evaluation.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from fleet_slots import Job, Row, Table, run_all
from surefoot.artifacts import read_table, write_json
from surefoot.fleet import FleetOptions
from surefoot.runs import RunFolder, read_ledger
from surefoot.sessions import TrainOptions, train

OUT = Path(__file__).with_name("fleet_rllib.json")
OURS: dict[str, FleetOptions | None] = {
    "Surefoot, one process": None,
    "Surefoot, a fleet that waits": FleetOptions(actors=2, sync=True),
    "Surefoot, a fleet that does not wait": FleetOptions(actors=2),
}
THEIRS = ("RLlib, PPO", "RLlib, APPO")
EPISODES = 48


@dataclass(frozen=True)
class Args:
    environment: str = "HalfCheetah-v5"
    envs: int = 32
    horizon: int = 64
    minibatches: int = 8
    epochs: int = 8
    learning_rate: float = 3e-4
    updates: int = 100
    who: tuple[str, ...] = (*OURS, *THEIRS)
    seeds: tuple[int, ...] = (1, 2, 3)
    cores: int = 2
    """To use, two for a run."""
    quick: bool = False
    runs: Path = Path("runs/fleet-rllib")
    commit: str | None = None
    """Of the sources, where git does not say it."""
    out: Path = OUT
    one: tuple[str, int] | None = None
    """Makes this one run (who, seed) in this process."""

    @property
    def block(self) -> int:
        return self.envs * self.horizon

    def said(self, who: str, seed: int) -> Row:
        named = ("environment", "envs", "horizon", "minibatches", "epochs", "updates")
        return {"who": who, "seed": seed} | {k: getattr(self, k) for k in named}


def folder(args: Args, who: str, seed: int) -> Path:
    return (args.runs / f"{who.replace(', ', '-').replace(' ', '-')}-{seed}").resolve()


# ---- Surefoot


def ours(args: Args, who: str, seed: int, where: Path) -> Row:
    overrides: dict[str, Any] = {
        "envs": args.envs, "horizon": args.horizon, "minibatches": args.minibatches, "epochs": args.epochs,
        "learning_rate": args.learning_rate, "target_kl": None, "init_std": 1.0, "evaluate_every": 1_000_000,
    }  # fmt: skip
    options = TrainOptions(
        task=f"gym:{args.environment}", overrides=overrides, seed=seed, updates=args.updates,
        out=str(where / "run"), perturb=("none",), fleet=OURS[who],
    )  # fmt: skip
    train(options)
    run = RunFolder.open(where / "run")
    rows = read_table(run.path / "panels" / run.record.panel / "confirmation" / "episodes.parquet")
    returns = rows["return"][rows["policy"].astype(str) == "trained"]
    ledger = read_ledger(run.path / "ledger.jsonl")[0]
    curve = [(r["samples"], r["train_seconds"], r["episode.return"]) for r in ledger]
    lag = [r["fleet.lag.mean"] for r in ledger if "fleet.lag.mean" in r]
    return came_to(curve, float(returns.mean()), len(returns)) | {
        "lag_mean": float(np.mean(lag)) if lag else None
    }


def came_to(curve: list[tuple[int, float, float | None]], returned: float, episodes: int) -> Row:
    """Returns the rate behind the first update, and the mean return of the last policy."""
    (first, begun, _), (last, ended, _) = curve[0], curve[-1]
    every = max(1, len(curve) // 20)
    return {
        "samples": last,
        "seconds": ended,
        "samples_per_s": (last - first) / (ended - begun),
        "return": returned,
        "episodes": episodes,
        "curve": [{"samples": s, "seconds": t, "return": r} for s, t, r in curve[every - 1 :: every]],
    }


# ---- RLlib


def theirs(args: Args, who: str, seed: int) -> Row:
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    algorithm = configured(args, who, seed).build_algo()
    begun = time.perf_counter()
    curve: list[tuple[int, float, float | None]] = []
    samples = 0
    try:
        while samples < args.updates * args.block:
            said = algorithm.train()["env_runners"]
            samples = int(said.get("num_env_steps_sampled_lifetime", samples))
            returned = said.get("episode_return_mean")
            known = returned is not None and np.isfinite(returned)
            curve.append((samples, time.perf_counter() - begun, float(returned) if known else None))
        judged = algorithm.evaluate()["env_runners"]
    finally:
        algorithm.stop()
        ray.shutdown()
    return came_to(
        [c for c in curve if c[0]], float(judged["episode_return_mean"]), int(judged["num_episodes"])
    )


def configured(args: Args, who: str, seed: int) -> Any:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.algorithms.appo import APPOConfig
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    asynchronous = who.endswith("APPO")
    config: Any = APPOConfig() if asynchronous else PPOConfig()
    config = (
        config.environment(args.environment)
        .framework("torch")
        .env_runners(
            num_env_runners=2,
            num_envs_per_env_runner=args.envs // 2,
            rollout_fragment_length=args.horizon,
            env_to_module_connector=lambda *given, **named: MeanStdFilter(),
        )
        .learners(num_learners=0)
        .training(
            lr=args.learning_rate, gamma=0.99, lambda_=0.95, clip_param=0.2, entropy_coeff=0.0,
            vf_loss_coeff=1.0, use_kl_loss=False, grad_clip=1.0, grad_clip_by="global_norm",
            train_batch_size_per_learner=args.block,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="elu", vf_share_layers=False, free_log_std=True
            )
        )
        .evaluation(
            evaluation_interval=1_000_000, evaluation_num_env_runners=0, evaluation_duration=EPISODES,
            evaluation_duration_unit="episodes", evaluation_config=AlgorithmConfig.overrides(explore=False),
        )
        .reporting(
            min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=args.block,
            metrics_num_episodes_for_smoothing=EPISODES,
        )
        .debugging(seed=seed, log_level="ERROR")
    )  # fmt: skip
    if asynchronous:
        return config
    return config.training(
        num_epochs=args.epochs, minibatch_size=args.block // args.minibatches, vf_clip_param=float("inf")
    )


# ---- all of it


def job(args: Args, who: str, seed: int) -> Job:
    where = folder(args, who, seed)
    given = ("environment", "envs", "horizon", "minibatches", "epochs", "learning_rate", "updates", "runs")
    command = [__file__, "--one", who, str(seed)]
    command += [x for k in given for x in (f"--{k.replace('_', '-')}", str(getattr(args, k)))]
    left = where / "row.json"
    return Job(f"{who}, seed {seed}", command, lambda: dict(json.loads(left.read_text())), left)


def main(args: Args) -> None:
    if args.one is not None:
        who, seed = args.one
        where = folder(args, who, seed)
        where.mkdir(parents=True)
        row = ours(args, who, seed, where) if who in OURS else theirs(args, who, seed)
        versions = {"versions_of": {p: version(p) for p in ("ray", "gymnasium", "mujoco", "torch")}}
        write_json(where / "row.json", args.said(who, seed) | row | versions)
        return
    if args.quick:
        args = replace(args, updates=3, seeds=(1,), horizon=16, epochs=2)
    table = Table(args.out, args.quick, args.commit)
    jobs = [
        job(args, who, seed)
        for seed in args.seeds
        for who in args.who
        if not table.has(**args.said(who, seed))
    ]

    def done(row: Row) -> None:
        table.add(row)
        print(
            f"{row['who']}, seed {row['seed']}: {row['samples_per_s']:,.0f} samples/s, return "
            f"{row['return']:,.0f} after {row['samples']:,} samples, {row['process_seconds']:.0f} s",
            flush=True,
        )

    failed = run_all(jobs, args.cores, 2, done)
    print(f"{len(table.rows)} runs in {args.out}, {len(failed)} failed.")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
