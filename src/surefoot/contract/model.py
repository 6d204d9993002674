"""The base of every schema: frozen, strict about unknown fields, hashable by its canonical JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from surefoot.contract.digests import digest


class Frozen(BaseModel):
    """An immutable, JSON-able record. `digest` is the SHA-256 of its RFC 8785 form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @cached_property
    def digest(self) -> str:
        return digest(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("digest", None)  # it is of what was copied, not of the copy
        return copy
