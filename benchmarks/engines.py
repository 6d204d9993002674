"""Control steps per second of every engine, on the same robots, grounds and actions, in one run.

    python benchmarks/engines.py                 minutes; writes engines.json and engines.svg beside it
    python benchmarks/engines.py --quick         seconds: shows that all of it runs, figures mean nothing

On the CPU stride and native MuJoCo run with one and two threads, in turns, so that what else the machine
does falls on all alike; figures are medians over rounds, ratios medians of a round's ratios. Two halves of
stride's robots that two threads step without ever waiting for each other show what the machine can give: two
threads rarely run at twice the speed of one, because cores share caches, clocks and power. On CUDA stride
runs at every N and MuJoCo Warp as far as patience reaches. There a round is a CUDA graph of some control
steps with other targets each, played twice; MuJoCo Warp captures its own. Every round, on either, begins with
all robots standing. The JSON keeps what each device gave under its name.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp

from machines import about, device_name, keep, kept
from surefoot.compiler.targets import BLOCK, Target
from surefoot.compute.cores import prepare_torch
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import Engine, MujocoEngine, Parameters
from surefoot.engines.conformance import default_targets, standing
from surefoot.engines.mujoco_warp import MujocoWarpEngine
from surefoot.engines.stride import StrideEngine
from surefoot.robots import robot
from surefoot.terrain import Atlas, TileId

SCHEMA_VERSION = 1
REACH_RAD = 0.3
APART = "stride in two halves"
PLANTS = {
    "evaluation": EVALUATION_PLANT,
    "plain": EVALUATION_PLANT.model_copy(update={"impratio": 1.0, "joint_dry_friction": False}),
}
"""The plain plant has no dry friction and impratio 1."""
GROUNDS: dict[str, TileId | None] = {"plane": None, "stairs": TileId("stairs_down", 5, 1)}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    robots: tuple[str, ...] = ("go1", "hexapod", "biped")
    cpu_envs: tuple[int, ...] = (512,)
    cpu_steps: int = 20
    rounds: int = 3
    cuda_envs: tuple[int, ...] = (256, 1024, 4096, 16384, 65536, 262144)
    warp_envs: tuple[int, ...] = (256, 1024, 4096, 16384)
    horizon: int = 16


QUICK = Sizes(robots=("go1",), cpu_envs=(8,), cpu_steps=2, rounds=2, cuda_envs=(64,), warp_envs=(), horizon=4)


@dataclass
class Case:
    """One engine at one size; `rounds` are its control steps per second."""

    engine: str
    robot: str
    ground: str
    plant: str
    envs: int
    threads: int | None = None
    rounds: list[float] = field(default_factory=list)
    kernel: dict[str, float] = field(default_factory=dict)

    def key(self) -> tuple[Any, ...]:
        return self.key_of(asdict(self))

    @staticmethod
    def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
        """What is measured, whenever."""
        return tuple(row.get(k) for k in ("engine", "robot", "ground", "plant", "envs", "threads"))

    def row(self) -> dict[str, Any]:
        out = {k: v for k, v in asdict(self).items() if v not in (None, {})}
        return out | {"steps_per_second": round(statistics.median(self.rounds), 1)}

    def __str__(self) -> str:
        what = f"{self.robot:8s} {self.ground:7s} {self.plant:11s} {self.engine}"
        threads = f", threads: {self.threads}" if self.threads else ""
        rate = statistics.median(self.rounds)
        return f"{what}{threads}, N = {self.envs}: {rate:,.0f} steps/s {self.kernel or ''}"


def place(engine: Engine, atlas: Atlas | None) -> None:
    """Everyone above its own place on the ground."""
    n, rng = engine.num_envs, np.random.default_rng(0)
    start = standing(engine)
    if atlas is not None:
        xy = atlas.origins[0] + rng.uniform(-3.0, 3.0, (n, 2))
        around = [(x, y) for x in np.arange(-0.7, 0.75, 0.1) for y in np.arange(-0.5, 0.55, 0.1)]
        top = np.max([atlas.height(xy + np.array(d)) for d in around], 0)
        start.position[:, :2] = torch.tensor(xy)
        start.position[:, 2] += torch.tensor(top, dtype=torch.float32, device=start.position.device)
    everyone = torch.ones(n, dtype=torch.bool, device=engine.device)
    engine.reset(everyone, start, Parameters.nominal(n, engine.device))


def actions(engine: Engine, count: int) -> list[torch.Tensor]:
    """Drawn for one environment after the other: the first N are the same for every N."""
    pose = default_targets(engine)
    rng = np.random.default_rng(1)
    noise = rng.uniform(-REACH_RAD, REACH_RAD, (engine.num_envs, count, pose.shape[1])).astype(np.float32)
    return [pose + torch.tensor(noise[:, k], device=engine.device) for k in range(count)]


def on_cpu(sizes: Sizes, cases: list[Case]) -> None:
    """All engines of a robot, ground and N in turns."""
    for name in sizes.robots:
        for ground, tile in GROUNDS.items():
            for envs in sizes.cpu_envs:
                atlas = None if tile is None else Atlas.build([tile])
                cases += in_turns(name, ground, atlas, envs, sizes)


def ratios_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Stride's rate over MuJoCo's, thread for thread, and with two threads over one: medians over rounds, in
    which all engines of a robot, ground and N took turns."""
    turns: dict[str, dict[Any, list[float]]] = {}
    for r in rows:
        if "threads" in r:
            case = f"{r['robot']}, {r['ground']}, {r['envs']}"
            turns.setdefault(case, {})[r["engine"], r["threads"]] = r["rounds"]
    pairs = {f"stride over mujoco, {n}": (("stride", n), ("mujoco", n)) for n in (1, 2)}
    pairs |= {f"{e}, 2 over 1": ((e, 2), (e, 1)) for e in ("stride", "mujoco")}
    pairs |= {f"{APART}, 2 over 1": ((APART, 2), ("stride", 1))}
    pairs |= {f"stride over {APART}": (("stride", 2), (APART, 2))}
    out = {}
    for case, by in turns.items():
        for what, (above, below) in pairs.items():
            ratio = statistics.median(a / b for a, b in zip(by[above], by[below], strict=True))
            out[f"{case}: {what}"] = round(ratio, 2)
    return out


