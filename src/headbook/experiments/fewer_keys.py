"""A masked encoder goes on learning with attention to fewer keys, or to all (page 43).

Wang et al. (2020) train models with Linformer's mixtures from the start. Here a trained encoder
gets mixtures that begin as means of neighbours, and goes on with the same texts as one with all
keys. The published size, nineteen trainings, took the better part of an hour on one core.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from headbook.corpora.readers import load
from headbook.experiments.hidden_words import hidden_nats, joined_texts
from headbook.experiments.learning import descent
from headbook.formats import formatted
from headbook.models import checkpoint
from headbook.models.fewer_keys import Mixed, means, mixture
from headbook.models.transformer import Transformer
from headbook.recipes import weights_folder
from headbook.results import cached
from headbook.runs.seeds import derived
from headbook.statistics import resampled_mean
from headbook.text.batches import EncodedPair, collate
from headbook.text.subwords import Subwords
from headbook.training.scoring import losses

MODEL = "mixture-fr-256-masked"
ALL, MEANS = "all keys", "means of neighbours"
HEAD, LAYER = "Linformer, two per head", "Linformer, two per layer"
ONE_BY_LAYER, ONE = "Linformer, one per layer", "Linformer, one matrix"
SEEDS = 3
TRAININGS = dict.fromkeys([(ALL, 1), (LAYER, 4), (HEAD, 4), (ONE, 4), (MEANS, 4)], SEEDS)
TRAININGS |= dict.fromkeys([(LAYER, 2), (LAYER, 8), (LAYER, 16), (ONE_BY_LAYER, 4)], 1)
"""Seeds of texts and mixtures, by the keys' name and tokens per key."""
COMPARED = {"a quarter": (LAYER, ALL), "means": (MEANS, LAYER), "sharing": (ONE, HEAD)}
"""By question, whose nats at a quarter of the keys less whose."""
STILL = 0.05
"""Nats that a difference may move in the second half of the updates, to count as converged."""
LENGTH, BATCH, TESTED = 64, 8, 300
"""Tokens of a text: longer ones are unlike those that were learnt from; texts; held-out texts."""
RATE, MIXING_RATE = 3e-4, 3e-3
"""Of Adam, and for mixing matrices."""


def learn(
    model: Transformer,
    keys: str,
    count: int,
    train: Sequence[EncodedPair],
    tested: Sequence[EncodedPair],
    updates: int,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Adam after a warm-up; nats per hidden token of held-out texts before, halfway and at the end.

    Changes the model, which looks at so many keys, mixed so, or at all of them. Mixtures start as
    means of neighbours, as heads know what to do with these.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "mixtures and dropout"))
        if keys != ALL:
            look_at_fewer(model, keys, count, LENGTH)
        matrices = mixing(model)
        for each in matrices:
            each.data.copy_(means(*each.shape[-2:]) + 0.01 * torch.randn(each.shape))
        found, known = {"before": _scored(model, tested)}, {*map(id, matrices)}
        own = [each for each in model.parameters() if id(each) not in known and each.requires_grad]
        groups = [{"params": own}, {"params": matrices, "lr": MIXING_RATE}]
        rate = partial(torch.optim.lr_scheduler.LinearLR, start_factor=1 / 20, total_iters=20)
        descend = descent(groups, rate, lr=RATE, betas=(0.9, 0.98))
        for step in range(updates):
            if step == updates // 2:
                found["half"] = _scored(model, tested)
            some = train[step * BATCH : (step + 1) * BATCH]
            descend(hidden_nats(model.train(), collate(some, range(BATCH))).mean())
    return {**found, "end": _scored(model, tested)}


def look_at_fewer(model: Transformer, keys: str, count: int, length: int) -> None:
    """Makes every attention look at so many keys, for texts of at most `length` tokens."""
    shared = (mixture(count, length),) * 2 if keys == ONE else ()
    if keys == MEANS:  # never trained
        shared = (nn.Parameter(means(count, length), requires_grad=False),) * 2
    for layer in model.encoder:
        heads, own = (layer.attention.heads,) if keys == HEAD else (), shared
        if not shared:
            drawn = [mixture(*heads, count, length) for _ in range(1 + (keys != ONE_BY_LAYER))]
            own = drawn[0], drawn[-1]
        layer.attention = Mixed(layer.attention, *own)


def mixing(model: Transformer) -> list[nn.Parameter]:
    """The mixing matrices that are learned, each once however many layers share it."""
    named = [each for each in model.named_parameters() if each[1].requires_grad]
    return [each for name, each in named if name.endswith(("of_keys", "of_values"))]


def _scored(model: Transformer, tested: Sequence[EncodedPair]) -> Tensor:
    sums, tokens = losses(model.eval(), tested, 4096)
    return sums / tokens


def gone_on(keys: str, parts: int, seed: int, updates: int) -> pd.DataFrame:
    """The losses of `learn` for these keys, a row per held-out text."""
    folder, size = weights_folder(MODEL), updates * BATCH
    corpus, subwords = load("mixture-fr", None), Subwords.load(folder / "source.json")
    train = joined_texts(subwords, corpus.train.source, LENGTH, size, seed)
    tested = joined_texts(subwords, corpus.valid.source, LENGTH, TESTED, 0)
    model = checkpoint.load_transformer(folder / "best.safetensors")
    return pd.DataFrame(learn(model, keys, LENGTH // parts, train, tested, updates, seed))


def sweep(updates: int = 150) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every training, and differences at a quarter of the keys: the tables gone_on, compared."""
    found, rows = {}, []
    for (keys, parts), seeds in TRAININGS.items():
        for seed in range(seeds):
            run = {"keys": keys, "parts": parts, "seed": seed, "updates": updates}
            found[keys, parts, seed] = nats = cached(gone_on, **run)
            run |= {"model": MODEL, "texts": len(nats), **nats.mean()}
            more = nats - found[ALL, 1, seed]
            rows.append({**run, **_mean(more["end"]), "value_half": more["half"].mean()})
    return pd.DataFrame(rows), pd.DataFrame(differences(found)).assign(updates=updates)


def differences(found: dict[tuple[str, int, int], pd.DataFrame]) -> Iterator[dict[str, object]]:
    """Per question and seed, intervals over texts; one gate for all seeds of a question."""
    for question, (keys, other) in COMPARED.items():
        parts = 1 if other == ALL else 4
        more = [found[keys, 4, seed] - found[other, parts, seed] for seed in range(SEEDS)]
        moved = float(np.mean([(each["end"] - each["half"]).mean() for each in more]))
        told = f"second half of the updates moved it by {formatted(moved, '+.2f')} nats"
        closed = "none" if abs(moved) <= STILL else f"converged: the {told}"
        for seed, each in enumerate(more):
            whose = {"model": MODEL, "question": question, "seed": seed, "closed": closed}
            yield whose | _mean(each["end"])


def _mean(nats: pd.Series) -> dict[str, float]:
    low, high = resampled_mean(nats, seed=0) if nats.any() else (np.nan, np.nan)
    return {"value": nats.mean(), "value_low": low, "value_high": high}
