"""The ids of a plan, and what they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from surefoot.contract import Column, digest


@dataclass(frozen=True, kw_only=True)
class Identified(ABC):
    """Knows what a result of it may be compared with, and what is then said beside it."""

    measurement: dict[str, Any]
    """What must match before a result of it may be compared with another's."""
    interface: dict[str, Any]
    """What connects the policy with its robot: treatment."""
    manifest: str = ""
    """Digest of the environment manifest that it was held to."""

    @property
    def measurement_id(self) -> str:
        return digest(self.measurement)

    @property
    def interface_id(self) -> str:
        return digest(self.interface)

    @property
    def construct_id(self) -> str:
        """The measurement id, by the name that files had for their one id."""
        return self.measurement_id

    def measured_on(self, engine: str) -> dict[str, Any]:
        """Returns the measurement where the nominal column is run on `engine`."""
        if engine == self.measurement["engine"]["name"]:
            return self.measurement
        return self.measurement | {"engine": {"name": engine, "version": self.engine_version(engine)}}

    @abstractmethod
    def engine_version(self, engine: str) -> str:
        """Returns what tells versions of an engine apart that a column may be run on."""

    @abstractmethod
    def column_digest(self, column: Column) -> str:
        """Returns the digest of what a column's perturbation makes of the panel; "" for the nominal one."""
