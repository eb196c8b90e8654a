"""A small decoder on its first batches: the loss of each and the diversity of heads (page 34).

The X-raying article (Asad 2024) trained 222 batches and regressed the loss of the first 40. The
published rows are the first 40 of 222 or 800 batches; the 17 trainings took nearly four hours on
one core that multiplies bfloat16.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, islice

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from headbook.corpora.batches import PAD, Batch, EncodedPair, collate, epoch
from headbook.corpora.plain_text import cut, filled, load_text
from headbook.corpora.subwords import Subwords
from headbook.machine import multiplies_bfloat16
from headbook.models.capture import Point, capture
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.training.schedule import learning_rate
from headbook.types import Kind

PUBLISHED, DESCRIBED = "as published", "as described"
LAYERS, WIDTH, FEED_FORWARD, CONTEXT, VOCABULARY, WARMUP = 6, 128, 512, 256, 5002, 200


@dataclass(frozen=True)
class Setting:
    """One training. "as published": as the article's notebook ran it, faults included, at a
    constant rate, padding in the loss. "as described": causal, no padding, `rate` is the peak.

    `segments` of 256 tokens are a batch: 64 in the published rows of the former, 16 of the latter.
    """

    setting: str = PUBLISHED
    text: str = "wikitext-2"
    heads: int = 8
    dropout: float = 0.1
    rate: float = 0.01
    seed: int = 0
    segments: int = 64
    lines: int = 0  # of the text, the first ones; all where 0

    @property
    def model(self) -> str:
        """The training's name in tables."""
        rate = "" if self.setting == PUBLISHED else f", rate {self.rate:.1g}"
        few = f", {self.lines} lines in batches of {self.segments}" if self.lines else ""
        of_heads = f"{self.heads} heads, dropout {self.dropout:g}{rate}"
        return f"{self.text} {of_heads} s{self.seed}{few}"

    def rate_of(self, update: int) -> float:
        """Learning rate of an update, from 1: constant, or up over 200 updates to its peak."""
        if self.setting == PUBLISHED:
            return self.rate
        scale = self.rate * (WIDTH * WARMUP) ** 0.5
        return learning_rate(update, WIDTH, scale, WARMUP)


def model_of(setting: Setting, vocabulary: int) -> Transformer:
    """The decoder before its first update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(setting.seed, "initial weights"))
        sizes = LAYERS, WIDTH, FEED_FORWARD, setting.heads, setting.dropout
        if setting.setting == PUBLISHED:
            return PublishedTransformer(vocabulary, *sizes)
        return Transformer(TransformerConfig(vocabulary, vocabulary, 0, *sizes, NormPlacement.POST))


def segments_of(setting: Setting) -> tuple[list[EncodedPair], int]:
    """The text in segments, and the size of its vocabulary.

    As published they are whole lines, padded; as described the text is cut every 256 tokens.
    """
    lines = load_text(setting.text, setting.lines or None).train
    subwords = Subwords.train(lines, VOCABULARY)
    make = filled if setting.setting == PUBLISHED else cut
    return make(subwords.encode(lines), CONTEXT), len(subwords)


def batches_of(setting: Setting, segments: list[EncodedPair]) -> Iterator[Batch]:
    """Batches in the random order of the seed, epoch after epoch."""
    seed, tokens = derived(setting.seed, "training"), setting.segments * CONTEXT
    plans = (epoch(segments, tokens, seed, number) for number in count())
    for chosen in chain.from_iterable(plans):
        yield collate([segments[at] for at in chosen], chosen)


@torch.inference_mode()
def pairs(model: Transformer, batch: Batch, setting: Setting) -> Tensor:
    """Output dissimilarity of every two heads, [layer pair]: minus the mean cosine of their slices.

    As published it is the notebook's, of the whole batch with dropout, eight segments at a time; as
    described of the batch's first eight without dropout.
    """
    published = setting.setting == PUBLISHED
    total = torch.zeros(LAYERS, setting.heads, setting.heads, dtype=torch.float64)
    parts = range(0, len(batch) if published else 8, 8)
    with torch.random.fork_rng(devices=[]):
        model.train(published)
        for part in parts:
            with capture(model, {Point.OUTPUT}) as tape:
                model(batch.select(slice(part, part + 8)))
            slices = torch.stack(tape[Kind.DECODER, Point.OUTPUT]).double()
            units = normalize(slices.unflatten(-1, (setting.heads, -1)), dim=-1)
            total -= torch.einsum("lbthd,lbtgd->lhg", units, units)
        model.train()
    one, other = torch.triu_indices(setting.heads, setting.heads, offset=1)
    return total[:, one, other] / batch.target_out[: None if published else 8].numel()


def train(setting: Setting, updates: int = 40) -> pd.DataFrame:
    """One row per update, from 0, and layer: mean and variance over pairs of heads of the
    dissimilarity, loss of the batch in nats per token, and the share of padding among its tokens.

    Each is measured before the step that the batch causes.
    """
    segments, vocabulary = segments_of(setting)
    model, rows = model_of(setting, vocabulary).train(), []
    more = {} if setting.setting == PUBLISHED else {"betas": (0.9, 0.98), "eps": 1e-9}
    optimiser = torch.optim.Adam(model.parameters(), fused=True, **more)
    torch.manual_seed(derived(setting.seed, "training"))
    for update, batch in enumerate(islice(batches_of(setting, segments), updates)):
        with torch.autocast("cpu", torch.bfloat16, multiplies_bfloat16()):
            logits = model(batch)
        loss = cross_entropy(logits.float().flatten(0, 1), batch.target_out.flatten())
        optimiser.param_groups[0]["lr"] = setting.rate_of(update + 1)
        optimiser.zero_grad()
        loss.backward()
        found = pairs(model, batch, setting)
        padding = (batch.target_out == PAD).double().mean()
        rows += [
            {"update": update, "layer": 1 + layer, "mean": float(each.mean()),
             "variance": float(each.var(correction=0)) if len(each) > 1 else float("nan"),
             "loss": loss.item(), "padding": float(padding)}
            for layer, each in enumerate(found)
        ]  # fmt: skip
        optimiser.step()
    found = pd.DataFrame(rows)
    found.insert(0, "model", setting.model)
    found.insert(0, "setting", setting.setting)
    return found
