"""The X-raying article's decoders, as its text and as its notebook have them (pages 31 to 34)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

from headbook.corpora.plain_text import cut, filled, load_text
from headbook.experiments.learning import descent
from headbook.machine import multiplies_bfloat16
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.text.batches import PAD, Batch, EncodedPair, collate, epoch
from headbook.text.subwords import Subwords
from headbook.training.config import learning_rate

PUBLISHED, DESCRIBED = "as published", "as described"


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


def texts(setting: Setting) -> tuple[list, list[list[EncodedPair]], int]:
    """Lines of all three parts as ids, the same in segments, and the size of the vocabulary.

    As published segments are whole lines, padded; as described the text is cut at a fixed length.
    """
    text = load_text(setting.text, setting.lines)
    subwords = Subwords.train(text.train, setting.vocabulary)
    encoded = [subwords.encode(lines) for lines in (text.train, text.valid, text.test)]
    make = filled if setting.published else cut
    return encoded, [make(each, setting.context) for each in encoded], len(subwords)


def batches(segments: Sequence[EncodedPair], setting: Setting) -> Iterator[Batch]:
    """Every update's batch, epoch after epoch."""
    for number in count():
        plan = epoch(segments, setting.tokens, derived(setting.seed, "training"), number)
        yield from (collate([segments[row] for row in rows], rows) for rows in plan)


def descending(model: Transformer, setting: Setting) -> Callable[[Tensor], float]:
    """The updates of a training, which begins; its dropout is drawn from the seed."""
    torch.manual_seed(derived(setting.seed, "training"))
    if setting.published:
        return descent(model.parameters(), lr=0.01)
    rate = partial(LambdaLR, lr_lambda=lambda x: learning_rate(x + 1, 128, setting.scale, 200))
    return descent(model.parameters(), rate, lr=1.0, betas=(0.9, 0.98), eps=1e-9)