class Halves:
    """Two engines with half of the robots each, on threads that meet only when a round is over."""

    def __init__(self, name: str, atlas: Atlas | None, envs: int) -> None:
        self.engines = [
            StrideEngine(robot(name), EVALUATION_PLANT, envs // 2, atlas=atlas, threads=1) for _ in range(2)
        ]
        self._pool = ThreadPoolExecutor(2)

    def round(self, atlas: Atlas | None, steps: int) -> float:
        """Seconds for all steps of both."""
        for engine in self.engines:
            place(engine, atlas)
        targets = actions(self.engines[0], steps)

        def play(engine: Engine) -> None:
            for t in targets:
                engine.step(t)

        for engine in self.engines:
            engine.step(targets[0])
        begun = time.perf_counter()
        list(self._pool.map(play, self.engines))
        return time.perf_counter() - begun

    def close(self) -> None:
        self._pool.shutdown()
        for engine in self.engines:
            engine.close()


def in_turns(name: str, ground: str, atlas: Atlas | None, envs: int, sizes: Sizes) -> list[Case]:
    made: list[tuple[Case, Engine]] = []
    for kind, make in (("stride", StrideEngine), ("mujoco", MujocoEngine)):
        for threads in (1, 2):
            engine = make(robot(name), EVALUATION_PLANT, envs, atlas=atlas, threads=threads)
            made.append((Case(kind, name, ground, "evaluation", envs, threads), engine))
    halves, apart = Halves(name, atlas, envs), Case(APART, name, ground, "evaluation", envs, 2)
    for turn in range(sizes.rounds):
        apart.rounds.append(envs * sizes.cpu_steps / halves.round(atlas, sizes.cpu_steps))
        for case, engine in made if turn % 2 == 0 else reversed(made):
            place(engine, atlas)
            targets = actions(engine, sizes.cpu_steps)
            engine.step(targets[0])
            begun = time.perf_counter()
            for t in targets:
                engine.step(t)
            case.rounds.append(envs * len(targets) / (time.perf_counter() - begun))
    halves.close()
    for _, engine in made:
        engine.close()
    cases = [*(case for case, _ in made), apart]
    print(*cases, sep="\n", flush=True)
    return cases


def kernel_figures(engine: StrideEngine) -> dict[str, int]:
    """Registers and bytes of local memory of a thread of the control step, as the driver has loaded it."""
    kernel, context = engine._step_kernel, wp.get_device("cuda:0").context
    loaded = [e for key, e in kernel.module.execs.items() if key[0] == context]
    function = ctypes.c_void_p(loaded[-1].get_kernel_hooks(kernel).forward)
    driver, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    out = {}
    for attribute, what in ((4, "registers"), (3, "local_bytes")):
        if driver.cuFuncGetAttribute(ctypes.byref(value), attribute, function) == 0:
            out[what] = value.value
    blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    if blocks(ctypes.byref(value), function, BLOCK, ctypes.c_size_t(0)) == 0:
        out["warps_per_sm"] = value.value * BLOCK // 32
    return out


class Watched(StrideEngine):
    """Whose control step notes, of every environment and instead of what stands in `ints`, when its warp
    began and ended (ns) and on which multiprocessor."""

    def _step_source(self, policy: np.ndarray, target: Target) -> str:
        read = 'asm volatile("mov.u64 %0, %globaltimer;" : "=l"({})::"memory");'
        begin = f"unsigned long long born, died; unsigned place; {read.format('born')}"
        end = [read.format("died"), 'asm volatile("mov.u32 %0, %smid;" : "=r"(place));']
        end += [f"ints.data[{i} * npad + e0] = (int)({x});" for i, x in enumerate(("born", "died", "place"))]
        return "\n".join([begin, super()._step_source(policy, target), *end])


def achieved_occupancy(name: str, plant: str, envs: int, rounds: int) -> dict[str, float]:
    """Of one control step on the plane: warps resident, on average over its duration and all multiprocessors,
    as a share of the most that there can be."""
    device = torch.cuda.get_device_properties(0)
    most = device.max_threads_per_multi_processor // device.warp_size * device.multi_processor_count
    shares = []
    engine = Watched(robot(name), PLANTS[plant], envs, device="cuda", max_delay_s=0.0)
    per_warp = device.warp_size // engine._per_launch[1]
    for _ in range(rounds):
        engine.arrays.integers.zero_()
        place(engine, None)
        engine.arrays.targets[:envs] = actions(engine, 1)[0]
        for launch in engine.step_launches[0]:
            launch()
        born, died, _ = engine.arrays.integers[:, :envs:per_warp].cpu().numpy().astype(np.int64)
        shares.append(float((died - born).sum() / ((died.max() - born.min()) * most)))
    return {"warps": len(born), "most_warps": most, "achieved_occupancy": round(statistics.median(shares), 4)}


def bytes_per_step(engine: StrideEngine) -> int:
    """What a control step must move for an environment: state and outputs written, state, parameters, targets
    and the delay line's part read."""
    b = engine.buffers
    return 4 * (2 * b.state.count + b.parameters.count + b.outputs.count + 4 * b.joints)


def timed(engine: Engine, atlas: Atlas | None, horizon: int, rounds: int) -> list[float]:
    targets = actions(engine, horizon)

    def play() -> None:
        for t in targets:
            engine.step(t)

    play()
    torch.cuda.synchronize()
    again: Callable[[], None] = play
    if isinstance(engine, StrideEngine):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            play()
        again = graph.replay
        again()
    torch.cuda.synchronize()
    out = []
    for _ in range(rounds):
        place(engine, atlas)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        again()
        again()
        torch.cuda.synchronize()
        out.append(2 * engine.num_envs * horizon / (time.perf_counter() - begun))
    return out


def on_cuda(sizes: Sizes, cases: list[Case], seconds: float, before: list[dict[str, Any]]) -> None:
    """Go1 first, MuJoCo Warp beside it, then the others; after `seconds` nothing new is begun, and what was
    left out is said."""
    end = time.perf_counter() + seconds
    stride = [
        ("stride", r, g, p, n) for r in sizes.robots for g in GROUNDS for p in PLANTS for n in sizes.cuda_envs
    ]
    warp = [("mujoco-warp", "go1", "plane", "evaluation", n) for n in sizes.warp_envs]
    known = {Case.key_of(row) for row in before}
    first = [case for case in stride if case[1] == "go1"]
    wanted = [*first, *warp, *(case for case in stride if case[1] != "go1")]
    for kind, name, ground, plant, n in wanted:
        case = Case(kind, name, ground, plant, n)
        if case.key() in known:
            continue
        if time.perf_counter() > end:
            print(f"left out for lack of time: {kind}, {name}, {ground}, {plant}, N = {n}")
            continue
        tile = GROUNDS[ground]
        atlas = None if tile is None else Atlas.build([tile])
        engine: Engine
        if kind == "stride":
            engine = StrideEngine(robot(name), PLANTS[plant], n, atlas=atlas, device="cuda")
        else:
            engine = MujocoWarpEngine(robot(name), PLANTS[plant], n, device="cuda", deterministic=False)
        place(engine, atlas)
        case.rounds = timed(engine, atlas, sizes.horizon, sizes.rounds)
        if isinstance(engine, StrideEngine):
            case.kernel = kernel_figures(engine) | {"bytes_per_step": bytes_per_step(engine)}
            if ground == "plane" and name == "go1":
                case.kernel |= achieved_occupancy(name, plant, n, sizes.rounds)
        cases.append(case)
        print(case, flush=True)


def plot(machines: dict[str, Any], path: Path) -> bool:
    """Rates over N on CUDA and rates per robot on CPUs; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, (over_n, per_thread) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for device, machine in sorted(machines.items()):
        lines: dict[str, list[tuple[int, float]]] = {}
        for r in machine["rates"]:
            if r.get("threads", 1) == 1 and r["plant"] == "evaluation":
                label = f"{r['engine']}, {r['robot']}, {r['ground']}"
                lines.setdefault(label, []).append((r["envs"], r["steps_per_second"]))
        if machine["cuda"]:
            for label, points in lines.items():
                over_n.plot(*zip(*sorted(points), strict=True), marker="o", label=f"{label} ({device})")
        else:
            first = {label: min(points)[1] for label, points in lines.items()}  # of the smallest N
            per_thread.plot(list(first.values()), list(first), "o", label=device)
    over_n.set(xscale="log", yscale="log", xlabel="environments", ylabel="control steps per second")
    per_thread.set(xscale="log", xlabel="control steps per second of one thread")
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
    for ax, where in ((over_n, {"loc": "lower right"}), (per_thread, above)):
        ax.grid(alpha=0.3)
        if ax.has_data():
            ax.legend(fontsize="x-small", **where)
    figure.savefig(path, metadata={"Date": None})
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="CUDA where there is one")
    parser.add_argument("--seconds", type=float, default=900.0, help="on CUDA: begin nothing after this long")
    parser.add_argument("--robots", nargs="*", help="only these")
    parser.add_argument("--envs", nargs="*", type=int, help="only these N")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument(
        "--append",
        action="store_true",
        help="keep what this device gave before; CUDA measures only what is missing, a CPU all of it anew",
    )
    parser.add_argument(
        "--mjx", type=Path, help="what peers/mjx.py printed on this device, to keep beside it"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    sizes = QUICK if args.quick else Sizes()
    if args.robots:
        sizes = replace(sizes, robots=tuple(args.robots))
    if args.envs:
        sizes = replace(sizes, cuda_envs=tuple(args.envs), cpu_envs=tuple(args.envs))
    if args.rounds:
        sizes = replace(sizes, rounds=args.rounds)
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda = device.type == "cuda"
    cases: list[Case] = []
    before = kept(args.out).get(device_name(device), {"rates": []})["rates"] if args.append else []
    if args.mjx:
        mjx_rows = [json.loads(line) for line in args.mjx.read_text().splitlines()]
        assert all(row["device"] == device_name(device) for row in mjx_rows), "figures of another device"
        before = [row for row in before if row["engine"] != "mjx"] + mjx_rows
    if cuda:
        on_cuda(sizes, cases, args.seconds, before)
    else:
        on_cpu(sizes, cases)
    anew = {case.key(): case.row() for case in cases}
    rows = [row for row in before if Case.key_of(row) not in anew] + list(anew.values())
    ratios = ratios_of(rows)
    for key, value in ratios.items():
        print(f"{key}: {value:.2f}")
    entry = about(device, args.quick) | {"rates": rows, "ratios": ratios}
    entry["versions"]["mujoco-warp"] = version("mujoco-warp")
    keep(args.out, device, entry, SCHEMA_VERSION)
    plot(kept(args.out), args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
