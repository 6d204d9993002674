"""The three kernels around a physics step, generated from the task's own functions.

act      exploration, action, its log probability, joint targets, push
task     the task's memory, rewards and ends; where an episode is over, its record and the next one's scenario
         (not where environments do not reset themselves: those of panels)
observe  what policy and critic see next

`Rules`, the methods of `VecEnv` that say what a control step means, are called once with symbolic tensors;
what they return is printed. So there is one definition of an environment, and these kernels are another way
to run it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from torch import Tensor

from surefoot.compiler import Expr, Symbols, Target, exp, number, symbols, total, where
from surefoot.contract import Channel
from surefoot.engines import RobotState
from surefoot.engines.stride import FAILED, TRUNK_CONTACT, StrideEngine
from surefoot.env.compiled.memory import ELSEWHERE, INTEGERS, RECORDS, Memory
from surefoot.env.compiled.source import Source
from surefoot.env.compiled.tables import Dealt, Table
from surefoot.env.episodes import DealtRows
from surefoot.env.rules import resting
from surefoot.env.scenarios import Script
from surefoot.env.vec_env import VecEnv
from surefoot.tasks import Ground, View
from surefoot.terrain import HeightField

RECORD = (
    "step",
    "env",
    "episode",
    "stratum",
    "steps",
    "reason",
    "delay_s",
    "next_stratum",
    "level",
    "tile",
    "walked_m",
    "commanded_m",
)
"""Columns of a finished episode's record; the returns by term follow."""


EPISODE, AGE, BORN = (INTEGERS.index(name) for name in ("episode", "age", "born"))


@dataclass(frozen=True)
class Sources:
    """The kernels' texts."""

    act: str
    task: str
    observe: str


def generate(env: VecEnv, memory: Memory, target: Target) -> Sources:
    """Returns the three texts. `env` is traced and not changed."""
    assert isinstance(env.engine, StrideEngine)
    made = [
        _Kernel(env, env.engine, memory, Source(target, env.sampler.seeds.split_number)) for _ in range(3)
    ]
    return Sources(made[0].act(), made[1].task(), made[2].observe())


