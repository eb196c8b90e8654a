"""Page 26, the same story on short sentences: three seeds of each objective."""

import pandas as pd

from headbook.artefacts.catalogue import recipe
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.sixteen._on_the_way import SAMPLE, SCORES
from headbook.chapters.sixteen._order_of_roles import SEEDS, halfway, three
from headbook.chapters.sixteen._specialisation import BLEU, Score

MASKED, TRANSLATING = SEEDS


def through(ways: pd.DataFrame) -> pd.DataFrame:
    """Shares of the best heads for a neighbour and for the own token, long: looks at, training,
    update; mean, smallest and largest over seeds."""
    own = ways[ways["model"].isin((*MASKED, *TRANSLATING)) & (ways["text"] == HELD_OUT)]
    by = own.groupby(["objective", "update"], sort=False)
    parts = [
        by[str(each)].agg(value="mean", low="min", high="max").assign(**{"looks at": SCORES[each]})
        for each in (Score.NEIGHBOUR, Score.OWN)
    ]
    return pd.concat(parts).reset_index().rename(columns={"objective": "training"})


def at_their_end(ways: pd.DataFrame) -> pd.DataFrame:
    """One row per training at its last snapshot: held-out text of its own, relations of gold
    trees."""
    return pd.DataFrame([_row(ways, name) for name in (*MASKED, *TRANSLATING)])


def _row(ways: pd.DataFrame, name: str) -> dict[str, object]:
    own, gold = _of(ways, name, HELD_OUT), _of(ways, name, SAMPLE)
    last, place = own.iloc[-1], ("neighbour_layer", "neighbour_head")
    offset, head = words.signed(float(last["neighbour_offset"]), 0), words.head(*last[[*place]])
    return {
        "training, seed": f"{last['objective']}, {recipe(name).seed}",
        "BLEU": "–" if pd.isna(last[BLEU]) else f"{last[BLEU]:.1f}",
        "neighbour": f"{words.percent(last[Score.NEIGHBOUR])} ({offset}, {head})",
        "half of that after": words.count(_there(own)),
        "own token": words.percent(last[Score.OWN]),
        "rarest": words.percent(last[Score.RARE]),
        "relation over offset": words.points_estimate(*three(gold.iloc[-1], Score.MARGIN)),
    }


def _of(ways: pd.DataFrame, name: str, text: str) -> pd.DataFrame:
    return ways[(ways["model"] == name) & (ways["text"] == text)].sort_values("update")


def _there(own: pd.DataFrame) -> int:
    """The first snapshot with half of the last share at a neighbour."""
    return int(own["update"].iloc[halfway(own, Score.NEIGHBOUR)[0]])


def facts(tables: Tables) -> Facts:
    """The numbers of the prose about the seeds."""
    masked, translating = (
        [_of(tables["ways"], name, HELD_OUT) for name in names] for names in SEEDS
    )
    last, bleu = masked[0].iloc[-1], [each[BLEU].iloc[-1] for each in translating]
    untrained = [each["neighbour"].iloc[0] for each in (*masked, *translating)]
    found = {
        "seeds_untrained": words.percents(untrained),
        "seeds_updates": words.count(last["update"]),
        "seeds_bleu": f"{min(bleu):.0f} to {max(bleu):.0f}",
    }
    for short, names, own in zip(
        ("masked", "translating"), SEEDS, (masked, translating), strict=True
    ):
        ends = sorted(map(_there, own))
        gold = [_of(tables["ways"], name, SAMPLE).iloc[-1] for name in names]
        related = sum(row[f"{Score.MARGIN}_low"] > 0 for row in gold)
        found |= {
            f"seeds_{short}_related": f"{related or 'none'} of {len(own)}",
            f"seeds_{short}_neighbour": words.percents(
                [each["neighbour"].iloc[-1] for each in own]
            ),
            f"seeds_{short}_there": " to ".join(
                dict.fromkeys(map(words.count, (ends[0], ends[-1])))
            ),
        }
    return found
