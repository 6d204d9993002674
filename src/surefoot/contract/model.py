"""The base of every schema: frozen, strict about unknown fields, hashable by its canonical JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from surefoot.contract.digests import digest


class Frozen(BaseModel):
    """An immutable, JSON-able record. `digest` is the SHA-256 of its RFC 8785 form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def digest(self) -> str:
        return digest(self)
