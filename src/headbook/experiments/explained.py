"""What page 56 measures of many trainings: adversaries, imposed weights, sampled Shapley values.

Of three seeds, with the trainings, this took a quarter of an hour on one core.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from captum import attr
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from headbook.experiments.pooling import Outputs, Setting, outputs, train
from headbook.experiments.review_words import Pairs, reviews
from headbook.models.pooled import PooledClassifier
from headbook.statistics import over_seeds
from headbook.text.batches import PAD, UNK, bucket, pad

TOKENS, STEPS, SAMPLES = 2048, 20, 10  # of a batch, of a way; orders of words


def apart(first: Outputs, second: Outputs) -> dict[str, float]:
    """Jensen–Shannon divergence of two models' weights, change of ŷ: means over sentences."""
    pairs = zip(first.weights, second.weights, strict=True)
    far = np.mean([jensenshannon(*each) ** 2 for each in pairs])
    return {"divergence": float(far), "change": float(np.abs(first.p - second.p).mean())}


def compared(
    models: Sequence[str],
    seeds: Sequence[int],
    epochs: int,
    corpus: str,
    strengths: Sequence[float],
    pairs: Pairs,
) -> dict[str, pd.DataFrame]:
    """Tables: two trainings beside each other, BiLSTMs' adversaries, and imposed weights."""
    base = [Setting("BiLSTM", seed, epochs, corpus) for seed in seeds]
    named = [name for name in models if "uniform" not in name]
    every = [Setting(name, seed, epochs, corpus) for name in named for seed in seeds]
    found = {"trainings": two_trainings(every, pairs)}
    found["adversaries"] = pd.concat([adversaries(each, strengths, pairs) for each in base])
    found["imposed"] = pd.concat([imposed(each, max(strengths)) for each in base])
    labels = {"corpus": corpus, "epochs": epochs, "sentences": len(pairs)}
    return {name: frame.assign(**labels) for name, frame in found.items()}


def two_trainings(settings: Sequence[Setting], pairs: Pairs) -> pd.DataFrame:
    """How far weights and outputs of one model are apart after two trainings, each two seeds."""
    rows, seen = [], {each: outputs(train(each), pairs) for each in settings}
    for one, two in combinations(settings, 2):
        if one.reader == two.reader:
            labels = {"model": one.reader, "seed": f"{one.seed}-{two.seed}"}
            rows.append(labels | apart(seen[one], seen[two]))
    return pd.DataFrame(rows, columns=["model", "seed", "divergence", "change"])


def over_trainings(values: pd.Series) -> pd.DataFrame:
    """Mean over seeds and Student's interval of each group that the index names besides `seed`."""
    keys = [name for name in values.index.names if name != "seed"]
    groups = values.dropna().groupby(level=keys, sort=False)
    found = groups.apply(lambda own: pd.Series(vars(over_seeds(own)))).unstack()
    ends = {"mean": "value", "low": "value_low", "high": "value_high"}
    return found[[*ends]].rename(columns=ends).reset_index()


def adversaries(base: Setting, strengths: Iterable[float], pairs: Pairs) -> pd.DataFrame:
    """One row per λ: how far the adversary's weights and outputs lie from the model's, accuracy."""
    seen, test, rows = outputs(train(base), pairs), reviews(base.corpus).test, []
    for strength in strengths:
        other = train(_adversary(base, strength))
        right = outputs(other, test).accuracy(test)
        far = apart(outputs(other, pairs), seen)
        rows.append({"seed": base.seed, "strength": strength, **far, "accuracy": right})
    return pd.DataFrame(rows).assign(model=base.reader)


def imposed(base: Setting, strength: float) -> pd.DataFrame:
    """Test accuracy of an MLP by the weights that it pools with: four trainings."""
    test, rows = reviews(base.corpus).test, []
    mlp = replace(base, reader="MLP")
    given = {"uniform": replace(mlp, uniform=True), "its own": mlp}
    given["the BiLSTM's"] = replace(mlp, imposed=base)
    given["an adversary's"] = replace(mlp, imposed=_adversary(base, strength))
    for name, setting in given.items():
        other = setting.imposed and outputs(train(setting.imposed), test).weights
        right = outputs(train(setting), test, other).accuracy(test)
        rows.append({"weights": name, "seed": base.seed, "accuracy": right})
    return pd.DataFrame(rows).assign(model=mlp.reader)


def _adversary(base: Setting, strength: float) -> Setting:
    return replace(base, seed=100 + base.seed, of=base, strength=strength)


def attributed(model: PooledClassifier, pairs: Pairs, method: str) -> list[np.ndarray]:
    """What a method of captum gives each word for the logit of the decision, review by review."""
    found: list[np.ndarray] = [np.empty(0)] * len(pairs)
    for rows in bucket(pairs, TOKENS, range(len(pairs))):
        ids = pad([pairs[row][0] for row in rows])
        with torch.no_grad():
            sign = model(ids).logits.sign()
        values = METHODS[method](model, ids, sign).detach().float().numpy()
        for row, each in zip(rows, values, strict=True):
            found[row] = each[: len(pairs[row][0])]
    return found


def gradient_times_input(model: PooledClassifier, ids: Tensor, sign: Tensor) -> Tensor:
    """x · ∂z/∂x of the logit z, through the attention weights as well."""
    x = model.words(ids).detach().requires_grad_()
    return attr.InputXGradient(_logits(model)).attribute(x, None, (ids, sign)).sum(-1)


def integrated_gradients(model: PooledClassifier, ids: Tensor, sign: Tensor) -> Tensor:
    """x times the mean of ∂z/∂x on the way from no words, vectors of zeros, to x."""
    x = model.words(ids).detach().requires_grad_()
    method = attr.IntegratedGradients(_logits(model))
    return method.attribute(x, None, None, (ids, sign), n_steps=STEPS).sum(-1)


def _logits(model: PooledClassifier) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda x, ids, sign: model.read(x, ids != PAD).logits * sign


def shapley_values(model: PooledClassifier, ids: Tensor, sign: Tensor) -> Tensor:
    """A word's mean effect on z as words are put in one by one, at random; of none UNK is read."""

    def logits(there: Tensor, ids: Tensor, sign: Tensor) -> Tensor:
        left = [row[some].tolist() or [UNK] for row, some in zip(ids, there > 0, strict=True)]
        return model(pad(left)).logits * sign

    method, there = attr.ShapleyValueSampling(logits), (ids != PAD).float()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return method.attribute(there, None, None, (ids, sign), n_samples=SAMPLES)


METHODS = {
    "gradient × input": gradient_times_input,
    "integrated gradients": integrated_gradients,
    "Shapley values": shapley_values,
}
"""captum's, of Sundararajan et al. 2017 and of Štrumbelj and Kononenko 2010 the last two."""
