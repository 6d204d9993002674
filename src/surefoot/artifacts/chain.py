"""The chain of a ledger: every row ends in the digest of the row before it and of itself, so that a row that
was edited, dropped or put in shows. What was cut off at the end shows in what run.json and the seal say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from surefoot.artifacts.files import cannot_read

FIELD = "chain"
_NAMED = b'"chain":'
_END = re.compile(rb',"chain":"([0-9a-f]{64})"\}$')


def linked(line: bytes, previous: str) -> bytes:
    """Returns a row's JSON, which has a field at least, with the chain's field at its end."""
    return line[:-1] + f',"{FIELD}":"{_link(previous, line)}"}}'.encode()


def head(lines: list[bytes]) -> str:
    """Returns what the next row's link begins with: the last row's, or for rows of before there were links
    the digest of all of them; "" before the first."""
    found = _END.search(lines[-1]) if lines else None
    if found:
        return found[1].decode()
    return hashlib.sha256(b"\n".join(lines)).hexdigest() if lines else ""


def chain_fault(path: Path, promised: bool = False) -> str:
    """Says where the chain of a ledger does not hold; "" where it does, or where no row has a link and none
    is `promised`."""
    lines = _lines(path)
    if lines and not lines[-1].endswith(b"}"):
        lines = lines[:-1]  # torn off by a kill: said elsewhere
    found = [_END.search(line) for line in lines]
    first = next((k for k, line in enumerate(lines) if _NAMED in line), None)
    if first is None:
        return "The ledger's chain was taken out: no line has a link." if promised and lines else ""
    previous = head(lines[:first])
    for number, (line, match) in enumerate(zip(lines[first:], found[first:], strict=True), first + 1):
        if match is None:
            return f"The ledger's chain breaks at line {number}, which has no link."
        if match[1].decode() != _link(previous, line[: match.start()] + b"}"):
            return f"The ledger's chain breaks at line {number}: it or the line before it was changed."
        previous = match[1].decode()
    return ""


def is_chained(path: Path) -> bool:
    """Returns whether any row of a ledger has a link."""
    return any(_NAMED in line for line in _lines(path))


def _lines(path: Path) -> list[bytes]:
    try:
        return [x for x in path.read_bytes().split(b"\n") if x]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(path, error) from error


def _link(previous: str, line: bytes) -> str:
    return hashlib.sha256(previous.encode() + line).hexdigest()
