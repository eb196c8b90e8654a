"""Configs as canonical JSON, and digests of it."""

import dataclasses
import hashlib
import json
from typing import Any


def plain(value: Any) -> Any:
    """A config as JSON values: dataclasses become mappings, tuples lists, enumerations their text.

    TypeError for anything whose text could differ between two equal values (paths, sets, objects).
    """
    return json.loads(json.dumps(value, default=dataclasses.asdict))


def canonical(value: Any) -> str:
    """The one JSON text of a config. ValueError for NaN and infinity: JSON has no text for them."""
    return json.dumps(
        plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
