"""Configs as canonical JSON, and digests of it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A config as JSON values: dataclasses become mappings, tuples lists, enumerations their text.

    TypeError for anything whose text could differ between two equal values (paths, sets, objects).
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TypeError(f"a config cannot hold a {type(value).__name__}: {value!r}")


def canonical(value: Any) -> str:
    """The one JSON text of a config. ValueError for NaN and infinity: JSON has no text for them."""
    return json.dumps(
        plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
