"""Canonical JSON (RFC 8785) and its SHA-256: the identity of everything that is frozen before a run."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785
from pydantic import BaseModel


def canonical(value: Any) -> bytes:
    """Returns the RFC 8785 bytes of a JSON-able value or a pydantic model."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """Returns the SHA-256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def text_digest(text: str) -> str:
    """Returns the SHA-256 of a text (an MJCF, a source file)."""
    return hashlib.sha256(text.encode()).hexdigest()
