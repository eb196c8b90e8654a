"""Metadata of a table of heads beside its columns, for `hb.roles` and the page; `hb.save` and
`hb.read` keep both."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.heads.measure import RatioSums
from headbook.models import checkpoint
from headbook.types import Kind, UserError

KEY = "headbook"
"""Where a table's `attrs` hold it."""
ENOUGH = 4
"""Sentences from which an interval over sentences says something."""


PARTS = ("numerator", "denominator")
HEAD = ["kind", "layer", "head"]
"""Columns that name a head."""


@dataclass(frozen=True, eq=False)
class Measured(dict):
    """The source of one table: model, text, numbers of sentences, sums by kind and measure.

    `nulls` are, by measure, the largest values over all heads of the null networks, of the first
    kind alone. `diversity` has one row per kind and layer. `notes` are full sentences on what was
    left out or restricted, and why. `sentences` counts by column group: all, translated, ablated,
    nulls; `digest` is that of the sentences, `targeted` of those with a loss or translations. An
    empty dict besides: pandas writes `attrs` as JSON into Parquet, and would refuse anything else.
    """

    model: str
    origin: str
    text: str
    parser: str
    sentences: Mapping[str, int]
    sums: Mapping[Kind, Mapping[str, RatioSums]]
    nulls: Mapping[str, Tensor]
    null_count: int
    importance: str
    diversity: pd.DataFrame
    notes: tuple[str, ...]
    digest: str = ""
    targeted: str = ""

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __deepcopy__(self, memo: dict) -> "Measured":
        """Itself: pandas copies `attrs` with every operation, and this never changes."""
        return self


def measured(heads: pd.DataFrame) -> Measured:
    """The source of a table that `hb.measure` returned; UserError for any other table."""
    found = heads.attrs.get(KEY)
    if not isinstance(found, Measured):
        raise UserError(
            "this table is not one that hb.measure returned: measure again, or keep it by "
            "hb.save(heads, file) and hb.read(file), which keep what stands beside its columns"
        )
    return found


def without_intervals(table: pd.DataFrame, sentences: int) -> pd.DataFrame:
    """The table itself, or with empty intervals where so few sentences were drawn again and again
    that an interval would be a point."""
    ends = [name for name in table if name.split("_")[-1] in ("low", "high")]
    return table if sentences >= ENOUGH else table.assign(**dict.fromkeys(ends, np.nan))


def of_rows(table: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table whose heads are among those of another."""
    wanted = pd.MultiIndex.from_frame(heads[HEAD])
    return table[pd.MultiIndex.from_frame(table[HEAD]).isin(wanted)]


def save(heads: pd.DataFrame, path: str | Path) -> Path:
    """Writes a table of `hb.measure` with what `hb.roles`, `hb.compare` and pages need of it.

    One file (safetensors) for `hb.read`; for other programs there are `heads.to_csv` and
    `heads.to_parquet`, which keep the columns alone. UserError for any other table.
    """
    of, path = measured(heads), Path(path).expanduser()
    bare = heads.copy()
    bare.attrs.clear()
    tensors = {"table": _packed(bare), "diversity": _packed(of.diversity)}
    tensors |= {f"null {name}": each for name, each in of.nulls.items()}
    for kind, sums in of.sums.items():
        for name, each in sums.items():
            tensors |= {f"{part} {kind} {name}": getattr(each, part) for part in PARTS}
    kept = ("sums", "nulls", "diversity")
    note = {each.name: getattr(of, each.name) for each in fields(of) if each.name not in kept}
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write(path, tensors, {KEY: note})
    return path


def read(path: str | Path) -> pd.DataFrame:
    """A table that `hb.save` wrote; UserError for any other file."""
    tensors, note = checkpoint.read(Path(path).expanduser())
    if KEY not in note:
        raise UserError(f"{path} is no table of hb.save; name one, or measure again")
    table, diversity = (_unpacked(tensors.pop(name)) for name in ("table", "diversity"))
    nulls, sums = {}, {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(" ")
        if part == "null":
            nulls[rest] = tensor
        else:
            kind, _, measure = rest.partition(" ")
            sums.setdefault(Kind(kind), {}).setdefault(measure, {})[part] = tensor
    sums = {kind: {name: RatioSums(**parts) for name, parts in own.items()}
            for kind, own in sums.items()}  # fmt: skip
    ordered = {Kind(kind): sums[Kind(kind)] for kind in dict.fromkeys(table["kind"])}
    plain = note[KEY] | {"notes": tuple(note[KEY]["notes"])}
    table.attrs[KEY] = Measured(sums=ordered, nulls=nulls, diversity=diversity, **plain)
    return table


def _packed(table: pd.DataFrame) -> Tensor:
    """A table as the bytes of a Parquet file."""
    file = io.BytesIO()
    table.to_parquet(file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def _unpacked(content: Tensor) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(content.numpy().tobytes()))
