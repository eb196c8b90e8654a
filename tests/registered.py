"""Entries of a registry of corpora, made in a test."""

import hashlib
from collections.abc import Mapping

ENTRY = """
[{name}]
title = "t"
kind = "{kind}"
target = "de"
licence = "l"
pairs = 2
bytes = 9
"""


def entry(name: str, *more: str, kind: str = "parallel") -> str:
    """The entry with these lines behind its head."""
    return "\n".join([ENTRY.format(name=name, kind=kind), *more, ""])


def files(place: str, contents: Mapping[str, tuple[str, bytes]]) -> str:
    """The line of `mirror` or `public`: each part with its path or address, and its digest."""
    key, found = ("path" if place == "mirror" else "url"), []
    for part, (where, content) in contents.items():
        digest = hashlib.sha256(content).hexdigest()
        found.append(f'{{ part = "{part}", {key} = "{where}", sha256 = "{digest}" }}')
    return f"{place} = [{', '.join(found)}]"


def lines(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()
