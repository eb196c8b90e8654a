"""What each head of a translator has to do with the gender that it chooses (page 59).

The published rows (60 cases of WinoBias without each of 64 heads) took two minutes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from headbook.corpora.winobias import Case
from headbook.experiments.gender_choices import Choices, effects
from headbook.experiments.genders import Translated, spread
from headbook.experiments.pronouns import adjusted, drawn_again, mean
from headbook.looking.passes import bar
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.statistics import interval
from headbook.types import HeadId


def without_heads(
    model: Loaded, cases: Sequence[Case], rows: Sequence[Translated], count: int
) -> pd.DataFrame:
    """One row per effect and head, on so many of the cases: the change without it, in nats.

    Two more per effect: that of the whole model, and, of kind `…, chosen`, the share of it that
    goes with one head, chosen on every other case and scored on the rest.
    """
    few = spread(cases, count)
    place = {id(case): number for number, case in enumerate(few)}
    own = [(row, place.get(id(cases[row.case]))) for row in rows]
    own = [replace(row, case=number) for row, number in own if number is not None]
    choices, heads = Choices.of(model, few, own), all_heads(model.network)
    whole, changes = by_head(choices, few, heads)
    return table(whole, changes, few, heads)


def table(
    whole: dict[str, Shaped[np.ndarray, " case"]],
    changes: dict[str, Float[np.ndarray, "case head"]],
    cases: Sequence[Case],
    heads: Sequence[HeadId],
) -> pd.DataFrame:
    """The same from the effects of the whole model and their changes."""
    kept = [cases[number] for number in whole["case"]]
    every, tested_on = drawn_again(kept), drawn_again(kept[1::2])
    names = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    frames = []
    for effect, change in changes.items():
        best = int(change[::2].mean(0).argmin())  # its removal takes most of the effect away
        share = mean(tested_on, -change[1::2, best], whole[effect][1::2])
        kind, *at = names[best]
        first = [("whole", 0, 0, *interval(mean(every, whole[effect])))]
        first.append((f"{kind}, chosen", *at, *interval(share)))
        columns = ["kind", "layer", "head", "value", "value_low", "value_high"]
        each = pd.DataFrame(names, columns=columns[:3]).join(adjusted(every, change))
        both = pd.concat([pd.DataFrame(first, columns=columns), each])
        frames.append(both.assign(effect=effect, ablated=len(kept)))
    return pd.concat(frames, ignore_index=True)


def by_head(
    choices: Choices, cases: Sequence[Case], heads: Sequence[HeadId]
) -> tuple[dict[str, Shaped[np.ndarray, " case"]], dict[str, Float[np.ndarray, "case head"]]]:
    """Each effect of the whole model, and its change when one head is removed, by head."""
    whole = effects(cases, choices.rows, choices.read())
    changes: dict[str, list[np.ndarray]] = {name: [] for name in whole if name != "case"}
    for head in bar(heads, "heads", "head"):
        without = effects(cases, choices.rows, choices.read([head]))
        for name, columns in changes.items():
            columns.append(without[name] - whole[name])
    return whole, {name: np.stack(columns, axis=1) for name, columns in changes.items()}
