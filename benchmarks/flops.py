"""Arithmetic of a control step of stride's Go1 on the plane, counted from the program that its kernel is.

    python benchmarks/flops.py            a minute; writes flops.json beside it
    python benchmarks/flops.py --quick    seconds: shows that all of it runs, figures mean nothing

The float64 backend plays what `benchmarks/engines.py` times on CUDA (standing, then random targets). As each
statement runs, its operations are counted three times:

needed    by robots that want it: still iterating, still searching. What depends on the robot alone counts
          once, what depends on the chain once per chain, what depends on a contact once per contact.
alone     by the lanes of those robots. A lane has a chain, so what depends on the robot alone is worked out
          by each of its lanes, and a lane without a contact waits for one that has it.
issued    by all lanes of their warps: a warp runs what any of its robots wants.

Additions, multiplications, divisions and roots are one flop each, sine and cosine those of their polynomials,
signs, comparisons and selections none. Where statements follow each other an expression is computed once, as
compilers do it, until a variable that it reads is assigned; nothing is moved out of a loop. What the kernel
does around the program (loads, checks, stores, the trunk's velocity and gravity once per control step) is
left out. `instructions` is the least that issuing takes: a product that goes nowhere but into a sum is one
with it, comparisons, selections and shuffles are one each, signs and conjunctions none. Loads, moves,
branches and what a division is made of come on top.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from engines import PLANTS, Sizes, actions, place
from surefoot.artifacts import atomic_write
from surefoot.compiler.expressions import Expr, order
from surefoot.compiler.program import COUNT, Block, Collect, If, Program, Sum, Var, While
from surefoot.compiler.targets import BLOCK
from surefoot.engines.stride import StrideEngine
from surefoot.engines.stride.numpy_backend import NumpyStep
from surefoot.engines.stride.step import STATE
from surefoot.robots import robot

SCHEMA_VERSION = 1
ROBOT = "go1"
WARP = 32
FLOPS = dict.fromkeys(("add", "sub", "mul", "div", "sqrt"), 1) | dict.fromkeys(("sin", "cos"), 11)
"""Sine and cosine of an angle share a reduction and two polynomials (shapes.py), 22 flops for both."""
OTHERS = dict.fromkeys(("lt", "le", "where", "min", "max"), 1) | dict.fromkeys(
    ("neg", "abs", "and", "or", "not"), 0
)
"""Instructions of what is no flop."""


@dataclass(frozen=True)
class Cost:
    """Of a statement, each [flops, instructions]: for a robot, for a lane, and where a contact is."""

    robot: np.ndarray
    lane: np.ndarray
    contact: np.ndarray


class Costs:
    """The costs of a program's statements, by id()."""

    def __init__(self, program: Program) -> None:
        self.chains = program.chains
        self.lanes = 1 << (program.chains - 1).bit_length()  # of a robot
        self.of: dict[int, Cost] = {}
        self._leaves: dict[Expr, frozenset[Any]] = {}
        self._read(program.body, set())

    def _read(self, body: list[Any], known: set[Expr]) -> None:
        """`known` is what has been computed and still holds."""
        for s in body:
            if isinstance(s, If | While):
                self._forget(known, assigned([s]))
                self._read(s.body, set(known))
                continue
            if isinstance(s, Sum):
                meetings = int(math.log2(self.lanes))  # a shuffle and an addition each
                costs = (self.chains - 1) * np.ones(2), meetings * np.array([1, 2]), np.zeros(2)
                self.of[id(s)] = Cost(*(len(s.outputs) * cost for cost in costs))
            elif isinstance(s, Block | Collect):
                self.of[id(s)] = self._cost(s, known)
            else:
                raise TypeError(f"the arithmetic of {type(s).__name__} is not written in expressions")
            self._forget(known, assigned([s]))

    def _forget(self, known: set[Expr], changed: set[Var]) -> None:
        known -= {x for x in known if self.leaves(x) & changed}

    def _cost(self, s: Block | Collect, known: set[Expr]) -> Cost:
        outputs = list(s.outputs.values())
        always = [s.when] if isinstance(s, Collect) else [] if s.domain == "item" else outputs
        first = [x for x in order(always) if x not in known]
        by = self._by_domain(first, always)
        known |= {x for x in first if self.domain(x) in ("env", "chain")}
        rest = [x for x in order(outputs) if x not in known.union(first)]
        contact = sum(self._by_domain(rest, outputs).values(), np.zeros(2))
        if isinstance(s, Collect):
            by["chain"] += (s.group.stop - s.group.start) * by["slot"]
        elif s.domain == "item":
            contact += sum(var.domain == "chain" for var in s.outputs)  # what is added up
        elif s.add:
            by[s.domain] += len(s.outputs)
        return Cost(by["env"] + self.chains * by["chain"], by["env"] + by["chain"], contact)

    def _by_domain(self, nodes: Sequence[Expr], roots: Sequence[Expr]) -> dict[str, np.ndarray]:
        nodes = [x for x in nodes if x.args and self.domain(x)]
        uses = Counter([*(a for x in nodes for a in x.args), *roots])
        out: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
        for x in nodes:
            fused = x.op in ("add", "sub") and any(a.op == "mul" and uses[a] == 1 for a in x.args)
            instructions = FLOPS[x.op] if x.op in FLOPS else OTHERS[x.op]
            out[self.domain(x)] += FLOPS.get(x.op, 0), instructions - fused
        return out

    def domain(self, x: Expr) -> str:
        """Where its values differ: from item to item, slot, chain or robot; nowhere if it is a constant."""
        domains = {leaf.domain for leaf in self.leaves(x)}
        return next((d for d in ("item", "slot", "chain", "env") if d in domains), "")

    def straight(self, body: list[Any]) -> dict[str, int]:
        """Of a lane that goes through a body once and takes no branch, loop or contact in it."""
        flops, instructions = sum(self.of[id(s)].lane for s in body if not isinstance(s, If | While))
        return {"flops": int(flops), "instructions": int(instructions)}

    def leaves(self, x: Expr) -> frozenset[Any]:
        """Variables and parameters that it reads."""
        for node in [] if x in self._leaves else order([x]):
            own = [node.value] if node.op == "symbol" else []
            self._leaves[node] = frozenset(own).union(*(self._leaves[a] for a in node.args))
        return self._leaves[x]


