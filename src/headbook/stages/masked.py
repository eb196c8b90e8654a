"""The stage `masked`: BLEU and loss of one model without this set of heads, or that, or that."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.nn import functional
from tqdm import tqdm

from headbook.corpora.batches import PAD, EncodedPair, in_order
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.models.decoding import Search
from headbook.models.gates import closed
from headbook.models.transformer import Transformer
from headbook.runs.store import Ingredients, Stage, Store
from headbook.stages.model import TrainedModel, corpus_of, ingredients
from headbook.training.paired import corpus_bleu, statistics
from headbook.training.scoring import translate_corpus
from headbook.types import HeadId, UserError

MASKED = Stage("masked", version=1)
GREEDY = Search(beam=1)
TOKENS = 8192
"""Padded tokens a batch: large, as a greedy step of a small model is mostly overhead."""
ROWS = "rows.jsonl"


@dataclass(frozen=True)
class MaskedRun:
    """Which heads are closed, one set after another, and what the model then translates.

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
    """What each mask of a run gives, in the order of its masks.

    `bleu` is cased, in percent, with the 13a tokeniser; `statistics` are what it is made of (see
    training/paired.py); `loss` is the cross-entropy in nats a target token, teacher-forced.
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
    made_by = ingredients(trained.run, trained.corpus)
    corpus = trained.corpus if run.corpus is None else corpus_of(run.corpus, None)
    read = {"model": made_by.key, "corpus": corpus.digest}
    asked = Ingredients(MASKED, run, read, made_by.policy)
    folder = store.get(asked, lambda aside: _score(trained, corpus, run, aside))
    rows = dict(zip(_distinct(run), _rows(folder / ROWS), strict=True))
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


def model_at(trained: TrainedModel, update: int | None) -> Transformer:
    """The best model (None), the untrained one (0), or the one kept at that update."""
    return trained.untrained() if update == 0 else trained.model(update)


def loss_of(model: Transformer, pairs: Sequence[EncodedPair], tokens: int = TOKENS) -> float:
    """Cross-entropy in nats a target token, EOS among them, without label smoothing."""
    device = next(model.parameters()).device
    total = count = 0.0
    with torch.inference_mode():
        for batch in in_order(pairs, tokens):
            batch = batch.to(device)
            wanted = batch.target_out.flatten()
            logits = model(batch).flatten(0, 1)
            losses = functional.cross_entropy(logits, wanted, ignore_index=PAD, reduction="none")
            total += float(losses.double().sum())
            count += float((wanted != PAD).sum())
    return total / count


def _score(trained: TrainedModel, corpus: ParallelCorpus, run: MaskedRun, folder: Path) -> None:
    """Appends a row for each mask that has none yet."""
    model = model_at(trained, run.update).eval()
    pairs, masks = pairs_of(corpus, run.test, run.sentences), _distinct(run)
    with closed(model, frozenset().union(*masks)):
        pass  # an unknown head is refused now and not after an hour
    done = len(_rows(folder / ROWS))
    encoded = trained.encode(pairs)
    with (folder / ROWS).open("a") as file:
        for mask in _bar(masks, done):
            with closed(model, mask):
                row = _row(trained, model, encoded, pairs, run.search)
            file.write(json.dumps(row) + "\n")
            file.flush()


def _row(
    trained: TrainedModel,
    model: Transformer,
    encoded: list[EncodedPair],
    pairs: Pairs,
    search: Search,
) -> dict[str, object]:
    sources = [source for source, _ in encoded]
    translations = translate_corpus(model, sources, trained.target, search, TOKENS, progress=False)
    return {
        "loss": loss_of(model, encoded),
        "statistics": statistics(translations, pairs.target).tolist(),
    }


def _distinct(run: MaskedRun) -> list[frozenset[HeadId]]:
    """The sets of heads to score: a set that is asked for twice is scored once."""
    return list(dict.fromkeys(map(frozenset, run.masks)))


def _rows(path: Path) -> list[dict]:
    """The finished rows; what a kill left of the next one is cut off."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def _bar(masks: list[frozenset[HeadId]], done: int) -> Iterator[frozenset[HeadId]]:
    return iter(
        tqdm(masks[done:], desc="masking heads", unit="mask", mininterval=2,
             initial=done, total=len(masks))
    )  # fmt: skip
