"""The heads of a model as columns."""

import pandas as pd

from headbook.artefacts.model import Heads


def head_columns(heads: Heads) -> pd.DataFrame:
    """Kind, layer and head, one row per head; layers and heads count from one."""
    rows = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    return pd.DataFrame(rows, columns=["kind", "layer", "head"])
