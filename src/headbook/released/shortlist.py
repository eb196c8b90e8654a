"""The lexical shortlist of a Firefox model: the few target pieces a source can ask for."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headbook.types import UserError

MAGIC = 0xF11A48D5013417F5
HEADER = struct.Struct("<6Q")  # magic, checksum, frequent, best, number of offsets, number of ids
MULTIPLE = 8  # the integer matrix products of the original engine take columns by eights


@dataclass(frozen=True)
class Shortlist:
    """`frequent` ids that are always allowed, and a list of target ids for every source id."""

    frequent: int
    offsets: np.ndarray
    ids: np.ndarray

    def candidates(self, source: Sequence[int], vocabulary: int) -> list[int]:
        """The target ids allowed for a source, in order: a multiple of eight where they reach."""
        own = [self.ids[self.offsets[each] : self.offsets[each + 1]] for each in set(source)]
        allowed = set(range(min(self.frequent, vocabulary))).union(np.concatenate(own).tolist())
        further = (each for each in range(self.frequent, vocabulary) if each not in allowed)
        missing = [each for each, _ in zip(further, range(-len(allowed) % MULTIPLE), strict=False)]
        return sorted(allowed.union(missing))


def read_shortlist(content: bytes, name: str, source: int, target: int) -> Shortlist:
    """The content of a shortlist file for vocabularies of these sizes; `name` stands in errors.

    Raises UserError where the file is cut, is another format or does not fit the vocabularies.
    """
    header = content[: HEADER.size].ljust(HEADER.size, b"\0")
    magic, _, frequent, _, entries, length = HEADER.unpack(header)
    expected = HEADER.size + 8 * entries + 4 * length
    if magic != MAGIC or len(content) != expected or entries != source + 1:
        raise UserError(
            f"{name} is not the whole shortlist of this model ({len(content):,} bytes): copy or "
            "fetch it again"
        )
    offsets = np.frombuffer(content, "<u8", entries, HEADER.size).astype(np.int64)
    ids = np.frombuffer(content, "<u4", length, HEADER.size + 8 * entries).astype(np.int64)
    if (np.diff(offsets) < 0).any() or offsets[-1] > length or (length and ids.max() >= target):
        raise UserError(f"{name} lists pieces that the model does not have: it is another model's")
    return Shortlist(frequent, offsets, ids)
