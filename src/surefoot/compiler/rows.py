"""Names for consecutive rows of an array [rows, environments]."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RowLayout:
    """Holds the names of consecutive rows: first row and count of each."""

    at: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, name: str, count: int) -> None:
        self.at[name] = (self.count, count)

    @property
    def count(self) -> int:
        return sum(n for _, n in self.at.values())

    def __getitem__(self, name: str) -> slice:
        first, count = self.at[name]
        return slice(first, first + count)

    def first(self, name: str) -> int:
        return self.at[name][0]
