"""The stage `released-masked`: a loaded translation model under one set of closed heads after
another, without training: losses on references and on its own translations, and BLEU.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from headbook.artefacts.masked import distinct
from headbook.corpora.batches import Batch, bucket
from headbook.models.attention import MemoryMask
from headbook.models.gates import closed
from headbook.models.loaded import digest
from headbook.models.translator import Candidates, Ids, Translator, TranslatorNetwork
from headbook.runs.rows import finished
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training.paired import corpus_bleu, statistics
from headbook.types import HeadId, Kind, UserError

RELEASED_MASKED = Stage("released-masked", version=1)
OWN, ROWS = "own.json", "rows.jsonl"
DIGITS = 5
"""Decimal places of a sentence's loss in the store."""

Mask = tuple[HeadId, ...]


@dataclass(frozen=True)
class ReleasedMaskedRun:
    """Heads to close, one set after another; () is the whole model.

    `translated` is whether sentences are also translated anew under each mask, which takes longest;
    `referenced` whether the loss on references is computed too, where there are any.
    """

    masks: tuple[Mask, ...]
    translated: bool = True
    referenced: bool = True


@dataclass(frozen=True)
class ReleasedMasked:
    """Results per mask, in the order of the run's masks.

    Losses are nats per sentence, summed over its `tokens` target pieces, EOS among them; `own` are
    those of the whole model's greedy translations. Probabilities are among the candidates for the
    sentence's batch (of a student those of its shortlist) and the batch's targets. Results not
    computed are None.
    """

    run: ReleasedMaskedRun
    own: Float[np.ndarray, "mask sentence"]
    own_tokens: Int[np.ndarray, " sentence"]
    reference: Float[np.ndarray, "mask sentence"] | None
    reference_tokens: Int[np.ndarray, " sentence"] | None
    statistics: Int[np.ndarray, "mask sentence 10"] | None

    @cached_property
    def bleu(self) -> Float[np.ndarray, " mask"]:
        """Cased BLEU in percent with the 13a tokeniser."""
        if self.statistics is None:
            raise UserError("nothing was translated: ask for translations and references")
        return np.array([corpus_bleu(each) for each in self.statistics])

    @property
    def own_loss(self) -> Float[np.ndarray, " mask"]:
        """Nats per target token on the whole model's translations."""
        return self.own.sum(1) / self.own_tokens.sum()

    @property
    def reference_loss(self) -> Float[np.ndarray, " mask"]:
        """Nats per target token on the references."""
        if self.reference is None or self.reference_tokens is None:
            raise UserError("no references were given")
        return self.reference.sum(1) / self.reference_tokens.sum()


def released_masked(
    model: Translator,
    sentences: Sequence[str],
    references: Sequence[str] | None,
    run: ReleasedMaskedRun,
    store: Store,
) -> ReleasedMasked:
    """The model under every mask, from the store or scored now.

    Interrupted and started again it computes the missing masks only. UserError for a head that the
    model lacks, no sentences, or translations without references to compare them with.
    """
    if not sentences:
        raise UserError("no sentences to translate: give one or more")
    if run.translated and references is None:
        raise UserError("BLEU needs references: give them, or ask for losses alone")
    read = {
        "model": digest(model.network),
        "sentences": _digest(sentences),
        "references": _digest(references or ()),
    }
    asked = Ingredients(RELEASED_MASKED, run, read, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _score(model, sentences, references, run, aside))
    rows = dict(zip(distinct(run.masks), finished(folder / ROWS), strict=True))
    found = [rows[frozenset(mask)] for mask in run.masks]
    lengths = json.loads((folder / OWN).read_text())

    def column(name: str, kind: type) -> np.ndarray | None:
        return np.array([row[name] for row in found], kind) if name in found[0] else None

    known = lengths.get("reference_tokens")
    return ReleasedMasked(
        run, column("own", float), np.array([len(ids) for ids in lengths["own"]]),
        column("reference", float), None if known is None else np.array(known),
        column("statistics", np.int64),
    )  # fmt: skip


