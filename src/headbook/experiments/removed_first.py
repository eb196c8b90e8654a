"""Heads removed before fine-tuning, beside the same removed after it (page 61).

Budhraja et al. (2020) prune heads of a pretrained encoder and fine-tune what is left. The published
rows are of three models with three seeds: 45 trainings of a minute.
"""

import random
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from headbook.experiments.fine_tuning import TOKENS, Classifier, Sentences, reviews, tuned
from headbook.looking.load import load
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.statistics import over_seeds
from headbook.types import HeadId, Kind

NONE, DRAWN = "none", "as many at random"
BEFORE, AFTER = "before fine-tuning", "after fine-tuning"


def thirds(model: Loaded, seed: int) -> dict[str, list[HeadId]]:
    """Encoder heads of the lower, middle and upper third of the layers, and as many at random."""
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]
    layers = max(head.layer for head in heads) + 1
    parts = {name: [head for head in heads if 3 * head.layer // layers == at]
             for at, name in enumerate(("early", "middle", "late"))}  # fmt: skip
    return {NONE: [], **parts, DRAWN: random.Random(seed).sample(heads, len(parts["early"]))}


def scored(found: Classifier, test: Sentences, removed: Sequence[HeadId]) -> tuple[float, float]:
    """Accuracy and cross-entropy in nats without these heads."""
    right, nats = 0.0, 0.0
    with torch.no_grad(), closed(found.model.network, removed):
        for batch in found.model.batches(test.texts):
            said, wanted = found.logits(batch), test.labels[batch.sentences]
            right += float(((said > 0) == (wanted > 0.5)).sum())
            nats += float(cross_entropy(said, wanted, reduction="sum"))
    return right / len(test.texts), nats / len(test.texts)


def table(
    name: str, corpus: str, train: int, tested: int, seeds: Sequence[int], tokens: int = TOKENS
) -> pd.DataFrame:
    """When heads were removed, which, accuracy, and cross-entropy in nats, by seed.

    Each seed has sentences of its own to learn from. The encoder fine-tuned whole loses each set in
    turn; then it is fine-tuned without each, which stays away.
    """
    rows = []
    for seed in seeds:
        learnt, test = reviews(corpus, train, tested, seed)
        whose, heads = (name, corpus, train, tested, str(seed)), thirds(load(name), seed)
        whole = tuned(load(name), learnt, seed, tokens)
        for removed, own in heads.items():
            rows.append((*whose, AFTER, removed, *scored(whole, test, own)))
        del heads[NONE]
        for removed, own in heads.items():
            model = load(name)
            with closed(model.network, own):
                found = tuned(model, learnt, seed, tokens)
            rows.append((*whose, BEFORE, removed, *scored(found, test, own)))
    columns = ["model", "corpus", "train", "tested", "seed", "when", "removed"]
    return pd.DataFrame(rows, columns=[*columns, "accuracy", "nats"])


def gained(found: pd.DataFrame, score: str) -> pd.DataFrame:
    """A score of `table` without each set minus that of the whole fine-tuned encoder.

    One row per seed, columns (when, removed).
    """
    wide = found.pivot(index="seed", columns=["when", "removed"], values=score)
    whole = wide.pop((AFTER, NONE))
    return wide.sub(whole, axis=0)


def contributions(heads: pd.DataFrame, roles: pd.DataFrame) -> pd.DataFrame:
    """Log₂ of the importance of special heads over that of the others of their layer, per seed.

    `all`, `lower`, `upper`: heads that hold a role, in all layers, in the lower and in the upper
    half; `polar`: the quarter with the largest preference for polar words. Mean over layers that
    have heads of both sorts.
    """
    special = set(zip(roles["layer"], roles["head"], strict=True))
    found = {}
    for seed, own in heads.groupby("seed"):
        held = [key in special for key in zip(own["layer"], own["head"], strict=True)]
        upper = own["layer"] > own["layer"].max() // 2
        own = own.assign(special=held, turned=own["polar"] >= own["polar"].quantile(0.75))
        parts = {"all": own, "lower": own[~upper], "upper": own[upper]}
        found[seed] = {name: _ratio(part, "special") for name, part in parts.items()}
        found[seed]["polar"] = _ratio(own, "turned")
    return pd.DataFrame(found).T


def _ratio(own: pd.DataFrame, column: str) -> float:
    mean = own.groupby(["layer", column])["importance"].mean().unstack()
    return float(np.log2(mean[True] / mean[False]).mean()) if mean.shape[1] == 2 else float("nan")


def unjudged(question: str, scores: pd.DataFrame, held: pd.Series, layers: int) -> str:
    """Why a claim is not judged on a model; "" where it is.

    `scores` has a row per seed and columns (score, removed), `held` the layer of each head with a
    role. A model that fine-tuning teaches nothing beyond the larger class is asked only how far its
    heads moved; halves of the layers are compared where each has a few heads with a role.
    """
    above = int((held > layers // 2).sum())
    if question == "specialised later" and above < 3:
        return f"present: {above} of the upper half's heads hold a role, 3 are needed"
    if question == "specialised later" and above == len(held):
        return "present: no head of the lower half holds a role"
    right, larger = over_seeds(scores["accuracy", NONE]), scores["larger", NONE].iloc[0]
    if right.low > larger or question in ("last layers", "beyond seeds"):
        return ""
    return (f"present: fine-tuned, it gets {right.mean:.0%} of the sentences right, where the "
            f"larger class has {larger:.0%}")  # fmt: skip
