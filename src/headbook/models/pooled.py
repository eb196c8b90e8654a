"""A sentence classifier that pools the states of words by additive attention, one head.

The shape of Jain and Wallace 2019: states h_t of an encoder, weights α = softmax(v · tanh(W h_t)),
and a linear layer on Σ α_t h_t. As that layer is linear, the logit is Σ α_t s_t with one score s_t
per word, s_t = u · h_t + b.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headbook import paths
from headbook.models.dropout import Dropout
from headbook.models.transformer import EncoderLayer, TransformerConfig, sinusoids
from headbook.text.batches import PAD
from headbook.types import UserError


class Pooled(NamedTuple):
    """One pass: logits of the positive class, weights of words, and the words' scores."""

    logits: Float[Tensor, " batch"]
    weights: Float[Tensor, "batch word"]
    scores: Float[Tensor, "batch word"]


class PooledClassifier(nn.Module):
    """Words are ids, PAD on the right.

    States are those of a "BiLSTM", of a "transformer" with one layer of four heads, or of an "MLP",
    which reads each word by itself; `uniform` gives all words the same weight.
    """

    def __init__(
        self, vocabulary: int, reader: str = "BiLSTM", width: int = 128, uniform: bool = False
    ) -> None:
        super().__init__()
        self.reader, self.uniform = reader, uniform
        self.words = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.dropout = Dropout(0.3)
        if reader == "BiLSTM":
            self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        elif reader == "transformer":
            shape = TransformerConfig(vocabulary, 1, 1, 0, width, 2 * width, 4, dropout=0.1)
            self.layer = EncoderLayer(shape, 0)
            self.norm = nn.LayerNorm(width)
        else:
            self.inner = nn.Linear(width, width)
        self.inner_attention = nn.Linear(width, width // 2)
        self.outer_attention = nn.Linear(width // 2, 1, bias=False)
        self.output = nn.Linear(width, 1)

    def forward(
        self, ids: Int[Tensor, "batch word"], weights: Float[Tensor, "batch word"] | None = None
    ) -> Pooled:
        """Reads sentences; `weights` take the place of the model's own."""
        return self.read(self.words(ids), ids != PAD, weights)

    def read(
        self,
        vectors: Float[Tensor, "batch word width"],
        real: Bool[Tensor, "batch word"],
        weights: Float[Tensor, "batch word"] | None = None,
    ) -> Pooled:
        """The same from the words' vectors; `real` is True at words and False at padding."""
        states = self.dropout(self._states(self.dropout(vectors), real))
        if weights is None and self.uniform:
            weights = real / real.sum(1, keepdim=True)
        elif weights is None:
            energies = self.outer_attention(self.inner_attention(states).tanh())[..., 0]
            weights = energies.masked_fill(~real, -torch.inf).softmax(-1)
        scores = self.output(states)[..., 0].masked_fill(~real, 0.0)
        return Pooled((weights * scores).sum(1), weights, scores)

    def _states(self, vectors: Tensor, real: Tensor) -> Tensor:
        if self.reader == "MLP":
            return self.inner(vectors).tanh()
        if self.reader == "BiLSTM":
            lengths = real.sum(1).cpu()
            packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
            states, _ = self.lstm(packed)
            padded = pad_packed_sequence(states, batch_first=True, total_length=real.shape[1])
            return padded[0]
        states = vectors + sinusoids(*vectors.shape[1:]).to(vectors)
        return self.norm(self.layer(states, real[:, None, None, :]))


def published(name: str) -> tuple[PooledClassifier, list[str]]:
    """A published BiLSTM and the word of each of its ids; UserError outside a clone of the book.

    The one of page 56 is that of `pooling.Setting()`, written by safetensors' `save_file` with the
    words, one a line, as `words`.
    """
    path = paths.DATA / "models" / f"{name}.safetensors"
    if not path.exists():
        raise UserError(f"{path} is missing: its weights are read from a clone of the book")
    with safe_open(path, "pt") as file:
        words = file.metadata()["words"].split("\n")
        state = {each: file.get_tensor(each) for each in file.keys()}  # noqa: SIM118
    model = PooledClassifier(len(words))
    model.load_state_dict(state)
    return model.eval(), words
