"""Decoders whose heads are compared as they learn (pages 31, 33 and 34).

Asad (2024) follows four metrics through a training whose text and notebook describe two models, and
regresses the losses of the first 40 batches. The published trainings took 7 to 29 minutes each on
one core, 17 of them four hours.
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.experiments.decoders import Setting, batches, descending, loss, start, texts
from headbook.heads.diversity_in_training import diversity_in_training
from headbook.heads.four_metrics import DISSIMILARITY, RAW, Found, four_metrics
from headbook.models.perturbation import moved
from headbook.models.transformer import Transformer
from headbook.text.batches import PAD, Batch, EncodedPair, collate, in_order
from headbook.types import Kind

BATCH, HELD_OUT = "batch", "held out"


@torch.inference_mode()
def validate(model: Transformer, segments: Sequence[EncodedPair], setting: Setting) -> float:
    """The loss of all segments, which are of one length."""
    batches = in_order(segments, setting.tokens)
    return sum(float(loss(model.eval(), x, setting)) * len(x) for x in batches) / len(segments)


def compared(setting: Setting, seen: Mapping[str, Found], layer: int) -> dict[str, float]:
    """A layer's means over pairs, and output dissimilarity's variance and every pair.

    As published raw numbers are those of the batch; held-out ones are named so.
    """
    found, own = {}, BATCH if setting.published else HELD_OUT
    at = torch.triu_indices(setting.heads, setting.heads, 1)
    every = ((text, *each) for text, metrics in seen.items() for each in metrics.items())
    for text, (metric, form), values in every:
        values, name = values[layer].double(), f"{metric}, {form}"
        of = f", {text}" if form == RAW and text != own else ""
        values = values[*at] if values.ndim == 2 else values
        found[name + of] = float(values.mean())
        if (metric, form) == (DISSIMILARITY, RAW):
            several = len(at.T) > 1
            found[f"{name}, variance{of}"] = np.var(values.tolist()) if several else np.nan
        if metric == DISSIMILARITY and text == HELD_OUT:
            pairs = [f"{form} {one}-{other}" for one, other in (at.T + 1).tolist()]
            found |= dict(zip(pairs, values.tolist(), strict=True))
    return found


def watched(setting: Setting) -> pd.DataFrame:
    """One row per measurement and layer, before the update's step, with what came of the training.

    Measured are eight held-out segments and, as published, the batch as the notebook measured it.
    `untrained_…` and `trained_…` are the largest changes of a logit before, at and after a changed
    token, trained to the lowest validation loss.
    """
    encoded, (train, valid, test), size = texts(setting)
    model, rows, best, published = start(setting, size), [], np.inf, setting.published
    untrained, probe = copy.deepcopy(model), list(in_order(valid[:8], setting.tokens))
    descend = descending(model, setting)
    for update, batch in zip(range(setting.updates), batches(train, setting), strict=False):
        nats = loss(model.train(), batch, setting)
        if update < 40 or update % setting.every == 0:
            seen = {HELD_OUT: four_metrics(model, Kind.DECODER, probe)}
            if published:
                seen[BATCH] = diversity_in_training(model, Kind.DECODER, batch)
            labels = {"model": setting.model, "update": update, "loss_nats": nats.item()}
            rows += [{**labels, "layer": x + 1, **compared(setting, seen, x)} for x in range(6)]
        descend(nats)
        due = (update + 1) % (111 if published else 200) == 0 or update + 1 == setting.updates
        if due and (found := validate(model, valid, setting)) < best:
            best, kept = found, copy.deepcopy(model)
    scores = {"valid_nats": best, "test_nats": validate(kept, test, setting)}
    counts, tokens = (np.bincount(np.concatenate(x), minlength=size) for x in encoded[::2])
    frequencies = np.log((counts + 1) / (counts + 1).sum())
    scores["frequency_nats"] = -float(tokens @ frequencies / tokens.sum())
    context = collate(valid[:4], range(4)).target_in
    for version, network in (("untrained", untrained), ("trained", kept)):
        sight = moved(network.eval(), context, context.shape[1] // 2)
        scores |= {f"{version}_{place}": change for place, change in sight.items()}
    named = {name: getattr(setting, name) for name in ("setting", "text", "seed", "updates")}
    return pd.DataFrame(rows).assign(**named, **scores)


def pairs(model: Transformer, batch: Batch, setting: Setting) -> Tensor:
    """Output dissimilarity of every two heads, [layer pair]: minus the mean cosine of their slices.

    As published it is the notebook's, of the whole batch with dropout; as described of the batch's
    first eight segments without dropout.
    """
    if setting.published:
        found = diversity_in_training(model, Kind.DECODER, batch)
    else:
        found = four_metrics(model, Kind.DECODER, [batch.select(slice(8))], forms={RAW})
    one, other = torch.triu_indices(setting.heads, setting.heads, offset=1)
    return found[DISSIMILARITY, RAW][:, one, other]


def first_batches(setting: Setting, updates: int = 40) -> pd.DataFrame:
    """One row per update, from 0, and layer: mean and variance over pairs of heads of the
    dissimilarity, loss of the batch in nats per token, and the share of padding among its tokens.

    Each is measured before the step that the batch causes; the name of a small training says how
    small it is.
    """
    _, (text, *_), vocabulary = texts(setting)
    model, rows = start(setting, vocabulary), []
    descend = descending(model, setting)
    for update, batch in zip(range(updates), batches(text, setting), strict=False):
        nats = loss(model.train(), batch, setting)
        padding = float((batch.target_out == PAD).double().mean())
        for layer, found in enumerate(pairs(model, batch, setting), 1):
            variance = float(found.var(correction=0)) if len(found) > 1 else float("nan")
            numbers = float(found.mean()), variance, nats.item(), padding
            rows.append((setting.setting, update, layer, *numbers))
        descend(nats)
    columns = ["setting", "update", "layer", "mean", "variance", "loss", "padding"]
    small = f", {setting.lines} lines in batches of {setting.tokens // setting.context}"
    name = setting.model + small * bool(setting.lines)
    return pd.DataFrame(rows, columns=columns).assign(model=name)
