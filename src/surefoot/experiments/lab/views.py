"""Lists the policies and the columns that a lab has, in the order that they are shown in."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.contract import NOMINAL, REFERENCE
from surefoot.experiments.lab.record import Entry, LabRecord, Reward


@dataclass(frozen=True)
class Who:
    """Names a row: a baseline, or a learner with one training seed."""

    policy: str
    seed: int | None
    several: bool
    """Whether the lab has more training seeds than one."""

    @property
    def title(self) -> str:
        return f"{self.policy}, seed {self.seed}" if self.seed is not None and self.several else self.policy


@dataclass(frozen=True)
class Heading:
    """Names a column: of the panel on an engine, or the nominal one of policies trained with a sparse
    reward."""

    column: str
    engine: str
    sparse: bool = False

    @property
    def title(self) -> str:
        name = "sparse reward" if self.sparse else self.column.replace("_", " ")
        return f"{name}, {self.engine}"


def policies(lab: LabRecord) -> list[Who]:
    several = len(lab.design.seeds) > 1
    return list(dict.fromkeys(Who(e.policy, e.seed, several) for e in lab.entries))


def headings(lab: LabRecord) -> list[Heading]:
    """Returns the nominal column first, on the reference, then on the engine of the perturbed one, then
    that."""
    distinct = dict.fromkeys(Heading(e.column, e.found.engine) for e in lab.entries)
    order = sorted(distinct, key=lambda h: (h.column != NOMINAL, h.engine != REFERENCE))
    return order + ([Heading(NOMINAL, order[0].engine, True)] if lab.sparse else [])


def shown(
    lab: LabRecord, who: Who, column: str, engine: str, sparse: bool = False, panel: int = 1
) -> Entry | None:
    reward: Reward | None = None if who.seed is None else "sparse" if sparse else "task"
    return lab.entry(panel, who.policy, who.seed, reward, column, engine)
