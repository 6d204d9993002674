"""Programs over expressions: blocks of assignments, sums over chains, branches and loops.

A program runs for many environments at once and never takes a branch for one of them alone: `If` and `While`
run when any environment wants them to, and what they assign is selected by masks. So one program means the
same to numpy (all environments as arrays, `run`), to a SIMD register of environments, to a thread that has
one environment, and to a warp whose lanes have one chain each (printed by `surefoot.compiler.printer`).

A variable belongs to the environment, to each chain, to each contact slot of each chain, or to each item of a
chain's list. Statements on chains are written once and hold for every chain; numbers that differ between
chains are parameters.

What seldom happens goes through the list: `Collect` appends the slots where something is the case, and blocks
over items then work through as many as there are, not through all slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from surefoot.compiler.expressions import Expr, evaluate, lift, order, symbol
from surefoot.compiler.sums import arranged

Domain = Literal["env", "chain", "slot", "item"]

AXES: dict[Domain, int] = {"chain": 1, "slot": 2}
"""How many axes a parameter's table has, by domain."""

COUNT = "items"
"""The chain variable that says how many items its list has; assigning 0 to it empties the list."""


MEETING = 12.0
"""How long a sum over chains takes, roughly, in additions (shuffles of a warp). Only the order of sums
depends on it."""


@dataclass(frozen=True)
class Var:
    name: str
    domain: Domain


@dataclass(frozen=True)
class Param:
    """A number per chain, or per slot and chain, that the kernel reads from a table."""

    name: str
    domain: Domain


@dataclass(frozen=True)
class Group:
    """Slots start .. stop - 1."""

    start: int
    stop: int


@dataclass
class Block:
    """All right-hand sides are evaluated first, then assigned, or added where `add`. A block over items takes
    them one after the other: it assigns to their variables and adds to those of the chain."""

    domain: Domain
    outputs: dict[Var, Expr]
    add: bool = False

    @cached_property
    def nodes(self) -> list[Expr]:
        return order(self.outputs.values())


@dataclass
class Collect:
    """Appends an item for every slot of the group where `when` holds. A list has room for all slots."""

    group: Group
    when: Expr
    outputs: dict[Var, Expr]

    @cached_property
    def nodes(self) -> list[Expr]:
        return order(self.outputs.values())


@dataclass
class Sum:
    """Sums of chain variables over the chains, into environment variables."""

    outputs: dict[Var, Var]


@dataclass
class If:
    condition: Expr
    body: list[Any] = field(default_factory=list)


@dataclass
class While:
    """Repeats its body while the condition holds in any environment, `limit` times at most. `together`: warps
    of a CUDA block begin each iteration together."""

    condition: Expr
    limit: int
    together: bool = False
    body: list[Any] = field(default_factory=list)


@dataclass
class Call:
    """Points that an `External` is asked about: one of the chain, or those of a group. The k-th answer goes
    to the variables `outputs[k]`: of the chain, or of slots `shifts[k]` after the group's (or after 0)."""

    inputs: list[Expr]
    outputs: list[list[Var]]
    shifts: list[int]
    group: Group | None

    @property
    def first(self) -> int:
        return 0 if self.group is None else self.group.start

    @property
    def points(self) -> int:
        return 1 if self.group is None else self.group.stop - self.group.start


@dataclass
class External:
    """A function per point and environment, written by hand. Another, `name_near`, is cheap and says which
    points are worth the first (it alone gets the last input); the last answer about others is 1."""

    name: str
    calls: list[Call]