def loops(body: list[Any]) -> list[While]:
    """Outer ones before those in them."""
    inside = [s for s in body if isinstance(s, If | While)]
    return [loop for s in inside for loop in [*([s] if isinstance(s, While) else []), *loops(s.body)]]


def assigned(body: list[Any]) -> set[Var]:
    out: set[Var] = set()
    for s in body:
        out |= assigned(s.body) if isinstance(s, If | While) else set(s.outputs)
        if isinstance(s, Collect):
            out.add(Var(COUNT, "chain"))
    return out


class Tally:
    """Watches a program run for `envs` robots, whole warps of them, and adds up by parts of the step."""

    def __init__(self, program: Program, envs: int) -> None:
        self.costs, self.parts, self.envs = Costs(program), program.parts, envs
        self.robots = WARP // self.costs.lanes  # of a warp
        self.needed, self.alone, self.issued = (defaultdict(lambda: np.zeros(2)) for _ in range(3))

    def __call__(self, s: Any, here: np.ndarray | None, within: tuple[np.ndarray, ...]) -> None:
        cost, part, chains = self.costs.of[id(s)], self.parts[id(s)], self.costs.chains
        contacts = np.zeros((chains, self.envs), bool) if here is None else here
        contacts = contacts.reshape(-1, chains, self.envs)
        for counts, robots in ((self.alone, 1), (self.issued, self.robots)):
            # Robots that go together run what any of them wants, also where one of all their chains wants it.
            runs = np.ones(self.envs // robots, bool)
            for condition in within:
                runs &= condition.reshape(-1, robots).any(1)
            turns = runs & contacts.reshape(len(contacts), chains, -1, robots).any((1, 3))
            counts[part] += robots * self.costs.lanes * (runs.sum() * cost.lane + turns.sum() * cost.contact)
            if robots == 1:
                self.needed[part] += runs.sum() * cost.robot + (runs & contacts).sum() * cost.contact


@dataclass(frozen=True)
class Episodes:
    """What was counted, and where the robots went."""

    program: Program
    tally: Tally
    iterations: np.ndarray  # [physics steps, N]
    position: np.ndarray  # [N, 3]


def play(engine: StrideEngine, targets: Sequence[np.ndarray]) -> Episodes:
    """From standing, one control step for each of `targets` [N, J]."""
    step, spec, n = NumpyStep(engine.layout), engine.robot, engine.num_envs
    place(engine, None)
    start = engine.state()
    qpos = np.zeros((n, 7 + len(spec.joints)))
    qvel = np.zeros((n, 6 + len(spec.joints)))
    qpos[:, :3], qpos[:, 3:7] = start.position, start.quaternion
    at = {link.name: link.qpos for _, _, link in step.links if link.dof >= 0}
    for j, name in enumerate(spec.joints):
        qpos[:, at[name]] = start.joint_position[:, j]

    def advance(aim: np.ndarray, warm: dict[str, Any]) -> dict[str, Any]:
        return step(qpos, qvel, dict(zip(spec.joints, aim.T, strict=True)), warm)

    def kept(out: dict[str, Any]) -> dict[str, Any]:
        sizes = {"acc": STATE["acc"], "qa": engine.layout.depth}
        return {f"{k}{i}": out[f"{k}{i}"] for k, size in sizes.items() for i in range(size)}

    # A reset solves one physics step without taking it.
    warm = kept(advance(start.joint_position.numpy(), {}))
    step.watch = tally = Tally(step.program, n)
    iterations = []
    for aim in targets:
        for _ in range(engine.plant.decimation):
            out = advance(aim, warm)
            warm = kept(out)
            qpos, qvel = step.state(out, qpos, qvel)
            iterations.append(out["iterations"])
    return Episodes(step.program, tally, np.array(iterations), qpos[:, :3])


def counted(plant: str, envs: int, horizon: int) -> dict[str, Any]:
    """Per robot and control step; beside it how far the robots are from the engine's own in float32."""
    engine = StrideEngine(robot(ROBOT), PLANTS[plant], envs, threads=1)
    targets = 2 * actions(engine, horizon)  # a round on CUDA plays its graph twice
    played = play(engine, [t.numpy() for t in targets])
    place(engine, None)
    for t in targets:
        state = engine.step(t)
    off = np.linalg.norm(state.position.numpy() - played.position, axis=1)
    engine.close()
    tally, steps = played.tally, envs * len(targets)
    kinds = {
        "needed": (tally.needed, 0),
        "alone": (tally.alone, 0),
        "issued": (tally.issued, 0),
    }
    kinds["instructions"] = (tally.issued, 1)
    parts = {
        part: {kind: round(counts[part][i] / steps) for kind, (counts, i) in kinds.items()}
        for part in dict.fromkeys(played.program.parts.values())
    }
    newton, search = loops(played.program.body)
    groups = {"robot": 1, "warp": tally.robots, "block": BLOCK // tally.costs.lanes}
    taken = {k: played.iterations.reshape(len(played.iterations), -1, n).max(2) for k, n in groups.items()}
    return {
        "parts": parts,
        "all": {kind: sum(figures[kind] for figures in parts.values()) for kind in kinds},
        "iterations": {of: round(turns.mean(), 2) for of, turns in taken.items()},
        "lane": {
            "iteration": tally.costs.straight(newton.body),
            "turn of the line search": tally.costs.straight(search.body),
        },
        "off_engine_m": {"median": float(f"{np.median(off):.1e}"), "most": float(f"{off.max():.1e}")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    envs, horizon = (BLOCK, 1) if args.quick else (512, Sizes().horizon)
    document = {
        "schema_version": SCHEMA_VERSION,
        "quick": args.quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {p: version(p) for p in ("mujoco", "numpy", "surefoot")},
        "robot": ROBOT,
        "ground": "plane",
        "envs": envs,
        "control_steps": 2 * horizon,
        "plants": {plant: counted(plant, envs, horizon) for plant in PLANTS},
    }
    atomic_write(args.out, (json.dumps(document, indent=1) + "\n").encode())
    for plant, figures in document["plants"].items():
        print(plant, json.dumps(figures, indent=1))
    print(f"Wrote {args.out}")


if __name__ == "__main__":
    main()
