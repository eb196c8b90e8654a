"""Small sentiment classifiers of page 56: their text, their training, their outputs."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from headbook.corpora.batches import UNK, Batch, EncodedPair, bucket, collate, epoch, pad
from headbook.corpora.rated import Rated, decided, load_rated, spread
from headbook.looking.load import load
from headbook.models.pooled import Pooled, PooledClassifier, PooledConfig, Reader
from headbook.released.hugging_face import HuggingModel
from headbook.runs.store import Ingredients, Stage, Store
from headbook.types import UserError

CLASSIFIER = Stage("classifier", version=1)
UNIFORM = "uniform"
"""Pools all words alike."""
OFTEN = 2
"""Words that are rarer in the training sentences are read as one unknown word."""
LEAST = 4
"""Sentences that are explained have so many words: fewer have no order to speak of."""
TOKENS = 1024
WIDTH = 128
RATE = 1e-3
Loss = Callable[[Pooled, Batch], Tensor]
Imposed = Sequence[np.ndarray]
"""Weights of each sentence's words, in the order of the sentences."""


@dataclass(frozen=True)
class Reviews:
    """Encoded sentences with their label, [ids] and [0 or 1], and vectors of all ids at the start.

    The vectors of reserved ids are zero; without any, words start from random ones.
    """

    train: list[EncodedPair]
    valid: list[EncodedPair]
    test: list[EncodedPair]
    vocabulary: int
    vectors: Float[Tensor, "id width"] | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of all sentences and of the vectors."""
        found = sha256(json.dumps([self.train, self.valid, self.test]).encode())
        if self.vectors is not None:
            found.update(self.vectors.numpy().tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Training:
    """One classifier of a text; `pooling` says whose weights it pools with, its own or others."""

    reader: Reader
    pooling: str
    seed: int
    epochs: int


@dataclass(frozen=True)
class Outputs:
    """A model's probability of the positive class per sentence, and weights and scores of words."""

    shares: np.ndarray
    weights: list[np.ndarray]
    scores: list[np.ndarray]


def reviews(name: str, vectors: str = "") -> Reviews:
    """The binary task of a rated corpus, words lower-cased; `vectors` names a model that has some.

    UserError for a model whose vectors of tokens cannot be read.
    """
    splits = {split: decided(found) for split, found in load_rated(name).items()}
    counts = Counter(word.lower() for each in splits["train"] for word in each.words)
    often = [word for word, count in counts.most_common() if count >= OFTEN]
    ids = {word: number for number, word in enumerate(often, start=UNK + 1)}

    def encoded(sentence: Rated) -> EncodedPair:
        return [ids.get(word.lower(), UNK) for word in sentence.words], [int(sentence.positive)]

    parts = [[encoded(each) for each in splits[split]] for split in ("train", "dev", "test")]
    start = word_vectors(vectors, often, WIDTH) if vectors else None
    return Reviews(*parts, vocabulary=UNK + 1 + len(often), vectors=start)


def word_vectors(name: str, words: Sequence[str], width: int) -> Float[Tensor, "id width"]:
    """A model's vectors of its tokens, mean over a word's, on their `width` principal axes.

    Scaled to a standard deviation of one; rows of zeros for the reserved ids come first.
    """
    loaded = load(name)
    if not isinstance(loaded, HuggingModel):
        raise UserError(f"{name} is no model of transformers: give minilm as vectors, or none")
    tokens = loaded.network.model.get_input_embeddings().weight.detach()
    encoded = [loaded.text.encoded(word) for word in words]
    found = torch.stack(
        [
            tokens[[i for i, added in zip(each.ids, each.special, strict=True) if not added]].mean(
                0
            )
            for each in encoded
        ]
    )
    found = found - found.mean(0)
    axes = torch.linalg.svd(found, full_matrices=False).Vh[:width]
    turned = found @ axes.T
    return torch.cat([torch.zeros(UNK + 1, width), turned / turned.std()])


def explained(found: Reviews, sentences: int) -> list[EncodedPair]:
    """So many test sentences that are long enough, from all over the test set, by length."""
    long = [pair for pair in found.test if len(pair[0]) >= LEAST]
    return sorted(spread(long, sentences), key=lambda pair: len(pair[0]))


def stored(
    run: Training, found: Reviews, store: Store, make: Callable[[], PooledClassifier]
) -> PooledClassifier:
    """The classifier of a run, from the store or made now: an interrupted page goes on there."""
    asked = Ingredients(CLASSIFIER, run, {"text": found.digest}, {"device": "cpu"})

    def write(folder: Path) -> None:
        save_file(make().state_dict(), folder / "weights.safetensors")

    folder = store.get(asked, write)
    model = _new(found, run.reader, run.pooling == UNIFORM)
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    return model.eval()


