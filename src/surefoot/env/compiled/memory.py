"""Where the kernels keep what environments remember: rows of two arrays [rows, environments], one of float32
and one of int32, and how the records of `VecEnv` are laid out in them. The terrain, which all share, is one
more array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from surefoot.compiler import RowLayout
from surefoot.engines import Parameters
from surefoot.env.scenarios import Script, TrainSampler
from surefoot.env.vec_env import VecEnv
from surefoot.tasks import TaskState

INTEGERS = ("env", "family", "member", "episode", "age", "born")
RECORDS: dict[str, type[Any]] = {"script": Script, "task": TaskState, "parameters": Parameters}
ELSEWHERE = {"script": ("family", "member", "episode"), "task": ("age",)}
"""Fields that are counted further than float32 can."""


class Memory:
    """The two arrays, and each record's fields in them."""

    def __init__(self, env: VecEnv, padded: int) -> None:
        self.device, self.count, self.padded = env.device, env.num_envs, padded
        self.rows = RowLayout()
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name, record in self._records(env).items():
            for field, value in record.tensors().items():
                if field not in ELSEWHERE.get(name, ()):
                    self._field(f"{name}.{field}", tuple(value.shape[1:]))
        self._field("applied", (env.contract.action.size,))
        self._field("returns", (len(env.reward_names),))
        self._field("progress", (2,))
        self._field("stratum", (1,))
        self.real = torch.zeros(self.rows.count, padded, device=self.device)
        self.whole = torch.zeros(len(INTEGERS), padded, dtype=torch.int32, device=self.device)
        self.sections, self.ground = self._terrain(env)
        self.take(env)

    @staticmethod
    def _terrain(env: VecEnv) -> tuple[RowLayout, Tensor]:
        """Returns the tables by name and in one array, one after the other; nothing but a zero on a plane."""
        sections, tables = RowLayout(), [torch.zeros(1, device=env.device)]
        sections.add("nothing", 1)
        terrain: dict[str, Tensor] = {}
        if env.height_field is not None:
            terrain |= {"heights": env.height_field.heights, "origins": env.height_field.origins}
        land = env.sampler.composition.land if isinstance(env.sampler, TrainSampler) else None
        if land is not None:
            terrain |= {"count": land.count, "tiles": land.tiles, "start": land.start}
        for name, table in terrain.items():
            sections.add(name, table.numel())
            tables.append(table.reshape(-1).to(torch.float32))
        return sections, torch.cat(tables)

    @staticmethod
    def _records(env: VecEnv) -> dict[str, Any]:
        return {"script": env.script, "task": env.state, "parameters": env.parameters}

    def _field(self, name: str, shape: tuple[int, ...]) -> None:
        self.shapes[name] = shape
        self.rows.add(name, int(torch.Size(shape).numel()))

    def integers(self, name: str) -> Tensor:
        return self.whole[INTEGERS.index(name), : self.count]

    def read(self, name: str) -> Tensor:
        """Returns a field [N, ...], as a view."""
        return self.real[self.rows[name], : self.count].T.view(self.count, *self.shapes[name])

    def write(self, name: str, value: Tensor) -> None:
        self.real[self.rows[name], : self.count] = value.reshape(self.count, -1).T.to(torch.float32)

    def take(self, env: VecEnv) -> None:
        """Copies all that the environments remember into the arrays."""
        for name, record in self._records(env).items():
            for field, value in record.tensors().items():
                if field not in ELSEWHERE.get(name, ()):
                    self.write(f"{name}.{field}", value)
        self.write("returns", env.returns)
        self.write("progress", env.progress)
        if isinstance(env.sampler, TrainSampler):  # a panel's scenarios have none to come
            self.write("stratum", env.sampler.composition.stratum[env.sampler.numbers])
        whole: Mapping[str, Tensor] = {
            "env": env.sampler.numbers,
            "family": env.script.family,
            "member": env.script.member,
            "episode": env.episode,
            "age": env.state.age,
            "born": env.born,
        }
        for name, value in whole.items():
            self.integers(name).copy_(value)

    def give(self, env: VecEnv) -> None:
        """Copies what the arrays hold back into the environments."""
        for name, kind in RECORDS.items():
            old = self._records(env)[name].tensors()
            new = {}
            for f in fields(kind):
                if f.name in ELSEWHERE.get(name, ()):
                    new[f.name] = old[f.name]
                else:
                    new[f.name] = self.read(f"{name}.{f.name}").to(old[f.name].dtype, copy=True)
            for own in ("episode", "age"):
                if own in ELSEWHERE.get(name, ()):
                    new[own] = self.integers(own).long()
            setattr(env, "state" if name == "task" else name, kind(**new))
        env.episode, env.born = self.integers("episode").long(), self.integers("born").long()
        env.returns, env.progress = self.read("returns").clone(), self.read("progress").clone()
        env.level = env.script.level.clone()
