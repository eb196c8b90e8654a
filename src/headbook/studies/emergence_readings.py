"""What notebook 26 says of its tables: the moments, and the reading."""

from collections.abc import Iterable, Iterator

import pandas as pd

from headbook.heads.positional import Place, place_of
from headbook.studies.emergence_figures import BLEU
from headbook.studies.results import Tables
from headbook.studies.specialisation import ANY_OFFSET, ROLES, Score, threshold

QUALITY = 0.9
"""Of the last checkpoint's BLEU: from where a model is said to translate."""
MOMENTS = {
    BLEU: f"BLEU at {QUALITY:.0%} of its last",
    Score.NEIGHBOUR: "first positional head, at a neighbour",
    Score.MARGIN: "first syntactic head",
    Score.RARE: "first rare-word head",
}
ANY_MOMENT = "first head at one offset, own token among them"
"""Of tables published before the places of offsets were apart."""


def moments_table(tables: Tables) -> pd.DataFrame:
    """When each thing first came, how well the model translated then, and how far it ever came."""
    rows = tables["moments"]
    never = rows["update"].isna()
    return pd.DataFrame(
        {
            "model": rows["model"],
            "heads": [f"{width} wide" for width in rows["head_width"]],
            "moment": rows["moment"],
            "update": ["never" if none else f"{int(at):,}"
                       for at, none in zip(rows["update"].fillna(0), never, strict=True)],
            "of": [f"{updates:,}" for updates in rows["updates"]],
            "BLEU then": rows["bleu"].map("{:.1f}".format).where(~never, ""),
            "highest": rows["highest"].map("{:.3g}".format),
        }
    )  # fmt: skip


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    moments = tables["moments"]
    every = moments[moments["moment"] == MOMENTS[BLEU]]
    quality = every.dropna(subset="update")
    widths = " to ".join(dict.fromkeys(map(str, (every["width"].min(), every["width"].max()))))
    said = [f"Models watched: {len(every)}, {widths} wide."]
    if len(quality):
        said.append(
            f"Of them {len(quality)} translate, and come within {1 - QUALITY:.0%} of their last "
            f"BLEU after {_span(quality['update'] / quality['updates'])} of the updates."
        )
    for scored in ROLES:
        rows = moments[moments["moment"] == MOMENTS[scored]]
        if rows.empty:
            continue
        reached = rows.dropna(subset="update")
        when = ""
        if len(reached):
            when = f", at a BLEU of {_plain(reached['bleu'])}"
        what, highest = MOMENTS[scored].removeprefix("first "), rows["highest"].max()
        said.append(
            f"A {what} ({threshold(scored):.0%}) appears in {len(reached)} of {len(rows)}{when}; "
            f"the highest score is {highest:.1%}."
        )
    return " ".join([*said, *_no_roles(tables["checkpoints"]), *_not_apart(tables)])


def _no_roles(checkpoints: pd.DataFrame) -> Iterator[str]:
    """How far heads come to look at their own token or far away, which is no role."""
    if Score.OWN in checkpoints:
        own, other = (checkpoints[str(each)].max() for each in (Score.OWN, Score.OTHER))
        yield (
            f"No role, and measured apart: a head comes to look at its own token for up to "
            f"{own:.1%} of the tokens, and at one offset farther away than the neighbour for up "
            f"to {other:.1%}."
        )


def _not_apart(tables: Tables) -> Iterator[str]:
    """What tables that were published before the places were apart can tell, and what not."""
    checkpoints = tables["checkpoints"]
    if ANY_OFFSET not in checkpoints:
        return
    yield (
        "These tables were published before own token, neighbour and other offsets were measured "
        "apart. They hold the largest share at one offset, the own token's among them, which comes "
        f"to {checkpoints[ANY_OFFSET].max():.1%}, and they do not tell the offset: whether a head "
        "came to look at a neighbour cannot be told from them."
    )
    if "offsets_told" in tables:
        told = tables["offsets_told"]
        places = told["offset"].map(lambda offset: place_of(int(offset)))
        own, near = (told[places == place] for place in (Place.OWN, Place.NEIGHBOUR))
        listed = ", ".join(
            f"{row['model']} (layer {row['layer']}, {row['share']:.0%} at {row['offset']})"
            for _, row in told.iterrows()
        )
        yield (
            f"The page on confidence and roles tells it for {len(told)} of these "
            f"{checkpoints['model'].nunique()} models as they are at their best: the head with the "
            f"largest share looks at its own token in {len(own)}, at a neighbour in {len(near)}: "
            f"{listed}."
        )


def _span(shares: pd.Series) -> str:
    return " to ".join(dict.fromkeys(f"{end:.0%}" for end in (shares.min(), shares.max())))


def _plain(values: Iterable[float]) -> str:
    values = list(values)
    return " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(values), max(values))))
