"""Decoders whose heads are compared as they learn (pages 31 and 33).

Asad (2024) follows four metrics through a training whose text and notebook describe two models. The
published trainings took 7 to 29 minutes each on one core, 17 of them four hours.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.plain_text import cut, filled, load_text
from headbook.heads.diversity_in_training import diversity_in_training
from headbook.heads.four_metrics import DISSIMILARITY, RAW, Found, four_metrics
from headbook.machine import multiplies_bfloat16
from headbook.models.perturbation import moved
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.text.batches import PAD, Batch, EncodedPair, collate, epoch, in_order
from headbook.text.subwords import Subwords
from headbook.training.config import learning_rate
from headbook.types import Kind

PUBLISHED, DESCRIBED = "as published", "as described"
BATCH, HELD_OUT = "batch", "held out"


@dataclass(frozen=True)
class Setting:
    """One training; the defaults are the article's own configuration as its notebook ran it.

    As described, the mask is the right way round, the text is without padding, and the rate rises
    for 200 updates to its peak, `scale` · (128 · 200)^-½, and falls.
    """

    setting: str = PUBLISHED
    text: str = "wikitext-2"
    heads: int = 8
    dropout: float = 0.1
    seed: int = 0
    updates: int = 222
    tokens: int = 16_384  # of a batch, padding included
    every: int = 5  # updates between measurements, from the fortieth on
    scale: float = 0.5
    lines: int | None = None  # to learn from; all where None
    vocabulary: int = 5002
    context: int = 256

    @property
    def published(self) -> bool:
        return self.setting == PUBLISHED

    @property
    def model(self) -> str:
        """The training's name, the same in every table."""
        rate = "" if self.published else f", rate {(128 * 200) ** -0.5 * self.scale:.1g}"
        return f"{self.text} {self.heads} heads, dropout {self.dropout:g}{rate} s{self.seed}"


def start(setting: Setting, vocabulary: int) -> Transformer:
    """The decoder before its first update."""
    shape = (6, 128, 512, setting.heads, setting.dropout)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(setting.seed, "initial weights"))
        if setting.published:
            return PublishedTransformer(vocabulary, *shape)
        return Transformer(TransformerConfig(vocabulary, vocabulary, 0, *shape, NormPlacement.POST))


def loss(model: Transformer, batch: Batch, setting: Setting) -> Tensor:
    """Cross-entropy per token in nats; as published padding counts."""
    with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
        logits = model(batch).flatten(0, 1)
    ignored = -100 if setting.published else PAD
    return cross_entropy(logits.float(), batch.target_out.flatten(), ignore_index=ignored)


@torch.inference_mode()
def validate(model: Transformer, segments: Sequence[EncodedPair], setting: Setting) -> float:
    """The loss of all segments, which are of one length."""
    batches = in_order(segments, setting.tokens)
    return sum(float(loss(model.eval(), x, setting)) * len(x) for x in batches) / len(segments)


def batches(segments: Sequence[EncodedPair], setting: Setting) -> Iterator[Batch]:
    """Every update's batch, epoch after epoch."""
    for number in count():
        plan = epoch(segments, setting.tokens, derived(setting.seed, "training"), number)
        yield from (collate([segments[row] for row in rows], rows) for rows in plan)


def compared(setting: Setting, seen: Mapping[str, Found], layer: int) -> dict[str, float]:
    """A layer's means over pairs, and output dissimilarity's variance and every pair.

    As published raw numbers are those of the batch; held-out ones are named so.
    """
    found, own = {}, BATCH if setting.published else HELD_OUT
    for text, metrics in seen.items():
        for (metric, form), values in metrics.items():
            values, name = values[layer].double(), f"{metric}, {form}"
            of = f", {text}" if form == RAW and text != own else ""
            at = torch.triu_indices(setting.heads, setting.heads, 1)
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
    text, rows, best, published = load_text(setting.text, setting.lines), [], 1e9, setting.published
    subwords = Subwords.train(text.train, setting.vocabulary)
    encoded = [subwords.encode(lines) for lines in (text.train, text.valid, text.test)]
    train, valid, test = ((filled if published else cut)(x, setting.context) for x in encoded)
    model = start(setting, len(subwords))
    adam = {"betas": (0.9, 0.999 if published else 0.98), "eps": 1e-8 if published else 1e-9}
    optimiser = torch.optim.Adam(model.parameters(), 0.01, fused=True, **adam)
    untrained, probe = copy.deepcopy(model), list(in_order(valid[:8], setting.tokens))
    torch.manual_seed(derived(setting.seed, "training"))
    for update, batch in zip(range(setting.updates), batches(train, setting), strict=False):
        nats = loss(model.train(), batch, setting)
        nats.backward()
        if update < 40 or update % setting.every == 0:
            seen = {HELD_OUT: four_metrics(model, Kind.DECODER, probe)}
            if published:
                seen[BATCH] = diversity_in_training(model, Kind.DECODER, batch)
            labels = {"model": setting.model, "update": update, "loss_nats": float(nats.detach())}
            rows += [{**labels, "layer": x + 1, **compared(setting, seen, x)} for x in range(6)]
        rate = 0.01 if published else learning_rate(update + 1, 128, setting.scale, 200)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        optimiser.zero_grad()
        due = (update + 1) % (111 if published else 200) == 0 or update + 1 == setting.updates
        if due and (found := validate(model, valid, setting)) < best:
            best, kept = found, copy.deepcopy(model)
    scores = {"valid_nats": best, "test_nats": validate(kept, test, setting)}
    counts, tokens = (np.bincount(np.concatenate(x), minlength=len(subwords)) for x in encoded[::2])
    frequencies = np.log((counts + 1) / (counts + 1).sum())
    scores["frequency_nats"] = -float(tokens @ frequencies / tokens.sum())
    context = collate(valid[:4], range(4)).target_in
    for version, network in (("untrained", untrained), ("trained", kept)):
        sight = moved(network.eval(), context, context.shape[1] // 2)
        scores |= {f"{version}_{place}": change for place, change in asdict(sight).items()}
    named = {name: getattr(setting, name) for name in ("setting", "text", "seed", "updates")}
    return pd.DataFrame(rows).assign(**named, **scores)
