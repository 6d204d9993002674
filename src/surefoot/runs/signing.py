"""Signs seals with an ed25519 key, and checks signatures. Needs the package `cryptography`
(`pip install surefoot[sign]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.artifacts import cannot_read, write_json
from surefoot.contract import SurefootError
from surefoot.runs.seal import SEAL, Seal, SealEntry, Signature, sealable, sha256

MAKE_ONE = "make one with `openssl genpkey -algorithm ed25519 -out key.pem`"


def sign(folder: Path, seal: Seal | None, key: str | Path, when: str) -> SealEntry:
    """Appends a signed entry over all files of the run in `folder` as they are now."""
    private = _private(Path(key))
    entries = seal.entries if seal else ()
    entry = SealEntry(
        sealed=when,
        reason="signed",
        files={name: sha256(folder / name) for name in sealable(folder)},
        whole=True,
        previous=entries[-1].content if entries else "",
    )
    public = private.public_key().public_bytes_raw().hex()
    signature = Signature(key=public, value=private.sign(bytes.fromhex(entry.content)).hex())
    signed = entry.model_copy(update={"signature": signature})
    write_json(folder / SEAL, Seal(entries=(*entries, signed)))
    return signed


def signed_entry(seal: Seal, key: str | Path) -> int | None:
    """Returns the number of the last entry that the holder of the public key in file `key` signed; None where
    there is none."""
    exceptions = _cryptography("exceptions")
    public = _public(Path(key))
    raw = public.public_bytes_raw().hex()
    for k in reversed(range(len(seal.entries))):
        entry = seal.entries[k]
        if entry.signature is None or entry.signature.key != raw:
            continue
        try:
            public.verify(bytes.fromhex(entry.signature.value), bytes.fromhex(entry.content))
        except (exceptions.InvalidSignature, ValueError):
            continue
        return k
    return None


def _private(path: Path) -> Any:
    serialization = _cryptography("hazmat.primitives.serialization")
    data = _bytes(path)
    for load in (serialization.load_pem_private_key, serialization.load_ssh_private_key):
        try:
            key = load(data, password=None)
        except (ValueError, TypeError):  # of another kind, or with a password
            continue
        return _ed25519(key, path)
    raise SurefootError(f"'{path}' is not a private key without a password; {MAKE_ONE}.")


def _public(path: Path) -> Any:
    serialization = _cryptography("hazmat.primitives.serialization")
    data = _bytes(path)
    for load in (serialization.load_pem_public_key, serialization.load_ssh_public_key):
        try:
            key = load(data)
        except (ValueError, TypeError):
            continue
        return _ed25519(key, path)
    raise SurefootError(
        f"'{path}' is not a public key; make it from a private one with "
        "`openssl pkey -in key.pem -pubout -out key.pub`."
    )


def _ed25519(key: Any, path: Path) -> Any:
    if not type(key).__name__.startswith("Ed25519"):
        raise SurefootError(f"'{path}' is a key of another kind than ed25519; {MAKE_ONE}.")
    return key


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error


def _cryptography(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"cryptography.{module}")
    except ImportError as error:
        raise SurefootError(
            "Signatures need the package cryptography; install it with `pip install surefoot[sign]`."
        ) from error
