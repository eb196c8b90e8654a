"""Page 43: our masked encoder goes on learning, with fewer keys or all of them."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from headbook.artefacts.fewer_keys import MODEL, GoingOn, gone_on, updates_before
from headbook.chapters import words
from headbook.chapters.chapter import Facts
from headbook.chapters.tables import released_claim
from headbook.claims.gates import NONE
from headbook.models.fewer_keys import Fewer, FewerKeys, Sharing
from headbook.runs.store import Store
from headbook.statistics import over_seeds, resampled_mean

ALL_KEYS, MEANS = "all keys", "means of neighbours"
BY_HEAD, BY_LAYER = "Linformer, two per head", "Linformer, two per layer"
ONE_BY_LAYER, ONE = "Linformer, one per layer", "Linformer, one matrix"
SHARED_BY = {BY_HEAD: Sharing.NOTHING, BY_LAYER: Sharing.HEADS, ONE_BY_LAYER: Sharing.KEY_VALUE,
             ONE: Sharing.LAYERS}  # fmt: skip
QUARTER = 4
TEXT = 64  # tokens of the texts that they go on with: longer ones are unlike those learnt from
SEEDS = 3
ENCODERS = {
    (ALL_KEYS, 1): SEEDS, (BY_LAYER, 2): 1, (BY_LAYER, 4): SEEDS, (BY_LAYER, 8): 1,
    (BY_LAYER, 16): 1, (BY_HEAD, 4): SEEDS, (ONE_BY_LAYER, 4): 1, (ONE, 4): SEEDS,
    (MEANS, 4): SEEDS,
}  # fmt: skip
"""Seeds of texts and mixtures, by the name of an encoder's keys and tokens per key."""
STILL = 0.05
"""Nats that a difference may move in the second half of the updates, to be called converged."""
COMPARED = {
    "linformer-trained-quarter-is-enough": (BY_LAYER, (ALL_KEYS, 1)),
    "linformer-trained-beats-means": (MEANS, (BY_LAYER, QUARTER)),
    "linformer-trained-sharing-costs-little": (ONE, (BY_HEAD, QUARTER)),
}
"""Whose nats at a quarter of the keys less whose."""

Encoder = tuple[str, int, int]  # name of the keys, tokens per key, seed
Losses = Mapping[Encoder, pd.DataFrame]  # nats per hidden token, one row per held-out text


def plan(updates: int) -> dict[Encoder, GoingOn]:
    """Every encoder that goes on for so many updates."""
    return {(name, parts, seed): GoingOn(_keys(name, parts), TEXT, updates, seed=seed)
            for (name, parts), seeds in ENCODERS.items() for seed in range(seeds)}  # fmt: skip


def _keys(name: str, parts: int) -> FewerKeys | None:
    if name == ALL_KEYS:
        return None
    if name == MEANS:
        return FewerKeys(Fewer.POOLED, TEXT // parts, TEXT)
    return FewerKeys(Fewer.LINFORMER, TEXT // parts, TEXT, SHARED_BY[name])


def trained(updates: int, store: Store) -> Losses:
    """Losses of every encoder, from the store or trained now."""
    return {each: gone_on(run, store) for each, run in plan(updates).items()}


def rows(found: Losses, updates: int) -> pd.DataFrame:
    """One row per encoder: nats per hidden token, and how much more than with all keys.

    Mean over texts, `low` and `high` by bootstrap over them; `value_half` is the same halfway.
    """
    given = []
    for (name, parts, seed), losses in found.items():
        more = losses - found[ALL_KEYS, 1, seed]
        low, high = resampled_mean(more["end"], seed=0) if parts > 1 else (np.nan, np.nan)
        given.append({"keys": name, "parts": parts, "seed": seed, **losses.mean(),
                      "value": more["end"].mean(), "low": low, "high": high,
                      "value_half": more["half"].mean(), "texts": len(losses)})  # fmt: skip
    return pd.DataFrame(given).assign(updates=updates, updates_before=updates_before())


def claims(found: Losses) -> Iterator[dict[str, object]]:
    """At a quarter of the keys, per seed: differences over texts.

    The gate `converged` is one for all seeds: else a single one might decide.
    """
    for claim, (name, (other, parts)) in COMPARED.items():
        differences = [found[name, QUARTER, seed] - found[other, parts, seed]
                       for seed in range(SEEDS)]  # fmt: skip
        moved = float(np.mean([(each["end"] - each["half"]).mean() for each in differences]))
        told = f"converged: the second half of the updates moved it by {words.signed(moved)} nats"
        for seed, more in enumerate(differences):
            row = released_claim(claim, MODEL, more["end"].mean(),
                                 *resampled_mean(more["end"], seed=0), corpus="mixture-fr",
                                 closed=NONE if abs(moved) <= STILL else told)  # fmt: skip
            yield {**row, "seed": seed}


def table(gone: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of keys: nats per hidden token, and how much more than with all keys.

    Means over seeds with Student's interval, over texts where there is one seed.
    """
    shown = []
    for (name, parts), own in gone.groupby(["keys", "parts"], sort=False):
        mean = own[["before", "half", "end"]].mean()
        shown.append({
            "keys": name, f"of {TEXT}": TEXT // parts, "seeds": len(own),
            "before": f"{mean['before']:.2f}", "halfway": f"{mean['half']:.2f}",
            "at the end": f"{mean['end']:.2f}",
            "more than all keys": "" if parts == 1 else words.difference(*_more(own)),
        })  # fmt: skip
    return pd.DataFrame(shown)


def _more(own: pd.DataFrame) -> tuple[float, float, float]:
    if len(own) == 1:
        (row,) = own.itertuples()
        return row.value, row.low, row.high
    found = over_seeds(own["value"])
    return found.mean, found.low, found.high


def less(gone: pd.DataFrame, name: str, other: str) -> tuple[float, float, float]:
    """Nats of one kind less those of another at a quarter of the keys, mean over seeds."""
    quarter = gone[gone["parts"] == QUARTER].pivot(index="seed", columns="keys", values="end")
    found = over_seeds(quarter[name] - quarter[other])
    return found.mean, found.low, found.high


def facts(gone: pd.DataFrame, names: Mapping[str, str]) -> Facts:
    """Nats at the end, how much more than with all keys, and what sharing costs."""
    first = gone.iloc[0]
    known = gone.groupby(["keys", "parts"], sort=False)
    found = {"on_texts": str(first["texts"]), "on_updates": words.count(first["updates"]),
             "on_from": words.count(first["updates_before"]), "on_length": str(TEXT),
             "on_seeds": str(SEEDS),
             "on_end": f"{known['end'].mean()[ALL_KEYS, 1]:.2f}"}  # fmt: skip
    for (name, parts), own in known:
        if parts > 1:
            key = f"on_{names[name]}_{parts}"
            found |= {key: words.difference(*_more(own)),
                      f"{key}_half": words.signed(own["value_half"].mean())}  # fmt: skip
    found["on_means"] = words.difference(*less(gone, MEANS, BY_LAYER))
    found["on_sharing"] = words.difference(*less(gone, ONE, BY_HEAD))
    return found