@dataclass(frozen=True)
class Sentences:
    """One batch: its own translations and references, and what the whole encoder computes of it."""

    own: Batch
    reference: Batch | None
    allowed: Candidates
    among: Int[Tensor, " predicted"]  # ids that probabilities are normalised over
    barred: Bool[Tensor, "row predicted"]  # those that the row may not be translated to
    states: list[Float[Tensor, "batch source model"]]  # input of every encoder layer, and output
    mask: MemoryMask | None


class Scorer:
    """Losses and translations of the same sentences, under one mask after another.

    Encoder layers below the lowest closed head are not computed again. Sentences whose every piece
    is still the greedy choice are not decoded again.
    """

    def __init__(
        self, model: Translator, sources: Sequence[Ids], own: Sequence[Ids],
        references: Sequence[Ids] | None,
    ) -> None:  # fmt: skip
        self.model, self.network = model, model.network
        pairs = list(zip(sources, own, strict=True))
        with torch.inference_mode():
            self.batches = [
                self._prepared([pairs[index] for index in rows], rows, references)
                for rows in bucket(pairs, model.batch_tokens, range(len(pairs)))
            ]

    def _prepared(
        self, pairs: list[tuple[Ids, Ids]], rows: list[int], references: Sequence[Ids] | None
    ) -> Sentences:
        own = self.model.one_batch(pairs, rows)
        targets, reference = [own.target_out[own.target_mask]], None
        if references is not None:
            sources = [source for source, _ in pairs]
            both = [*zip(sources, (references[i] for i in rows), strict=True)]
            reference = self.model.one_batch(both, rows)
            targets.append(reference.target_out[reference.target_mask])
        allowed = self.model.candidates(own)
        among = torch.cat([allowed.ids, *targets]).unique()
        barred = torch.ones(len(rows), len(among), dtype=torch.bool)
        barred[:, torch.searchsorted(among, allowed.ids)] = allowed.barred
        first, mask = _first(self.network, own)
        states = [first]
        for layer in self.network.encoder:
            states.append(layer(states[-1], mask))
        return Sentences(own, reference, allowed, among, barred, states, mask)

    @torch.inference_mode()
    def score(self, mask: frozenset[HeadId], translated: bool) -> dict[str, dict[int, object]]:
        """By sentence: `own` and `reference` nats, and `translation`, target ids without EOS."""
        found: dict[str, dict[int, object]] = {"own": {}, "reference": {}, "translation": {}}
        with closed(self.network, mask):
            for batch in self.batches:
                memory, rows = self._memory(batch, mask), batch.own.sentences.tolist()
                scores = self.network.predictor(batch.among)
                own, logits = self._nats(batch, batch.own, memory, scores)
                found["own"] |= zip(rows, own, strict=True)
                if batch.reference is not None:
                    nats, _ = self._nats(batch, batch.reference, memory, scores)
                    found["reference"] |= zip(rows, nats, strict=True)
                if translated:
                    ids = self._translations(batch, memory, logits)
                    found["translation"] |= zip(rows, ids, strict=True)
        return found

    def _memory(
        self, batch: Sentences, mask: frozenset[HeadId]
    ) -> Float[Tensor, "batch source model"]:
        layers = [head.layer for head in mask if head.kind is Kind.ENCODER]
        first = min(layers, default=len(self.network.encoder))
        return self.network.encoded_from(first, batch.states[first], batch.mask)

    def _nats(
        self, batch: Sentences, target: Batch, memory: Tensor, scores
    ) -> tuple[list[float], Float[Tensor, "token predicted"]]:
        """Cross-entropy of each row, and the logits of its tokens, row by row."""
        real = target.target_mask
        logits = scores(self.network.decode(target.target_in, memory, batch.mask)[real])
        wanted = torch.searchsorted(batch.among, target.target_out[real])
        nats = functional.cross_entropy(logits, wanted, reduction="none").double()
        rows = nats.new_zeros(real.shape).masked_scatter(real, nats).sum(1)
        return rows.tolist(), logits

    def _translations(self, batch: Sentences, memory: Tensor, logits: Tensor) -> list[list[int]]:
        """The translations before, where they are still greedy; the others are decoded."""
        real = batch.own.target_mask
        row = torch.arange(len(real))[:, None].expand(real.shape)[real]
        choice = batch.among[logits.masked_fill(batch.barred[row], -torch.inf).argmax(1)]
        wrong = torch.zeros(real.shape, dtype=torch.bool)
        wrong[real] = choice != batch.own.target_out[real]
        found = [
            ids[mask].tolist()[:-1] for ids, mask in zip(batch.own.target_out, real, strict=True)
        ]
        again = wrong.any(1).nonzero().squeeze(1)
        if len(again):
            mask = None if batch.mask is None else batch.mask[again]
            some, allowed = batch.own.select(again), batch.allowed.of(again)
            decoded = self.model.greedy(some, memory[again], mask, allowed)
            for place, ids in zip(again.tolist(), decoded, strict=True):
                found[place] = ids
        return found


