"""The binary model files of Marian, as Firefox ships them: named arrays and the options as YAML.

A file is little-endian: version and count; name length, type, rank and data length of every
array; the names, the shapes, some padding, the data.
"""

import struct

import numpy as np
import yaml

from headbook.types import UserError

VERSION = 1
FLOAT32, INT8, TEXT = 0x404, 0x4101, 0x101
OPTIONS = "special:model.yml"
EMBEDDINGS = "Wemb"  # ends the name of every embedding matrix
UNUSED = "_QuantMultA"  # ends the names of scales of activations, which nothing here quantises

MarianFile = tuple[dict, dict[str, np.ndarray]]
"""Options and arrays of a model."""


def read_marian(content: bytes, name: str) -> MarianFile:
    """The content of a model file: its options, and its arrays by name, float32 and shaped as the
    file's header says: [in, out]. `name` stands in errors.

    Raises UserError where the file is cut, is another format or another version.
    """
    try:
        return _read(content)
    except (struct.error, ValueError, KeyError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{name} is not a whole Marian model file ({reason}): copy or fetch it again"
        ) from None


def _read(content: bytes) -> MarianFile:
    version, count = struct.unpack_from("<QQ", content)
    if version != VERSION:
        raise ValueError(f"version {version}, not {VERSION}")
    at = 16 + 32 * count
    heads = list(struct.iter_unpack("<4Q", content[16:at]))
    names, shapes = [], []
    for length, *_ in heads:
        names.append(_text(content[at : at + length]))
        at += length
    for _, _, rank, _ in heads:
        shapes.append(struct.unpack_from(f"<{rank}i", content, at))
        at += 4 * rank
    (padding,) = struct.unpack_from("<Q", content, at)
    at += 8 + padding
    options, arrays = {}, {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, heads, strict=True):
        data = content[at : at + length]
        if kind == TEXT:
            options[name] = yaml.safe_load(_text(data))
        elif not name.endswith(UNUSED):
            arrays[name] = _array(name, kind, shape, data)
        at += length
    if at != len(content):
        raise ValueError(f"{len(content):,} bytes, and {at:,} by its header")
    return options[OPTIONS], arrays


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8")


def _array(name: str, kind: int, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    """Floats as they are, bytes divided by the scale that stands behind them.

    All of the latter but embeddings lie transposed, as [out, in].
    """
    size = int(np.prod(shape, dtype=np.int64))
    if kind == FLOAT32:
        return np.frombuffer(data, "<f4", size).reshape(shape)
    if kind != INT8:
        raise ValueError(f"{name} has the unknown type {kind:#x}")
    (scale,) = struct.unpack_from("<f", data, size)
    values = np.frombuffer(data, np.int8, size).astype(np.float32) / np.float32(scale)
    return values.reshape(shape) if name.endswith(EMBEDDINGS) else values.reshape(shape[::-1]).T