def trained(
    found: Reviews,
    reader: Reader,
    seed: int,
    epochs: int,
    uniform: bool = False,
    imposed: tuple[Imposed, Imposed] | None = None,
) -> PooledClassifier:
    """A classifier of these reviews, as it was after its best epoch on the validation set.

    `imposed` are weights of the training and of the validation sentences, instead of its own.
    """
    torch.manual_seed(seed)
    model = _new(found, reader, uniform)
    train, valid = imposed or (None, None)

    def loss(pooled: Pooled, batch: Batch) -> Tensor:
        return functional.binary_cross_entropy_with_logits(
            pooled.logits, batch.target_out[:, 0].float()
        )

    best, kept = -1.0, {}
    for _ in tqdm(
        _passes(model, found.train, loss, seed, epochs, train),
        f"{reader}, seed {seed}",
        total=epochs,
    ):
        if (score := accuracy(outputs(model, found.valid, valid), found.valid)) > best:
            best, kept = score, {name: each.clone() for name, each in model.state_dict().items()}
    model.load_state_dict(kept)
    return model.eval()


def adversary(
    found: Reviews, base: Outputs, reader: Reader, seed: int, epochs: int, strength: float
) -> PooledClassifier:
    """A model with the outputs of another one and other weights (Wiegreffe and Pinter 2019, 4).

    The loss of a sentence is |ŷ − ŷ_base| − strength · KL(α ‖ α_base); `base` is of the training
    sentences.
    """
    torch.manual_seed(seed)
    model = _new(found, reader)
    shares = torch.from_numpy(base.shares).float()

    def loss(pooled: Pooled, batch: Batch) -> Tensor:
        apart = (pooled.logits.sigmoid() - shares[batch.sentences]).abs()
        rows = [base.weights[row] for row in batch.sentences.tolist()]
        own, other = (each.clamp_min(1e-9) for each in (pooled.weights, _padded(rows)))
        far = (pooled.weights * (own / other).log()).sum(1)
        return (apart - strength * far).mean()

    for _ in tqdm(
        _passes(model, found.train, loss, seed, epochs), f"adversary, seed {seed}", total=epochs
    ):
        pass
    return model


def _new(found: Reviews, reader: Reader, uniform: bool = False) -> PooledClassifier:
    model = PooledClassifier(
        PooledConfig(found.vocabulary, reader, WIDTH, layers=1, uniform=uniform)
    )
    if found.vectors is not None:
        model.words.weight.data.copy_(found.vectors)
    return model


def _passes(
    model: PooledClassifier,
    pairs: Sequence[EncodedPair],
    loss: Loss,
    seed: int,
    epochs: int,
    imposed: Imposed | None = None,
) -> Iterator[int]:
    """Trains, and stops after each pass over the pairs with the model in evaluation mode."""
    optimiser = torch.optim.Adam(model.parameters(), RATE, weight_decay=1e-5, fused=True)
    for number in range(epochs):
        model.train()
        for rows in epoch(pairs, TOKENS, seed, number):
            batch = collate([pairs[row] for row in rows], rows)
            weights = None if imposed is None else _padded([imposed[row] for row in rows])
            optimiser.zero_grad()
            loss(model(batch.source, weights), batch).backward()
            optimiser.step()
        model.eval()
        yield number


@torch.no_grad()
def outputs(
    model: PooledClassifier, pairs: Sequence[EncodedPair], imposed: Imposed | None = None
) -> Outputs:
    """Output of a model for each sentence, in their order."""
    shares, weights, scores = np.empty(len(pairs)), [None] * len(pairs), [None] * len(pairs)
    for rows in bucket(pairs, 4 * TOKENS, range(len(pairs))):
        given = None if imposed is None else _padded([imposed[row] for row in rows])
        found = model(pad([pairs[row][0] for row in rows]), given)
        shares[rows] = found.logits.sigmoid().numpy()
        for row, own, score in zip(rows, found.weights, found.scores, strict=True):
            length = len(pairs[row][0])
            weights[row], scores[row] = (each[:length].double().numpy() for each in (own, score))
    return Outputs(shares, weights, scores)


def accuracy(found: Outputs, pairs: Sequence[EncodedPair]) -> float:
    """Share of the sentences that are classified as they are labelled."""
    labels = np.array([label for _, (label,) in pairs])
    return float(((found.shares > 0.5) == labels).mean())


def _padded(weights: Sequence[np.ndarray]) -> Float[Tensor, "batch word"]:
    return pad_sequence([torch.from_numpy(each).float() for each in weights], batch_first=True)
