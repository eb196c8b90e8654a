"""Translators and language models trained with a term that makes their heads differ (page 36).

Li et al. (2018), Lee et al. (2019), and Zhou et al.'s DropHead (2020) beside them. The published
size, 71 models of each task, took 17 hours on two cores.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from headbook.experiments.drop_head import CONSTANT, V, dropping, without_heads
from headbook.experiments.small_models import Setting, each_kept, texts, train
from headbook.models.capture import Point, capture
from headbook.models.decoding import Search, translate_corpus
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.statistics import REPLICATES, interval, within_layers
from headbook.text.batches import Batch, in_order
from headbook.training.loop import Trainer
from headbook.training.regularising import Regulariser, Term
from headbook.training.scoring import bleu, nats
from headbook.types import Kind

SHORT = {"width": 64, "watched": 0, "levels": (0.0, 0.5)}
PAIRS = {"context": 0, "dropout": 0.15, "scale": 0.4, "warmup": 100, "smoothing": 0.1}
PAIRS |= {"every": 100, "probe": 100, "held": 300}
SETTINGS = {
    "translation": Setting("multi30k-de", 6000, **PAIRS, **SHORT),
    "language model": Setting("wikitext-2", context=128, **SHORT),
}
NONE, TERMS = "no regulariser", tuple(map(str, Term))
DISSIMILARITY = "output dissimilarity"
WAYS = [(NONE, 0.0), (CONSTANT, 0.1), (V, 0.1)]
WAYS += [(term, strength) for term in TERMS for strength in (0.01, 0.1, 1.0)]
KEYS = ["task", "variant", "strength", "seed"]


@torch.inference_mode()
def own_terms(
    network: Transformer, kinds: tuple[Kind, ...], batches: Sequence[Batch]
) -> dict[str, float]:
    """Every term on these batches, before λ: mean over sentences."""
    found = dict.fromkeys(TERMS, 0.0)
    for batch in batches:
        with capture(network, {Point.QUERIES, Point.VALUES, Point.WEIGHTS, Point.CONTEXT}) as tape:
            network(batch)
        for term in Term:
            one = float(Regulariser(term, 0.0, kinds).value(batch, tape))
            found[term] += one * len(batch) / sum(map(len, batches))
    return found


def measured(setting: Setting, variant: str, strength: float, seed: int) -> pd.DataFrame:
    """Loss by order and share of heads closed, and the model's own numbers in each row.

    `strength` is λ of a term, or DropHead's rate.
    """

    def equip(trainer: Trainer) -> None:
        dropping(variant, strength, trainer)
        if variant in TERMS:
            trainer.addition = Regulariser(Term(variant), strength, setting.kinds)

    network, curve, looks = train(setting, seed, equip)
    text = texts(setting.corpus, setting.vocabulary, setting.context)
    numbers = {"valid_nats": curve["valid_loss_nats"].min(), "bleu": float("nan")}
    numbers["test_nats"] = nats(network, text.test, 4096)
    if text.references:
        sources = [source for source, _ in text.test]
        found = translate_corpus(network, sources, text.subwords[1], Search())
        numbers["bleu"] = bleu(found, text.references).score
    numbers[DISSIMILARITY] = looks[f"{DISSIMILARITY}, scale-free"].mean()
    probe = list(in_order(text.valid[: setting.probe], 4096))
    numbers |= own_terms(network, setting.kinds, probe)
    held = text.valid[: setting.held]
    return without_heads(setting, network, held).assign(**numbers)


def sweep(task: str, seeds: int) -> pd.DataFrame:
    """Seed 0 at every strength; the best by validation loss, the weaker of equals, with all seeds.

    The rows of `measured`, `chosen` where the strength is the best. Each training is kept.
    """

    def rows(ways: Sequence[tuple[str, float]], seeds: Sequence[int]) -> pd.DataFrame:
        runs = [dict(zip(KEYS[1:], (*way, seed), strict=True)) for seed in seeds for way in ways]
        return each_kept(measured, SETTINGS[task], runs)

    found = rows(WAYS, [0])
    best = found.sort_values(["valid_nats", "strength"]).drop_duplicates("variant")
    chosen = list(zip(best["variant"], best["strength"], strict=True))
    if seeds > 1:
        found = pd.concat([found, rows(chosen, range(1, seeds))])
    named = zip(found["variant"], found["strength"], strict=True)
    return found.assign(task=task, chosen=[each in chosen for each in named])


def sweeps(seeds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Quality of every training of both tasks, and the changes of those that were chosen."""
    rows = pd.concat([sweep(task, seeds) for task in SETTINGS])
    quality = rows.drop_duplicates(KEYS)[[*KEYS, "chosen", "valid_nats", "test_nats", "bleu"]]
    return quality, changes(rows)


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Every chosen model minus the base of its task and seed; gains are positive where better.

    `rise_at_half` is how much more the loss rises without half of the heads, `own_term` the change
    of the term that was made small.
    """
    rows = rows[rows["chosen"]]
    at = rows.groupby([*KEYS, "share"])["nats"].mean().unstack()
    own = rows.drop(columns=["order", "share", "nats", "chosen"]).drop_duplicates(KEYS)
    own = own.set_index(KEYS).assign(rise_at_half=at[0.5] - at[0.0])
    base = own.xs(NONE, level="variant").droplevel("strength")
    base = base.reindex(own.index.droplevel(["variant", "strength"]))
    more = (own - base.to_numpy()).drop(NONE, level="variant")
    own_term = [more.at[key, key[1]] if key[1] in TERMS else float("nan") for key in more.index]
    more = more.assign(gain_nats=-more["test_nats"], gain_bleu=more["bleu"], own_term=own_term)
    quantities = ["gain_nats", "gain_bleu", "rise_at_half", "own_term", DISSIMILARITY]
    return more[quantities].reset_index()


def correlation(own: pd.DataFrame) -> tuple[float, float, float, float]:
    """Spearman's, of a task's gains in nats with changes of output dissimilarity; mean over seeds.

    Its interval by drawing regularisers again, with all their seeds; and the upper end where
    regularisers are given the gains of others.
    """
    wide = own.pivot(index="seed", columns="variant", values=[DISSIMILARITY, "gain_nats"])
    unlike, gain = (wide[each].to_numpy() for each in (DISSIMILARITY, "gain_nats"))
    noise, at = np.random.default_rng(derived(0, "variants drawn again")), np.arange(gain.shape[1])
    drawn = np.vstack([at, noise.choice(at, size=(REPLICATES, len(at)))])
    mixed = np.vstack([at, noise.permuted(np.tile(at, (REPLICATES, 1)), axis=1)])

    def over(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
        each = within_layers(*(x[:, y].swapaxes(0, 1) for x, y in ((unlike, one), (gain, other))))
        return interval(np.nanmean(each, -1))

    return *over(drawn, drawn), over(np.broadcast_to(at, mixed.shape), mixed)[2]
