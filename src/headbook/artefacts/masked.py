"""The stage `masked`: BLEU and loss of one model without this set of heads, or that, or that."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from headbook.artefacts.model import TrainedModel, corpus_of, heads_of
from headbook.corpora.batches import Batch, EncodedPair, in_order
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.models.attention import MemoryMask
from headbook.models.decoding import GREEDY, Search, translate
from headbook.models.gates import closed
from headbook.models.greedy import translate_greedily
from headbook.models.transformer import Transformer
from headbook.runs.rows import finished
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training.paired import corpus_bleu, statistics
from headbook.types import HeadId, Kind, UserError

MASKED = Stage("masked", version=1)
TOKENS = 4096
"""Padded tokens a batch."""
ROWS = "rows.jsonl"

Memory = tuple[Float[Tensor, "batch source model"], MemoryMask | None]
"""The encoder's result for a batch: its output and the mask of the padding."""


@dataclass(frozen=True)
class MaskedRun:
    """Heads to close, one set after another, and the sentences that the model then translates.

    `test` is "valid" or the name of a test set, of the model's own corpus where `corpus` is None.
    `update` is None for the best model, 0 for the untrained one.
    """

    test: str
    sentences: int  # the first so many pairs
    masks: tuple[tuple[HeadId, ...], ...]  # () is the full model
    update: int | None = None
    search: Search = GREEDY
    corpus: str | None = None


@dataclass(frozen=True)
class Masked:
    """Results for each mask of a run, in the order of its masks.

    `bleu` is cased, in percent, with the 13a tokeniser; `statistics` are what it is made of (see
    training/paired.py); `loss` is the cross-entropy in nats per target token, teacher-forced.
    """

    run: MaskedRun
    bleu: Float[np.ndarray, " mask"]
    statistics: Int[np.ndarray, "mask sentence 10"]
    loss: Float[np.ndarray, " mask"]


def masked(trained: TrainedModel, run: MaskedRun, store: Store) -> Masked:
    """The model under every mask, from the store or scored now.

    Killed and started again it does only the masks that are missing. UserError for a head that the
    model lacks, an unknown test set, or no sentences.
    """
    made_by = trained.asked
    corpus = trained.corpus if run.corpus is None else corpus_of(run.corpus, None)
    read = {"model": made_by.key, "corpus": corpus.digest}
    asked = Ingredients(MASKED, run, read, made_by.policy)
    folder = store.get(asked, lambda aside: _score(trained, corpus, run, aside))
    rows = dict(zip(distinct(run.masks), finished(folder / ROWS), strict=True))
    found = [rows[frozenset(mask)] for mask in run.masks]
    return Masked(
        run,
        np.array([corpus_bleu(np.array(row["statistics"])) for row in found]),
        np.array([row["statistics"] for row in found], dtype=np.int64),
        np.array([row["loss"] for row in found], dtype=np.float64),
    )


def pairs_of(corpus: ParallelCorpus, name: str, count: int) -> Pairs:
    """The first pairs of "train", "valid" or a test set; UserError where there is none."""
    if count < 1:
        raise UserError(f"sentences is {count}: give 1 or more")
    parts = {"train": corpus.train, "valid": corpus.valid, **corpus.tests}
    if name not in parts:
        raise UserError(f"{corpus.name} has no part {name!r}; it has {', '.join(parts)}")
    if not len(parts[name]):
        raise UserError(f"{corpus.name}: its part {name!r} is empty; name another")
    return parts[name].first(count)


@dataclass
class Scorer:
    """Translations and loss of one model on the same pairs, under one mask after another."""

    model: Transformer
    batches: list[Batch]
    search: Search
    memories: tuple[frozenset[HeadId], list[Memory]] | None = None

    @classmethod
    def of(cls, model: Transformer, pairs: Sequence[EncodedPair], search: Search) -> "Scorer":
        """The model is put in eval mode, and the pairs on its device."""
        device = next(model.parameters()).device
        return cls(model.eval(), [each.to(device) for each in in_order(pairs, TOKENS)], search)

    @torch.inference_mode()
    def score(self, mask: frozenset[HeadId]) -> tuple[list[list[int]], float]:
        """Target ids of every sentence's translation, and nats per target token, EOS among them."""
        with closed(self.model, mask):
            memories = self._encoded(mask)
            losses = map(self._losses, self.batches, memories)
            return self._translations(memories), float(torch.cat(list(losses)).mean())

    def _encoded(self, mask: frozenset[HeadId]) -> list[Memory]:
        """The encoder's output, kept for the next mask that closes the same encoder heads."""
        heads = frozenset(head for head in mask if head.kind is Kind.ENCODER)
        if self.memories is None or self.memories[0] != heads:
            self.memories = heads, [self.model.encode(batch.source) for batch in self.batches]
        return self.memories[1]

    def _translations(self, memories: list[Memory]) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for batch, memory in zip(self.batches, memories, strict=True):
            if self.search.beam == 1:
                limits = self.search.limits(batch.source)
                hypotheses = translate_greedily(self.model, *memory, limits)
            else:
                hypotheses = translate(self.model, batch.source, self.search)
            found |= zip(batch.sentences.tolist(), hypotheses, strict=True)
        return [found[sentence] for sentence in sorted(found)]

    def _losses(self, batch: Batch, memory: Memory) -> Float[Tensor, " token"]:
        """Cross-entropy of each target token without label smoothing, in float64."""
        real = batch.target_mask
        # Padding is left out before the logits, which cost more than all layers together.
        logits = self.model.logits(self.model.decode(batch.target_in, *memory)[real])
        return functional.cross_entropy(logits, batch.target_out[real], reduction="none").double()


def _score(trained: TrainedModel, corpus: ParallelCorpus, run: MaskedRun, folder: Path) -> None:
    """Appends a row for each mask that has none yet."""
    pairs, masks = pairs_of(corpus, run.test, run.sentences), distinct(run.masks)
    scorer = Scorer.of(trained.model(run.update), trained.encode(pairs), run.search)
    with closed(scorer.model, frozenset().union(*masks)):
        pass  # an unknown head is refused now and not after an hour
    done = len(finished(folder / ROWS))
    with (folder / ROWS).open("a") as file:
        for mask in tqdm(masks[done:], desc="masking heads", unit="mask", mininterval=2,
                         initial=done, total=len(masks)):  # fmt: skip
            hypotheses, loss = scorer.score(mask)
            found = statistics([*map(trained.target.decode, hypotheses)], pairs.target)
            file.write(json.dumps({"loss": loss, "statistics": found.tolist()}) + "\n")
            file.flush()


def distinct(masks: Iterable[Iterable[HeadId]]) -> list[frozenset[HeadId]]:
    """The different sets of heads, in order: each is scored once."""
    return list(dict.fromkeys(map(frozenset, masks)))


def one_head_out(
    trained: TrainedModel, test: str, sentences: int, store: Store, corpus: str | None = None
) -> Masked:
    """The whole model, and then the model without each of its heads, in the order of `heads_of`."""
    masks = ((), *((head,) for head in heads_of(trained)))
    return masked(trained, MaskedRun(test, sentences, masks, corpus=corpus), store)


def changes(found: Masked) -> np.ndarray:
    """BLEU of every mask but the first less that of the first, the whole model."""
    return found.bleu[1:] - found.bleu[0]
