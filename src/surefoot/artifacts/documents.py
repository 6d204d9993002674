"""JSON files with a schema are written atomically, read back as a validated model or refused in a
sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ValidationError

from surefoot.artifacts.files import atomic_write, cannot_read
from surefoot.contract import SurefootError

Model = TypeVar("Model", bound=BaseModel)


def plain(value: Any) -> Any:
    """Returns `value` as JSON types. Non-finite floats become None, since JSON has no word for them; numpy
    becomes Python.

    A model field that may be non-finite should therefore be `float | None`, or it cannot be read back.
    """
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):  # bool is an int
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):  # json.dumps makes it text, and reading would not make it back
                raise TypeError(f"JSON keys are text, not {type(key).__name__}: {key!r}")
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type: {value!r}")


def parse(data: bytes) -> Any:
    """Parses strict JSON: UTF-8 only, and NaN or Infinity, which Python would accept, are a ValueError."""
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def write_json(path: str | Path, value: Any) -> None:
    """Writes a pydantic model or JSON-able value: indented, keys sorted, atomic."""
    atomic_write(path, (json.dumps(plain(value), indent=2, sort_keys=True, allow_nan=False) + "\n").encode())


def read_json(path: str | Path, model: type[Model]) -> Model:
    """Reads the file as a validated `model`.

    If the model declares `schema_version`, the file must carry one even where the model has a default, and
    not a newer one than the model's default (or largest literal).
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    try:
        value = parse(data)
    except ValueError as error:
        raise SurefootError(
            f"'{path}' is not JSON ({error}); it was cut short or edited, restore it or make it again."
        ) from error
    if not isinstance(value, dict):
        raise SurefootError(
            f"'{path}' should hold a JSON object (a {model.__name__}) but holds a {_json_type(value)}; "
            "check that it is the right file."
        )
    if "schema_version" in model.model_fields:
        check_version(path, value.get("schema_version"), _newest(model))
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise SurefootError(_sentence(path, error)) from error
    except SurefootError as error:  # of a field's own check, which does not know the file
        raise SurefootError(f"'{path}': {error}") from error


def check_version(path: Path, version: object, newest: int | None) -> int:
    """Returns the schema version of an artifact; refused if absent, not a whole number, or above `newest`."""
    if version is None:
        raise SurefootError(f"'{path}': field 'schema_version' is missing; check that it is a Surefoot file.")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SurefootError(
            f"'{path}': field 'schema_version' must be a whole number from 1 up, not {version!r}; "
            "restore the file."
        )
    if newest is not None and version > newest:
        raise SurefootError(
            f"'{path}': field 'schema_version' is {version} and this Surefoot reads up to {newest}; "
            "upgrade Surefoot."
        )
    return version


def _newest(model: type[BaseModel]) -> int | None:
    """Returns the newest schema version that a model reads: its default, or the largest of its literals."""
    field = model.model_fields["schema_version"]
    literals = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    known = [v for v in (field.default, *literals) if isinstance(v, int) and not isinstance(v, bool)]
    return max(known, default=None)


def _sentence(path: Path, error: ValidationError) -> str:
    """States the first complaint of pydantic, with the field's path in the file and the number of the
    others."""
    details = error.errors(include_url=False, include_context=False)
    field = ".".join(str(part) for part in details[0]["loc"])
    where = f"field '{field}'" if field else "the whole"
    if details[0]["type"] == "missing":
        reason = "is missing"
    else:
        shown = repr(details[0]["input"])
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        reason = f"is refused: {details[0]['msg']} (found {shown})"
    others = f" and {len(details) - 1} more complaints" if len(details) > 1 else ""
    return f"'{path}': {where} {reason}{others}; correct the file or make it again."


def _json_type(value: object) -> str:
    if isinstance(value, list):
        return "list"
    if isinstance(value, str):
        return "text"
    return "null" if value is None else "single value"
