"""A trained encoder whose query-key products are replaced, and what that costs it (page 41).

With every share of the dimensions, both models and translations for BLEU, reading and decomposing
took fourteen minutes on one core.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from headbook.experiments.heads_out import text_of
from headbook.looking.effects import Nats
from headbook.looking.text import text
from headbook.looking.weights import projections
from headbook.models.capture import Point
from headbook.models.edits import edited
from headbook.models.loaded import Loaded, pooled
from headbook.training.paired import corpus_bleu, paired, statistics
from headbook.types import Kind

Terms = tuple[Tensor, Tensor, Tensor]
"""Mixing vectors [head, term], directions of queries and of keys [model, term]."""


def attentions(model: Loaded) -> Iterator[tuple[nn.Linear, nn.Linear, Tensor, Tensor]]:
    """Of each encoder layer the query and the key layer, and W_Q and W_K [head, model, dim]."""
    for kind, _, block, query, key, _ in projections(model.network, model.name):
        if kind is Kind.ENCODER:
            sides = (each.weight.detach().unflatten(0, (block.heads, -1)).mT
                     for each in (query, key))  # fmt: skip
            yield query, key, *sides


@contextmanager
def rewritten(model: Loaded, terms: Sequence[Terms], scores: Callable) -> Iterator[None]:
    """The encoder computes its weights from these terms, by layer, while the block lasts.

    `scores(terms, query, W_K, x, y)` gives the scores [batch, head, query, key] of states x and y
    that a layer's queries and keys are made from. Keys whose own weight is zero are masked.
    """
    edits, read = {}, {}

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        read[module] = inputs[0]

    def weights(own: tuple, query: nn.Linear, key: nn.Linear, by_head: Tensor, before: Tensor):
        found = scores(own, query, by_head, read[query], read[key])
        return found.masked_fill(before == 0, -torch.inf).softmax(-1)

    with ExitStack() as until:
        for at, (query, key, _, by_head) in enumerate(attentions(model)):
            for each in (query, key):
                until.callback(each.register_forward_pre_hook(note).remove)
            edit = partial(weights, terms[at], query, key, by_head)
            edits[Kind.ENCODER, at] = {Point.WEIGHTS: edit}
        until.enter_context(edited(model.network, edits))
        yield


class Reader:
    """Cost of a change: 1 − cosine of a sentence's vectors before and after.

    For a translator the rise of the loss on human translations, as a share of the mean before. A
    sentence encoder reads English, a translator sources and references.
    """

    def __init__(self, model: Loaded, sentences: int) -> None:
        english, translates = text("ewt-sample", first=sentences), model.languages[1]
        self.texts = text_of(model, sentences)[1:] if translates else [list(english.sentences)]
        self.model = model
        self.batches = model.batches(*self.texts, tokens=1024)
        self.before, self.first = self._read(), None

    def cost(self) -> np.ndarray:
        """Of each sentence, in the order of the batches."""
        now = self._read()
        if now.ndim == 1:
            return ((now - self.before) / self.before.mean()).numpy()
        return 1 - nn.functional.cosine_similarity(now, self.before).numpy()

    def bleu(self, count: int) -> dict[str, float | int]:
        """Of the first sentences' translations, and its change since the first call."""
        found = self.model.translate(self.texts[0][:count])
        counted = statistics(found, self.texts[1][: len(found)])
        self.first = counted if self.first is None else self.first
        change = paired(counted, self.first)
        row = {"translated": count, "bleu": corpus_bleu(counted), "difference": change.difference}
        return row | {"difference_low": change.low, "difference_high": change.high}

    @torch.inference_mode()
    def _read(self) -> Tensor:
        """Vectors [sentence, model] or nats [sentence]."""
        if len(self.texts) == 1:
            return torch.cat([pooled(self.model.encoded(each), each.source_mask)
                              for each in self.batches]).double()  # fmt: skip
        nats = Nats(self.model, shortlist=True)
        return torch.cat([nats.read(each) for each in self.batches])
