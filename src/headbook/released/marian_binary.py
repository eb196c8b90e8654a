"""The binary model files of Marian, as Firefox ships them: named arrays and the options as YAML.

A file is little-endian: version and count; name length, type, rank and data length of every
array; the names, the shapes, some padding, the data.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import yaml

from headbook.types import UserError

VERSION = 1
FLOAT32, INT8, TEXT = 0x404, 0x4101, 0x101
OPTIONS = "special:model.yml"
EMBEDDINGS = "Wemb"  # ends the name of every embedding matrix
UNUSED = "_QuantMultA"  # ends the names of scales of activations, which nothing here quantises


@dataclass(frozen=True)
class MarianFile:
    """The arrays of a model by name, float32 and shaped as the file's header says: [in, out]."""

    options: dict
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Item:
    """One array in the file, not yet interpreted."""

    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes


def read_marian(content: bytes, name: str) -> MarianFile:
    """The content of a model file; `name` stands in errors.

    Raises UserError where the file is cut, is another format or another version.
    """
    try:
        items = list(_items(content))
        arrays = {
            item.name: _array(item)
            for item in items
            if item.kind != TEXT and not item.name.endswith(UNUSED)
        }
        options = [yaml.safe_load(_text(item.data)) for item in items if item.name == OPTIONS]
        if not options or not isinstance(options[0], dict):
            raise ValueError(f"no {OPTIONS}")
    except (struct.error, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{name} is not a whole Marian model file ({reason}): copy or fetch it again"
        ) from None
    return MarianFile(options[0], arrays)


def _items(content: bytes) -> Iterator[Item]:
    version, count = struct.unpack_from("<QQ", content)
    if version != VERSION:
        raise ValueError(f"version {version}, not {VERSION}")
    if count * 32 > len(content):
        raise ValueError(f"{count} arrays in {len(content)} bytes")
    heads = list(struct.iter_unpack("<4Q", _take(content, 16, 32 * count)))
    at = 16 + 32 * count
    names, shapes = [], []
    for length, *_ in heads:
        names.append(_text(_take(content, at, length)))
        at += length
    for _, _, rank, _ in heads:
        shapes.append(struct.unpack(f"<{rank}i", _take(content, at, 4 * rank)))
        at += 4 * rank
    (padding,) = struct.unpack("<Q", _take(content, at, 8))
    at += 8 + padding
    for name, shape, (_, kind, _, length) in zip(names, shapes, heads, strict=True):
        yield Item(name, kind, shape, _take(content, at, length))
        at += length
    if at != len(content):
        raise ValueError(f"{len(content) - at} bytes too many")


def _take(content: bytes, start: int, length: int) -> bytes:
    piece = content[start : start + length]
    if len(piece) != length:
        raise ValueError(f"it ends after {len(content):,} bytes")
    return piece


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8")


def _array(item: Item) -> np.ndarray:
    if item.kind not in (FLOAT32, INT8):
        raise ValueError(f"{item.name} has the unknown type {item.kind:#x}")
    if not item.shape or min(item.shape) < 1:
        raise ValueError(f"{item.name} has shape {item.shape}")
    size = int(np.prod(item.shape, dtype=np.int64))
    needed = size * 4 if item.kind == FLOAT32 else size + 4
    if len(item.data) < needed:
        raise ValueError(f"{item.name} has {len(item.data)} bytes, {needed} by its shape")
    if item.kind == FLOAT32:
        return np.frombuffer(item.data, "<f4", size).reshape(item.shape)
    return _dequantised(item, size)


def _dequantised(item: Item, size: int) -> np.ndarray:
    """q / m, where m stands behind the bytes; all but embeddings lie transposed, as [out, in]."""
    (scale,) = struct.unpack_from("<f", item.data, size)
    if not np.isfinite(scale) or scale <= 0:
        raise ValueError(f"{item.name} is quantised by {scale}")
    values = np.frombuffer(item.data, np.int8, size).astype(np.float32) / np.float32(scale)
    if item.name.endswith(EMBEDDINGS):
        return values.reshape(item.shape)
    return values.reshape(item.shape[::-1]).T