def _first(network: TranslatorNetwork, batch: Batch) -> tuple[Tensor, MemoryMask | None]:
    """The first encoder layer's input, and the mask of the padding."""
    real = batch.source_mask
    mask = None if bool(real.all()) else real[:, None, None, :]
    return network.embedded_source(batch.source), mask


def _score(
    model: Translator, sentences: Sequence[str], references: Sequence[str] | None,
    run: ReleasedMaskedRun, folder: Path,
) -> None:  # fmt: skip
    """Appends a row for each mask that has none yet."""
    masks = distinct(run.masks)
    model.network.eval()
    with closed(model.network, frozenset().union(*masks)):
        pass  # an unknown head is refused now and not after an hour
    sources, targets = _encoded(model, sentences, references if run.referenced else None)
    if not (folder / OWN).exists():
        kept: dict[str, object] = {"own": _own(model, sources)}
        if targets is not None:
            kept["reference_tokens"] = [len(ids) for ids in targets]
        (folder / f"{OWN}.partial").write_text(json.dumps(kept))
        (folder / f"{OWN}.partial").rename(folder / OWN)
    scorer = Scorer(model, sources, json.loads((folder / OWN).read_text())["own"], targets)
    done = len(finished(folder / ROWS))
    with (folder / ROWS).open("a") as file:
        for mask in tqdm(masks[done:], desc="masking heads", unit="mask", mininterval=2,
                         initial=done, total=len(masks)):  # fmt: skip
            found = scorer.score(mask, run.translated)
            file.write(json.dumps(_row(model, found, references)) + "\n")
            file.flush()


def _row(
    model: Translator, found: dict[str, dict[int, object]], references: Sequence[str] | None
) -> dict[str, object]:
    """Stored results of a mask, one per sentence, in their order."""
    row: dict[str, object] = {
        name: [round(found[name][index], DIGITS) for index in sorted(found[name])]
        for name in ("own", "reference")
        if found[name]
    }
    if found["translation"]:
        ids = found["translation"]
        texts = [model.text(ids[index]) for index in sorted(ids)]
        row["statistics"] = statistics(texts, references).tolist()
    return row


@torch.inference_mode()
def _own(model: Translator, sources: Sequence[Ids]) -> list[list[int]]:
    """Greedy translations of the whole model, with their end."""
    found: dict[int, list[int]] = {}
    network, order = model.network, [(source, [model.end]) for source in sources]
    for rows in bucket(order, model.batch_tokens, range(len(order))):
        batch = model.one_batch([order[index] for index in rows], rows)
        states, mask = _first(network, batch)
        memory = network.encoded_from(0, states, mask)
        translations = model.greedy(batch, memory, mask, model.candidates(batch))
        found |= zip(rows, translations, strict=True)
    return [[*found[index], model.end] for index in range(len(sources))]


def _encoded(
    model: Translator, sentences: Sequence[str], references: Sequence[str] | None
) -> tuple[list[list[int]], list[list[int]] | None]:
    """Ids of both sides, in order, with their ends."""
    sources: dict[int, list[int]] = {}
    targets: dict[int, list[int]] = {}
    for batch in model.batches(sentences, references):
        for row, index in enumerate(batch.sentences.tolist()):
            sources[index] = batch.source[row][batch.source_mask[row]].tolist()
            targets[index] = batch.target_out[row][batch.target_mask[row]].tolist()
    order = range(len(sentences))
    known = None if references is None else [targets[index] for index in order]
    return [sources[index] for index in order], known


def _digest(lines: Sequence[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()
