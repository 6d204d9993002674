"""Checks that refuse a plan before anything is written: device memory, families among processes, classes of
terrain, keys shared with the panel."""

from __future__ import annotations

import dataclasses
import math

from surefoot.compute import memory_bytes
from surefoot.contract import (
    Disjointness,
    Panel,
    Recipe,
    SeedPlan,
    SurefootError,
    TaskContract,
    nearest_divisors,
    prove_disjoint,
)
from surefoot.tasks import Task

ROBOT_BYTES = 4096
"""Bytes of an environment on a device, block and networks apart: engine, script, task's memory."""


def device_bytes(task: Task, processes: int = 1) -> int:
    """Returns the device memory that training needs on each process' device, from the shapes; a third is
    added for what allocators keep, and a GiB for the device's own (measured with 128-128 networks, one
    process: 30.1 GiB in use at N = 262,144)."""
    c, r = task.contract, task.recipe
    obs, critic, act, terms = c.observation_size, c.critic_size, c.action.size, len(c.rewards)
    block = 4 * (obs + critic + 2 * act + 6 + terms) + 11
    records = 4 * (12 + terms)
    values = 4 * (2 * critic + 2 * max(r.hidden))
    figures = 6 * c.strata.count + 16
    samples = r.samples_per_update * (block + records + values + figures)
    minibatch = r.samples_per_update // r.minibatches * 4 * (obs + critic + 4 * sum(r.hidden) + 3 * act + 16)
    memory = r.remembers
    samples += 4 * r.envs * memory.numbers(obs, r.horizon)
    wider = memory.inputs(obs) - obs + 8 * memory.size * (memory.kind == "gru")
    minibatch += r.samples_per_update // r.minibatches * 4 * wider
    share = (samples + minibatch + r.envs * ROBOT_BYTES) / processes
    # Several processes draw all minibatches and sort out their own: int32, int64 and a few more of each.
    sorting = r.epochs * r.samples_per_update * 40 if processes > 1 else 0
    return round(1.35 * (share + sorting)) + 2**30


def check_memory(task: Task, free: int, processes: int = 1) -> None:
    """Refuses what would run out of device memory, naming the most environments that would not."""
    if device_bytes(task, processes) <= free:
        return
    r, fits = task.recipe, 0
    step = math.lcm(r.families, r.minibatches // math.gcd(r.minibatches, r.horizon))
    for k in range(r.envs // step, 0, -1):
        less = dataclasses.replace(task, recipe=r.model_copy(update={"envs": k * step}))
        if device_bytes(less, processes) <= free:
            fits = k * step
            break
    need, have = device_bytes(task, processes) / 2**30, free / 2**30
    remedy = f"use --envs {fits} or less" if fits else "use a smaller --horizon or --device cpu"
    raise SurefootError(
        f"{r.envs} environments would need {need:.1f} GiB of device memory and {have:.1f} GiB are free; "
        f"{remedy}."
    )


def check_host_memory(recipe: Recipe, buffer_bytes: int, device: str) -> None:
    """Refuses a rollout buffer that the machine's memory cannot hold, naming the most environments whose
    buffer it can."""
    have = memory_bytes()
    if have is None or device.startswith("cuda") or buffer_bytes <= have:
        return
    step = math.lcm(recipe.families, recipe.minibatches // math.gcd(recipe.minibatches, recipe.horizon))
    fits = recipe.envs * have // buffer_bytes // step * step
    remedy = f"use --envs {fits} or less, or a shorter --horizon" if fits else "use a shorter --horizon"
    raise SurefootError(
        f"{recipe.envs} environments would need a rollout buffer of {buffer_bytes / 1e9:.1f} GB, and this "
        f"machine has {have / 1e9:.1f} GB of memory; {remedy}."
    )


def check_precision(recipe: Recipe, device: str) -> None:
    """Refuses the precisions that only a GPU is fast in where there is none to be used."""
    if recipe.precision != "fp32" and not device.startswith("cuda"):
        raise SurefootError(
            f"--precision {recipe.precision} is for GPUs, and would only be slower on --device {device}; "
            "leave it out, or use --device cuda."
        )


def check_remembering(recipe: Recipe, learner: str, processes: int) -> None:
    """Refuses a memory where nobody asks it: libraries and groups of processes collect without one."""
    if not recipe.remembers:
        return
    if learner != "ppo":
        raise SurefootError(
            f"--memory {recipe.memory} is of Surefoot's own PPO, and {learner} trains a policy that sees one "
            "observation; leave out one of --memory and --learner."
        )
    if processes > 1:
        raise SurefootError(
            f"--memory {recipe.memory} trains in one process; leave out one of --memory and torchrun."
        )


def check_share(recipe: Recipe, processes: int) -> None:
    """Refuses a number of processes that the families cannot be split over: a family's environments are all
    in one process."""
    if recipe.families % processes:
        divisors = " or ".join(str(k) for k in nearest_divisors(recipe.families, processes))
        raise SurefootError(
            f"{recipe.families} seed families cannot be split over {processes} processes; use "
            f"--nproc-per-node {divisors}, or a multiple of {processes} for --families."
        )


def check_terrain(contract: TaskContract, seeds: SeedPlan) -> None:
    """Refuses a recipe under which no robot is dealt some class of terrain, where classes are dealt for
    life."""
    strata = contract.strata
    if "terrain" not in strata.names or contract.factor("terrain").level != "env":
        return
    names = contract.factor("terrain").categories

    def undealt(families: int) -> list[str]:
        dealt = strata.dealt_for_life("terrain", families, seeds.envs // families)
        return [name for k, name in enumerate(names) if k not in dealt]

    if missing := undealt(seeds.families):
        fewer = (k for k in range(seeds.families - 1, 0, -1) if not seeds.envs % k and not undealt(k))
        k, most = next(fewer, None), len(contract.factor("terrain").deck)
        raise SurefootError(
            f"{contract.name} deals classes of terrain to robots for life, and with --envs {seeds.envs} "
            f"--families {seeds.families} nobody is dealt {', '.join(missing)}; "
            f"use {f'--families {k}' if k else f'--envs {most} --families 1'}."
        )


def check_disjoint(seeds: SeedPlan, panel: Panel) -> Disjointness:
    """Refuses a panel that shares keys with training; returns the proof that it does not."""
    proof = prove_disjoint(seeds, panel.seeds)
    if not proof.disjoint:
        raise SurefootError(
            f"Panel {panel.name} shares keys with training ({proof.reason}); "
            "make it with split 'eval' so that it is held out."
        )
    return proof
