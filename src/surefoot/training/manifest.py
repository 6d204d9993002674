"""The environment manifest: all of an environment that a run is held to, frozen in a file before it trains.

A saved plan (`plan --save`) is one run to be repeated, recipe and seed included. A manifest says nothing of
who learns, from how many samples or with what seed; it fixes what they all learn in, and what they are judged
on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import surefoot
from surefoot.artifacts import plain, read_json, write_json
from surefoot.contract import Frozen, SurefootError, behaviour_digest, differences, package_digest
from surefoot.runs import versions
from surefoot.tasks import Task, View
from surefoot.terrain import heights_digest

if TYPE_CHECKING:
    from surefoot.training.plan import Plan

_NAMED = ("observation", "privileged", "rewards", "terminations", "factors")
_EPISODES = tuple(f"surefoot.env.{name}" for name in ("rules", "episodes", "scenarios", "vec_env"))
"""Where draws become episodes, and actions control steps."""
_SHOWN = 4
"""Fields that a refusal names."""


class Manifest(Frozen):
    """Holds what `surefoot plan --freeze` writes."""

    schema_version: int = 1
    task: str
    surefoot: str
    """Version that froze it."""
    versions: dict[str, str]
    """What was installed then. Only what the measurement names of it must be the same."""
    measurement_id: str
    interface_id: str
    environment: dict[str, Any]
    """Contract, terrain, simulator, panel, and digests of the functions behind them, by name."""

    @classmethod
    def of(cls, plan: Plan) -> Manifest:
        """Freezes the environment of a plan."""
        return cls(
            task=plan.task_name,
            surefoot=surefoot.__version__,
            versions=versions() | plan.simulator_versions(),
            measurement_id=plan.measurement_id,
            interface_id=plan.interface_id,
            environment=environment(plan),
        )

    @classmethod
    def load(cls, path: str | Path) -> Manifest:
        return read_json(path, cls)

    def save(self, path: str | Path) -> Path:
        """Writes a new file; one that is there is never replaced."""
        file = Path(path)
        if file.exists():
            raise SurefootError(f"'{file}' already exists; choose another name or remove it.")
        write_json(file, self)
        return file

    def check(self, plan: Plan) -> None:
        """Refuses a plan whose environment is another than the frozen one."""
        differ = differences(self.environment, environment(plan))
        ids = {"measurement_id": plan.measurement_id, "interface_id": plan.interface_id}
        differ = differ or differences({k: getattr(self, k) for k in ids}, ids)
        if not differ:
            return
        said = [f"{f.name} is {_short(f.b)}, and {_short(f.a)} was frozen" for f in differ[:_SHOWN]]
        more = f"; {len(differ) - _SHOWN} more" if len(differ) > _SHOWN else ""
        raise SurefootError(
            f"{plan.task_name} is not the environment of the manifest ({'; '.join(said)}{more}). Nothing was "
            "trained: undo the change, or freeze a manifest of your own with "
            "`surefoot plan TASK --freeze FILE`."
        )


def environment(plan: Plan) -> dict[str, Any]:
    """Returns everything of a plan's environment, by name: what an episode is, in training and on the
    panel."""
    contract = plan.task.contract.model_dump(
        mode="json", exclude={"schema_version", "name", "source_digest", "observation"}
    )
    for name in (n for n in _NAMED if n in contract):
        contract[name] = {x.pop("name"): x for x in _without_docs(contract[name])}
    contract |= {k: _without_doc(contract[k]) for k in ("success", "safety") if k in contract}
    contract |= {
        "interface": plan.interface,
        "measurement": plan.measurement,
        "engine": plan.engine,
        "training_plant": plan.training_plant.model_dump(mode="json") if plan.training_plant else None,
        "rng_version": plan.seeds.rng_version,
    }
    if isinstance(plan.task, Task):
        _add_task(contract, plan.task)
    frozen: dict[str, Any] = plain(contract)
    return frozen


def _add_task(contract: dict[str, Any], task: Task) -> None:
    """Adds what a task of ours has besides its contract: functions, terrain, and how episodes are drawn."""
    for kind in ("rewards", "privileged"):
        for name, term in contract[kind].items():
            term["source"] = behaviour_digest({"term": task.terms[name], "view": View})
    keys: dict[str, list[int]] = {}
    for t in task.tiles:
        keys.setdefault(f"{t.cls} level {t.level}", []).append(t.key)
    contract["terrain"] = {"keys": keys, "heights": heights_digest(task.tiles), "scan": task.scan}
    contract["episodes"] = package_digest(*_EPISODES)


def _without_docs(terms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_without_doc(t) for t in terms]


def _without_doc(term: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in term.items() if k != "doc"}


def _short(value: Any) -> str:
    text = f"{value[:12]}" if isinstance(value, str) and len(value) == 64 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
