"""Saves checkpoints as safetensors (weights, optimiser, counters, environment state) and verifies them by a
digest when they are read.

A pickle is neither written nor read: opening one can run any program its author put in it. torch is imported
by the two functions that handle tensors, so that a run's other files can be read without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.artifacts import atomic_write, cannot_read, check_version, parse
from surefoot.contract import SurefootError, canonical

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FORMAT = "surefoot-checkpoint"
SCHEMA_VERSION = 1
_RESERVED = "__metadata__"  # the name under which safetensors keeps its own metadata
_PICKLE_SUFFIXES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt"}


@dataclass(frozen=True)
class Checkpoint:
    """Holds what `load_checkpoint` verified; no tensor shares memory with the file or with another tensor."""

    tensors: dict[str, Tensor]
    meta: dict[str, Any]
    digest: str


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> str:
    """Writes a checkpoint atomically and returns its digest. The same content gives the same bytes.

    Tensors may be views, share memory, need gradients or live on a device; each is saved whole, so tied
    weights are saved twice. `meta` is stored as RFC 8785 JSON: tuples come back as lists and 1.0 as 1; NaN,
    and whole numbers from 2**53 up (64-bit seeds), are refused, since they would not come back exactly: store
    those as text or in a tensor.
    """
    import safetensors.torch
    import torch

    if _RESERVED in tensors:
        raise ValueError(f"'{_RESERVED}' cannot be the name of a tensor")
    for name, tensor in tensors.items():
        if not name or tensor.layout != torch.strided or tensor.is_quantized:
            raise ValueError(f"tensor '{name}' must have a name and be dense and not quantised")
    try:
        text = canonical(dict(meta)).decode()
    except ValueError as error:  # of rfc8785: not JSON, or not exactly representable
        raise ValueError(f"the meta of a checkpoint must be exact JSON: {error}") from error
    # clone: safetensors refuses tensors that share memory, and a view would drag its whole storage along
    own = {name: tensors[name].detach().cpu().contiguous().clone() for name in sorted(tensors)}
    digest = _digest(own, text, SCHEMA_VERSION)
    header = {"format": FORMAT, "schema_version": str(SCHEMA_VERSION), "meta": text, "sha256": digest}
    atomic_write(path, _in_order(safetensors.torch.save(own, metadata=header)))
    return digest


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Reads and verifies a checkpoint, then moves it to `device`. Executes nothing from the file."""
    import safetensors.torch

    path = Path(path)
    data, header, version = _read(path)
    try:
        tensors = safetensors.torch.load(data)
        text = header["meta"]
        matches = _digest(tensors, text, version) == header["sha256"]
        meta = parse(text.encode())
    except Exception as error:  # whatever the damaged byte made safetensors, torch or json raise
        raise _damaged(path) from error
    if not matches or not isinstance(meta, dict):
        raise _damaged(path)
    try:
        placed = {name: tensor.to(device) for name, tensor in tensors.items()}
    except (RuntimeError, AssertionError, TypeError) as error:  # no such device here
        raise SurefootError(
            f"Cannot put '{path}' on device '{device}' ({str(error).splitlines()[0]}); load it on 'cpu'."
        ) from error
    return Checkpoint(placed, meta, header["sha256"])


def load_arrays(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Reads and verifies a checkpoint or a policy as numpy arrays, where torch need not be installed; also
    its meta and its digest."""
    import safetensors.numpy

    path = Path(path)
    data, header, version = _read(path)
    try:
        arrays: dict[str, np.ndarray] = safetensors.numpy.load(data)
        text = header["meta"]
        listing = [[name, f"torch.{a.dtype}", list(a.shape)] for name, a in sorted(arrays.items())]
        matches = _sha([FORMAT, version, text, listing], (a for _, a in sorted(arrays.items())))
        meta = parse(text.encode())
    except Exception as error:  # whatever the damaged byte made safetensors, numpy or json raise
        raise _damaged(path) from error
    if matches != header["sha256"] or not isinstance(meta, dict):
        raise _damaged(path)
    return arrays, meta, matches


def section(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with `prefix` and a dot, by the rest of their names."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _digest(tensors: Mapping[str, Tensor], meta: str, version: int) -> str:
    """Returns the SHA-256 over version, meta, and names, dtypes, shapes and bytes in name order."""
    import torch

    listing = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in sorted(tensors)]
    parts = (tensors[name].reshape(-1).view(torch.uint8).numpy() for name in sorted(tensors))
    return _sha([FORMAT, version, meta, listing], parts)


def _sha(about: list[Any], parts: Iterable[np.ndarray]) -> str:
    sha = hashlib.sha256(canonical(about))
    for part in parts:
        sha.update(np.ascontiguousarray(part).data)
    return sha.hexdigest()


def _read(path: Path) -> tuple[bytes, dict[str, str], int]:
    """Reads a checkpoint's bytes, its header and its version; what is no checkpoint is refused."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    header = _header(path, data)
    if header.get("format") != FORMAT:
        raise SurefootError(
            f"'{path}' is a safetensors file but not a Surefoot checkpoint; "
            "choose one from a run's checkpoints folder."
        )
    stated = header.get("schema_version")
    version = check_version(path, int(stated) if stated and stated.isdecimal() else stated, SCHEMA_VERSION)
    return data, header, version


def _in_order(data: bytes) -> bytes:
    """Returns a safetensors file with its header's keys sorted: the library writes metadata in a random
    order."""
    length = int.from_bytes(data[:8], "little")
    text = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors stay aligned
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def _header(path: Path, data: bytes) -> dict[str, str]:
    """Returns the text metadata of a safetensors file; anything else is refused by name.

    Layout: 8 bytes little-endian header length, the header as a JSON object, the tensors. The layout is tried
    before the signature of a pickle, because a header of 640 bytes starts with the very bytes 80 02 that open
    a pickle.
    """
    length = int.from_bytes(data[:8], "little")
    # 100 MB is the longest header safetensors itself accepts
    if data[8:9] == b"{" and length <= 100_000_000:
        if len(data) < 8 + length:
            raise _damaged(path)
        try:
            header = parse(data[8 : 8 + length])
        except ValueError as error:
            raise _damaged(path) from error
        metadata = header.get(_RESERVED, {}) if isinstance(header, dict) else {}
        if isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values()):
            return metadata
        raise _damaged(path)
    pickled = data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if pickled or data[:4] == b"PK\x03\x04" or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise SurefootError(
            f"'{path}' is or may be a pickle (a torch.save file is one) and is not opened, "
            "because a pickle can run code; use a checkpoint written by Surefoot."
        )
    raise SurefootError(
        f"'{path}' is not a Surefoot checkpoint (not a safetensors file); "
        "choose one from a run's checkpoints folder."
    )


def _damaged(path: Path) -> SurefootError:
    return SurefootError(
        f"'{path}' is damaged: it was cut short or changed after it was written; "
        "use another checkpoint of the run."
    )