class _Kernel:
    """One kernel in the making: an environment whose memory is symbolic, and the text it is printed to."""

    def __init__(self, env: VecEnv, engine: StrideEngine, memory: Memory, source: Source) -> None:
        self.memory, self.engine, self.s = memory, engine, source
        s, rows = source, memory.rows
        s.add(*(f"const intt {name} = INTS(I.data, {k});" for k, name in enumerate(INTEGERS)))
        age = s.read("age_", "TO_FLOAT(age)")
        records: dict[str, Any] = {}
        for name, kind in RECORDS.items():
            values: dict[str, Any] = {}
            for f in fields(kind):
                if f.name == "age":
                    values[f.name] = Symbols([age])
                elif f.name in ELSEWHERE.get(name, ()):
                    values[f.name] = None
                else:
                    values[f.name] = self._field(f"{name}.{f.name}")
            records[name] = kind(**values)
        task = records["task"]
        task.contact = task.contact > 0.5
        # A stand-in whose memory is symbolic.
        self.env: Any = copy.copy(env)
        env = self.env
        env.state, env.script, env.parameters = task, records["script"], records["parameters"]
        self.rows = rows
        self.rough = env.height_field is not None
        if self.rough:
            self._on_terrain()

    def _on_terrain(self) -> None:
        """Makes height queries and the tables of tiles answer to symbols."""
        env, field = self.env, self.env.height_field
        self.scan = env.scan_points.tolist()
        env.height_field = HeightField(
            **{k: self._table(k, getattr(field, k)) for k in ("heights", "origins")},
            spawn_height=field.spawn_height,
            x0=field.x0,
            y0=field.y0,
        )
        env.ground = self._ground
        if env.auto_reset:
            made = copy.copy(env.sampler.composition)
            tables = {k: self._table(k, getattr(made.land, k)) for k in ("count", "tiles", "start")}
            made.land = replace(made.land, **tables)
            env.sampler = copy.copy(env.sampler)
            env.sampler.composition = made

    def _table(self, name: str, tensor: Tensor) -> Any:
        return Table(self.memory.sections.first(name), tuple(tensor.shape))

    def _ground(self, robot: Any) -> Ground:
        """Traces VecEnv's own function for one point of the scan; all points are a loop."""
        env: Any = self.env
        traced: dict[str, Any] = {}

        def height(point: Any) -> Any:
            env.scan_points = Symbols([list(point)])
            traced["ground"] = VecEnv.ground(env, robot)
            return traced["ground"].scan.flat()[0]

        if not self.scan:
            return VecEnv.ground(env, robot)
        scan: Any = self.s.loop("scan", self.scan, height)
        ground: Ground = traced["ground"]
        return replace(ground, scan=scan)

    def _field(self, name: str) -> Any:
        first = self.memory.rows.first(name)
        plain = name.replace(".", "_")
        return self.s.tensor(plain, self.memory.shapes[name], _row("LOAD(S.data, {})", first))

    def _robot(self) -> Any:
        out = self.engine.buffers.outputs
        feet = len(self.engine.robot.feet)
        values: dict[str, Any] = {}
        for name, (first, count) in out.at.items():
            shape = (feet, 3) if name.startswith("foot_") else (count,)
            values[name] = self.s.tensor(f"y_{name}", shape, _row("LOAD(Y.data, {})", first))
        for name, row in (("trunk_contact", TRUNK_CONTACT), ("failed", FAILED)):
            values[name] = self.s.tensor(f"y_{name}", (), _row("BYTES(flags.data, {})", row)) > 0.5
        return RobotState(**values)

    def _store(self, values: dict[str, Any]) -> None:
        """Writes fields, all of them after the last has been computed."""
        flat = {name: number(value).flat() for name, value in values.items()}
        texts = iter(self.s.compute([x for part in flat.values() for x in part]))
        lines = [
            f"STORE(S.data, {self.rows.first(name) + k}, {next(texts)});"
            for name, part in flat.items()
            for k in range(len(part))
        ]
        self.s.add(*lines)

    # ---- the kernels

    def act(self) -> str:
        s, env, size = self.s, self.env, self.env.contract.action.size
        blocks = -(-size // 4)
        s.add(f"real u[{4 * blocks}], normal[{4 * blocks}];")
        s.add(
            f"DRAW(u, {int(Channel.ACTION_NOISE)}, {blocks}, age * {blocks})",
            f"NORMALS(normal, u, {4 * blocks})",
        )
        xi = [s.read(f"normal_{j}", f"normal[{j}]") for j in range(size)]
        mean = [s.read(f"mean_{j}", f"COLUMN(mean.data, {size}, {j})") for j in range(size)]
        log_std = [s.read(f"log_std_{j}", f"K(log_std.data[{j}])") for j in range(size)]
        action = [m + exp(d) * x for m, d, x in zip(mean, log_std, xi, strict=True)]
        log_prob = total(-0.5 * (x * x) for x in xi) - total(log_std) - size * 0.5 * math.log(2 * math.pi)
        row = f"(e0 + l) * {size}"
        s.put_row("e0 + l < n", "action.data", row, s.compute(action))
        s.add(f"PUT_SINGLE(log_prob.data, float, {s.compute([log_prob])[0]})")
        clip = env.contract.action.clip
        applied = Symbols(np.array([action], object)).clamp(-clip, clip)
        self._store({"applied": applied})
        s.put_row("e0 + l < n", "targets.data", row, s.compute(env.joint_targets(applied).flat()))
        due = env.pushes_due()
        s.put({"pushed": due.any(1).flat()[0]})
        s.branch("ANY_HERE(pushed)")
        velocity = self.engine.buffers.state.first("vel")
        for k, text in enumerate(s.compute(env.push_velocity(due).flat())):
            s.add(f"STORE(X.data, {velocity + k}, LOAD(X.data, {velocity + k}) + {text});")
        s.join()
        return s.text

    def task(self) -> str:
        s, env = self.s, self.env
        robot = self._robot()
        s.put({"failed": robot.failed.flat()[0]})
        # Nothing computed from a failed row counts; a resting robot keeps it from spreading.
        rest = resting(1, len(env.task.robot.feet), env.const.default_pose).tensors()
        void = robot.failed
        safe = {k: _choose(void, rest[k], v) for k, v in robot.tensors().items() if not symbols(v).mask}
        robot = _state(**safe, trunk_contact=robot.trunk_contact & ~void, failed=void)
        applied = _choose(robot.failed, 0.0, self._field("applied"))
        stratum = env.stratum
        outcome = env.outcome(robot, applied)
        after = outcome.view.task
        returns = self._field("returns") + outcome.terms
        progress = self._field("progress")
        if env.contract.terrain_levels > 1:
            progress = progress + env.step_progress(outcome.view)
        s.add(f"PUT_SINGLE(reward.data, float, {s.compute(outcome.reward.flat())[0]})")
        width = len(env.reward_names)
        s.put_row("e0 + l < n", "terms.data", f"(e0 + l) * {width}", s.compute(outcome.terms.flat()))
        ends = {"terminated": outcome.terminated.flat()[0], "truncated": outcome.truncated.flat()[0]}
        s.put(ends)
        for name in ends:
            s.add(f"PUT_SINGLE({name}_out.data, unsigned char, ({name} ? K(1.0f) : K(0.0f)))")
        s.put({"reason": outcome.reason.flat()[0], "lived": stratum.flat()[0]})
        s.add(
            "PUT_SINGLE(reason_out.data, unsigned char, reason)",
            "PUT_SINGLE(stratum_out.data, long long, lived)",
        )
        # The command seen next is that of the next step's segment.
        env.state = after
        ahead = View(robot, env.state, env.parameters, outcome.view.ground, env.const)
        env.state.command = env.current_command()
        if env.auto_reset:
            self._finals(ahead)
            s.add("const maskt done = terminated | truncated;")
            s.add("for (int l = 0; l < W; ++l) if (e0 + l < n) mask.data[e0 + l] = AT(done, l) != 0;")
            self._failures()
            s.branch("ANY_HERE(done)")
            self._record(returns, progress)
            self._next_episode(progress)
            s.join()
        else:
            s.add("const maskt done = terminated & truncated;")  # nobody begins another episode
        self._remember(after, {"returns": returns, "progress": progress})
        return s.text

    def _finals(self, ahead: View) -> None:
        """Writes the critic's last sight of episodes that ran out of time."""
        s, env = self.s, self.env
        s.branch("ANY_HERE(truncated)")
        seen = env.critic_observation(*env.observation_terms(ahead)).flat()
        self._where("truncated", "final_critic.data", f"(e0 + l) * {len(seen)}", dict(enumerate(seen)))
        s.add(
            "for (int l = 0; l < W; ++l)"
            " if (AT(truncated, l) != 0 && e0 + l < n) final_step.data[e0 + l] = step;"
        )
        s.join()

    def _failures(self) -> None:
        """Keeps what a failed environment failed from: the engine still has it."""
        s, st = self.s, self.engine.buffers.state.count
        joints = self.engine.buffers.joints
        s.branch("ANY_HERE(failed)")
        s.add(
            "for (int l = 0; l < W; ++l) if (AT(failed, l) != 0 && e0 + l < n) {",
            "const int slot = NEXT(counts.data + 1);",
            "if (slot < failures.shape[0]) {",
            "float* to = failures.data + (long long)slot * failures.shape[1];",
            "to[0] = (float)(e0 + l); to[1] = (float)AT(episode, l); to[2] = (float)AT(age, l);",
            f"for (int k = 0; k < {st}; ++k) to[3 + k] = X.data[(long long)k * npad + e0 + l];",
            f"const float* aim = targets.data + (long long)(e0 + l) * {joints};",
            f"for (int k = 0; k < {joints}; ++k) to[{3 + st} + k] = aim[k];",
            "} }",
        )
        s.join()

    def _record(self, returns: Symbols, progress: Symbols) -> None:
        s, env = self.s, self.env
        first = number(env.script.stratum[:, 0]).flat()[0]
        s.put({"recorded_stratum": first, "recorded_delay": env.parameters.delay_s.flat()[0]})
        s.add("intt slot = KI(0);")
        s.add(
            "for (int l = 0; l < W; ++l) if (AT(done, l) != 0 && e0 + l < n) {",
            "AT(slot, l) = NEXT(counts.data);",
            "float* to = records.data + (long long)AT(slot, l) * records.shape[1];",
            "to[0] = (float)step; to[1] = (float)(e0 + l); to[2] = (float)AT(episode, l);",
            "to[3] = AT(recorded_stratum, l); to[4] = (float)(AT(age, l) + 1 - AT(born, l));",
            "to[5] = AT(reason, l); to[6] = AT(recorded_delay, l);",
            "}",
        )
        columns = {len(RECORD) + k: x for k, x in enumerate(returns.flat())}
        ground = [*env.script.level.flat(), *env.script.tile.flat(), *progress.flat()]
        columns |= {RECORD.index("level") + k: x for k, x in enumerate(ground)}
        self._where("done", "records.data", "AT(slot, l) * records.shape[1]", columns)

    def _next_level(self, progress: Symbols) -> Any:
        """Returns the curriculum's next level, by what the episode that ended came to."""
        s, env = self.s, self.env
        if env.contract.terrain_levels == 1:
            return env.script.level
        s.add("real u_level[4];", f"DRAW(u_level, {int(Channel.TERRAIN)}, 1, 0)")
        u: Any = Symbols([s.read("u_level_0", "u_level[0]")])
        return env.next_level(env.script.level, progress, u)

    def _next_episode(self, progress: Symbols) -> None:
        """Draws the next scenario of environments that are done, and hands its start to the engine."""
        s, env = self.s, self.env
        made = env.sampler.composition
        level = self._next_level(progress)
        s.add(f"{{ const intt episode = INTS(I.data, {EPISODE}) + 1;")  # hides the one that ended
        uniforms: list[Any] = []
        for name, (channel, count) in made.draws.items():
            blocks = -(-count // 4)
            s.add(f"real u_{name}[{4 * blocks}];", f"DRAW(u_{name}, {int(channel)}, {blocks}, 0)")
            uniforms.append(s.tensor(f"u_{name}", (count,), _row(f"u_{name}[{{}}]", 0)))
        mode: Any = Dealt(s, "mode", made.modes)
        cell: Any = Dealt(s, "cell", made.cells)
        ground: Any = Dealt(s, "ground", made.classes) if self.rough else None
        facts = DealtRows(mode, cell, self._field("stratum"), ground, level)
        new: Any = made.compose(made.named(uniforms), facts)
        body = dict(env.parameters.tensors()) | {"delay_s": new.delay_s}
        staging = self.engine.buffers.staging
        to_engine = {
            staging.first(name) + k: value
            for name in staging.at
            for k, value in enumerate(number(getattr(new, name, body.get(name))).flat())
        }
        self._where("done", "staging.data", f"(e0 + l) * {staging.count}", to_engine)
        self._where(
            "done",
            "records.data",
            "AT(slot, l) * records.shape[1]",
            {RECORD.index("next_stratum"): new.stratum.flat()[0]},
        )
        script = {f"script.{f}": getattr(new, f, level) for f in _fields(Script, "script")}
        rows = {
            self.rows.first(name) + k: value
            for name, values in (script | {"parameters.delay_s": new.delay_s}).items()
            for k, value in enumerate(number(values).flat())
        }
        for row, text in zip(rows, s.compute(list(rows.values())), strict=True):
            s.add(f"STORE(S.data, {row}, (done ? {text} : LOAD(S.data, {row})));")
        s.add(f"PUT_INTS(I.data, {EPISODE}, (done ? episode : episode - 1));", "}")

    def _where(self, mask: str, array: str, start: str, values: dict[int, Expr]) -> None:
        """Numbers into a row of `array` for each environment in the mask, by place from `start` on."""
        texts = dict(zip(values, self.s.compute(list(values.values())), strict=True))
        while texts:
            first = next(iter(texts))
            run = [texts.pop(k) for k in range(first, first + len(texts)) if k in texts]
            self.s.put_row(f"AT({mask}, l) != 0 && e0 + l < n", array, f"{start} + {first}", run)

    def _remember(self, after: Any, sums: dict[str, Symbols]) -> None:
        """The task's memory: advanced, or that of an episode's beginning."""
        s = self.s
        commands = self.rows.first("script.commands")
        phase = self.rows.first("script.phase")
        begin: dict[str, Any] = {
            # after a reset these rows hold the next scenario's
            "command": Symbols(
                [[s.read(f"first_command_{k}", f"LOAD(S.data, {commands + k})") for k in range(3)]]
            ),
            "phase": Symbols([s.read("first_phase", f"LOAD(S.data, {phase})")]),
            "contact": 1.0,
        }
        over = self.s.read("over", "(done ? K(1.0f) : K(0.0f))") > 0.5
        new: dict[str, Any] = {k: _choose(Symbols([over], True), 0.0, x) for k, x in sums.items()}
        for f in fields(type(after)):
            if f.name != "age":
                value = number(getattr(after, f.name))
                new[f"task.{f.name}"] = _choose(Symbols([over], True), begin.get(f.name, 0.0), value)
        self._store(new)
        s.add(
            f"PUT_INTS(I.data, {AGE}, (done ? KI(0) : age + 1));",
            f"PUT_INTS(I.data, {BORN}, (done ? KI(0) : born));",
        )

    def observe(self) -> str:
        s, env = self.s, self.env
        robot = self._robot()
        view = View(robot, env.state, env.parameters, env.ground(robot), env.const)
        clean, extra = env.observation_terms(view)
        size = clean.shape[1]
        blocks = -(-size // 4)
        s.add(
            f"real u[{4 * blocks}];", f"DRAW(u, {int(Channel.OBSERVATION_NOISE)}, {blocks}, age * {blocks})"
        )
        noise = s.tensor("u", (size,), lambda k: f"u[{k}]")
        obs = env.add_noise(clean, noise, env.script.noise_scale).flat()
        critic = env.critic_observation(clean, extra).flat()
        for what, values in (("obs", obs), ("critic", critic)):
            s.put_row("e0 + l < n", f"{what}.data", f"(e0 + l) * {len(values)}", s.compute(values))
        if self.rough:
            self._wrap(robot)
        return s.text

    def _wrap(self, robot: Any) -> None:
        """Robots that have left their tiles continue on the other side."""
        s, env = self.s, self.env
        out, offset = env.left_tile(robot.position[:, :2], env.script.tile)
        s.put({"astray": out.flat()[0]})
        s.branch("ANY_HERE(astray)")
        moves = s.compute(_choose(~out, 0.0, offset).flat())
        outputs, feet = self.engine.buffers.outputs, len(self.engine.robot.feet)
        places = [("X", self.engine.buffers.state.first("pos")), ("Y", outputs.first("position"))]
        places += [("Y", outputs.first("foot_position") + 3 * k) for k in range(feet)]
        for axis, move in enumerate(moves):
            s.add(f"const real move_{axis} = {move};")
            s.add(
                *(
                    f"STORE({a}.data, {row + axis}, LOAD({a}.data, {row + axis}) + move_{axis});"
                    for a, row in places
                )
            )
        s.join()


_state: Any = RobotState  # of symbols


def _row(text: str, first: int) -> Callable[[int], str]:
    """Returns where the components of a tensor stand, from row `first` on."""
    return lambda k: text.format(first + k)


def _fields(kind: Any, name: str) -> list[str]:
    """Returns the fields of a record that are kept in rows of numbers."""
    return [f.name for f in fields(kind) if f.name not in ELSEWHERE.get(name, ())]


def _choose(mask: Any, a: Any, b: Any) -> Symbols:
    m = mask.a.reshape(1, *(1,) * (b.ndim - 1))
    other = np.broadcast_to(symbols(a).a, b.shape)
    return Symbols(np.frompyfunc(where, 3, 1)(m, other, number(b).a))