class Program:
    """Statements in order, their variables and the tables of their parameters."""

    def __init__(self, chains: int, slots: int) -> None:
        self.chains, self.slots = chains, slots
        self.body: list[Any] = []
        self.variables: dict[str, Var] = {}
        self.tables: dict[Param, np.ndarray] = {}  # [K] or [S, K], and a last axis where robots are stacked
        self.known: dict[str, Expr] = {}
        """Variables that need no memory: constants, and others under another name."""
        self.part = ""
        """The part of the computation that statements are now added to."""
        self.parts: dict[int, str] = {}
        """The part that every statement belongs to, by the statement's id()."""
        self._named: dict[bytes, str] = {}
        self._open = [self.body]
        self._ready: dict[Var, float] = {}
        """When a variable has its value, in additions, as if the program were one block."""

    def variable(self, name: str, domain: Domain = "env") -> Expr:
        if name in self.known:
            return self.known[name]
        var = self.variables.setdefault(name, Var(name, domain))
        if var.domain != domain:
            raise ValueError(f"{name} is a variable of {var.domain}, not of {domain}")
        return symbol(var)

    def variables_of(self, name: str, count: int, domain: Domain = "env") -> list[Expr]:
        return [self.variable(f"{name}{i}", domain) for i in range(count)]

    def param(self, name: str, values: Any, group: Group | None = None) -> Expr:
        """A constant if `values` ([K], or [S, K] of a group's slots) are all equal, else a table. Tables of
        chains that are equal, or equal but for a factor of -1, 0 or 1 per chain, are the same table."""
        values = np.asarray(values, np.float64)
        if (values == values.flat[0]).all():
            return lift(float(values.flat[0]))
        if group is not None:
            key = Param(name, "slot")
            table = self.tables.setdefault(key, np.zeros((self.slots, *values.shape[1:])))
            table[group.start : group.stop] = values
            return symbol(key)
        scale = values.flat[np.flatnonzero(values)[0]]
        if values.ndim == 1 and np.isin(values / scale, (-1.0, 0.0, 1.0)).all():
            values, name = values / scale, "sign" + "".join("mzp"[int(x) + 1] for x in values / scale)
        else:
            scale, name = 1.0, self._named.setdefault(values.tobytes(), name)
        key = Param(name, "chain")
        self.tables[key] = values
        return lift(float(scale)) * symbol(key)

    def keep(self, domain: Domain, outputs: Mapping[str, Any]) -> None:
        """Does what `let` does, for variables that are assigned here and nowhere else: constants and
        parameters are remembered instead of stored, and equal expressions are stored once."""
        stored: dict[Expr, Expr] = {}
        into: dict[str, Expr] = {}
        for name, value in outputs.items():
            value = lift(value)
            if self._is_figure(value):
                self.known[name] = value
            elif value in stored:
                self.known[name] = stored[value]
            elif -value in stored:
                self.known[name] = -stored[-value]
            else:
                into[name], stored[value] = value, self.variable(name, domain)
        self.let(domain, into)

    def let(self, domain: Domain, outputs: Mapping[str, Any], *, add: bool = False) -> None:
        """One block. Names end in their component: `vectors("r", v)` makes r0, r1, r2."""
        self._put_block(domain, self._targets(domain, outputs), add)

    def for_items(self, sums: Mapping[str, Any], keeps: Mapping[str, Any] | None = None) -> None:
        """A block over items: what they add to chain variables, and what is kept of each."""
        into = self._targets("chain", sums) | self._targets("item", keeps or {})
        self._put_block("item", into)

    def collect(self, group: Group, when: Expr, outputs: Mapping[str, Any]) -> None:
        self.variable(COUNT, "chain")
        self._put(Collect(group, when, self._targets("item", outputs)))

    def _targets(self, domain: Domain, outputs: Mapping[str, Any]) -> dict[Var, Expr]:
        variables = self.variables_named(list(outputs), domain)
        return {var: lift(value) for var, value in zip(variables, outputs.values(), strict=True)}

    def sum(self, names: Sequence[str]) -> None:
        """`x_sum` becomes the sum of the chain variable `x`."""
        out: dict[Var, Var] = {}
        for name in names:
            source = self.known.get(name, self.variable(name, "chain"))
            if self._is_figure(source):
                figures = evaluate([source], self.tables)[0]
                self.known[f"{name}_sum"] = lift(float(np.broadcast_to(figures, self.chains).sum()))
                continue
            var = (source.args[0] if source.op == "neg" else source).value
            added = self.variable(f"{var.name}_sum", "env")
            out[self.variables[f"{var.name}_sum"]] = var
            if name in self.known:
                self.known[f"{name}_sum"] = -added if source.op == "neg" else added
        self._ready |= {var: self._ready.get(x, 0.0) + MEETING for var, x in out.items()}
        self._put(Sum(out))

    def _is_figure(self, value: Expr) -> bool:
        """A constant, a parameter, or a product of the two; the same for all robots."""
        if value.op in ("neg", "mul"):
            whole = all(map(self._is_figure, value.args))
            return whole and (value.op == "neg" or value.args[0].op == "const")
        if value.op == "symbol" and isinstance(value.value, Param):
            return self.tables[value.value].ndim == AXES[value.value.domain]
        return value.op == "const"

    def external(self, name: str, calls: Sequence[Call]) -> None:
        self._put(External(name, list(calls)))

    def variables_named(self, names: Sequence[str], domain: Domain) -> list[Var]:
        for name in names:
            self.variable(name, domain)
        return [self.variables[name] for name in names]

    @contextmanager
    def when_any(self, condition: Expr) -> Iterator[None]:
        yield from self._nest(If(condition))

    @contextmanager
    def while_any(self, condition: Expr, limit: int, together: bool = False) -> Iterator[None]:
        assert not (together and len(self._open) > 1), (
            "in a branch, warps would wait for some that do not come"
        )
        yield from self._nest(While(condition, limit, together))

    def _put_block(self, domain: Domain, outputs: dict[Var, Expr], add: bool = False) -> None:
        values, ready = arranged(outputs.values(), self._ready)
        self._ready |= dict(zip(outputs, ready, strict=True))
        self._put(Block(domain, dict(zip(outputs, values, strict=True)), add))

    def _put(self, statement: Any) -> None:
        self.parts[id(statement)] = self.part
        self._open[-1].append(statement)

    def _nest(self, statement: If | While) -> Iterator[None]:
        self._put(statement)
        self._open.append(statement.body)
        yield
        self._open.pop()


