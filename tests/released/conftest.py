"""The real student of the installed package, and small random ones in Marian's format."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
import yaml

from headbook import paths
from headbook.looking.load import load
from headbook.released.firefox import FirefoxModel
from headbook.released.marian_student import REQUIRED, names
from headbook.released.student import Shape, Student
from headbook.text.treebank import read_conllu

SMALL = Shape(2, 3, 8, 2, 12, 10, 16, 16, shared=True)
Written = Callable[..., bytes]


@pytest.fixture(scope="session")
def en_pt() -> FirefoxModel:
    return load("firefox-en-pt")


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    trees = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")
    return [tree.text for tree in trees[:50]]


@pytest.fixture(scope="session")
def written() -> Written:
    """Writes a small random student; options can be changed and arrays replaced."""
    return _written


def _written(changed: dict | None = None, replaced: dict[str, np.ndarray] | None = None) -> bytes:
    generator = np.random.default_rng(1)
    arrays: dict[str, np.ndarray] = {}
    theirs = names(SMALL)
    for ours, tensor in Student(SMALL).state_dict().items():
        size = tuple(tensor.shape)
        if len(size) == 2:
            size = size if theirs[ours].endswith("Wemb") else size[::-1]
            arrays[theirs[ours]] = generator.integers(-127, 128, size).astype(np.int8)
        else:
            arrays[theirs[ours]] = generator.normal(size=(1, *size)).astype(np.float32)
    arrays.update(replaced or {})
    options = {option: values[0] for option, values in REQUIRED.items()}
    options |= {"transformer-heads": SMALL.heads, **(changed or {})}
    text = yaml.safe_dump(options).encode() + b"\0"
    items = [(name, array.shape, *_data(name, array)) for name, array in arrays.items()]
    return _file([*items, ("special:model.yml", (len(text),), 0x101, text)])


def _data(name: str, array: np.ndarray) -> tuple[int, bytes]:
    if array.dtype == np.float32:
        return 0x404, array.tobytes()
    laid = array if name.endswith("Wemb") else array.T
    return 0x4101, np.ascontiguousarray(laid).tobytes() + struct.pack("<f", 63.5) + bytes(8)


def _file(items: list[tuple[str, tuple[int, ...], int, bytes]]) -> bytes:
    names = [name.encode() + b"\0" for name, *_ in items]
    head = struct.pack("<QQ", 1, len(items))
    for name, (_, shape, kind, data) in zip(names, items, strict=True):
        head += struct.pack("<4Q", len(name), kind, len(shape), len(data))
    head += b"".join(names)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _, _ in items)
    return head + struct.pack("<Q", 24) + bytes(24) + b"".join(data for *_, data in items)
