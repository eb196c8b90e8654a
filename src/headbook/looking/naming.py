"""Heads by the names that people write: "L6H5", "cross L2H1"."""

import re
from collections.abc import Collection, Mapping, Sequence

from headbook.models.capture import Capturable
from headbook.types import HeadId, Kind, UserError

NAME = re.compile(r"(?:(encoder|decoder|cross)\s+)?[Ll](\d+)\s*[Hh](\d+)")


def first_kind(kinds: Collection[Kind]) -> Kind:
    """The encoder, or the decoder of a model that has none: the attention of the text itself."""
    return Kind.ENCODER if Kind.ENCODER in kinds else Kind.DECODER


def place(name: str, shape: Mapping[Kind, Sequence[int]]) -> tuple[Kind, int, int]:
    """Kind, layer and head (from zero) of a name that counts from one; `shape` is the number of
    heads of each layer.

    A name without a kind means the encoder, or the decoder where there is none. UserError for what
    is no name, and for a head that is not there.
    """
    if not (match := NAME.fullmatch(name.strip())):
        raise UserError(f"{name!r} names no head; write it like L6H5, or cross L2H1")
    kind = Kind(match[1]) if match[1] else first_kind(shape)
    layer, head = int(match[2]) - 1, int(match[3]) - 1
    layers = shape.get(kind, ())
    if not (0 <= layer < len(layers) and 0 <= head < layers[layer]):
        there = ", ".join(f"{k} {len(n)} layers of {max(n)} heads" for k, n in shape.items())
        raise UserError(f"there is no head {name}; the model has {there}")
    return kind, layer, head


def shape_of(network: Capturable) -> dict[Kind, list[int]]:
    """The number of heads of each layer, by kind of attention."""
    found: dict[Kind, list[int]] = {}
    for kind, _, block in network.attentions():
        found.setdefault(kind, []).append(block.heads)
    return found


def named(network: Capturable, heads: str | Collection[str]) -> list[HeadId]:
    """The heads of these names; UserError as of `place`."""
    shape = shape_of(network)
    return [HeadId(*place(name, shape)) for name in ([heads] if isinstance(heads, str) else heads)]