def vectors(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Names for the components of a vector."""
    return {f"{name}{i}": v for i, v in enumerate(values)}


Function = Callable[..., Sequence[np.ndarray]]

Watch = Callable[[Any, np.ndarray | None, tuple[np.ndarray, ...]], None]
"""Is called with every block, collection, sum and external as it runs; with where it holds: the items [K, N]
that a block over items takes now, the slots [S, K, N] that are collected; and with the conditions [N] of the
branches and loops around it, outermost first."""


def nobody(*_: Any) -> None:
    """Does nothing: the `Watch` of a run that is not watched."""


def run(
    program: Program,
    values: Mapping[str, Any],
    functions: Mapping[str, Function] | None = None,
    watch: Watch = nobody,
) -> dict[str, Any]:
    """Runs the program in float64 for all environments, chains and slots at once.

    Arrays are [N] for variables of environments, [K, N] of chains and [S, K, N] of slots and items. Returns
    the variables as they are at the end.
    """
    state: dict[Var, Any] = {program.variables[k]: np.asarray(v, np.float64) for k, v in values.items()}
    n = max(v.shape[-1] for v in state.values())
    of_slots = (program.slots, program.chains, n)
    shapes = {"env": (n,), "chain": (program.chains, n), "slot": of_slots, "item": of_slots}
    for var in program.variables.values():
        start = state.get(var, 0.0)
        state[var] = np.broadcast_to(start, shapes[var.domain]).copy()
    # Environments next to each other are of one robot, where robots are stacked.
    tables = {
        k: t[..., None] if t.ndim == AXES[k.domain] else np.repeat(t, n // t.shape[-1], axis=-1)
        for k, t in program.tables.items()
    }
    _run(program.body, program, state, tables, functions or {}, watch, ())
    arrays = {var.name: value for var, value in state.items()}
    for name, value in zip(
        program.known, evaluate(list(program.known.values()), state | tables), strict=True
    ):
        arrays[name] = np.broadcast_to(value, shapes["chain"])
    return arrays


def _run(
    body: list[Any],
    program: Program,
    state: dict[Var, Any],
    tables: Mapping[Param, np.ndarray],
    functions: Mapping[str, Function],
    watch: Watch,
    within: tuple[np.ndarray, ...],
) -> None:
    def reader(group: Group | None = None, item: int = -1) -> Callable[[Any], Any]:
        def read(leaf: Var | Param) -> Any:
            value = tables[leaf] if isinstance(leaf, Param) else state[leaf]
            if leaf.domain == "item":
                return value[item]
            return value[group.start : group.stop] if leaf.domain == "slot" and group else value

        return read

    for s in body:
        if isinstance(s, Block) and s.domain == "item":
            count = state[program.variables[COUNT]]
            for k in range(int(count.max())):
                watch(s, count > k, within)
                values = evaluate(list(s.outputs.values()), reader(item=k), s.nodes)
                for var, value in zip(s.outputs, values, strict=True):
                    if var.domain == "item":
                        state[var][k] = value
                    else:
                        state[var] += np.where(count > k, value, 0.0)
        elif isinstance(s, Block):
            watch(s, None, within)
            values = evaluate(list(s.outputs.values()), reader(), s.nodes)
            for var, value in zip(s.outputs, values, strict=True):
                if s.add:
                    state[var] += value
                else:
                    state[var][...] = value
        elif isinstance(s, Collect):
            count = state[program.variables[COUNT]]
            size = (s.group.stop - s.group.start, *count.shape)
            when = np.broadcast_to(evaluate([s.when], reader(s.group))[0], size)
            watch(s, when, within)
            values = evaluate(list(s.outputs.values()), reader(s.group), s.nodes)
            for i, here in enumerate(when):
                chain, env = np.nonzero(here)
                at = count[chain, env].astype(int)
                for var, value in zip(s.outputs, values, strict=True):
                    state[var][at, chain, env] = np.broadcast_to(value, size)[i, chain, env]
                count += here
        elif isinstance(s, Sum):
            watch(s, None, within)
            for out, var in s.outputs.items():
                state[out][...] = state[var].sum(0)
        elif isinstance(s, External):
            watch(s, None, within)
            for call in s.calls:
                shape = (call.points, program.chains, state[call.outputs[0][0]].shape[-1])
                inputs = [np.broadcast_to(x, shape) for x in evaluate(call.inputs, reader(call.group))]
                answers = functions[s.name](*inputs)  # [variable][answer, points, K, N]
                for k, (targets, shift) in enumerate(zip(call.outputs, call.shifts, strict=True)):
                    at = call.first + shift
                    for var, value in zip(targets, answers, strict=True):
                        if var.domain == "chain":
                            state[var][...] = value[k][0]
                        else:
                            state[var][at : at + call.points] = value[k]
        else:
            for _ in range(s.limit if isinstance(s, While) else 1):
                wanted = evaluate([s.condition], reader())[0]
                if not np.any(wanted):
                    break
                _run(s.body, program, state, tables, functions, watch, (*within, wanted))
